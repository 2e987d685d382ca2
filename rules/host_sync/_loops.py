"""Code that runs more than once."""

from __future__ import annotations

from amplint.rule.conditions import failing, where
from amplint.view.evaluated_node import EvaluatedNode


@failing("this is in no loop and no comprehension")
def _is_in_loop(here: EvaluatedNode) -> bool:
    return here.state.graph.in_loops[here.block]


IN_LOOP = where(_is_in_loop)
