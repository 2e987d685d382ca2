"""Lengths of packed sequences."""

from __future__ import annotations

from amplint.analyses.fact import NodeFact
from amplint.ir.ast_cache import NodePlace


class PackedLengths(NodeFact[bool]):
    """Whether an expression holds the lengths of packed sequences, which have to be on the CPU.

    Ex) `lengths.cpu()` of `pack_padded_sequence(x, lengths.cpu())`
    """

    said = "{it} is the lengths of packed sequences, which have to be on the CPU"

    def of(self, at: NodePlace) -> bool:
        return at.node in self.inference.uses.marks_of(at.function).lengths
