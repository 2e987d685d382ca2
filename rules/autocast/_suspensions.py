"""The places where a function stops, and others run."""

from __future__ import annotations

from collections.abc import Iterator

from amplint import libcst as cst


def suspensions(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Where the function stops for others to run, in the order of the text."""
    for child in node.children:
        if isinstance(child, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            continue
        if isinstance(child, cst.Yield | cst.Await):
            yield child
        if isinstance(child, cst.For) and child.asynchronous is not None:
            yield child.iter
        yield from suspensions(child)
