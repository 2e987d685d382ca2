"""Runs a function that trains once, in order, over all sides of its tests.

The functions of the project that it calls are run in their places. Nothing is computed: values are
symbolic. Where the sides of a test meet, a value is one of those that they have left, each with the
outcome that leads to it. All that may happen is written into a `TrainingTrace`.

Where more than `LIMITS` allows would have to be run, an event says that anything may have happened
to the gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from amplint.gradscaler.control_flow import SIDES, ControlFlow, control_flow
from amplint.gradscaler.evaluator import (
    Activation,
    Evaluator,
    Guards,
    Whereabouts,
    is_object,
)
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
from amplint.gradscaler.outcomes import Decision, Outcomes
from amplint.gradscaler.parameter_lists import modules_of
from amplint.gradscaler.symbolic_values import NOTHING, Symbolic
from amplint.gradscaler.trace import Occurrence, TraceStep, TrainingTrace
from amplint.ir import ops
from amplint.ir.flow import method_called
from amplint.ir.model import LOOPS, Node

LIMITS = {
    "nodes": 20_000,  # that are run; then calls are not followed
    "calls": 5,  # calls within calls
    "runs": 4,  # until one teaches nothing new of what objects are
}
ITERATIONS = 2  # of an innermost loop around a backward pass, or around that and a step
ONCE = -1  # the number of the iteration of a loop that is run once

# The objects for which some events are any.
CONCERNED = {
    TrainingEventKind.UNSCALE: (Role.SCALER, Role.DISABLED),
    TrainingEventKind.UPDATE: (Role.SCALER,),
    TrainingEventKind.STEP: (Role.SCALER, Role.DISABLED, Role.OPTIMIZER, Role.SCHEDULER),
}


@dataclass
class OpenBlock:
    """A block that is being run.

    Args:
        end: the node after it.
        decision: of a side of a test, that test and its outcome.
        other: where the other outcome leads; None if it cannot be, or leads nowhere.
        guards, decided: of a side of a test, the tests around it, and how many were decided there.
        is_aside: whether it does not matter, and changes nothing but values.
        closing: the context whose end may do anything; -1 without one.
        iteration: of a loop, which one this is.
        continued, broken: what has left an iteration, and the loop.
    """

    block: int
    end: int
    decision: Decision | None = None
    other: Whereabouts | None = None
    guards: Guards = frozenset()
    decided: int = 0
    is_aside: bool = False
    closing: int = -1
    iteration: int | None = None
    continued: list[Whereabouts] = field(default_factory=list)
    broken: list[Whereabouts] = field(default_factory=list)


class Interpreter(Evaluator):
    """Runs a function until all that may happen in it is known."""

    def __init__(self, index: EventIndex, flows: dict[str, ControlFlow]) -> None:
        """
        Args:
            flows: of functions that were run before; those of others are added.
        """
        super().__init__(index)
        self.half: set[Symbolic] = set()  # the modules whose parameters may be 16-bit
        self.ran = 0  # nodes, in this run
        self._flows = flows

    def explore(self, function: str) -> TrainingTrace:
        """All that may happen in a function."""
        key = self.symbols.of("function", function)
        for _ in range(LIMITS["runs"]):
            roles = dict(self.trace.roles)
            self.trace.steps, self.trace.is_complete = [TraceStep(())], True
            self.outcomes, self.half, self.ran = Outcomes(self.symbols), set(), 0
            self.here = Whereabouts(0, {})
            self.run(self.activation(function, key))
            self.trace.ends = (self.here.step,) if self.here is not None else ()
            if self.trace.roles == roles:
                break
        self.trace.steps = [
            step if self.is_concerned(step.event) else step._replace(event=None)
            for step in self.trace.steps
        ]
        return self.trace

    def is_concerned(self, event: Occurrence | None) -> bool:
        """Whether an event is one for the object that it is about."""
        if event is None:
            return True
        role = self.trace.roles.get(event.object, Role.UNKNOWN)
        wraps = (  # the step of an optimizer that knows the scaler, perhaps
            event.kind is TrainingEventKind.STEP
            and event.object >= 0
            and self.symbols.is_handed_out(event.object)
        )
        return wraps or role in CONCERNED.get(event.kind, (role,))

    def activation(
        self, function: str, key: Symbolic, around: Activation | None = None, call: int = -1
    ) -> Activation:
        if function not in self._flows:
            self._flows[function] = control_flow(self.index, function)
        within = around.all_iterations if around is not None else ()
        state = self.inference.states[function]
        return Activation(function, state, self._flows[function], key, around, call, within)

    # -- the blocks of a function

    def run(self, frame: Activation) -> Symbolic:
        """Run a function; what it returns."""
        nodes = frame.graph.nodes
        opened: list[OpenBlock] = []
        ways: list[tuple[Whereabouts | None, Guards]] = []
        values: list[tuple[Symbolic, Guards]] = []
        around = self.guards
        number = 0
        while number < len(nodes) or opened:
            if opened and (opened[-1].end <= number or self.here is None):
                number = self.close(frame, opened)
            elif (left_out := self.open(frame, opened, number)) >= 0:
                number = left_out
            else:
                node = nodes[number]
                if node.op == ops.RETURN:
                    ways.append((self.here, self.guards - around))
                    values.append((self.at(frame, node.operands[0]), self.guards - around))
                    self.here = None
                elif node.op in (ops.BREAK, ops.CONTINUE):
                    self.leave(opened, node)
                else:
                    self.node(frame, number, node, is_aside=opened[-1].is_aside)
                number += 1
        if self.here is not None:
            ways.append((self.here, Guards()))
            values.append((self.symbols.constant(None), Guards()))
        self.here = self.meet(frame, -1, ways)
        return self.choice(frame, -1, frame.iterations, values)

    def leave(self, opened: list[OpenBlock], node: Node) -> None:
        """A `break` or `continue`."""
        loop = next((each for each in reversed(opened) if each.iteration is not None), None)
        if loop is not None and self.here is not None:
            (loop.broken if node.op == ops.BREAK else loop.continued).append(self.here)
            self.here = None

    def open(self, frame: Activation, opened: list[OpenBlock], number: int) -> int:
        """Begin the blocks that begin with a node; where to go on if one is left out, else -1."""
        for block in frame.flow.begins.get(number, ()):
            if opened and block <= opened[-1].block:
                continue  # it is running, in another iteration
            facts, end = frame.graph.blocks[block], frame.graph.nodes_in(block).stop
            begun = None
            if (opened and opened[-1].is_aside) or (
                facts.kind in LOOPS and block not in frame.flow.needed
            ):
                if facts.kind != "handler" and block not in frame.flow.raising:
                    begun = OpenBlock(block, end, is_aside=True)
            elif facts.kind in SIDES:
                begun = self.side(frame, block, end)
            elif facts.kind in LOOPS:
                iteration = 0 if block in frame.flow.repeated else ONCE
                begun = OpenBlock(block, end, iteration=iteration)
                frame.iterations = (*frame.iterations, iteration)
                self.iterate(frame, block)
            elif facts.kind in ("body", "with", "try", "finally"):
                trains = facts.kind == "with" and self.index.callees((frame.function, facts.node))
                begun = OpenBlock(block, end, closing=facts.node if trains else -1)
            if begun is None:
                return end
            opened.append(begun)
        return -1

    def iterate(self, frame: Activation, block: int) -> None:
        """Begin an iteration: a name holds what the last one left in it."""
        within = frame.graph.nodes_in(block)
        carried = {
            number: self.joined(frame, number) for number in frame.flow.carried.get(block, ())
        }
        frame.values = {n: value for n, value in frame.values.items() if n not in within} | carried

    def side(self, frame: Activation, block: int, end: int) -> OpenBlock | None:
        """Begin one side of a test, unless it is left out."""
        facts, flow = frame.graph.blocks[block], frame.flow
        outcome, raises = SIDES[facts.kind], block in flow.raising
        if raises or block in flow.sure:
            decision = self.at(frame, facts.node), outcome is not raises
            self.outcomes.decide(*decision)
            self.here = self.here and self.assume(self.here, decision)
            return None if raises else OpenBlock(block, end)
        if block not in flow.needed:
            return OpenBlock(block, end, is_aside=facts.kind != "after")
        test = self.at(frame, facts.node)
        self.trace.tests.setdefault((frame.function, facts.node), set()).add(test)
        actual, other = self.outcomes.of(test), None
        if actual is (not outcome) or self.here is None:
            return None
        if actual is None:
            before = self.here
            other = self.assume(before._replace(fields=dict(before.fields)), (test, not outcome))
            self.here = self.assume(before, (test, outcome))
        return self.begin_side(block, end, (test, outcome), other)

    def assume(self, here: Whereabouts, decision: Decision) -> Whereabouts:
        """The place, with one outcome of a test alone."""
        return here._replace(step=self.trace.add(TraceStep((here.step,), decision=decision)))

    def begin_side(
        self, block: int, end: int, decision: Decision, other: Whereabouts | None
    ) -> OpenBlock:
        begun = OpenBlock(block, end, decision, other, self.guards, len(self.outcomes.decided))
        self.outcomes.decide(*decision)
        self.guards |= {decision}
        return begun

    def close(self, frame: Activation, opened: list[OpenBlock]) -> int:
        """End a block; where to go on."""
        ended = opened.pop()
        if ended.decision is not None:
            self.guards = ended.guards
            self.outcomes.forget(ended.decided)
            self.end_side(frame, ended, ended.decision, opened)
        elif ended.iteration is not None:
            return self.end_iteration(frame, ended, ended.iteration, opened)
        elif ended.closing >= 0:
            self.note(frame, ended.closing, TrainingEventKind.ELSEWHERE)
        return ended.end

    def end_iteration(
        self, frame: Activation, ended: OpenBlock, iteration: int, opened: list[OpenBlock]
    ) -> int:
        block, around = ended.block, frame.iterations[:-1]
        self.here = self.meet(
            frame, block, [(each, Guards()) for each in (self.here, *ended.continued)]
        )
        if 0 <= iteration < ITERATIONS - 1 and self.here is not None:
            opened.append(replace(ended, iteration=iteration + 1, continued=[]))
            frame.iterations = (*around, iteration + 1)
            self.iterate(frame, block)
            return frame.graph.nodes_in(block).start
        frame.iterations = around
        self.here = self.meet(
            frame, block, [(each, Guards()) for each in (self.here, *ended.broken)]
        )
        return ended.end

    def end_side(
        self, frame: Activation, ended: OpenBlock, decision: Decision, opened: list[OpenBlock]
    ) -> None:
        """End one side of a test: the other one follows, or both meet."""
        test, outcome = decision
        twin = frame.flow.twins.get(ended.block)
        if twin is not None and ended.other is not None:
            first, self.here = self.here, ended.other
            end = frame.graph.nodes_in(twin).stop
            opened.append(self.begin_side(twin, end, (test, not outcome), first))
        else:
            ways = [(self.here, Guards({decision})), (ended.other, Guards({(test, not outcome)}))]
            self.here = self.meet(frame, ended.block, ways)

    def meet(
        self, frame: Activation, place: object, ways: Sequence[tuple[Whereabouts | None, Guards]]
    ) -> Whereabouts | None:
        """The place where several ways meet, each with the outcomes of tests that lead there."""
        reached = [(way, under) for way, under in ways if way is not None]
        if len(reached) < 2:
            return reached[0][0] if reached else None
        (first, _), *others = reached
        # Most fields hold the same on all ways: they are compared at C speed.
        differing = {
            each for way, _ in others for each, _ in first.fields.items() ^ way.fields.items()
        }
        fields = first.fields | {
            each: self.choice(
                frame,
                (place, each),
                frame.iterations,
                [(way.fields.get(each, self.symbols.of("attr", *each)), w) for way, w in reached],
            )
            for each in sorted(differing)
        }
        return Whereabouts(self.trace.join(way.step for way, _ in reached), fields)

    def node(self, frame: Activation, number: int, node: Node, *, is_aside: bool) -> None:
        self.ran += 1
        if is_aside:
            is_result = node.op == ops.CALL and not is_object(frame.state, number)
            give = self.result if is_result else self.value
            frame.aside[number] = give(frame, number)
            return
        frame.under[number] = self.guards
        if node.op == ops.CALL:
            frame.values[number] = self.call(frame, number, node)
        elif node.op == ops.STORE:
            thing, value = (self.at(frame, operand) for operand in node.operands)
            if self.here is not None:
                self.here.fields[thing, node.data] = value
        elif node.op not in (ops.PHI, ops.PARAM) or number not in frame.values:
            frame.values[number] = self.value(frame, number)

    # -- calls

    def call(self, frame: Activation, number: int, node: Node) -> Symbolic:
        """Run a call; its result."""
        event = self.index.of[frame.function].get(number)
        if event is not None:
            return self.event(frame, number, event)
        site = (frame.function, number)
        callees = self.index.callees(site)
        if callees:
            return self.run_callees(frame, number, node, callees)
        functions = self.inference.calls.edges.get(site, set())
        itself = self.chained(frame, node)
        if itself is not None:
            return itself
        if self.half:
            for other in may_recast(frame.state, number, functions):
                self.cast(frame, number, self.at(frame, other))
        roles = {self.role(frame, operand) for operand in node.arguments}
        if functions and roles & {Role.SCALER, Role.OPTIMIZER}:
            return self.run_constructor(frame, number, node, functions)
        kind = None if functions else unknown_event(frame.state, number, roles)
        if kind is not None:
            self.note(frame, number, kind)
        if is_object(frame.state, number):
            return self.new_object(frame, number)
        result = self.result(frame, number)
        if self.trace.modules and hands_on(self.inference, frame.state.values[node.operands[0]]):
            self.hand_on(frame, node, result)
        return result

    def hand_on(self, frame: Activation, node: Node, result: Symbolic) -> None:
        """The optimizers among the results of a call have the parameters of those that it is
        given."""
        modules = self.trace.modules
        arguments = [self.at(frame, operand) for operand in node.positional]
        for index, optimizer in enumerate(arguments):
            of = self.symbols.of("unpack", result, index) if len(arguments) > 1 else result
            if optimizer in modules and not node.data.stars:
                modules[of] = modules[optimizer]

    def new_object(self, frame: Activation, number: int) -> Symbolic:
        """A new object."""
        symbol = self.unique(frame, number)
        self.symbols.note_object(symbol)
        if self.role(frame, number) is Role.OPTIMIZER:
            modules = modules_of(self.inference, frame.function, number)
            self.trace.modules[symbol] = [self.at(frame, module) for module in modules]
            if divides_by_zero(frame.state, number):
                self.trace.dividing.add(symbol)
            if is_adam(frame.state.values[number]):
                self.trace.adams.add(symbol)
        return symbol

    def chained(self, frame: Activation, node: Node) -> Symbolic | None:
        """The module that one of its own methods returns."""
        method, owner = method_called(frame.graph, node)
        if method not in CHAINED or not is_module(frame.state.values[owner], self.inference):
            return None
        return self.at(frame, owner)

    def event(self, frame: Activation, number: int, event: TrainingEvent) -> Symbolic:
        """The result of an event, which is noted if it changes anything."""
        kind, roles = event.kind, self.trace.roles
        thing, argument = self.at(frame, event.object), self.at(frame, event.argument)
        if acts_as_scaler(self.inference, frame.state, number, event):
            roles.setdefault(thing, Role.SCALER)
            if kind in (TrainingEventKind.UNSCALE, TrainingEventKind.STEP) and argument >= 0:
                # Of whatever class it is: `optimizer_class(parameters)`.
                roles.setdefault(argument, Role.OPTIMIZER)
        self.role(frame, event.object)
        if kind is not TrainingEventKind.IS_ENABLED:
            self.role(frame, event.argument)
        closure = self.symbols[argument] if argument >= 0 else ()
        if kind is TrainingEventKind.STEP and closure[:1] == ("def",):
            # `optimizer.step(closure)` runs the closure first.
            if closure[1] in self.inference.states:
                self.run_function(frame, number, str(closure[1]), {})
            argument = NOTHING
        match kind:
            case TrainingEventKind.IS_ENABLED:
                return self.symbols.constant(True)
            case TrainingEventKind.SCALE:
                return self.made_of(frame, number, "scaled", thing, argument)
            case TrainingEventKind.HALF | TrainingEventKind.BFLOAT16:
                self.half.add(thing)
                self.note(frame, number, kind, thing)
                return thing
            case TrainingEventKind.CAST:
                self.cast(frame, number, thing)
                return thing
            case _:
                self.note(frame, number, kind, thing, argument)
        result = self.unique(frame, number)
        if kind is TrainingEventKind.CLIP:
            self.symbols.note_periodic(result)  # `if norm < limit` has either outcome
            self.symbols.note_object(result)  # `if norm is not None` asks whether it was clipped
        return result

    def cast(self, frame: Activation, number: int, thing: Symbolic) -> None:
        """A cast of parameters that may be 16-bit to something else, which is noted."""
        if thing in self.half:
            self.note(frame, number, TrainingEventKind.CAST, thing)

    def note(
        self,
        frame: Activation,
        number: int,
        kind: TrainingEventKind,
        thing: Symbolic = NOTHING,
        argument: Symbolic = NOTHING,
    ) -> None:
        """Add an event to the trace."""
        if self.here is None:
            return
        calls = [(inner.around.function, inner.call) for inner in frame.chain if inner.around]
        site = (*reversed(calls), (frame.function, number))
        event = Occurrence(kind, site, thing, argument, self.guards)
        self.here = self.here._replace(step=self.trace.add(TraceStep((self.here.step,), event)))

    def run_constructor(
        self, frame: Activation, number: int, node: Node, callees: set[str]
    ) -> Symbolic:
        """An object that is given a scaler or an optimizer may keep it as a field."""
        if len(callees) == 1:
            (function,) = callees
            if self.inference.functions[function].name == "__init__":
                return self.run_callees(frame, number, node, callees)
        return self.unique(frame, number)

    def run_callees(
        self, frame: Activation, number: int, node: Node, callees: set[str]
    ) -> Symbolic:
        if len(callees) == 1 and not self.inference.calls.choices.get((frame.function, number)):
            (function,) = callees
            state = self.inference.states.get(function)
            if state is not None and not state.graph.yields:
                arguments = self.arguments(frame, number, node, function)
                result = self.run_function(frame, number, function, arguments)
                is_made = self.inference.functions[function].name == "__init__"
                return self.unique(frame, number) if is_made else result
        return self.elsewhere(frame, number)

    def elsewhere(self, frame: Activation, number: int) -> Symbolic:
        """A call that may do anything to the gradients."""
        self.note(frame, number, TrainingEventKind.ELSEWHERE)
        return self.unique(frame, number)

    def run_function(
        self, frame: Activation, number: int, function: str, arguments: dict[str, Symbolic]
    ) -> Symbolic:
        """Run a function with its arguments; what it returns."""
        running = [each.function for each in frame.chain]
        if self.ran > LIMITS["nodes"]:
            self.trace.is_complete = False
        if self.ran > LIMITS["nodes"] or len(running) > LIMITS["calls"] or function in running:
            return self.elsewhere(frame, number)
        key = self.symbols.of("called", frame.key, number, frame.iterations)
        inner = self.activation(function, key, frame, number)
        inner.values = {
            each: arguments[node.data]
            for each, node in enumerate(inner.graph.nodes)
            if node.op == ops.PARAM and node.data in arguments
        }
        return self.run(inner)
