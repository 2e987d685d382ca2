"""How functions use modules: which they run, with gradients or without, and whose weights they
overwrite in place.

What functions do with modules that they are handed, or that are attributes of what they are
handed, is followed through a few calls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import NamedTuple

from amplint.analyses.call_guards import CallGuards
from amplint.analyses.cast_cache import autocast_of
from amplint.analyses.fact import Fact, Required
from amplint.analyses.hotness import NO_GRADIENTS
from amplint.gradscaler.parameter_lists import modules_of, owner_of
from amplint.inference import Inference, SiteId, State
from amplint.ir import ops
from amplint.ir.model import LOOPS, SIDES, Block, Graph, Node
from amplint.util.positions import Place
from amplint.values.atoms import UNKNOWN, Atom, Instance, NoGrad, Object, Value
from amplint.values.lattice import only

CALLS_DEEP = 3  # how far uses are looked for in what is called
SWITCHES = frozenset({"enable_grad", "set_grad_enabled"})
FREEZING = frozenset({"requires_grad", "requires_grad_", "freeze"})
OVERWRITING = frozenset(
    {"copy_", "mul_", "add_", "clamp_", "sub_", "lerp_", "normal_", "uniform_", "zero_"}
)
USING = frozenset({ops.CALL, ops.STORE})  # what may run a module, or change its weights
EXITS = frozenset({ops.RETURN, ops.RAISE, ops.BREAK, ops.CONTINUE})
OF_LOOPS = frozenset({ops.BREAK, ops.CONTINUE})
ON_SOME_PATHS = SIDES | {"handler"}


class NamedModule(NamedTuple):
    """A module as a function has it: a node, and the attributes and constant indices from there.

    Ex) self.teacher.heads[0]
    """

    root: int
    path: tuple[str, ...]


class Uses(NamedTuple):
    """The passes of a module that a call makes, and changes of its weights.

    Args:
        without: a forward pass of it without gradients.
        with_gradients: one with gradients.
        surely: whether the call makes that one on all paths.
        changed: where its weights are overwritten in place, on all paths.
    """

    without: Place | None = None
    with_gradients: Place | None = None
    surely: bool = False
    changed: Place | None = None


class ModuleCall(NamedTuple):
    """A call that runs or changes modules, and how."""

    number: int
    modules: Mapping[NamedModule, Uses]


class ModuleUses(Fact):
    """The modules that functions run or change."""

    _guards = Required(CallGuards)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._known: dict[tuple[str, int], Sequence[ModuleCall]] = {}

    def in_regions(
        self, function: str
    ) -> Mapping[tuple[NamedModule, int], Sequence[tuple[int, Uses]]]:
        """By module and outermost region in a function (-1 for one that a caller opens): the calls
        that use it there where autocast may be on, in order."""
        state = self.inference.states[function]
        found: dict[tuple[NamedModule, int], list[tuple[int, Uses]]] = {}
        for call in self._calls(function):
            block = state.graph.nodes[call.number].block
            region = state.regions.get(block)
            is_on = region is not None and region.enabled is not False
            if is_on and not is_switched_off(state, block):
                outermost = outermost_region(state, block)
                for module, uses in call.modules.items():
                    found.setdefault((module, outermost), []).append((call.number, uses))
        return found

    def _calls(self, function: str, deep: int = CALLS_DEEP) -> Sequence[ModuleCall]:
        """The calls of a function that run or change modules, themselves or by what they call, in
        order.

        Args:
            deep: how far that is followed. Of most functions of a project, nobody asks this.
        """
        known = self._known.get((function, deep))
        if known is None:
            made = self._made(function, deep) if function in self.inference.states else {}
            known = [ModuleCall(*each) for each in sorted(made.items())]
            self._known[function, deep] = known
        return known

    def _made(self, function: str, deep: int) -> Mapping[int, Mapping[NamedModule, Uses]]:
        if deep == 0:
            return dict(self._own(function))
        made = dict(self._calls(function, 0))
        for number in range(len(self.inference.states[function].graph.nodes)):
            site = function, number
            callees = self.inference.calls.edges.get(site, ())
            if any(self._calls(callee, deep - 1) for callee in callees):
                made[number] = {**self._called(site, deep - 1), **made.get(number, {})}
        return made

    def _own(self, function: str) -> Iterator[ModuleCall]:
        """The calls of modules in a function, and what overwrites their weights."""
        state = self.inference.states[function]
        for number, node in enumerate(state.graph.nodes):
            if node.op not in USING:
                continue
            changed = overwritten(state, node)
            if changed >= 0:
                place = self.inference.place(function, number)
                yield ModuleCall(number, {known_once(state.graph, changed): Uses(changed=place)})
            if node.op != ops.CALL:
                continue
            called = state.graph.nodes[node.operands[0]]
            is_method = called.op == ops.ATTR and called.data == "forward"
            callee = called.operands[0] if is_method else node.operands[0]
            if not self._is_module(state, callee) or is_switched_off(state, node.block):
                continue
            on = self._has_gradients(function, node.block)
            if on is not None:
                place = self.inference.place(function, number)
                made = Uses(None, place, True) if on else Uses(place)
                yield ModuleCall(number, {known_once(state.graph, callee): made})

    def _called(self, site: SiteId, deep: int) -> Mapping[NamedModule, Uses]:
        """The passes that a call makes by the calls of what it runs; of several functions, those
        that all of them make."""
        function, number = site
        on = self._has_gradients(
            function, self.inference.states[function].graph.nodes[number].block
        )
        if on is None:
            return {}
        ways = [
            self._called_by(site, callee, self._calls(callee, deep))
            for callee in sorted(self.inference.calls.edges[site])
        ]
        common = [module for module in ways[0] if all(module in way for way in ways)]
        found = {module: in_all([way[module] for way in ways]) for module in common}
        return {module: each if on else without_gradients(each) for module, each in found.items()}

    def _called_by(
        self, site: SiteId, callee: str, calls: Sequence[ModuleCall]
    ) -> Mapping[NamedModule, Uses]:
        """The same of one function, where gradients are on."""
        found: dict[NamedModule, Uses] = {}
        for call in calls:
            graph = self.inference.states[callee].graph
            block = graph.nodes[call.number].block
            if self._guards.leaves_out(site, callee, block):
                continue
            surely = not is_on_some_paths(graph, block)
            is_after = bool(graph.yields) and call.number > graph.yields[0]
            for module, made in call.modules.items():
                root = self._given(site, callee, module.root)
                if root >= 0:
                    start = known_once(self.inference.states[site[0]].graph, root)
                    key = NamedModule(start.root, (*start.path, *module.path))
                    changed = made.changed if surely and not is_after else None
                    each = made._replace(surely=made.surely and surely, changed=changed)
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
        return is_known or name_of(state.graph, named(state.graph, callee)) in self.handed_on

    def _is_module_atom(self, atom: Atom) -> bool:
        if isinstance(atom, Instance):
            return self.inference.hierarchy.is_module(atom.cls)
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

    def is_trained(self, holder: Value) -> bool:
        """Whether optimizers are given all parameters of an object, of which none are frozen."""
        atom = only(holder)
        return isinstance(atom, Instance) and atom.cls in self._trained

    @cached_property
    def handed_on(self) -> Collection[str]:
        """The last names of all that `parameters` is called on. Ex) net of self.net.parameters()"""
        return {
            name_of(state.graph, named(state.graph, node.operands[0]))
            for function, state in self.inference.states.items()
            if "parameters" in self.inference.functions[function].words
            for node in state.graph.nodes
            if node.op == ops.ATTR and node.data == "parameters"
        }

    @cached_property
    def optimized(self) -> Collection[str]:
        """The last names of the modules whose parameters optimizers are given."""
        return {
            name_of(state.graph, named(state.graph, module))
            for state, module in self._given_to_optimizers
        }

    @cached_property
    def _trained(self) -> Collection[str]:
        """Their classes, and those above them; none of a family of which one freezes anything."""
        values = (state.values[module] for state, module in self._given_to_optimizers)
        found = {atom.cls for value in values for atom in value if isinstance(atom, Instance)}
        families = (self.inference.hierarchy.mro(cls) for cls in found)
        return {cls for family in families if not self._freezes(family) for cls in family}

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

    def _freezes(self, classes: Iterable[str]) -> bool:
        return any(self.inference.functions[cls].words & FREEZING for cls in classes)


def is_optimizer(value: Value) -> bool:
    atom = only(value)
    return isinstance(atom, Object) and atom.kind == "optimizer"


def named(graph: Graph, number: int) -> NamedModule:
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
    return NamedModule(number, (*reversed(path),))


def known_once(graph: Graph, number: int) -> NamedModule:
    """The same, so that all reads of a variable of another scope are one."""
    module = named(graph, number)
    root = graph.nodes[module.root]
    if root.op != ops.NAME:
        return module
    return module._replace(root=graph.first_reads[root.data])


def is_constant_item(graph: Graph, node: Node) -> bool:
    """Ex) heads[0], nets["student"]"""
    return node.op == ops.SUBSCRIPT and graph.nodes[node.second].op == ops.CONST


def name_of(graph: Graph, module: NamedModule) -> str:
    """The last name in the expression of a module."""
    attributes = [each for each in module.path if each.isidentifier()]
    root = graph.nodes[module.root]
    if attributes or root.op in (ops.PARAM, ops.NAME):
        return attributes[-1] if attributes else str(root.data)
    bound = (name for name, numbers in graph.bindings.items() if module.root in numbers)
    return next(bound, "")


def overwritten(state: State, node: Node) -> int:
    """The module whose weights a call or a store overwrites in place; -1 where it does not.

    Ex) model.load_state_dict(best); p.data.copy_(s) of `for p in model.parameters()`; p.data = s
    """
    graph = state.graph
    written = graph.nodes[node.operands[0]]
    if node.op == ops.STORE:
        weight = node.operands[0] if node.data == "data" else -1
    elif written.op != ops.ATTR:
        return -1
    elif written.data == "load_state_dict":
        return written.operands[0]
    else:
        weight = written.operands[0] if written.data in OVERWRITING else -1
    if weight < 0:
        return -1
    of = graph.nodes[weight]
    is_data = of.op == ops.ATTR and of.data == "data"
    return owner_of_each(graph, of.operands[0] if is_data else weight)


def owner_of_each(graph: Graph, weight: int) -> int:
    """The module of whose parameters a node is each in turn; -1 for anything else.

    Ex) for p, s in zip(model.parameters(), shadow); for name, p in model.named_parameters()
    """
    indices: list[int] = []
    node = graph.nodes[graph.narrowed(weight)]
    while node.op == ops.UNPACK:
        indices.append(node.data[0])
        node = graph.nodes[node.operands[0]]
    if node.op != ops.ITER:
        return -1
    drawn = graph.nodes[node.operands[0]]
    called = graph.nodes[drawn.operands[0]] if drawn.op == ops.CALL else drawn
    if called.op == ops.NAME and called.data == "zip" and indices:
        place = drawn.argument(indices.pop())
        drawn = graph.nodes[place] if place >= 0 else drawn
    return owner_of(graph, drawn) if indices in ([], [1]) else -1  # [1]: named_parameters()


def names_in(graph: Graph, context: int) -> Set[str]:
    """The last name of what a context calls. Ex) enable_grad of torch.enable_grad()"""
    node = graph.nodes[context]
    called = graph.nodes[node.operands[0]] if node.op == ops.CALL else node
    return {str(called.data)} if called.op in (ops.ATTR, ops.NAME) else set()


def together(one: Uses | None, other: Uses) -> Uses:
    """The passes of a module that two calls make."""
    if one is None:
        return other
    return Uses(
        one.without or other.without,
        one.with_gradients or other.with_gradients,
        one.surely or other.surely,
        one.changed or other.changed,
    )


def in_all(ways: Sequence[Uses]) -> Uses:
    """The passes of a module that a call makes which runs one of several functions."""
    without = [each.without for each in ways]
    with_gradients = [each.with_gradients for each in ways if each.with_gradients is not None]
    return Uses(
        without[0] if None not in without else None,
        with_gradients[0] if with_gradients else None,
        all(each.surely for each in ways),
        ways[0].changed if all(each.changed for each in ways) else None,
    )


def without_gradients(made: Uses) -> Uses:
    """The same passes where gradients are off."""
    return made._replace(
        without=made.without or made.with_gradients, with_gradients=None, surely=False
    )


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
    """Whether a function switches autocast off around a block of it, or has it keep no casts."""
    contexts = (autocast_of(state, each) for each in around(state.graph, block))
    innermost = next((each for each in contexts if each is not None), None)
    return innermost is not None and (innermost.enabled is False or innermost.cache is False)


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
