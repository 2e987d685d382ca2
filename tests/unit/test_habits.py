"""What users of other linters type: it does what they expect, by what amplint has already."""

import json
import subprocess
from pathlib import Path

import pytest

from amplint.rule import registry
from tests.command import LEGACY, MODERN, Amplint, Ran
from tests.helpers import ROOT

# A finding whose fix is unsafe.
BUILT_AND_MOVED = "import torch\n\n\ndef f(device):\n    return torch.rand(3).to(device)\n"


@pytest.fixture(autouse=True)
def project(project: Path) -> Path:
    (project / "requirements.txt").write_text("torch>=2.4")
    return project


# ------------------------------------------------------------------------- check --fix, --diff


@pytest.mark.parametrize("text", [LEGACY, MODERN, BUILT_AND_MOVED, LEGACY + BUILT_AND_MOVED, "x ="])
@pytest.mark.parametrize("unsafe", [[], ["--unsafe-fixes"]])
def test_check_fix_is_fix_apply(
    amplint: Amplint, project: Path, text: str, unsafe: list[str]
) -> None:
    file = project / "a.py"
    file.write_text(text)
    one, written = amplint("fix", "--apply", *unsafe), file.read_text()
    file.write_text(text)
    assert amplint("check", "--fix", *unsafe) == one
    assert file.read_text() == written


def test_check_fix_ends_with_1_for_what_is_left_alone(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    assert amplint("check", "--fix").status == 0
    (project / "a.py").write_text(BUILT_AND_MOVED)
    assert amplint("check", "--fix").status == 1
    assert amplint("check", "--fix", "--exit-zero").status == 0
    assert amplint("check", "--fix", "--fail-on", "correctness").status == 0
    (project / "a.py").write_text(f"{LEGACY}{BUILT_AND_MOVED}")
    ran = amplint("check", "--fix", "--output-format", "json")
    assert ran.status == 1
    assert [each["code"] for each in json.loads(ran.out)] == ["AMP501"]
    assert amplint("check", "--fix", "--unsafe-fixes").status == 0


def test_check_diff_prints_the_diff_of_fix(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    ran = amplint("check", "--diff")
    assert ran.out == amplint("fix").out
    assert (ran.status, ran.err) == (1, "would fix 1 finding in 1 file; --fix writes the fixes\n")
    assert amplint("check", "--fix", "--diff") == ran, "as in ruff"
    assert amplint("check", "--diff", "--exit-zero").status == 0
    assert (project / "a.py").read_text() == LEGACY
    subprocess.run(["git", "apply", "-"], input=ran.out.encode(), check=True, cwd=project)
    assert (project / "a.py").read_text() == MODERN


def test_check_diff_ends_with_0_where_there_is_no_diff(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(BUILT_AND_MOVED)
    ran = amplint("check", "--diff")
    assert (ran.status, ran.out) == (0, "")
    assert amplint("fix").status == 1, "what is left counts there"
    assert amplint("check", "--diff", "--unsafe-fixes").status == 1
    assert amplint("check", "--diff", "gone.py").status == 2


def test_no_fix_is_what_happens_anyway(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    assert amplint("check", "--no-fix") == amplint("check") == amplint("check", "--fix", "--no-fix")
    assert (project / "a.py").read_text() == LEGACY


def test_check_fix_heeds_the_baseline(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(BUILT_AND_MOVED)
    assert amplint("baseline").status == 0
    assert amplint("check", "--fix").status == 0
    assert amplint("check", "--fix", "--no-baseline").status == 1
    assert amplint("check", "--fix", "--unsafe-fixes").status == 0
    assert "AMP501" not in (project / ".amplint-baseline.json").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--fix", "--new-since", "HEAD"],
        ["--fix", "--add-ignores", "known"],
        ["--diff", "--format", "json"],
        ["--diff", "--statistics"],
        ["--diff", "--timeout", "3"],
    ],
)
def test_what_does_not_go_with_fixes(amplint: Amplint, arguments: list[str]) -> None:
    ran = amplint("check", *arguments)
    assert ran.status == 2
    assert f"{arguments[1]} cannot be combined with --" in ran.err


def test_check_fix_of_standard_input_writes_it(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = project / "text"
    text.write_text(LEGACY)
    for arguments, ran in (
        (["check", "--fix", "-"], Ran(0, MODERN, "1 file, no findings\n")),
        (["check", "--fix", "-q", "-"], Ran(0, MODERN, "")),
    ):
        with text.open() as stream:
            monkeypatch.setattr("sys.stdin", stream)
            assert amplint(*arguments) == ran
    with text.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        ran = amplint("check", "--diff", "-")
    assert ran.status == 1
    assert '+with torch.amp.autocast("cuda"):\n' in ran.out


@pytest.mark.parametrize("command", ["check", "rules"])
def test_a_format_has_two_names(amplint: Amplint, project: Path, command: str) -> None:
    (project / "a.py").write_text(LEGACY)
    assert amplint(command, "--output-format", "json") == amplint(command, "--format", "json")


def test_a_capital_v_prints_the_version(amplint: Amplint) -> None:
    assert amplint("-V") == amplint("--version")
    assert amplint("-V").status == 0


# ------------------------------------------------------------------------- settings


def reported(amplint: Amplint, *arguments: str) -> set[str]:
    """The codes and files that are reported."""
    ran = amplint("check", "--format", "json", *arguments)
    assert ran.status in (0, 1), ran.err
    found = json.loads(ran.out)
    return {f"{Path(each['filename']).name}:{each['code']}" for each in found}


@pytest.fixture
def two(project: Path) -> Path:
    """A project with two findings, one in a file that its settings exclude, and an ignored one."""
    scaler = "import torch\n\nscaler = torch.cuda.amp.GradScaler()\n"
    (project / "a.py").write_text(LEGACY + BUILT_AND_MOVED)
    (project / "b.py").write_text(scaler)
    (project / "c.py").write_text(scaler)
    (project / "pyproject.toml").write_text(
        '[tool.amplint]\nignore = ["AMP501"]\nexclude = ["b.py"]\nextend-select = ["AMP102"]\n'
    )
    return project


@pytest.mark.usefixtures("two")
def test_extending_options_add_to_the_settings(amplint: Amplint) -> None:
    assert reported(amplint) == {"a.py:AMP701", "c.py:AMP702"}
    assert reported(amplint, "--extend-ignore", "AMP702") == {"a.py:AMP701"}
    assert reported(amplint, "--ignore", "AMP702") == {"a.py:AMP701", "a.py:AMP501"}
    both = reported(amplint, "--ignore", "AMP702", "--extend-ignore", "AMP501")
    assert both == {"a.py:AMP701"}
    assert reported(amplint, "--extend-exclude", "c.py") == {"a.py:AMP701"}
    assert reported(amplint, "--exclude", "c.py") == {"a.py:AMP701", "b.py:AMP702"}
    added = ("--extend-select", "AMP103", "--extend-ignore", "AMP702", "--extend-exclude", "c.py")
    shown = amplint("check", "--show-settings", *added).out
    assert 'exclude = ["b.py"]  # pyproject.toml\n' in shown
    assert 'extend-exclude = ["c.py"]  # the command line\n' in shown
    for line in (
        'ignore = ["AMP501", "AMP702"]',
        'extend-select = ["AMP102", "AMP103"]',
    ):
        assert f"{line}  # pyproject.toml and the command line\n" in shown
    ran = amplint("check", "--extend-ignore", "AMP7O1")
    assert ran.status == 2
    assert "pyproject.toml and the command line: `ignore`: there is no rule `AMP7O1`" in ran.err
    ran = amplint("check", "--extend-exclude", "[a")
    assert ran.err.startswith(
        "amplint: error: the command line: `extend-exclude`: '[a' is not a pattern"
    )


def test_extending_options_add_to_nothing(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    assert reported(amplint, "--extend-exclude", "a.py") == set()
    assert reported(amplint, "--extend-ignore", "migration") == set()


@pytest.mark.usefixtures("two")
def test_a_setting_may_be_written_on_the_command_line(amplint: Amplint, project: Path) -> None:
    inline = "ignore=['AMP701']"
    assert reported(amplint, "--config", inline) == {"a.py:AMP501", "c.py:AMP702"}
    assert reported(amplint, "--config", inline, "--ignore", "ALL") == set(), "an option wins"
    (project / "other.toml").write_text('ignore = ["ALL"]')
    assert reported(amplint, "--config", "other.toml") == set()
    both = ("--config", inline, "--config", "other.toml")
    assert reported(amplint, *both) == {"a.py:AMP501", "b.py:AMP702", "c.py:AMP702"}
    tables = [f'per-file-ignores."{name}.py" = ["ALL"]' for name in "ac"]
    assert reported(amplint, "--config", tables[0]) == {"c.py:AMP702"}
    assert reported(amplint, "--config", tables[0], "--config", tables[1]) == set()
    shown = amplint("check", "--show-settings", "--config", 'target-torch = "2.4"').out
    assert 'target-torch = "2.4"  # --config\n' in shown


def test_a_file_may_have_an_equals_sign(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    (project / "a=b.toml").write_text('ignore = ["ALL"]')
    assert reported(amplint, "--config", "a=b.toml") == set()


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("selct = ['AMP1']", "--config: unknown key `selct`; did you mean `select`?"),
        ("select = 'AMP1'", "--config: `select` must be a list of strings, not 'AMP1'"),
        ("select = ['AMP7O1']", "--config: `select`: there is no rule `AMP7O1`; did you mean"),
        ("target-torch=2.4", '--config: `target-torch` must be a version in quotes, such as "2.4"'),
        ("preview = 1", "--config: `preview` must be true or false, not 1"),
        ("exclude = ['[a']", "--config: `exclude`: '[a' is not a pattern"),
        ("models = ['gone.toml']", "gone.toml: cannot be read"),
        ("extend = 'other.toml'", "`extend` is for settings in a file; here, write --config FILE"),
        ("ignore = AMP1", "is neither a file nor a setting in TOML: Invalid value"),
        ("ignore = " + "[" * 5000, "is neither a file nor a setting in TOML"),
        ("a.toml", "a.toml: cannot be read: No such file"),
    ],
)
def test_a_setting_that_cannot_be_followed(amplint: Amplint, value: str, sentence: str) -> None:
    ran = amplint("check", "--config", value)
    assert (ran.status, ran.out) == (2, "")
    assert sentence in ran.err
    assert "Traceback" not in ran.err


def test_a_baseline_that_the_user_names_may_lie_anywhere(
    amplint: Amplint, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One that a file of settings names may not: that may be a stranger's."""
    known = tmp_path_factory.mktemp("elsewhere") / "known.json"
    (project / "a.py").write_text(LEGACY)
    named = f"baseline = {json.dumps(str(known))}"
    assert amplint("baseline", "--config", named).status == 0
    assert amplint("check", "--config", named).status == 0
    (project / "amplint.toml").write_text(named)
    assert "lies outside of the project" in amplint("check").err


def test_two_files_of_settings_are_one_too_many(amplint: Amplint) -> None:
    ran = amplint("check", "--config", "a.toml", "--config", "b.toml")
    assert ran.status == 2
    assert "'--config': names two files" in ran.err


# ------------------------------------------------------------------------- rules, statistics


def test_explain_all_prints_all_pages(amplint: Amplint) -> None:
    known = registry.all_rules()
    pages = amplint("explain", "--all")
    assert pages.status == 0
    assert pages.out == "\n".join(amplint("explain", rule.code).out for rule in known)
    markdown = amplint("explain", "--all", "--format", "markdown").out
    for rule in known:
        assert (ROOT / rule.url).read_text(encoding="utf-8") in markdown
    entries = amplint("explain", "--all", "--output-format", "json").out
    assert entries == amplint("rules", "--format", "json").out


def test_explain_has_forms_for_one_rule(amplint: Amplint) -> None:
    entries = json.loads(amplint("rules", "--format", "json").out)
    entry = json.loads(amplint("explain", "AMP701", "--format", "json").out)
    assert entry in entries
    page = (ROOT / "docs" / "rules" / "AMP701.md").read_text(encoding="utf-8")
    assert amplint("explain", "AMP701", "--format", "markdown").out == page


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--all", "AMP701"], "RULE cannot be combined with --all"),
        (["--all", "--model", "lightning"], "--model cannot be combined with --all"),
        (["--format", "json", "--at", "a.py:1"], "--at cannot be combined with --format"),
        (["--format", "json", "--model-schema"], "--model-schema cannot be combined with --format"),
        (["--format", "json"], "Missing argument 'RULE', or --all, or --at, or --model."),
        (["AMP701", "--format", "html"], "'html' is not one of"),
    ],
)
def test_what_explain_cannot_print(amplint: Amplint, arguments: list[str], sentence: str) -> None:
    ran = amplint("explain", *arguments)
    assert (ran.status, ran.out) == (2, "")
    assert sentence in ran.err


@pytest.mark.usefixtures("two")
def test_statistics_are_of_what_is_left(amplint: Amplint) -> None:
    asked = ("--config", "ignore = []", "--statistics")
    assert amplint("check", *asked).out.splitlines()[-1] == "3  findings; [*] all have a safe fix"
    counts = json.loads(amplint("check", *asked, "--format", "json").out)
    assert counts["count"] == sum(each["count"] for each in counts["rules"]) == 3
    left = amplint("check", "--fix", *asked)
    assert (left.status, left.out) == (1, "1  AMP501     cpu-factory-then-move\n1  finding\n")
