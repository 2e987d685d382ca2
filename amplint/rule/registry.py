"""All rules, imported and validated: amplint's own, and those of installed packages."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, overload

from amplint.findings.finding import Cost, Group
from amplint.findings.selectors import (
    CODE,
    MOST_NEAR,
    NAME,
    OWN,
    RESERVED,
    did_you_mean,
    letters_of,
    near_codes,
    whole,
)
from amplint.findings.witness import NOT_RUN
from amplint.rule.of_engine import ENGINE_RULES
from amplint.rule.rule import Rule
from amplint.util.errors import Failure, describe

if TYPE_CHECKING:
    from amplint.rule.packages import RulePackage


SINCE = re.compile(r"\d+\.\d+(\.\d+)?")
# A line that continues a sentence: no capital at the start, no stop at the end.
HELP = re.compile(r"[a-z].*[^\s.!]")
HEADINGS = ("Fix safety", "Known limits")


class RegistryError(Failure):
    """A rule module breaks the rules for rules; the text names the module."""


class UnknownRuleError(Exception):
    """No rule has this code or name; the text names the nearest one."""


@cache
def own_rules() -> tuple[Rule, ...]:
    """Every rule that amplint has itself, those of the engine included, in the order of codes."""
    return validated_rules(importlib.import_module("amplint.rules"))


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, those of installed packages included, in the order of their codes."""
    from amplint.rule import packages as rule_packages  # noqa: PLC0415  (`amplint --help` needs none)

    rules = list(own_rules())
    for package in rule_packages.installed().packages:
        rules += rules_of(package)
    return ordered(rules)


class AllRules(Sequence[Rule]):
    """Every rule, imported when somebody looks: a run that is in the cache does not."""

    @overload
    def __getitem__(self, index: int) -> Rule: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Rule]: ...
    def __getitem__(self, index: int | slice) -> Rule | Sequence[Rule]:
        return all_rules()[index]

    def __len__(self) -> int:
        return len(all_rules())


def validated_rules(package: ModuleType) -> tuple[Rule, ...]:
    """Import and validate amplint's rules; raise `RegistryError` at the first bad one."""
    return ordered([*ENGINE_RULES, *map(load, sorted(rule_modules(package)))])


def ordered(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules in the order of their codes. Raises `RegistryError` for two that are alike."""
    by_word: dict[str, Rule] = {}
    for rule in rules:
        for kind, word in (("code", rule.code), ("name", rule.name)):
            other = by_word.setdefault(word, rule)
            if other is not rule:
                raise RegistryError(f"{whole(other)} and {whole(rule)} both have the {kind} {word}")
    for rule in dict.fromkeys(by_word.values()):
        for code, name in rule.cut_from:
            if code not in by_word or by_word[code].name != name:
                raise RegistryError(
                    f"{whole(rule)}: there is no {code} {name} that it could be cut from"
                )
    return tuple(sorted(dict.fromkeys(by_word.values()), key=lambda rule: rule.code))


def rules_of(package: RulePackage) -> list[Rule]:
    """The rules that an installed package brings.

    Raises:
        RegistryError: one cannot be imported, or is not valid; the text names the package.
    """
    from amplint.rule import packages as rule_packages  # noqa: PLC0415

    by_module: dict[str, Rule] = {}
    for entry in package.modules:
        if not all(part.isidentifier() for part in entry.split(".")):
            raise RegistryError(f"{package}: the entry point `{entry}` is not the name of a module")
        if not rule_packages.is_own(package, entry):
            raise RegistryError(
                f"{package}: Python finds another {entry.partition('.')[0]} before the one that "
                "is installed, and amplint runs only what is installed"
            )
        for module in modules_of(entry, str(package)):
            by_module[module] = by_module.get(module) or load(module, str(package))
    return list(by_module.values())


def modules_of(entry: str, package: str = "") -> list[str]:
    """The dotted names of the rule modules of an entry point: of a package all, or the module."""
    module = imported(entry, package)
    return sorted(rule_modules(module, package)) if hasattr(module, "__path__") else [entry]


def rule_modules(module: ModuleType, package: str = "") -> Iterator[str]:
    """The dotted names of the rule modules of a package: its own, and those of its families.

    Modules and packages whose names begin with an underscore hold no rules.
    """
    for info in pkgutil.iter_modules(module.__path__):
        name = f"{module.__name__}.{info.name}"
        if info.name.startswith("_"):
            continue
        if info.ispkg:
            yield from rule_modules(imported(name, package), package)
        else:
            yield name


def imported(module_name: str, package: str) -> ModuleType:
    """A module. Raises `RegistryError` where it cannot be imported."""
    try:
        return importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise RegistryError(
            f"{package_prefix(package)}{module_name} cannot be imported: {describe(error)}"
        ) from error


def package_prefix(package: str) -> str:
    """The beginning of a complaint about a module of an installed package."""
    return f"{package}: " if package else ""


def load(module_name: str, package: str = "") -> Rule:
    """Import one rule module and validate what it declares.

    Args:
        module_name: dotted.
        package: the installed package that brings it; "" for amplint.
    """
    rule = getattr(imported(module_name, package), "rule", None)
    where = f"{package_prefix(package)}{module_name}"
    if not isinstance(rule, Rule):
        raise RegistryError(f"{where} has no `rule = Rule(...)`")
    name = module_name.rpartition(".")[2].replace("_", "-")
    try:
        complaints = [*complaints_about_origin(rule, name, package), *complaints_about(rule)]
    except Exception as error:  # of a value that is of another type
        raise RegistryError(f"{where}: `Rule(...)` is not valid: {describe(error)}") from error
    if complaints:
        raise RegistryError(f"{where}: {complaints[0]}")
    # Both are written on the module's own object, because its checks pass that one on.
    object.__setattr__(rule, "name", name)
    object.__setattr__(rule, "package", package)
    return rule


def complaints_about_origin(rule: Rule, name: str, package: str) -> Iterator[str]:
    """The flaws that depend on who brings a rule."""
    letters = letters_of(rule.code)
    if not package and not (CODE.fullmatch(rule.code) and letters == OWN):
        yield f"the code {rule.code!r} is not of the form AMP101"
    if package and letters in RESERVED:
        yield f"the code {rule.code!r} begins with {letters}, which is kept for amplint itself"
    if package and not CODE.fullmatch(rule.code):
        form = "two to five capital letters with three digits, such as ABC101"
        yield f"the code {rule.code!r} is not of the form: {form}"
    if not package and rule.witness is NOT_RUN:
        yield "there is no witness"
    if not NAME.fullmatch(name) or name in {group.value for group in Group}:
        yield f"{name!r} is not a name like host-read-in-hot-path"


def complaints_about(rule: Rule) -> Iterable[str]:
    """The flaws in the declaration of a rule, a sentence each."""
    if not rule.doc or not rule.summary:
        yield "the module has no docstring"
        return
    for heading in HEADINGS:
        if not rule.section(heading):
            yield f"the docstring has no paragraph `{heading}:`"
    if not HELP.fullmatch(rule.help):
        yield f"help={rule.help!r} is not a phrase like `read it once after the loop`"
    for group in rule.groups:
        if not isinstance(group, Group):
            yield f"{group!r} is not a Group"
    if rule.cost is not None and not isinstance(rule.cost, Cost):
        yield f"{rule.cost!r} is not a Cost"
    if not SINCE.fullmatch(rule.since):
        yield f"since={rule.since!r} is not a version like 0.1.0"
    conditions = [check.condition.ways for check in rule.checks]
    if not all(ways and all(way.ops for way in ways) for ways in conditions):
        yield "a condition must say which operations it is about, as calls(...) and nodes(...) do"
    if not all(CODE.fullmatch(code) for code in rule.supersedes):
        yield f"supersedes={rule.supersedes!r} are not codes"
    for bound in (rule.torch, rule.fixes_torch, rule.until):
        if bound is not None and not SINCE.fullmatch(bound):
            yield f"torch={bound!r} is not a version like 2.4"
    if not rule.checks:
        yield "no check is registered with @rule.on"


def find(text: str, rules: Sequence[Rule] | None = None) -> Rule:
    """The rule with this code or name."""
    rules = all_rules() if rules is None else rules
    for rule in rules:
        if text.lower().replace("_", "-") in (rule.code.lower(), rule.name):
            return rule
    near = near_codes(text.upper(), [rule.code for rule in rules])
    if near:
        more = f" and {len(near) - MOST_NEAR} more" if len(near) > MOST_NEAR else ""
        are = f"; near it: {', '.join(near[:MOST_NEAR])}{more} (`amplint rules` lists all)"
        raise UnknownRuleError(f"there is no rule `{text}`{are}")
    words = [word for rule in rules for word in (rule.code, rule.name)]
    raise UnknownRuleError(f"there is no rule `{text}`{did_you_mean(text, words)}")
