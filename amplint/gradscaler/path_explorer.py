"""All paths through a function that trains: which events happen on them, in which order.

A function is run over its instructions, on all paths at once; what it calls of the project is run
in its place. Nothing is computed: values are symbolic. A test splits a path unless its outcome is
known: the same test is decided the same way again on one path.

Paths that can differ in nothing any more become one where they meet: all that is still read holds
the same values, and no test that was decided on them is met again. So what is explored grows with
the number of tests whose outcomes have to be remembered together, and not with that of all tests.
What is read and tested later is learned from the run before; the first run that teaches nothing new
is the result.

Where more than `LIMITS` allows would have to be kept apart, paths become one by force: what they
differ in is unknown from there on, and an event says that anything may have happened to the
gradients. Such functions are named in `widened`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from amplint.core.values import Class, Function, Instance, Module, Object, Symbol
from amplint.core.walks import reachable
from amplint.gradscaler.event_index import EventIndex
from amplint.gradscaler.events import (
    CHAINED,
    Event,
    Kind,
    Role,
    divides_by_zero,
    is_module,
    may_recast,
    may_train,
    parameters_of,
    surely_scaler,
)
from amplint.gradscaler.instructions import EXITS, Code, Compiler, Do, Instruction
from amplint.gradscaler.symbolic_values import NOTHING, Symbolic, SymbolicValues, Term, operands_of
from amplint.inference import SiteId, State
from amplint.ir import ops
from amplint.ir.model import Graph, Node

LIMITS = {
    "paths": 256,  # that are kept apart at one place
    "steps": 60_000,  # nodes that are run, over all paths; then calls are not followed any more
    "calls": 5,  # calls within calls
    "runs": 8,  # until one teaches nothing new
}

OPPOSITES = {"NotEq": "Eq", "IsNot": "Is", "NotIn": "In"}
UNREAD = frozenset(
    {ops.CALL, ops.STORE, *EXITS}
)  # nodes whose value is unknown unless they are run

# The objects for which some events are any.
CONCERNED = {
    Kind.UNSCALE: (Role.SCALER, Role.DISABLED),
    Kind.UPDATE: (Role.SCALER,),
    Kind.STEP: (Role.SCALER, Role.DISABLED, Role.OPTIMIZER, Role.SCHEDULER),
}
Key = TypeVar("Key")
Item = TypeVar("Item")
Time = tuple[int, ...]  # the numbers of the instructions that are being run, from the outermost
Decision = tuple[Symbolic, bool]  # a test and its outcome
Field = tuple[Symbolic, str]  # an object and the name of an attribute
Site = tuple[SiteId, ...]


class Occurrence(NamedTuple):
    """An event on a path.

    Args:
        site: the call nodes from the outermost function to the call itself.
        object, argument: as in `Event`, as symbolic values; `NOTHING` without one.
        guards: the tests around it, with their outcomes.
    """

    kind: Kind
    site: Site
    object: Symbolic
    argument: Symbolic
    guards: frozenset[Decision]


class Step(NamedTuple):
    """A step of one path or several: an event, a decision, or that paths meet.

    Args:
        before: the numbers of the steps before it.
    """

    before: tuple[int, ...]
    event: Occurrence | None = None
    decision: Decision | None = None


@dataclass(frozen=True)
class Paths:
    """All paths through a function.

    Args:
        steps: each after those before it; the first is the start of all paths.
        ends: the last step of each path.
        tests: by symbolic value, the tests (their places) whose outcome depends on it.
    """

    steps: list[Step]
    ends: tuple[int, ...]
    tests: dict[Symbolic, set[SiteId]]


class Suspended(NamedTuple):
    """A caller: what its nodes hold, as far as it is read later."""

    values: tuple[tuple[int, Symbolic], ...]
    caller: Suspended | None


@dataclass(slots=True)
class Path:
    """The present state of one path, or of several that became one.

    Args:
        values: of the nodes that were run.
        derived: of nodes that were not, but are read.
        fields: what was stored in objects.
        decisions: the outcomes of tests.
        guards: the tests around, with their outcomes, from the outermost.
        half: the modules whose parameters are float16.
        step: the number of the last step.
        result: what the function returns.
    """

    values: dict[int, Symbolic]
    step: int
    fields: dict[Field, Symbolic] = field(default_factory=dict)
    decisions: dict[Symbolic, bool] = field(default_factory=dict)
    guards: tuple[frozenset[Decision], ...] = ()
    half: frozenset[Symbolic] = frozenset()
    caller: Suspended | None = None
    result: Symbolic = NOTHING
    derived: dict[int, Symbolic] = field(default_factory=dict)

    def copy(self) -> Path:
        return replace(
            self,
            values=dict(self.values),
            fields=dict(self.fields),
            decisions=dict(self.decisions),
            derived=dict(self.derived),
        )

    def key(self) -> tuple[object, ...]:
        """What paths that become one have in common."""
        return (
            frozenset(self.values.items()),
            frozenset(self.fields.items()),
            frozenset(self.decisions.items()),
            self.guards,
            self.half,
            self.caller,
            self.result,
        )


@dataclass
class Frame:
    """A function that is being run.

    Args:
        call: the call node in the frame `around`.
        depth: how many sides of tests are around that call.
        began: when it was called.
        within: the iterations of the loops around that call.
        position: the instruction that is being run.
        iterations: of the loops around it.
    """

    function: str
    state: State
    code: Code
    key: Symbolic
    around: Frame | None = None
    call: int = -1
    depth: int = 0
    began: Time = ()
    within: tuple[int, ...] = ()
    position: int = 0
    iterations: tuple[int, ...] = ()

    @property
    def graph(self) -> Graph:
        return self.state.graph

    @property
    def chain(self) -> Iterator[Frame]:
        """It, and those that run it."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.around

    @property
    def time(self) -> Time:
        return (*self.began, self.position)

    @property
    def all_iterations(self) -> tuple[int, ...]:
        """The iterations of all loops around."""
        return self.within + self.iterations


@dataclass
class Knowledge:
    """What runs teach: when a test or a field is asked for last, and what objects are."""

    tested: dict[Symbolic, Time] = field(default_factory=dict)
    read: dict[Field, Time] = field(default_factory=dict)
    roles: dict[Symbolic, Role] = field(default_factory=dict)

    def copy(self) -> Knowledge:
        return Knowledge(dict(self.tested), dict(self.read), dict(self.roles))


class Explorer:
    """Runs a function until all that happens on its paths is known."""

    def __init__(self, index: EventIndex, codes: dict[str, Code]) -> None:
        """
        Args:
            codes: of functions that were run before; those of others are added.
        """
        self.index = index
        self.inference = index.inference
        self.symbols = SymbolicValues()
        self.modules: dict[Symbolic, Symbolic] = {}  # whose parameters an optimizer was given
        self.dividing: set[Symbolic] = set()  # optimizers as in `divides_by_zero`
        self.switched: set[Symbolic] = set()  # what may be a scaler that is off, or None
        self.tests: dict[Symbolic, set[SiteId]] = {}
        self.widened = False
        self.ran = 0  # nodes, in the last run
        self._codes = codes
        self._learned = Knowledge()
        self._known = Knowledge()
        self._steps: list[Step] = []

    @property
    def roles(self) -> dict[Symbolic, Role]:
        return self._learned.roles

    def explore(self, function: str) -> Paths | None:
        """All paths through a function; None where each of many runs teaches something new."""
        for _ in range(LIMITS["runs"]):
            self._known = self._learned.copy()
            ends = self._run_all(function)
            if self._known == self._learned:
                return Paths(self._steps, ends, self.tests)
        self.widened = True
        return None

    def _run_all(self, function: str) -> tuple[int, ...]:
        self._steps = [Step(())]
        self.ran, self.widened = 0, False
        key = self.symbols.of("function", function)
        frame = Frame(function, self.inference.states[function], self.code(function), key)
        return tuple(path.step for path in self.run(frame, [Path({}, 0)]))

    def code(self, function: str) -> Code:
        if function not in self._codes:
            self._codes[function] = Compiler(self.index, function).compile()
        return self._codes[function]

    # -- running

    def run(self, frame: Frame, paths: list[Path]) -> list[Path]:
        """The paths at the end of a function."""
        code = frame.code
        waiting: dict[int, list[Path]] = {}
        for position, instruction in enumerate(code.instructions):
            frame.position = position
            if position in code.joins:
                paths = self.join(frame, paths + waiting.pop(position, []), instruction.depth)
            if instruction.do in (Do.ITERATE, Do.END):
                frame.iterations = instruction.iterations
            if paths:
                paths = self.step(frame, instruction, paths, waiting)
        frame.position = len(code.instructions)
        return self.join(frame, paths + waiting.pop(frame.position, []), 0)

    def step(
        self,
        frame: Frame,
        instruction: Instruction,
        paths: list[Path],
        waiting: dict[int, list[Path]],
    ) -> list[Path]:
        """Run one instruction; the paths that go on with the next."""
        number = instruction.node
        match instruction.do:
            case Do.RUN:
                return self.node(frame, number, paths)
            case Do.TEST:
                return self.test(frame, instruction, paths, waiting)
            case Do.ASSUME:
                return [
                    path
                    for path in paths
                    if self.assume(frame, path, self.at(frame, path, number), instruction.wanted)
                ]
            case Do.LEAVE:
                node = frame.graph.nodes[number]
                if node.op == ops.RETURN:
                    for path in paths:
                        path.result = self.at(frame, path, node.operands[0])
                target = frame.code.targets[frame.position]
                waiting.setdefault(target, []).extend(paths)
                return []
            case Do.ITERATE:
                for path in paths:
                    self.iterate(frame, path, instruction.block)
            case Do.CLOSE:
                for path in paths:
                    self.note(frame, path, number, Kind.ELSEWHERE)
            case Do.END:
                pass
        return paths

    def iterate(self, frame: Frame, path: Path, block: int) -> None:
        """What a name holds at the start of an iteration is what the last one left in it."""
        code, nodes = frame.code, frame.graph.nodes
        carried = {
            number: self.joined(frame, path, number) for number in code.carried.get(block, ())
        }
        path.values = {
            number: value
            for number, value in path.values.items()
            if not code.is_within(nodes[number].block, block)
        }
        path.values |= carried
        path.derived = {}

    def node(self, frame: Frame, number: int, paths: list[Path]) -> list[Path]:
        self.ran += len(paths)
        node = frame.graph.nodes[number]
        if node.op == ops.CALL:
            return self.call(frame, number, node, paths)
        for path in paths:
            if node.op == ops.STORE:
                thing, value = (self.at(frame, path, operand) for operand in node.operands)
                path.fields[thing, node.data] = value
            elif node.op not in (ops.PHI, ops.PARAM) or number not in path.values:
                path.values[number] = self.value(frame, path, number)
        return paths

    # -- where paths meet

    def join(self, frame: Frame, paths: list[Path], depth: int) -> list[Path]:
        """The paths that meet at the present instruction, as few as possible."""
        for path in paths:
            self.forget(frame, path)
            path.guards = path.guards[: frame.depth + depth]
        if len(paths) < 2:
            return paths
        alike: dict[tuple[object, ...], list[Path]] = {}
        for path in paths:
            alike.setdefault(path.key(), []).append(path)
        joined = [self.merged(group) for group in alike.values()]
        most = 1 if self.ran > LIMITS["steps"] else LIMITS["paths"]
        return [self.widen(frame, joined)] if len(joined) > most else joined

    def forget(self, frame: Frame, path: Path) -> None:
        """Drop what is not read any more."""
        now = frame.time
        self.forget_values(frame, path)
        tested, read = self._known.tested, self._known.read
        path.decisions = {
            test: outcome for test, outcome in path.decisions.items() if tested.get(test, ()) >= now
        }
        path.fields = {
            each: value for each, value in path.fields.items() if read.get(each, ()) >= now
        }

    def forget_values(self, frame: Frame, path: Path) -> None:
        position, code = frame.position, frame.code
        path.derived = {}
        path.values = {
            number: value for number, value in path.values.items() if code.is_read(number, position)
        }

    def merged(self, paths: list[Path]) -> Path:
        """One path for several that can differ in nothing any more."""
        steps = dict.fromkeys(path.step for path in paths)
        if len(steps) > 1:
            paths[0].step = self.add(Step(tuple(steps)))
        return paths[0]

    def widen(self, frame: Frame, paths: list[Path]) -> Path:
        """One path for several by force: what they differ in is unknown."""
        self.widened = True
        values = self.common_values(frame, [path.values for path in paths])
        one = Path(
            values,
            self.merged(paths).step,
            common([path.fields for path in paths]),
            common([path.decisions for path in paths]),
            tuple(
                frozenset.intersection(*guards)
                for guards in zip(*(path.guards for path in paths), strict=True)
            ),
            caller=self.common_caller(frame.around, [path.caller for path in paths]),
        )
        results = {path.result for path in paths}
        one.result = results.pop() if len(results) == 1 else self.several(frame, -1)
        self.note(frame, one, -1, Kind.ELSEWHERE)
        return one

    def common_values(
        self, frame: Frame, all_values: list[dict[int, Symbolic]]
    ) -> dict[int, Symbolic]:
        return {
            number: value
            if all(values[number] == value for values in all_values)
            else self.several(frame, number)
            for number, value in all_values[0].items()
            if all(number in values for values in all_values)
        }

    def common_caller(
        self, frame: Frame | None, callers: list[Suspended | None]
    ) -> Suspended | None:
        if frame is None or len(set(callers)) == 1:
            return callers[0]
        known = [caller for caller in callers if caller is not None]
        values = self.common_values(frame, [dict(caller.values) for caller in known])
        outer = self.common_caller(frame.around, [caller.caller for caller in known])
        return Suspended(tuple(values.items()), outer)

    def several(self, frame: Frame, number: int) -> Symbolic:
        """What a node holds on paths that became one by force; -1 is what the function returns."""
        return self.symbols.of("several", frame.key, number, frame.iterations)

    def add(self, step: Step) -> int:
        self._steps.append(step)
        return len(self._steps) - 1

    # -- values

    def unique(self, frame: Frame, number: int) -> Symbolic:
        """What a node gives in this iteration, whatever it is."""
        return self.symbols.of("result", frame.key, number, frame.iterations)

    def at(self, frame: Frame, path: Path, number: int) -> Symbolic:
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
                for operand in (() if node.op == ops.PHI or node.op in UNREAD else node.operands)
                if operand not in values and operand not in derived
            ]
            if missing:
                pending += missing
                continue
            pending.pop()
            unread = node.op in UNREAD
            derived[last] = self.unique(frame, last) if unread else self.value(frame, path, last)
        return derived[number]

    def value(self, frame: Frame, path: Path, number: int) -> Symbolic:
        """The value of a node that calls nothing, from those of its operands."""
        found = self.evaluate(frame, path, number, frame.graph.nodes[number])
        return self.unique(frame, number) if self.symbols.is_deep(found) else found

    def evaluate(self, frame: Frame, path: Path, number: int, node: Node) -> Symbolic:
        match node.op:
            case ops.CONST:
                return self.symbols.constant(node.data)
            case ops.PARAM if frame.around is None:
                return self.symbols.of("param", frame.function, node.data)
            case ops.NAME:
                return self.free(frame, path, node.data)
            case ops.NARROW:
                return self.at(frame, path, node.operands[0])
            case ops.PHI:
                return self.joined(frame, path, number)
            case ops.ATTR:
                return self.attribute(frame, path, self.at(frame, path, node.operands[0]), node)
            case ops.DEF | ops.CLASS | ops.LAMBDA:
                return self.symbols.of("def", node.data)
            case ops.IMPORT:
                return self.symbols.of("import", *node.data)
            case ops.ENTER:
                return self.symbols.of("enter", self.at(frame, path, node.operands[0]))
            case (
                ops.BINOP
                | ops.UNARY
                | ops.COMPARE
                | ops.BOOL
                | ops.SUBSCRIPT
                | ops.TUPLE
                | ops.LIST
                | ops.AUG
            ):
                operands = (self.at(frame, path, operand) for operand in node.operands)
                return self.symbols.of("op", node.op, node.data, *operands)
            case ops.UNPACK:
                return self.unpacked(self.at(frame, path, node.operands[0]), node.data)
            case ops.ITER if not frame.iterations or frame.iterations[-1] < 0:
                # What loops over the same optimizers draw is the same, one after the other.
                return self.symbols.of("each", self.at(frame, path, node.operands[0]))
            case _:
                return self.unique(frame, number)

    def attribute(self, frame: Frame, path: Path, thing: Symbolic, node: Node) -> Symbolic:
        read = self._learned.read
        read[thing, node.data] = max(read.get((thing, node.data), ()), frame.time)
        found = path.fields.get((thing, node.data))
        return found if found is not None else self.symbols.of("attr", thing, node.data)

    def unpacked(self, whole: Symbolic, data: tuple[int, int, bool]) -> Symbolic:
        index, count, starred = data
        term = self.symbols[whole]
        if term[:2] == ("op", ops.TUPLE) and len(term) == 3 + count and not starred:
            return Symbolic(term[3 + index])
        return self.symbols.of("unpack", whole, index)

    def free(self, frame: Frame, path: Path, name: str) -> Symbolic:
        """A name of a function around this one, which may be running, or of a module."""
        scope = self.inference.functions[frame.function].parent
        while scope is not None:
            facts = self.inference.functions[scope]
            bindings = self.inference.files[facts.path].graph(scope).bindings
            if name in bindings and facts.kind != "class":
                return self.bound(frame, path, scope, name)
            scope = facts.parent
        return self.symbols.of("name", name)

    def bound(self, frame: Frame, path: Path, scope: str, name: str) -> Symbolic:
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

    def joined(self, frame: Frame, path: Path, number: int) -> Symbolic:
        """What a name holds where paths meet: what this path has put into it."""
        node, code, nodes = frame.graph.nodes[number], frame.code, frame.graph.nodes
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

    # -- calls

    def call(self, frame: Frame, number: int, node: Node, paths: list[Path]) -> list[Path]:
        """Run a call on all paths; what it runs of the project is run on all of them together."""
        found = self.index.of[frame.function].get(number)
        if found is not None:
            return self.event(frame, number, found, paths)
        site = (frame.function, number)
        callees = self.index.callees(site)
        if callees:
            return self.run_callees(frame, number, node, callees, paths)
        known = self.inference.edges.get(site, set())
        constructing = []
        for path in paths:
            value = self.unfollowed(frame, path, number, node, known)
            if value is None:
                constructing.append(path)
            else:
                path.values[number] = value
        if not constructing:
            return paths
        others = [path for path in paths if number in path.values]
        return others + self.run_constructor(frame, number, node, known, constructing)

    def unfollowed(
        self, frame: Frame, path: Path, number: int, node: Node, known: set[str]
    ) -> Symbolic | None:
        """What a call gives that leads to no event; None for the constructor of an object that may
        keep a scaler or an optimizer that it is given."""
        itself = self.chained(frame, path, node)
        if itself is not None:
            return itself
        if path.half:
            for other in may_recast(frame.state, number, known):
                self.cast(frame, path, number, self.at(frame, path, other))
        roles = {self.role(frame, path, operand) for operand in node.operands[1:]}
        if known and roles & {Role.SCALER, Role.OPTIMIZER}:
            return None
        if not known and may_train(frame.state, number, roles):
            self.note(frame, path, number, Kind.ELSEWHERE)
        if is_object(frame.state, number):
            return self.made(frame, path, number, node)
        # Asked the same again in the same iteration, a function says the same.
        operands = [self.at(frame, path, operand) for operand in node.operands]
        if any(map(self.symbols.is_deep, operands)):
            return self.unique(frame, number)
        return self.symbols.of("call", node.data.keywords, frame.all_iterations, *operands)

    def made(self, frame: Frame, path: Path, number: int, node: Node) -> Symbolic:
        """A new object."""
        made = self.unique(frame, number)
        path.decisions.setdefault(made, True)
        if self.role(frame, path, number) is Role.OPTIMIZER:
            self.modules[made] = self.at(frame, path, parameters_of(frame.state, node))
            if divides_by_zero(frame.state, number):
                self.dividing.add(made)
        return made

    def chained(self, frame: Frame, path: Path, node: Node) -> Symbolic | None:
        """The module that one of its own methods returns."""
        callee = frame.graph.nodes[node.operands[0]]
        if callee.op != ops.ATTR or callee.data not in CHAINED:
            return None
        owner = callee.operands[0]
        if not is_module(frame.state.values[owner], self.inference):
            return None
        return self.at(frame, path, owner)

    def event(self, frame: Frame, number: int, found: Event, paths: list[Path]) -> list[Path]:
        closures: dict[str, list[Path]] = {}
        ready: list[tuple[Path, Symbolic, Symbolic]] = []
        for path in paths:
            thing = self.at(frame, path, found.object)
            given = self.at(frame, path, found.argument)
            if surely_scaler(self.inference, frame.state, number, found):
                self.roles.setdefault(thing, Role.SCALER)
                if not self.assume(frame, path, thing, True):  # nothing else has these methods
                    continue
            self.role(frame, path, found.object)
            if found.kind is not Kind.IS_ENABLED:
                self.role(frame, path, found.argument)
            closure = self.symbols[given] if given >= 0 else ()
            if found.kind is Kind.STEP and closure[:1] == ("def",):
                closures.setdefault(str(closure[1]), []).append(path)
            else:
                ready.append((path, thing, given))
        for function, stepping in closures.items():
            # `optimizer.step(closure)` runs the closure first.
            ended = self.run_closure(frame, number, function, stepping)
            ready += [(path, self.at(frame, path, found.object), NOTHING) for path in ended]
        for path, thing, given in ready:
            path.values[number] = self.happen(frame, path, number, found.kind, thing, given)
        return [path for path, _, _ in ready]

    def happen(
        self,
        frame: Frame,
        path: Path,
        number: int,
        kind: Kind,
        thing: Symbolic,
        given: Symbolic,
    ) -> Symbolic:
        """The result of an event, which is noted if it changes anything."""
        match kind:
            case Kind.IS_ENABLED:
                return self.symbols.constant(True)
            case Kind.SCALE:
                scaled = self.symbols.of("scaled", thing, given)
                return self.unique(frame, number) if self.symbols.is_deep(scaled) else scaled
            case Kind.HALF:
                path.half |= {thing}
                self.note(frame, path, number, kind, thing)
                return thing
            case Kind.CAST:
                self.cast(frame, path, number, thing)
                return thing
            case _:
                self.note(frame, path, number, kind, thing, given)
                return self.unique(frame, number)

    def cast(self, frame: Frame, path: Path, number: int, thing: Symbolic) -> None:
        """A cast of parameters, to something other than float16; noted where they are."""
        if thing in path.half:
            path.half -= {thing}
            self.note(frame, path, number, Kind.CAST, thing)

    def note(
        self,
        frame: Frame,
        path: Path,
        number: int,
        kind: Kind,
        thing: Symbolic = NOTHING,
        given: Symbolic = NOTHING,
    ) -> None:
        """Write an event into the steps of a path, if it is one for the object that it is about."""
        object_role = self.roles.get(thing, Role.UNKNOWN)
        if not (object_role in CONCERNED.get(kind, (object_role,)) or self.may_wrap(kind, thing)):
            return
        calls = [(inner.around.function, inner.call) for inner in frame.chain if inner.around]
        site = (*reversed(calls), (frame.function, number))
        guards = frozenset[Decision]().union(*path.guards)
        occurrence = Occurrence(kind, site, thing, given, guards)
        path.step = self.add(Step((path.step,), event=occurrence))

    def may_wrap(self, kind: Kind, thing: Symbolic) -> bool:
        """Whether it may be the step of an optimizer that knows the scaler."""
        return kind is Kind.STEP and thing >= 0 and self.symbols.is_handed_out(thing)

    def role(self, frame: Frame, path: Path, number: int) -> Role:
        """What a node's object is; noted for its symbolic value, if it is known."""
        if number < 0:
            return Role.OTHER
        found, may_be_off = self.index.role((frame.function, number))
        symbol = self.at(frame, path, number)
        if may_be_off:
            self.switched.add(symbol)
        if found is Role.UNKNOWN:
            return self.roles.get(symbol, found)
        if self.roles.get(symbol) is Role.DISABLED and found is Role.SCALER:
            return Role.DISABLED  # others pass one that is enabled to the same function
        if found is not Role.OTHER or symbol not in self.roles:
            self.roles[symbol] = found
        return found

    def run_closure(
        self, frame: Frame, number: int, function: str, paths: list[Path]
    ) -> list[Path]:
        if function not in self.inference.states:
            return paths
        return self.run_function(frame, number, function, [(path, {}) for path in paths])

    def run_constructor(
        self, frame: Frame, number: int, node: Node, callees: set[str], paths: list[Path]
    ) -> list[Path]:
        """An object that is given a scaler or an optimizer may keep it as a field."""
        if len(callees) == 1:
            (function,) = callees
            if self.inference.functions[function].name == "__init__":
                return self.run_callees(frame, number, node, callees, paths)
        for path in paths:
            path.values[number] = self.unique(frame, number)
        return paths

    def run_callees(
        self, frame: Frame, number: int, node: Node, callees: set[str], paths: list[Path]
    ) -> list[Path]:
        if len(callees) == 1 and not self.inference.drawn.get((frame.function, number)):
            (function,) = callees
            state = self.inference.states.get(function)
            if state is not None and not state.graph.yields:
                given = [
                    (path, self.arguments(frame, path, number, node, function)) for path in paths
                ]
                paths = self.run_function(frame, number, function, given)
                if self.inference.functions[function].name == "__init__":
                    for path in paths:
                        path.values[number] = self.unique(frame, number)
                return paths
        return self.elsewhere(frame, number, paths)

    def elsewhere(self, frame: Frame, number: int, paths: list[Path]) -> list[Path]:
        """A call that may do anything to the gradients."""
        for path in paths:
            self.note(frame, path, number, Kind.ELSEWHERE)
            path.values[number] = self.unique(frame, number)
        return paths

    def run_function(
        self,
        frame: Frame,
        number: int,
        function: str,
        given: list[tuple[Path, dict[str, Symbolic]]],
    ) -> list[Path]:
        """Run a function on paths, each with the arguments that it gives."""
        depth, running = -1, False
        for above in frame.chain:
            depth += 1
            running = running or above.function == function
        if depth >= LIMITS["calls"] or running:
            return self.elsewhere(frame, number, [path for path, _ in given])
        if self.ran > LIMITS["steps"]:
            self.widened = True
            return self.elsewhere(frame, number, [path for path, _ in given])
        state, code = self.inference.states[function], self.code(function)
        key = self.symbols.of("called", frame.key, number, frame.iterations)
        around = frame.depth + frame.code.instructions[frame.position].depth
        inner = Frame(
            function, state, code, key, frame, number, around, frame.time, frame.all_iterations
        )
        parameters = {
            node.data: each for each, node in enumerate(state.graph.nodes) if node.op == ops.PARAM
        }
        none = self.symbols.constant(None)
        for path, arguments in given:
            self.forget_values(frame, path)
            path.caller = Suspended(tuple(sorted(path.values.items())), path.caller)
            path.values = {
                parameters[name]: value for name, value in arguments.items() if name in parameters
            }
            path.derived = {}
            path.result = none
        ended = self.run(inner, [path for path, _ in given])
        for path in ended:
            assert path.caller is not None
            path.values, path.caller = dict(path.caller.values), path.caller.caller
            path.values[number] = path.result if path.result >= 0 else none
            path.result = NOTHING
        return ended

    def arguments(
        self, frame: Frame, path: Path, number: int, node: Node, function: str
    ) -> dict[str, Symbolic]:
        """The values of the parameters of a function that is called, as far as they are known."""
        facts = self.inference.functions[function]
        names = [p.name for p in facts.params if p.kind == "positional"]
        given: dict[str, Symbolic] = {}
        receiver = self.receiver(frame, path, number, node, function)
        if receiver is not None and names:
            given[names.pop(0)] = receiver
        shape = node.data
        operands = node.operands[1:]
        if not shape.stars:
            given.update(
                (name, self.at(frame, path, operand))
                for name, operand in zip(names, operands[: shape.positional], strict=False)
            )
            for p in facts.params:
                if p.constant_default:
                    given.setdefault(p.name, self.symbols.constant(p.default))
        for name, operand in zip(shape.keywords, operands[shape.positional :], strict=True):
            if name != "**":
                given[name] = self.at(frame, path, operand)
        return given

    def receiver(
        self, frame: Frame, path: Path, number: int, node: Node, function: str
    ) -> Symbolic | None:
        """What `self` is in a function that is called; None where it takes none."""
        facts = self.inference.functions[function]
        if facts.cls is None or "staticmethod" in facts.decorated:
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

    # -- tests

    def test(
        self,
        frame: Frame,
        instruction: Instruction,
        paths: list[Path],
        waiting: dict[int, list[Path]],
    ) -> list[Path]:
        """Split the paths at a test; those that jump wait where they jump to."""
        entering = []
        jumping = waiting.setdefault(frame.code.targets[frame.position], [])
        for path in paths:
            test = self.at(frame, path, instruction.node)
            for each, outcome, asked in self.outcomes(frame, path, test, instruction.node):
                if outcome is instruction.wanted:
                    each.guards = (*each.guards, frozenset((a, each.decisions[a]) for a in asked))
                    entering.append(each)
                else:
                    jumping.append(each)
        return entering

    def outcomes(
        self, frame: Frame, path: Path, test: Symbolic, number: int
    ) -> Iterator[tuple[Path, bool, Iterable[Symbolic]]]:
        """The paths into which a test splits one, each with the outcome and the tests it has been
        made of."""
        pending = [path]
        while pending:
            path = pending.pop()
            asked: dict[Symbolic, bool | None] = {}
            outcome = self.holds(test, path.decisions, asked)
            for atom in asked:
                self.tests.setdefault(atom, set()).add((frame.function, number))
                self.learn_test(frame, atom)
            if outcome is not None:
                yield path, outcome, asked
                continue
            atom = next(atom for atom, known in asked.items() if known is None)
            for assumed in (False, True):
                split = path.copy()
                self.decide(split, atom, assumed)
                pending.append(split)

    def holds(
        self,
        test: Symbolic,
        decisions: dict[Symbolic, bool],
        asked: dict[Symbolic, bool | None],
    ) -> bool | None:
        """The outcome of a test; None where it depends on one that is not decided yet.

        Args:
            asked: the outcomes of the tests it is made of are added.
        """
        term = self.symbols[test]
        if term[0] == "const":
            return bool(term[2])
        if term[:3] == ("op", ops.UNARY, "Not"):
            inner = self.holds(term[3], decisions, asked)
            return None if inner is None else not inner
        if term[:2] == ("op", ops.BOOL):
            stops = term[2] == "Or"
            for part in dict.fromkeys(term[3:]):
                inner = self.holds(part, decisions, asked)
                if inner is None or inner is stops:
                    return inner
            return not stops
        atom, negated = self.atom(test)
        if self.symbols[atom][0] == "const":
            return bool(self.symbols[atom][2]) is not negated
        asked[atom] = outcome = decisions.get(atom)
        return None if outcome is None else outcome is not negated

    def atom(self, test: Symbolic) -> tuple[Symbolic, bool]:
        """What a comparison comes to, and whether it is its opposite."""
        term = self.symbols[test]
        if term[:2] != ("op", ops.COMPARE) or len(term) != 5 or len(term[2]) != 1:
            return test, False
        (operator,), left, right = term[2], term[3], term[4]
        negated = operator in OPPOSITES
        operator = OPPOSITES.get(operator, operator)
        one, other = self.symbols[left], self.symbols[right]
        if operator in ("Is", "Eq") and other[0] == "const":
            if one[0] == "const":
                return self.symbols.constant(one[2] == other[2]), negated
            if other[2] is None:
                return left, not negated  # `x is None`: what is there, is true
            if isinstance(other[2], bool):
                return left, negated is other[2]
        return self.symbols.of("op", ops.COMPARE, (operator,), left, right), negated

    def assume(self, frame: Frame, path: Path, test: Symbolic, outcome: bool) -> bool:
        """Decide what must be so on a path if a test has this outcome; False if it cannot have."""
        pending = {(test, outcome): None}
        done: set[Decision] = set()
        while pending:
            (test, outcome), _ = pending.popitem()
            done.add((test, outcome))
            term = self.symbols[test]
            if term[:3] == ("op", ops.UNARY, "Not"):
                implied = [(term[3], not outcome)]
            elif term[:2] == ("op", ops.BOOL):
                implied = [(p, outcome) for p in term[3:]] if outcome is (term[2] == "And") else []
            elif self.is_refuted(frame, path, test, outcome):
                return False
            else:
                continue
            pending.update(dict.fromkeys(each for each in implied if each not in done))
        return True

    def is_refuted(self, frame: Frame, path: Path, test: Symbolic, outcome: bool) -> bool:
        """Whether a test has the other outcome on a path; if it is not decided, it has this one."""
        atom, negated = self.atom(test)
        wanted = outcome is not negated
        if self.symbols[atom][0] == "const":
            return False
        self.learn_test(frame, atom)
        if atom not in path.decisions:
            self.decide(path, atom, wanted)
        return path.decisions[atom] is not wanted

    def decide(self, path: Path, atom: Symbolic, outcome: bool) -> None:
        path.decisions[atom] = outcome
        path.step = self.add(Step((path.step,), decision=(atom, outcome)))

    def learn_test(self, frame: Frame, atom: Symbolic) -> None:
        tested = self._learned.tested
        tested[atom] = max(tested.get(atom, ()), frame.time)

    # -- what a symbolic value says

    def scalers_of(self, loss: Symbolic) -> frozenset[Symbolic] | None:
        """The scalers that have scaled a loss; None where it is not known who may have."""
        found: dict[Symbolic, frozenset[Symbolic] | None] = {}
        # A term comes after those that it is made of.
        for value in sorted(reachable([loss], lambda each: operands_of(self.symbols[each]))):
            found[value] = self._scalers_of(self.symbols[value], found)
        return found[loss]

    def _scalers_of(
        self, term: Term, found: dict[Symbolic, frozenset[Symbolic] | None]
    ) -> frozenset[Symbolic] | None:
        match term[0]:
            case "scaled":
                if self.roles.get(term[1]) is Role.SCALER:
                    return frozenset({term[1]})
                return found[term[2]] if self.roles.get(term[1]) is Role.DISABLED else None
            case "op":
                known = [each for each in map(found.__getitem__, term[3:]) if each is not None]
                return frozenset().union(*known) if len(known) == len(term) - 3 else None
            case "attr" | "unpack":
                return found[term[1]]
            case "call":
                return None if self._may_scale(term) else frozenset()
            case "const" | "each":
                return frozenset()
            case _:
                return None

    def _may_scale(self, call: Term) -> bool:
        """Whether a function, by its name or by what it is given, may return a scaled loss."""
        name = str(self.symbols[call[3]][-1])
        given = (self.symbols[part][0] == "scaled" for part in call[4:])
        return "scal" in name.lower() or any(given)


def common(dictionaries: list[dict[Key, Item]]) -> dict[Key, Item]:
    """The items that are in all of them."""
    first, *others = dictionaries
    return {
        key: item
        for key, item in first.items()
        if all(key in other and other[key] == item for other in others)
    }


def is_super(graph: Graph, number: int) -> bool:
    """Whether a node is `super()`."""
    node = graph.nodes[number]
    if node.op != ops.CALL:
        return False
    callee = graph.nodes[node.operands[0]]
    return callee.op in (ops.ATTR, ops.NAME) and callee.data == "super"


def first_parameter(graph: Graph) -> int:
    return next((number for number, node in enumerate(graph.nodes) if node.op == ops.PARAM), -1)


def is_object(state: State, number: int) -> bool:
    """Whether a call gives something that is true, as objects are."""
    value = state.values[number]
    return bool(value) and all(
        isinstance(atom, Object | Instance | Function | Class | Module | Symbol) for atom in value
    )
