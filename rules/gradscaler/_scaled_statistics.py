"""Whether it matters to what is made of a number that this is multiplied by the scale."""

from amplint.facts.fact import CallFact
from amplint.gradscaler.gradient_statistics import depends_on_scale
from amplint.ir.ast_cache import NodePlace


class DependsOnScale(CallFact[bool]):
    """Whether nothing that is the same for each scale is made of what a call returns."""

    sentence = "what is made of this depends on the scale"

    def of(self, at: NodePlace) -> bool:
        return depends_on_scale(self.inference, at.function, at.node)
