"""Which forward passes without gradients take those of a later pass in their region.

Autocast keeps the cast of a weight as long as a region is open. Where a pass under `no_grad` has
made it, it has no graph, and a pass with gradients that follows uses it all the same (torch before
2.11, https://github.com/pytorch/pytorch/pull/165068). Either pass may be made by what is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from amplint.analyses.fact import CallFact, Fact, Required
from amplint.analyses.hotness import NO_GRADIENTS
from amplint.analyses.module_uses import ModuleUses, NamedModule, Uses, may_follow, name_of
from amplint.inference import Inference
from amplint.ir.ast_cache import NodePlace
from amplint.values.atoms import Evidence, Shows

MAX_LATER = 16  # passes of a module that are looked at after its first one in a region
LATER = "this pass computes no gradients for the weights"


class Lost(NamedTuple):
    """A later pass that has no gradients because of an earlier one.

    Args:
        later: the node of the call that makes it, in the function of the earlier one.
        name: what the module of both is called.
        by_name: whether its parameters are handed on by that name; else an optimizer is given all
            parameters of the object that holds it.
        because: where what is called makes the earlier pass, and the later one.
    """

    later: int
    name: str
    by_name: bool
    because: tuple[Evidence, ...]


class LostGradients(CallFact[Lost]):
    """The later pass that the casts of a call leave without gradients."""

    _uses = Required(ModuleUses)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._found: dict[str, Mapping[int, Lost]] = {}

    def of(self, at: NodePlace) -> Lost | None:
        if at.function not in self._found:
            self._found[at.function] = self._losses(at.function)
        return self._found[at.function].get(at.node)

    def _losses(self, function: str) -> Mapping[int, Lost]:
        """By call of a function: the pass that it takes the gradients of. A module is reported once
        for each region, and of several that one call runs, the first."""
        if not NO_GRADIENTS.isdisjoint(self.inference.functions[function].decorated):
            return {}
        state = self.inference.states[function]
        found: dict[int, Lost] = {}
        for (module, _), uses in self._uses.in_regions(function).items():
            passes = [
                (number, each) for number, each in uses if each.without or each.with_gradients
            ]
            if not passes:
                continue
            (number, first), *others = passes
            if first.without is None or first.with_gradients is not None or number in found:
                continue
            for later, second in others[:MAX_LATER]:
                if second.surely and may_follow(state.graph, number, later):
                    lost = self._lost(function, module, number, first, later, second)
                    found.update({number: lost} if lost is not None else {})
                    break
        return found

    def _lost(
        self, function: str, module: NamedModule, number: int, first: Uses, later: int, second: Uses
    ) -> Lost | None:
        state = self.inference.states[function]
        name = name_of(state.graph, module)
        by_name = name in self._uses.handed_on
        if not by_name and not self._uses.is_trained(state.values[module.root]):
            return None
        texts = {first.without: "the casts are made here", second.with_gradients: LATER}
        here = self.inference.place(function, number)
        because = tuple(
            Evidence(place, text, Shows.WEIGHTS)
            for place, text in texts.items()
            if place is not None and place != here
        )
        return Lost(later, name, by_name, because)
