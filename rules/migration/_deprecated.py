"""Deprecated names of torch: called, used as decorators, passed on, imported without a use."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from amplint import (
    READ,
    Candidates,
    Edit,
    Finding,
    Fix,
    Rule,
    Safety,
    View,
    calls,
    in_functions_with,
    nodes,
    reachable,
)
from amplint import libcst as cst

from .._shared.guards import is_fallback

if TYPE_CHECKING:
    from amplint import Source

    # By deprecated name: what to use, as messages say it.
    Successors = Mapping[str, str]
    # The fix of a call or a decorator, by which expression it names what, and that name.
    Migrate = Callable[[View, View, str], Fix | None]

OF_CLASS = ("no caller could pass something else", "nothing checks the class, or replaces it")

INIT = "__init__.py"
MEANT = re.compile(r"#.*\b(noqa|pylint)\b")
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
        found = named_by(at, successors)
        if found is not None:
            function, name = found
            said, fix = message(function, successors[name]), migrate(at, *found)
            yield at.finding(said, fix=fix, place=function.cst if at_name else None)


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
    asked = named.matches(CHECKED.format(cls), cls)
    return dict(zip(OF_CLASS, (not is_given(named), not asked), strict=True))


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
                yield named.finding(message(named, successors[named.name or ""]))


def _handed_on(at: View, names: Container[str]) -> Iterator[View]:
    """The expressions of one of these names that are arguments, elements, returned, chosen by a
    test, or the value of a field of an object or a class.

    Ex) autocast of partial(autocast, enabled=True), of `return autocast, GradScaler`, of
    self.region = autocast, and of `autocast if amp else nullcontext`
    """
    for each in _given_by(at, names):
        if each.name in names and (each is not at or _is_field_of_class(at)):
            named = at.assigned if at.op == "store" else each
            if named is not None and named.op in NAMING and not _is_asked_for(named):
                yield named


def _given_by(at: View, names: Container[str]) -> Sequence[View]:
    """The values that an operation passes on; what a class binds a field to is passed on by
    nothing, and stands for itself."""
    if at.op in ("name", "attr"):
        return [at]
    if at.op == "phi" and any(
        (each.name or "").startswith("torch.") and each.name not in names for each in at.operands
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


# ---------------------------------------------------------------------------------- imported


def report_imports(rule: Rule, names: frozenset[str]) -> None:
    """Let a rule report the imports of these library names that nothing uses.

    An `__init__.py` imports for others, a cell of a notebook for what is typed in the next, and an
    import in a `try` may be there to see whether it fails. A comment for another linter says that
    the import is meant.
    """

    @rule.on(nodes("import") & in_functions_with(names))
    def check_import(at: View) -> Iterator[Finding]:
        """Ex) from torch.cuda.amp import autocast, and nothing that uses it"""
        if at.name not in names:
            return
        statement, src = at.cst, at.source
        unused = [] if _is_meant(at) else _unused_names(at, names)
        fix = without(statement, unused, src) if unused else None
        for alias in unused:
            module, name = src.text(statement.module), alias.evaluated_name
            if f"{module}.{name}" == at.name:
                said = f"`{name}` of `{module}` is deprecated, and nothing uses this import"
                yield at.finding(said, fix=fix, place=alias)


def _is_meant(at: View) -> bool:
    """Whether an import may be there for other files, or to see whether it fails."""
    src, statement = at.source, at.cst
    if not src.path.endswith(".py") or src.path.rpartition("/")[2] == INIT:
        return True
    if is_fallback(at) or any(isinstance(each, cst.Try) for each in src.ancestors(statement)):
        return True
    line = src.statement(statement)
    return line is None or MEANT.search(cst.Module([]).code_for_node(line)) is not None


def _unused_names(at: View, names: Container[str]) -> list[cst.ImportAlias]:
    """Those of some library names that a statement imports, and that nothing seems to use."""
    statement, src = at.cst, at.source
    if not isinstance(statement, cst.ImportFrom) or isinstance(statement.names, cst.ImportStar):
        return []
    module = src.text(statement.module) if statement.module is not None else ""
    imported = [] if statement.relative else statement.names
    return [
        alias
        for alias in imported
        if f"{module}.{alias.evaluated_name}" in names and _is_unused(_bound_by(alias), at)
    ]


def _bound_by(alias: cst.ImportAlias) -> str:
    """Ex) old of `autocast as old`"""
    return alias.evaluated_alias or alias.evaluated_name


def _is_unused(name: str, at: View) -> bool:
    """Whether a name stands once in the file, and no other file seems to take it from there."""
    again = rf"(?<![.\w]){name}\b[\s\S]*(?<![.\w]){name}\b"
    if at.source.says(re.compile(again)):
        return False
    # As `exported` in fix/unused_imports.py, by lines: what is asked of other files are lines.
    stem = PurePosixPath(at.source.path).stem
    taken = rf"\b{re.escape(stem)}\s+import\b.*([*(\\]|\b{name}\b)|\b{re.escape(stem)}\.{name}\b"
    return not at.matches(taken, stem)


def without(statement: cst.ImportFrom, gone: list[cst.ImportAlias], src: Source) -> Fix | None:
    """Import the rest, if there is any. Unsafe: who is out of sight may take the name from here."""
    assert not isinstance(statement.names, cst.ImportStar)
    left = [alias for alias in statement.names if alias not in gone]
    title = "Remove the import"
    if not left:
        return Fix(title, (src.edits.remove_statement(statement),), Safety.UNSAFE)
    if statement.lpar is not None or statement.module is None:
        return None  # its lines, and the comments on them, are not for amplint to set anew
    kept = ", ".join(src.text(alias).rstrip(", ") for alias in left)
    new = f"from {src.text(statement.module)} import {kept}"
    return Fix(title, (src.edits.replace(statement, new),), Safety.UNSAFE)


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
