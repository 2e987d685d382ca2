"""The check of all paths of a training step against the protocol of a GradScaler.

The events of all paths (`path_explorer`) are given to the automaton (`automaton`), step by step;
where paths meet with the same state, they are followed as one. What cannot be seen is taken to be
in order: gradients from before a function begins, whatever an unknown function does. Where a
backward pass may or may not reach the parameters of an optimizer, both are kept, and a mistake is
one only if nothing that is possible is right. `certainty` keeps the mistakes that no path avoids.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from amplint.claim.violations import Violation
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
from amplint.gradscaler.certainty import CertainPair, Fault, Points, innermost, review
from amplint.gradscaler.checkpoints import Unsaved
from amplint.gradscaler.cleared_gradients import find_cleared
from amplint.gradscaler.decision_diagram import FALSE, TRUE, Condition, DecisionDiagrams
from amplint.gradscaler.event_index import EventIndex, FunctionEvents, calls
from amplint.gradscaler.events import CASTS, Role, TrainingEventKind, divides_by_zero
from amplint.gradscaler.gathered import find_gathered
from amplint.gradscaler.incomplete import Incompletes
from amplint.gradscaler.instructions import FunctionCode
from amplint.gradscaler.losses import scalers_of
from amplint.gradscaler.path_explorer import Explorer
from amplint.gradscaler.paths import Occurrence, Paths, Site
from amplint.gradscaler.symbolic_values import Symbolic, operands_of
from amplint.inference import Inference, SiteId
from amplint.knowledge.vocabulary import INFINITIES
from amplint.util.walks import reachable
from amplint.values.atoms import Evidence, Shows

ALL: Symbolic = -1  # stands for all parameters, where it is not known whose are meant
Last = tuple[StepCall, Symbolic]  # a call, and the optimizer or scaler that it was made for


class Misuse(NamedTuple):
    """A call that violates the protocol.

    Args:
        inner: where the call only leads to what is wrong, the places on the way there.
        other: the call that makes it wrong.
        raises: the text of the exception, if there is one.
    """

    violation: Violation
    inner: tuple[Evidence, ...]
    other: Evidence
    raises: str = ""


OTHER_TEXTS = {
    Violation.STEP_BYPASSES_SCALER: "the gradients are scaled here",
    Violation.STEP_BYPASSES_CHECK: "the scaler looks for infinities here",
    Violation.STEPPED_AGAIN: "the scaler makes this step here",
    Violation.BACKWARD_BYPASSES_SCALER: "the scaler divides the gradients here",
    Violation.MISSING_UPDATE: "this raises in the next iteration",
    Violation.CLIP_BEFORE_UNSCALE: "the gradients are scaled here",
    Violation.UNSCALED_TWICE: "they are already unscaled here",
    Violation.UNSCALED_OR_CLIPPED_AFTER_STEP: "the step is made here",
    Violation.OUT_OF_ORDER: "the scaler is called here, too",
    Violation.CLEARED_BEFORE_STEP: "this step finds no gradients",
    Violation.HALF_PARAMETERS: "the parameters are float16 from here on",
    Violation.UNSCALED_EVERY_MICRO_BATCH: "the gradients of another batch are added here",
    Violation.STATE_NOT_SAVED: "the scaler makes the steps here",
    Violation.SCALED_GRADIENTS_READ: "the gradients are scaled here",
    Violation.SCHEDULER_BEFORE_OPTIMIZER: "the optimizer steps here",
    Violation.EPSILON_OF_ZERO: "the parameters are float16 from here on",
    Violation.STEPS_LOST: "the parameters are bfloat16 from here on",
}


class Misuses:
    """The misuses of all scalers of a project; found when the first question comes.

    Args:
        sites, known: see `EventIndex`.

    Attributes:
        events: what was found of each function.
    """

    def __init__(
        self,
        inference: Inference,
        sites: Mapping[str, Sequence[SiteId]],
        known: Mapping[str, FunctionEvents] | None = None,
    ) -> None:
        self._inference = inference
        self._sites = sites
        self.events: Mapping[str, FunctionEvents] = known or {}
        self.widened: list[str] = []  # functions of which not all paths could be kept apart

    def sites(self) -> Iterator[tuple[Violation, str, int]]:
        """All violations, each with the function and the number of the call."""
        for (function, number), misuses in self.all.items():
            for misuse in misuses:
                yield misuse.violation, function, number

    @cached_property
    def all(self) -> dict[SiteId, list[Misuse]]:
        """The misuses that are found at each call."""
        return self._find()

    def _find(self) -> dict[SiteId, list[Misuse]]:
        index = EventIndex(self._inference, self._sites, self.events)
        self.events = index.functions
        codes: dict[str, FunctionCode] = {}
        claims: dict[CertainPair, str] = {}
        reviewed: list[Points] = []
        for function in sorted(
            index.scaling | (index.halving & index.dividing) | (index.rounding & index.adam)
        ):
            if not self._is_entry(index, function):
                continue
            explorer = Explorer(index, codes)
            paths = explorer.explore(function)
            points = Checker(paths, index).run() if paths is not None else None
            if points is None or explorer.widened:
                self.widened.append(function)
            if points is not None:
                claims |= review(points)
                reviewed.append(points)
        found: dict[SiteId, dict[Violation, Misuse]] = {}
        for pair, raises in sorted(claims.items(), key=lambda claim: claim[0].key):
            placed = innermost(pair, claims, reviewed)
            misuse = self._misuse(placed, raises)
            found.setdefault(placed.here[0], {}).setdefault(pair.violation, misuse)
        told = {pair.here[-1] for pair in claims} | {pair.there[-1] for pair in claims}
        for violation, here, there in Incompletes(self._inference, index).find():
            if told.isdisjoint((here, there)):
                misuse = self._misused(violation, there)
                found.setdefault(here, {}).setdefault(violation, misuse)
        lost, unsaved = Violation.CLEARED_BEFORE_STEP, Violation.STATE_NOT_SAVED
        for zero, step in find_cleared(index):
            if told.isdisjoint((zero, step)):
                found.setdefault(zero, {}).setdefault(lost, self._misused(lost, step))
        micro = Violation.UNSCALED_EVERY_MICRO_BATCH
        for here, there, is_refused in find_gathered(self._inference):
            raises = UNSCALED_TWICE if is_refused else ""
            found.setdefault(here, {}).setdefault(micro, self._misused(micro, there, (), raises))
        for site, step in Unsaved(self._inference, index).find():
            found.setdefault(site, {}).setdefault(unsaved, self._misused(unsaved, step))
        return {site: list(misuses.values()) for site, misuses in found.items()}

    def _is_entry(self, index: EventIndex, function: str) -> bool:
        """Whether more comes together in a function than one call of another says already."""
        state = self._inference.states[function]
        if index.of[function]:
            return True
        training = [number for number in calls(state) if index.callees((function, number))]
        return (
            len(training) > 1
            or any(state.graph.nodes[number].block for number in training)
            or any(divides_by_zero(state, number) for number in calls(state))
        )

    def _misuse(self, pair: CertainPair, raises: str) -> Misuse:
        inner = tuple(
            Evidence(
                self._inference.place(*site),
                "here" if site == pair.here[-1] else "through this call",
                Shows.CALL,
            )
            for site in pair.here[1:]
        )
        return self._misused(pair.violation, pair.there[-1], inner, raises)

    def _misused(
        self,
        violation: Violation,
        there: SiteId,
        inner: tuple[Evidence, ...] = (),
        raises: str = "",
    ) -> Misuse:
        other = Evidence(self._inference.place(*there), OTHER_TEXTS[violation], Shows.SCALER)
        return Misuse(violation, inner, other, raises)


# ------------------------------------------------------------------------- all paths of a function


class Situation(NamedTuple):
    """The state of a scaler and its optimizers on a path, as far as it matters to what follows.

    Args:
        optimizers: by symbolic value, the states that each may have.
        checked: whether a gradient was looked at for infinities since the last update; None where
            that is not known.
        last: the step that made a call last.
        scaler_of: the scaler that each optimizer with several has met last.
        halved: the steps that made the parameters of modules float16.
        rounded: those that made them bfloat16.
        has_trained: whether a backward pass ran since the last step of the optimizer.
        scheduled: the step of the scheduler since then; -1 without one.
        stepped: by optimizer, the step that its scaler has made with the gradients that are there.
        clipping: the step that has hooked a clipping to each backward pass; -1 without one.
    """

    optimizers: frozenset[tuple[Symbolic, frozenset[OptimizerState]]]
    checked: bool | None = None
    last: frozenset[tuple[Last, int]] = frozenset()
    scaler_of: frozenset[tuple[Symbolic, Symbolic]] = frozenset()
    halved: frozenset[tuple[Symbolic, int]] = frozenset()
    rounded: frozenset[tuple[Symbolic, int]] = frozenset()
    has_trained: bool = False
    scheduled: int = -1
    stepped: frozenset[tuple[Symbolic, int]] = frozenset()
    clipping: int = -1


@dataclass
class Arrival:
    """The points that lead to a situation, and the condition under which they do."""

    points: list[int] = field(default_factory=list)
    condition: Condition = FALSE

    def add(self, points: list[int], condition: Condition, diagrams: DecisionDiagrams) -> None:
        self.points += points
        self.condition = diagrams.either(self.condition, condition)


class Checker:
    """Passes the events on all paths of a function to the automaton."""

    def __init__(self, paths: Paths, index: EventIndex) -> None:
        self.paths = paths
        self.index = index
        self.points = Points(paths)
        # By optimizer, the scalers that are called with it.
        self.owners: dict[Symbolic, set[Symbolic]] = {}
        for step in paths.steps:
            if step.event is not None:
                self._find_owner(step.event)

    def _find_owner(self, event: Occurrence) -> None:
        roles = self.paths.roles
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
        events = (step.event for step in self.paths.steps if step.event is not None)
        return any(event.kind is TrainingEventKind.SCALED_BACKWARD for event in events)

    @cached_property
    def _spoken(self) -> dict[str, frozenset[str]]:
        """The words of all functions on the paths."""
        events = (step.event for step in self.paths.steps if step.event is not None)
        on_paths = {function for event in events for function, _ in event.site}
        functions = self.index.inference.functions
        return {function: frozenset(functions[function].words) for function in on_paths}

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
        events = [step.event for step in self.paths.steps if step.event is not None]
        looks = {event.site[-1][1] for event in events if event.kind in LOOKS}
        symbols = self.paths.symbols
        tested = reachable(self.paths.tests, lambda each: operands_of(symbols[each]))
        return any(symbols[each][0] == "result" and symbols[each][2] in looks for each in tested)

    def run(self) -> Points | None:
        """The points of all paths; None if there are too many conditions."""
        paths, points, diagrams = self.paths, self.points, self.paths.diagrams
        start = Situation(frozenset((each, FRESH) for each in (*self.owners, ALL)))
        # A path ends in the middle if it contradicts itself there.
        completed = set(reachable(paths.ends, lambda number: paths.steps[number].before))
        after: list[dict[Situation, Arrival]] = []  # by step
        for number, step in enumerate(paths.steps):
            if diagrams.is_large:
                return None
            arriving: dict[Situation, Arrival] = defaultdict(Arrival)
            if number not in completed:
                after.append(arriving)
                continue
            if not step.before:
                arriving[start] = Arrival([], TRUE)
            for before in step.before:
                for situation, each in after[before].items():
                    arriving[situation].add(each.points, each.condition, diagrams)
            reached: dict[Situation, Arrival] = defaultdict(Arrival)
            for situation, arrival in arriving.items():
                condition = points.decided(arrival.condition, number)
                if condition == FALSE:
                    continue
                following: Situation | None = situation
                before_it = tuple(arrival.points)
                if step.event is None:
                    point = points.add(number, before_it, condition)
                else:
                    turn = SituatedEvent(self, number, situation)
                    faults = tuple(turn.take(step.event))
                    following = turn.situation()
                    point = points.add(number, before_it, condition, faults, tuple(turn.calls))
                if following is None:
                    points.ends.add(point)
                else:
                    reached[following].add([point], condition, diagrams)
            after.append(reached)
        for end in paths.ends:
            for arrival in after[end].values():
                points.ends.update(arrival.points)
        return points.complete()


class SituatedEvent:
    """One event in one situation."""

    def __init__(self, checker: Checker, number: int, situation: Situation) -> None:
        self.checker = checker
        self.paths = checker.paths
        self.owners = checker.owners
        self.number = number
        self.optimizers = dict(situation.optimizers)
        self.checked = situation.checked
        self.last = dict(situation.last)
        self.scaler_of = dict(situation.scaler_of)
        self.halved = dict(situation.halved)
        self.rounded = dict(situation.rounded)
        self.has_trained = situation.has_trained
        self.scheduled = situation.scheduled
        self.stepped = dict(situation.stepped)
        self.clipping = situation.clipping
        self.raised = False
        self.calls: list[StepCall] = []

    def situation(self) -> Situation | None:
        """The situation after the event; None where it raises."""
        if self.raised:
            return None
        return Situation(
            frozenset(self.optimizers.items()),
            self.checked,
            self.asked_for(),
            frozenset(self.scaler_of.items()),
            frozenset(self.halved.items()),
            frozenset(self.rounded.items()),
            self.has_trained,
            self.scheduled,
            frozenset(self.stepped.items()),
            self.clipping,
        )

    def asked_for(self) -> frozenset[tuple[Last, int]]:
        """The calls that a later mistake can have at its other end, each with its last step."""
        of_optimizers = {symbol: recalled(states) for symbol, states in self.optimizers.items()}
        of_scalers = frozenset[StepCall]().union(*of_optimizers.values()) - {StepCall.UPDATE}
        if self.checked is False:  # a second update would find nothing to do
            of_scalers |= {StepCall.UPDATE}
        return frozenset(
            (last, number)
            for last, number in self.last.items()
            if last[0] in of_optimizers.get(last[1], of_scalers)
        )

    def reset(self) -> None:
        """Forget all: anything may have been changed."""
        self.halved, self.rounded = {}, {}
        self.reset_gradients()

    def reset_gradients(self) -> None:
        self.optimizers = dict.fromkeys((*self.owners, ALL), FRESH)
        self.checked = None
        self.last = {}
        self.scaler_of = {}
        self.has_trained, self.scheduled = False, -1
        self.stepped = {}

    def hook(self) -> None:
        """A hook ran that nobody knows: a mistake is one only if it is so in each case."""
        self.halved, self.rounded, self.stepped = {}, {}, {}
        self.checked = None
        self.has_trained, self.scheduled = False, -1
        for symbol, possible in self.optimizers.items():
            self.optimizers[symbol] = frozenset().union(*map(hooked, possible))

    def take(self, event: Occurrence) -> Iterator[Fault]:
        """The mistakes that the event makes."""
        only = self.checker.only
        kind, thing, given = event.kind, event.object, event.argument
        role = self.paths.roles.get(thing, Role.UNKNOWN)
        if kind is TrainingEventKind.ELSEWHERE:
            self.reset_gradients()
        elif kind is TrainingEventKind.HOOK:
            self.hook()
        elif kind in (TrainingEventKind.BACKWARD, TrainingEventKind.SCALED_BACKWARD):
            scalers = self.scalers_of(event)
            self.backward(scalers)
            if scalers and self.clipping >= 0 and only is not None:
                yield Fault(Violation.CLIP_BEFORE_UNSCALE, self.clipping, self.number)
        elif kind is TrainingEventKind.CLIP_BY_HOOK:
            self.clipping = self.number
        elif kind in LOOKS:
            yield from self.call(event, LOOKS[kind], ALL if only is None else only)
        elif kind is TrainingEventKind.ZERO:
            self.zero(thing, given)
        elif kind is TrainingEventKind.UPDATE and role is Role.SCALER:
            yield from self.update(event)
        elif kind in CASTS:
            self.recast(kind, thing)
        elif self.is_refused(event):
            self.raised = True
            yield Fault(Violation.HALF_PARAMETERS, self.number, self.cast(given), HALF_GRADIENTS)
        elif kind is TrainingEventKind.UNSCALE and role is Role.SCALER:
            self.checked = True
            self.meet(given, thing)
            yield from self.mix(given)
            yield from self.call(event, StepCall.UNSCALE, given)
        elif kind is TrainingEventKind.STEP and role is Role.SCALER and given >= 0:
            self.checked = True
            self.meet(given, thing)
            yield from self.lose(given)
            yield from self.call(event, StepCall.STEP, given)
            self.last[StepCall.STEP, thing] = self.number
            self.stepped[given] = self.number
        elif kind is TrainingEventKind.STEP and role is Role.DISABLED and given >= 0:
            yield from self.divide(given)
            yield from self.lose(given)
            yield from self.call(event, StepCall.PLAIN_STEP, given)
        elif kind is TrainingEventKind.STEP and role is Role.SCHEDULER:
            if only is not None and self.has_trained:
                self.scheduled = self.number
        elif kind is TrainingEventKind.STEP and thing >= 0 and self.may_be_wrapped(thing):
            yield from self.step_of_framework(thing)
            self.reset()
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
        unscaled = self.last.get((StepCall.UNSCALE, optimizer), -1)
        before = self.paths.steps[unscaled].event if unscaled >= 0 else None
        if before is None or not event.guards <= before.guards:
            return
        states = self.optimizers[optimizer]
        # Without gradients where the backward pass may be for the parameters of another optimizer.
        gradients = {at.gradient for at in states if at.gradient is not None}
        if (
            gradients <= {frozenset({Contribution.UNSCALED})}  # or made before the function began
            and all(at.phase is Phase.UNSCALED for at in states)
            and not self.checker.looks_for_infinities(before.site, event.site)
        ):
            yield Fault(Violation.STEP_BYPASSES_CHECK, self.number, unscaled)

    def mix(self, optimizer: Symbolic) -> Iterator[Fault]:
        """Gradients that are divided a second time, with those of another micro-batch added: with
        an `update()` in between nothing is raised.

        The step that is made with them is to blame, too; but they may be cleared before it.
        """
        unscaled = self.last.get((StepCall.UNSCALE, optimizer), -1)
        states = self.optimizers[optimizer]
        if unscaled >= 0 and all(
            at.phase is Phase.READY and contributions(at) >= MIXED for at in states
        ):
            yield Fault(Violation.UNSCALED_EVERY_MICRO_BATCH, unscaled, self.number)

    def repeat(self, event: Occurrence, optimizer: Symbolic) -> Iterator[Fault]:
        """A step that is made whenever the scaler has made it, with the same gradients.

        Under a test of its own it may be for what the scaler does not do.
        """
        stepped = self.stepped.pop(optimizer, -1)
        before = self.paths.steps[stepped].event if stepped >= 0 else None
        if before is not None and event.guards <= before.guards and not self.checker.sets_gradients:
            yield Fault(Violation.STEPPED_AGAIN, self.number, stepped)

    def may_be_wrapped(self, optimizer: Symbolic) -> bool:
        """Whether an optimizer may know the scaler itself: one that a scaler is called with does
        not, while one of a framework that scales does."""
        symbols = self.paths.symbols
        if self.checker.is_of_framework and not self.owners.get(optimizer):
            return True
        return symbols.is_handed_out(optimizer) and not (
            self.owners.get(optimizer) and symbols[optimizer][0] == "unpack"
        )

    def recast(self, kind: TrainingEventKind, module: Symbolic) -> None:
        """A cast of the parameters of a module."""
        self.halved.pop(module, None)
        self.rounded.pop(module, None)
        if kind is TrainingEventKind.HALF:
            self.halved[module] = self.number
        elif kind is TrainingEventKind.BFLOAT16:
            self.rounded[module] = self.number

    def cast(self, optimizer: Symbolic) -> int:
        """The step that made parameters of an optimizer float16; -1 without one."""
        return self.made_so(self.halved, optimizer)

    def made_so(self, casts: Mapping[Symbolic, int], optimizer: Symbolic) -> int:
        """The first of some casts that was one of parameters of an optimizer; -1 without one."""
        modules = self.paths.modules.get(optimizer, ())
        return next((casts[each] for each in modules if each in casts), -1)

    def step_of_framework(self, optimizer: Symbolic) -> Iterator[Fault]:
        """A step by what a framework that scales has wrapped an optimizer in: its scaler divides
        the gradients. A library that keeps parameters of its own steps on those."""
        cast = self.cast(optimizer)
        casting = self.paths.steps[cast].event if cast >= 0 else None
        if (
            casting is not None
            and not casting.guards
            and self.checker.is_of_framework
            and not self.checker.speaks_of_own_parameters
            and self.paths.symbols.is_handed_out(optimizer)
        ):
            self.raised = True
            yield Fault(Violation.HALF_PARAMETERS, self.number, cast, HALF_GRADIENTS)

    def divide(self, optimizer: Symbolic) -> Iterator[Fault]:
        """A step divides by a root plus an epsilon, which is 0 in the dtype of the parameters."""
        cast = self.cast(optimizer)
        if cast >= 0 and optimizer in self.paths.dividing:
            yield Fault(Violation.EPSILON_OF_ZERO, self.number, cast)

    def lose(self, optimizer: Symbolic) -> Iterator[Fault]:
        """Steps as small as a learning rate are rounded away in the dtype of the parameters."""
        cast = self.made_so(self.rounded, optimizer)
        if cast >= 0 and optimizer in self.paths.adams:
            yield Fault(Violation.STEPS_LOST, self.number, cast)

    def is_refused(self, event: Occurrence) -> bool:
        """Whether a scaler is to divide the gradients of float16 parameters.

        Where they are float16 for one outcome of a test alone, a flag of the scaler may well have
        to do with it.
        """
        cast = self.cast(event.argument)
        if cast < 0 or event.kind not in (TrainingEventKind.UNSCALE, TrainingEventKind.STEP):
            return False
        if self.paths.roles.get(event.object) is not Role.SCALER:
            return False
        casting = self.paths.steps[cast].event
        guards = casting.guards if casting is not None else frozenset()
        return not guards or (event.guards <= guards and event.object not in self.paths.may_be_off)

    def meet(self, optimizer: Symbolic, scaler: Symbolic) -> None:
        """An optimizer that goes from one of its scalers to another is ready for that."""
        owners = self.owners.get(optimizer, ())
        if len(owners) > 1 and scaler in owners and self.scaler_of.get(optimizer) != scaler:
            self.optimizers[optimizer] = FRESH
            self.scaler_of[optimizer] = scaler

    def scalers_of(self, event: Occurrence) -> Set[Symbolic] | None:
        """The scalers of the loss of a backward pass; None where it is not known who may have
        scaled it. That of a framework is the one that is called with its optimizers."""
        if event.kind is TrainingEventKind.BACKWARD:
            return scalers_of(event.object, self.paths)
        return frozenset[Symbolic]().union(*self.owners.values()) or {event.object}

    def backward(self, scalers: Set[Symbolic] | None) -> None:
        """A backward pass.

        Args:
            scalers: those that have scaled the loss; None where it is not known who may have.
        """
        self.has_trained, self.scheduled = True, -1
        if scalers is None:
            self.reset_gradients()
            return
        self.stepped = {}
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
            if symbol not in (ALL, self.checker.only):
                reached |= {at._replace(ran=True, used=False) for at in possible}
            self.optimizers[symbol] = frozenset(reached)
            self.last[call, symbol] = self.number

    def zero(self, thing: Symbolic, to_none: Symbolic) -> None:
        call = StepCall.ZERO if self.paths.symbols.is_false(to_none) else StepCall.CLEAR
        if thing not in self.owners:
            # A module's: of whose parameters is not known.
            self.stepped = {}
            for symbol, possible in self.optimizers.items():
                self.optimizers[symbol] = frozenset(at._replace(gradient=None) for at in possible)
            return
        self.stepped.pop(thing, None)
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
            if self.scheduled >= 0:
                yield Fault(Violation.SCHEDULER_BEFORE_OPTIMIZER, self.scheduled, self.number)
            self.has_trained, self.scheduled = False, -1
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
            self.optimizers[ALL] = FRESH if self.checker.only is None else self.optimizers[symbol]
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
            steps = [self.last.get((StepCall.STEP, each), -1) for each in (symbol, event.object)]
            if text == UNSCALED_TWICE:
                steps = [self.last.get((StepCall.UNSCALE, symbol), -1)]
            return Fault(violation, max(steps), self.number, text) if max(steps) >= 0 else None
        silent = violation in SILENT_ENDS and not text
        here, there = (SILENT_ENDS if silent else ENDS)[violation]
        ends = [
            self.number if end is None else self.last.get((end, symbol), -1)
            for end in (here, there)
        ]
        if min(ends) < 0:
            return None
        # `if not isfinite(norm): optimizer.zero_grad()` is how one skips a step; and gradients may
        # be put in the place of those that were cleared.
        skips = violation is Violation.CLEARED_BEFORE_STEP and not text
        if skips and (self.is_guarded(ends[0], event) or self.checker.sets_gradients):
            return None
        return Fault(violation, ends[0], ends[1], text)

    def is_guarded(self, number: int, event: Occurrence) -> bool:
        """Whether a call is made for some outcome of a test that an event does not ask for."""
        call = self.paths.steps[number].event
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
