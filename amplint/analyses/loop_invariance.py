"""Whether a value of the host is the same in every iteration, so that it could be built once.

It is where it is made of constants, of options (parameters whose default is a number), of what a
module's constructor has stored, and of what is read off a configuration. Sizes, lengths, loop
variables, and what callers may pass anew are data. A tensor that stays on the host until it is
moved is followed through the operations of torch, to the list of numbers that it was built of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from amplint.analyses.tensor_certainty import holds_tensor
from amplint.core.values import (
    CPU,
    NONE,
    Class,
    Device,
    DType,
    Host,
    Instance,
    Method,
    Object,
    Place,
    Sequence,
    Symbol,
    Tensor,
    Value,
)
from amplint.inference import Inference, State, transfer
from amplint.ir.model import Node, Param
from amplint.knowledge.factories import FACTORIES, LEGACY_CONSTRUCTORS

NUMBERS = frozenset({"int", "float", "bool", "number"})
OF_DATA = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray"})
"""What copies a list of numbers to a tensor; the legacy constructors do as well."""
# A value is constant where all operands are.
TRANSPARENT = frozenset(
    """
    binop unary aug compare bool tuple list set starred phi comp subscript slice unpack put
    """.split()
)
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
CONSTRUCTORS = frozenset({"__init__", "__post_init__", "__new__"})
CONFIGURATION = re.compile(
    r"(^|_)(args|config|configuration|cfg|conf|hparams|hyperparameters|opts?|options)$"
)


def is_constant(inference: Inference, function: str, number: int) -> bool:
    """Whether a node has the same value in every iteration, and is no tensor."""
    state = inference.states.get(function)
    if state is None or holds_tensor(state.values[number]):
        return False
    return _Search(inference).constant(function, number)


def built_of_constants(inference: Inference, function: str, number: int) -> Place | None:
    """Where the list of constants becomes a tensor that a node's value is computed from, and from
    nothing else; None if there is no such list, or something else."""
    search = _Search(inference)
    return search.built if search.constant(function, number) else None


class _Search:
    """A walk from a value to all that it is made of."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._seen: dict[tuple[str, int], bool] = {}
        self.built: Place | None = None

    def constant(self, function: str, number: int) -> bool:
        key = (function, number)
        if key not in self._seen:
            self._seen[key] = False  # what a loop makes of itself is another value in every round
            state = self._inference.states.get(function)
            self._seen[key] = state is not None and self._in_state(function, state, number)
        return self._seen[key]

    def _in_state(self, function: str, state: State, number: int) -> bool:
        node = state.graph.nodes[number]
        field = node.op == "attr" and not is_configuration(state, node.operands[0])
        # Others may set a field at any time; settings, before training begins.
        if field and self._inference.is_stored_from_outside(str(node.data)):
            return False
        return is_known(state.values[number]) or self._by_operation(function, state, number)

    def _all(self, function: str, numbers: Iterable[int]) -> bool:
        return all(n < 0 or self.constant(function, n) for n in numbers)

    def _by_operation(self, function: str, state: State, number: int) -> bool:
        node = state.graph.nodes[number]
        match node.op:
            case "const":
                return True
            case "narrow":
                return self.constant(function, node.operands[0])
            case "iter":
                inside = state.graph.blocks[node.block].kind == "comprehension"
                return inside and self.constant(function, node.operands[0])
            case "param":
                return self._parameter(function, state, node)
            case "name":
                return self._name(function, str(node.data))
            case "attr":
                return self._attribute(state, node)
            case "call":
                return self._call(function, state, number, node)
            case op if op in TRANSPARENT:
                return self._all(function, node.operands)
            case _:
                return False

    def _parameter(self, function: str, state: State, node: Node) -> bool:
        """An option; or a parameter for which all callers that are seen give constants."""
        facts = self._inference.functions[function]
        if facts.name in CONSTRUCTORS:
            return True
        param = next((p for p in facts.params if p.name == node.data), None)
        annotation = node.operands[0] if node.operands else -1
        if param is None or (annotation >= 0 and names_tensor(state, annotation)):
            return False
        if self._option(function, param):
            return True
        given = self._inference.parts(("param", function, str(node.data))) - {frozenset({NONE})}
        return bool(given) and all(map(is_known, given))

    def _option(self, function: str, param: Param) -> bool:
        """Whether the default of a parameter is a number, or a list of them."""
        if param.constant_default or not param.has_default:
            return isinstance(param.default, int | float)
        parent = self._inference.functions[function].parent
        state = self._inference.states.get(parent) if parent is not None else None
        if parent is None or state is None:
            return False
        for node in state.graph.nodes:
            if node.op == "default" and node.data == (function, param.name):
                return self.constant(parent, node.operands[0])
        return False

    def _name(self, function: str, name: str) -> bool:
        """A variable of the module, or of a function around, that is bound once."""
        outer = self._inference.functions[function].parent
        while outer is not None:
            state = self._inference.states.get(outer)
            bound = state.graph.bindings.get(name, ()) if state is not None else ()
            if bound:
                return len(bound) == 1 and self.constant(outer, bound[0])
            outer = self._inference.functions[outer].parent
        return False

    def _attribute(self, state: State, node: Node) -> bool:
        """A field of a module, a setting, a number of a library: self.taps, config.steps, math.e"""
        holder = state.values[node.operands[0]]
        if is_configuration(state, node.operands[0]):
            return True
        classes = {atom.cls for atom in holder if isinstance(atom, Instance)}
        if classes and all(isinstance(atom, Instance) for atom in holder):
            return all(self._field(cls, str(node.data)) for cls in classes)
        return bool(holder) and all(isinstance(atom, Symbol) for atom in holder)

    def _field(self, cls: str, name: str) -> bool:
        """Whether only the constructors of a module store a field, and what they store is no tensor
        and has no life of its own."""
        infer = self._inference
        if not infer.is_module(cls):
            return False
        stored = []
        for related in [*infer.mro(cls), *infer.subclasses(cls)]:
            for method in infer.writers_of_field(related, name):
                graph = infer.files[infer.functions[method].path].graph(method)
                for node in graph.nodes:
                    if node.op == "store" and node.data == name:
                        if infer.functions[method].name not in CONSTRUCTORS:
                            return False
                        stored.append((method, node.operands[1]))
        return bool(stored) and all(self._stored(method, value) for method, value in stored)

    def _stored(self, method: str, number: int) -> bool:
        state = self._inference.states.get(method)
        if state is None or state.graph.nodes[number].op in ("add", "put"):
            return False
        alive = (Tensor, Instance, Object, Class)
        return not any(
            isinstance(atom, alive) or (isinstance(atom, Sequence) and atom.items == ())
            for atom in state.values[number]
        ) and self.constant(method, number)

    def _call(self, function: str, state: State, number: int, node: Node) -> bool:
        callee, *given = node.operands
        names = {
            transfer.canonical(a.name) if isinstance(a, Symbol) else None
            for a in state.values[callee]
        }
        name = names.pop() if len(names) == 1 else None
        if name == "builtins.range":
            return True  # `torch.arange` needs no copy, whatever the numbers are
        if name == "builtins.getattr":
            return is_configuration(state, given[0])
        if name is not None and name.startswith(PURE):
            return not IMPURE.search(name) and self._all(function, given)
        if name is not None and name.startswith("torch."):
            return self._torch(function, state, node, name)
        holders = state.values[callee]
        if holders and all(isinstance(a, Method) and is_of_host(a) for a in holders):
            return self._method(function, state, callee, given)
        return self._of_project(function, number, node)

    def _method(self, function: str, state: State, callee: int, given: list[int]) -> bool:
        called = state.graph.nodes[callee]
        if called.op != "attr" or DRAWN.search(called.data):
            return False
        if not (called.data in SHAPED_BY and all(is_number(state.values[n]) for n in given)):
            given = [n for n in given if not is_placement(state.values[n])]
            if not self._all(function, given):
                return False
        return self.constant(function, called.operands[0])

    def _torch(self, function: str, state: State, node: Node, name: str) -> bool:
        facts = FACTORIES.get(name)
        if DRAWN.search(name) or (facts is not None and facts.values in ("random", "none")):
            return False
        given = [n for n in node.operands[1:] if not is_placement(state.values[n])]
        of_data = name in OF_DATA or name in LEGACY_CONSTRUCTORS
        if of_data and given:
            given[0] = repeated(state, given[0])
        if not self._all(function, given):
            return False
        if of_data:
            path = self._inference.functions[function].path
            self.built = self.built or Place(path, *node.location)
        return True

    def _of_project(self, function: str, number: int, node: Node) -> bool:
        """Ex) self.kernel(), which takes nothing and computes it from fields"""
        states = self._inference.states
        callees = self._inference.edges.get((function, number), set())
        if len(node.operands) > 1 or not callees <= states.keys():
            return False
        returned = [(callee, n) for callee in callees for n in states[callee].graph.returns]
        return bool(returned) and all(self._returned(callee, n) for callee, n in returned)

    def _returned(self, function: str, number: int) -> bool:
        node = self._inference.states[function].graph.nodes[number]
        return self.constant(function, node.operands[0] if node.op == "return" else number)


def repeated(state: State, number: int) -> int:
    """Ex) [0.5] of `[0.5] * n`: as a tensor, the same numbers in more rows"""
    node = state.graph.nodes[number]
    if node.op != "binop" or node.data != "Mult":
        return number
    one = node.operands[0]
    return one if state.graph.nodes[one].op in ("list", "tuple") else number


def is_configuration(state: State, number: int) -> bool:
    """Whether the name of a value says that it holds settings: self.config, peft_config[name]"""
    node = state.graph.nodes[number]
    while node.op in ("narrow", "subscript"):
        node = state.graph.nodes[node.operands[0]]
    if node.op not in ("param", "attr", "name"):
        return False
    return CONFIGURATION.search(str(node.data)) is not None


def names_tensor(state: State, number: int) -> bool:
    """Whether a tensor is among the types that an annotation names."""
    node = state.graph.nodes[number]
    return "Tensor" in str(node.data) or any(
        names_tensor(state, n) for n in node.operands if n >= 0
    )


def is_known(value: Value) -> bool:
    """Whether the value is one constant, or one list of them."""
    atoms = value - {NONE}
    if len(atoms) != 1:
        return False
    (atom,) = atoms
    if isinstance(atom, Sequence):
        return atom.items is not None and all(map(is_known, atom.items))
    return isinstance(atom, Host) and atom.known


def is_number(value: Value) -> bool:
    return bool(value) and all(isinstance(a, Host) and a.kind in NUMBERS for a in value)


def is_of_host(method: Method) -> bool:
    """Whether a method is that of a number, a list or a tensor on the CPU."""
    thing = method.of
    if isinstance(thing, Tensor):
        return thing.device.kind == CPU.kind
    return isinstance(thing, Host | Sequence)


def is_placement(value: Value) -> bool:
    return bool(value) and all(isinstance(atom, Device | DType) for atom in value)
