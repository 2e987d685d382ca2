"""All paths through a function that trains, with the events on them, in their order.

A function is run over its instructions, on all paths at once; what it calls of the project is run
in its place. Nothing is computed: values are symbolic. A test splits a path unless its outcome is
known. Where paths meet with the same values, as far as these are still read, they become one, which
has the condition under which either gets there. So what is explored grows with the number of values
that have to be kept apart, and not with that of paths. What is read and tested later is learned
from the run before; the first run that teaches nothing new is the result.

Where more than `LIMITS` allows would have to be kept apart, paths become one by force: what they
differ in is unknown from there on, and an event says that anything may have happened to the
gradients. Such a function is `widened`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from amplint.gradscaler.decision_diagram import TRUE, DecisionDiagrams
from amplint.gradscaler.decisions import Decisions
from amplint.gradscaler.evaluator import Evaluator, is_object
from amplint.gradscaler.event_index import EventIndex
from amplint.gradscaler.events import (
    CHAINED,
    Role,
    TrainingEvent,
    TrainingEventKind,
    acts_as_scaler,
    divides_by_zero,
    hands_on,
    is_adam,
    is_module,
    may_recast,
    unknown_event,
)
from amplint.gradscaler.instructions import Compiler, Do, FunctionCode, Instruction
from amplint.gradscaler.parameter_lists import given_to_collector, modules_of
from amplint.gradscaler.paths import (
    Activation,
    Decision,
    Knowledge,
    Occurrence,
    Paths,
    PathState,
    PathStep,
    PathSteps,
    Suspended,
)
from amplint.gradscaler.symbolic_values import NOTHING, Symbolic, SymbolicValues
from amplint.ir import ops
from amplint.ir.model import Node

LIMITS = {
    "paths": 64,  # that are kept apart at one place
    "conditions": 50_000,  # nodes of decision diagrams; then paths are not kept apart any more
    "nodes": 20_000,  # that are run, over all paths; then calls are not followed, either
    "calls": 5,  # calls within calls
    "runs": 8,  # until one teaches nothing new
}

# The objects for which some events are any.
CONCERNED = {
    TrainingEventKind.UNSCALE: (Role.SCALER, Role.DISABLED),
    TrainingEventKind.UPDATE: (Role.SCALER,),
    TrainingEventKind.STEP: (Role.SCALER, Role.DISABLED, Role.OPTIMIZER, Role.SCHEDULER),
}
Key = TypeVar("Key")
Item = TypeVar("Item")


class Explorer:
    """Runs a function until all that happens on its paths is known."""

    def __init__(self, index: EventIndex, codes: dict[str, FunctionCode]) -> None:
        """
        Args:
            codes: of functions that were run before; those of others are added.
        """
        self.index = index
        self.inference = index.inference
        self.symbols = SymbolicValues()
        self.diagrams = DecisionDiagrams()
        self.knowledge = Knowledge()
        self.evaluator = Evaluator(index, self.symbols, self.knowledge)
        self.decisions = Decisions(self.symbols, self.diagrams, self.knowledge)
        self.steps = PathSteps()
        # By optimizer, the modules whose parameters it was given.
        self.modules: dict[Symbolic, Sequence[Symbolic]] = {}
        self.dividing: set[Symbolic] = set()  # optimizers as in `divides_by_zero`
        self.adams: set[Symbolic] = set()  # those as in `is_adam`
        self.widened = False
        self.ran = 0  # nodes, in the last run
        self._codes = codes

    def explore(self, function: str) -> Paths | None:
        """All paths through a function; None where each of many runs teaches something new."""
        for _ in range(LIMITS["runs"]):
            self.knowledge.begin_run()
            ends = self._run_all(function)
            if self.knowledge.is_complete():
                return Paths(
                    self.steps.all,
                    ends,
                    self.symbols,
                    self.diagrams,
                    self.decisions.places,
                    self.knowledge.roles,
                    self.modules,
                    self.dividing,
                    self.adams,
                    self.evaluator.may_be_off,
                )
        self.widened = True
        return None

    def _run_all(self, function: str) -> tuple[int, ...]:
        self.steps = PathSteps()
        self.ran, self.widened = 0, False
        key = self.symbols.of("function", function)
        frame = Activation(function, self.inference.states[function], self.code(function), key)
        return tuple(path.step for path in self.run(frame, [PathState({}, 0)]))

    def code(self, function: str) -> FunctionCode:
        if function not in self._codes:
            self._codes[function] = Compiler(self.index, function).compile()
        return self._codes[function]

    # -- running

    def run(self, frame: Activation, paths: list[PathState]) -> list[PathState]:
        """The paths at the end of a function."""
        code = frame.code
        waiting: dict[int, list[PathState]] = {}
        for position, instruction in enumerate(code.instructions):
            frame.position = position
            if position in code.joins:
                paths = self.join(frame, waiting.pop(position, []) + paths, instruction.depth)
            if instruction.do in (Do.ITERATE, Do.END):
                frame.iterations = instruction.iterations
            if paths:
                paths = self.step(frame, instruction, paths, waiting)
        frame.position = len(code.instructions)
        return self.join(frame, waiting.pop(frame.position, []) + paths, 0)

    def step(
        self,
        frame: Activation,
        instruction: Instruction,
        paths: list[PathState],
        waiting: dict[int, list[PathState]],
    ) -> list[PathState]:
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
                    self.note(frame, path, number, TrainingEventKind.ELSEWHERE)
            case Do.END:
                pass
        return paths

    def iterate(self, frame: Activation, path: PathState, block: int) -> None:
        """Begin an iteration: a name holds what the last one left in it."""
        code, nodes = frame.code, frame.graph.nodes
        carried = {
            number: self.evaluator.joined(frame, path, number)
            for number in code.carried.get(block, ())
        }
        self.forget_values(frame, path)
        path.values = {
            number: value
            for number, value in path.values.items()
            if not code.is_within(nodes[number].block, block)
        }
        path.values |= carried

    def node(self, frame: Activation, number: int, paths: list[PathState]) -> list[PathState]:
        self.ran += len(paths)
        node = frame.graph.nodes[number]
        if node.op == ops.CALL:
            return self.call(frame, number, node, paths)
        for path in paths:
            if node.op == ops.STORE:
                thing, value = (self.at(frame, path, operand) for operand in node.operands)
                path.fields[thing, node.data] = value
            elif node.op not in (ops.PHI, ops.PARAM) or number not in path.values:
                path.values[number] = self.evaluator.value(frame, path, number)
        return paths

    def test(
        self,
        frame: Activation,
        instruction: Instruction,
        paths: list[PathState],
        waiting: dict[int, list[PathState]],
    ) -> list[PathState]:
        """Split the paths at a test; those that jump wait where they jump to."""
        entering = []
        number = instruction.node
        jumping = waiting.setdefault(frame.code.targets[frame.position], [])
        for path in paths:
            test = self.at(frame, path, number)
            for each, outcome, guards in self.decisions.outcomes(
                frame, path, test, number, self.steps
            ):
                if outcome is instruction.wanted:
                    each.guards = (*each.guards, guards)
                    entering.append(each)
                else:
                    jumping.append(each)
        return entering

    def assume(self, frame: Activation, path: PathState, test: Symbolic, outcome: bool) -> bool:
        return self.decisions.assume(frame, path, test, outcome, self.steps)

    def at(self, frame: Activation, path: PathState, number: int) -> Symbolic:
        return self.evaluator.at(frame, path, number)

    # -- where paths meet

    def join(self, frame: Activation, paths: list[PathState], depth: int) -> list[PathState]:
        """The paths that meet at the present instruction, as few as possible."""
        for path in paths:
            self.forget(frame, path)
            path.guards = path.guards[: frame.depth + depth]
        if len(paths) < 2:
            return paths
        alike: dict[tuple[object, ...], list[PathState]] = {}
        for path in paths:
            alike.setdefault(path.key(), []).append(path)
        joined = [self.merged(frame, group) for group in alike.values()]
        most = 1 if self.is_full else LIMITS["paths"]
        return [self.widen(frame, joined)] if len(joined) > most else joined

    @property
    def is_full(self) -> bool:
        return self.ran > LIMITS["nodes"] or len(self.diagrams) > LIMITS["conditions"]

    def forget(self, frame: Activation, path: PathState) -> None:
        """Drop what is not read any more."""
        now, knowledge = frame.time, self.knowledge
        self.forget_values(frame, path)
        path.fields = {
            each: value for each, value in path.fields.items() if knowledge.is_asked_from(each, now)
        }

    def forget_values(self, frame: Activation, path: PathState) -> None:
        path.derived = {}
        path.values = frame.code.still_read(path.values, frame.position)

    def merged(self, frame: Activation, paths: list[PathState]) -> PathState:
        """One path for several that hold the same values."""
        now, one = frame.time, paths[0]
        one.step = self.steps.join([path.step for path in paths])
        condition = self.diagrams.any(path.condition for path in paths)
        one.condition = self.diagrams.where(
            condition, lambda test: self.knowledge.is_asked_from(test, now)
        )
        return one

    def widen(self, frame: Activation, paths: list[PathState]) -> PathState:
        """One path for several by force: what they differ in is unknown."""
        self.widened = True
        values = self.common_values(frame, [path.values for path in paths])
        one = PathState(
            values,
            self.steps.join([path.step for path in paths]),
            common([path.fields for path in paths]),
            TRUE if self.is_full else self.diagrams.any(path.condition for path in paths),
            tuple(
                frozenset.intersection(*guards)
                for guards in zip(*(path.guards for path in paths), strict=True)
            ),
            caller=self.common_caller(frame.around, [path.caller for path in paths]),
        )
        results = {path.result for path in paths}
        one.result = results.pop() if len(results) == 1 else self.evaluator.several(frame, -1)
        self.note(frame, one, -1, TrainingEventKind.ELSEWHERE)
        return one

    def common_values(
        self, frame: Activation, all_values: list[dict[int, Symbolic]]
    ) -> dict[int, Symbolic]:
        return {
            number: value
            if all(values[number] == value for values in all_values)
            else self.evaluator.several(frame, number)
            for number, value in all_values[0].items()
            if all(number in values for values in all_values)
        }

    def common_caller(
        self, frame: Activation | None, callers: list[Suspended | None]
    ) -> Suspended | None:
        if frame is None or len(set(callers)) == 1:
            return callers[0]
        known = [caller for caller in callers if caller is not None]
        values = self.common_values(frame, [dict(caller.values) for caller in known])
        outer = self.common_caller(frame.around, [caller.caller for caller in known])
        return Suspended(tuple(values.items()), outer)

    # -- calls

    def call(
        self, frame: Activation, number: int, node: Node, paths: list[PathState]
    ) -> list[PathState]:
        """Run a call on all paths; what it runs of the project is run on all of them together."""
        found = self.index.of[frame.function].get(number)
        if found is not None:
            return self.event(frame, number, found, paths)
        site = (frame.function, number)
        callees = self.index.callees(site)
        if callees:
            return self.run_callees(frame, number, node, callees, paths)
        known = self.inference.calls.edges.get(site, set())
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
        self, frame: Activation, path: PathState, number: int, node: Node, known: set[str]
    ) -> Symbolic | None:
        """The result of a call that leads to no event; None for the constructor of an object that
        may keep a scaler or an optimizer that it is given."""
        itself = self.chained(frame, path, node)
        if itself is not None:
            return itself
        if path.half:
            collected = given_to_collector(self.inference, frame.function, number)
            for other in may_recast(frame.state, number, known):
                if other not in collected:
                    self.cast(frame, path, number, self.at(frame, path, other))
        roles = {self.evaluator.role(frame, path, operand) for operand in node.arguments}
        if known and roles & {Role.SCALER, Role.OPTIMIZER}:
            return None
        kind = None if known else unknown_event(frame.state, number, roles)
        if kind is not None:
            self.note(frame, path, number, kind)
        if is_object(frame.state, number):
            return self.made(frame, path, number)
        result = self.evaluator.call(frame, path, number, node)
        if self.modules and hands_on(self.inference, frame.state.values[node.operands[0]]):
            self.hand_on(frame, path, node, result)
        return result

    def hand_on(self, frame: Activation, path: PathState, node: Node, result: Symbolic) -> None:
        """The optimizers among the results of a call have the parameters of those that it is
        given."""
        given = [self.at(frame, path, operand) for operand in node.positional]
        for index, optimizer in enumerate(given):
            of = self.symbols.of("unpack", result, index) if len(given) > 1 else result
            if optimizer in self.modules and not node.data.stars:
                self.modules[of] = self.modules[optimizer]

    def made(self, frame: Activation, path: PathState, number: int) -> Symbolic:
        """A new object."""
        made = self.evaluator.unique(frame, number)
        self.decisions.assume_object(path, made)
        if self.evaluator.role(frame, path, number) is Role.OPTIMIZER:
            given = modules_of(self.inference, frame.function, number)
            self.modules[made] = [self.at(frame, path, module) for module in given]
            if divides_by_zero(frame.state, number):
                self.dividing.add(made)
            if is_adam(frame.state.values[number]):
                self.adams.add(made)
        return made

    def chained(self, frame: Activation, path: PathState, node: Node) -> Symbolic | None:
        """The module that one of its own methods returns."""
        callee = frame.graph.nodes[node.operands[0]]
        if callee.op != ops.ATTR or callee.data not in CHAINED:
            return None
        owner = callee.operands[0]
        if not is_module(frame.state.values[owner], self.inference):
            return None
        return self.at(frame, path, owner)

    def event(
        self, frame: Activation, number: int, found: TrainingEvent, paths: list[PathState]
    ) -> list[PathState]:
        closures: dict[str, list[PathState]] = {}
        ready: list[tuple[PathState, Symbolic, Symbolic]] = []
        for path in paths:
            thing = self.at(frame, path, found.object)
            given = self.at(frame, path, found.argument)
            if acts_as_scaler(self.inference, frame.state, number, found):
                self.knowledge.roles.setdefault(thing, Role.SCALER)
                if found.kind in (TrainingEventKind.UNSCALE, TrainingEventKind.STEP) and given >= 0:
                    # Of whatever class it is: `optimizer_class(parameters)`.
                    self.knowledge.roles.setdefault(given, Role.OPTIMIZER)
                if not self.assume(frame, path, thing, True):  # nothing else has these methods
                    continue
            self.evaluator.role(frame, path, found.object)
            if found.kind is not TrainingEventKind.IS_ENABLED:
                self.evaluator.role(frame, path, found.argument)
            closure = self.symbols[given] if given >= 0 else ()
            if found.kind is TrainingEventKind.STEP and closure[:1] == ("def",):
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
        frame: Activation,
        path: PathState,
        number: int,
        kind: TrainingEventKind,
        thing: Symbolic,
        given: Symbolic,
    ) -> Symbolic:
        """The result of an event, which is noted if it changes anything."""
        match kind:
            case TrainingEventKind.IS_ENABLED:
                return self.symbols.constant(True)
            case TrainingEventKind.SCALE:
                return self.evaluator.scaled(frame, number, thing, given)
            case TrainingEventKind.HALF | TrainingEventKind.BFLOAT16:
                path.half |= {thing}
                self.note(frame, path, number, kind, thing)
                return thing
            case TrainingEventKind.CAST:
                self.cast(frame, path, number, thing)
                return thing
            case TrainingEventKind.CLIP:
                self.note(frame, path, number, kind, thing, given)
                norm = self.evaluator.unique(frame, number)
                self.symbols.note_periodic(norm)  # `if norm < limit` has either outcome
                # `if norm is not None` asks whether something was clipped.
                self.decisions.assume_object(path, norm)
                return norm
            case _:
                self.note(frame, path, number, kind, thing, given)
                return self.evaluator.unique(frame, number)

    def cast(self, frame: Activation, path: PathState, number: int, thing: Symbolic) -> None:
        """A cast of parameters that were 16-bit to something else, which is noted."""
        if thing in path.half:
            path.half -= {thing}
            self.note(frame, path, number, TrainingEventKind.CAST, thing)

    def note(
        self,
        frame: Activation,
        path: PathState,
        number: int,
        kind: TrainingEventKind,
        thing: Symbolic = NOTHING,
        given: Symbolic = NOTHING,
    ) -> None:
        """Write an event into the steps of a path, if it is one for the object that it is about."""
        object_role = self.knowledge.roles.get(thing, Role.UNKNOWN)
        if not (object_role in CONCERNED.get(kind, (object_role,)) or self.may_wrap(kind, thing)):
            return
        calls = [(inner.around.function, inner.call) for inner in frame.chain if inner.around]
        site = (*reversed(calls), (frame.function, number))
        guards = frozenset[Decision]().union(*path.guards)
        occurrence = Occurrence(kind, site, thing, given, guards)
        path.step = self.steps.add(PathStep((path.step,), event=occurrence))

    def may_wrap(self, kind: TrainingEventKind, thing: Symbolic) -> bool:
        """Whether it may be the step of an optimizer that knows the scaler."""
        return kind is TrainingEventKind.STEP and thing >= 0 and self.symbols.is_handed_out(thing)

    def run_closure(
        self, frame: Activation, number: int, function: str, paths: list[PathState]
    ) -> list[PathState]:
        if function not in self.inference.states:
            return paths
        return self.run_function(frame, number, function, [(path, {}) for path in paths])

    def run_constructor(
        self, frame: Activation, number: int, node: Node, callees: set[str], paths: list[PathState]
    ) -> list[PathState]:
        """An object that is given a scaler or an optimizer may keep it as a field."""
        if len(callees) == 1:
            (function,) = callees
            if self.inference.functions[function].name == "__init__":
                return self.run_callees(frame, number, node, callees, paths)
        for path in paths:
            path.values[number] = self.evaluator.unique(frame, number)
        return paths

    def run_callees(
        self, frame: Activation, number: int, node: Node, callees: set[str], paths: list[PathState]
    ) -> list[PathState]:
        if len(callees) == 1 and not self.inference.calls.drawn.get((frame.function, number)):
            (function,) = callees
            state = self.inference.states.get(function)
            if state is not None and not state.graph.yields:
                given = [
                    (path, self.evaluator.arguments(frame, path, number, node, function))
                    for path in paths
                ]
                paths = self.run_function(frame, number, function, given)
                if self.inference.functions[function].name == "__init__":
                    for path in paths:
                        path.values[number] = self.evaluator.unique(frame, number)
                return paths
        return self.elsewhere(frame, number, paths)

    def elsewhere(self, frame: Activation, number: int, paths: list[PathState]) -> list[PathState]:
        """A call that may do anything to the gradients."""
        for path in paths:
            self.note(frame, path, number, TrainingEventKind.ELSEWHERE)
            path.values[number] = self.evaluator.unique(frame, number)
        return paths

    def run_function(
        self,
        frame: Activation,
        number: int,
        function: str,
        given: list[tuple[PathState, dict[str, Symbolic]]],
    ) -> list[PathState]:
        """Run a function on paths, each with its arguments."""
        depth, running = -1, False
        for above in frame.chain:
            depth += 1
            running = running or above.function == function
        if depth >= LIMITS["calls"] or running:
            return self.elsewhere(frame, number, [path for path, _ in given])
        if self.ran > LIMITS["nodes"]:
            self.widened = True
            return self.elsewhere(frame, number, [path for path, _ in given])
        state, code = self.inference.states[function], self.code(function)
        key = self.symbols.of("called", frame.key, number, frame.iterations)
        around = frame.depth + frame.code.instructions[frame.position].depth
        inner = Activation(
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


def common(dictionaries: list[dict[Key, Item]]) -> dict[Key, Item]:
    """The items that are in all of them."""
    first, *others = dictionaries
    return {
        key: item
        for key, item in first.items()
        if all(key in other and other[key] == item for other in others)
    }
