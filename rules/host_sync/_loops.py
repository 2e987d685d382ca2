"""Code that runs more than once."""

from __future__ import annotations

from amplint.rule.conditions import failing, where
from amplint.view.spot import Spot


@failing("this is in no loop and no comprehension")
def _is_in_loop(spot: Spot) -> bool:
    return spot.state.graph.in_loops[spot.block]


IN_LOOP = where(_is_in_loop)
