"""Rules of installed packages: found, validated, reported like amplint's own, and never stale."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amplint.rule import packages as rule_packages
from amplint.rule import registry
from amplint.run import cache
from tests.command import Amplint, Ran
from tests.helpers import ROOT

RULE = '''"""A call of `torch.seed`.

It draws another seed in each run.

Fix safety: safe. The call goes.

Known limits: none.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Finding, Fix, Group, Rule, View, calls

rule = Rule(
    code="ACM101",
    doc=__doc__,
    group=Group.CORRECTNESS,
    since="1.0",
    help="call manual_seed instead",
    safe_if=("the call is replaced",),
)


@rule.on(calls("torch.seed"))
def check(call: View) -> Iterator[Finding]:
    if call.callee == "torch.seed":
        edits = (call.source.edits.replace(call.cst, "torch.manual_seed(0)"),)
        fix = Fix.safe_if("Replace the call", edits, {"the call is replaced": True})
        yield call.finding("the seed is another one in each run", fix=fix)
'''
PROGRAM = "import torch\n\ntorch.seed()\n"


class Site:
    """A directory of installed packages, on `sys.path`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def install(
        self,
        modules: dict[str, str],
        entry: str = "acme_rules",
        name: str = "acme_rules",
        version: str = "1.0",
        home: Path | None = None,
    ) -> None:
        """Install a package; an editable one, whose modules lie in `home`."""
        for path, text in modules.items():
            file = (home or self.directory) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        info = self.directory / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "entry_points.txt").write_text(f"[amplint.rules]\nrules = {entry}\n")
        if home is not None:
            url = {"url": home.as_uri(), "dir_info": {"editable": True}}
            (info / "direct_url.json").write_text(json.dumps(url))
            (self.directory / f"{name}.pth").write_text(f"{home}\n")

    def rule(self, text: str = RULE, **how: str) -> None:
        """Install a package of one rule."""
        self.install({"acme_rules/__init__.py": "", "acme_rules/random_seed.py": text}, **how)


def forget() -> None:
    """What a process knows of installed packages, it knows for good."""
    rule_packages.installed.cache_clear()
    registry.all_rules.cache_clear()
    cache.outside_rules.cache_clear()
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name.partition(".")[0].startswith("acme")]:
        del sys.modules[name]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text(PROGRAM)
    monkeypatch.chdir(project)
    directory = tmp_path / "site-packages"
    directory.mkdir()
    monkeypatch.syspath_prepend(str(directory))
    forget()
    yield Site(directory)
    monkeypatch.undo()
    forget()


def process(*arguments: str, cwd: Path, path: list[Path]) -> Ran:
    """`amplint` in a process of its own, which looks for modules in these directories first."""
    code = (
        f"import sys; sys.path[:0] = {list(map(str, path))!r}; sys.path.append({str(ROOT)!r});"
        "from amplint.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-B", "-c", code, *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


# ------------------------------------------------------------------------------ like any rule


def test_a_rule_of_an_installed_package_finds_and_fixes(amplint: Amplint, site: Site) -> None:
    site.rule()
    ran = amplint("check", "--format", "concise")
    assert (ran.status, ran.err) == (1, "")
    assert ran.out.startswith("a.py:3:1: ACM101 [*] random-seed: the seed is another one")
    assert amplint("fix", "--apply").status == 0
    assert Path("a.py").read_text() == "import torch\n\ntorch.manual_seed(0)\n"


def test_it_is_listed_and_explained_with_its_package(amplint: Amplint, site: Site) -> None:
    site.rule()
    (line,) = [x for x in amplint("rules").out.splitlines() if x.startswith("ACM101")]
    assert line.endswith("A call of `torch.seed`. (of acme-rules 1.0)")
    listed = json.loads(amplint("rules", "--format", "json").out)
    assert [e["package"] for e in listed if e["code"] == "ACM101"] == ["acme-rules 1.0"]
    assert {e["package"] for e in listed if e["code"] != "ACM101"} == {None}
    page = amplint("explain", "random_seed").out
    assert page.startswith(
        "ACM101 random-seed\ncorrectness, on by default, of acme-rules 1.0, since its version 1.0\n"
    )
    assert "# packages with rules: acme-rules 1.0\n" in amplint("check", "--show-settings").out


@pytest.mark.parametrize("word", ["ACM101", "ACM1", "ACM10", "ACM", "random-seed", "correctness"])
def test_selectors_know_it(amplint: Amplint, site: Site, word: str) -> None:
    site.rule()
    assert "ACM101" in amplint("check", "--select", word).out
    assert amplint("check", "--ignore", word) == Ran(0, "1 file, no findings\n", "")


def test_letters_that_begin_others_select_only_their_own(amplint: Amplint, site: Site) -> None:
    site.install(
        {
            "acme_rules/__init__.py": "",
            "acme_rules/random_seed.py": RULE,
            "acme_rules/other_seed.py": RULE.replace("ACM101", "AC101"),
        }
    )
    assert [
        one["code"] for one in json.loads(amplint("check", "--select", "AC", "--format=json").out)
    ] == ["AC101"]


def test_an_unknown_code_is_told_with_the_nearest(amplint: Amplint, site: Site) -> None:
    site.rule()
    assert amplint("check", "--select", "ACM111").err == (
        "amplint: error: the command line: `select`: there is no rule `ACM111`; "
        "did you mean `ACM101`?\n"
    )


def test_a_code_of_a_package_that_is_not_installed_is_told_so(amplint: Amplint, site: Site) -> None:
    assert site.directory.is_dir()
    assert amplint("check", "--select", "ACM101") == Ran(
        2,
        "",
        "amplint: error: the command line: `select`: there is no rule `ACM101`; "
        "no package with rules ACM is installed beside amplint\n",
    )


@pytest.mark.parametrize("comment", ["amplint: ignore[ACM101] known", "noqa: ACM101"])
def test_comments_suppress_it(amplint: Amplint, site: Site, comment: str) -> None:
    site.rule()
    Path("a.py").write_text(f"import torch\n\ntorch.seed()  # {comment}\n")
    assert amplint("check").status == 0
    Path("a.py").write_text(f"import torch\n\ntorch.relu(torch.ones(3))  # {comment}\n")
    unused = amplint("check", "--format", "concise")
    assert "AMP001" in unused.out
    assert "`ACM101` suppresses nothing here" in unused.out


def test_a_noqa_of_other_tools_is_left_alone(amplint: Amplint, site: Site) -> None:
    site.rule()
    Path("a.py").write_text("import torch  # noqa: ACM999, SIM101\n")
    assert amplint("check").status == 0


def test_an_ignore_without_brackets_is_told(amplint: Amplint, site: Site) -> None:
    site.rule()
    Path("a.py").write_text("import torch\n\ntorch.seed()  # amplint: ignore ACM101\n")
    ran = amplint("check", "--format", "concise")
    assert "ACM101" in ran.out
    assert "write them as `ignore[AMP101]`" in ran.out


def test_a_baseline_holds_it_and_keeps_it_where_the_package_is_missing(
    amplint: Amplint, site: Site
) -> None:
    site.rule()
    assert amplint("baseline").status == 0
    assert amplint("check").status == 0
    before = Path(".amplint-baseline.json").read_text()
    assert "ACM101" in before
    site.directory.joinpath("acme_rules-1.0.dist-info").rename(site.directory / "gone")
    forget()
    assert amplint("baseline", "--update").status == 0
    assert Path(".amplint-baseline.json").read_text() == before


def test_the_reports_name_it(amplint: Amplint, site: Site) -> None:
    site.rule()
    (entry,) = json.loads(amplint("check", "--format", "json").out)
    assert (entry["code"], entry["url"]) == ("ACM101", None)
    (run,) = json.loads(amplint("check", "--format", "sarif").out)["runs"]
    (result,) = run["results"]
    described = run["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert described["id"] == result["ruleId"] == "ACM101"
    assert described["properties"]["package"] == "acme-rules 1.0"
    assert "helpUri" not in described
    for form in ("html", "github", "gitlab", "junit", "text"):
        assert "ACM101" in amplint("check", "--format", form).out


def test_the_page_of_a_rule_is_its_own(amplint: Amplint, site: Site) -> None:
    site.rule(RULE.replace("    doc=", '    page="https://acme.org/ACM101",\n    doc='))
    (entry,) = json.loads(amplint("check", "--format", "json").out)
    assert entry["url"] == "https://acme.org/ACM101"
    (run,) = json.loads(amplint("check", "--format", "sarif").out)["runs"]
    uris = {rule["id"]: rule.get("helpUri") for rule in run["tool"]["driver"]["rules"]}
    assert uris["ACM101"] == "https://acme.org/ACM101"


def test_rules_lie_in_subpackages_and_single_modules(amplint: Amplint, site: Site) -> None:
    site.install(
        {
            "acme/rules/__init__.py": "",
            "acme/rules/_shared.py": "1 / 0",
            "acme/rules/seeds/__init__.py": "",
            "acme/rules/seeds/random_seed.py": RULE,
        },
        entry="acme.rules",
    )
    site.install(
        {"acme_lone.py": RULE.replace("ACM101", "LONE101")}, entry="acme_lone", name="lone"
    )
    found = json.loads(amplint("check", "--format", "json").out)
    assert [one["code"] for one in found] == ["ACM101", "LONE101"]


# ------------------------------------------------------------------------------ what is wrong


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"ACM101"', '"AMP901"', "the code 'AMP901' begins with AMP, which is kept for amplint"),
        ('"ACM101"', '"ALL101"', "the code 'ALL101' begins with ALL"),
        ('"ACM101"', '"A101"', "the code 'A101' is not of the form: two to five capital letters"),
        ('"ACM101"', '"ACM1"', "the code 'ACM1' is not of the form"),
        ('"ACM101"', "101", "`Rule(...)` is not valid: AttributeError"),
        ("Known limits: none.", "", "the docstring has no paragraph `Known limits:`"),
        ("rule = Rule(", "one = 1\nrule = dict(", "'dict' object has no attribute 'on'"),
        ('calls("torch.seed")', "()", "`Rule(...)` is not valid: AttributeError"),
        ("Group.CORRECTNESS", "'correctness'", "'correctness' is not a Group"),
        ("from amplint import Finding", "import nowhere\nfrom amplint import Finding",
         "cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("from amplint import Finding", "raise SystemExit\nfrom amplint import Finding",
         "cannot be imported: SystemExit"),
        ("from amplint import Finding", "from amplint import Findings",
         "cannot be imported: ImportError"),
        ("rule = Rule(", "rule = Rule((", "cannot be imported: SyntaxError"),
    ],
)  # fmt: skip
def test_a_malformed_rule_is_named_and_the_status_is_2(
    amplint: Amplint, site: Site, old: str, new: str, complaint: str
) -> None:
    assert old in RULE
    site.rule(RULE.replace(old, new))
    for command in (("check",), ("rules",), ("explain", "AMP101")):
        ran = amplint(*command)
        assert (ran.status, ran.out) == (2, "")
        assert ran.err.startswith("amplint: error: acme-rules 1.0: acme_rules.random_seed")
        assert complaint in ran.err
        assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ("nowhere_at_all", "nowhere_at_all cannot be imported: ModuleNotFoundError"),
        ("acme_rules.gone", "acme_rules.gone cannot be imported: ModuleNotFoundError"),
        ("acme_rules:rule", "the entry point `acme_rules:rule` is not the name of a module"),
        ("acme_rules", "'performance' is not a name like host-read-in-hot-path"),
    ],
)
def test_a_wrong_entry_point_is_named(
    amplint: Amplint, site: Site, entry: str, complaint: str
) -> None:
    site.install({"acme_rules/__init__.py": "", "acme_rules/performance.py": RULE}, entry)
    ran = amplint("check")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("amplint: error: acme-rules 1.0: ")
    assert complaint in ran.err


def test_damaged_entry_points_are_named(amplint: Amplint, site: Site) -> None:
    site.rule()
    file = site.directory / "acme_rules-1.0.dist-info" / "entry_points.txt"
    file.write_text("rules\n[amplint.rules]\n")
    ran = amplint("check")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(f"amplint: error: acme_rules 1.0: {file}: ")


def test_two_packages_with_one_code_or_one_name_are_refused(amplint: Amplint, site: Site) -> None:
    site.rule()
    site.install({"acme_more/__init__.py": "", "acme_more/seed.py": RULE}, "acme_more", "more")
    assert amplint("check") == Ran(
        2,
        "",
        "amplint: error: random-seed of acme-rules 1.0 and seed of more 1.0 both have the code "
        "ACM101\n",
    )
    (site.directory / "acme_more" / "seed.py").unlink()
    text = RULE.replace("ACM101", "ACM102")
    (site.directory / "acme_more" / "host_read_in_hot_path.py").write_text(text)
    forget()
    assert "host-read-in-hot-path and host-read-in-hot-path of more 1.0 both have the name" in (
        amplint("check").err
    )


CHECK = '@rule.on(calls("torch.seed"))\ndef check(call: View) -> Iterator[Finding]:\n'
ASKS = f"""\
from amplint.facts.fact import Fact


class Odd(Fact):
    def __init__(self, inference):
        for function in inference.functions:
            1 / 0


{CHECK}    call.fact(Odd)
"""


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("        yield", "        1 / 0\n        yield", "line 3: ZeroDivisionError"),
        (
            "        yield call",
            '        yield "a"\n        yield call',
            "'a' is not a finding of ACM101",
        ),
        ("call.callee", "call.calee", "AttributeError"),
        ("        yield ", "        return ", "TypeError"),
        ('calls("torch.seed")', 'calls("torch.seed") & (lambda here: here.nothing)', "nothing"),
        (CHECK, ASKS, "line 3: ZeroDivisionError"),
    ],
)
def test_a_rule_that_fails_is_a_fault_of_its_package(
    amplint: Amplint, site: Site, old: str, new: str, fault: str
) -> None:
    assert old in RULE
    site.rule(RULE.replace(old, new))
    Path("a.py").write_text(PROGRAM + "scaler = torch.cuda.amp.GradScaler()\n")
    ran = amplint("check", "--format", "concise")
    assert ran.status == 2
    assert "AMP702" in ran.out
    assert "a.py: the rule ACM101 random-seed of acme-rules 1.0 failed: " in ran.err
    assert fault in ran.err
    assert "bug in amplint" not in ran.err
    assert "in this file" not in ran.err
    assert "Traceback" not in ran.err


# ------------------------------------------------------------------------ only what is installed


@pytest.mark.usefixtures("site")
def test_the_project_brings_no_rules() -> None:
    """Whatever lies in the project, and although Python looks there first."""
    project = Path.cwd()
    (project / "acme_rules").mkdir()
    (project / "acme_rules" / "__init__.py").write_text("open('ran', 'w')\n")
    for info in ("acme_rules-1.0.dist-info", "acme_rules.egg-info"):
        (project / info).mkdir()
        (project / info / "entry_points.txt").write_text("[amplint.rules]\na = acme_rules\n")
    (project / "pyproject.toml").write_text(
        '[project.entry-points."amplint.rules"]\na = "acme_rules"\n[tool.amplint]\n'
    )
    ran = process("check", cwd=project, path=[project])
    assert ran.status == 0, ran
    assert not (project / "ran").exists()


def test_a_directory_of_the_project_does_not_stand_for_an_installed_package(site: Site) -> None:
    site.rule()
    project = Path.cwd()
    (project / "acme_rules").mkdir()
    (project / "acme_rules" / "__init__.py").write_text("open('ran', 'w')\n")
    ran = process("check", cwd=project, path=[project, site.directory])
    assert ran.status == 2
    assert ran.err == (
        "amplint: error: acme-rules 1.0: Python finds another acme_rules before the one that is "
        "installed, and amplint runs only what is installed\n"
    )
    assert not (project / "ran").exists()


def test_the_current_directory_is_no_place_for_packages_whatever_its_name_is(
    amplint: Amplint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: Site
) -> None:
    project = tmp_path / "other" / "site-packages"
    project.mkdir(parents=True)
    Site(project).rule()
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "path", [str(project), str(site.directory), *sys.path])
    assert "ACM101" not in amplint("rules").out
    monkeypatch.setattr(sys, "path", [str(project), *sys.path])  # it is installed to, too
    forget()
    assert "ACM101" in amplint("rules").out


# ------------------------------------------------------------------------------ never stale


def edit_rule(home: Path) -> None:
    file = home / "acme_rules" / "random_seed.py"
    file.write_text(file.read_text().replace("another one in each run", "never the same"))


def edit_data(home: Path) -> None:
    (home / "acme_rules" / "words.txt").write_text("never the same")


def add_module(home: Path) -> None:
    text = RULE.replace("ACM101", "ACM102").replace("another one in each run", "never the same")
    (home / "acme_rules" / "seed_again.py").write_text(text)


READING_RULE = RULE.replace(
    '"the seed is another one in each run"',
    'pathlib.Path(__file__).with_name("words.txt").read_text()',
).replace("from amplint import Finding", "import pathlib\nfrom amplint import Finding")


@pytest.mark.parametrize("is_editable", [False, True])
@pytest.mark.parametrize("edit", [edit_rule, edit_data, add_module])
def test_a_changed_rule_is_never_answered_from_the_cache(
    amplint: Amplint,
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    edit: Callable[[Path], None],
    is_editable: bool,
) -> None:
    """The version stays, and so do all files of an editable installation in site-packages."""
    home = tmp_path / "checkout" / "src" if is_editable else None
    modules = {
        "acme_rules/__init__.py": "",
        "acme_rules/random_seed.py": READING_RULE if edit is edit_data else RULE,
        "acme_rules/words.txt": "as it was",
    }
    site.install(modules, home=home)
    if home is not None:  # as the .pth file has it at the start of Python
        monkeypatch.syspath_prepend(str(home))
    before = amplint("check")
    assert before.status == 1
    with monkeypatch.context() as patched:
        patched.setattr("amplint.run.engine.analysed", None)
        assert amplint("check") == before
    edit(home or site.directory)
    forget()
    after = amplint("check")
    assert "never the same" not in before.out
    assert "never the same" in after.out


def test_a_changed_rule_is_never_answered_from_the_cache_of_another_process(
    site: Site, tmp_path: Path
) -> None:
    home = tmp_path / "src"
    site.install({"acme_rules/__init__.py": "", "acme_rules/random_seed.py": RULE}, home=home)
    before = process("check", cwd=Path.cwd(), path=[site.directory, home])
    edit_rule(home)
    after = process("check", cwd=Path.cwd(), path=[site.directory, home])
    assert after.out == before.out.replace("another one in each run", "never the same")


def test_parts_are_not_answered_from_the_cache_of_an_older_rule(
    amplint: Amplint, site: Site
) -> None:
    site.rule()
    for name in ("one", "other"):
        Path(name).mkdir()
        Path(name, "a.py").write_text(PROGRAM)
    command = ("check", "--roots", "one,other")
    assert amplint(*command).out.count("each run") == 3
    edit_rule(site.directory)
    forget()
    after = amplint(*command)
    assert after.out.count("never the same") == 3


def test_a_dependency_that_is_updated_counts(site: Site) -> None:
    site.rule()
    before = cache.outside_rules()
    (site.directory / "acme_words-2.0.dist-info").mkdir()
    forget()
    assert cache.outside_rules() != before


def test_without_such_packages_the_cache_depends_on_nothing_that_is_installed(site: Site) -> None:
    (site.directory / "acme_words-2.0.dist-info").mkdir()
    assert cache.outside_rules() == []


# ------------------------------------------------------------------------------ startup


def test_a_run_from_the_cache_imports_neither_rules_nor_importlib_metadata(site: Site) -> None:
    site.rule()
    process("check", cwd=Path.cwd(), path=[site.directory])
    code = (
        f"import sys; sys.path[:0] = [{str(site.directory)!r}, {str(ROOT)!r}];"
        "from amplint.cli.main import main; main(['check', '-q']);"
        "names = {'acme_rules', 'amplint.rules', 'libcst', 'importlib.metadata'};"
        "print(sorted(names & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert "ACM101" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
