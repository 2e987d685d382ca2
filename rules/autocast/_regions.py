"""Regions of autocast: what may open one, what it has made, and which lines may leave it."""

from __future__ import annotations

from amplint import HALF, Autocast, Shows, Tensor, View, evidence_of, is_autocast
from amplint import libcst as cst
from amplint.analyses.cast_cache import autocast_in
from amplint.rule.conditions import failing, where
from amplint.view.evaluated_node import EvaluatedNode


@failing("this is no autocast region")
def _may_be_region(here: EvaluatedNode) -> bool:
    return autocast_in(here.state.values[here.number]) is not None


MAY_BE_REGION = where(_may_be_region)


def opens_region(context: View) -> bool:
    """Whether a context may be one of autocast."""
    return any(isinstance(atom, Autocast) for atom in context.value)


def lines_to_leave(statement: cst.BaseStatement | None, at: View) -> list[cst.BaseStatement]:
    """The lines from a statement on to the end of the region that it stands in; none where the
    `with` opens something else, too, or where nothing would stay in it."""
    block = at.source.parent(statement)
    region = at.source.parent(block)
    if not isinstance(block, cst.IndentedBlock) or not isinstance(region, cst.With):
        return []
    if not all(is_autocast(at.of(item.item).value) for item in region.items):
        return []
    first = next((i for i, line in enumerate(block.body) if line is statement), 0)
    return list(block.body[first:]) if first > 0 else []


def made_by_autocast(tensor: Tensor) -> bool:
    """Whether a tensor is half on all paths, since a region made it so."""
    evidence = evidence_of(tensor.dtype_evidence) if tensor.dtype in HALF else None
    return evidence is not None and evidence.kind is Shows.AUTOCAST
