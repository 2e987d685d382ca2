"""`[tool.amplint]` and the options of the command line, and what they select."""

from pathlib import Path

import pytest

from amplint import Finding, Group, Rule, Unrun
from amplint.findings.finding import RuleName
from amplint.project.config import ConfigError, Settings, check_selectors
from amplint.project.settings_hierarchy import SettingsHierarchy
from amplint.rule.of_engine import UNPARSABLE, UNUSED
from amplint.util.positions import Position, Span


def rule(code: str, name: str, group: Group) -> Rule:
    return Rule(code, "doc", group, "0.1", Unrun("", ""), name=name)


RULES = (
    UNPARSABLE,
    UNUSED,
    rule("AMP101", "host-read", Group.PERFORMANCE),
    rule("AMP102", "host-read-in-eval", Group.PEDANTIC),
    rule("AMP103", "tensor-truth", Group.PERFORMANCE),
    rule("AMP601", "data-parallel", Group.PERFORMANCE),
    rule("AMP701", "legacy-autocast", Group.MIGRATION),
)


def checked(
    root: Path, given: dict[str, object] | None = None, config: Path | None = None
) -> Settings:
    found = SettingsHierarchy(given, config, root).at(str(root))
    check_selectors(found, RULES)
    return found


def settings(root: Path, toml: str = "", **options: object) -> Settings:
    if toml:
        (root / "pyproject.toml").write_text(toml)
    given = {key.replace("_", "-"): value for key, value in options.items()}
    return checked(root, given)


def selected(chosen: Settings) -> set[str]:
    names = {rule.code: [RuleName(rule.code, rule.name)] for rule in RULES}
    return {r.code for r in RULES if chosen.selects(names[r.code], r.group)} - {"AMP000"}


def finding(code: str, path: str = "a.py", group: Group = Group.PERFORMANCE) -> Finding:
    name = next(r.name for r in RULES if r.code == code)
    return Finding(code, name, group, path, Span(Position(1, 1), Position(1, 2)), "it is so")


# ---------------------------------------------------------------------------------- selection


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({}, {"AMP001", "AMP101", "AMP103", "AMP601", "AMP701"}),
        ({"select": ["AMP101"]}, {"AMP101"}),
        ({"select": ["AMP1"]}, {"AMP101", "AMP102", "AMP103"}),
        ({"select": ["AMP10"]}, {"AMP101", "AMP102", "AMP103"}),
        ({"select": ["AMP"]}, {"AMP001", "AMP101", "AMP102", "AMP103", "AMP601", "AMP701"}),
        ({"select": ["ALL"]}, {"AMP001", "AMP101", "AMP102", "AMP103", "AMP601", "AMP701"}),
        ({"select": ["migration"]}, {"AMP701"}),
        ({"select": ["data-parallel"]}, {"AMP601"}),
        ({"select": []}, set()),
        ({"extend-select": ["pedantic"], "select": ["AMP701"]}, {"AMP102", "AMP701"}),
        ({"ignore": ["performance"]}, {"AMP001", "AMP701"}),
        ({"ignore": ["performance", "suppression"]}, {"AMP701"}),
        ({"ignore": ["AMP1"], "select": ["AMP1", "AMP7"]}, {"AMP701"}),
        # What is selected by its own code or name is not ignored by a wider word ...
        (
            {"ignore": ["AMP1"], "extend-select": ["AMP103"]},
            {"AMP001", "AMP103", "AMP601", "AMP701"},
        ),
        ({"ignore": ["pedantic"], "select": ["AMP1", "AMP102"]}, {"AMP101", "AMP102", "AMP103"}),
        # ... only by its own.
        ({"ignore": ["AMP103"], "select": ["AMP101", "AMP103"]}, {"AMP101"}),
        ({"ignore": ["host-read"], "select": ["AMP101", "AMP103"]}, {"AMP103"}),
    ],
)
def test_selectors(tmp_path: Path, options: dict[str, object], codes: set[str]) -> None:
    assert selected(checked(tmp_path, options)) == codes


def test_a_finding_that_is_pedantic_by_evidence_is_selected_as_such(tmp_path: Path) -> None:
    mild = finding("AMP101", group=Group.PEDANTIC)
    assert not settings(tmp_path).selects_finding(mild)
    assert settings(tmp_path, select=["AMP101"]).selects_finding(mild)
    assert settings(tmp_path, extend_select=["pedantic"]).selects_finding(mild)


def test_a_file_that_cannot_be_read_is_reported_unless_amp000_itself_is_ignored(
    tmp_path: Path,
) -> None:
    broken = finding("AMP000", group=Group.CORRECTNESS)
    assert settings(tmp_path, select=["AMP101"]).selects_finding(broken)
    assert settings(tmp_path, ignore=["correctness", "AMP"]).selects_finding(broken)
    assert not settings(tmp_path, ignore=["AMP000"]).selects_finding(broken)


# ---------------------------------------------------------------------------------- the file


def test_all_keys_are_read(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        """
        [tool.amplint]
        select = ["AMP1", "migration"]
        ignore = ["AMP103"]
        extend-select = ["data-parallel"]
        exclude = ["vendor/"]
        roots = ["packages/*/", "examples"]
        target-torch = "2.4"
        assume-autocast = true
        [tool.amplint.per-file-ignores]
        "tests/*" = ["AMP101"]
        """,
    )
    assert found == Settings(
        root=tmp_path,
        select=("AMP1", "migration"),
        ignore=("AMP103",),
        extend_select=("data-parallel",),
        exclude=("vendor/",),
        roots=("packages/*", "examples"),
        per_file_ignores=(("tests/*", ("AMP101",)),),
        target_torch="2.4",
        assume_autocast=True,
    )


def test_an_option_replaces_the_same_key_of_the_file(tmp_path: Path) -> None:
    toml = '[tool.amplint]\nselect = ["AMP1"]\nignore = ["AMP103"]'
    found = settings(tmp_path, toml, select=["AMP6"])
    assert (found.select, found.ignore) == (("AMP6",), ("AMP103",))


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        ('selct = ["AMP1"]', "unknown key `selct`; did you mean `select`?"),
        ('perfileignores = ["AMP1"]', "did you mean `per-file-ignores`?"),
        ('select = ["AMP110"]', "`select`: there is no rule `AMP110`; did you mean `AMP1"),
        ('select = ["AMP8"]', "there is no rule `AMP8`; did you mean `AMP"),
        ('ignore = ["data-paralel"]', "did you mean `data-parallel`?"),
        ('select = ["performence"]', "did you mean `performance`?"),
        ('select = "AMP101"', "`select` must be a list of strings, not 'AMP101'"),
        ("ignore = [101]", "`ignore` must be a list of strings, not [101]"),
        ('exclude = ["!"]', "`exclude`: '!' is not a pattern as in .gitignore"),
        ('exclude = ["[a"]', "`exclude`: '[a' is not a pattern as in .gitignore"),
        ('exclude = ["a/", "[z-a]"]', "`exclude`: '[z-a]' is not a pattern as in .gitignore"),
        ('roots = ["[a"]', """`roots`: '[a' is not a directory like "packages/*\""""),
        (
            'per-file-ignores = {"![a" = ["AMP1"]}',
            "`per-file-ignores`: '![a' is not a pattern as in .gitignore",
        ),
        ("exclude = {}", "`exclude` must be a list of strings, not {}"),
        ('roots = "examples"', "`roots` must be a list of strings, not 'examples'"),
        (
            'roots = ["**/examples"]',
            "`roots`: '**/examples' is not a directory like \"packages/*\"",
        ),
        ('roots = ["./examples"]', "`roots`: './examples' is not a directory like \"packages/*\""),
        ('per-file-ignores = ["AMP1"]', "`per-file-ignores` must be a table"),
        ('per-file-ignores = { "a.py" = ["AMP9"] }', "'a.py'`: there is no rule `AMP9`"),
        (
            "target-torch = 2.4",
            '`target-torch` must be a version in quotes, such as "2.4", not 2.4',
        ),
        ('target-torch = "two"', "such as \"2.4\", not 'two'"),
        (
            'assume-autocast = "true"',
            "must be true, false or \"auto\", not 'true'",
        ),
    ],
)
def test_a_setting_that_does_not_exist_is_named_with_the_nearest(
    tmp_path: Path, toml: str, sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, f"[tool.amplint]\n{toml}")
    assert sentence.replace("'a.py'`", "'a.py'") in str(caught.value)
    assert str(tmp_path / "pyproject.toml") in str(caught.value)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"[tool.amplint\n", "is not valid TOML"),
        (b"[tool]\namplint = 3\n", "[tool.amplint] is not a table"),
        (b"# \xff\n[tool.amplint]\n", "is not UTF-8"),
    ],
)
def test_an_unreadable_file_is_named(tmp_path: Path, data: bytes, sentence: str) -> None:
    (tmp_path / "pyproject.toml").write_bytes(data)
    with pytest.raises(ConfigError, match=r"pyproject\.toml") as caught:
        checked(tmp_path)
    assert sentence in str(caught.value)


def test_a_config_that_is_missing_or_says_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.toml: cannot be read: No such file"):
        checked(tmp_path, config=tmp_path / "gone.toml")
    (tmp_path / "other.toml").write_text("[tool.black]\n")
    with pytest.raises(ConfigError, match=r"there is no \[tool\.amplint\] in it"):
        checked(tmp_path, config=tmp_path / "other.toml")


# ---------------------------------------------------------------------------------- roots


@pytest.mark.parametrize(
    ("file", "root"),
    [
        ("packages/one/src/a.py", "packages/one"),
        ("packages/one/examples/a.py", "packages/one/examples"),
        ("packages/a.py", ""),
        ("src/packages/one/a.py", ""),
        ("examples.py", ""),
    ],
)
def test_the_root_of_a_file_is_the_nearest_that_a_pattern_names(
    tmp_path: Path, file: str, root: str
) -> None:
    chosen = settings(tmp_path, roots=["packages/*", "packages/*/ex*", "examples"])
    directory = str(tmp_path / file).rpartition("/")[0]
    assert chosen.root_of(directory) == str(tmp_path / root)


# ---------------------------------------------------------------------------------- per file


@pytest.mark.parametrize(
    ("pattern", "ignored"),
    [
        ("tests/", {"tests/a.py", "tests/sub/b.py"}),
        ("tests/*.py", {"tests/a.py"}),
        ("b.py", {"tests/sub/b.py"}),
        ("!tests/", {"src/c.py"}),
    ],
)
def test_per_file_ignores(tmp_path: Path, pattern: str, ignored: set[str]) -> None:
    chosen = settings(tmp_path, per_file_ignores={pattern: ["AMP1"]})
    paths = ("tests/a.py", "tests/sub/b.py", "src/c.py")
    found = {
        path for path in paths if chosen.ignores_in_file(finding("AMP101", path), tmp_path / path)
    }
    assert found == ignored
    assert not chosen.ignores_in_file(finding("AMP601"), tmp_path / "tests/a.py")
