"""The symbolic value of each node of a function, on a path through it."""

from __future__ import annotations

from amplint.gradscaler.event_index import EventIndex
from amplint.gradscaler.events import Role
from amplint.gradscaler.instructions import EXITS
from amplint.gradscaler.paths import Activation, Knowledge, PathState
from amplint.gradscaler.symbolic_values import NOTHING, Symbolic, SymbolicValues
from amplint.inference import State
from amplint.ir import ops
from amplint.ir.model import Graph, Node
from amplint.values.atoms import Class, Function, Instance, Module, Object, Symbol

# Nodes whose value is unknown unless they are run.
UNREAD = frozenset({ops.CALL, ops.STORE, *EXITS})
OPERATORS = frozenset(
    {
        ops.BINOP,
        ops.UNARY,
        ops.COMPARE,
        ops.BOOL,
        ops.SUBSCRIPT,
        ops.TUPLE,
        ops.LIST,
        ops.AUG,
        ops.FSTRING,
    }
)


class Evaluator:
    """Evaluates nodes, except for calls."""

    def __init__(self, index: EventIndex, symbols: SymbolicValues, knowledge: Knowledge) -> None:
        self.index = index
        self.inference = index.inference
        self.symbols = symbols
        self.knowledge = knowledge
        self.may_be_off: set[Symbolic] = set()  # what may be a scaler that is off, or None

    def unique(self, frame: Activation, number: int) -> Symbolic:
        """An unknown value, known by its node and iteration."""
        return self.symbols.of("result", frame.key, number, frame.iterations)

    def not_run(self, frame: Activation, path: PathState, number: int) -> Symbolic:
        """The value of a node in a branch that was left out: the same in each iteration of the
        loops that it does not stand in."""
        node = frame.graph.nodes[number]
        iterations = frame.iterations[: frame.code.loops[node.block]]
        if node.op == ops.CALL and not is_object(frame.state, number):
            found = self._called(frame, path, node, (*frame.within, *iterations))
            if found is not None:
                return found
        return self.symbols.of("result", frame.key, number, iterations)

    def several(self, frame: Activation, number: int) -> Symbolic:
        """The value of a node on paths that became one by force; -1 is that of the function."""
        return self.symbols.of("several", frame.key, number, frame.iterations)

    def at(self, frame: Activation, path: PathState, number: int) -> Symbolic:
        """The value of a node, whether it was run or not."""
        if number < 0:
            return NOTHING
        values, derived, nodes = path.values, path.derived, frame.graph.nodes
        if number in values:
            return values[number]
        pending = [] if number in derived else [number]
        while pending:
            last = pending[-1]
            node = nodes[last]
            missing = [
                operand
                for operand in self._read(frame, path, last, node)
                if operand not in values and operand not in derived
            ]
            if missing:
                pending += missing
                continue
            pending.pop()
            unread = node.op in UNREAD
            derived[last] = (
                self.not_run(frame, path, last) if unread else self.value(frame, path, last)
            )
        return derived[number]

    def _read(self, frame: Activation, path: PathState, number: int, node: Node) -> tuple[int, ...]:
        """The operands that the value of a node is made of."""
        if node.op == ops.PHI:
            return node.operands if is_choice(path, number, node) else ()
        if node.op == ops.CALL:
            return () if is_object(frame.state, number) else node.operands
        return () if node.op in UNREAD else node.operands

    def value(self, frame: Activation, path: PathState, number: int) -> Symbolic:
        """The value of a node that calls nothing, from those of its operands."""
        found = self._evaluate(frame, path, number, frame.graph.nodes[number])
        return self.unique(frame, number) if self.symbols.is_deep(found) else found

    def joined(self, frame: Activation, path: PathState, number: int) -> Symbolic:
        """The value of a name where paths meet: what this path has put into it."""
        node, code, nodes = frame.graph.nodes[number], frame.code, frame.graph.nodes
        if is_choice(path, number, node):
            alternatives = (self.at(frame, path, operand) for operand in node.operands)
            # The same in each iteration of the loops that it does not stand in.
            iterations = frame.iterations[: code.loops[node.block]]
            return self.symbols.of("choice", frame.key, number, iterations, *alternatives)
        held = [operand for operand in node.operands if operand in path.values]
        values = {path.values[operand] for operand in held}
        if len(values) == 1:
            return values.pop()
        later = [operand for operand in held if operand > number]
        branch = [
            operand for operand in held if not code.is_within(node.block, nodes[operand].block)
        ]
        for candidates in (later, branch):
            if candidates:
                return path.values[max(candidates, key=lambda each: code.order.get(each, -1))]
        return self.unique(frame, number)

    def call(self, frame: Activation, path: PathState, number: int, node: Node) -> Symbolic:
        """The result of an unknown function: the same for the same arguments in one iteration."""
        found = self._called(frame, path, node, frame.all_iterations)
        if found is None:
            return self.unique(frame, number)
        site = (frame.function, number)
        if self.index.is_of_remainder(site) or self.index.is_of_overflow(site):
            self.symbols.note_periodic(found)
        return found

    def _called(
        self, frame: Activation, path: PathState, node: Node, iterations: tuple[int, ...]
    ) -> Symbolic | None:
        operands = [self.at(frame, path, operand) for operand in node.operands]
        if any(map(self.symbols.is_deep, operands)):
            return None
        return self.symbols.of("call", node.data.keywords, iterations, *operands)

    def scaled(self, frame: Activation, number: int, scaler: Symbolic, loss: Symbolic) -> Symbolic:
        found = self.symbols.of("scaled", scaler, loss)
        return self.unique(frame, number) if self.symbols.is_deep(found) else found

    def role(self, frame: Activation, path: PathState, number: int) -> Role:
        """The role of a node's object; noted for its symbolic value, if it is known."""
        if number < 0:
            return Role.OTHER
        roles = self.knowledge.roles
        found, may_be_off = self.index.role((frame.function, number))
        symbol = self.at(frame, path, number)
        if may_be_off:
            self.may_be_off.add(symbol)
        if found is Role.UNKNOWN:
            return roles.get(symbol, found)
        if roles.get(symbol) is Role.DISABLED and found is Role.SCALER:
            return Role.DISABLED  # others pass one that is enabled to the same function
        if found is not Role.OTHER or symbol not in roles:
            roles[symbol] = found
        return found

    # -- arguments

    def arguments(
        self, frame: Activation, path: PathState, number: int, node: Node, function: str
    ) -> dict[str, Symbolic]:
        """The values of the parameters of a function that is called, as far as they are known."""
        facts = self.inference.functions[function]
        names = [p.name for p in facts.positional]
        given: dict[str, Symbolic] = {}
        receiver = self._receiver(frame, path, number, node, function)
        if receiver is not None and names:
            given[names.pop(0)] = receiver
        if not node.data.stars:
            given.update(
                (name, self.at(frame, path, operand))
                for name, operand in zip(names, node.positional, strict=False)
            )
            for p in facts.params:
                if p.constant_default:
                    given.setdefault(p.name, self.symbols.constant(p.default))
        for name, operand in node.named:
            if name != "**":
                given[name] = self.at(frame, path, operand)
        return given

    def _receiver(
        self, frame: Activation, path: PathState, number: int, node: Node, function: str
    ) -> Symbolic | None:
        """The value of `self` in a function that is called; None where it takes none."""
        facts = self.inference.functions[function]
        if not facts.takes_receiver:
            return None
        callee = frame.graph.nodes[node.operands[0]]
        values = frame.state.values[node.operands[0]]
        if facts.name == "__init__" and any(isinstance(atom, Class) for atom in values):
            return self.unique(frame, number)
        if any(isinstance(atom, Instance) for atom in values):
            return self.at(frame, path, node.operands[0])  # `loss_scaler(...)` is its `__call__`
        bound = any(isinstance(atom, Function) and atom.bound is not None for atom in values)
        if callee.op != ops.ATTR or not bound:
            return None
        owner = callee.operands[0]
        if is_super(frame.graph, owner):
            own = first_parameter(frame.graph)
            return self.at(frame, path, own) if own >= 0 else None
        return self.at(frame, path, owner)

    # -- by operation

    def _evaluate(self, frame: Activation, path: PathState, number: int, node: Node) -> Symbolic:
        match node.op:
            case ops.CONST:
                return self.symbols.constant(node.data)
            case ops.PARAM if frame.around is None:
                return self.symbols.of("param", frame.function, node.data)
            case ops.NAME:
                return self._free(frame, path, node.data)
            case ops.NARROW:
                return self.at(frame, path, node.operands[0])
            case ops.PHI:
                return self.joined(frame, path, number)
            case ops.ATTR:
                return self._attribute(frame, path, self.at(frame, path, node.operands[0]), node)
            case ops.DEF | ops.CLASS | ops.LAMBDA:
                return self.symbols.of("def", node.data)
            case ops.IMPORT:
                return self.symbols.of("import", *node.data)
            case ops.ENTER:
                return self.symbols.of("enter", self.at(frame, path, node.operands[0]))
            case operator if operator in OPERATORS:
                operands = (self.at(frame, path, operand) for operand in node.operands)
                return self.symbols.of("op", node.op, node.data, *operands)
            case ops.UNPACK:
                return self._unpacked(self.at(frame, path, node.operands[0]), node.data)
            case ops.ITER if not frame.iterations or frame.iterations[-1] < 0:
                # What loops over the same optimizers draw is the same, one after the other.
                return self.symbols.of("each", self.at(frame, path, node.operands[0]))
            case _:
                return self.unique(frame, number)

    def _attribute(
        self, frame: Activation, path: PathState, thing: Symbolic, node: Node
    ) -> Symbolic:
        self.knowledge.ask((thing, node.data), frame.time)
        found = path.fields.get((thing, node.data))
        return found if found is not None else self.symbols.of("attr", thing, node.data)

    def _unpacked(self, whole: Symbolic, data: tuple[int, int, bool]) -> Symbolic:
        index, count, starred = data
        term = self.symbols[whole]
        if term[:2] == ("op", ops.TUPLE) and len(term) == 3 + count and not starred:
            return Symbolic(term[3 + index])
        return self.symbols.of("unpack", whole, index)

    def _free(self, frame: Activation, path: PathState, name: str) -> Symbolic:
        """A name of a function around this one, which may be running, or of a module."""
        scope = self.inference.functions[frame.function].parent
        while scope is not None:
            facts = self.inference.functions[scope]
            bindings = self.inference.files[facts.path].graph(scope).bindings
            if name in bindings and facts.kind != "class":
                return self._bound(frame, path, scope, name)
            scope = facts.parent
        return self.symbols.of("name", name)

    def _bound(self, frame: Activation, path: PathState, scope: str, name: str) -> Symbolic:
        values, caller = path.values, path.caller
        for running in frame.chain:
            if running.function == scope:
                held = [each for each in running.graph.bindings[name] if each in values]
                if held:
                    return values[max(held, key=running.code.order.__getitem__)]
                break
            values = dict(caller.values) if caller is not None else {}
            caller = caller.caller if caller is not None else None
        return self.symbols.of("free", scope, name)


def is_choice(path: PathState, number: int, node: Node) -> bool:
    """Whether the branches that meet in a node were left out: it is one of several values."""
    return all(0 <= operand < number and operand not in path.values for operand in node.operands)


def is_object(state: State, number: int) -> bool:
    """Whether a call returns something that is true, as objects are."""
    value = state.values[number]
    return bool(value) and all(
        isinstance(atom, Object | Instance | Function | Class | Module | Symbol) for atom in value
    )


def is_super(graph: Graph, number: int) -> bool:
    """Whether a node is `super()`."""
    node = graph.nodes[number]
    if node.op != ops.CALL:
        return False
    callee = graph.nodes[node.operands[0]]
    return callee.op in (ops.ATTR, ops.NAME) and callee.data == "super"


def first_parameter(graph: Graph) -> int:
    return next((number for number, node in enumerate(graph.nodes) if node.op == ops.PARAM), -1)
