"""Conditions on where a node stands: in code that runs for every batch, in a region ...; and on
what is known of it."""

from __future__ import annotations

from amplint.analyses.cast_cache import autocast_in
from amplint.analyses.hotness import EVALUATION, TRAINING
from amplint.analyses.trait import Trait
from amplint.rule.conditions import Test, failing, in_functions, nodes, where
from amplint.view.spot import Spot


def _heated(temperature: str) -> Test:
    @failing(f"this is not seen to run once per batch of {temperature}")
    def holds(spot: Spot) -> bool:
        return spot.project.temperature(spot.function, spot.block) == temperature

    return holds


@failing("this is in no autocast region")
def _is_in_region(spot: Spot) -> bool:
    return spot.enabled_region is not None


@failing("this is in no loop and no comprehension")
def _is_in_loop(spot: Spot) -> bool:
    return spot.state.graph.in_loops[spot.block]


@failing("this is no autocast region")
def _may_be_region(spot: Spot) -> bool:
    return autocast_in(spot.state.values[spot.number]) is not None


HOT = where(_heated(TRAINING), Trait.HOT)
EVALUATED = where(_heated(EVALUATION))
IN_REGION = where(_is_in_region, Trait.REGION)
IN_LOOP = where(_is_in_loop)
MAY_BE_REGION = where(_may_be_region)
MISUSED = nodes("call") & in_functions(Trait.MISUSED)
# Of the function: something in it is so.
SOMEWHERE_HOT = in_functions(Trait.HOT)
WITHIN_REGION = in_functions(Trait.REGION)
WITH_HALF = in_functions(Trait.HALF)
