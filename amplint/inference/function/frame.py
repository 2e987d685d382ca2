"""One function as it is evaluated, and what all parts of its evaluation need."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property, partial

from amplint.frameworks.models import Models
from amplint.frameworks.schema import Given, Role
from amplint.inference import transfer
from amplint.inference.function.regions import FunctionRegions
from amplint.inference.inference import Inference
from amplint.inference.key_access import KeyAccess
from amplint.inference.state import SiteId, State
from amplint.inference.transfer import Site
from amplint.inference.transfer.kinds import NUMBER
from amplint.inference.whole_program.use_evidence import Marks
from amplint.ir.model import FunctionFacts, Node
from amplint.values.atoms import (
    CPU,
    UNKNOWN,
    Arguments,
    Atom,
    Device,
    Evidence,
    Object,
    Region,
    Shows,
    Tensor,
    TensorTree,
    Value,
    one,
)

Why = Callable[[str, Shows], Evidence | None]


class Frame:
    """The facts about a function while it is evaluated.

    Args:
        inference: answers questions about the project.
        access: where it reads what other functions have written, and writes for them.
        facts, state: of the function.

    Attributes:
        number: the node that is evaluated now.
        regions: of its blocks.
    """

    def __init__(
        self, inference: Inference, access: KeyAccess, facts: FunctionFacts, state: State
    ) -> None:
        self.inference = inference
        self.access = access
        self.facts = facts
        self.state = state
        self.graph = state.graph
        self.values = state.values
        self.number = 0
        self.regions = FunctionRegions(inference, access, facts, state.graph, state.values)

    @property
    def here(self) -> SiteId:
        """The site of the node that is evaluated now."""
        return self.facts.id, self.number

    @cached_property
    def marks(self) -> Marks:
        """The evidence that the uses of its nodes give."""
        return self.inference.uses.marks_of(self.facts.id)

    @property
    def models(self) -> Models:
        """The models of frameworks."""
        return self.inference.files.models

    def site(self, node: Node) -> Site:
        return self.site_in(self.regions.of(node.block), partial(self.evidence, node))

    def site_in(self, region: Region | None, evidence: Why) -> Site:
        return Site(region, evidence, self.models, self.inference.texts.trains_on_host)

    def settled(self, value: Value) -> Value:
        """The value as it is kept for a node."""
        return self.inference.memo.interned(value)

    def applied(self, operation: Callable[..., Value], node: Node, *operands: Hashable) -> Value:
        """The result of a transfer function that takes such operands and the site."""
        region = self.regions.of(node.block)
        return self.inference.memo.result(
            (operation, operands, region),
            lambda: operation(*operands, self.site_in(region, no_evidence)),
        )

    def called(self, atom: Atom, arguments: Arguments, node: Node) -> Value:
        """The result of a call of what is no function of the project."""
        region = self.regions.of(node.block)
        return self.inference.memo.result(
            (atom, arguments.key, region),
            lambda: transfer.call(atom, arguments, self.site_in(region, no_evidence)),
        )

    def evidence(self, _node: Node, _text: str, _kind: Shows) -> Evidence | None:
        """The evidence that a node is for something: none, until somebody asks
        (`explanation.py`)."""
        return None

    def evidence_in(self, _function: str, _node: Node, _text: str, _kind: Shows) -> Evidence | None:
        """The evidence that a node of another function is for something: none, until somebody asks
        (`explanation.py`)."""
        return None

    def usual_device(self, node: Node, text: str) -> Device:
        """The accelerator, where a convention that a text names says so of a node. Where the
        project trains on the CPU, that."""
        return self.site_in(None, partial(self.evidence, node)).usual(text)

    def of(self, number: int) -> Value:
        return self.values[number]

    def operands(self, node: Node) -> list[Value]:
        return [self.values[number] if number >= 0 else UNKNOWN for number in node.operands]

    def of_role(self, role: Role | Given, node: Node, what: str) -> Value | None:
        """The value of something by its role for a framework; None where that says nothing.

        Args:
            what: the sentence that says so, for the evidence.
        """
        device = self.usual_device(node, what)
        values = {
            "batch": one(TensorTree(device)),
            "host batch": one(TensorTree(CPU)),
            "outputs": one(TensorTree(device, "output")),
            "tensor": one(Tensor(device=device)),
            "loss": one(Tensor(device=device, rank=0, grad=True)),
            "device": one(device),
            "number": NUMBER,
        }
        return values.get(role) or self.mark_value(role)

    def mark_value(self, kind: str) -> Value | None:
        return {
            "module": one(Object("module", "?")),
            "optimizer": one(Object("optimizer", "?")),
            "scaler": one(Object("scaler", "?", enabled=None)),
            "scheduler": one(Object("scheduler", "?")),
            "accelerator": one(transfer.SOME_ACCELERATOR),
        }.get(kind)


class FramePart:
    """One part of the evaluation of a function."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.inference = frame.inference
        self.access = frame.access
        self.facts = frame.facts
        self.state = frame.state
        self.graph = frame.graph
        self.values = frame.values


def no_evidence(_text: str, _kind: Shows) -> Evidence | None:
    """The evidence of a site in the fixpoint."""
    return None
