"""All rules: the modules of `amplint.rules`, imported and validated, and the two of the engine."""

from __future__ import annotations

import difflib
import importlib
import inspect
import itertools
import pkgutil
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import overload

from amplint.core.errors import Failure
from amplint.core.finding import Group
from amplint.core.rule import Rule, Unrun

CODE = re.compile(r"AMP\d{3}")
# The directory of a rule in rules/, by the first digit of its code.
FAMILIES = {
    "1": "host_sync",
    "2": "precision",
    "3": "autocast",
    "4": "gradscaler",
    "5": "placement",
    "6": "parallel",
    "7": "migration",
    "8": "numerics",
    "9": "memory",
}
SINCE = re.compile(r"\d+\.\d+(\.\d+)?")
# A line that continues a sentence: no capital at the start, no stop at the end.
HELP = re.compile(r"[a-z].*[^\s.!]")
HEADINGS = ("Fix safety", "Known limits")


class RegistryError(Failure):
    """A rule module breaks the rules for rules; the text names the module."""


class UnknownRuleError(Exception):
    """No rule has this code or name; the text names the nearest one."""


UNPARSABLE = Rule(
    code="AMP000",
    name="unparsable-file",
    doc="""The file is not Python that can be read, so nothing in it was checked.

A syntax error, NUL bytes, or bytes that are not of the file's encoding. The file is read by the
`ast` module of the Python that runs amplint; a file in a newer syntax needs amplint on a newer
Python, and the message names the version that refused it.

This finding is always on: a file that was not looked at must not pass for a clean one. Only
naming AMP000 itself in `ignore` or `per-file-ignores` switches it off.

Fix safety: there is no fix.

Known limits: a file outside the paths on the command line that does not parse is passed over
without a word; what is called from there is not known.
""",
    group=Group.CORRECTNESS,
    since="0.1.0",
    help="correct the file, or run amplint on the Python that the file is written for",
    witness=Unrun("a file that does not parse cannot run", "the ast module of Python"),
)

UNUSED = Rule(
    code="AMP001",
    name="unused-suppression",
    doc="""A suppression comment suppresses nothing.

`# amplint: ignore[AMP101]` on a line where AMP101 is not found hides the next mistake that is
made there. Also reported: a code that does not exist, and a comment that begins with
`# amplint:` and is not understood. In `# noqa: AMP101, E501` only the codes of amplint are looked
at, and a bare `# noqa` is never reported, since other tools read it too.

Fix safety: safe. Exactly the unused code goes, or the comment if nothing is left of it.

Known limits: silent where not everything was looked at: when the code is switched off, when the
file or another file of the project could not be read, and for text on standard input without a
file name.
""",
    group=Group.SUPPRESSION,
    since="0.1.0",
    help="remove the comment, or correct the code in it",
    witness=Unrun("a comment does nothing at run time", "amplint's own output"),
    safe_if=("the code is suppressed by nothing, and nothing but a comment goes",),
)

ENGINE_RULES = (UNPARSABLE, UNUSED)


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, those of the engine included, in the order of their codes."""
    return collect(importlib.import_module("amplint.rules"))


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


def collect(package: ModuleType) -> tuple[Rule, ...]:
    """Import and validate the rules of a package; raise `RegistryError` at the first bad one."""
    rules = list(ENGINE_RULES)
    for module_name in sorted(rule_modules(package)):
        rules.append(load(module_name))
    rules.sort(key=lambda rule: rule.code)
    for one, other in itertools.pairwise(rules):
        if one.code == other.code:
            raise RegistryError(f"{one.name} and {other.name} both have the code {one.code}")
    return tuple(rules)


def rule_modules(package: ModuleType) -> Iterator[str]:
    """The dotted names of the rule modules of a package: its own, and those of its families.

    Modules and packages whose names begin with an underscore hold no rules.
    """
    for info in pkgutil.iter_modules(package.__path__):
        name = f"{package.__name__}.{info.name}"
        if info.name.startswith("_"):
            continue
        if info.ispkg:
            yield from rule_modules(importlib.import_module(name))
        else:
            yield name


def load(module_name: str) -> Rule:
    """Import one rule module and validate what it declares."""
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        kind = type(error).__name__
        raise RegistryError(f"{module_name} cannot be imported: {kind}: {error}") from error
    rule = getattr(module, "rule", None)
    if not isinstance(rule, Rule):
        raise RegistryError(f"{module_name} has no `rule = Rule(...)`")
    # The name is written on the module's own object, because its checks pass that one on.
    object.__setattr__(rule, "name", module_name.rpartition(".")[2].replace("_", "-"))
    complaints = [complaint for complaint in complaints_about(rule) if complaint]
    if complaints:
        raise RegistryError(f"{module_name}: {complaints[0]}")
    return rule


def complaints_about(rule: Rule) -> Iterable[str]:
    """The flaws in the declaration of a rule, a sentence each."""
    if not CODE.fullmatch(rule.code):
        yield f"the code {rule.code!r} is not of the form AMP101"
    if not rule.doc or not rule.summary:
        yield "the module has no docstring"
        return
    for heading in HEADINGS:
        if not rule.section(heading):
            yield f"the docstring has no paragraph `{heading}:`"
    if not HELP.fullmatch(rule.help):
        yield f"help={rule.help!r} is not a phrase like `read it once after the loop`"
    if not isinstance(rule.group, Group):
        yield f"{rule.group!r} is not a Group"
    if not SINCE.fullmatch(rule.since):
        yield f"since={rule.since!r} is not a version like 0.1.0"
    if not rule.candidates.ways:
        yield "candidates must say where the rule may speak"
    if any(way.ops is None for way in rule.candidates.ways):
        yield "candidates must say which operations they are about"
    if not all(CODE.fullmatch(code) for code in rule.supersedes):
        yield f"supersedes={rule.supersedes!r} are not codes"
    for bound in (rule.torch, rule.fixes_torch, rule.until):
        if bound is not None and not SINCE.fullmatch(bound):
            yield f"torch={bound!r} is not a version like 2.4"
    if not rule.checks:
        yield "no check is registered with @rule.check"
    for check in rule.checks:
        if next(iter(inspect.signature(check).parameters)) not in check.__annotations__:
            yield "the first parameter of a check must be annotated with the nodes that it is for"


def for_target(rules: Iterable[Rule], target: str | None) -> tuple[Rule, ...]:
    """The rules that hold for every torch from `target` on, and those that hold for `target` alone.

    Without a target, those that hold for any torch from some version on.
    """
    if target is None:
        return tuple(rule for rule in rules if rule.until is None)
    floor = version(target)
    return tuple(
        rule
        for rule in rules
        if (rule.torch is None or version(rule.torch) <= floor)
        and (rule.until is None or floor < version(rule.until))
    )


def version(text: str) -> tuple[int, ...]:
    """A version as numbers that compare, without trailing zeros: "2.10" is above "2.9"."""
    numbers = [int(part) for part in text.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def find(text: str, rules: Sequence[Rule] | None = None) -> Rule:
    """The rule with this code or name."""
    rules = all_rules() if rules is None else rules
    for rule in rules:
        if text.lower().replace("_", "-") in (rule.code.lower(), rule.name):
            return rule
    words = [word for rule in rules for word in (rule.code, rule.name)]
    raise UnknownRuleError(f"there is no rule `{text}`{did_you_mean(text, words)}")


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: the nearest known one, if any is near.

    For a code that is another code, and not the beginning of many.
    """
    is_code = CODE.fullmatch(text.upper())
    spelled = {word.lower(): word for word in known if not is_code or len(word) == len(text)}
    near = difflib.get_close_matches(text.lower(), spelled, n=1, cutoff=0.5)
    return f"; did you mean `{spelled[near[0]]}`?" if near else ""
