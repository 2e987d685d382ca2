"""`amplint new --package`, and `amplint.testing`, which proves the rules of such a package."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from amplint import testing
from amplint.rule.registry import RegistryError
from tests.command import Amplint
from tests.helpers import ROOT


@pytest.fixture
def amplint(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Amplint:
    monkeypatch.chdir(tmp_path)
    return Amplint(capfd)


@pytest.fixture
def package(amplint: Amplint, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package as it was started, that can be imported."""
    assert amplint("new", "--package", "acme-rules", "ACM101", "my-pattern").status == 0
    root = Path("acme-rules").absolute()
    monkeypatch.syspath_prepend(str(root / "src"))
    yield root
    for name in [name for name in sys.modules if name.startswith("acme_rules")]:
        del sys.modules[name]


def proved(package: Path, update: bool = False) -> dict[str, str]:
    """The claims that do not hold, with the reasons."""
    failed = {}
    for proof in testing.proofs("acme_rules", package / "tests" / "fixtures"):
        try:
            proof(update)
        except AssertionError as error:
            failed[str(proof)] = str(error)
    return failed


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


# ------------------------------------------------------------------------------ new --package


def test_a_new_package_proves_its_rule(package: Path) -> None:
    assert proved(package) == {}
    files = (path.relative_to(package) for path in package.rglob("*") if path.is_file())
    # Python keeps what it has compiled there, unless another test has told it not to.
    assert sorted(path.as_posix() for path in files if "__pycache__" not in path.parts) == [
        "pyproject.toml",
        "src/acme_rules/__init__.py",
        "src/acme_rules/my_pattern.py",
        "tests/conftest.py",
        "tests/fixtures/my_pattern/bad.py",
        "tests/fixtures/my_pattern/good.py",
        "tests/fixtures/my_pattern/report.txt",
        "tests/test_rules.py",
    ]


def test_a_rule_may_be_about_a_builtin(package: Path) -> None:
    rule = package / "src" / "acme_rules" / "my_pattern.py"
    rule.write_text(rule.read_text().replace('"torch.my_pattern"', '"builtins.print"'))
    bad = package / "tests" / "fixtures" / "my_pattern" / "bad.py"
    edit(bad, "    return torch.my_pattern(x)  #", "    say = print\n    say(x)  #")
    assert proved(package, update=True) == {}


def test_a_rule_that_would_find_nothing_since_no_call_has_its_name_is_refused(
    package: Path,
) -> None:
    rule = package / "src" / "acme_rules" / "my_pattern.py"
    edit(rule, 'calls("torch.my_pattern")', 'calls("print")')
    with pytest.raises(RegistryError, match=r'a builtin is "builtins\.print"'):
        proved(package)


def test_another_rule_is_started_within_the_package(
    amplint: Amplint, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(package / "tests")
    assert amplint("new", "ACM102", "other_pattern").status == 0
    assert (package / "src" / "acme_rules" / "other_pattern.py").is_file()
    failed = proved(package)
    assert failed.keys() == {"other_pattern-report_is_up_to_date"}
    assert "--update" in failed["other_pattern-report_is_up_to_date"]
    assert proved(package, update=True) == {}
    assert proved(package) == {}


def test_code_and_name_may_be_given(amplint: Amplint) -> None:
    assert amplint("new", "--package", "rules_of_mine", "MINE900", "odd-seed").status == 0
    assert 'code="MINE900"' in Path("rules_of_mine/src/rules_of_mine/odd_seed.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("--package", "Acme", "ACM101", "mine"),
            "Acme is not a name for a package, like acme-rules",
        ),
        (("--package", "amplint", "ACM101", "mine"), "amplint is not a name for a package"),
        (("--package", "class", "ACM101", "mine"), "class is not a name for a package"),
        (("--package", "../acme", "ACM101", "mine"), "../acme is not a name for a package"),
        (("--package", "acme", "A101", "mine"), "A101 is not a code for a rule of a package"),
        (("--package", "acme", "AMP901", "mine"), "AMP901 is not a code for a rule of a package"),
        (("--package", "acme", "ACM101", "Pattern"), "Pattern is not a name like"),
        (("--package", "acme", "ACM101", "host-read-in-hot-path"), "exists already"),
        (("--package", "there", "ACM101", "mine"), "exists already"),
        (("ACM101", "my-pattern"), "`amplint new --package NAME` starts one"),
        (("AMP101",), "Missing argument 'NAME'"),
        ((), "Missing argument 'CODE'"),
    ],
)
def test_what_cannot_be_started_is_told(
    amplint: Amplint, arguments: tuple[str, ...], complaint: str
) -> None:
    Path("there").mkdir()
    Path("pyproject.toml").write_text("[project]\nentry-points = 3\n")
    ran = amplint("new", *arguments)
    assert (ran.status, ran.out) == (2, "")
    assert complaint in ran.err
    assert {path.name for path in Path().iterdir()} == {"there", "pyproject.toml"}


def test_the_rule_on_the_page_finds_what_the_page_says(package: Path) -> None:
    page = (ROOT / "docs" / "own-rules.md").read_text(encoding="utf-8")
    rule, bad = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[:2]
    written = (package / RULE).read_text()
    doc = written[: written.index("from __future__")]
    (package / RULE).write_text(f"{doc}{rule}")
    (package / "tests" / "fixtures" / "my_pattern" / BAD).write_text(bad)
    assert proved(package, update=True) == {}


# ------------------------------------------------------------------------------ amplint.testing

RULE, BAD, GOOD = "src/acme_rules/my_pattern.py", "bad.py", "good.py"
YIELD = 'yield call.finding(f"`{call.called.text}` is called")'


def yielding(message: str = "it is called", fix: str = "None") -> str:
    return f"yield call.finding({message!r}, fix={fix})"


def fixing(new: str, title: str = "Call another one") -> str:
    return f'Fix("{title}", (call.source.edits.replace(call.called.cst, "{new}"),), Safety.UNSAFE)'


@pytest.mark.parametrize(
    ("file", "old", "new", "claim", "complaint"),
    [
        (BAD, "  # expect: ACM101", "", "folder_is_complete", "`# expect: ACM101`"),
        (BAD, "  # expect: ACM101", "", "findings_equal_markers", "found, but not marked"),
        (BAD, "x)  # expect", "x + 1)  # expect: ACM101\n    # expect", "findings_equal_markers",
         "marked, but not found"),
        (BAD, "# expect: ACM101", "# miss: ACM101", "known_misses_are_still_missed", "no longer"),
        (GOOD, "import math", "import torch as math", "good_is_silent", "found in good.py"),
        (GOOD, "pattern(x)", "pattern(x)  # expect: ACM101", "good_is_silent", "expects findings"),
        (RULE, YIELD, yielding("It is called"), "findings_are_well_formed", "begins with a"),
        (RULE, YIELD, yielding("it is called."), "findings_are_well_formed", "ends with a stop"),
        (RULE, YIELD, yielding("x" * 101), "findings_are_well_formed", "more than 100 characters"),
        (RULE, YIELD, yielding(fix=fixing("torch.relu", "Calling")), "findings_are_well_formed",
         "the title 'Calling'"),
        (RULE, YIELD, yielding(fix=fixing("torch.my_pattern")), "each_fix_removes_its_finding",
         "changes nothing"),
        (RULE, YIELD, yielding(fix=fixing("(torch.my_pattern)")), "each_fix_removes_its_finding",
         "still there"),
        (RULE, YIELD, yielding(fix=fixing("(torch.my_pattern)")), "all_fixes_are_stable", ""),
        (RULE, YIELD, yielding(), "report_is_up_to_date", "+  it is called"),
        (RULE, YIELD, "1 / 0", "findings_equal_markers", "ZeroDivisionError"),
    ],
)  # fmt: skip
def test_a_claim_that_does_not_hold_fails(
    package: Path, file: str, old: str, new: str, claim: str, complaint: str
) -> None:
    path = package / file if file == RULE else package / "tests" / "fixtures" / "my_pattern" / file
    edit(path, old, new)
    if file == RULE:
        edit(path, "import Finding,", "import Finding, Fix, Safety,")
    failed = proved(package)
    assert complaint in failed[f"my_pattern-{claim}"]


def test_a_fix_may_make_no_new_finding(package: Path) -> None:
    """The rule `other-pattern` is on by default, and finds what the fix of the first makes."""
    rule = package / RULE
    edit(rule, "import Finding,", "import Finding, Fix, Safety,")
    edit(rule, "Group.PEDANTIC", "Group.PRECISION")
    edit(rule, YIELD, yielding(fix=fixing("torch.other_pattern")))
    text = rule.read_text().replace("my_pattern", "x").replace("other_pattern", "my_pattern")
    text = text.replace('"torch.x"', '"torch.other_pattern"').replace("ACM101", "ACM102")
    rule.with_name("other_pattern.py").write_text(text)
    failed = proved(package)
    assert "makes new findings" in failed["my_pattern-each_fix_removes_its_finding"]
    assert "other_pattern-folder_is_complete" in failed


def test_a_rule_without_a_folder_and_a_folder_without_a_rule_fail(package: Path) -> None:
    fixtures = package / "tests" / "fixtures"
    (fixtures / "my_pattern").rename(fixtures / "no_pattern")
    failed = proved(package)
    assert failed["no_pattern-folder_is_complete"] == "no_pattern: no rule has this name"
    assert "ACM101 has no " in failed["my_pattern-folder_is_complete"]


def test_rules_for_an_old_torch_are_shown_their_fixture(package: Path) -> None:
    edit(package / RULE, "    doc=", '    until="2.0",\n    doc=')
    assert proved(package) == {}


def test_a_malformed_rule_is_told_at_once(package: Path) -> None:
    edit(package / RULE, '"ACM101"', '"AMP101"')
    with pytest.raises(RegistryError, match=r"acme_rules\.my_pattern: the code 'AMP101' begins"):
        proved(package)


def test_rules_of_other_packages_do_not_look_at_it(package: Path) -> None:
    """A new version of amplint must not turn the tests of others red."""
    bad = package / "tests" / "fixtures" / "my_pattern" / "bad.py"
    bad.write_text(f"{bad.read_text()}\n\nscaler = torch.cuda.amp.GradScaler()\n")
    assert proved(package) == {}
