"""Which passes of a module use casts of its weights that an earlier pass in their region has made.

Autocast keeps the cast of a weight as long as a region is open. If the weight is overwritten, as
where averaged weights are swapped in, the casts are those of the old one. If a pass under `no_grad`
has made the cast, it has no graph, and a later pass has no gradients (torch before 2.11,
https://github.com/pytorch/pytorch/pull/165068).

The passes and changes are those of a function, and those that one call of one function surely makes
with modules that are handed to it, or that are attributes of what is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from amplint.analyses.backward_calls import NO_GRADIENTS
from amplint.analyses.cast_cache import autocast_of
from amplint.facts.call_guards import CallGuards
from amplint.facts.fact import CallFact, Fact, Required
from amplint.gradscaler.parameter_lists import modules_of, owner_of
from amplint.inference import Inference, State
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.flow import method_called
from amplint.ir.model import SIDES, Graph, Node
from amplint.util.positions import Place
from amplint.values.atoms import UNKNOWN, Atom, Evidence, Instance, NoGrad, Object, Shows, Value
from amplint.values.lattice import only

SWITCHES = frozenset({"enable_grad", "set_grad_enabled"})
FREEZING = frozenset({"requires_grad", "requires_grad_", "freeze"})
OVERWRITING = frozenset(
    {"copy_", "mul_", "add_", "clamp_", "sub_", "lerp_", "normal_", "uniform_", "zero_"}
)
ON_SOME_PATHS = SIDES | {"handler"}
MADE = "the casts are made here"
STALE = "still uses the first casts of the weights"
LATER = "this pass computes no gradients for the weights"


class Kind(Enum):
    """A pass of a module, or a change of it."""

    PASS = "a pass"
    NO_GRAD = "a pass without gradients"
    CHANGE = "its weights are overwritten in place"


class NamedModule(NamedTuple):
    """A module as a function has it: a node, and the attributes from there."""

    root: int
    path: tuple[str, ...]


class ModuleUse(NamedTuple):
    """A use of a module by a call, or a store.

    Args:
        number: its node.
        surely: whether it is known to be a module.
        place: where that is done, perhaps in what is called.
    """

    number: int
    module: NamedModule
    kind: Kind
    surely: bool
    place: Place


class Lost(NamedTuple):
    """A later pass that has no gradients because of an earlier one.

    Args:
        later: the node of the call that makes it, in the function of the earlier one.
        name: what the module of both is called.
        by_name: whether an optimizer is given its parameters by that name; else one is given all
            parameters of the object that holds it.
        because: where what is called makes the earlier pass, and the later one.
    """

    later: int
    name: str
    by_name: bool
    because: tuple[Evidence, ...]


class ModuleUses(Fact):
    """The modules that functions run or change."""

    _guards = Required(CallGuards)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._own_uses: dict[str, Sequence[ModuleUse]] = {}

    def in_regions(self, function: str) -> Mapping[tuple[NamedModule, int], Sequence[ModuleUse]]:
        """By trained module and outermost region in a function (-1 for one that a caller opens):
        how it is used where autocast is on, in order."""
        state = self.inference.states[function]
        uses: dict[tuple[NamedModule, int], list[ModuleUse]] = {}
        for use in self._uses(function):
            holder = only(state.values[use.module.root])
            is_held = isinstance(holder, Instance) and holder.cls in self._trained
            if (use.surely and is_held) or name_of(state, use.module) in self.optimized:
                region = outermost_region(state, state.graph.nodes[use.number].block)
                uses.setdefault((use.module, region), []).append(use)
        return uses

    def _uses(self, function: str) -> Iterator[ModuleUse]:
        state = self.inference.states[function]
        own = {use.number: use for use in self._own(function)}
        for number, node in enumerate(state.graph.nodes):
            callees = self.inference.calls.edges.get((function, number), ())
            if number in own:
                yield own[number]
            elif len(callees) == 1 and node.op == ops.CALL and is_on(state, node.block):
                yield from self._called(function, number, *callees)

    def _called(self, function: str, number: int, callee: str) -> Iterator[ModuleUse]:
        """The uses that a call surely makes by what it runs."""
        kind = self._kind(function, number)
        for use in self._own(callee) if kind is not None else ():
            graph = self.inference.states[callee].graph
            root = self._argument(function, number, callee, graph.nodes[use.module.root])
            is_restored = bool(graph.yields) and use.number > graph.yields[0]
            sides = (graph.blocks[n].kind for n in around(graph, graph.nodes[use.number].block))
            if root >= 0 and not is_restored and ON_SOME_PATHS.isdisjoint(sides):
                start, path = named(self.inference.states[function].graph, root)
                module = NamedModule(start, (*path, *use.module.path))
                use_kind = kind if use.kind is Kind.PASS and kind is not None else use.kind
                yield use._replace(number=number, module=module, kind=use_kind)

    def _own(self, function: str) -> Sequence[ModuleUse]:
        """The passes of modules in a function where autocast may be on, and what overwrites their
        weights."""
        if function not in self._own_uses:
            is_known = function in self.inference.states
            self._own_uses[function] = [*self._find_own(function)] if is_known else []
        return self._own_uses[function]

    def _find_own(self, function: str) -> Iterator[ModuleUse]:
        state = self.inference.states[function]
        graph = state.graph
        for number, node in enumerate(graph.nodes):
            if node.op not in (ops.CALL, ops.STORE) or not is_on(state, node.block):
                continue
            kind: Kind | None = Kind.CHANGE
            module = overwritten(graph, node)
            if module < 0 and node.op == ops.CALL:
                kind = self._kind(function, number)
                method, receiver = method_called(graph, node)
                module = receiver if method == "forward" else node.operands[0]
            value = state.values[module] - UNKNOWN if module >= 0 else frozenset()
            if module >= 0 and kind is not None and all(map(self._is_module, value)):
                surely = bool(value) and value == state.values[module]
                place = self.inference.place(function, number)
                yield ModuleUse(number, named(graph, module), kind, surely, place)

    def _argument(self, function: str, number: int, callee: str, root: Node) -> int:
        """The node that a call passes for a parameter; -1 for anything else."""
        if root.op != ops.PARAM:
            return -1
        facts = self.inference.functions[callee]
        if facts.takes_receiver and facts.positional and facts.positional[0].name == root.data:
            graph = self.inference.states[function].graph
            method, receiver = method_called(graph, graph.nodes[number])
            return receiver if method == facts.name else graph.nodes[number].operands[0]
        argument = self._guards.argument((function, number), callee, root.data)
        return -1 if argument is None else argument

    def _is_module(self, atom: Atom) -> bool:
        if isinstance(atom, Instance):
            return self.inference.hierarchy.is_module(atom.cls)
        return isinstance(atom, Object) and atom.kind == "module"

    def _kind(self, function: str, number: int) -> Kind | None:
        """Of a pass that a node makes: whether it has gradients; None where that is not known."""
        facts, state = self.inference.functions[function], self.inference.states[function]
        blocks = around(state.graph, state.graph.nodes[number].block)
        opened = [
            state.graph.blocks[n].node for n in blocks if state.graph.blocks[n].kind == "with"
        ]
        contexts = [state.values[n] for n in opened if any(map(is_no_grad, state.values[n]))]
        if facts.words & SWITCHES or any(len(context) > 1 for context in contexts):
            return None
        is_off = contexts or not NO_GRADIENTS.isdisjoint(facts.decorated)
        return Kind.NO_GRAD if is_off else Kind.PASS

    # -- what is trained

    @cached_property
    def optimized(self) -> Collection[str]:
        """The last names of the modules whose parameters optimizers are given."""
        return {
            name_of(state, named(state.graph, module))
            for state, module in self._given_to_optimizers
        }

    @cached_property
    def _trained(self) -> Collection[str]:
        """Their classes, and those above them; none of a family of which one freezes anything."""
        values = (state.values[module] for state, module in self._given_to_optimizers)
        classes = {atom.cls for value in values for atom in value if isinstance(atom, Instance)}
        functions = self.inference.functions
        families = [self.inference.hierarchy.mro(cls) for cls in classes]
        return {
            cls
            for family in families
            if not any(functions[each].words & FREEZING for each in family)
            for cls in family
        }

    @cached_property
    def _given_to_optimizers(self) -> Sequence[tuple[State, int]]:
        """The modules whose parameters optimizers are given, by their nodes."""
        return [
            (state, module)
            for function, state in self.inference.states.items()
            for number, node in enumerate(state.graph.nodes)
            if node.op == ops.CALL and is_optimizer(state.values[number])
            for module in modules_of(self.inference, function, number)
        ]


class LostGradients(CallFact[Lost]):
    """The later pass that the casts of a call leave without gradients."""

    _uses = Required(ModuleUses)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._by_function: dict[str, Mapping[int, Lost]] = {}

    def of(self, at: NodePlace) -> Lost | None:
        if at.function not in self._by_function:
            self._by_function[at.function] = dict(self._losses(at.function))
        return self._by_function[at.function].get(at.node)

    def _losses(self, function: str) -> Iterator[tuple[int, Lost]]:
        """By call of a function: the pass that it takes the gradients of."""
        state = self.inference.states[function]
        for (module, _), uses in self._uses.in_regions(function).items():
            passes = [use for use in uses if use.kind is not Kind.CHANGE]
            for later in passes[1:]:
                first = passes[0]
                is_lost = first.kind is Kind.NO_GRAD and later.kind is Kind.PASS
                if is_lost and follows(state.graph, first, later):
                    name = name_of(state, module)
                    because = tuple(
                        Evidence(use.place, text, Shows.WEIGHTS)
                        for use, text in ((first, MADE), (later, LATER))
                        if use.place != self.inference.place(function, first.number)
                    )
                    is_given = name in self._uses.optimized
                    yield first.number, Lost(later.number, name, is_given, because)
                    break


def follows(graph: Graph, first: ModuleUse, later: ModuleUse) -> bool:
    """Whether a later use runs whenever an earlier one does: nothing but a `with` is around it that
    is not around that as well."""
    block = graph.nodes[later.number].block
    while block >= 0 and graph.blocks[block].kind == "with":
        block = graph.blocks[block].parent
    return first.number < later.number and graph.is_in(graph.nodes[first.number].block, block)


def is_no_grad(atom: Atom) -> bool:
    return isinstance(atom, NoGrad)


def is_optimizer(value: Value) -> bool:
    atom = only(value)
    return isinstance(atom, Object) and atom.kind == "optimizer"


def named(graph: Graph, number: int) -> NamedModule:
    """The expression of a node; all reads of a variable of another scope are one."""
    path: list[str] = []
    node = graph.nodes[number]
    while node.op in (ops.NARROW, ops.ATTR):
        path += [node.data] if node.op == ops.ATTR else []
        number = node.operands[0]
        node = graph.nodes[number]
    root = graph.first_reads[node.data] if node.op == ops.NAME else number
    return NamedModule(root, (*reversed(path),))


def name_of(state: State, module: NamedModule) -> str:
    """The last name in the expression of a module."""
    root = state.graph.nodes[module.root]
    name = root.data if root.op in (ops.PARAM, ops.NAME) else state.names.get(module.root, "")
    return module.path[-1] if module.path else str(name)


def overwritten(graph: Graph, node: Node) -> int:
    """The module whose weights a call or a store overwrites in place; -1 where it does not.

    Ex) model.load_state_dict(best); p.data.copy_(s) of `for p in model.parameters()`; p.data = s
    """
    written = graph.nodes[node.operands[0]]
    if node.op == ops.STORE:
        return owner_of_each(graph, node.operands[0]) if node.data == "data" else -1
    if written.op != ops.ATTR:
        return -1
    weight = written.operands[0]
    if written.data == "load_state_dict" or written.data not in OVERWRITING:
        return weight if written.data == "load_state_dict" else -1
    return owner_of_each(graph, weight)


def owner_of_each(graph: Graph, weight: int) -> int:
    """The module of whose parameters a node is each in turn, or the data of each; -1 for others.

    Ex) for p, s in zip(model.parameters(), shadow); for name, p in model.named_parameters()
    """
    node, position = graph.nodes[graph.narrowed(weight)], -1
    if node.op == ops.ATTR and node.data == "data":
        node = graph.nodes[graph.narrowed(node.operands[0])]
    if node.op == ops.UNPACK:
        position = node.data[0]
        node = graph.nodes[node.operands[0]]
    if node.op != ops.ITER:
        return -1
    iterable = graph.nodes[node.operands[0]]
    called = graph.nodes[iterable.operands[0]] if iterable.op == ops.CALL else iterable
    if called.op == ops.NAME and called.data == "zip" and iterable.argument(position) >= 0:
        iterable = graph.nodes[iterable.argument(position)]
    return owner_of(graph, iterable)


def is_on(state: State, block: int) -> bool:
    region = state.regions.get(block)
    return region is not None and region.enabled is not False


def around(graph: Graph, block: int, outer: int = -1) -> Iterator[int]:
    """A block and those around it, from the inside out, up to one of them."""
    while block != outer and block >= 0:
        yield block
        block = graph.blocks[block].parent


def outermost_region(state: State, block: int) -> int:
    """The outermost autocast region around a block that its function opens; -1 where the caller
    opens one around all of it."""
    opened = [
        number
        for number in around(state.graph, block)
        if autocast_of(state, number) is not None
        and state.regions.get(state.graph.blocks[number].parent) is None
    ]
    return opened[-1] if opened else -1
