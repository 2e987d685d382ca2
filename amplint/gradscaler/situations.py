"""The effects of the calls of a training step on a scaler and its optimizers, with the mistakes.

What cannot be seen is taken to be in order: gradients from before a function begins, whatever an
unknown function does. Where a backward pass may or may not reach the parameters of an optimizer,
both are kept, and a mistake is one only if nothing that is possible is right.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from amplint.findings.violations import Violation
from amplint.gradscaler.automaton import (
    LARGE,
    NO_CHECKS,
    NOTHING_TO_UPDATE,
    RIGHT,
    UNSCALED_TWICE,
    CallVerdict,
    Contribution,
    Effect,
    OptimizerState,
    Phase,
    StepCall,
    add,
    advance,
    hooked,
)
from amplint.gradscaler.drawn_optimizers import updates_for_each
from amplint.gradscaler.event_index import EventIndex
from amplint.gradscaler.events import CASTS, Role, TrainingEventKind
from amplint.gradscaler.losses import Scalers, scalers_of
from amplint.gradscaler.outcomes import Outcomes
from amplint.gradscaler.symbolic_values import Symbolic, operands_of
from amplint.gradscaler.trace import Occurrence, Site, TrainingTrace
from amplint.knowledge.vocabulary import INFINITIES
from amplint.util.walks import reachable

ALL: Symbolic = -1  # stands for all parameters, where it is not known whose are meant


class Mark(Enum):
    """Things that are remembered in a situation, besides calls and casts."""

    TRAINED = "a backward pass ran since the last step of the optimizer"
    SCHEDULED = "the scheduler has stepped since then"
    STEPPED = "the scaler of an optimizer has stepped with the gradients that are there"
    MET = "the scaler that an optimizer with several has met last"


# With the optimizer, scaler or module that it was for.
Remembered = tuple[StepCall | TrainingEventKind | Mark, Symbolic]


class Fault(NamedTuple):
    """A mistake, by the numbers of steps: the call to be changed, and the other."""

    violation: Violation
    here: int
    there: int
    raises: str = ""


class Situation(NamedTuple):
    """The state of a scaler and its optimizers, as far as it matters to what follows.

    Args:
        optimizers: by symbolic value, the states that each may have.
        checked: whether a gradient was looked at for infinities since the last update; None where
            that is not known.
        last: when something happened last, by the number of the step; of `Mark.MET`, the scaler.
    """

    optimizers: frozenset[tuple[Symbolic, frozenset[OptimizerState]]]
    checked: bool | None = None
    last: frozenset[tuple[Remembered, int]] = frozenset()


class TraceFacts:
    """The facts of a whole trace that its events are judged by."""

    def __init__(self, trace: TrainingTrace, index: EventIndex) -> None:
        self.trace = trace
        self.index = index
        # By optimizer, the scalers that are called with it.
        self.owners: dict[Symbolic, set[Symbolic]] = {}
        for event in trace.events:
            self._find_owner(event)

    def _find_owner(self, event: Occurrence) -> None:
        roles = self.trace.roles
        if (
            event.kind in (TrainingEventKind.UNSCALE, TrainingEventKind.STEP)
            and event.argument >= 0
        ):
            if roles.get(event.object) is Role.SCALER:
                self.owners.setdefault(event.argument, set()).add(event.object)
            elif roles.get(event.object) is Role.DISABLED:
                self.owners.setdefault(event.argument, set())
        elif roles.get(event.object) is Role.OPTIMIZER:
            self.owners.setdefault(event.object, set())

    @property
    def only(self) -> Symbolic | None:
        """The only optimizer."""
        return next(iter(self.owners)) if len(self.owners) == 1 else None

    @cached_property
    def is_of_framework(self) -> bool:
        """Whether a framework runs a backward pass, and scales the loss itself."""
        return any(event.kind is TrainingEventKind.SCALED_BACKWARD for event in self.trace.events)

    def _is_own(self, scaler: Symbolic) -> bool:
        """Whether the project has certainly made a scaler, for a variable or a field of `self`: any
        other may be the framework's."""
        term = self.trace.symbols[scaler]
        is_field = term[0] == "attr" and self.trace.symbols[term[1]][-1] == "self"
        return scaler not in self.trace.may_be_off and (is_field or term[0] == "result")

    @cached_property
    def _spoken(self) -> dict[str, frozenset[str]]:
        """The words of all functions that are run."""
        run = {function for event in self.trace.events for function, _ in event.site}
        functions = self.index.inference.functions
        return {function: frozenset(functions[function].words) for function in run}

    @cached_property
    def sets_gradients(self) -> bool:
        """Whether a function may write gradients: it speaks of `.grad`."""
        return any("grad" in words for words in self._spoken.values())

    @cached_property
    def speaks_of_own_parameters(self) -> bool:
        """Whether a function may have a library keep parameters of its own, and step on them."""
        libraries = self.index.inference.files.models.own_parameters
        spoken = (word.lower() for words in self._spoken.values() for word in words)
        return any(library in word for word in spoken for library in libraries)

    def looks_for_infinities(self, unscale: Site, step: Site) -> bool:
        """Whether a test asks for a norm of gradients, or any word speaks of infinite ones: in the
        function of these calls between the backward pass and the step, in others anywhere."""
        spoken = dict(self._spoken)
        function = step[-1][0]
        if unscale[:-1] == step[:-1] and unscale[-1][0] == function:
            events = self.index.of[function].items()
            training = (
                number for number, event in events if event.kind is TrainingEventKind.BACKWARD
            )
            numbers = (*training, unscale[-1][1], step[-1][1])
            spoken[function] = self.index.words_between(function, numbers)
        return self._tests_a_norm or any(
            INFINITIES.search(word) for words in spoken.values() for word in words
        )

    @cached_property
    def _tests_a_norm(self) -> bool:
        looks = {event.site[-1][1] for event in self.trace.events if event.kind in LOOKS}
        symbols = self.trace.symbols
        tests = frozenset[Symbolic]().union(*self.trace.tests.values())
        tested = reachable(tests, lambda each: operands_of(symbols[each]))
        return any(symbols[each][0] == "result" and symbols[each][2] in looks for each in tested)

    @cached_property
    def start(self) -> Situation:
        return Situation(frozenset((each, FRESH) for each in (*self.owners, ALL)))

    def scalers_of(self, event: Occurrence, outcomes: Outcomes) -> frozenset[Scalers | None]:
        """The scalers that may have scaled the loss of a backward pass, by `scalers_of`. That of a
        framework is the one that is called with its optimizers, unless it is the project's own: for
        that one the loss is as large as it was before."""
        if event.kind is TrainingEventKind.BACKWARD:
            return scalers_of(event.object, self.trace, outcomes)
        if event.kind is TrainingEventKind.SCALED_BACKWARD:
            called = frozenset[Symbolic]().union(*self.owners.values())
            if called and event.argument >= 0 and all(map(self._is_own, called)):
                return scalers_of(event.argument, self.trace, outcomes)
            return frozenset({called or frozenset({event.object})})
        return frozenset({None})


class SituatedEvent:
    """One event in one situation."""

    def __init__(self, around: TraceFacts, number: int, situation: Situation) -> None:
        self.around = around
        self.trace = around.trace
        self.owners = around.owners
        self.number = number
        self.optimizers = dict(situation.optimizers)
        self.checked = situation.checked
        self.last = dict(situation.last)
        self.raised = False
        self.calls: list[StepCall] = []

    def situation(self) -> Situation | None:
        """The situation after the event; None where it raises."""
        if self.raised:
            return None
        return Situation(frozenset(self.optimizers.items()), self.checked, self.asked_for())

    def asked_for(self) -> frozenset[tuple[Remembered, int]]:
        """All that later mistakes depend on, with the calls that one can have at its other end."""
        of_optimizers = {symbol: recalled(states) for symbol, states in self.optimizers.items()}
        of_scalers = frozenset[StepCall]().union(*of_optimizers.values()) - {StepCall.UPDATE}
        if self.checked is False:  # a second update would find nothing to do
            of_scalers |= {StepCall.UPDATE}
        return frozenset(
            (last, number)
            for last, number in self.last.items()
            if not isinstance(last[0], StepCall)
            or last[0] in of_optimizers.get(last[1], of_scalers)
        )

    def when(self, what: StepCall | TrainingEventKind | Mark, of: Symbolic = ALL) -> int:
        """The step at which something happened last; -1 if it did not."""
        return self.last.get((what, of), -1)

    def forget(self, *forgotten: TrainingEventKind | Mark) -> None:
        self.last = {each: step for each, step in self.last.items() if each[0] not in forgotten}

    def reset_gradients(self) -> None:
        """Forget all that calls have done: anything may have been changed but dtypes and hooks."""
        self.optimizers = dict.fromkeys((*self.owners, ALL), FRESH)
        self.checked = None
        self.last = {
            each: step for each, step in self.last.items() if isinstance(each[0], TrainingEventKind)
        }

    def hook(self) -> None:
        """A hook ran that nobody knows: a mistake is one only if it is so in each case."""
        self.forget(*CASTS, Mark.STEPPED, Mark.TRAINED, Mark.SCHEDULED)
        self.checked = None
        for symbol, possible in self.optimizers.items():
            self.optimizers[symbol] = frozenset().union(*map(hooked, possible))

    def take(self, event: Occurrence, scalers: Scalers | None) -> Iterator[Fault]:
        """The mistakes that the event makes.

        Args:
            scalers: of a backward pass, those that have scaled the loss; None where nobody knows.
        """
        only = self.around.only
        kind, thing, argument = event.kind, event.object, event.argument
        role = self.trace.roles.get(thing, Role.UNKNOWN)
        if kind is TrainingEventKind.ELSEWHERE:
            self.reset_gradients()
        elif kind is TrainingEventKind.HOOK:
            self.hook()
        elif kind in (TrainingEventKind.BACKWARD, TrainingEventKind.SCALED_BACKWARD):
            self.backward(scalers)
        elif kind in LOOKS:
            yield from self.call(event, LOOKS[kind], ALL if only is None else only)
        elif kind is TrainingEventKind.ZERO:
            self.zero(thing, argument)
        elif kind is TrainingEventKind.UPDATE and role is Role.SCALER:
            yield from self.update(event)
        elif kind in CASTS:
            for cast in CASTS:
                self.last.pop((cast, thing), None)
            if kind is not TrainingEventKind.CAST:
                self.last[kind, thing] = self.number
        elif self.is_refused(event):
            self.raised = True
            yield Fault(Violation.HALF_PARAMETERS, self.number, self.cast(argument), HALF_GRADIENTS)
        elif kind is TrainingEventKind.UNSCALE and role is Role.SCALER:
            self.checked = True
            self.meet(argument, thing)
            yield from self.mix(argument)
            yield from self.call(event, StepCall.UNSCALE, argument)
        elif kind is TrainingEventKind.STEP and role is Role.SCALER and argument >= 0:
            self.checked = True
            self.meet(argument, thing)
            yield from self.lose(argument)
            yield from self.call(event, StepCall.STEP, argument)
            self.last[StepCall.STEP, thing] = self.number
            self.last[Mark.STEPPED, argument] = self.number
        elif role is Role.DISABLED and self.around.is_of_framework:
            self.reset_gradients()  # it leaves the step to the optimizer, which the framework wraps
        elif kind is TrainingEventKind.STEP and role is Role.DISABLED and argument >= 0:
            yield from self.divide(argument)
            yield from self.lose(argument)
            yield from self.call(event, StepCall.PLAIN_STEP, argument)
        elif kind is TrainingEventKind.STEP and role is Role.SCHEDULER:
            if only is not None and self.when(Mark.TRAINED) >= 0:
                self.last[Mark.SCHEDULED, ALL] = self.number
        elif kind is TrainingEventKind.STEP and thing >= 0 and self.may_be_wrapped(thing):
            yield from self.step_of_framework(thing)
            self.forget(*CASTS)
            self.reset_gradients()
        elif kind is TrainingEventKind.STEP and thing in self.owners:
            yield from self.divide(thing)
            yield from self.lose(thing)
            yield from self.bypass(event, thing)
            yield from self.repeat(event, thing)
            yield from self.call(event, StepCall.PLAIN_STEP, thing)

    def bypass(self, event: Occurrence, optimizer: Symbolic) -> Iterator[Fault]:
        """A step that is made whether or not `unscale_` has found infinite gradients.

        The automaton calls it right, for so it is while all gradients are finite. A test of the
        norm, or any other that the step is made under, may do what the scaler would do.
        """
        unscaled = self.when(StepCall.UNSCALE, optimizer)
        before = self.trace.steps[unscaled].event if unscaled >= 0 else None
        if before is None or not event.guards <= before.guards:
            return
        states = self.optimizers[optimizer]
        # Without gradients where the backward pass may be for the parameters of another optimizer.
        gradients = {at.gradient for at in states if at.gradient is not None}
        if (
            gradients <= {frozenset({Contribution.UNSCALED})}  # or made before the function began
            and all(at.phase is Phase.UNSCALED for at in states)
            and not self.around.looks_for_infinities(before.site, event.site)
        ):
            yield Fault(Violation.STEP_BYPASSES_CHECK, self.number, unscaled)

    def mix(self, optimizer: Symbolic) -> Iterator[Fault]:
        """Gradients that are divided a second time, with those of another micro-batch added: with
        an `update()` in between nothing is raised.

        The step that is made with them is to blame, too; but they may be cleared before it.
        """
        unscaled = self.when(StepCall.UNSCALE, optimizer)
        states = self.optimizers[optimizer]
        if unscaled >= 0 and all(
            at.phase is Phase.READY and contributions(at) >= MIXED for at in states
        ):
            yield Fault(Violation.UNSCALED_EVERY_MICRO_BATCH, unscaled, self.number)

    def repeat(self, event: Occurrence, optimizer: Symbolic) -> Iterator[Fault]:
        """A step that is made whenever the scaler has made it, with the same gradients.

        Under a test of its own it may be for what the scaler does not do.
        """
        stepped = self.last.pop((Mark.STEPPED, optimizer), -1)
        before = self.trace.steps[stepped].event if stepped >= 0 else None
        if before is not None and event.guards <= before.guards and not self.around.sets_gradients:
            yield Fault(Violation.STEPPED_AGAIN, self.number, stepped)

    def may_be_wrapped(self, optimizer: Symbolic) -> bool:
        """Whether an optimizer may know the scaler itself: one that a scaler is called with does
        not, while one of a framework that scales does."""
        symbols = self.trace.symbols
        if self.around.is_of_framework and not self.owners.get(optimizer):
            return True
        return symbols.is_handed_out(optimizer) and not (
            self.owners.get(optimizer) and symbols[optimizer][0] == "unpack"
        )

    def cast(self, optimizer: Symbolic, kind: TrainingEventKind = TrainingEventKind.HALF) -> int:
        """The step that made parameters of an optimizer float16, or another dtype; -1 if none."""
        steps = (self.when(kind, each) for each in self.trace.modules.get(optimizer, ()))
        return next((step for step in steps if step >= 0), -1)

    def step_of_framework(self, optimizer: Symbolic) -> Iterator[Fault]:
        """A step by what a framework that scales has wrapped an optimizer in: its scaler divides
        the gradients. A library that keeps parameters of its own steps on those."""
        cast = self.cast(optimizer)
        casting = self.trace.steps[cast].event if cast >= 0 else None
        if (
            casting is not None
            and not casting.guards
            and self.around.is_of_framework
            and not self.around.speaks_of_own_parameters
            and self.trace.symbols.is_handed_out(optimizer)
        ):
            self.raised = True
            yield Fault(Violation.HALF_PARAMETERS, self.number, cast, HALF_GRADIENTS)

    def divide(self, optimizer: Symbolic) -> Iterator[Fault]:
        """A step divides by a root plus an epsilon, which is 0 in the dtype of the parameters."""
        cast = self.cast(optimizer)
        if cast >= 0 and optimizer in self.trace.dividing:
            yield Fault(Violation.EPSILON_OF_ZERO, self.number, cast)

    def lose(self, optimizer: Symbolic) -> Iterator[Fault]:
        """Steps as small as a learning rate are rounded away in the dtype of the parameters."""
        cast = self.cast(optimizer, TrainingEventKind.BFLOAT16)
        if cast >= 0 and optimizer in self.trace.adams:
            yield Fault(Violation.STEPS_LOST, self.number, cast)

    def is_refused(self, event: Occurrence) -> bool:
        """Whether a scaler is to divide the gradients of float16 parameters.

        Where they are float16 for one outcome of a test alone, a flag of the scaler may well have
        to do with it.
        """
        cast = self.cast(event.argument)
        if cast < 0 or event.kind not in (TrainingEventKind.UNSCALE, TrainingEventKind.STEP):
            return False
        if self.trace.roles.get(event.object) is not Role.SCALER:
            return False
        casting = self.trace.steps[cast].event
        guards = casting.guards if casting is not None else frozenset()
        return not guards or (event.guards <= guards and event.object not in self.trace.may_be_off)

    def meet(self, optimizer: Symbolic, scaler: Symbolic) -> None:
        """An optimizer that goes from one of its scalers to another is ready for that."""
        owners = self.owners.get(optimizer, ())
        if len(owners) > 1 and scaler in owners and self.when(Mark.MET, optimizer) != scaler:
            self.optimizers[optimizer] = FRESH
            self.last[Mark.MET, optimizer] = scaler

    def backward(self, scalers: Scalers | None) -> None:
        """A backward pass.

        Args:
            scalers: those that have scaled the loss; None where it is not known who may have.
        """
        if scalers is None:
            self.reset_gradients()
            self.last[Mark.TRAINED, ALL] = 1
            return
        self.forget(Mark.STEPPED, Mark.SCHEDULED)
        self.last[Mark.TRAINED, ALL] = 1
        call = StepCall.SCALED_BACKWARD if scalers else StepCall.BACKWARD
        self.calls.append(call)
        for symbol in self.optimizers:
            for scaler in scalers:
                self.meet(symbol, scaler)
            possible = self.optimizers[symbol]
            foreign = scalers and not scalers <= (self.owners.get(symbol) or scalers)
            reached = {
                add(at, Contribution.FOREIGN) if foreign else advance(at, call)[0]
                for at in possible
            }
            if symbol not in (ALL, self.around.only):
                reached |= {at._replace(ran=True, used=False) for at in possible}
            self.optimizers[symbol] = frozenset(reached)
            self.last[call, symbol] = self.number

    def zero(self, thing: Symbolic, to_none: Symbolic) -> None:
        call = StepCall.ZERO if self.trace.symbols.is_false(to_none) else StepCall.CLEAR
        if thing not in self.owners:
            # A module's: of whose parameters is not known.
            self.forget(Mark.STEPPED)
            for symbol, possible in self.optimizers.items():
                self.optimizers[symbol] = frozenset(at._replace(gradient=None) for at in possible)
            return
        self.last.pop((Mark.STEPPED, thing), None)
        self.last[StepCall.CLEAR, thing] = self.number
        for symbol in (thing, ALL):
            possible = self.optimizers[symbol]
            self.optimizers[symbol] = frozenset(cleared(at, call) for at in possible)

    def update(self, event: Occurrence) -> Iterator[Fault]:
        scaler = event.object
        self.calls.append(StepCall.UPDATE)
        before = self.last.get((StepCall.UPDATE, scaler))
        if self.checked is False and before is not None:
            self.raised = True
            yield Fault(Violation.OUT_OF_ORDER, self.number, before, NOTHING_TO_UPDATE)
        stepped = self.when(StepCall.STEP, scaler)
        step = self.trace.steps[stepped].event if stepped >= 0 else None
        if step and updates_for_each(self.trace, self.around.index, step, event):
            yield Fault(Violation.OUT_OF_ORDER, self.number, stepped)
        self.checked = False
        for symbol, possible in self.optimizers.items():
            if scaler in self.owners.get(symbol, {scaler}):
                updated = frozenset(advance(at, StepCall.UPDATE)[0] for at in possible)
                self.optimizers[symbol] = updated
                self.last[StepCall.UPDATE, symbol] = self.number
        self.last[StepCall.UPDATE, scaler] = self.number

    def call(self, event: Occurrence, call: StepCall, symbol: Symbolic) -> Iterator[Fault]:
        """A call that concerns one optimizer."""
        self.calls.append(call)
        if call in (StepCall.STEP, StepCall.PLAIN_STEP):
            scheduled = self.when(Mark.SCHEDULED)
            if scheduled >= 0:
                yield Fault(Violation.SCHEDULER_BEFORE_OPTIMIZER, scheduled, self.number)
            self.forget(Mark.TRAINED, Mark.SCHEDULED)
        verdicts = {at: self.advanced(at, call) for at in self.optimizers.get(symbol, FRESH)}
        fault = None
        if not any(verdict.effect is Effect.RIGHT for _, verdict in verdicts.values()):
            named = sorted(
                (verdict.violation.value, verdict.text)
                for _, verdict in verdicts.values()
                if verdict.violation is not None
            )
            if named:
                fault = self.fault(event, Violation(named[0][0]), named[0][1], symbol)
        if fault is not None:
            self.checked = None  # one mistake is reported once
            effects = {verdict.effect for _, verdict in verdicts.values()}
            self.raised = effects == {Effect.RAISES}
            yield fault
        states = frozenset(
            after for after, verdict in verdicts.values() if verdict.effect is not Effect.RAISES
        )
        if call in (StepCall.STEP, StepCall.PLAIN_STEP):
            # Gradients that a step has used are done with, wherever they are cleared.
            states = frozenset(at._replace(gradient=None, lost=False) for at in states or FRESH)
        self.optimizers[symbol] = states or FRESH
        if call not in LOOKS.values() and symbol != ALL:
            self.optimizers[ALL] = FRESH if self.around.only is None else self.optimizers[symbol]
        self.last[call, symbol] = self.number

    def advanced(self, at: OptimizerState, call: StepCall) -> tuple[OptimizerState, CallVerdict]:
        """As `advance`; but gradients that were not seen were made before the function began."""
        after, verdict = advance(at, call)
        if call is StepCall.STEP and verdict == UNSEEN and not at.ran:
            return after._replace(phase=Phase.STEPPED, used=True), RIGHT
        return after, verdict

    def fault(
        self, event: Occurrence, violation: Violation, text: str, symbol: Symbolic
    ) -> Fault | None:
        """The two ends of a mistake."""
        if violation is Violation.MISSING_UPDATE:
            # The update is due after the last of all steps.
            steps = [self.when(StepCall.STEP, each) for each in (symbol, event.object)]
            if text == UNSCALED_TWICE:
                steps = [self.when(StepCall.UNSCALE, symbol)]
            return Fault(violation, max(steps), self.number, text) if max(steps) >= 0 else None
        silent = violation in SILENT_ENDS and not text
        here, there = (SILENT_ENDS if silent else ENDS)[violation]
        ends = [self.number if end is None else self.when(end, symbol) for end in (here, there)]
        if min(ends) < 0:
            return None
        # `if not isfinite(norm): optimizer.zero_grad()` is how one skips a step; and gradients may
        # be put in the place of those that were cleared.
        skips = violation is Violation.CLEARED_BEFORE_STEP and not text
        if skips and (self.is_guarded(ends[0], event) or self.around.sets_gradients):
            return None
        return Fault(violation, ends[0], ends[1], text)

    def is_guarded(self, number: int, event: Occurrence) -> bool:
        """Whether a call is made for some outcome of a test that an event does not ask for."""
        call = self.trace.steps[number].event
        return call is not None and not call.guards <= event.guards


def cleared(at: OptimizerState, call: StepCall) -> OptimizerState:
    """As `advance`; but what `unscale_` divides was there before the function began, if no backward
    pass was seen."""
    after, _ = advance(at, call)
    if at.gradient is None and at.phase is Phase.UNSCALED and not at.ran:
        return after._replace(lost=True, checked=True)
    return after


@functools.cache
def recalled(states: frozenset[OptimizerState]) -> frozenset[StepCall]:
    """The earlier calls that a mistake of an optimizer, in one of these states, can have at its
    other end.

    Remembered, as `advance` is: the states are few, and a large function asks 200,000 times.
    """
    return frozenset(
        call for state in states for call, is_recalled in RECALLED.items() if is_recalled(state)
    )


def contributions(state: OptimizerState) -> frozenset[Contribution]:
    return state.gradient or frozenset()


MIXED = frozenset({Contribution.UNSCALED, Contribution.SCALED})
TWICE = frozenset({Contribution.UNSCALED, Contribution.TWICE})
# By call: the states of which a mistake can have it at its other end.
RECALLED: dict[StepCall, Callable[[OptimizerState], bool]] = {
    StepCall.SCALED_BACKWARD: lambda state: not LARGE.isdisjoint(contributions(state)),
    StepCall.BACKWARD: lambda state: (
        not {Contribution.PLAIN, Contribution.DIVIDED}.isdisjoint(contributions(state))
    ),
    StepCall.UNSCALE: lambda state: (
        state.phase is Phase.UNSCALED or not TWICE.isdisjoint(contributions(state))
    ),
    StepCall.STEP: lambda state: state.phase is Phase.STEPPED or state.used,
    StepCall.UPDATE: lambda state: (
        not (TWICE | {Contribution.STALE}).isdisjoint(contributions(state))
    ),
    StepCall.CLEAR: lambda state: state.lost,
}
FRESH = frozenset({OptimizerState()})
UNSEEN = CallVerdict(Effect.RAISES, None, NO_CHECKS)
LOOKS = {TrainingEventKind.CLIP: StepCall.CLIP, TrainingEventKind.READ: StepCall.READ}
HALF_GRADIENTS = "Attempting to unscale FP16 gradients."

# The call to be changed and the other; None for the call that goes wrong itself.
Ends = tuple[StepCall | None, StepCall | None]
ENDS: dict[Violation, Ends] = {
    Violation.STEP_BYPASSES_SCALER: (None, StepCall.SCALED_BACKWARD),
    Violation.BACKWARD_BYPASSES_SCALER: (StepCall.BACKWARD, None),
    Violation.CLIP_BEFORE_UNSCALE: (None, StepCall.SCALED_BACKWARD),
    Violation.UNSCALED_TWICE: (None, StepCall.UNSCALE),
    Violation.UNSCALED_OR_CLIPPED_AFTER_STEP: (None, StepCall.STEP),
    Violation.OUT_OF_ORDER: (None, StepCall.STEP),
    Violation.CLEARED_BEFORE_STEP: (StepCall.CLEAR, None),
    Violation.UNSCALED_EVERY_MICRO_BATCH: (None, StepCall.UNSCALE),
    Violation.SCALED_GRADIENTS_READ: (None, StepCall.SCALED_BACKWARD),
}
# Where nothing is raised, it is an earlier call that has to be changed.
SILENT_ENDS: dict[Violation, Ends] = {
    Violation.OUT_OF_ORDER: (StepCall.UPDATE, None),
    Violation.UNSCALED_EVERY_MICRO_BATCH: (StepCall.UNSCALE, None),
}
