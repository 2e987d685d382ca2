"""Which modules are overwritten between two passes in one region, which keeps their casts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from amplint.analyses.cast_cache import autocast_of
from amplint.analyses.module_uses import (
    MADE,
    ON_SOME_PATHS,
    STALE,
    Kind,
    ModuleUse,
    ModuleUses,
    around,
    follows,
    name_of,
)
from amplint.facts.fact import Fact, NodeFact, Required
from amplint.inference import Inference
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import LOOPS, Graph
from amplint.values.atoms import Evidence, Shows


class Overwritten(NamedTuple):
    """A module whose weights change between two passes, or in each iteration, and what shows it."""

    name: str
    because: tuple[Evidence, ...]


class OverwrittenWeights(NodeFact[Overwritten]):
    """Of a context that opens an outermost region: a module that is overwritten in it."""

    sentence = "a module that runs in the region is overwritten there"
    _uses = Required(ModuleUses)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._by_function: dict[str, Mapping[int, Overwritten]] = {}

    def of(self, at: NodePlace) -> Overwritten | None:
        if at.function not in self._by_function:
            self._by_function[at.function] = dict(self._changes(at.function))
        return self._by_function[at.function].get(at.node)

    def _changes(self, function: str) -> Iterator[tuple[int, Overwritten]]:
        """By the contexts in a function: the modules that are overwritten in their regions."""
        state = self.inference.states[function]
        for (module, region), uses in self._uses.in_regions(function).items():
            opened = autocast_of(state, region) if region >= 0 else None
            keeps_casts = opened is not None and opened.cache is not False
            if keeps_casts and name_of(state, module) in self._uses.optimized:
                for stale_pass in stale_passes(state.graph, region, uses):
                    because = (
                        self.why(function, use.number, text, Shows.WEIGHTS)
                        for use, text in stale_pass
                    )
                    changed = Overwritten(name_of(state, module), tuple(because))
                    yield state.graph.blocks[region].node, changed


def stale_passes(
    graph: Graph, region: int, uses: Sequence[ModuleUse]
) -> Iterator[Sequence[tuple[ModuleUse, str]]]:
    """The changes of a module's weights in a region before passes that use them as they were, with
    what shows it."""
    for at, change in enumerate(uses):
        if change.kind is Kind.CHANGE:
            overwritten = (change, "the weights are overwritten here")
            before = [use for use in uses[:at] if use.kind is not Kind.CHANGE][-1:]
            after = [use for use in uses[at:] if use.kind is not Kind.CHANGE][:1]
            for first, later in zip(before, after, strict=False):
                if follows(graph, first, change) and follows(graph, change, later):
                    yield (first, MADE), overwritten, (later, STALE)
            for use in (*before, *after):
                if is_repeated(graph, region, change, use):
                    yield (use, STALE), overwritten


def is_repeated(graph: Graph, region: int, change: ModuleUse, run: ModuleUse) -> bool:
    """Whether each iteration of a loop in a region changes one module and runs it."""
    for loop in around(graph, graph.nodes[change.number].block, region):
        kind = graph.blocks[loop].kind
        if kind in ON_SOME_PATHS:
            return False
        if kind in LOOPS and graph.is_in(graph.nodes[run.number].block, loop):
            return not graph.is_in(graph.nodes[change.module.root].block, loop)
    return False
