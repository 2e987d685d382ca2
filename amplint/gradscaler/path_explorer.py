"""The paths of a training step: what happens to the gradients, in the order in which it happens.

A function is run over its value graph, once for each combination of outcomes of the tests that
matter: what it calls of the project is run in its place, a loop around a backward pass runs twice.
Nothing is computed. A value is a *token* that says where it comes from: two reads of `self.scaler`
are one token, and so are two evaluations of `self.fp16 and step > 0`; what one iteration draws from
a loader and what the next draws are two. So a test that is repeated is decided the same way again,
`if scaler is not None` as well as `if (i + 1) % n == 0`, the latter within one iteration.

A test matters if what it guards trains, or leaves the loop or the function. What is behind a test
that does not matter is passed over, and so are handlers of exceptions and what raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from amplint.core.values import Class, Function, Instance, Module, Object, Symbol
from amplint.gradscaler.events import (
    CHAINED,
    Event,
    Kind,
    Role,
    divides_by_zero,
    event,
    is_module,
    may_recast,
    may_train,
    parameters_of,
    role,
    surely_scaler,
)
from amplint.inference import Inference, SiteId, State
from amplint.ir.model import Graph, Node

LIMITS = {
    "paths": 128,  # of one function
    "steps": 40_000,  # nodes that are run for one function, over all its paths
    "calls": 5,  # calls within calls
    "iterations": 2,  # of a loop around a backward pass; other loops run once
}

Token = int
LOOPS = frozenset({"loop", "while", "comprehension"})
SIDES = {"if": True, "else": False, "after": False}
EXITS = frozenset({"break", "continue", "return"})
OPPOSITES = {"NotEq": "Eq", "IsNot": "Is", "NotIn": "In"}


class Happening(NamedTuple):
    """An event on a path.

    Args:
        site: the call nodes from the outermost function to the call itself.
        object, argument: as in `training.Event`, as tokens; -1 without one.
        guards: the outcomes of tests under which it happens.
    """

    kind: Kind
    site: tuple[SiteId, ...]
    object: Token
    argument: Token
    guards: frozenset[Token]


class Path(NamedTuple):
    """One way through a function: what happens, and which tests had which outcome."""

    happenings: tuple[Happening, ...]
    decisions: dict[Token, bool]


class Paths(NamedTuple):
    """All ways through a function.

    Args:
        tests: by token, the tests (their places) whose outcome depends on it.
    """

    paths: tuple[Path, ...]
    tests: dict[Token, set[SiteId]]


class Shape(NamedTuple):
    """What of a function has to be run.

    Args:
        order: by block, its nodes and the blocks in it (as negative numbers), in order.
        relevant: the blocks that train or are left early.
        raising: those that end in a `raise`.
        sure: those that run where another does not raise.
        twice: the innermost loops around a backward pass.
        inside: of a loop that matters, the nodes.
    """

    order: dict[int, list[int]]
    relevant: frozenset[int]
    raising: frozenset[int]
    sure: frozenset[int]
    twice: frozenset[int]
    inside: dict[int, list[int]]


@dataclass
class Frame:
    """A function that is being run."""

    function: str
    state: State
    key: Token
    around: Frame | None
    call: int = -1  # the call node in `around`
    tokens: dict[int, Token] = field(default_factory=dict)
    stamps: dict[int, int] = field(default_factory=dict)  # when each node was run
    iterations: tuple[int, ...] = ()
    this: Token = -1

    @property
    def depth(self) -> int:
        return 0 if self.around is None else self.around.depth + 1

    @property
    def when(self) -> tuple[int, ...]:
        """The iterations of all loops around."""
        return self.iterations if self.around is None else (*self.around.when, *self.iterations)

    @property
    def graph(self) -> Graph:
        return self.state.graph


class LeavesError(Exception):
    """A `break`, `continue` or `return`."""

    def __init__(self, how: str, token: Token = -1) -> None:
        super().__init__(how)
        self.how = how
        self.token = token


class ImpossibleError(Exception):
    """The path contradicts itself."""


class BoundError(Exception):
    """There is more than `LIMITS` allows."""


class Events:
    """Which calls of the project train, and which functions lead to one."""

    def __init__(self, inference: Inference) -> None:
        self.inference = inference
        self.of: dict[str, dict[int, Event]] = {}
        self.scaling: set[str] = set()  # functions that call a scaler, themselves or by calls
        self.training: set[str] = set()  # functions with any event, likewise
        self.backward: set[str] = set()  # functions with a backward pass, likewise
        self.halving: set[str] = set()  # functions that cast parameters to float16, likewise
        self.dividing: set[str] = set()  # functions that make an optimizer as in `divides_by_zero`
        self._shapes: dict[str, Shape] = {}
        for function, state in inference.states.items():
            self._find(function, state)
        callers: dict[str, set[str]] = {}
        for (caller, _), callees in inference.edges.items():
            for callee in callees:
                callers.setdefault(callee, set()).add(caller)
        for found in (self.scaling, self.training, self.backward, self.halving, self.dividing):
            close(found, callers)

    def _find(self, function: str, state: State) -> None:
        events = self.of[function] = {}
        for number, node in enumerate(state.graph.nodes):
            happens = event(self.inference, state, number) if node.op == "call" else None
            if node.op == "call" and divides_by_zero(state, number):
                self.dividing.add(function)
            if happens is None or self.inference.edges.get((function, number)):
                continue
            if happens.kind is Kind.READ and self._is_of_optimizer(function):
                continue  # what is wrong is that the step is made with scaled gradients
            events[number] = happens
            if surely_scaler(self.inference, state, number, happens):
                self.scaling.add(function)
            if happens.kind in (Kind.BACKWARD, Kind.ELSEWHERE):
                self.backward.add(function)
            if happens.kind is Kind.HALF:
                self.halving.add(function)
        if events:
            self.training.add(function)

    def _is_of_optimizer(self, function: str) -> bool:
        cls = self.inference.functions[function].cls
        return cls is not None and self.inference.is_optimizer(cls)

    def callees(self, site: SiteId) -> set[str]:
        """The functions that a call runs, if any of them trains."""
        callees = self.inference.edges.get(site, set())
        return callees if callees & self.training else set()

    def shape(self, function: str) -> Shape:
        if function not in self._shapes:
            self._shapes[function] = self._find_shape(function)
        return self._shapes[function]

    def _find_shape(self, function: str) -> Shape:
        graph = self.inference.states[function].graph
        order: dict[int, list[int]] = {0: []}
        relevant, raising, training = set(), set(), set()
        for number, node in enumerate(graph.nodes):
            block, inner = node.block, number
            while block not in order:
                order[block] = [inner]
                block, inner = graph.blocks[block].parent, -block
            order[block].append(inner)
            trains = number in self.of[function] or bool(self.callees((function, number)))
            if trains or node.op in EXITS:
                relevant |= set(chain(graph, node.block))
            if node.op == "raise":
                raising.add(node.block)
            callees = self.inference.edges.get((function, number), set())
            happens = self.of[function].get(number)
            if callees & self.backward or (happens and happens.kind is Kind.BACKWARD):
                training |= set(chain(graph, node.block))
        others = {(graph.blocks[block].parent, graph.blocks[block].node) for block in raising}
        sure = {
            block
            for block, facts in enumerate(graph.blocks)
            if facts.kind in SIDES and (facts.parent, facts.node) in others and block not in raising
        }
        loops = {b for b in relevant if graph.blocks[b].kind in LOOPS}
        outer = {b for loop in loops & training for b in chain(graph, graph.blocks[loop].parent)}
        inside = {
            loop: [n for n, node in enumerate(graph.nodes) if loop in chain(graph, node.block)]
            for loop in loops
        }
        return Shape(
            order,
            frozenset(relevant),
            frozenset(raising),
            frozenset(sure),
            frozenset((loops & training) - outer),
            inside,
        )


def close(found: set[str], callers: dict[str, set[str]]) -> None:
    stack = list(found)
    while stack:
        more = callers.get(stack.pop(), set()) - found
        found |= more
        stack.extend(more)


def chain(graph: Graph, block: int) -> Iterator[int]:
    """A block and those around it."""
    while block >= 0:
        yield block
        block = graph.blocks[block].parent


class Explorer:
    """Runs a function, again and again, until it has gone all ways."""

    def __init__(self, inference: Inference, events: Events) -> None:
        self.inference = inference
        self.events = events
        self.parts: list[tuple[Any, ...]] = []  # what each token is made of
        self.tokens: dict[tuple[Any, ...], Token] = {}
        self.roles: dict[Token, Role] = {}
        self.switched: set[Token] = set()  # what may be a scaler that is off, or none
        self.modules: dict[Token, Token] = {}  # whose parameters an optimizer was given
        self.dividing: set[Token] = set()  # optimizers as in `divides_by_zero`
        self.tests: dict[Token, set[SiteId]] = {}
        self.script: list[tuple[Token, bool]] = []
        self.decided: list[tuple[Token, bool]] = []
        self._steps = 0

    def explore(self, function: str) -> Paths | None:
        """All paths through a function; None if there are too many."""
        paths: list[Path] = []
        script: list[tuple[Token, bool]] = []
        self._steps, runs = 0, 0
        try:
            self.script, self.decided = script, []
            self._run(function)  # to learn which objects are scalers and optimizers
            while True:
                self.script, self.decided = script, []
                path = self._run(function)
                runs += 1
                if runs > LIMITS["paths"]:
                    return None
                if path is not None:
                    paths.append(path)
                script = self.decided
                while script and not script[-1][1]:
                    script.pop()
                if not script:
                    return Paths(tuple(paths), self.tests)
                script[-1] = (script[-1][0], False)
        except (BoundError, RecursionError):
            return None

    def _run(self, function: str) -> Path | None:
        self.decisions: dict[Token, bool] = {}
        self.happenings: list[Happening] = []
        self.fields: dict[tuple[Token, str], Token] = {}
        self.guards: list[Token] = []
        self.halved: set[Token] = set()
        self.clock = 0
        frame = Frame(
            function, self.inference.states[function], self.token("function", function), None
        )
        try:
            self.block(frame, 0)
        except LeavesError:
            pass
        except ImpossibleError:
            return None
        return Path(tuple(self.happenings), self.decisions)

    # -- tokens

    def token(self, *parts: Any) -> Token:
        found = self.tokens.get(parts)
        if found is None:
            found = self.tokens[parts] = len(self.parts)
            self.parts.append(parts)
        return found

    def unique(self, frame: Frame, number: int) -> Token:
        """What a node gives in this iteration, whatever it is."""
        return self.token("result", frame.key, number, frame.iterations)

    def at(self, frame: Frame, number: int) -> Token:
        """The token of a node; of one that was passed over, as well."""
        if number < 0:
            return -1
        found = frame.tokens.get(number)
        if found is None:
            node = frame.graph.nodes[number]
            skipped = node.op in ("call", "store", "return", *EXITS)
            found = self.unique(frame, number) if skipped else self.value(frame, number, node)
            frame.tokens[number] = found
        return found

    # -- what a token says

    def is_handed_out(self, token: Token) -> bool:
        """Whether a function gives it, among other things: `prepare(model, optimizer)` may wrap an
        optimizer in another one, which knows the scaler."""
        parts = self.parts[token]
        return parts[0] == "unpack" or (parts[0] == "attr" and self.is_handed_out(parts[1]))

    def is_periodic(self, token: Token) -> bool:
        """Whether it depends on a remainder."""
        parts = self.parts[token]
        return parts[0] == "op" and (
            parts[2] == "Mod" or any(self.is_periodic(part) for part in parts[3:])
        )

    def varies(self, token: Token) -> bool:
        """Whether it may be something else in the next iteration."""
        parts = self.parts[token]
        match parts[0]:
            case "result":
                return any(iteration >= 0 for iteration in parts[3])
            case "call":
                return any(iteration >= 0 for iteration in parts[2])
            case "op":
                return any(self.varies(part) for part in parts[3:])
            case "attr" | "unpack" | "enter":
                return self.varies(parts[1])
            case _:
                return False

    def is_false(self, token: Token) -> bool:
        return token >= 0 and self.parts[token] == ("const", "bool", False)

    def scalers_of(self, loss: Token) -> frozenset[Token] | None:
        """The scalers that have scaled a loss; None where it is not known who may have."""
        parts = self.parts[loss]
        match parts[0]:
            case "scaled":
                inner = self.scalers_of(parts[2])
                if self.roles.get(parts[1]) is Role.SCALER:
                    return frozenset({parts[1]})
                return inner if self.roles.get(parts[1]) is Role.DISABLED else None
            case "op":
                found: set[Token] = set()
                for part in parts[3:]:
                    scalers = self.scalers_of(part)
                    if scalers is None:
                        return None
                    found |= scalers
                return frozenset(found)
            case "attr" | "unpack":
                return self.scalers_of(parts[1])
            case "call":
                return None if self.may_scale(parts) else frozenset()
            case "const" | "each":
                return frozenset()
            case _:
                return None

    def may_scale(self, call: tuple[Any, ...]) -> bool:
        """Whether a function, by its name or by what it is given, may return a scaled loss."""
        name = str(self.parts[call[3]][-1])
        given = (self.parts[part][0] == "scaled" for part in call[4:])
        return "scal" in name.lower() or any(given)

    # -- running

    def block(self, frame: Frame, block: int) -> None:
        for inner in self.events.shape(frame.function).order[block]:
            if inner >= 0:
                self.node(frame, inner)
            else:
                self.enter(frame, -inner)

    def enter(self, frame: Frame, block: int) -> None:
        """Run a block within another, or pass it over."""
        shape = self.events.shape(frame.function)
        facts = frame.graph.blocks[block]
        if facts.kind in LOOPS and block in shape.relevant:
            self.loop(frame, block)
        elif facts.kind == "with":
            self.block(frame, block)
            if self.events.callees((frame.function, facts.node)):
                self.note(frame, facts.node, Kind.ELSEWHERE)  # at its end, too
        elif facts.kind in ("try", "finally"):
            self.block(frame, block)
        elif facts.kind in SIDES:
            self.side(frame, block)

    def side(self, frame: Frame, block: int) -> None:
        """One side of a test."""
        shape = self.events.shape(frame.function)
        facts = frame.graph.blocks[block]
        wanted = SIDES[facts.kind]
        if block in shape.raising:
            self.assume(self.at(frame, facts.node), not wanted)
        elif block in shape.sure:
            self.assume(self.at(frame, facts.node), wanted)
            self.block(frame, block)
        elif block in shape.relevant:
            before = len(self.guards)
            if self.decide(self.at(frame, facts.node), (frame.function, facts.node)) is wanted:
                self.block(frame, block)
            del self.guards[before:]
        elif facts.kind == "after":
            self.block(frame, block)

    def loop(self, frame: Frame, block: int) -> None:
        shape, around = self.events.shape(frame.function), frame.iterations
        twice = block in shape.twice
        for iteration in range(LIMITS["iterations"] if twice else 1):
            # What loops over the same optimizers draw is the same, one after the other.
            frame.iterations = (*around, iteration if twice else -1)
            self.next_iteration(frame, block, shape.inside[block])
            try:
                self.block(frame, block)
            except LeavesError as left:
                if left.how == "break":
                    break
                if left.how == "return":
                    frame.iterations = around
                    raise
        frame.iterations = around

    def next_iteration(self, frame: Frame, block: int, inside: list[int]) -> None:
        """What a name holds at the start of an iteration is what the last one left in it."""
        held = {
            number: self.joined(frame, number)
            for number in inside
            if (node := frame.graph.nodes[number]).op == "phi"
            and node.block == block
            and any(operand > number for operand in node.operands)
        }
        for number in inside:
            frame.tokens.pop(number, None)
            frame.stamps.pop(number, None)
        frame.tokens.update(held)

    def node(self, frame: Frame, number: int) -> None:
        self._steps += 1
        if self._steps > LIMITS["steps"]:
            raise BoundError
        node = frame.graph.nodes[number]
        if node.op in ("break", "continue"):
            raise LeavesError(node.op)
        if node.op == "return":
            raise LeavesError("return", self.at(frame, node.operands[0]))
        if node.op == "call":
            token = self.call(frame, number, node)
        elif node.op == "store":
            self.fields[self.at(frame, node.operands[0]), node.data] = self.at(
                frame, node.operands[1]
            )
            return
        elif number in frame.tokens and node.op in ("phi", "param"):
            token = frame.tokens[number]
        else:
            token = self.value(frame, number, node)
        self.clock += 1
        frame.tokens[number], frame.stamps[number] = token, self.clock

    def value(self, frame: Frame, number: int, node: Node) -> Token:
        """The token of a node that calls nothing."""
        match node.op:
            case "const":
                return self.token("const", type(node.data).__name__, node.data)
            case "param" if frame.around is None:
                return self.token("param", frame.function, node.data)
            case "name":
                return self.free(frame, node.data)
            case "narrow":
                return self.at(frame, node.operands[0])
            case "phi":
                return self.joined(frame, number)
            case "attr":
                return self.attribute(self.at(frame, node.operands[0]), node.data)
            case "def" | "class" | "lambda":
                return self.token("def", node.data)
            case "import":
                return self.token("import", *node.data)
            case "enter":
                return self.token("enter", self.at(frame, node.operands[0]))
            case "binop" | "unary" | "compare" | "bool" | "subscript" | "tuple" | "list" | "aug":
                operands = (self.at(frame, operand) for operand in node.operands)
                return self.token("op", node.op, node.data, *operands)
            case "unpack":
                return self.unpacked(self.at(frame, node.operands[0]), node.data)
            case "iter" if not frame.iterations or frame.iterations[-1] < 0:
                return self.token("each", self.at(frame, node.operands[0]))
            case _:
                return self.unique(frame, number)

    def attribute(self, thing: Token, name: str) -> Token:
        found = self.fields.get((thing, name))
        return found if found is not None else self.token("attr", thing, name)

    def unpacked(self, whole: Token, data: tuple[int, int, bool]) -> Token:
        index, count, starred = data
        parts = self.parts[whole]
        if parts[:2] == ("op", "tuple") and len(parts) == 3 + count and not starred:
            return Token(parts[3 + index])
        return self.token("unpack", whole, index)

    def free(self, frame: Frame, name: str) -> Token:
        """A name of a function around this one, which may be running, or of a module."""
        scope = self.inference.functions[frame.function].parent
        while scope is not None:
            facts = self.inference.functions[scope]
            if name in self.inference.files[facts.path].graph(scope).bindings and (
                facts.kind != "class"
            ):
                return self.bound(frame, scope, name)
            scope = facts.parent
        return self.token("name", name)

    def bound(self, frame: Frame, scope: str, name: str) -> Token:
        running: Frame | None = frame
        while running is not None and running.function != scope:
            running = running.around
        if running is not None:
            bound = running.graph.bindings[name]
            run = [number for number in bound if number in running.stamps]
            if run:
                return running.tokens[max(run, key=running.stamps.__getitem__)]
        return self.token("free", scope, name)

    def joined(self, frame: Frame, number: int) -> Token:
        """What a name holds where paths meet: what this path has put into it."""
        node = frame.graph.nodes[number]
        run = [operand for operand in node.operands if operand in frame.stamps]
        tokens = {frame.tokens[operand] for operand in run}
        if len(tokens) == 1:
            return tokens.pop()
        around = set(chain(frame.graph, node.block))
        branch = [operand for operand in run if frame.graph.nodes[operand].block not in around]
        later = [operand for operand in node.operands if operand > number and operand in run]
        for candidates in (later, branch):
            if candidates:
                return frame.tokens[max(candidates, key=frame.stamps.__getitem__)]
        return self.unique(frame, number)

    # -- calls

    def call(self, frame: Frame, number: int, node: Node) -> Token:
        site = (frame.function, number)
        happens = self.events.of[frame.function].get(number)
        if happens is not None:
            return self.happen(frame, number, happens)
        callees = self.events.callees(site)
        if callees:
            return self.run_callees(frame, number, node, callees)
        known = self.inference.edges.get(site)
        itself = self.chained(frame, node)
        if itself is not None:
            return itself
        if self.halved:
            for other in may_recast(frame.state, number, known or set()):
                if self.at(frame, other) in self.halved:
                    self.note(frame, number, Kind.CAST, self.at(frame, other))
        roles = {self.role(frame, operand) for operand in node.operands[1:]}
        if known and roles & {Role.SCALER, Role.OPTIMIZER}:
            return self.run_constructor(frame, number, node, known)
        if not known and may_train(frame.state, number, roles):
            self.note(frame, number, Kind.ELSEWHERE)
        if is_object(frame.state, number):
            made = self.unique(frame, number)
            self.decisions.setdefault(made, True)
            if self.role(frame, number) is Role.OPTIMIZER:
                self.modules[made] = self.at(frame, parameters_of(frame.state, node))
                if divides_by_zero(frame.state, number):
                    self.dividing.add(made)
            return made
        # Asked the same again in the same iteration, a function says the same.
        operands = (self.at(frame, operand) for operand in node.operands)
        return self.token("call", node.data.keywords, frame.when, *operands)

    def chained(self, frame: Frame, node: Node) -> Token | None:
        """The module that one of its own methods returns."""
        callee = frame.graph.nodes[node.operands[0]]
        if callee.op != "attr" or callee.data not in CHAINED:
            return None
        owner = callee.operands[0]
        return (
            self.at(frame, owner) if is_module(frame.state.values[owner], self.inference) else None
        )

    def happen(self, frame: Frame, number: int, happens: Event) -> Token:
        thing, given = self.at(frame, happens.object), self.at(frame, happens.argument)
        if surely_scaler(self.inference, frame.state, number, happens):
            self.roles.setdefault(thing, Role.SCALER)
            self.assume(thing, True)  # nothing else has these methods
        self.role(frame, happens.object)
        if happens.kind is Kind.IS_ENABLED:
            return self.token("const", "bool", True)
        self.role(frame, happens.argument)
        if happens.kind in (Kind.HALF, Kind.CAST):
            self.halved.add(thing)
            self.note(frame, number, happens.kind, thing)
            return thing
        if happens.kind is Kind.SCALE:
            return self.token("scaled", thing, given)
        if happens.kind is Kind.STEP and given >= 0 and self.parts[given][0] == "def":
            self.run_closure(frame, number, str(self.parts[given][1]))
            given = -1
        self.note(frame, number, happens.kind, thing, given)
        return self.unique(frame, number)

    def note(
        self, frame: Frame, number: int, kind: Kind, thing: Token = -1, given: Token = -1
    ) -> None:
        site: list[SiteId] = [(frame.function, number)]
        at = frame
        while at.around is not None:
            site.append((at.around.function, at.call))
            at = at.around
        guards = frozenset(self.guards)
        self.happenings.append(Happening(kind, tuple(reversed(site)), thing, given, guards))

    def role(self, frame: Frame, number: int) -> Role:
        """What a node's object is; noted for its token, if it is known."""
        if number < 0:
            return Role.OTHER
        value = frame.state.values[number]
        found = role(value, self.inference)
        token = self.at(frame, number)
        if not all(isinstance(atom, Object) and atom.enabled is True for atom in value):
            self.switched.add(token)
        if found is Role.UNKNOWN:
            return self.roles.get(token, found)
        if self.roles.get(token) is Role.DISABLED and found is Role.SCALER:
            return Role.DISABLED  # others pass one that is enabled to the same function
        if found is not Role.OTHER or token not in self.roles:
            self.roles[token] = found
        return found

    def run_closure(self, frame: Frame, number: int, function: str) -> None:
        """`optimizer.step(closure)` runs the closure first."""
        if function in self.inference.states:
            self.run_function(frame, number, function, {})

    def run_constructor(self, frame: Frame, number: int, node: Node, callees: set[str]) -> Token:
        """An object that is given a scaler or an optimizer may keep it as a field."""
        if len(callees) == 1:
            (function,) = callees
            if self.inference.functions[function].name == "__init__":
                return self.run_callees(frame, number, node, callees)
        return self.unique(frame, number)

    def run_callees(self, frame: Frame, number: int, node: Node, callees: set[str]) -> Token:
        if len(callees) == 1 and not self.inference.drawn.get((frame.function, number)):
            (function,) = callees
            state = self.inference.states.get(function)
            if state is not None and not state.graph.yields:
                given = self.arguments(frame, number, node, function)
                result = self.run_function(frame, number, function, given)
                made = self.inference.functions[function].name == "__init__"
                return self.unique(frame, number) if made else result
        self.note(frame, number, Kind.ELSEWHERE)
        return self.unique(frame, number)

    def run_function(
        self, frame: Frame, number: int, function: str, given: dict[str, Token]
    ) -> Token:
        state = self.inference.states[function]
        key = self.token("called", frame.key, number, frame.iterations)
        inner = Frame(function, state, key, frame, number)
        above: Frame | None = frame
        while above is not None and above.function != function:
            above = above.around
        if inner.depth > LIMITS["calls"] or above is not None:
            self.note(frame, number, Kind.ELSEWHERE)
            return self.unique(frame, number)
        for position, other in enumerate(state.graph.nodes):
            if other.op == "param" and other.data in given:
                inner.tokens[position] = given[other.data]
                inner.stamps[position] = 0
        guards = len(self.guards)
        try:
            self.block(inner, 0)
        except LeavesError as left:
            return left.token if left.token >= 0 else self.token("const", "NoneType", None)
        finally:
            del self.guards[guards:]
        return self.token("const", "NoneType", None)

    def arguments(self, frame: Frame, number: int, node: Node, function: str) -> dict[str, Token]:
        """The tokens of the parameters of a function that is called, as far as they are known."""
        facts = self.inference.functions[function]
        names = [p.name for p in facts.params if p.kind == "positional"]
        given: dict[str, Token] = {}
        receiver = self.receiver(frame, number, node, function)
        if receiver is not None and names:
            given[names.pop(0)] = receiver
        shape = node.data
        operands = node.operands[1:]
        if not shape.stars:
            given.update(
                (name, self.at(frame, operand))
                for name, operand in zip(names, operands[: shape.positional], strict=False)
            )
            for p in facts.params:
                if p.constant_default:
                    given.setdefault(
                        p.name, self.token("const", type(p.default).__name__, p.default)
                    )
        for name, operand in zip(shape.keywords, operands[shape.positional :], strict=True):
            if name != "**":
                given[name] = self.at(frame, operand)
        return given

    def receiver(self, frame: Frame, number: int, node: Node, function: str) -> Token | None:
        """What `self` is in a function that is called; None where it takes none."""
        facts = self.inference.functions[function]
        if facts.cls is None or "staticmethod" in facts.decorated:
            return None
        callee = frame.graph.nodes[node.operands[0]]
        values = frame.state.values[node.operands[0]]
        if facts.name == "__init__" and any(isinstance(atom, Class) for atom in values):
            return self.unique(frame, number)
        if any(isinstance(atom, Instance) for atom in values):
            return self.at(frame, node.operands[0])  # `loss_scaler(...)` is its `__call__`
        bound = any(isinstance(atom, Function) and atom.bound is not None for atom in values)
        if callee.op != "attr" or not bound:
            return None
        owner = callee.operands[0]
        if self.is_super(frame, owner):
            own = next((n for n, other in enumerate(frame.graph.nodes) if other.op == "param"), -1)
            return self.at(frame, own) if own >= 0 else None
        return self.at(frame, owner)

    def is_super(self, frame: Frame, number: int) -> bool:
        node = frame.graph.nodes[number]
        return node.op == "call" and called(frame.graph, node) == "super"

    # -- tests

    def decide(self, test: Token, site: SiteId) -> bool:
        """The outcome of a test on this path; tests that it is made of are guards from here on."""
        parts = self.parts[test]
        if parts[0] == "const":
            return bool(parts[2])
        if parts[:3] == ("op", "unary", "Not"):
            return not self.decide(parts[3], site)
        if parts[:2] == ("op", "bool"):
            stops = parts[2] == "Or"
            outcomes = (self.decide(part, site) is stops for part in parts[3:])
            return any(outcomes) is stops
        atom, negated = self.atom(test)
        if self.parts[atom][0] == "const":
            return bool(self.parts[atom][2]) is not negated
        self.guards.append(atom)
        self.tests.setdefault(atom, set()).add(site)
        if atom not in self.decisions:
            self.decisions[atom] = self.choose(atom)
        return self.decisions[atom] is not negated

    def atom(self, test: Token) -> tuple[Token, bool]:
        """What a comparison comes to, and whether it is its opposite."""
        parts = self.parts[test]
        if parts[:2] != ("op", "compare") or len(parts) != 5 or len(parts[2]) != 1:
            return test, False
        (operator,), left, right = parts[2], parts[3], parts[4]
        negated = operator in OPPOSITES
        operator = OPPOSITES.get(operator, operator)
        one, other = self.parts[left], self.parts[right]
        if operator in ("Is", "Eq") and other[0] == "const":
            if one[0] == "const":
                return self.token("const", "bool", one[2] == other[2]), negated
            if other[2] is None:
                return left, not negated  # `x is None`: what is there, is true
            if isinstance(other[2], bool):
                return left, negated is other[2]
        return self.token("op", "compare", (operator,), left, right), negated

    def choose(self, atom: Token) -> bool:
        step = len(self.decided)
        outcome = self.script[step][1] if step < len(self.script) else True
        self.decided.append((atom, outcome))
        return outcome

    def assume(self, test: Token, outcome: bool) -> None:
        """What must be so on this path, as far as one outcome of the test says what."""
        parts = self.parts[test]
        if parts[:3] == ("op", "unary", "Not"):
            self.assume(parts[3], not outcome)
        elif parts[:2] == ("op", "bool"):
            if outcome is (parts[2] == "And"):
                for part in parts[3:]:
                    self.assume(part, outcome)
        else:
            atom, negated = self.atom(test)
            wanted = outcome is not negated
            constant = self.parts[atom][0] == "const"
            if not constant and self.decisions.setdefault(atom, wanted) is not wanted:
                raise ImpossibleError


def called(graph: Graph, node: Node) -> str:
    """The last identifier of what a call calls."""
    callee = graph.nodes[node.operands[0]]
    return str(callee.data) if callee.op in ("attr", "name") else ""


def is_object(state: State, number: int) -> bool:
    """Whether a call gives something that is true, as objects are."""
    value = state.values[number]
    return bool(value) and all(
        isinstance(atom, Object | Instance | Function | Class | Module | Symbol) for atom in value
    )
