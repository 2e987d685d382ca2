"""Which values have gone through a backward pass, and so still hold its graph.

A loss that `backward()` is called on certainly has one. So have what it was computed of by a number
or by other losses, what is computed of these, and what a function returns that has run the pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from amplint.analyses.hotness import HeatMap
from amplint.core.values import (
    Blob,
    Host,
    Instance,
    NoGrad,
    Object,
    Place,
    Symbol,
    Tensor,
    Value,
    Why,
)
from amplint.ir.model import CallShape, Graph, Node

MAX_CALLS = 3
SUMS = frozenset({"Add", "Sub"})
ARITHMETIC = frozenset({"Add", "Sub", "Mult", "Div"})
# What these methods return is in the graph, and is made of the tensor alone.
KEEPING = frozenset(
    """
    mean sum cpu cuda to clone float double half bfloat16 squeeze unsqueeze view reshape flatten
    """.split()
)
COLLECTING = frozenset({"builtins.sum", "torch.stack", "torch.cat"})
MODULES = frozenset({"module", "criterion"})
Key = tuple[object, ...]


class Backpropagations:
    """What of the functions of a project has been given to `backward()`, each looked at once."""

    def __init__(self, heat: HeatMap) -> None:
        self._heat = heat
        self._known: dict[tuple[str, int], Backpropagated] = {}

    def of(self, function: str, depth: int = 0) -> Backpropagated:
        """What of one function, to which `depth` calls have led; inference has been there."""
        key = (function, depth)
        if key not in self._known:
            self._known[key] = Backpropagated(self, self._heat, function, depth)
        return self._known[key]


class Backpropagated:
    """What of one function has been given to `backward()`.

    Args:
        others: the same of other functions.
        heat: of the project.
        function: its id; inference has been there.
        depth: how many calls lead to it.
    """

    def __init__(self, others: Backpropagations, heat: HeatMap, function: str, depth: int) -> None:
        self._others = others
        self._heat = heat
        self._inference = heat.inference
        self._function = function
        self._state = heat.inference.states[function]
        self._depth = depth

    @property
    def _graph(self) -> Graph:
        return self._state.graph

    def why(self, number: int) -> Why | None:
        """Where the value of a node, or what it is computed of, is backpropagated."""
        if number < 0:
            return None
        node = self._graph.nodes[number]
        found = self._losses.get(self._key(number))
        if found is not None:
            return found
        if node.op in ("binop", "aug") and node.data in ARITHMETIC:
            return None if self._without_grad(node) else self._any(node.operands)
        if node.op in ("narrow", "return"):
            return self.why(node.operands[0])
        if node.op == "unpack" and not node.data[2]:
            return self._returned(node.operands[0], node.data[0])
        if node.op != "call":
            return None
        receiver = self._receiver(node, KEEPING)
        if receiver is not None:
            return None if self._without_grad(node) else self.why(receiver)
        return self._returned(number, None)

    def given(self, number: int) -> Why | None:
        """Where the value of a node is itself backpropagated, or a term or a factor of that."""
        return self._losses.get(self._key(number)) if number >= 0 else None

    def _any(self, numbers: tuple[int, ...]) -> Why | None:
        return next((why for why in map(self.why, numbers) if why is not None), None)

    @cached_property
    def _losses(self) -> dict[Key, Why]:
        """What is backpropagated in this function itself -> where."""
        found: dict[Key, Why] = {}
        for number, node in enumerate(self._graph.nodes):
            if node.op != "call" or self._heat.backward_calls.chain(self._function, number) != ():
                continue
            shape: CallShape = node.data
            if "retain_graph" in shape.keywords or "create_graph" in shape.keywords:
                continue  # it is kept on purpose
            path = self._inference.functions[self._function].path
            why = Why(Place(path, *node.location), "backpropagated here")
            for loss in self._into(self._loss(node)):
                found.setdefault(self._key(loss), why)
        return found

    def _loss(self, call: Node) -> int:
        """Ex) `loss` of loss.backward(), of accelerator.backward(loss); -1 where it is unknown"""
        callee, shape = self._graph.nodes[call.operands[0]], call.data
        if callee.op != "attr":
            return -1
        receiver: int = callee.operands[0]
        if not shape.positional or self._is_tensor(self._state.values[receiver]):
            return receiver
        loss: int = call.operands[1]
        return -1 if shape.stars else loss

    def _into(self, number: int) -> Iterator[int]:
        """The loss, and what it is made of that certainly has a graph too."""
        while number >= 0:
            yield number
            node = self._graph.nodes[number]
            number = -1
            if node.op in ("binop", "aug") and node.data in ARITHMETIC:
                left, right = node.operands
                if node.data in SUMS:
                    for term in (left, right):
                        if self._is_loss(term):
                            yield from self._into(term)
                elif node.data == "Div" or self._is_number(right):
                    number = -1 if self._is_number(left) else left
                elif self._is_number(left):
                    number = right
            elif node.op == "narrow":
                number = node.operands[0]
            elif node.op == "call" and self._collects(node):
                number = node.operands[1]
            elif node.op == "call":
                scaled = self._receiver(node, frozenset({"scale"}))
                if scaled is None:
                    number = -1 if (kept := self._receiver(node, KEEPING)) is None else kept
                elif node.data.positional == 1:
                    number = node.operands[1]

    def _is_loss(self, number: int) -> bool:
        """Whether a term of a loss is one itself: what a module or a function of losses gives."""
        if number < 0:
            return False
        node = self._graph.nodes[number]
        if node.op in ("binop", "aug"):
            return any(self._is_loss(operand) for operand in node.operands)
        if node.op != "call":
            return False
        value = self._state.values[number] or frozenset()
        if any(isinstance(atom, Tensor) and atom.grad is False for atom in value):
            return False
        callee = self._state.values[node.operands[0]] or frozenset()
        return bool(callee) and all(
            (isinstance(atom, Object) and atom.kind in MODULES)
            or (isinstance(atom, Instance) and self._inference.is_module(atom.cls))
            or (isinstance(atom, Symbol) and atom.name.startswith("torch.nn.functional."))
            for atom in callee
        )

    def _collects(self, call: Node) -> bool:
        """Ex) sum(losses)"""
        callee = self._state.values[call.operands[0]] or frozenset()
        return call.data.positional > 0 and any(
            isinstance(atom, Symbol) and atom.name in COLLECTING for atom in callee
        )

    def _is_number(self, number: int) -> bool:
        value = self._state.values[number] if number >= 0 else None
        return bool(value) and all(isinstance(atom, Host) for atom in value or ())

    def _is_tensor(self, value: Value | None) -> bool:
        return any(isinstance(atom, Tensor | Blob) for atom in value or ())

    def _receiver(self, call: Node, names: frozenset[str]) -> int | None:
        """Ex) `loss` of loss.mean()"""
        callee = self._graph.nodes[call.operands[0]]
        if callee.op == "attr" and callee.data in names:
            receiver: int = callee.operands[0]
            return receiver
        return None

    def _key(self, number: int) -> Key:
        """The same for two reads of `outputs.loss`, where a call has given `outputs`."""
        node = self._graph.nodes[number]
        if node.op == "attr" and self._graph.nodes[node.operands[0]].op == "call":
            return (node.operands[0], node.data)
        return (number,)

    def _without_grad(self, node: Node) -> bool:
        """Whether a node is computed under `torch.no_grad()`."""
        block = node.block
        while block >= 0:
            facts = self._graph.blocks[block]
            if facts.kind == "with" and any(
                isinstance(atom, NoGrad) for atom in self._state.values[facts.node] or ()
            ):
                return True
            block = facts.parent
        return False

    def _returned(self, number: int, index: int | None) -> Why | None:
        """The same of what a call returns: all that it may return has been backpropagated."""
        callees = self._inference.edges.get((self._function, number), set())
        if self._depth == MAX_CALLS or self._graph.nodes[number].op != "call":
            return None
        reasons = [why for callee in sorted(callees) for why in self._returns(callee, index)]
        return reasons[0] if reasons and None not in reasons else None

    def _returns(self, callee: str, index: int | None) -> Iterator[Why | None]:
        state = self._inference.states.get(callee)
        if state is None or not state.graph.returns or state.graph.yields:
            yield None
            return
        inner = self._others.of(callee, self._depth + 1)
        for number in state.graph.returns:
            node = state.graph.nodes[number]
            given = node.operands[0] if node.op == "return" else number
            if index is not None:
                row = state.graph.nodes[given] if given >= 0 else None
                known = row is not None and row.op == "tuple" and index < len(row.operands)
                given = row.operands[index] if known and row is not None else -1
            yield inner.why(given)
