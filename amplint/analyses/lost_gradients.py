"""Which forward passes without gradients take those of a later pass in their region.

Autocast keeps the cast of a weight as long as a region is open. Where a pass under `no_grad` has
made it, it has no graph, and a pass with gradients that follows uses it all the same (torch before
2.11, https://github.com/pytorch/pytorch/pull/165068). Either pass may be made by what is called.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import NamedTuple

from amplint.analyses.call_guards import CallGuards
from amplint.analyses.callers import Callers
from amplint.analyses.cast_cache import autocast_of
from amplint.analyses.fact import CallFact, Fact, Required
from amplint.analyses.hotness import NO_GRADIENTS
from amplint.core.lattice import only
from amplint.core.values import (
    UNKNOWN,
    Atom,
    Evidence,
    Instance,
    NoGrad,
    Object,
    Place,
    Shows,
    Value,
)
from amplint.gradscaler.parameter_lists import modules_of
from amplint.inference import Inference, SiteId, State
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import LOOPS, SIDES, Block, Graph, Node

LATER = "this pass gets no gradients for the weights"
CALLS_DEEP = 3  # how far passes are looked for in what is called
SWITCHES = frozenset({"enable_grad", "set_grad_enabled"})
EXITS = frozenset({ops.RETURN, ops.RAISE, ops.BREAK, ops.CONTINUE})
OF_LOOPS = frozenset({ops.BREAK, ops.CONTINUE})
FREEZING = frozenset({"requires_grad", "requires_grad_", "freeze"})
ON_SOME_PATHS = SIDES | {"handler"}


class Named(NamedTuple):
    """A module as a function has it: a node, and the attributes and constant indices from there.

    Ex) self.teacher.heads[0]
    """

    root: int
    path: tuple[str, ...]


class Pass(NamedTuple):
    """The passes of a module that a call makes.

    Args:
        without: a forward pass of it without gradients.
        with_gradients: one with gradients.
        surely: whether the call makes that one on all paths.
    """

    without: Place | None
    with_gradients: Place | None
    surely: bool


class Call(NamedTuple):
    """A call that runs modules, and what it does with them."""

    number: int
    passes: Mapping[Named, Pass]


class Lost(NamedTuple):
    """A later pass that has no gradients because of an earlier one.

    Args:
        later: the node of the call that makes it, in the function of the earlier one.
        name: what the module of both is called.
        by_name: whether its parameters are handed on by that name; else an optimizer is given all
            parameters of the object that holds it.
        because: where what is called makes the earlier pass, and the later one.
    """

    later: int
    name: str
    by_name: bool
    because: tuple[Evidence, ...]


class LostGradients(CallFact[Lost]):
    """The later pass that the casts of a call leave without gradients."""

    _callers = Required(Callers)
    _guards = Required(CallGuards)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._found: dict[str, Mapping[int, Lost]] = {}

    def of(self, at: NodePlace) -> Lost | None:
        if at.function not in self._found:
            self._found[at.function] = self._losses(at.function)
        return self._found[at.function].get(at.node)

    def _losses(self, function: str) -> Mapping[int, Lost]:
        """By call of a function: the pass that it takes the gradients of. A module is told of once
        for each region, and of several that one call runs, the first."""
        if not NO_GRADIENTS.isdisjoint(self.inference.functions[function].decorated):
            return {}
        state = self.inference.states[function]
        in_region: dict[tuple[Named, int], list[tuple[int, Pass]]] = {}
        for call in self._calls.get(function, ()):
            block = state.graph.nodes[call.number].block
            region = state.regions.get(block)
            if region is not None and region.enabled is not False:
                outermost = outermost_region(state, block)
                for module, made in call.passes.items():
                    in_region.setdefault((module, outermost), []).append((call.number, made))
        found: dict[int, Lost] = {}
        for (module, _), ((number, first), *others) in in_region.items():
            if first.without is None or first.with_gradients is not None or number in found:
                continue
            for later, second in others:
                if second.surely and may_follow(state.graph, number, later):
                    lost = self._lost(function, module, number, first, later, second)
                    found.update({number: lost} if lost is not None else {})
                    break
        return found

    def _lost(
        self, function: str, module: Named, number: int, first: Pass, later: int, second: Pass
    ) -> Lost | None:
        state = self.inference.states[function]
        name = name_of(state.graph, module)
        by_name = name in self._handed_on
        if not by_name and not self._is_trained(state.values[module.root]):
            return None
        texts = {first.without: "the casts are made here", second.with_gradients: LATER}
        here = self.inference.place(function, number)
        because = tuple(
            Evidence(place, text, Shows.WEIGHTS)
            for place, text in texts.items()
            if place is not None and place != here
        )
        return Lost(later, name, by_name, because)

    # -- passes

    @cached_property
    def _calls(self) -> Mapping[str, Sequence[Call]]:
        """By function: its calls that run modules, themselves or by what they call, in order."""
        own = {function: list(self._own(function)) for function in self.inference.states}
        found = {function: calls for function, calls in own.items() if calls}
        for _ in range(CALLS_DEEP):
            made: dict[str, dict[int, Mapping[Named, Pass]]] = {
                function: dict(calls) for function, calls in own.items()
            }
            for function, number in self._sites(found):
                called = self._called((function, number), found)
                passes = made[function].get(number, {})
                made[function][number] = {**called, **passes}
            found = {
                function: [Call(*each) for each in sorted(calls.items())]
                for function, calls in made.items()
                if calls
            }
        return found

    def _sites(self, callees: Iterable[str]) -> Collection[SiteId]:
        """The calls that run functions."""
        sites = (site for callee in callees for site in self._callers.sites.get(callee, ()))
        return dict.fromkeys(site for site in sites if site[0] in self.inference.states)

    def _own(self, function: str) -> Iterator[Call]:
        """The calls of modules in a function."""
        state = self.inference.states[function]
        for number, node in enumerate(state.graph.nodes):
            if node.op != ops.CALL or is_switched_off(state, node.block):
                continue
            called = state.graph.nodes[node.operands[0]]
            is_method = called.op == ops.ATTR and called.data == "forward"
            callee = called.operands[0] if is_method else node.operands[0]
            if not self._is_module(state, callee):
                continue
            on = self._has_gradients(function, node.block)
            if on is not None:
                place = self.inference.place(function, number)
                made = Pass(None, place, True) if on else Pass(place, None, False)
                yield Call(number, {known_once(state.graph, callee): made})

    def _called(self, site: SiteId, calls: Mapping[str, Sequence[Call]]) -> Mapping[Named, Pass]:
        """The passes that a call makes by the calls of what it runs; of several functions, those
        that all of them make."""
        function, number = site
        on = self._has_gradients(
            function, self.inference.states[function].graph.nodes[number].block
        )
        if on is None:
            return {}
        ways = [
            self._called_by(site, callee, calls.get(callee, ()))
            for callee in sorted(self.inference.edges[site])
        ]
        common = [module for module in ways[0] if all(module in way for way in ways)]
        found = {module: in_all([way[module] for way in ways]) for module in common}
        return {module: each if on else without_gradients(each) for module, each in found.items()}

    def _called_by(self, site: SiteId, callee: str, calls: Sequence[Call]) -> Mapping[Named, Pass]:
        """The same of one function, where gradients are on."""
        found: dict[Named, Pass] = {}
        for call in calls:
            graph = self.inference.states[callee].graph
            block = graph.nodes[call.number].block
            if self._guards.leaves_out(site, callee, block):
                continue
            surely = not is_on_some_paths(graph, block)
            for module, made in call.passes.items():
                root = self._given(site, callee, module.root)
                if root >= 0:
                    start = known_once(self.inference.states[site[0]].graph, root)
                    key = Named(start.root, (*start.path, *module.path))
                    each = made._replace(surely=made.surely and surely)
                    found[key] = together(found.get(key), each)
        return found

    def _given(self, site: SiteId, callee: str, root: int) -> int:
        """The node that a call passes for a parameter; -1 for anything else."""
        param = self.inference.states[callee].graph.nodes[root]
        if param.op != ops.PARAM:
            return -1
        facts = self.inference.functions[callee]
        if facts.takes_receiver and facts.positional and facts.positional[0].name == param.data:
            nodes = self.inference.states[site[0]].graph.nodes
            called = nodes[nodes[site[1]].operands[0]]
            is_method = called.op == ops.ATTR and called.data == facts.name
            return called.operands[0] if is_method else nodes[site[1]].operands[0]
        given = self._guards.given(site, callee, param.data)
        return -1 if given is None else given

    def _is_module(self, state: State, callee: int) -> bool:
        """Whether a node is a module; where it may be something unknown, `parameters` has to be
        called on what has its name."""
        value = state.values[callee]
        known = value - UNKNOWN
        if not all(map(self._is_module_atom, known)):
            return False
        is_known = bool(known) and known == value
        return is_known or name_of(state.graph, named(state.graph, callee)) in self._handed_on

    def _is_module_atom(self, atom: Atom) -> bool:
        if isinstance(atom, Instance):
            return self.inference.is_module(atom.cls)
        return isinstance(atom, Object) and atom.kind == "module"

    def _has_gradients(self, function: str, block: int) -> bool | None:
        """Whether gradients are on in a block, as far as its function shows; None where a context
        decides of which that is not known."""
        state = self.inference.states[function]
        for number in around(state.graph, block):
            facts = state.graph.blocks[number]
            if facts.kind != "with":
                continue
            context = state.values[facts.node]
            if any(isinstance(atom, NoGrad) for atom in context):
                return False if len(context) == 1 else None
            if SWITCHES & names_in(state.graph, facts.node):
                return None
        decorated = self.inference.functions[function].decorated
        if not SWITCHES.isdisjoint(decorated):
            return None
        return NO_GRADIENTS.isdisjoint(decorated)

    # -- what is trained

    def _is_trained(self, holder: Value) -> bool:
        """Whether optimizers are given all parameters of an object, of which none are frozen."""
        atom = only(holder)
        return isinstance(atom, Instance) and atom.cls in self._trained

    @cached_property
    def _handed_on(self) -> Collection[str]:
        """The last names of all that `parameters` is called on. Ex) net of self.net.parameters()"""
        return {
            name_of(state.graph, named(state.graph, node.operands[0]))
            for state in self.inference.states.values()
            for node in state.graph.nodes
            if node.op == ops.ATTR and node.data == "parameters"
        }

    @cached_property
    def _trained(self) -> Collection[str]:
        """The classes of modules whose parameters optimizers are given, and those above them."""
        infer, found = self.inference, set[str]()
        for function, state in infer.states.items():
            for number, node in enumerate(state.graph.nodes):
                if node.op == ops.CALL and is_optimizer(state.values[number]):
                    for module in modules_of(infer, function, number):
                        made = (a for a in state.values[module] if isinstance(a, Instance))
                        found.update(atom.cls for atom in made)
        families = (infer.mro(cls) for cls in found)
        return {cls for family in families if not self._freezes(family) for cls in family}

    def _freezes(self, classes: Iterable[str]) -> bool:
        return any(self.inference.functions[cls].words & FREEZING for cls in classes)


def is_optimizer(value: Value) -> bool:
    atom = only(value)
    return isinstance(atom, Object) and atom.kind == "optimizer"


def named(graph: Graph, number: int) -> Named:
    """The expression of a node."""
    path: list[str] = []
    node = graph.nodes[number]
    while node.op in (ops.NARROW, ops.ATTR) or is_constant_item(graph, node):
        if node.op == ops.ATTR:
            path.append(node.data)
        elif node.op == ops.SUBSCRIPT:
            path.append(repr(graph.nodes[node.second].data))
        number = node.operands[0]
        node = graph.nodes[number]
    return Named(number, (*reversed(path),))


def known_once(graph: Graph, number: int) -> Named:
    """The same, so that all reads of a variable of another scope are one."""
    module = named(graph, number)
    root = graph.nodes[module.root]
    if root.op != ops.NAME:
        return module
    reads = (n for n, each in enumerate(graph.nodes) if each[:3] == root[:3])
    return module._replace(root=next(reads))


def is_constant_item(graph: Graph, node: Node) -> bool:
    """Ex) heads[0], nets["student"]"""
    return node.op == ops.SUBSCRIPT and graph.nodes[node.second].op == ops.CONST


def name_of(graph: Graph, module: Named) -> str:
    """The last name in the expression of a module."""
    attributes = [each for each in module.path if each.isidentifier()]
    root = graph.nodes[module.root]
    if attributes or root.op in (ops.PARAM, ops.NAME):
        return attributes[-1] if attributes else str(root.data)
    bound = (name for name, numbers in graph.bindings.items() if module.root in numbers)
    return next(bound, "")


def names_in(graph: Graph, context: int) -> Set[str]:
    """The last name of what a context calls. Ex) enable_grad of torch.enable_grad()"""
    node = graph.nodes[context]
    called = graph.nodes[node.operands[0]] if node.op == ops.CALL else node
    return {str(called.data)} if called.op in (ops.ATTR, ops.NAME) else set()


def together(one: Pass | None, other: Pass) -> Pass:
    """The passes of a module that two calls make."""
    if one is None:
        return other
    return Pass(
        one.without or other.without,
        one.with_gradients or other.with_gradients,
        one.surely or other.surely,
    )


def in_all(ways: Sequence[Pass]) -> Pass:
    """The passes of a module that a call makes which runs one of several functions."""
    without = [each.without for each in ways]
    with_gradients = [each.with_gradients for each in ways if each.with_gradients is not None]
    return Pass(
        without[0] if None not in without else None,
        with_gradients[0] if with_gradients else None,
        all(each.surely for each in ways),
    )


def without_gradients(made: Pass) -> Pass:
    """The same passes where gradients are off."""
    return Pass(made.without or made.with_gradients, None, False)


# ---------------------------------------------------------------------------- blocks


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


def is_switched_off(state: State, block: int) -> bool:
    """Whether a function switches autocast off around a block of it."""
    region = state.regions.get(block)
    return region is not None and not region.inherited and region.enabled is False


def is_on_some_paths(graph: Graph, block: int) -> bool:
    return any(graph.blocks[each].kind in ON_SOME_PATHS for each in around(graph, block))


def may_follow(graph: Graph, first: int, later: int) -> bool:
    """Whether a node may run after another one that stands before it: they are not in two branches
    of a test, and nothing leaves between them."""
    block, of_later = graph.nodes[first].block, graph.nodes[later].block
    common = next(each for each in around(graph, block) if graph.is_in(of_later, each))
    left, entered = [*around(graph, block, common)], [*around(graph, of_later, common)]
    if left and entered and are_branches(graph.blocks[left[-1]], graph.blocks[entered[-1]]):
        return False
    loops = [at for at, each in enumerate(left) if graph.blocks[each].kind in LOOPS]
    for node in graph.nodes[first:later]:
        if node.op in EXITS and node.block in (*left, common):
            at = left.index(node.block) if node.block != common else len(left)
            if node.op not in OF_LOOPS or not any(loop >= at for loop in loops):
                return False
    return True


def are_branches(one: Block, other: Block) -> bool:
    """Whether of two blocks beside each other only one runs."""
    if one.kind == "if" and other.kind in ("else", "after"):
        return one.node == other.node
    # Two cases of a `match`; a `try` and its handlers.
    return one.location == other.location and other.kind in ("if", "handler")
