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
parameter, and only the visible calls show that it is the old one.

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
    in_functions_with,
    nodes,
    reachable,
)
from amplint import libcst as cst
from amplint.knowledge.libraries import SCALERS
from amplint.knowledge.since import SINCE

from .._shared.guards import is_fallback
from .._shared.scalers import misplaced_device
from ._deprecated import OF_CLASS, of_class, renamed, report, report_handed_on

NEW = "torch.amp.GradScaler"
SUCCESSORS = {
    name: f'{NEW}("{api.device}", ...)' for name, api in SCALERS.items() if api.legacy is not None
}

rule = Rule(
    "AMP702",
    __doc__,
    group=Group.MIGRATION,
    help="use `torch.amp.GradScaler(device, ...)`",
    witness=Warns("GradScaler(args...)` is deprecated"),
    safe_if=OF_CLASS,
    torch=SINCE[NEW],
)


def migrate(at: View, function: View, name: str) -> Fix | None:
    """Ex) GradScaler(1024.) -> torch.amp.GradScaler("cuda", 1024.)"""
    if at.op != "call" or misplaced_device(at) is not None:
        return None
    first = at.source.edits.insert_argument(at.cst, f'"{SCALERS[name].device}"')
    return renamed(function, NEW, [first], of_class(function, "GradScaler"))


@rule.on(in_functions_with(frozenset(SUCCESSORS)) & nodes("name", "attr", "annotation"))
def check_annotation(at: View) -> Iterator[Finding]:
    """Ex) scaler: Optional[torch.cuda.amp.GradScaler] = None; the names in the annotation of a
    variable that the same function or module has imported have no nodes of their own."""
    is_whole = at.op == "annotation"
    for named in reachable([at], lambda each: each.operands) if is_whole else [at]:
        if (named.op == READ or not is_whole) and named.name in SUCCESSORS:
            around = named.source.ancestors(named.cst)
            if any(isinstance(each, cst.Annotation) for each in around) and not is_fallback(named):
                message = f"`{named.brief}` is deprecated: scalers are of type `{NEW}`"
                yield named.finding(message, fix=widen(named))


def widen(named: View) -> Fix | None:
    """Name the new class, which is a base of the old one; not with an import that is run, where the
    one of the old is for type checkers."""
    imports = named.source.imports
    spelled = imports.spell(NEW)
    if spelled.edits and imports.bound_as(named.name or "") is None:
        return None
    return renamed(named, NEW, [], of_class(named, "GradScaler"))


report(rule, SUCCESSORS, migrate)
report_handed_on(rule, SUCCESSORS)
