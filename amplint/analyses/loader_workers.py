"""Which functions run in the worker processes of a loader.

These are what loads the items of its dataset, what makes batches of them, and what both call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from amplint.analyses.fact import PlaceFact
from amplint.inference import Inference, State, transfer
from amplint.inference.kept.continuation import FixpointEdit
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import Node
from amplint.knowledge import libraries
from amplint.util.walks import reachable
from amplint.values.atoms import (
    Evidence,
    Function,
    Host,
    Instance,
    Shows,
    Symbol,
    Value,
    constant,
    ordered,
)

# What workers call of a dataset; one that can be indexed is not iterated.
OF_ITERABLE = ("__iter__", "__next__")
OF_INDEXED = ("__getitem__", "__getitems__")
CONTEXT = "multiprocessing_context"
CONTEXT_AT = libraries.WORKER_ARGUMENTS[CONTEXT]
COUNTS = frozenset({"os.cpu_count", "multiprocessing.cpu_count"})


class Workers(PlaceFact[tuple[Evidence, ...]]):
    """The chain of places that leads from a loader to a node that its worker processes run."""

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        self._loaders: dict[str, tuple[int, ...]] = {}  # by function: the calls that make one

    def follow(self, inference: Inference, edit: FixpointEdit) -> bool:
        self.inference = inference
        for function in edit.functions:
            self._loaders.pop(function, None)
        self.__dict__.pop("_reasons", None)
        return True

    def of(self, at: NodePlace) -> tuple[Evidence, ...] | None:
        return self.chain(at.function)

    def runs(self, function: str) -> bool:
        """Whether workers run a function."""
        return function in self._reasons

    def chain(self, function: str) -> tuple[Evidence, ...] | None:
        """The places that lead from a loader with workers to a function."""
        if not self.runs(function):
            return None
        chain: list[Evidence] = []
        caller: str | None = function
        while caller is not None:
            caller, evidence = self._reasons[caller]
            chain.append(evidence)
        return tuple(reversed(chain))

    @cached_property
    def _reasons(self) -> Mapping[str, tuple[str | None, Evidence]]:
        """By function that workers run: what calls it, nearest to a loader, and where; without a
        caller, the loader."""
        found: dict[str, tuple[str | None, Evidence]] = {}
        for function, state in sorted(self.inference.states.items()):
            if function not in self._loaders:
                self._loaders[function] = tuple(self._loaders_in(state))
            for number in self._loaders[function]:
                text = "this loader has worker processes"
                evidence = self.why(function, number, text, Shows.LOADER)
                for run in self._run(state, state.graph.nodes[number]):
                    found.setdefault(run, (None, evidence))

        def called(caller: str) -> Iterator[str]:
            state = self.inference.states.get(caller)
            for number in range(len(state.graph.nodes) if state is not None else 0):
                for callee in sorted(self.inference.calls.edges.get((caller, number), ())):
                    evidence = self.why(caller, number, "called here in a worker", Shows.CALL)
                    found.setdefault(callee, (caller, evidence))
                    yield callee

        for _ in reachable(list(found), called):
            pass
        return found

    def _loaders_in(self, state: State) -> Iterator[int]:
        for number, node in enumerate(state.graph.nodes):
            if node.op == ops.CALL and self._has_workers(state, node):
                yield number

    def _has_workers(self, state: State, call: Node) -> bool:
        """Whether a call makes a loader whose workers are forked, as far as it says."""
        given = call.argument(5, "num_workers")
        if given < 0:  # as of nearly all calls of a project, which need no look at what they call
            return False
        names = (
            transfer.canonical(atom.name)
            for atom in state.values[call.operands[0]]
            if isinstance(atom, Symbol)
        )
        makes_loader = any(self.inference.hierarchy.kind_of(name) == "loader" for name in names)
        if not makes_loader or call.argument(CONTEXT_AT, CONTEXT) >= 0:
            return False
        return self._is_positive(state, given)

    def _is_positive(self, state: State, number: int) -> bool:
        """Whether it is a number above 0: what it is, or the default of an option."""
        value, node = state.values[number], state.graph.nodes[number]
        count = constant(value)
        if isinstance(count, int):
            return count > 0
        defaults = [
            atom.const
            for atom in value
            if isinstance(atom, Host) and isinstance(atom.const, int) and not atom.known
        ]
        if defaults:
            return all(default > 0 for default in defaults)
        called = state.values[node.operands[0]] if node.op == ops.CALL else frozenset()
        return any(isinstance(atom, Symbol) and atom.name in COUNTS for atom in called)

    def _run(self, state: State, call: Node) -> Iterator[str]:
        """The functions that the workers of a loader run."""
        for value in given(state, call, "dataset", 0):
            for atom in ordered(value):
                if isinstance(atom, Instance):
                    bases = self.inference.hierarchy.library_bases(atom.cls)
                    iterable = any(base.endswith(".IterableDataset") for base in bases)
                    for name in OF_ITERABLE if iterable else OF_INDEXED:
                        yield from self.inference.hierarchy.methods(
                            atom.cls, name, overridden=False
                        )
        for value in given(state, call, "collate_fn", 6):
            for atom in ordered(value):
                if isinstance(atom, Function):
                    yield atom.id
                elif isinstance(atom, Instance):
                    yield from self.inference.hierarchy.methods(
                        atom.cls, "__call__", overridden=False
                    )


def given(state: State, call: Node, name: str, position: int) -> Iterator[Value]:
    number = call.argument(position, name)
    if number >= 0:
        yield state.values[number]
