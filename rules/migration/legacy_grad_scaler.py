"""`torch.cuda.amp.GradScaler` and `torch.cpu.amp.GradScaler` are deprecated since torch 2.4.

Constructing one warns (FutureWarning) at every start. `torch.amp.GradScaler` takes the device as
its first parameter and is otherwise the same.

    scaler = torch.cuda.amp.GradScaler(enabled=use_amp)          # warns

    scaler = torch.amp.GradScaler("cuda", enabled=use_amp)

An annotation with the old class is reported as well: the scalers of the new one are not of that
type, and mypy refuses them.

    def step(scaler: torch.cuda.amp.GradScaler): ...

    def step(scaler: torch.amp.GradScaler): ...

Fix safety: safe for torch 2.3 and later, which have the new name: the old class is a subclass of
the new one that only fills in the device. Unsafe where the project asks `isinstance(scaler,
torch.cuda.amp.GradScaler)`, since the new object is no instance of the old class, where it puts
another class in that place (`torch.cuda.amp.GradScaler = Other`), and where the class, or its
module, is a parameter's, and only the seen calls say that it is the old one. It is unsafe to remove
an import that nobody uses: who is out of sight may take the name from the file.

Known limits: a name that may be the old or the new one (`try: ... except ImportError:`), code
under a test of the version, and annotations in quotes are left alone. The class itself where it is
handed on, for somebody else to call, is reported without a fix, and so is a device for the old
class (AMP417).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    Edit,
    Finding,
    Fix,
    Group,
    Rule,
    Spot,
    Symbol,
    Warns,
    calls,
    canonical,
    nodes,
)
from amplint import libcst as cst
from amplint.knowledge.libraries import SCALERS

from .._shared.guards import is_fallback
from .._shared.handed_on import handed_on, handing_on
from .._shared.parameters import is_given
from .._shared.scalers import device_out_of_place
from .._shared.unused_imports import importing, unused_imports

if TYPE_CHECKING:
    from amplint import Source

CERTAIN = "no caller could pass another class"
NOT_ASKED = "nothing asks for the class of a scaler"

LEGACY = frozenset(name for name, api in SCALERS.items() if api.legacy is not None)


CHECKED_BY_CLASS = (
    r"(isinstance|issubclass)\((?!.*torch\.amp\.GradScaler).*GradScaler"
    r"|\bcase\s(?!.*torch\.amp\.GradScaler).*GradScaler\s*\("
)
# Ex) torch.cuda.amp.GradScaler = Other: a library for another device puts its own class there.
REPLACED = r"\bamp\.GradScaler\s*=(?!=)|\bsetattr\(.*\bamp\b.*\bGradScaler\b"


def is_annotated(at: Spot) -> bool:
    """Whether an annotation may name a deprecated scaler."""
    if not at.mentions("GradScaler"):
        return False
    roots = at.node.operands if at.number >= 0 else (at.graph.annotation,)

    def is_legacy(number: int) -> bool:
        return any(isinstance(a, Symbol) and canonical(a.name) in LEGACY for a in at.of(number))

    return any(at.may_come_from(root, is_legacy) for root in roots if root >= 0)


rule = Rule(
    "AMP702",
    __doc__,
    group=Group.MIGRATION,
    since="0.1",
    help="use `torch.amp.GradScaler(device, ...)`",
    witness=Warns("GradScaler(args...)` is deprecated"),
    safe_if=(CERTAIN, NOT_ASKED),
    torch="2.3",
    candidates=calls(*LEGACY)
    | nodes("param", "annotation", "function") & is_annotated
    | handing_on(LEGACY)
    | importing(LEGACY),
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    name = src.name(call.func)
    api = SCALERS.get(name) if name is not None else None
    if api is None or api.legacy is None or api.device is None or is_fallback(call, src):
        return
    yield src.finding(
        rule, call, message(call.func, api.device, src), migrate(call, api.device, src)
    )


@rule.check
def check_annotation(annotation: cst.Annotation, src: Source) -> Iterator[Finding]:
    """Ex) scaler: Optional[torch.cuda.amp.GradScaler] = None"""
    for named in named_in(annotation):
        written = src.text(named, parentheses=False)
        name = src.imports.meaning(written)
        api = SCALERS.get(name) if name is not None else None
        if name is None or api is None or api.legacy is None:
            continue
        if not is_fallback(annotation, src):
            said = f"`{written}` is deprecated: scalers are `{api.legacy}`"
            yield src.finding(rule, named, said, widen(named, name, api.legacy, src))


@rule.check
def check_handed_on(
    node: cst.Arg | cst.Return | cst.Element | cst.DictElement | cst.Assign, src: Source
) -> Iterator[Finding]:
    """Ex) return torch.cuda.amp.GradScaler"""
    for named, name in handed_on(node, LEGACY, src):
        device = SCALERS[name].device
        if device is not None and not is_fallback(named, src):
            yield src.finding(rule, named, message(named, device, src))


def message(node: cst.BaseExpression, device: str, src: Source) -> str:
    return f'`{src.text(node)}` is deprecated: use `torch.amp.GradScaler("{device}", ...)`'


def named_in(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Ex) Optional, torch.cuda.amp.GradScaler of Optional[torch.cuda.amp.GradScaler]"""
    if isinstance(node, cst.Name | cst.Attribute):
        yield node
    else:
        for child in node.children:
            yield from named_in(child)


def widen(named: cst.CSTNode, old: str, new: str, src: Source) -> Fix | None:
    """Name the new class, which is a base of the old one; not with an import that is run, where the
    one of the old is for type checkers."""
    spelled = src.imports.spell(new)
    if spelled is None or (spelled.edits and src.imports.bound_as(old) is None):
        return None
    edits = (*spelled.edits, src.edits.replace(named, spelled.text))
    conditions = {CERTAIN: True, NOT_ASKED: not src.matches(CHECKED_BY_CLASS, "GradScaler")}
    return Fix.safe_if(f"Use `{new}`", edits, conditions)


def migrate(call: cst.Call, device: str, src: Source) -> Fix | None:
    """Ex) GradScaler(1024.) -> torch.amp.GradScaler("cuda", 1024.)"""
    spelled = src.imports.spell("torch.amp.GradScaler")
    if spelled is None or device_out_of_place(call, src) is not None:
        return None
    rename: Edit = src.edits.replace(call.func, spelled.text)
    first = src.edits.insert_argument(call, f'"{device}"')
    if first is None:
        return None
    conditions = {
        CERTAIN: not is_given(call.func, src),
        NOT_ASKED: not src.matches(CHECKED_BY_CLASS, "GradScaler"),
    }
    fix = Fix.safe_if("Use `torch.amp.GradScaler`", (*spelled.edits, rename, first), conditions)
    return fix.demoted() if src.matches(REPLACED, "GradScaler") else fix


@rule.check
def check_import(statement: cst.ImportFrom, src: Source) -> Iterator[Finding]:
    """Ex) from torch.cuda.amp import GradScaler, and nothing that uses it"""
    yield from unused_imports(rule, statement, LEGACY, src)
