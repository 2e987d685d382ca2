"""Functions of which a framework brings the results to the host."""

from __future__ import annotations

from amplint.facts.fact import PlaceFact
from amplint.ir.ast_cache import NodePlace


class ReadBack(PlaceFact[bool]):
    """Whether a framework brings to the host what the function around a node returns."""

    sentence = "a framework reads what this function returns"

    def of(self, at: NodePlace) -> bool:
        method = self.inference.hierarchy.model_of_method(self.inference.functions[at.function])
        return method is not None and method.result == "read"
