"""`torch.cuda.amp.GradScaler` and `torch.cpu.amp.GradScaler` are deprecated since torch 2.4.

Constructing one warns (FutureWarning) at every start. `torch.amp.GradScaler` takes the device as
its first parameter and is otherwise the same.

    scaler = torch.cuda.amp.GradScaler(enabled=use_amp)          # warns

    scaler = torch.amp.GradScaler("cuda", enabled=use_amp)

An annotation with the old class is reported as well: scalers of the new class are not of that type,
so mypy refuses them.

    def step(scaler: torch.cuda.amp.GradScaler): ...

    def step(scaler: torch.amp.GradScaler): ...

Fix safety: safe for torch 2.3 and later, which have the new name: the old class is a subclass of
the new one that only fills in the device. Unsafe if the project tests `isinstance(scaler,
torch.cuda.amp.GradScaler)`, since the new object is not an instance of the old class; if it
replaces the class (`torch.cuda.amp.GradScaler = Other`); and if the class, or its module, is a
parameter, and only the visible calls show that it is the old one. Removing an unused import is
unsafe: code outside the project may import the name from this file.

Known limits: a name that may be the old or the new one (`try: ... except ImportError:`), code under
a version test, and annotations in quotes are not reported. The class itself, if it is passed on to
be called elsewhere, is reported without a fix, and so is a device for the old class (AMP417).
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    READ,
    Finding,
    Fix,
    Group,
    Rule,
    View,
    Warns,
    calls,
    in_functions_with,
    nodes,
    reachable,
)
from amplint import libcst as cst
from amplint.knowledge.libraries import SCALERS
from amplint.knowledge.since import SINCE

from .._shared.deprecated import message, named_by, report_handed_on, report_unused_imports
from .._shared.guards import is_fallback
from .._shared.parameters import is_given
from .._shared.scalers import misplaced_device

CERTAIN = "no caller could pass another class"
NOT_ASKED = "nothing checks the class of a scaler"

SUCCESSORS = {
    name: f'torch.amp.GradScaler("{api.device}", ...)'
    for name, api in SCALERS.items()
    if api.legacy is not None
}

CHECKED_BY_CLASS = (
    r"(isinstance|issubclass)\((?!.*torch\.amp\.GradScaler).*GradScaler"
    r"|\bcase\s(?!.*torch\.amp\.GradScaler).*GradScaler\s*\("
)
# Ex) torch.cuda.amp.GradScaler = Other: a library for another device puts its own class there.
REPLACED = r"\bamp\.GradScaler\s*=(?!=)|\bsetattr\(.*\bamp\b.*\bGradScaler\b"


rule = Rule(
    "AMP702",
    __doc__,
    group=Group.MIGRATION,
    since="0.1",
    help="use `torch.amp.GradScaler(device, ...)`",
    witness=Warns("GradScaler(args...)` is deprecated"),
    safe_if=(CERTAIN, NOT_ASKED),
    torch=SINCE["torch.amp.GradScaler"],
)


@rule.on(calls(*SUCCESSORS))
def check(call: View) -> Iterator[Finding]:
    found = named_by(call, SUCCESSORS)
    if found is not None:
        function, name = found
        yield call.finding(
            message(function, SUCCESSORS[name]), fix=migrate(call, function, SCALERS[name].device)
        )


def migrate(call: View, function: View, device: str | None) -> Fix | None:
    """Ex) GradScaler(1024.) -> torch.amp.GradScaler("cuda", 1024.)"""
    edits, spelled = call.source.edits, call.source.imports.spell("torch.amp.GradScaler")
    first = edits.insert_argument(call.cst, f'"{device}"')
    if spelled is None or first is None or misplaced_device(call) is not None:
        return None
    rename = edits.replace(function.cst, spelled.text)
    conditions = {
        CERTAIN: not is_given(function),
        NOT_ASKED: not call.matches(CHECKED_BY_CLASS, "GradScaler"),
    }
    fix = Fix.safe_if("Use `torch.amp.GradScaler`", (*spelled.edits, rename, first), conditions)
    return fix.demoted() if call.matches(REPLACED, "GradScaler") else fix


@rule.on(in_functions_with(frozenset(SUCCESSORS)) & nodes("name", "attr", "annotation"))
def check_annotation(at: View) -> Iterator[Finding]:
    """Ex) scaler: Optional[torch.cuda.amp.GradScaler] = None"""
    for named in named_in(at):
        new = SCALERS[named.name].legacy if named.name in SUCCESSORS else None
        if new is not None and is_annotation(named) and not is_fallback(named):
            said = f"`{named.brief}` is deprecated: scalers are of type `{new}`"
            yield named.finding(said, fix=widen(named, new))


def named_in(at: View) -> Iterator[View]:
    """A name itself; of the annotation of a variable, the names that are read in it: those that the
    same function or module has imported have no nodes of their own."""
    if at.op != "annotation":
        yield at
    else:
        inner = reachable([at], lambda each: each.operands)
        yield from (each for each in inner if each.op == READ)


def is_annotation(named: View) -> bool:
    around = named.source.ancestors(named.cst)
    return any(isinstance(each, cst.Annotation) for each in around)


def widen(named: View, new: str) -> Fix | None:
    """Name the new class, which is a base of the old one; not with an import that is run, where the
    one of the old is for type checkers."""
    imports, old = named.source.imports, named.name or ""
    spelled = imports.spell(new)
    if spelled is None or (spelled.edits and imports.bound_as(old) is None):
        return None
    edits = (*spelled.edits, named.source.edits.replace(named.cst, spelled.text))
    conditions = {CERTAIN: True, NOT_ASKED: not named.matches(CHECKED_BY_CLASS, "GradScaler")}
    return Fix.safe_if(f"Use `{new}`", edits, conditions)


report_handed_on(rule, SUCCESSORS)
report_unused_imports(rule, frozenset(SUCCESSORS))
