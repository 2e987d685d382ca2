"""The values that uses of a node in its function suggest."""

from __future__ import annotations

from dataclasses import replace

from amplint.inference.function.frame import FramePart
from amplint.inference.transfer.kinds import NUMBER
from amplint.inference.whole_program.use_evidence import CONTAINERS, NAMED
from amplint.ir import ops
from amplint.ir.flow import method_called
from amplint.ir.model import Node
from amplint.values.atoms import (
    ACCELERATOR,
    CPU,
    UNKNOWN,
    Atom,
    Device,
    Host,
    Mapping,
    Sequence,
    Shows,
    Tensor,
    TensorTree,
    Value,
    may_be,
    one,
)
from amplint.values.lattice import is_open, join, known

# What is used as a number, though somebody may put something else in its place.
MAYBE_NUMBER = join([UNKNOWN, NUMBER])


class ValuesByUse(FramePart):
    """The values of nodes by their uses, where nothing else says what they are."""

    def suggested(self, number: int) -> Value | None:
        """The value that the uses of a node suggest, where nothing else is known of it."""
        kind = self.frame.marks.nodes.get(number)
        node = self.graph.nodes[number]
        path = self.frame.marks.path(number) if kind is None else None
        if path is not None:
            if node.op == ops.ATTR and self.facts.cls is not None and path.startswith("self."):
                kind = self.inference.uses.marks_of_class(self.facts.cls).get(path[5:])
            if kind is None:
                kind = self.frame.marks.paths.get(path)
        if kind is None and number in self.inference.uses.given_for_losses(self.facts.id):
            return self.term(node)
        if kind == "loss" and number not in self.frame.marks.backward:
            return self.term(node)  # a field that another method backpropagates
        if kind == "loss":
            return one(Tensor(None, self.where_trained(number), 0, True))
        if kind == "term":
            return self.term(node)
        if kind in CONTAINERS:
            term = self.term(node)
            return one(Mapping(term) if kind == NAMED else Sequence(None, term))
        if kind == "output":
            return one(TensorTree(self.frame.usual_device(node, "a model's output"), "output"))
        if kind is None and number in self.frame.marks.lengths:
            text = "the lengths of packed sequences must be on the CPU"
            return one(
                Tensor(device=Device("cpu", self.frame.evidence(node, text, Shows.CONVENTION)))
            )
        if kind is None:
            if number in self.frame.marks.results:
                return one(Tensor())
            return MAYBE_NUMBER if self.is_used_as_number(number, path) else None
        return self.frame.mark_value(kind)

    def is_used_as_number(self, number: int, path: str | None) -> bool:
        """Whether a node, or another one of the same dotted path, is used as a number."""
        if number in self.frame.marks.numbers:
            return True
        if path is None:
            return False
        if path in self.frame.marks.number_paths:
            return True
        cls, (owner, _, field) = self.facts.cls, path.partition(".")
        return (
            cls is not None
            and owner == "self"
            and field in self.inference.uses.numbers_of_class(cls)
        )

    def term(self, node: Node) -> Value:
        """A part of a loss."""
        device = self.frame.usual_device(node, "part of a loss that is backpropagated")
        return one(Tensor(None, device, None, True))

    def with_terms(self, number: int, value: Value) -> Value:
        """A container of the terms of a loss, with those in it of which nothing else is known."""
        term = self.term(self.graph.nodes[number])

        def with_term(element: Value) -> Value:
            return join([known(element), term]) if is_open(element) else element

        def filled(atom: Atom) -> Atom:
            if isinstance(atom, Mapping):
                items = tuple((key, with_term(element)) for key, element in atom.items)
                return replace(atom, rest=with_term(atom.rest), items=items)
            if isinstance(atom, Sequence):
                every = atom.items and tuple(with_term(element) for element in atom.items)
                return replace(atom, items=every, element=with_term(atom.element))
            return atom

        return join([frozenset(filled(atom) for atom in value)])

    def backpropagated(self, number: int, value: Value) -> Value:
        """A loss of unknown device is where training happens: on the accelerator.

        One that a GradScaler scales is there in any case: a scaler for CUDA switches itself off
        where there is none (torch 2.13, `GradScaler.__init__`). A batch that was taken for one on
        the CPU was moved out of sight, by the code that collates it.
        """
        call = self.graph.nodes[self.frame.marks.backward[number]]
        device = self.where_trained(number)
        scaled = self.frame.marks.nodes.get(number) == "loss" and self.is_scaled(call)
        return frozenset(
            replace(a, device=device)
            if (isinstance(a, Tensor) and a.device.kind is None)
            or (isinstance(a, Tensor | TensorTree) and scaled)
            else a
            for a in value
        )

    def where_trained(self, loss: int) -> Device:
        """The device of a loss: that on which its backward pass runs."""
        call = self.graph.nodes[self.frame.marks.backward[loss]]
        if self.inference.texts.trains_on_host:
            return CPU
        return Device(ACCELERATOR, self.frame.evidence(call, "backpropagated here", Shows.BACKWARD))

    def is_scaled(self, backward: Node) -> bool:
        """Ex) scaler.scale(loss).backward(), in a file that makes no scaler for the CPU, and none
        that is off. By the names, and not by the value, which is not known at first: an answer that
        changes when it is would not be monotone."""
        nodes = self.graph.nodes
        _, scaled = method_called(self.graph, backward)
        method, scaler = method_called(self.graph, nodes[scaled])
        if scaled < 0 or method != "scale":
            return False
        owner = str(nodes[scaler].data).lower()
        return "scaler" in owner and not self.inference.texts.makes_idle_scaler(self.facts.path)

    def as_loss(self, number: int, value: Value) -> Value:
        """The alternatives of a loss without the numbers: no backward pass is run for these. Of
        the output of a model, it is the tensor."""
        if self.frame.marks.nodes.get(number) != "loss":
            return value
        if not may_be(value, Tensor | TensorTree):
            return value
        return join(
            one(Tensor(device=a.device, rank=0, grad=True)) if isinstance(a, TensorTree) else one(a)
            for a in value
            if not isinstance(a, Host)
        )
