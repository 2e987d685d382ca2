"""Whether what is inferred to be a tensor surely is one.

A parameter of `forward` that is subscripted or multiplied is taken for a tensor
(`amplint.inference.use_evidence`): right for what is asked of tensors, since a list of ints would
not be asked it. Where a *number* is needed, ints are as likely. A tensor is sure there by an
annotation, by an attribute or a method that only tensors have, by a function of torch, or since
callers that are seen pass one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amplint.core.values import Device, Mapping, Sequence, Symbol, Tensor, Value, Why
from amplint.inference import HOT_METHODS, Inference, State, annotated
from amplint.inference.use_evidence import TENSOR_USES
from amplint.ir.model import Node

# What their first operand is decides about these; a call that is none of these speaks for itself.
OF_THE_FIRST = frozenset({"subscript", "iter", "unpack", "narrow", "starred", "await"})
# One tensor among the operands makes the result one.
OF_ANY = frozenset({"binop", "aug", "unary", "compare"})
# These are known from elsewhere: a field, a name of the module, an attribute of a tensor.
KNOWN = frozenset({"attr", "name", "import"})


def is_tensor(inference: Inference, function: str, number: int) -> bool:
    """Whether the tensor that a node is, or the tensors that it holds, are so without a guess."""
    return _Search(inference).sure(function, number) is True


class _Search:
    """A walk from a value to what it is made of."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._seen: set[tuple[str, int]] = set()

    def sure(self, function: str, number: int) -> bool | None:
        """None where the walk has been before: a loop's variable does not speak for itself."""
        state = self._inference.states.get(function)
        if state is None or not holds_tensor(state.values[number]):
            return False
        if (function, number) in self._seen:
            return None
        self._seen.add((function, number))
        node = state.graph.nodes[number]
        if node.op in KNOWN:
            return True
        if node.op == "param":
            return self._sure_parameter(function, state, number)
        if node.op == "call":
            return self._sure_call(function, state, number, node)
        return self._sure_by(function, state, node, node.operands)

    def _sure_by(
        self, function: str, state: State, node: Node, operands: tuple[int, ...]
    ) -> bool | None:
        if node.op in OF_THE_FIRST:
            operands = operands[:1]
        holding = [n for n in operands if n >= 0 and holds_tensor(state.values[n])]
        found = [self.sure(function, n) for n in holding]
        if node.op in OF_ANY:
            return True if True in found else None if None in found else False
        return together(found)

    def _sure_call(self, function: str, state: State, number: int, node: Node) -> bool | None:
        callees = self._inference.edges.get((function, number), set())
        returned = [
            (callee, n)
            for callee in sorted(callees & self._inference.states.keys())
            for n in self._inference.states[callee].graph.returns
            if holds_tensor(self._inference.states[callee].values[n])
        ]
        if returned:
            return together([self.sure(callee, n) for callee, n in returned])
        of_python = any(
            isinstance(atom, Symbol) and atom.name.startswith("builtins.")
            for atom in state.values[node.operands[0]]
        )
        # `max(a, b)`, `zip(heights, widths)` give what they are given.
        return self._sure_by(function, state, node, node.operands[1:]) if of_python else True

    def _sure_parameter(self, function: str, state: State, number: int) -> bool | None:
        """Whether an annotation says so, a use that only tensors have, or what callers pass."""
        node = state.graph.nodes[number]
        annotation = state.values[node.operands[0]] if node.operands else frozenset()
        if number not in self._inference.marks_of(function).copied and any(
            isinstance(atom, Tensor) for atom in annotated(annotation, Device(None))
        ):
            return True
        if used_as_tensor(state, number):
            return True
        reasons = {tensor.device.why for tensor in tensors_held(state.values[number])}
        guesses = [guess for why in reasons if why for guess in self._guessed(why)]
        own = (function, number)
        return together([own != guess and self.sure(*guess) for guess in guesses] or [True])

    def _guessed(self, why: Why) -> Iterator[tuple[str, int]]:
        """The parameter whose device is a guess, and this the reason: that of `forward`."""
        for function, facts in self._inference.files[why.place.path].facts.functions.items():
            state = self._inference.states.get(function)
            if facts.name not in HOT_METHODS or state is None:
                continue
            for number, node in enumerate(state.graph.nodes):
                if node.op == "param" and node.location == why.place[1:]:
                    given = tensors_held(state.values[number])
                    if any(tensor.device.why == why for tensor in given):
                        yield function, number


def together(found: Iterable[bool | None]) -> bool | None:
    """What holds for all of these; None if the walk had been at each of them before."""
    known = [each for each in found if each is not None]
    return all(known) if known else None


def used_as_tensor(state: State, number: int) -> bool:
    """Whether an attribute of a parameter is read that only tensors have."""
    same = {number}  # the parameter, and what a test leaves of it
    for other, node in enumerate(state.graph.nodes):
        if node.op == "narrow" and node.operands[0] in same:
            same.add(other)
        elif node.op == "attr" and node.operands[0] in same and node.data in TENSOR_USES:
            return True
    return False


def tensors_held(value: Value, depth: int = 4) -> Iterator[Tensor]:
    """The tensors that the value may be or hold; a blob may hold anything."""
    for atom in value:
        inner: tuple[Value, ...] = ()
        if isinstance(atom, Tensor):
            yield atom
        elif isinstance(atom, Sequence):
            inner = (atom.element, *(atom.items or ()))
        elif isinstance(atom, Mapping):
            inner = (atom.element, *(item for _, item in atom.items))
        for each in inner if depth else ():
            yield from tensors_held(each, depth - 1)


def holds_tensor(value: Value) -> bool:
    return next(tensors_held(value), None) is not None
