"""The values and the autocast regions of nodes, as inference leaves them."""

from __future__ import annotations

from dataclasses import replace

from amplint.facts.fact import Fact, NodeFact, PlaceFact, Required
from amplint.facts.unknown_in_calls import gives_half, is_unknown_in, sources
from amplint.inference import Inference
from amplint.inference.explanation import Explanations
from amplint.inference.transfer import without_half
from amplint.ir.ast_cache import NodePlace
from amplint.values.atoms import Region, Value


class Reasons(Fact):
    """The evidence for what inference has found."""

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        self.explanations = Explanations(inference)


class Values(NodeFact[Value]):
    """The value of an expression, with its evidence.

    Nothing is half by a region in which nothing is known of it: where no call in the region that a
    function inherits passes anything known for what a tensor is computed from, it is one in calls
    outside, and keeps its dtype there.
    """

    _reasons = Required(Reasons)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._entries: dict[NodePlace, tuple[Value, Value | None]] = {}

    def of(self, at: NodePlace) -> Value | None:
        value = self._reasons.explanations.explained(at.function, at.node)
        entry = self._entries.get(at)
        if entry is None or entry[0] is not value:
            here = without_half(value) if self._is_half_for_others(at, value) else value
            entry = self._entries[at] = value, here or None
        return entry[1]

    def rests_on_callers(self, at: NodePlace) -> bool:
        """Whether the answer may rest on calls of the function, too: see `_is_half_for_others`."""
        state = self.inference.states[at.function]
        return self._may_be_half_for_others(at, state.values[at.node])

    def _may_be_half_for_others(self, at: NodePlace, value: Value) -> bool:
        region = self.inference.states[at.function].regions.get(at.block)
        if region is None or not region.inherited:
            return False
        facts = self.inference.functions[at.function]
        if facts.name == "forward" and facts.cls is not None:
            return False  # of which the parameters are tensors, whatever they are given
        return without_half(value) != value

    def _is_half_for_others(self, at: NodePlace, value: Value) -> bool:
        """Whether a value is half by a region, and a tensor by calls that do not stand in it."""
        if not self._may_be_half_for_others(at, value):
            return False
        infer, (function, number, block) = self.inference, at
        region = infer.states[function].regions[block]
        assert region is not None
        calls = infer.regions.in_regions(function, region.presumed)
        if not calls or not is_unknown_in(infer, calls, function, number, gives_half):
            return False
        made_of = sources(infer, function, number, gives_half)
        values = (infer.states[function].values[each] for each in made_of)
        return all(without_half(each) == each for each in values)


class Regions(PlaceFact[Region]):
    """The innermost autocast region around a node, opened here or by a known caller, with its
    evidence."""

    _reasons = Required(Reasons)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        # A block has many nodes.
        self._entries: dict[tuple[str, int], tuple[Region, Region]] = {}

    def of(self, at: NodePlace) -> Region | None:
        region = self.inference.states[at.function].regions.get(at.block)
        if region is None:
            return None
        block = at.function, at.block
        entry = self._entries.get(block)
        if entry is None or entry[0] is not region:
            evidence = self._reasons.explanations.of_region(*block)
            entry = self._entries[block] = region, replace(region, evidence=evidence)
        return entry[1]
