"""Conditions on where a node stands: in code that runs for every batch, in a region ...; and on
what is known of it."""

from __future__ import annotations

from amplint.analyses.hotness import EVALUATION, TRAINING
from amplint.facts.trait import Trait
from amplint.rule.conditions import Test, failing, in_functions, nodes, where
from amplint.view.evaluated_node import EvaluatedNode


def _heated(temperature: str) -> Test:
    @failing(f"this is not seen to run once per batch of {temperature}")
    def holds(here: EvaluatedNode) -> bool:
        return here.project.temperature(here.function, here.block) == temperature

    return holds


@failing("this is in no autocast region")
def _is_in_region(here: EvaluatedNode) -> bool:
    return here.enabled_region is not None


HOT = where(_heated(TRAINING), Trait.HOT)
EVALUATED = where(_heated(EVALUATION))
IN_REGION = where(_is_in_region, Trait.REGION)
MISUSED = nodes("call") & in_functions(Trait.MISUSED)
# Of the function: something in it is so.
SOMEWHERE_HOT = in_functions(Trait.HOT)
WITHIN_REGION = in_functions(Trait.REGION)
WITH_HALF = in_functions(Trait.HALF)
