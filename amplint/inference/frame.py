"""One function as it is evaluated: its values so far, its autocast regions, its reasons."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from functools import cached_property, partial

from amplint.frameworks.models import Models
from amplint.frameworks.schema import Given, Role
from amplint.inference import transfer
from amplint.inference.exchange import Exchange
from amplint.inference.inference import Inference
from amplint.inference.state import Key, State
from amplint.inference.transfer import Site
from amplint.inference.transfer.kinds import NUMBER
from amplint.inference.use_evidence import CONTAINERS, NAMED, Marks
from amplint.ir import ops
from amplint.ir.model import SIDES, FunctionFacts, Graph, Node, path_of
from amplint.knowledge import libraries
from amplint.util.walks import reachable
from amplint.values.atoms import (
    ACCELERATOR,
    BOTTOM,
    CPU,
    UNKNOWN,
    Arguments,
    Atom,
    Autocast,
    Device,
    Evidence,
    Host,
    Instance,
    Mapping,
    Object,
    Region,
    Sequence,
    Shows,
    Symbol,
    Tensor,
    TensorTree,
    Value,
    entered,
    one,
    ordered,
)
from amplint.values.lattice import is_open, join, known

RUN_BY_CALL = frozenset({"forward", "__call__"})  # methods that a call of a module runs
# What is used as a number, though somebody may put something else in its place.
MAYBE_NUMBER = join([UNKNOWN, NUMBER])


class Frame:
    """The facts about a function while it is evaluated.

    Args:
        inference: answers questions about the project.
        exchange: where it reads what other functions have written, and writes for them.
        facts, state: of the function.
    """

    def __init__(
        self, inference: Inference, exchange: Exchange, facts: FunctionFacts, state: State
    ) -> None:
        self.inference = inference
        self.exchange = exchange
        self.facts = facts
        self.state = state
        self.graph = state.graph
        self.values = state.values
        self.number = 0
        self.regions: dict[int, Region | None] = {}
        self.function_region: Region | None = None

    @cached_property
    def marks(self) -> Marks:
        """The evidence that the uses of its nodes give."""
        return self.inference.uses.marks_of(self.facts.id)

    @property
    def models(self) -> Models:
        """The models of frameworks."""
        return self.inference.files.models

    def chain(self, block: int) -> Iterable[int]:
        """The block and those around it, innermost first."""
        while block >= 0:
            yield block
            block = self.graph.blocks[block].parent

    def region_of_function(self) -> Region | None:
        """The region that decorators or some caller put around the body."""
        own = self.own_region()
        if own is not None:
            return own
        if self.facts.kind in ("class", "module") or self.facts.parent is None:
            return None
        return self.exchange.inherited_region(self.facts.id)

    def own_region(self) -> Region | None:
        """The region that decorators, or a framework, put around the body."""
        return region_around(self.inference, self.facts, self.exchange.read)

    def region(self, block: int) -> Region | None:
        """The autocast state inside a block."""
        if block < 0:
            return self.function_region
        if block not in self.regions:
            facts = self.graph.blocks[block]
            around = self.region(facts.parent)
            if facts.kind == "with" and facts.node >= 0:
                inner = opened_by(self.values[facts.node])
                around = nested(inner, around) if inner is not None else around
            elif facts.kind in SIDES and around is not None:
                around = self.where_tested(block, around)
            self.regions[block] = around
        return self.regions[block]

    def where_tested(self, block: int, around: Region) -> Region | None:
        """The region in a block under a test: `around`, unless the region is not opened, or is
        switched off, where the test has this outcome.

        Ex) torch.autocast("cuda") if amp else nullcontext(), `enabled=amp`, and then `if not amp:`
        """
        opener = next((each for each in self.chain(block) if self.opens(each)), None)
        if opener is None:
            return around  # which is inherited
        contexts = origins(self.graph, self.graph.blocks[opener].node)
        opening = [n for n in contexts if opened_by(self.values[n]) is not None]
        if len(opening) != 1:
            return around
        node = self.graph.nodes[opening[0]]
        flag, holds = self.tested(block)
        if not holds and flag in map(self.flag, self.switches(node)):
            return replace(around, enabled=False)
        of_opener = set(self.chain(opener))
        chosen = [n for n in self.chain(node.block) if n not in of_opener]
        sides = [self.tested(n) for n in chosen if self.graph.blocks[n].kind in SIDES]
        outer = self.graph.blocks[opener].parent
        return self.region(outer) if (flag, not holds) in sides else around

    def opens(self, block: int) -> bool:
        """Whether the context of a block opens a region, or may open one."""
        facts = self.graph.blocks[block]
        is_context = facts.kind == "with" and facts.node >= 0
        return is_context and opened_by(self.values[facts.node]) is not None

    def switches(self, made: Node) -> Iterable[int]:
        """The flags that a call passes to autocast."""
        for atom in self.values[made.operands[0]] if made.op == ops.CALL else ():
            name = transfer.canonical(atom.name) if isinstance(atom, Symbol) else ""
            api = libraries.AUTOCASTS.get(name)
            place = api.parameters.index("enabled") if api is not None else None
            flag = made.argument(place, "enabled")
            if flag >= 0 and (api or isinstance(atom, Autocast)):
                yield flag

    def tested(self, block: int) -> tuple[str | int, bool]:
        """The flag that a block is under, and what it is there."""
        number, holds = self.graph.blocks[block].node, self.graph.blocks[block].kind == "if"
        while self.graph.nodes[number].op == ops.UNARY and self.graph.nodes[number].data == "Not":
            number, holds = self.graph.nodes[number].operands[0], not holds
        return self.flag(number), holds

    def flag(self, number: int) -> str | int:
        """The identity of a flag, the same for all its reads: the path to it, or its node."""
        made = origins(self.graph, number)
        return path_of(self.graph, made[0]) or made[0] if len(made) == 1 else number

    def region_of_call(self, node: Node, function: str) -> Region | None:
        """The region in which a call runs a function: the one around the call, or that in which a
        framework has wrapped the module that is called."""
        facts = self.inference.functions[function]
        if facts.name in RUN_BY_CALL and facts.cls is not None and node.op == ops.CALL:
            for atom in ordered(self.values[node.operands[0]]):
                dtype = atom.wrapped if isinstance(atom, Instance) else None
                if (
                    isinstance(atom, Instance)
                    and dtype
                    and facts.cls in self.inference.hierarchy.mro(atom.cls)
                ):
                    return Region("cuda", dtype, True, wrapped=True)
        return self.region(node.block)

    def site(self, node: Node) -> Site:
        return Site(self.region(node.block), partial(self.evidence, node), self.models)

    def settled(self, value: Value) -> Value:
        """The value as it is kept for a node."""
        return self.inference.memo.interned(value)

    def applied(self, operation: Callable[..., Value], node: Node, *operands: Hashable) -> Value:
        """The result of a transfer function that takes such operands and the site."""
        region = self.region(node.block)
        return self.inference.memo.result(
            (operation, operands, region),
            lambda: operation(*operands, Site(region, no_evidence, self.models)),
        )

    def called(self, atom: Atom, arguments: Arguments, node: Node) -> Value:
        """The result of a call of what is no function of the project."""
        region = self.region(node.block)
        return self.inference.memo.result(
            (atom, arguments.key, region),
            lambda: transfer.call(atom, arguments, Site(region, no_evidence, self.models)),
        )

    def evidence(self, _node: Node, _text: str, _kind: Shows) -> Evidence | None:
        """The evidence that a node is for something: none, until somebody asks
        (`explanation.py`)."""
        return None

    def evidence_in(self, _function: str, _node: Node, _text: str, _kind: Shows) -> Evidence | None:
        """The same of a node of another function."""
        return None

    def marked(self, number: int) -> Value | None:
        """The value that the uses of a node suggest, where nothing else is known of it."""
        kind = self.marks.nodes.get(number)
        node = self.graph.nodes[number]
        path = self.marks.path(number) if kind is None else None
        if path is not None:
            if node.op == ops.ATTR and self.facts.cls is not None and path.startswith("self."):
                kind = self.inference.uses.marks_of_class(self.facts.cls).get(path[5:])
            if kind is None:
                kind = self.marks.paths.get(path)
        if kind is None and number in self.inference.uses.given_for_losses(self.facts.id):
            return self.term(node)
        if kind == "loss" and number not in self.marks.backward:
            return self.term(node)  # a field that another method backpropagates
        if kind == "loss":
            device = Device(
                ACCELERATOR,
                self.evidence(
                    self.graph.nodes[self.marks.backward[number]],
                    "backpropagated here",
                    Shows.BACKWARD,
                ),
            )
            return one(Tensor(None, device, 0, True))
        if kind == "term":
            return self.term(node)
        if kind in CONTAINERS:
            term = self.term(node)
            return one(Mapping(term) if kind == NAMED else Sequence(None, term))
        if kind == "output":
            return one(
                TensorTree(
                    Device(ACCELERATOR, self.evidence(node, "a model's output", Shows.CONVENTION)),
                    "output",
                )
            )
        if kind is None and number in self.marks.lengths:
            text = "the lengths of packed sequences must be on the CPU"
            return one(Tensor(device=Device("cpu", self.evidence(node, text, Shows.CONVENTION))))
        if kind is None:
            if number in self.marks.results:
                return one(Tensor())
            return MAYBE_NUMBER if self.is_used_as_number(number, path) else None
        return self.mark_value(kind)

    def is_used_as_number(self, number: int, path: str | None) -> bool:
        """Whether a node, or another one of the same dotted path, is used as a number."""
        if number in self.marks.numbers:
            return True
        if path is None:
            return False
        if path in self.marks.number_paths:
            return True
        cls, (owner, _, field) = self.facts.cls, path.partition(".")
        return (
            cls is not None
            and owner == "self"
            and field in self.inference.uses.numbers_of_class(cls)
        )

    def term(self, node: Node) -> Value:
        """A part of a loss."""
        text = "part of a loss that is backpropagated"
        device = Device(ACCELERATOR, self.evidence(node, text, Shows.CONVENTION))
        return one(Tensor(None, device, None, True))

    def with_terms(self, number: int, value: Value) -> Value:
        """A container of the terms of a loss, with those in it of which nothing else is known."""
        term = self.term(self.graph.nodes[number])

        def told(held: Value) -> Value:
            return join([known(held), term]) if is_open(held) else held

        def filled(atom: Atom) -> Atom:
            if isinstance(atom, Mapping):
                items = tuple((key, told(held)) for key, held in atom.items)
                return replace(atom, rest=told(atom.rest), items=items)
            if isinstance(atom, Sequence):
                every = atom.items and tuple(told(held) for held in atom.items)
                return replace(atom, items=every, element=told(atom.element))
            return atom

        return join([frozenset(filled(atom) for atom in value)])

    def backpropagated(self, number: int, value: Value) -> Value:
        """A loss of unknown device is where training happens: on the accelerator.

        One that a GradScaler scales is there in any case: a scaler for CUDA switches itself off
        where there is none (torch 2.13, `GradScaler.__init__`). A batch that was taken for one on
        the CPU was moved out of sight, by the code that collates it.
        """
        call = self.graph.nodes[self.marks.backward[number]]
        device = Device(ACCELERATOR, self.evidence(call, "backpropagated here", Shows.BACKWARD))
        scaled = self.marks.nodes.get(number) == "loss" and self.is_scaled(call)
        return frozenset(
            replace(a, device=device)
            if (isinstance(a, Tensor) and a.device.kind is None)
            or (isinstance(a, Tensor | TensorTree) and scaled)
            else a
            for a in value
        )

    def is_scaled(self, backward: Node) -> bool:
        """Ex) scaler.scale(loss).backward(), in a file that makes no scaler for the CPU, and none
        that is off. By the names, and not by the value, which is not known at first: an answer that
        changes when it is would not be monotone."""
        nodes = self.graph.nodes
        callee = nodes[backward.operands[0]]
        if callee.op != ops.ATTR or nodes[callee.operands[0]].op != ops.CALL:
            return False
        method = nodes[nodes[callee.operands[0]].operands[0]]
        if method.op != ops.ATTR or method.data != "scale":
            return False
        owner = str(nodes[method.operands[0]].data).lower()
        return "scaler" in owner and not self.inference.texts.makes_idle_scaler(self.facts.path)

    def as_loss(self, number: int, value: Value) -> Value:
        """The alternatives of a loss without the numbers: no backward pass is run for these. Of
        the output of a model, it is the tensor."""
        if self.marks.nodes.get(number) != "loss":
            return value
        if not any(isinstance(a, Tensor | TensorTree) for a in value):
            return value
        return join(
            one(Tensor(device=a.device, rank=0, grad=True)) if isinstance(a, TensorTree) else one(a)
            for a in value
            if not isinstance(a, Host)
        )

    def of(self, number: int) -> Value:
        return self.values[number]

    def operands(self, node: Node) -> list[Value]:
        return [self.values[number] if number >= 0 else UNKNOWN for number in node.operands]

    def of_role(self, role: Role | Given, node: Node, what: str) -> Value | None:
        """The value of something by its role for a framework; None where that says nothing.

        Args:
            what: the sentence that says so, for the evidence.
        """
        device = Device(ACCELERATOR, self.evidence(node, what, Shows.CONVENTION))
        if role == "batch":
            return one(TensorTree(device))
        if role == "host batch":
            return one(TensorTree(CPU))
        if role == "outputs":
            return one(TensorTree(device, "output"))
        if role == "tensor":
            return one(Tensor(device=device))
        if role == "loss":
            return one(Tensor(device=device, rank=0, grad=True))
        if role == "device":
            return one(device)
        return NUMBER if role == "number" else self.mark_value(role)

    def mark_value(self, kind: str) -> Value | None:
        return {
            "module": one(Object("module", "?")),
            "optimizer": one(Object("optimizer", "?")),
            "accelerator": one(transfer.SOME_ACCELERATOR),
        }.get(kind)


def origins(graph: Graph, number: int) -> list[int]:
    """The nodes that have made the value of a node, through joins and tests."""
    sources = reachable([number], partial(alternatives, graph))
    return [each for each in sources if not alternatives(graph, each)]


def alternatives(graph: Graph, number: int) -> tuple[int, ...]:
    """The nodes that a node is one of, whatever tests have left of it; none of what is no join."""
    node = graph.nodes[number]
    if node.op == ops.NARROW:
        return node.operands[:1]
    return node.operands if node.op == ops.PHI else ()


def no_evidence(_text: str, _kind: Shows) -> Evidence | None:
    """The evidence of a site in the fixpoint."""
    return None


def region_around(
    inference: Inference, facts: FunctionFacts, ask: Callable[[Key], Value]
) -> Region | None:
    """The region that decorators put around a function, a call that wraps it, or the framework that
    calls it.

    Args:
        ask: returns the value of a key.
    """
    decorators = ask(Key("decorators", facts.id)) if facts.decorated else BOTTOM
    opened = opened_by(decorators) or opened_by(ask(Key("wrapped", facts.id)))
    if opened is not None or not libraries.TRANSPARENT_DECORATORS.issuperset(facts.decorated):
        return opened  # a decorator that nobody knows may end the region
    dtype = inference.hierarchy.dtype_of_framework(facts, ask)
    return Region("cuda", dtype, True, inherited=True) if dtype else None


def opened_by(contexts: Value) -> Region | None:
    """The region that a context, or what may be one, opens."""
    for atom in entered(contexts) if contexts else ():
        if isinstance(atom, Autocast):
            return as_region(atom)
    return None


def as_region(context: Autocast) -> Region:
    return Region(context.device, context.dtype, context.enabled, context.evidence)


def nested(inner: Region, outer: Region | None) -> Region:
    """A region without a dtype takes that of the enclosing one of its device type."""
    if inner.dtype is None and outer is not None and outer.device == inner.device and outer.enabled:
        return replace(inner, dtype=outer.dtype)
    return inner
