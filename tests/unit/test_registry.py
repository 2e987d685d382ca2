"""Every rule is imported, validated, and found by its code or name."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from amplint import Group, Rule, Unrun
from amplint.findings.selectors import for_torch
from amplint.rule import registry
from amplint.rule.of_engine import ENGINE_RULES, UNUSED
from amplint.rule.registry import RegistryError, UnknownRuleError

GOOD = '''"""The pattern.

What happens.

Fix safety: none.

Known limits: many.
"""

from amplint import HOT, Candidates, Group, Rule, Unrun, nodes

rule = Rule(
    "AMP901",
    __doc__,
    group=Group.PEDANTIC,
    since="0.1",
    help="write it so",
    witness=Unrun("", ""),
)


@rule.on(nodes("call"))
def check(call):
    yield from ()
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """An empty package of rules, to write modules into."""
    module = ModuleType("rules_under_test")
    module.__path__ = [str(tmp_path)]
    monkeypatch.setitem(sys.modules, "rules_under_test", module)
    yield module
    for name in [name for name in sys.modules if name.startswith("rules_under_test.")]:
        del sys.modules[name]


def write(package: ModuleType, name: str, source: str) -> None:
    (Path(package.__path__[0]) / f"{name}.py").write_text(source)


def test_the_rules_of_amplint_are_valid() -> None:
    rules = registry.all_rules()
    codes = [rule.code for rule in rules]
    assert codes == sorted(set(codes))
    assert {"AMP000", "AMP001"} <= set(codes)


def test_a_module_becomes_a_rule_named_after_it(package: ModuleType) -> None:
    write(package, "my_pattern", GOOD)
    write(package, "_shared", "1 / 0")  # modules with an underscore are no rules
    rules = registry.validated_rules(package)
    assert [rule.code for rule in rules] == ["AMP000", "AMP001", "AMP807", "AMP901"]
    assert rules[-1].name == "my-pattern"
    assert sys.modules["rules_under_test.my_pattern"].rule is rules[-1]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"AMP901"', '"AMP9"', "the code 'AMP9' is not of the form AMP101"),
        ("Fix safety:", "Safety:", "has no paragraph `Fix safety:`"),
        ("Known limits: many.", "", "has no paragraph `Known limits:`"),
        ("__doc__", "''", "the module has no docstring"),
        ("Group.PEDANTIC", "'pedantic'", "'pedantic' is not a Group"),
        ("write it so", "", "help='' is not a phrase like"),
        ("write it so", "Write it so", "help='Write it so' is not a phrase like"),
        ("write it so", "write it so.", "help='write it so.' is not a phrase like"),
        ("write it so", r"write\nit", r"help='write\nit' is not a phrase like"),
        ('since="0.1"', 'since="now"', "since='now' is not a version"),
        ('nodes("call")', "HOT", "a condition must say which operations it is about"),
        ('nodes("call")', "Candidates()", "a condition must say which operations it is about"),
        ('nodes("call")', "nodes()", "a condition must say which operations it is about"),
        ('since="0.1"', 'since="0.1", supersedes=("AMP1",)', "are not codes"),
        ('since="0.1"', 'since="0.1", torch="two"', "torch='two' is not a version"),
        ('@rule.on(nodes("call"))', "", "no check is registered"),
        ("rule = Rule(", "other = Rule(", "has no `rule = Rule(...)`"),
        ("from amplint import", "from nowhere import", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_a_module_that_breaks_a_rule_is_named(
    package: ModuleType, old: str, new: str, complaint: str
) -> None:
    broken = GOOD.replace(old, new)
    if old == "rule = Rule(":
        broken = broken.replace("@rule.on", "@other.on")
    write(package, "my_pattern", broken)
    with pytest.raises(RegistryError, match="my_pattern") as caught:
        registry.validated_rules(package)
    assert complaint in str(caught.value)


def test_two_rules_with_one_code_are_refused(package: ModuleType) -> None:
    write(package, "one", GOOD)
    write(package, "other", GOOD)
    with pytest.raises(RegistryError, match="one and other both have the code AMP901"):
        registry.validated_rules(package)


@pytest.mark.parametrize("text", ["AMP001", "amp001", "unused-suppression", "unused_suppression"])
def test_a_rule_is_found_by_code_or_name(text: str) -> None:
    assert registry.find(text) is UNUSED


def test_an_unknown_rule_is_told_with_the_nearest() -> None:
    with pytest.raises(UnknownRuleError, match="did you mean `unused-suppression`"):
        registry.find("unused-supression", ENGINE_RULES)
    with pytest.raises(UnknownRuleError, match=r"there is no rule `xyzzy`$"):
        registry.find("xyzzy", ENGINE_RULES)


def rule(code: str, torch: str | None, until: str | None = None) -> Rule:
    return Rule(code, "", Group.MIGRATION, "0.1", Unrun("", ""), torch=torch, until=until)


@pytest.mark.parametrize(
    ("target", "codes"),
    [
        (None, ["AMP701", "AMP702", "AMP703"]),
        ("2.3", ["AMP701", "AMP704"]),
        ("2.4", ["AMP701", "AMP702", "AMP704"]),
        ("2.4.0", ["AMP701", "AMP702", "AMP704"]),
        ("2.10", ["AMP701", "AMP702", "AMP703", "AMP704"]),
        ("2.11", ["AMP701", "AMP702", "AMP703"]),
    ],
)
def test_rules_that_need_a_newer_torch_than_the_project_or_an_older_one_are_left_out(
    target: str | None, codes: list[str]
) -> None:
    rules = [rule("AMP701", None), rule("AMP702", "2.4"), rule("AMP703", "2.9")]
    rules.append(rule("AMP704", None, until="2.11"))
    assert [one.code for one in for_torch(rules, target, target)] == codes


@pytest.mark.parametrize(("floor", "holds"), [("2.4", True), ("2.11", False), (None, False)])
def test_a_rule_for_older_torch_holds_where_requirements_name_one(
    floor: str | None, holds: bool
) -> None:
    until = rule("AMP704", None, until="2.11")
    assert (for_torch([until], floor, None) == (until,)) is holds


def test_every_rule_says_what_to_do() -> None:
    for one in registry.all_rules():
        assert registry.HELP.fullmatch(one.help), one.code
        assert len(one.help) <= 100, one.code
        assert one.help.count("`") % 2 == 0, one.code


def test_every_page_says_when_it_is_safe_and_where_it_ends() -> None:
    for one in registry.all_rules():
        assert one.summary
        assert one.section("Fix safety")
        assert one.section("Known limits")
