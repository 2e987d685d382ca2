"""Deprecated names of torch: called, used as decorators, passed on."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from amplint import (
    NONE,
    READ,
    Candidates,
    Edit,
    Finding,
    Fix,
    Rule,
    Symbol,
    View,
    calls,
    in_functions_with,
    nodes,
    only,
    reachable,
)
from amplint import libcst as cst

from .._shared.guards import is_fallback

if TYPE_CHECKING:
    # By deprecated name: what to use, as messages say it.
    Successors = Mapping[str, str]
    # The fix of a call or a decorator, by which expression it names what, and that name.
    Migrate = Callable[[View, View, str], Fix | None]

OF_CLASS = ("no caller could pass something else", "nothing checks the class, or replaces it")

NAMING = (READ, "name", "attr")
# What asks about a class, or names it for a check, and calls it not.
ASKING = frozenset({"isinstance", "issubclass", "hasattr", "getattr", "is_instance", "type"})
# Ex) isinstance(region, autocast); torch.cuda.amp.autocast = Other, as for another device
CHECKED = (
    r"(isinstance|issubclass)\((?!.*torch\.amp\.{0}).*{0}\b"
    r"|\bcase\s(?!.*torch\.amp\.{0}).*{0}\s*\("
    r"|^[\s\w.]*\bamp\.{0}\s*=(?!=)|\bsetattr\(.*\bamp\b.*\b{0}\b"
)


def message(named: View, successor: str) -> str:
    return f"`{named.brief}` is deprecated: use `{successor}`"


def report(rule: Rule, successors: Successors, migrate: Migrate, *, at_name: bool = False) -> None:
    """Let a rule report the calls of deprecated functions, and where they decorate.

    Args:
        at_name: whether a finding is at the name alone.
    """

    @rule.on(using(*successors))
    def check(at: View) -> Iterator[Finding]:
        use = named_by(at, successors)
        if use is not None:
            function, name = use
            text, fix = message(function, successors[name]), migrate(at, *use)
            yield at.finding(text, fix=fix, place=function.cst if at_name else None)


def renamed(
    function: View,
    new: str,
    edits: Iterable[Edit],
    conditions: Mapping[str, bool],
    also: str = "",
) -> Fix:
    """The fix that names another function and makes these edits too."""
    spelled = function.source.imports.spell(new)
    rename = function.source.edits.replace(function.cst, spelled.text)
    return Fix.safe_if(f"Use `{new}`{also}", (*spelled.edits, rename, *edits), conditions)


def of_class(named: View, cls: str) -> dict[str, bool]:
    """The conditions on which another class can be named in the place of a class of torch."""
    has_check = named.matches(CHECKED.format(cls), cls)
    return dict(zip(OF_CLASS, (not is_given(named), not has_check), strict=True))


# ------------------------------------------------------------------------ called, decorating


def using(*names: str) -> Candidates:
    """The calls of these library names, and the decorators that are one of them."""
    return calls(*names) | (nodes("context") & in_functions_with(frozenset(names)))


def named_by(at: View, names: Container[str]) -> tuple[View, str] | None:
    """The expression by which a call or a decorator names one of these, and the name; None where
    the code is for another version of torch."""
    is_call = at.op == "call"
    function, name = (at.operands[0], at.callee) if is_call else (at, at.name)
    if name is None or name not in names or is_fallback(at):
        return None
    decorates = isinstance(at.source.parent(at.cst), cst.Decorator)
    return (function, name) if is_call or decorates else None


# --------------------------------------------------------------------------------- handed on


def report_handed_on(rule: Rule, successors: Successors) -> None:
    """Let a rule report where a deprecated class is handed on, for somebody else to call: there is
    no fix."""

    @rule.on(
        in_functions_with(frozenset(successors))
        & nodes("call", "return", "tuple", "list", "dict", "store", "name", "attr", "phi")
    )
    def check_handed_on(at: View) -> Iterator[Finding]:
        """Ex) partial(torch.cuda.amp.autocast, enabled=True)"""
        for named in _handed_on(at, successors):
            if not is_fallback(named):
                yield named.finding(message(named, successors[_name(named)]))


def _handed_on(at: View, names: Container[str]) -> Iterator[View]:
    """The expressions of one of these names that are arguments, elements, returned, chosen by a
    test, or the value of a field of an object or a class.

    Ex) autocast of partial(autocast, enabled=True), of `return autocast, GradScaler`, of
    self.region = autocast, and of `autocast if amp else nullcontext`
    """
    for each in _given_by(at, names):
        if _name(each) in names and (each is not at or _is_field_of_class(at)):
            named = at.assigned if at.op == "store" else each
            if named is not None and named.op in NAMING and not _is_asked_for(named):
                yield named


def _name(at: View) -> str:
    """The library name that an expression is, where it is something.

    Ex) `torch.cuda.amp.autocast` of the `autocast` that is None where torch has none
    """
    atom = only(at.value - {NONE})
    return atom.name if isinstance(atom, Symbol) else ""


def _given_by(at: View, names: Container[str]) -> Sequence[View]:
    """The values that an operation passes on; what a class binds a field to is passed on by
    nothing, and stands for itself."""
    if at.op in ("name", "attr"):
        return [at]
    if at.op == "phi" and any(
        _name(each).startswith("torch.") and _name(each) not in names for each in at.operands
    ):
        return []  # the old name may be there for an old torch
    return at.operands[1:] if at.op == "call" else at.operands


def _is_field_of_class(at: View) -> bool:
    """Ex) torch.cuda.amp.autocast of `class Trainer: region = torch.cuda.amp.autocast`"""
    return at.function.kind == "class" and at.source.layout.assignment(at.cst) is not None


def _is_asked_for(named: View) -> bool:
    """Ex) isinstance(x, (GradScaler, Other))"""
    src = named.source
    return any(
        isinstance(around, cst.Call) and src.text(around.func).rpartition(".")[2] in ASKING
        for around in src.ancestors(named.cst)
    )


def is_given(named: View) -> bool:
    """Whether a dotted name begins with a parameter, or a variable that was made of one: then
    callers that are not seen may have it be something else.

    Ex) amp.autocast of `def embed(x, amp): ...`, self.scaler_class, getattr(amp, "autocast")
    """
    return any(each.op == "param" for each in reachable([named.origin], _parts))


def _parts(at: View) -> list[View]:
    """Ex) amp of amp.autocast and of getattr(amp, "autocast")"""
    made_of = {"attr": at.operands[:1], "call": at.operands[1:]}
    return [each.origin for each in made_of.get(at.op, ())]
