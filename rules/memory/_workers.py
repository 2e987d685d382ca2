"""Which functions run in the worker processes of a loader.

These are what loads the items of its dataset, what makes batches of them, and what both call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from amplint.facts.fact import PlaceFact
from amplint.inference import State, transfer
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import Node
from amplint.knowledge import libraries
from amplint.rule.conditions import failing
from amplint.util.walks import reachable
from amplint.values.atoms import (
    Evidence,
    Function,
    Host,
    Instance,
    Shows,
    Symbol,
    ordered,
)
from amplint.view.evaluated_node import EvaluatedNode

# What workers call of a dataset; one that can be indexed is not iterated.
OF_ITERABLE = ("__iter__", "__next__")
OF_INDEXED = ("__getitem__", "__getitems__")
CONTEXT = "multiprocessing_context"
CONTEXT_AT = libraries.WORKER_ARGUMENTS[CONTEXT]
COUNTS = frozenset({"os.cpu_count", "multiprocessing.cpu_count"})


class Workers(PlaceFact[tuple[Evidence, ...]]):
    """The chain of places that leads from a loader to a node that its worker processes run."""

    sentence = "a worker process of a loader runs {it}"

    def runs(self, function: str) -> bool:
        """Whether workers run a function."""
        return function in self._reasons

    def of(self, at: NodePlace) -> tuple[Evidence, ...] | None:
        """The places that lead from a loader with workers to a function."""
        if not self.runs(at.function):
            return None
        chain: list[Evidence] = []
        caller: str | None = at.function
        while caller is not None:
            caller, evidence = self._reasons[caller]
            chain.append(evidence)
        return tuple(reversed(chain))

    @cached_property
    def _reasons(self) -> Mapping[str, tuple[str | None, Evidence]]:
        """By function that workers run: what calls it, nearest to a loader, and where; without a
        caller, the loader."""
        reasons: dict[str, tuple[str | None, Evidence]] = {}
        for function, state in sorted(self.inference.states.items()):
            for number, node in enumerate(state.graph.nodes):
                if node.op == ops.CALL and self._has_workers(state, node):
                    text = "this loader has worker processes"
                    evidence = self.why(function, number, text, Shows.LOADER)
                    for run in self._run(state, node):
                        reasons.setdefault(run, (None, evidence))

        def called(caller: str) -> Iterator[str]:
            state = self.inference.states.get(caller)
            for number in range(len(state.graph.nodes) if state is not None else 0):
                for callee in sorted(self.inference.calls.edges.get((caller, number), ())):
                    evidence = self.why(caller, number, "called here in a worker", Shows.CALL)
                    reasons.setdefault(callee, (caller, evidence))
                    yield callee

        for _ in reachable(list(reasons), called):
            pass
        return reasons

    def _has_workers(self, state: State, call: Node) -> bool:
        """Whether a call makes a loader whose workers are forked, as far as it says."""
        workers = call.argument(5, "num_workers")
        if workers < 0:  # as of nearly all calls of a project, which need no look at what they call
            return False
        called = state.values[call.operands[0]]
        names = [transfer.canonical(atom.name) for atom in called if isinstance(atom, Symbol)]
        makes_loader = any(self.inference.hierarchy.kind_of(name) == "loader" for name in names)
        is_told = call.argument(CONTEXT_AT, CONTEXT) >= 0
        return makes_loader and not is_told and self._is_positive(state, workers)

    def _is_positive(self, state: State, number: int) -> bool:
        """Whether it is a number above 0: what it is, or the default of an option."""
        numbers = [atom.const for atom in state.values[number] if isinstance(atom, Host)]
        counts = [each for each in numbers if isinstance(each, int)]
        if counts:
            return all(count > 0 for count in counts)
        node = state.graph.nodes[number]
        called = state.values[node.operands[0]] if node.op == ops.CALL else frozenset()
        return any(isinstance(atom, Symbol) and atom.name in COUNTS for atom in called)

    def _run(self, state: State, call: Node) -> Iterator[str]:
        """The functions that the workers of a loader run."""
        dataset, collate = call.argument(0, "dataset"), call.argument(6, "collate_fn")
        for atom in ordered(state.values[dataset]) if dataset >= 0 else ():
            if isinstance(atom, Instance):
                bases = self.inference.hierarchy.library_bases(atom.cls)
                iterable = any(base.endswith(".IterableDataset") for base in bases)
                yield from self._methods(atom, *(OF_ITERABLE if iterable else OF_INDEXED))
        for atom in ordered(state.values[collate]) if collate >= 0 else ():
            if isinstance(atom, Function):
                yield atom.id
            elif isinstance(atom, Instance):
                yield from self._methods(atom, "__call__")

    def _methods(self, thing: Instance, *names: str) -> Iterator[str]:
        for name in names:
            yield from self.inference.hierarchy.methods(thing.cls, name, overridden=False)


@failing("no worker process of a loader is seen to run this")
def in_worker(here: EvaluatedNode) -> bool:
    return here.project.facts[Workers].runs(here.function)
