"""The regions that a function opens above a call, or around it."""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Autocast, View, region_dtype


def opened_above(call: View, dtype: str) -> list[tuple[View, Autocast]]:
    """The enabled regions above a call, or around it, in the blocks that the call stands in, each
    with the context that opens it; none where its function opens none of this dtype."""
    opened = [pair for context in call.contexts for pair in _opened_by(context)]
    if all(region_dtype(region) != dtype for _, region in opened):
        return []
    return [(context, region) for context, region in opened if _is_above(context, call)]


def _opened_by(context: View) -> Iterator[tuple[View, Autocast]]:
    """The regions that a context may open, with it."""
    for atom in context.value:
        if isinstance(atom, Autocast) and atom.enabled is not False:
            yield context, atom


def _is_above(context: View, call: View) -> bool:
    """Whether a `with` stands around a call, or before it in a block that the call stands in."""
    src = call.source
    opened, around = src.statement(context.cst), [*src.ancestors(call.cst)]
    return opened in around or (src.parent(opened) in around and context.span < call.span)
