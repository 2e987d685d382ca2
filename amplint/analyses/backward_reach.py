"""Which values have gone through a backward pass, and so still hold its graph.

A loss that `backward()` is called on certainly has one. So have what it was computed of by a number
or by other losses, what is computed of these, and what a function returns that has run the pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property

from amplint.analyses.backward_calls import BackwardCalls
from amplint.facts.fact import Fact, NodeFact, Required
from amplint.inference import Inference
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.flow import SUMS, method_called
from amplint.ir.model import CallShape, Graph, Node
from amplint.knowledge.operations import OF_IT_ALONE
from amplint.util.positions import Place
from amplint.util.walks import Solver
from amplint.values.atoms import (
    MODULE_KINDS,
    Evidence,
    Function,
    Host,
    Instance,
    NoGrad,
    Object,
    Shows,
    Symbol,
    Tensor,
    TensorTree,
    may_be,
    surely,
)

MAX_CALLS = 3
ARITHMETIC = frozenset({"Add", "Sub", "Mult", "Div"})
COLLECTING = frozenset({"builtins.sum", "torch.stack", "torch.cat"})
Key = tuple[object, ...]
At = tuple[str, int, int]  # a function, a node of it, and how many calls lead there


class Backpropagations(Fact):
    """The values of a project that are given to `backward()`; each node is solved once.

    A function is looked at anew for each number of calls that lead to it, up to `MAX_CALLS`.
    """

    _calls = Required(BackwardCalls)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._by_function: dict[str, Backpropagated] = {}
        self._why = Solver(self._find_why, None)

    def evidence(self, function: str, number: int) -> Evidence | None:
        """Where the value of a node, or what it is computed of, is backpropagated."""
        return self._why((function, number, 0))

    def own_evidence(self, function: str, number: int) -> Evidence | None:
        """Where the value of a node is itself backpropagated, or a term or a factor of that."""
        return self._of(function).own_evidence(number)

    def _of(self, function: str) -> Backpropagated:
        if function not in self._by_function:
            self._by_function[function] = Backpropagated(self._calls, function)
        return self._by_function[function]

    def _find_why(self, at: At, ask: Callable[[At], Evidence | None]) -> Evidence | None:
        function, number, depth = at
        inside = self._of(function)
        evidence = inside.own_evidence(number)
        if evidence is not None:
            return evidence
        for each in inside.sources(number):
            evidence = evidence or ask((function, each, depth))
        call = inside.returned_by(number)
        if evidence is not None or call is None or depth == MAX_CALLS:
            return evidence
        reasons = [
            ask((callee, each, depth + 1)) if each >= 0 else None
            for callee, each in inside.returned(*call)
        ]
        return reasons[0] if reasons and None not in reasons else None


class Backpropagated:
    """The values of one function that it passes to `backward()` itself.

    Args:
        calls: those of the project that run a backward pass.
        function: its id; inference has been there.
    """

    def __init__(self, calls: BackwardCalls, function: str) -> None:
        self._calls = calls
        self._inference = calls.inference
        self._function = function
        self._state = calls.inference.states[function]
        self._is_loss = Solver(self._find_loss, False)
        self._terms: Solver[int, frozenset[int]] = Solver(self._find_terms, frozenset())

    @property
    def _graph(self) -> Graph:
        return self._state.graph

    def own_evidence(self, number: int) -> Evidence | None:
        """Where the value of a node is itself backpropagated, or a term or a factor of that."""
        return self._losses.get(self._key(number)) if number >= 0 else None

    def sources(self, number: int) -> Sequence[int]:
        """The nodes from any one of which a node has the graph that is backpropagated."""
        node = self._graph.nodes[number]
        if node.operator in ARITHMETIC:
            return () if self._without_grad(node) else node.operands
        if node.op in (ops.NARROW, ops.RETURN):
            return node.operands[:1]
        receiver = self._receiver(node, OF_IT_ALONE) if node.op == ops.CALL else None
        return () if receiver is None or self._without_grad(node) else (receiver,)

    def returned_by(self, number: int) -> tuple[int, int | None] | None:
        """The call whose result a node is, and which element of it, where it is one of a tuple."""
        node = self._graph.nodes[number]
        if node.op == ops.UNPACK and not node.data[2]:
            call: int = node.operands[0]
            return (call, node.data[0]) if self._graph.nodes[call].op == ops.CALL else None
        if node.op == ops.CALL and self._receiver(node, OF_IT_ALONE) is None:
            return number, None
        return None

    def returned(self, call: int, index: int | None) -> Iterator[tuple[str, int]]:
        """The nodes, by function, that a call may return; -1 for what is not known."""
        for callee in sorted(self._inference.calls.edges.get((self._function, call), set())):
            state = self._inference.states.get(callee)
            if state is None or not state.graph.returns or state.graph.yields:
                yield callee, -1
                continue
            for number in state.graph.given_back:
                yield callee, number if index is None else state.graph.element(number, index)

    @cached_property
    def _losses(self) -> dict[Key, Evidence]:
        """Where this function itself backpropagates, by the value that it backpropagates."""
        losses: dict[Key, Evidence] = {}
        for number in self._calls.events[self._function]:
            if not self._calls.is_backward(self._function, number):
                continue
            node = self._graph.nodes[number]
            shape: CallShape = node.data
            if "retain_graph" in shape.keywords or "create_graph" in shape.keywords:
                continue  # it is kept on purpose
            path = self._inference.functions[self._function].path
            evidence = Evidence(Place(path, *node.location), "backpropagated here", Shows.BACKWARD)
            loss = self._loss(node)
            for each in sorted(self._terms(loss)) if loss >= 0 else ():
                losses.setdefault(self._key(each), evidence)
        return losses

    def _loss(self, call: Node) -> int:
        """Ex) `loss` of loss.backward(), of accelerator.backward(loss); -1 where it is unknown"""
        _, receiver = method_called(self._graph, call)
        is_tensor = may_be(self._state.values[receiver], Tensor | TensorTree)
        is_argument = receiver >= 0 and call.positional and not is_tensor
        return call.argument(0) if is_argument else receiver

    def _find_terms(self, number: int, ask: Callable[[int], frozenset[int]]) -> frozenset[int]:
        """A loss, and what it is made of that certainly has a graph too: of one that a branch
        changes, what it is made of either way."""
        node = self._graph.nodes[number]
        if node.op == ops.PHI:
            either = [ask(each) for each in node.operands if each >= 0]
            return frozenset({number}).union(frozenset.intersection(*either) if either else ())
        return frozenset({number}).union(*(ask(each) for each in self._into(node) if each >= 0))

    def _into(self, node: Node) -> Iterator[int]:
        """The terms of a loss that certainly have a graph too; -1 for what is not known."""
        if node.operator in ARITHMETIC:
            left, right = node.operands
            host_left, host_right = (
                surely(self._state.values[each], Host) for each in node.operands
            )
            if node.data in SUMS:
                yield from filter(self._is_loss, (left, right))
            elif node.data == "Div" or host_right:
                yield -1 if host_left else left
            elif host_left:
                yield right
        elif node.op == ops.NARROW:
            yield node.operands[0]
        elif node.op == ops.CALL and self._collects(node):
            yield node.argument(0)
        elif node.op == ops.CALL:
            scaled = self._receiver(node, frozenset({"scale"}))
            receiver = self._receiver(node, OF_IT_ALONE)
            if scaled is not None and len(node.positional) == 1:
                yield node.argument(0)
            elif scaled is None and receiver is not None:
                yield receiver

    def _find_loss(self, number: int, ask: Callable[[int], bool]) -> bool:
        """Whether a term of a loss is one itself: what a module returns, or a function that is
        given what one returns."""
        if number < 0:
            return False
        node = self._graph.nodes[number]
        if node.operator:
            return any(map(ask, node.operands))
        if node.op in (ops.UNPACK, ops.NARROW):
            return ask(node.operands[0])
        if node.op == ops.PHI:
            return all(map(ask, node.operands))
        if node.op != ops.CALL or self._without_grad(node):
            return False
        value = self._state.values[number] or frozenset()
        if any(isinstance(atom, Tensor) and atom.grad is False for atom in value):
            return False
        callee = self._state.values[node.operands[0]] or frozenset()
        if surely(callee, Function):
            return may_be(value, Tensor | TensorTree) and any(map(ask, node.arguments))
        return bool(callee) and all(
            (isinstance(atom, Object) and atom.kind in MODULE_KINDS)
            or (isinstance(atom, Instance) and self._inference.hierarchy.is_module(atom.cls))
            or (isinstance(atom, Symbol) and atom.name.startswith("torch.nn.functional."))
            for atom in callee
        )

    def _collects(self, call: Node) -> bool:
        """Ex) sum(losses)"""
        callee = self._state.values[call.operands[0]] or frozenset()
        return bool(call.positional) and any(
            isinstance(atom, Symbol) and atom.name in COLLECTING for atom in callee
        )

    def _receiver(self, call: Node, names: frozenset[str]) -> int | None:
        """Ex) `loss` of loss.mean()"""
        method, receiver = method_called(self._graph, call)
        return receiver if method in names else None

    def _key(self, number: int) -> Key:
        """The key of a node among the losses: two reads of `outputs.loss` have one, where a call
        has returned `outputs`."""
        node = self._graph.nodes[number]
        if node.op == ops.ATTR and self._graph.nodes[node.operands[0]].op == ops.CALL:
            return (node.operands[0], node.data)
        return (number,)

    def _without_grad(self, node: Node) -> bool:
        """Whether a node is computed under `torch.no_grad()`."""
        return node.block in self._blocks_without_grad

    @cached_property
    def _blocks_without_grad(self) -> Collection[int]:
        blocks = set[int]()
        for number, block in enumerate(self._graph.blocks):
            switches = block.kind == "with" and any(
                isinstance(atom, NoGrad) for atom in self._state.values[block.node] or ()
            )
            if switches or block.parent in blocks:
                blocks.add(number)
        return blocks


class BackpropagatedLosses(NodeFact[Evidence]):
    """Where an expression is what `backward()` is called on, or a part of it."""

    _backpropagations = Required(Backpropagations)

    def of(self, at: NodePlace) -> Evidence | None:
        return self._backpropagations.own_evidence(at.function, at.node)
