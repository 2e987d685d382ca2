"""The values and the autocast regions of nodes, as inference leaves them."""

from __future__ import annotations

from dataclasses import replace

from amplint.analyses.fact import Fact, NodeFact, PlaceFact
from amplint.core.values import Region, Value
from amplint.inference import Inference
from amplint.inference.explanation import Explanations
from amplint.ir.ast_cache import NodePlace


class Reasons(Fact):
    """The evidence for what inference has found."""

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        self.explanations = Explanations(inference)


class Values(NodeFact[Value]):
    """The value of an expression, with its evidence."""

    requires = (Reasons,)

    def __init__(self, inference: Inference, reasons: Reasons) -> None:
        super().__init__(inference)
        self._explanations = reasons.explanations

    def of(self, at: NodePlace) -> Value | None:
        return self._explanations.explained(at.function, at.node) or None


class Regions(PlaceFact[Region]):
    """The innermost autocast region around a node, opened here or by a known caller, with its
    evidence."""

    requires = (Reasons,)

    def __init__(self, inference: Inference, reasons: Reasons) -> None:
        super().__init__(inference)
        self._explanations = reasons.explanations

    def of(self, at: NodePlace) -> Region | None:
        region = self.inference.states[at.function].regions.get(at.block)
        if region is None:
            return None
        return replace(region, evidence=self._explanations.of_region(at.function, at.block))


class OutsideRegions(PlaceFact[bool]):
    """Whether a node stands in no autocast region, or in one that its function switches off,
    whichever of the known callers calls."""

    requires = (Regions,)

    def __init__(self, inference: Inference, regions: Regions) -> None:
        super().__init__(inference)
        self._regions = regions

    def of(self, at: NodePlace) -> bool:
        region = self._regions.of(at)
        return region is None or (region.enabled is False and not region.inherited)


class PackedLengths(NodeFact[bool]):
    """Whether an expression holds the lengths of packed sequences, which have to be on the CPU.

    Ex) `lengths.cpu()` of `pack_padded_sequence(x, lengths.cpu())`
    """

    def of(self, at: NodePlace) -> bool:
        return at.node in self.inference.marks_of(at.function).lengths
