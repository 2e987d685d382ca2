"""All rules, imported and validated: amplint's own, and those of installed packages."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, overload

from amplint.core.errors import Failure, describe
from amplint.core.finding import Cost, Group
from amplint.core.rule import NOT_RUN, Rule, Unrun

if TYPE_CHECKING:
    from amplint.core.rule_packages import RulePackage

OWN = "AMP"
CODE = re.compile(r"[A-Z]{2,5}\d{3}")
CODE_OR_BEGINNING = re.compile(r"[A-Z]{2,5}\d*")
MOST_NEAR = 12  # codes that are named for one that no rule has
RESERVED = (OWN, "ALL")  # letters that no other package may take; ALL selects every rule
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
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

No mistakes in it are found, and its effects on other files are not known. It has a syntax error,
NUL bytes, or bytes that are invalid in the file's encoding. The file is read by the `ast` module of
the Python that runs amplint. Most newer syntax is read as well. If it is not, and nothing else is
wrong with the file, the message names the first Python that reads it.

    def train(model:
        ...

    def train(model):
        ...

This finding is always on, because a file that was not checked must not look clean. Only AMP000
itself in `ignore` or `per-file-ignores` switches it off.

Fix safety: there is no fix.

Known limits: a file outside the paths on the command line that does not parse is silently skipped;
its calls are not known.
""",
    group=Group.CORRECTNESS,
    since="0.1.0",
    help="fix the syntax, or run amplint with the Python version that this file targets",
    witness=Unrun("a file that does not parse cannot run", "the ast module of Python"),
)

UNUSED = Rule(
    code="AMP001",
    name="unused-suppression",
    doc="""A suppression comment suppresses nothing.

`# amplint: ignore[AMP101]` on a line where AMP101 is not found hides the next mistake that is
made there.

    loss = criterion(model(x), y)  # amplint: ignore[AMP101] it was `.item()` once

    loss = criterion(model(x), y)

Also reported: a code that does not exist, and a comment that begins with `# amplint:` and is not
understood. In `# noqa: AMP101, E501` only the codes of amplint are checked, and a bare `# noqa`
is never reported, since other tools read it too.

Fix safety: safe. It removes exactly the unused code, or the whole comment if nothing else is in it.

Known limits: silent if not everything was checked: if the code is switched off, if the file or
another file of the project could not be read, and for text on standard input without a file name.
""",
    group=Group.SUPPRESSION,
    since="0.1.0",
    help="remove the comment, or correct the code in it",
    witness=Unrun("a comment does nothing at run time", "amplint's own output"),
    safe_if=("the code suppresses nothing, and only a comment is removed",),
)

OVERFLOW = Rule(
    code="AMP807",
    name="half-overflow",
    doc="""In a run that `amplint observe` watched, half overflowed where float32 does not.

float16 ends at 65504. Larger values become infinite, the loss becomes NaN, and the step is skipped;
without a scaler to skip it, the weights become NaN.

    with torch.autocast("cuda", dtype=torch.float16):
        energy = (h @ h.T).square().sum()          # the products are half, and so are their squares

    with torch.autocast("cuda", dtype=torch.float16):
        energy = (h @ h.T).float().square().sum()

Whether it happens depends on the values, so the code alone does not show it: `amplint observe`
reports it for a run in which it has happened, and `amplint check` never does. Operands that are not
finite themselves do not count; neither does the backward pass of a scaled loss, whose overflow the
scaler handles.

Fix safety: there is no fix; the author has to decide where float32 begins.

Known limits: operations that change their operands are not checked. A back end that computes with
the CPU's kernels (`policy`) rounds as these do.
""",
    group=Group.CORRECTNESS,
    since="0.1.0",
    help="compute it in float32: `.float()` on the operands, or an island with autocast disabled",
    witness=Unrun("it is reported for a run that has shown it", "amplint observe"),
)

ENGINE_RULES = (UNPARSABLE, UNUSED, OVERFLOW)


@cache
def own_rules() -> tuple[Rule, ...]:
    """Every rule that amplint has itself, those of the engine included, in the order of codes."""
    return collect(importlib.import_module("amplint.rules"))


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, those of installed packages included, in the order of their codes."""
    from amplint.core import rule_packages  # noqa: PLC0415  (`amplint --help` needs none)

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


def collect(package: ModuleType) -> tuple[Rule, ...]:
    """Import and validate amplint's rules; raise `RegistryError` at the first bad one."""
    return ordered([*ENGINE_RULES, *map(load, sorted(rule_modules(package)))])


def ordered(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules in the order of their codes. Raises `RegistryError` for two that are alike."""
    known: dict[str, Rule] = {}
    for rule in rules:
        for kind, word in (("code", rule.code), ("name", rule.name)):
            other = known.setdefault(word, rule)
            if other is not rule:
                raise RegistryError(f"{whole(other)} and {whole(rule)} both have the {kind} {word}")
    for rule in dict.fromkeys(known.values()):
        for code, name in rule.cut_from:
            if code not in known or known[code].name != name:
                raise RegistryError(
                    f"{whole(rule)}: there is no {code} {name} that it could be cut from"
                )
    return tuple(sorted(dict.fromkeys(known.values()), key=lambda rule: rule.code))


def whole(rule: Rule) -> str:
    """A rule as it is kept apart from one of another package."""
    return f"{rule.name} of {rule.package}" if rule.package else rule.name


def rules_of(package: RulePackage) -> list[Rule]:
    """The rules that an installed package brings.

    Raises:
        RegistryError: one cannot be imported, or is not valid; the text names the package.
    """
    from amplint.core import rule_packages  # noqa: PLC0415

    found: dict[str, Rule] = {}
    for entry in package.modules:
        if not all(part.isidentifier() for part in entry.split(".")):
            raise RegistryError(f"{package}: the entry point `{entry}` is not the name of a module")
        if not rule_packages.is_own(package, entry):
            raise RegistryError(
                f"{package}: Python finds another {entry.partition('.')[0]} before the one that "
                "is installed, and amplint runs only what is installed"
            )
        for module in modules_of(entry, str(package)):
            found[module] = found.get(module) or load(module, str(package))
    return list(found.values())


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
            f"{of(package)}{module_name} cannot be imported: {describe(error)}"
        ) from error


def of(package: str) -> str:
    """The beginning of a complaint about a module of an installed package."""
    return f"{package}: " if package else ""


def load(module_name: str, package: str = "") -> Rule:
    """Import one rule module and validate what it declares.

    Args:
        module_name: dotted.
        package: the installed package that brings it; "" for amplint.
    """
    rule = getattr(imported(module_name, package), "rule", None)
    where = f"{of(package)}{module_name}"
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


def for_target(
    rules: Iterable[Rule], target: str | None, floor: str | None = None
) -> tuple[Rule, ...]:
    """The rules that hold for every torch from `target` on, and those that hold for `target` alone.

    Without a target, those that hold for any torch from some version on, and those that hold for
    the lowest one that requirements name, if they name one.
    """
    if target is None:
        return tuple(
            rule
            for rule in rules
            if rule.until is None or (floor is not None and version(floor) < version(rule.until))
        )
    lowest = version(target)
    return tuple(
        rule
        for rule in rules
        if (rule.torch is None or version(rule.torch) <= lowest)
        and (rule.until is None or lowest < version(rule.until))
    )


def version(text: str) -> tuple[int, ...]:
    """A version as numbers that compare, without trailing zeros: "2.10" is above "2.9"."""
    numbers = [int(part) for part in text.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def letters_of(code: str) -> str:
    """The letters in front of a code's digits."""
    return code.rstrip("0123456789")


@cache
def beginnings(code: str) -> tuple[str, ...]:
    """The selectors that mean a code and others: "AMP", "AMP1" and "AMP10" for AMP101."""
    length = len(letters_of(code))
    return tuple(code[:end] for end in range(length, len(code)))


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


def near_codes(text: str, codes: Collection[str]) -> list[str]:
    """The codes that begin with as much as possible of a code that no rule has, or of its
    beginning; none for what is neither."""
    if not CODE_OR_BEGINNING.fullmatch(text):
        return []
    for end in range(len(text), len(letters_of(text)) - 1, -1):
        near = sorted(code for code in codes if code.startswith(text[:end]))
        if near:
            return near
    return []


MISREAD = str.maketrans("oil", "011")  # AMP1O1 is AMP101, and not a slip for AMP11


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: the nearest known one, if any is near.

    For a code that is another code, and not the beginning of many. If no rule has its letters, it
    is taken for one of a package that is not installed, and not for a slip of the pen.
    """
    if CODE.fullmatch(text.upper()):
        letters = letters_of(text.upper())
        known = [word for word in known if CODE.fullmatch(word) and letters_of(word) == letters]
        if not known:
            return f"; no package with rules {letters} is installed beside amplint"
    spelled = {word.lower(): word for word in known}
    misread = {word.translate(MISREAD): word for word in spelled}
    alike = misread.get(text.lower().translate(MISREAD))
    if alike is not None:
        return f"; did you mean `{spelled[alike]}`?"
    near = difflib.get_close_matches(text.lower(), spelled, n=1, cutoff=0.5)
    return f"; did you mean `{spelled[near[0]]}`?" if near else ""
