"""Which modules run, are overwritten in place, and run again in one autocast region.

The casts of the weights are those of the first pass then: see `analyses.cast_cache`. It is where
averaged weights are swapped in, and where a checkpoint is loaded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from amplint.analyses.cast_cache import autocast_in
from amplint.analyses.fact import Fact, NodeFact, Required
from amplint.analyses.module_uses import (
    ON_SOME_PATHS,
    ModuleUses,
    NamedModule,
    Uses,
    around,
    may_follow,
    name_of,
)
from amplint.inference import Inference, State
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import LOOPS, Graph
from amplint.values.atoms import Evidence, Shows


class Overwritten(NamedTuple):
    """A module whose weights change between two passes.

    Args:
        name: what it is called.
        because: where it runs, where its weights change, and where it runs again; in a loop, of
            which each iteration does both, where it runs and where they change.
    """

    name: str
    because: tuple[Evidence, ...]


class OverwrittenWeights(NodeFact[Overwritten]):
    """Of a context that opens an outermost region: a module that is overwritten in it."""

    _uses = Required(ModuleUses)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._found: dict[str, Mapping[int, Overwritten]] = {}

    def of(self, at: NodePlace) -> Overwritten | None:
        if autocast_in(self.inference.states[at.function].values[at.node]) is None:
            return None
        if at.function not in self._found:
            self._found[at.function] = dict(self._changes(at.function))
        return self._found[at.function].get(at.node)

    def _changes(self, function: str) -> Iterator[tuple[int, Overwritten]]:
        """By the contexts in a function: the modules that are overwritten in their regions."""
        state = self.inference.states[function]
        for (module, region), uses in self._uses.in_regions(function).items():
            name = name_of(state.graph, module)
            if region < 0 or name not in self._uses.optimized:
                continue
            found = next(stale_passes(state, region, module, uses), None)
            if found is not None:
                evidence = (self.why(function, *each, Shows.WEIGHTS) for each in found)
                yield state.graph.blocks[region].node, Overwritten(name, (*evidence,))


Reasons = Sequence[tuple[int, str]]
STALE = "still uses the first casts of the weights"


def stale_passes(
    state: State, region: int, module: NamedModule, uses: Sequence[tuple[int, Uses]]
) -> Iterator[Reasons]:
    """The passes of a module in a region that use weights as they were, with the nodes that show
    it: those next to each change are looked at."""
    graph = state.graph
    passes = [number for number, each in uses if each.without or each.with_gradients]
    for change in (number for number, each in uses if each.changed is not None):
        overwritten = (change, "the weights are overwritten here")
        at = bisect_left(passes, change)
        before, after = passes[:at][-1:], passes[at : at + 1]
        for first, later in zip(before, after, strict=False):
            follows = may_follow(graph, first, change) and may_follow(graph, change, later)
            if first < change < later and follows:
                yield (first, "the casts are made here"), overwritten, (later, STALE)
        for number in (*before, *after):
            if is_repeated(graph, region, module, change, number):
                yield (number, STALE), overwritten


def is_repeated(graph: Graph, region: int, module: NamedModule, change: int, later: int) -> bool:
    """Whether each iteration of a loop in a region changes one module and runs it."""
    block = graph.nodes[change].block
    for loop in around(graph, block, region):
        facts = graph.blocks[loop]
        if facts.kind in ON_SOME_PATHS:
            return False
        if facts.kind in LOOPS and graph.is_in(graph.nodes[later].block, loop):
            return not graph.is_in(graph.nodes[module.root].block, loop)
    return False
