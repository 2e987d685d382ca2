"""Whether a value of the host is the same in every iteration, so that it could be built once.

It is where it is made of constants, of options (parameters whose default is a number), of what the
constructor of a module, or of an object that is made before the loop, has stored (an array of
NumPy, or a tensor of an object that is no module, whatever it is made of), of what is read off a
configuration, and of arguments that all callers make of these. Sizes, lengths, loop variables, and
what callers may pass anew are data. A tensor that stays on the host until it is moved is followed
through the operations of torch, to the list of numbers that it was built of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from amplint.analyses.hotness import Hotness
from amplint.facts.call_guards import CallGuards
from amplint.facts.callers import Callers
from amplint.facts.fact import Fact, Required
from amplint.inference import Inference, State, transfer
from amplint.inference.state import Key
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.flow import COMPUTED, alternatives, elements, last_name, method_called, whole
from amplint.ir.model import SIDES, Graph, Node, Param
from amplint.knowledge.factories import FACTORIES, LEGACY_CONSTRUCTORS
from amplint.knowledge.operations import COUNTED_ALIKE, DESCRIBES
from amplint.knowledge.vocabulary import CONFIGURATION
from amplint.util.positions import Place
from amplint.util.walks import Solver, reachable
from amplint.values.atoms import (
    CPU,
    NONE,
    Atom,
    Class,
    Device,
    DType,
    Host,
    Instance,
    Method,
    Object,
    Sequence,
    Symbol,
    Tensor,
    Value,
    is_number,
    surely,
)
from amplint.values.lattice import agreed

OF_DATA = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray", "torch.from_numpy"})
"""What makes a list of numbers, or an array, a tensor; the legacy constructors do as well."""
PURE = ("builtins.", "itertools.", "math.", "numpy.", "copy.")
IMPURE = re.compile(r"random|builtins\.(input|open|next|iter|id|vars|locals|globals|map|filter)$")
DRAWN = re.compile(
    r"rand|normal_?$|uniform|exponential|geometric|cauchy|poisson|bernoulli|multinomial|dropout"
    r"|distributed|cuda|load"
)
SHAPED_BY = frozenset(
    """
    repeat repeat_interleave tile view reshape expand unsqueeze squeeze transpose permute flatten
    """.split()
)
"""Methods whose arguments are sizes: with others, the same numbers stand there in other rows."""
READS = COUNTED_ALIKE | DESCRIBES
"""Attributes and methods that leave an array or a tensor as it is."""
WRITES = frozenset({"copyto", "put", "place", "putmask", "shuffle"})
"""Functions of NumPy that write to the array that they are given first."""
SETTERS = frozenset({"setattr", "vars", "__dict__"})
CONSTRUCTORS = frozenset({"__init__", "__post_init__", "__new__"})


class Invariance(NamedTuple):
    """That a value is the same in every iteration.

    built: where a list of constants becomes a tensor that it is computed from; None without one.
    """

    built: Place | None = None


At = tuple[str, int]  # a function, and a node of it
Answer = Invariance | None  # None: it is not constant, or not known to be
Ask = Callable[[At], Answer]


class Constants(Fact):
    """The constants of a project, each node solved once.

    What a loop makes of itself is another value in every round. It rests on itself, and the least
    solution is that it is not constant.
    """

    _callers = Required(Callers)
    _guards = Required(CallGuards)
    _hotness = Required(Hotness)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._solved = Solver(self._find, None)
        self._lasting: Solver[At, bool] = Solver(self._lasts, False)
        self._changed: dict[str, bool] = {}

    def of(self, at: NodePlace) -> Answer:
        """The facts about a node that has the same value in every iteration; else None."""
        return self._solved(at[:2])

    def _find(self, at: At, ask: Ask) -> Answer:
        function, number = at
        state = self.inference.states.get(function)
        if state is None or number < 0:
            return Invariance() if state is not None else None
        return WalkStep(self, function, state, ask).from_node(number)

    def is_lasting(self, at: At) -> bool:
        """Whether the object at a node is the same one in every iteration: it is made, or given to
        the function that has the loop, where nothing runs for every batch."""
        return self._lasting(at)

    def bound(self, function: str, name: str) -> At | None:
        """The node that a variable of the module, or of a function around, is bound to, if only one
        is."""
        outer = self.inference.functions[function].parent
        while outer is not None:
            state = self.inference.states.get(outer)
            bound = state.graph.bindings.get(name, ()) if state is not None else ()
            if bound:
                return (outer, bound[0]) if len(bound) == 1 else None
            outer = self.inference.functions[outer].parent
        return None

    def stores(self, cls: str, field: str) -> Iterator[tuple[str, list[int]]]:
        """The methods of a class, and of those that it derives from or that derive from it, that
        set a field, with the values."""
        infer = self.inference
        for related in (*infer.hierarchy.mro(cls), *infer.hierarchy.subclasses(cls)):
            for method in infer.hierarchy.writers_of_field(related, field):
                graph = infer.files[infer.functions[method].path].graph(method)
                values = [graph.nodes[number].second for number in graph.stores.get(field, ())]
                if values:
                    yield method, values

    def constructs(self, method: str) -> bool:
        return self.inference.functions[method].name in CONSTRUCTORS

    def is_changed(self, field: str) -> bool:
        """Whether anything but a constructor may add to the list in a field of that name, or take
        from it: it calls a method on it, stores an element, or does so by a variable in a loop."""
        if field not in self._changed:
            infer = self.inference
            self._changed[field] = any(
                changes(infer.files[facts.path].graph(function), field)
                for function, facts in infer.functions.items()
                if field in facts.words and facts.name not in CONSTRUCTORS
            )
        return self._changed[field]

    def _lasts(self, at: At, ask: Callable[[At], bool]) -> bool:
        function, number = at
        state = self.inference.states.get(function)
        if state is None or number < 0:
            return False
        node = state.graph.nodes[number]
        classes = classes_of(state.values[number])
        if classes and all(map(self.inference.hierarchy.is_module, classes)):
            return True
        match node.op:
            case ops.PHI | ops.NARROW:
                return all(ask((function, each)) for each in alternatives(state.graph, number))
            case ops.ATTR:
                holders = classes_of(state.values[node.operands[0]])
                stores = [[*self.stores(cls, str(node.data))] for cls in holders]
                made_once = all(self.constructs(method) for method, _ in chain(*stores))
                return made_once and all(stores) and ask((function, node.operands[0]))
            case ops.PARAM:
                if not self._is_hot(function, number):
                    return True
                arguments = self._handed(function, str(node.data))
                return bool(arguments) and all(ask(each) for each in arguments)
            case ops.NAME:
                bound = self.bound(function, str(node.data))
                return bound is not None and ask(bound)
            case ops.CALL | ops.UNPACK:
                return not self._is_hot(function, number)
            case _:
                return False

    def _is_hot(self, function: str, number: int) -> bool:
        block = self.inference.states[function].graph.nodes[number].block
        return self._hotness.of(NodePlace(function, number, block)) is not None

    def _handed(self, function: str, name: str) -> list[At]:
        """The values that the calls which run for every batch pass for a parameter, or call a
        method on; none where one is not known."""
        facts = self.inference.functions[function]
        if not facts.takes_receiver or facts.positional[0].name != name:
            return self.arguments(function, name) or []
        sites = [site for site in self._callers.sites.get(function, ()) if self._is_hot(*site)]
        receivers = [self._receiver(caller, number) for caller, number in sites]
        return [each for each in receivers if each is not None] if None not in receivers else []

    def _receiver(self, caller: str, number: int) -> At | None:
        """The object that a call calls a method of; of `super().step()`, the caller's own."""
        graph = self.inference.states[caller].graph
        call = graph.nodes[number]
        callee = graph.nodes[call.operands[0]] if call.op == ops.CALL else call
        if callee.op == ops.CALL and callee.argument(0) >= 0:
            callee = graph.nodes[callee.argument(0)]  # partial(diffusion.loss, model)()
        if callee.op != ops.ATTR:
            return None  # an object is called, or iterated
        owner = graph.nodes[callee.operands[0]]
        named = graph.nodes[owner.operands[0]] if owner.op == ops.CALL else owner
        if named.op != ops.NAME or named.data != "super":
            return caller, callee.operands[0]
        facts = self.inference.functions[caller]
        own = facts.positional[0].name if facts.takes_receiver else None
        params = (n for n, each in enumerate(graph.nodes) if each.op == ops.PARAM)
        return next(((caller, n) for n in params if graph.nodes[n].data == own), None)

    def arguments(self, function: str, name: str) -> list[At] | None:
        """The values that visible calls pass for a parameter, if they pass any; None where one is
        not known."""
        sites = self._callers.sites.get(function, ())
        values = [(site[0], self._guards.argument(site, function, name)) for site in sites]
        if any(number is None for _, number in values):
            return None
        return [(caller, number) for caller, number in values if number is not None and number >= 0]


class WalkStep:
    """One step of the walk: from the nodes of a function to what they are made of."""

    def __init__(self, constants: Constants, function: str, state: State, ask: Ask) -> None:
        self._constants = constants
        self._inference = constants.inference
        self._function = function
        self._state = state
        self._ask = ask

    def from_node(self, number: int) -> Answer:
        node = self._state.graph.nodes[number]
        field = node.op == ops.ATTR and not is_configuration(self._state, node.operands[0])
        # Others may set a field at any time; settings, before training begins.
        if field and self._inference.texts.is_stored_from_outside(str(node.data)):
            return None
        if is_known(self._state.values[number]):
            return Invariance()
        match node.op:
            case ops.PHI:
                # For each element of a list, a test may choose another one of two numbers.
                element = self._state.graph.blocks[node.block].kind == "comprehension"
                tests = self._tests_before(node) if element else ()
                return self._all([*node.operands, *tests])
            case ops.CONST:
                return Invariance()
            case ops.NARROW:
                return self._all(node.operands[:1])
            case ops.ITER:
                inside = self._state.graph.blocks[node.block].kind == "comprehension"
                return self._all(node.operands[:1]) if inside else None
            case ops.PARAM:
                return self._parameter(node)
            case ops.NAME:
                return self._name(str(node.data))
            case ops.IMPORT if is_constant_of_library(self._state.values[number]):
                return Invariance()
            case ops.ATTR:
                return self._attribute(number, node)
            case ops.SUBSCRIPT if is_setting(self._state, node):
                return Invariance()
            case ops.SUBSCRIPT if self._is_chosen_once(node):
                return self._all(node.operands[:1])
            case ops.CALL:
                return self._call(number, node)
            case op if op in COMPUTED or op in (ops.COMP, ops.PUT):
                return self._all(node.operands)
            case _:
                return None

    def _tests_before(self, joined: Node) -> Iterator[int]:
        """The tests that choose among the values that are joined."""
        graph = self._state.graph
        for operand in joined.operands:
            block = graph.nodes[operand].block
            while block > joined.block and graph.blocks[block].kind in SIDES:
                yield graph.blocks[block].node
                block = graph.blocks[block].parent

    def _all(self, numbers: Iterable[int]) -> Answer:
        """The answer about a value that is made of all of these nodes of the function."""
        return self._together((self._function, number) for number in numbers)

    def _together(self, ats: Iterable[At]) -> Answer:
        answers = [self._ask(at) for at in ats]
        invariances = [each for each in answers if each is not None]
        if len(invariances) < len(answers):
            return None
        return next((each for each in invariances if each.built is not None), Invariance())

    def _parameter(self, node: Node) -> Answer:
        """An option; or a parameter for which all callers that are seen give constants, be it what
        they are given themselves."""
        facts = self._inference.functions[self._function]
        of_module = facts.cls is not None and self._inference.hierarchy.is_module(facts.cls)
        if facts.name in CONSTRUCTORS and of_module:
            return Invariance()
        param = facts.param(str(node.data))
        annotation = node.operands[0] if node.operands else -1
        if param is None or (annotation >= 0 and names_tensor(self._state, annotation)):
            return None
        option = self._option(param)
        if option is not None:
            return option
        values = self._inference.store.parts(Key("param", self._function, str(node.data)))
        not_none = values - {frozenset({NONE})}
        if not_none and all(map(is_known, not_none)):
            return Invariance()
        handed_on = self._constants.arguments(self._function, param.name)
        return self._together(handed_on) if handed_on else None

    def _option(self, param: Param) -> Answer:
        """A parameter whose default is a number, or a list of them."""
        if param.constant_default or not param.has_default:
            return Invariance() if isinstance(param.default, int | float) else None
        parent = self._inference.functions[self._function].parent
        state = self._inference.states.get(parent) if parent is not None else None
        if parent is None or state is None:
            return None
        default = state.graph.defaults.get((self._function, param.name))
        return self._ask((parent, default)) if default is not None else None

    def _name(self, name: str) -> Answer:
        """A variable of the module, or of a function around, that is bound once."""
        bound = self._constants.bound(self._function, name)
        return self._ask(bound) if bound is not None else None

    def _attribute(self, number: int, node: Node) -> Answer:
        """A field of an object, a setting, a number of a library: self.taps, config.n, math.e"""
        holder = self._state.values[node.operands[0]]
        if is_configuration(self._state, node.operands[0]):
            return Invariance()
        if not (classes := classes_of(holder)):
            return Invariance() if surely(holder, Symbol) else None
        name, at = str(node.data), (self._function, number)
        value = self._state.values[number]
        is_array = all(isinstance(a, Host) and a.kind == "numpy" for a in value)
        if is_array or (not any(map(self._moves, classes)) and all(map(is_on_host, value))):
            if self._constants.is_changed(name) or not self._constants.is_lasting(at):
                return None
            return Invariance(None if is_array else self._store_place(classes[0], name))
        stays = self._constants.is_lasting((self._function, node.operands[0]))
        stored = [at for cls in classes for at in self._stored(cls, name, stays)]
        return self._together(at for at in stored if at is not None) if all(stored) else None

    def _moves(self, cls: str) -> bool:
        """Whether the fields of a class may be moved together: it is a module, or sets them by
        their names."""
        hierarchy, functions = self._inference.hierarchy, self._inference.functions
        family = (*hierarchy.mro(cls), *hierarchy.subclasses(cls))
        by_name = any(not SETTERS.isdisjoint(functions[each].words) for each in family)
        return by_name or hierarchy.is_module(cls)

    def _store_place(self, cls: str, name: str) -> Place:
        """Where a constructor stores the value of a field."""
        method, (stored, *_) = next(self._constants.stores(cls, name))
        facts, graph = self._inference.functions[method], self._inference.states[method].graph
        return Place(facts.path, *graph.nodes[stored].location)

    def _is_chosen_once(self, node: Node) -> bool:
        """Whether a field that only constructors set chooses an item of a dict that is written
        there: {"fixed": small, "learned": large}[self.kind]"""
        table, key = node.operands
        nodes = self._state.graph.nodes
        is_lookup = nodes[table].op == ops.DICT and nodes[key].op == ops.ATTR
        return is_lookup and self._constants.is_lasting((self._function, key))

    def _stored(self, cls: str, name: str, stays: bool) -> list[At | None]:
        """The value stored in a field of an object, if only its constructors do so; None for what
        is not, or is a tensor, or has a life of its own.

        Args:
            stays: whether the object is the same one in every iteration, so that a list is which
                its constructor fills.
        """
        infer = self._inference
        stored: list[At | None] = []
        for method, values in self._constants.stores(cls, name):
            if not self._constants.constructs(method):
                return [None]
            nodes = infer.files[infer.functions[method].path].graph(method).nodes
            filled = [n for n in values if nodes[n].op == ops.ADD]
            if filled and (not stays or self._constants.is_changed(name)):
                return [None]
            stored += [
                (method, n) if self._is_plain(method, n, bool(filled)) else None
                for n in values
                if n not in filled
            ]
        return stored or [None]

    def _is_plain(self, method: str, number: int, is_filled: bool) -> bool:
        """Whether what a method stores is no tensor, no object, and no empty list, which others
        fill, unless the method fills it itself."""
        state = self._inference.states.get(method)
        if state is None or state.graph.nodes[number].op in (ops.ADD, ops.PUT):
            return False
        alive = (Tensor, Instance, Object, Class)
        return not any(
            isinstance(atom, alive)
            or (isinstance(atom, Sequence) and atom.items == () and not is_filled)
            for atom in state.values[number]
        )

    def _call(self, number: int, node: Node) -> Answer:
        state, (callee, *arguments) = self._state, node.operands
        name = agreed(
            transfer.canonical(a.name) if isinstance(a, Symbol) else None
            for a in state.values[callee]
        )
        if name == "builtins.range":
            return Invariance()  # `torch.arange` needs no copy, whatever the numbers are
        if name == "builtins.getattr":
            return Invariance() if is_configuration(state, arguments[0]) else None
        if name is not None and name.startswith(PURE):
            return None if IMPURE.search(name) else self._all(arguments)
        if name is not None and name.startswith("torch."):
            return self._torch(node, name)
        method, receiver = method_called(state.graph, node)
        if method == "get" and is_configuration(state, receiver):
            return self._all(arguments)
        holders = state.values[callee]
        if holders and all(isinstance(a, Method) and is_of_host(a) for a in holders):
            return self._method(method, receiver, arguments)
        return self._of_project(number, node)

    def _method(self, name: str, receiver: int, arguments: list[int]) -> Answer:
        state = self._state
        if not name or DRAWN.search(name):
            return None
        if name in SHAPED_BY and all(is_number(state.values[n]) for n in arguments):
            arguments = []
        arguments = [n for n in arguments if not is_placement(state.values[n])]
        return self._all([*arguments, receiver])

    def _torch(self, node: Node, name: str) -> Answer:
        facts = FACTORIES.get(name)
        if DRAWN.search(name) or (facts is not None and facts.values in ("random", "none")):
            return None
        arguments = [n for n in node.arguments if not is_placement(self._state.values[n])]
        of_data = name in OF_DATA or name in LEGACY_CONSTRUCTORS
        if of_data and arguments:
            arguments[0] = repeated(self._state, arguments[0])
        answer = self._all(arguments)
        if answer is None or not of_data or answer.built is not None:
            return answer
        return Invariance(Place(self._inference.functions[self._function].path, *node.location))

    def _of_project(self, number: int, node: Node) -> Answer:
        """Ex) self.kernel(), which takes nothing and computes it from fields"""
        states = self._inference.states
        callees = self._inference.calls.edges.get((self._function, number), set())
        if len(node.operands) > 1 or not callees <= states.keys():
            return None
        returned: list[At] = []
        for callee in sorted(callees):
            returned += ((callee, value) for value in states[callee].graph.given_back)
        return self._together(returned) if returned else None


def changes(graph: Graph, field: str) -> bool:
    """Ex) plan.steps.append(x), plan.steps[0] = x, and the same of `steps = plan.steps`;
    np.copyto(plan.steps, x)"""
    for node in graph.nodes:
        changed: tuple[int, ...] = ()
        if node.op in (ops.ADD, ops.PUT) or (node.op == ops.ATTR and node.data not in READS):
            changed = node.operands[:1]
        elif node.op == ops.PHI:
            changed = node.operands
        elif node.op == ops.CALL:
            writes = graph.nodes[node.operands[0]].data in WRITES
            changed = (node.argument(0 if writes else None, "out"),)
        targets = [graph.nodes[each] for each in changed if each >= 0]
        if any(each.op == ops.ATTR and each.data == field for each in targets):
            return True
    return False


def repeated(state: State, number: int) -> int:
    """Ex) [0.5] of `[0.5] * n`: as a tensor, the same numbers in more rows"""
    node = state.graph.nodes[number]
    if node.op != ops.BINOP or node.data != "Mult":
        return number
    one = node.operands[0]
    return number if elements(state.graph, one) is None else one


def is_configuration(state: State, number: int) -> bool:
    """Whether the name of a value says that it holds settings: self.config, peft_config[name]"""
    name = last_name(state.graph, whole(state.graph, number))
    return CONFIGURATION.search(name) is not None


def is_setting(state: State, node: Node) -> bool:
    """Ex) config["sizes"]; not args[0], the first of `*args`"""
    container, key = node.operands
    named = all(isinstance(atom, Host) and atom.kind == "str" for atom in state.values[key])
    return named and is_configuration(state, container)


def names_tensor(state: State, number: int) -> bool:
    """Whether a tensor is among the types that an annotation names."""
    nodes = state.graph.nodes
    named = reachable([number], lambda n: (each for each in nodes[n].operands if each >= 0))
    return any("Tensor" in str(nodes[each].data) for each in named)


def is_known(value: Value) -> bool:
    """Whether the value is one constant, or one list of them."""
    atoms = value - {NONE}
    if len(atoms) != 1:
        return False
    (atom,) = atoms
    if isinstance(atom, Sequence):
        return atom.items is not None and all(map(is_known, atom.items))
    return isinstance(atom, Host) and atom.known


def classes_of(value: Value) -> list[str]:
    """Those of the objects of the project that a value may be; none if it may be anything else."""
    classes = {atom.cls for atom in value if isinstance(atom, Instance)}
    return sorted(classes) if surely(value, Instance) else []


def is_on_host(atom: Atom) -> bool:
    return isinstance(atom, Tensor) and atom.device.kind == CPU.kind


def is_constant_of_library(value: Value) -> bool:
    """Ex) IMAGENET_DEFAULT_MEAN of timm.data"""
    return bool(value) and all(
        isinstance(a, Symbol) and a.name.rpartition(".")[2].isupper() for a in value
    )


def is_of_host(method: Method) -> bool:
    """Whether a method is that of a number, a list or a tensor on the CPU."""
    thing = method.of
    if isinstance(thing, Tensor):
        return thing.device.kind == CPU.kind
    return isinstance(thing, Host | Sequence)


def is_placement(value: Value) -> bool:
    return surely(value, Device | DType)
