"""The forward work behind a backward pass in a region: may the pass be moved out without a change?

A network whose whole forward pass ran in the region has bit-identical gradients inside and
outside. They differ where the forward ran wider than autocast would pick: an `enabled=False`
island, work done before the region, `linalg`. And a custom `autograd.Function` without
`custom_fwd` and `custom_bwd` may run inside only (checked on CPU with torch 2.13, bfloat16 and
float16).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from collections.abc import Mapping as ReadOnly
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from amplint.analyses.fact import CallFact
from amplint.inference import State
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.knowledge import libraries
from amplint.knowledge.factories import FACTORIES
from amplint.knowledge.modules import MODULES
from amplint.knowledge.operations import RESULTS
from amplint.util.positions import Place
from amplint.util.walks import nearest, reachable
from amplint.values.atoms import (
    BOTTOM,
    Atom,
    Autocast,
    Class,
    Device,
    DType,
    Evidence,
    Function,
    Host,
    Instance,
    Mapping,
    Method,
    NoGrad,
    Object,
    Sequence,
    Shows,
    Symbol,
    Tensor,
    TensorTree,
    Value,
    entered,
)
from amplint.values.lattice import inner

# By the fields of `Support` that are reasons: what is said of a place that is one.
FIELDS = {
    "island": "autocast is off for this part of the forward pass",
    "function": "a custom autograd.Function runs here",
    "linalg": "this runs in a wider dtype than the region",
}
WIDE = ("torch.linalg.", "torch.inverse")


@dataclass(frozen=True)
class Support:
    """The known facts about the forward work behind a backward pass.

    Args:
        island: a region with `enabled=False` inside, or float32 work outside the region.
        function: a custom autograd.Function in the graph.
        linalg: a `torch.linalg` operation in the graph, which runs wider than the region.
        complete: whether every call of the forward pass is known, so that none of these is hidden.
    """

    island: Evidence | None
    function: Evidence | None
    linalg: Evidence | None
    complete: bool

    @property
    def harmless(self) -> bool:
        """Whether leaving the region provably changes no gradient."""
        return self.complete and not (self.island or self.function or self.linalg)


class Own(NamedTuple):
    """Facts that calls and blocks show by themselves, those of a region or of a function."""

    found: ReadOnly[str, Evidence]  # by the field of `Support`
    complete: bool


class BackwardSupport(CallFact[Support]):
    """The known facts about the forward work behind a backward pass in an autocast region.

    What a function shows, in itself and in what it calls, is found for all of them by a walk for
    each field of `Support`, from the functions that show it back to their callers.
    """

    def of(self, at: NodePlace) -> Support:
        function, number = at.function, at.node
        state = self.inference.states[function]
        block = self._opening(state, state.graph.nodes[number].block)
        if block is None:  # opened by a decorator: the whole function is the region
            return self._support(self._own[function], [function])
        own = self._shown(function, block)
        callees = dict.fromkeys(
            callee
            for number in state.graph.nodes_in(block)
            for callee in sorted(self.inference.calls.edges.get((function, number), ()))
        )
        outside = self._has_graph_from_outside(state, block)
        return self._support(own._replace(complete=own.complete and not outside), callees)

    def _support(self, own: Own, callees: Iterable[str]) -> Support:
        callees = list(callees)
        found = {
            field: own.found.get(field) or next((near[c] for c in callees if c in near), None)
            for field, near in self._nearest.items()
        }
        complete = own.complete and self._incomplete.isdisjoint(callees)
        return Support(found["island"], found["function"], found["linalg"], complete)

    def _opening(self, state: State, block: int) -> int | None:
        """The innermost block around a place that is the body of an autocast context."""
        while block >= 0:
            if self._opened(state, block):
                return block
            block = state.graph.blocks[block].parent
        return None

    def _opened(self, state: State, block: int) -> list[Autocast]:
        """The autocast contexts that a block is the body of."""
        facts = state.graph.blocks[block]
        context = state.values[facts.node] if facts.kind == "with" and facts.node >= 0 else BOTTOM
        return [atom for atom in entered(context) if isinstance(atom, Autocast)]

    def _has_graph_from_outside(self, state: State, outer: int) -> bool:
        """Whether a region uses what was computed before it and may carry a graph."""
        inside = state.graph.nodes_in(outer)
        return any(
            operand >= 0 and operand not in inside and not self._plain(state.values[operand])
            for number in inside
            for operand in state.graph.nodes[number].operands
        )

    # -- functions

    @cached_property
    def _own(self) -> ReadOnly[str, Own]:
        return {function: self._shown(function, -1) for function in self.inference.states}

    @cached_property
    def _callers(self) -> ReadOnly[str, list[str]]:
        callers: dict[str, list[str]] = {}
        for (caller, _), callees in sorted(self.inference.calls.edges.items()):
            for callee in sorted(callees):
                callers.setdefault(callee, []).append(caller)
        return callers

    @cached_property
    def _nearest(self) -> ReadOnly[str, ReadOnly[str, Evidence]]:
        """By field and function: the nearest place that shows it, in the function or in what it
        calls."""
        nearby: dict[str, ReadOnly[str, Evidence]] = {}
        for field in FIELDS:
            shown = {f: own.found[field] for f, own in self._own.items() if field in own.found}
            found = nearest(sorted(shown), lambda callee: self._callers.get(callee, ()))
            nearby[field] = {function: shown[goal] for function, (_, goal) in found.items()}
        return nearby

    @cached_property
    def _incomplete(self) -> Set[str]:
        """The functions some call of which, however deep, is not known."""
        unknown = [function for function, own in self._own.items() if not own.complete]
        unseen = [function for function in self._callers if function not in self._own]
        return set(reachable([*unknown, *unseen], lambda f: self._callers.get(f, ())))

    def _shown(self, function: str, outer: int) -> Own:
        """The facts that a block of a function shows, or the whole function for -1."""
        state = self.inference.states[function]
        found: dict[str, Evidence] = {}
        complete = True
        for number in state.graph.nodes_in(outer):
            if state.graph.nodes[number].op == ops.CALL:
                location = state.graph.nodes[number].location
                for field in self._shown_by_call(function, state, number):
                    found.setdefault(field, self._why(function, location, FIELDS[field]))
                complete = complete and self._is_known_call(function, state, number)
        for block in range(outer + 1, len(state.graph.blocks)):
            if not state.graph.is_in(block, outer):
                break
            if any(context.enabled is not True for context in self._opened(state, block)):
                location = state.graph.blocks[block].location
                found.setdefault("island", self._why(function, location, FIELDS["island"]))
        return Own(found, complete)

    def _shown_by_call(self, function: str, state: State, number: int) -> Iterator[str]:
        """The fields of `Support` for which a call is a reason."""
        infer = self.inference
        callee = state.graph.nodes[number].operands[0]
        for each in infer.calls.edges.get((function, number), ()):
            cls = infer.functions[each].cls
            if cls is not None and self._of_autograd(cls):
                yield "function"
        node = state.graph.nodes[callee]
        if node.op == ops.ATTR and node.data == "apply":
            for atom in state.values[node.operands[0]]:
                if isinstance(atom, Class) and self._of_autograd(atom.id):
                    yield "function"
        for atom in state.values[callee]:
            if isinstance(atom, Symbol) and canonical(atom.name).startswith(WIDE):
                yield "linalg"

    def _is_known_call(self, function: str, state: State, number: int) -> bool:
        """Whether a call can hide neither an island nor a custom Function of its own."""
        if self.inference.calls.edges.get((function, number)):
            return True
        callee = state.graph.nodes[number].operands[0]
        return all(self._known(atom) for atom in state.values[callee] or [None])

    def _of_autograd(self, cls: str) -> bool:
        return any(
            n.startswith("torch.autograd.") for n in self.inference.hierarchy.library_bases(cls)
        )

    # -- values

    def _plain(self, value: Value) -> bool:
        """Whether the value, made before the region, carries no graph into it."""
        return bool(value) and all(self._plain_atom(atom) for atom in value)

    def _plain_atom(self, atom: Atom) -> bool:
        if isinstance(atom, Tensor):
            return atom.grad is False
        if isinstance(atom, TensorTree):
            return atom.source == "batch"
        if isinstance(atom, Sequence | Mapping):
            return self._all_plain(inner(atom))
        known = Host | Symbol | Object | Instance | Class | Function | Device | DType | Autocast
        return isinstance(atom, known | NoGrad | Method)

    def _all_plain(self, values: Iterable[Value]) -> bool:
        return all(not value or self._plain(value) for value in values)

    def _known(self, atom: Atom | None) -> bool:
        """Whether calling the atom can hide neither an island nor a custom Function."""
        if isinstance(atom, Symbol):
            name = canonical(atom.name)
            tables = (
                RESULTS,
                FACTORIES,
                MODULES,
                libraries.AUTOCASTS,
            )
            return name.startswith("builtins.") or any(name in table for table in tables)
        if isinstance(atom, Object):
            return atom.type in MODULES and MODULES[atom.type].kind != "container"
        if isinstance(atom, Method):
            return isinstance(atom.of, Tensor | Host | Sequence | Mapping | TensorTree) or (
                isinstance(atom.of, Object) and atom.of.kind in ("optimizer", "scaler", "scheduler")
            )
        return isinstance(atom, Function | Class | Instance)

    def _why(self, function: str, location: tuple[int, int, int, int], text: str) -> Evidence:
        return Evidence(
            Place(self.inference.functions[function].path, *location), text, Shows.OPERATION
        )
