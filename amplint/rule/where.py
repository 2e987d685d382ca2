"""Conditions on where a node stands: in code that runs for every batch, in a region ...; and on
what is known of it."""

from __future__ import annotations

from amplint.analyses.cast_cache import autocast_in
from amplint.analyses.hotness import EVALUATION, TRAINING
from amplint.analyses.inferred import ReadByFramework
from amplint.analyses.trait import Trait
from amplint.ir.ast_cache import NodePlace
from amplint.rule.conditions import Test, in_functions, nodes, says, where
from amplint.view.spot import Spot


def _heated(temperature: str) -> Test:
    @says(f"it runs for every batch of {temperature}")
    def holds(spot: Spot) -> bool:
        return spot.project.temperature(spot.function, spot.block) == temperature

    return holds


@says("it is in an autocast region")
def _is_in_region(spot: Spot) -> bool:
    return spot.enabled_region is not None


@says("it is in no autocast region, or in one that is off")
def _is_outside_region(spot: Spot) -> bool:
    return spot.enabled_region is None


@says("it is in an autocast region that its function opens")
def _is_in_own_region(spot: Spot) -> bool:
    region = spot.enabled_region
    return region is not None and not region.inherited


@says("it is in a loop or a comprehension")
def _is_in_loop(spot: Spot) -> bool:
    return spot.state.graph.in_loops[spot.block]


@says("it may be an autocast region")
def _may_be_region(spot: Spot) -> bool:
    return autocast_in(spot.state.values[spot.number]) is not None


@says("a framework brings to the host what it is given")
def _is_read_by_framework(spot: Spot) -> bool:
    place = NodePlace(spot.function, spot.number, spot.block)
    return bool(spot.project.facts[ReadByFramework].of(place))


HOT = where(_heated(TRAINING), Trait.HOT)
EVALUATED = where(_heated(EVALUATION))
IN_REGION = where(_is_in_region, Trait.REGION)
IN_OWN_REGION = where(_is_in_own_region, Trait.REGION)
OUTSIDE_REGION = where(_is_outside_region)
IN_LOOP = where(_is_in_loop)
MAY_BE_REGION = where(_may_be_region)
READ_BY_FRAMEWORK = where(_is_read_by_framework)
MISUSED = nodes("call") & in_functions(Trait.MISUSED)
# Of the function: something in it is so.
SOMEWHERE_HOT = in_functions(Trait.HOT)
WITHIN_REGION = in_functions(Trait.REGION)
WITH_HALF = in_functions(Trait.HALF)
IN_WORKER = in_functions(Trait.WORKER)
IN_CAPTURE = in_functions(Trait.CAPTURED)
