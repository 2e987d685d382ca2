"""Hoisting: a line that is moved up, so that it runs once and not in every iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint import Edit
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Source, View


def above_loops(at: View) -> tuple[Edit, ...] | None:
    """The edits that move `name = value` from the body of a loop above the outermost loop of its
    function; None where it would mean something else there, or be run as often.

    Ex) for x in loader: w = torch.ones(3) -> w = torch.ones(3); for x in loader: ...
    """
    src = at.source
    line, loop = src.statement(at.cst), _outermost_loop(at.cst, src)
    if not isinstance(line, cst.SimpleStatementLine) or loop is None:
        return None
    assign = line.body[0]
    if not isinstance(assign, cst.Assign):
        return None
    name = assign.targets[0].target
    in_body = isinstance(src.parent(src.parent(line)), cst.For | cst.While)
    if not in_body or not isinstance(name, cst.Name) or src.assigned_name(assign.value) is None:
        return None
    if at.of(loop).hotness is not None or not src.variables.same_before(assign.value, loop):
        return None
    if not src.variables.bound_once(name):
        return None
    comment = line.trailing_whitespace.comment if len(line.body) == 1 else None
    behind = f"  {comment.value}" if comment is not None else ""
    above = src.edits.insert_statement_before(loop, src.text(assign) + behind)
    return above, src.edits.remove_statement(assign)


def _outermost_loop(node: cst.CSTNode, src: Source) -> cst.For | cst.While | None:
    """The outermost loop around the node within its function."""
    loop: cst.For | cst.While | None = None
    for around in src.ancestors(node):
        if isinstance(around, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            break
        if isinstance(around, cst.For | cst.While):
            loop = around
    return loop
