"""The forward work behind a backward pass in a region: may the pass be moved out without a change?

A network whose whole forward pass ran in the region has bit-identical gradients inside and outside.
They differ where a part of it ran in an `enabled=False` island, before the region, or in `linalg`.
And a custom `autograd.Function` without `custom_fwd` and `custom_bwd` may run inside only. (Checked
on the CPU with torch 2.13, bfloat16 and float16.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from amplint.analyses.cast_cache import autocast_of, innermost
from amplint.facts.fact import CallFact
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.knowledge import libraries
from amplint.knowledge.factories import FACTORIES
from amplint.knowledge.modules import MODULES
from amplint.knowledge.operations import RESULTS
from amplint.util.positions import Place
from amplint.util.walks import reachable
from amplint.values.atoms import (
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
)
from amplint.values.lattice import inner

WIDE = ("torch.linalg.", "torch.inverse")
STEPPING = ("optimizer", "scaler", "scheduler")
PLAIN = Host | Symbol | Object | Instance | Class | Function | Device | DType | Autocast
Part = tuple[str, int]  # a function, and a block of it; -1 for all of it


class Support(NamedTuple):
    """The known facts about the forward work behind a backward pass.

    Args:
        wide: where it is wider than the region.
        complete: whether all of it is known, is in the region, and has no function of its own.
    """

    wide: Evidence | None
    complete: bool


class BackwardSupport(CallFact[Support]):
    """The known facts about the forward work in the region around a call, and in what is called
    there."""

    sentence = "{it} comes of a known forward pass"

    def of(self, at: NodePlace) -> Support:
        state = self.inference.states[at.function]
        block = innermost(state, state.graph.nodes[at.node].block)  # None: a decorator opens it
        start = (at.function, -1 if block is None else block)
        parts = [*reachable([start], self._called)]
        wide = next((evidence for part in parts for evidence in self._wide(part)), None)
        return Support(wide, self._is_closed(start) and all(map(self._is_known, parts)))

    def _called(self, part: Part) -> Iterator[Part]:
        if part[0] in self.inference.states:
            for number in self.inference.states[part[0]].graph.nodes_in(part[1]):
                for callee in sorted(self.inference.calls.edges.get((part[0], number), ())):
                    yield callee, -1

    def _wide(self, part: Part) -> Iterator[Evidence]:
        function, outer = part
        state = self.inference.states.get(function)
        if state is None:
            return
        path = self.inference.functions[function].path
        for number in range(outer + 1, len(state.graph.blocks)):
            opened = autocast_of(state, number) if state.graph.is_in(number, outer) else None
            if opened is not None and opened.enabled is not True:
                text = "autocast is off for this part of the forward pass"
                place = Place(path, *state.graph.blocks[number].location)
                yield Evidence(place, text, Shows.OPERATION)
        for number in state.graph.nodes_in(outer):
            node = state.graph.nodes[number]
            called = state.values[node.operands[0]] if node.op == ops.CALL else ()
            names = (canonical(atom.name) for atom in called if isinstance(atom, Symbol))
            if any(name.startswith(WIDE) for name in names):
                text = "this runs in a wider dtype than the region"
                yield Evidence(Place(path, *node.location), text, Shows.OPERATION)

    def _is_closed(self, part: Part) -> bool:
        """Whether a region uses nothing that was computed before it and may carry a graph."""
        state = self.inference.states[part[0]]
        inside = state.graph.nodes_in(part[1])
        return all(
            operand < 0 or operand in inside or is_plain(state.values[operand])
            for number in inside
            for operand in state.graph.nodes[number].operands
        )

    def _is_known(self, part: Part) -> bool:
        """Whether no call of a part can hide an island, or run a custom Function."""
        function, outer = part
        state = self.inference.states.get(function)
        if state is None or self._is_of_autograd(function):
            return False
        return all(
            self.inference.calls.edges.get((function, number))
            or all(map(is_known, state.values[state.graph.nodes[number].operands[0]] or [None]))
            for number in state.graph.nodes_in(outer)
            if state.graph.nodes[number].op == ops.CALL
        )

    def _is_of_autograd(self, function: str) -> bool:
        cls = self.inference.functions[function].cls
        bases = self.inference.hierarchy.library_bases(cls) if cls is not None else ()
        return any(base.startswith("torch.autograd.") for base in bases)


def is_plain(value: Value) -> bool:
    """Whether a value, made before the region, carries no graph into it."""
    return bool(value) and all(
        atom.grad is False
        if isinstance(atom, Tensor)
        else atom.source == "batch"
        if isinstance(atom, TensorTree)
        else all(not each or is_plain(each) for each in inner(atom))
        if isinstance(atom, Sequence | Mapping)
        else isinstance(atom, PLAIN | NoGrad | Method)
        for atom in value
    )


def is_known(atom: Atom | None) -> bool:
    """Whether calling the atom can hide neither an island nor a custom Function."""
    if isinstance(atom, Symbol):
        name = canonical(atom.name)
        tables = (RESULTS, FACTORIES, MODULES, libraries.AUTOCASTS)
        return name.startswith("builtins.") or any(name in table for table in tables)
    if isinstance(atom, Object):
        return atom.type in MODULES and MODULES[atom.type].kind != "container"
    if isinstance(atom, Method):
        of = atom.of
        is_stepping = isinstance(of, Object) and of.kind in STEPPING
        return is_stepping or isinstance(of, Tensor | Host | Sequence | Mapping | TensorTree)
    return isinstance(atom, Function | Class | Instance)
