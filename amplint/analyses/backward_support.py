"""What a backward pass inside an autocast region rests on: may it be moved out without a change?

A network whose whole forward pass ran in the region gives bit-identical gradients inside and
outside. They differ where the forward ran wider than autocast would pick: an `enabled=False`
island, work done before the region, `linalg`. And a custom `autograd.Function` without
`custom_fwd` and `custom_bwd` may run inside only (checked on CPU with torch 2.13, bfloat16 and
float16).
"""

from __future__ import annotations

from dataclasses import dataclass

from amplint.core.values import (
    Atom,
    Autocast,
    Blob,
    Class,
    Device,
    DType,
    Function,
    Host,
    Instance,
    Mapping,
    Method,
    NoGrad,
    Object,
    Place,
    Sequence,
    Symbol,
    Tensor,
    Value,
    Why,
)
from amplint.inference import Inference, State
from amplint.inference.transfer import canonical
from amplint.knowledge import libraries
from amplint.knowledge.factories import FACTORIES
from amplint.knowledge.modules import MODULES
from amplint.knowledge.operations import RESULTS


@dataclass(frozen=True)
class Support:
    """What is known of the forward work behind a backward pass.

    Args:
        island: a region with `enabled=False` inside, or float32 work outside the region.
        function: a custom autograd.Function in the graph.
        linalg: a `torch.linalg` operation in the graph, which runs wider than the region.
        complete: whether every call of the forward pass is known, so that none of these is hidden.
    """

    island: Why | None
    function: Why | None
    linalg: Why | None
    complete: bool

    @property
    def harmless(self) -> bool:
        """Whether leaving the region provably changes no gradient."""
        return self.complete and not (self.island or self.function or self.linalg)


class Search:
    """The calls that a region holds, and those of the functions they reach."""

    def __init__(self, inference: Inference) -> None:
        self.inference = inference
        self.island: Why | None = None
        self.function: Why | None = None
        self.linalg: Why | None = None
        self.complete = True
        self.seen: set[str] = set()

    def region(self, function: str, number: int) -> Support:
        """What is behind the backward pass that the call `number` runs in its region."""
        state = self.inference.states[function]
        block = self._opening(state, state.graph.nodes[number].block)
        if block is None:  # opened by a decorator: the whole function is the region
            self._function(function)
        else:
            self._block(function, state, block)
        return Support(self.island, self.function, self.linalg, self.complete)

    def _opening(self, state: State, block: int) -> int | None:
        while block >= 0:
            facts = state.graph.blocks[block]
            if facts.kind == "with" and any(
                isinstance(a, Autocast) for a in state.values[facts.node]
            ):
                return block
            block = facts.parent
        return None

    def _inside(self, state: State, block: int, outer: int) -> bool:
        while block >= 0:
            if block == outer:
                return True
            block = state.graph.blocks[block].parent
        return False

    def _block(self, function: str, state: State, outer: int) -> None:
        graph = state.graph
        inside = {n for n, node in enumerate(graph.nodes) if self._inside(state, node.block, outer)}
        for number in sorted(inside):
            node = graph.nodes[number]
            if node.op == "call":
                self._call(function, state, number)
            for operand in node.operands:
                if (
                    operand >= 0
                    and operand not in inside
                    and not self._plain(state.values[operand])
                ):
                    self.complete = False
        for block in range(len(graph.blocks)):
            if block != outer and self._inside(state, block, outer):
                self._island(function, state, block)

    def _plain(self, value: Value) -> bool:
        """Whether the value, made before the region, carries no graph into it."""
        return bool(value) and all(self._plain_atom(atom) for atom in value)

    def _plain_atom(self, atom: Atom) -> bool:
        if isinstance(atom, Tensor):
            return atom.grad is False
        if isinstance(atom, Blob):
            return atom.source == "batch"
        if isinstance(atom, Sequence):
            return self._all_plain([*(atom.items or ()), atom.element])
        if isinstance(atom, Mapping):
            return self._all_plain([atom.element])
        known = Host | Symbol | Object | Instance | Class | Function | Device | DType | Autocast
        return isinstance(atom, known | NoGrad | Method)

    def _all_plain(self, values: list[Value]) -> bool:
        return all(not value or self._plain(value) for value in values)

    def _function(self, function: str) -> None:
        if function in self.seen:
            return
        self.seen.add(function)
        state = self.inference.states.get(function)
        if state is None:
            self.complete = False
            return
        for number, node in enumerate(state.graph.nodes):
            if node.op == "call":
                self._call(function, state, number)
        for block in range(len(state.graph.blocks)):
            self._island(function, state, block)

    def _island(self, function: str, state: State, block: int) -> None:
        facts = state.graph.blocks[block]
        if facts.kind != "with" or facts.node < 0:
            return
        for atom in state.values[facts.node]:
            if isinstance(atom, Autocast) and atom.enabled is not True:
                why = self._why(
                    function, facts.location, "this part of the forward pass is not autocast"
                )
                self.island = self.island or why

    def _call(self, function: str, state: State, number: int) -> None:
        node = state.graph.nodes[number]
        callees = self.inference.edges.get((function, number), set())
        for callee in sorted(callees):
            facts = self.inference.functions[callee]
            if facts.cls is not None and self._is_autograd_function(facts.cls):
                self._custom(function, node.location)
            self._function(callee)
        receiver = state.graph.nodes[node.operands[0]]
        if receiver.op == "attr" and receiver.data == "apply":
            for atom in state.values[receiver.operands[0]]:
                if isinstance(atom, Class) and self._is_autograd_function(atom.id):
                    self._custom(function, node.location)
        if not callees and not all(
            self._known(a) for a in state.values[node.operands[0]] or [None]
        ):
            self.complete = False
        for atom in state.values[node.operands[0]]:
            if isinstance(atom, Symbol) and canonical(atom.name).startswith(
                ("torch.linalg.", "torch.inverse")
            ):
                text = "this runs wider than the region"
                self.linalg = self.linalg or self._why(function, node.location, text)

    def _custom(self, function: str, location: tuple[int, int, int, int]) -> None:
        text = "a custom autograd.Function runs here"
        self.function = self.function or self._why(function, location, text)

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
            return isinstance(atom.of, Tensor | Host | Sequence | Mapping | Blob) or (
                isinstance(atom.of, Object) and atom.of.kind in ("optimizer", "scaler", "scheduler")
            )
        return isinstance(atom, Function | Class | Instance)

    def _is_autograd_function(self, cls: str) -> bool:
        return any(n.startswith("torch.autograd.") for n in self.inference.library_bases(cls))

    def _why(self, function: str, location: tuple[int, int, int, int], text: str) -> Why:
        return Why(Place(self.inference.functions[function].path, *location), text)
