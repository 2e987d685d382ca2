"""Whether it matters to what is made of a number that this is multiplied by the scale."""

from functools import cache

from amplint.facts.fact import CallFact, Fact
from amplint.gradscaler.gradient_statistics import GradientStatistics
from amplint.inference import Inference
from amplint.ir.ast_cache import NodePlace


class DependsOnScale(CallFact[bool]):
    """Whether nothing that is the same for each scale is made of what a call returns."""

    sentence = "what is made of this depends on the scale"

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._in_function = cache(lambda function: GradientStatistics(inference, function))

    def of(self, at: NodePlace) -> bool:
        return self._in_function(at.function).depends_on_scale(at.node)
