"""The mistakes between scalers and optimizers that are certain, with both their ends.

A mistake has two ends: the call to be changed, and the one that makes it wrong. All that happens in
a function (`interpreter`) is passed to the automaton, in all situations at once (`situations`):
this finds what may be a mistake. It is one only if nothing is right where both ends are reached. So
it is tried once more with the outcomes of tests that lead to both. `if clip: unscale_` and
`if max_norm: clip` may go together for all that is known. Tests on a remainder (`if step % n == 0`)
are an exception, for they will have any outcome at some time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from amplint.findings.violations import Violation
from amplint.gradscaler.automaton import StepCall
from amplint.gradscaler.event_index import EventIndex
from amplint.gradscaler.events import Role
from amplint.gradscaler.losses import Scalers, scaled_under
from amplint.gradscaler.outcomes import Decision, Outcomes
from amplint.gradscaler.situations import ENDS, Fault, SituatedEvent, Situation, TraceFacts
from amplint.gradscaler.symbolic_values import Symbolic
from amplint.gradscaler.trace import Occurrence, Site, TrainingTrace
from amplint.util.walks import reachable

LIMITS = {
    "situations": 64,  # that are kept apart at one place
    "trials": 200,  # of what may be a mistake, in one function
}
NOTHING_DECIDED = frozenset[Decision]()
# The calls that make it right, where a test keeps them away from the mistake.
REMEDIES = {
    Violation.STEP_BYPASSES_SCALER: StepCall.STEP,
    Violation.STEP_BYPASSES_CHECK: StepCall.STEP,
    Violation.BACKWARD_BYPASSES_SCALER: StepCall.SCALED_BACKWARD,
    Violation.MISSING_UPDATE: StepCall.UPDATE,
    Violation.CLIP_BEFORE_UNSCALE: StepCall.UNSCALE,
    Violation.SCALED_GRADIENTS_READ: StepCall.UNSCALE,
}


class CertainPair(NamedTuple):
    """A mistake that nothing avoids; `first`: whether the call to be changed comes first."""

    violation: Violation
    here: Site
    there: Site
    first: bool

    @property
    def key(self) -> tuple[int, Site, Site, bool]:
        """By which pairs are sorted."""
        return (self.violation.value, self.here, self.there, self.first)

    @property
    def ends(self) -> tuple[Site, Site]:
        """In their order."""
        return (self.here, self.there) if self.first else (self.there, self.here)


class Certainty:
    """Passes what happens in a function to the automaton.

    Attributes:
        is_complete: whether all could be looked at.
    """

    def __init__(self, trace: TrainingTrace, index: EventIndex) -> None:
        self.trace = trace
        self.around = TraceFacts(trace, index)
        self.is_complete = trace.is_complete
        self.guarded: dict[StepCall, set[Decision]] = {}  # by call, the tests that it is made under
        self.outcomes = Outcomes(trace.symbols)
        self._trials: dict[object, Trial] = {}
        self._effects: dict[tuple[int, Situation, Scalers | None], StepEffect] = {}

    def certain_pairs(self) -> dict[CertainPair, str]:
        """The mistakes that are certain, each with the text of the exception."""
        possible = self.trial(NOTHING_DECIDED).possible
        faults: dict[CertainPair, list[Fault]] = {}
        for fault in in_order(possible):
            faults.setdefault(self.pair(fault), []).append(fault)
        return {
            pair: ways[0].raises
            for pair, ways in faults.items()
            if not any(map(self.has_remedy, ways)) and self.is_certain(pair, ways)
        }

    def is_certain(self, pair: CertainPair, faults: list[Fault]) -> bool:
        """Whether a mistake is made whenever both ends are reached, or for some outcome of a test
        on a remainder.

        Args:
            faults: all ways in which it may be made.
        """
        first, then = (self.sites[site] for site in pair.ends)
        ends = {max(fault.here, fault.there): self.ends(fault) for fault in faults}
        for step in then:
            before = [each for each in first if each < step]
            if before:
                ends.setdefault(step, self.ends(Fault(pair.violation, step, before[-1])))
        trials = {step: self.trial(decisions) for step, decisions in ends.items()}
        wrong = any(not trials[step].certain.isdisjoint(faults) for step in trials)
        # What is so in one iteration may be otherwise in the next one.
        varies = any(map(self.varying, ends.values()))
        if wrong and not (varies and any(step in trials[step].right for step in trials)):
            return True
        return any(
            fault in self.trial(decisions, free, outcome).certain
            for fault in faults
            for decisions in (self.ends(fault),)
            for free in self.free
            # Two tests that change from one iteration to the next may be one in other words.
            if self.varying(decisions) <= free
            for outcome in (True, False)
        )

    def ends(self, fault: Fault) -> frozenset[Decision]:
        """The outcomes of tests with which both ends of a mistake are reached."""
        here, there = self.event(fault.here), self.event(fault.there)
        guards = here.guards | there.guards
        if StepCall.SCALED_BACKWARD in ENDS.get(fault.violation, ()):
            guards |= scaled_under(there.object, self.trace)
        # Nothing but a scaler has its methods.
        return guards | {(scaler, True) for scaler, under in self.called if under <= guards}

    @cached_property
    def called(self) -> frozenset[tuple[Symbolic, frozenset[Decision]]]:
        """The scalers whose methods are called, each with the tests around a call."""
        return frozenset(
            (event.object, event.guards)
            for event in self.trace.events
            if self.trace.roles.get(event.object) is Role.SCALER
        )

    def varying(self, decisions: Iterable[Decision]) -> frozenset[Symbolic]:
        """The tests, of those decided, whose outcome is another one in another iteration."""
        atoms = self.outcomes.atoms(test for test, _ in decisions)
        return frozenset(filter(self.trace.symbols.varies, atoms))

    @cached_property
    def free(self) -> list[frozenset[Symbolic]]:
        """The tests on a remainder, each with those that it is asked with."""
        atoms = [self.outcomes.atoms(tests) for tests in self.trace.tests.values()]
        periodic = filter(self.trace.symbols.is_periodic, frozenset[Symbolic]().union(*atoms))
        groups = (
            frozenset[Symbolic]().union(*(tests for tests in atoms if test in tests))
            for test in sorted(periodic)
        )
        return list(dict.fromkeys(groups))

    def trial(
        self,
        decisions: frozenset[Decision],
        free: frozenset[Symbolic] = frozenset(),
        outcome: bool = True,
    ) -> Trial:
        """Check where tests have these outcomes; nothing comes of it after too many trials.

        Args:
            free: other tests, which all have the same outcome.
        """
        key = decisions, free, outcome
        if key not in self._trials:
            if len(self._trials) > LIMITS["trials"]:
                self.is_complete = False
                return UNTRIED
            outcomes = Outcomes(self.trace.symbols, decisions)
            for test in free:
                if outcomes.of(test) is None:
                    outcomes.decide(test, outcome)
            self._trials[key] = self.check(outcomes) if outcomes.is_possible else UNTRIED
        return self._trials[key]

    def check(self, outcomes: Outcomes) -> Trial:
        """Pass all that happens, where tests have these outcomes, to the automaton."""
        possible: set[Fault] = set()
        certain: set[Fault] = set()
        right: set[int] = set()
        after: list[Collection[Situation]] = []  # by step
        steps = self.trace.steps
        allowed = [step.decision is None or outcomes.allow([step.decision]) for step in steps]
        # Nothing is reached from which no way leads to the end.
        reached = set(
            reachable(self.trace.ends, lambda each: filter(allowed.__getitem__, steps[each].before))
        )
        for number, step in enumerate(steps):
            if number not in reached:
                after.append(())
                continue
            before = [each for earlier in step.before for each in after[earlier]]
            situations: Collection[Situation] = (
                dict.fromkeys(before) if step.before else (self.around.start,)
            )
            if step.event is not None:
                scalers = self.around.scalers_of(step.event, outcomes)
                effects = [self.take(number, each, of) for each in situations for of in scalers]
                faults = {fault for each in effects for fault in each.faults}
                possible |= faults
                always = (
                    set.intersection(*(each.violations for each in effects)) if faults else set()
                )
                certain |= {fault for fault in faults if fault.violation in always}
                if effects and not always:
                    right.add(number)
                situations = dict.fromkeys(
                    each.situation for each in effects if each.situation is not None
                )
            if len(situations) > LIMITS["situations"]:
                self.is_complete = False
                situations = (self.around.start._replace(checked=None),)
            after.append(situations)
        return Trial(frozenset(possible), frozenset(certain), frozenset(right))

    def take(self, number: int, situation: Situation, scalers: Scalers | None) -> StepEffect:
        """Make a step in a situation."""
        key = number, situation, scalers
        if key not in self._effects:
            event = self.trace.steps[number].event
            assert event is not None
            turn = SituatedEvent(self.around, number, situation)
            faults = tuple(turn.take(event, scalers))
            for call in turn.calls:
                self.guarded.setdefault(call, set()).update(event.guards)
            self._effects[key] = StepEffect(faults, turn.situation())
        return self._effects[key]

    def event(self, step: int) -> Occurrence:
        event = self.trace.steps[step].event
        assert event is not None
        return event

    def pair(self, fault: Fault) -> CertainPair:
        here, there = self.event(fault.here).site, self.event(fault.there).site
        return CertainPair(fault.violation, here, there, fault.here < fault.there)

    def has_remedy(self, fault: Fault) -> bool:
        """Whether the same test keeps the mistake and the right call apart: then it may well be the
        test that says whether the scaler is enabled. Not where the scaler itself was asked for, as
        in `if scaler is not None`: no other test is needed then."""
        remedy = REMEDIES.get(fault.violation)
        roles = self.trace.roles
        guards = self.event(fault.here).guards
        decided = Outcomes(self.trace.symbols, guards)
        if remedy is None or any(
            outcome and roles.get(test) is Role.SCALER for test, outcome in decided.decided.items()
        ):
            return False
        atoms = self.outcomes.atoms(test for test, _ in guards)
        return any(
            decided.of(test) is not outcome and not atoms.isdisjoint(self.outcomes.atoms([test]))
            for test, outcome in self.guarded.get(remedy, ())
        )

    @cached_property
    def sites(self) -> dict[Site, list[int]]:
        """The steps of each call."""
        sites: dict[Site, list[int]] = {}
        for number, step in enumerate(self.trace.steps):
            if step.event is not None:
                sites.setdefault(step.event.site, []).append(number)
        return sites

    def wholes(self, pair: CertainPair) -> Iterator[CertainPair]:
        """The pairs here of which the given one, seen from within a function, is a part."""
        for site in self.sites:
            if site[-len(pair.here) :] == pair.here:
                around = site[: -len(pair.here)]
                whole = pair._replace(here=site, there=around + pair.there)
                first, then = (self.sites.get(end, [0]) for end in whole.ends)
                if first[0] < then[-1]:
                    yield whole


class Trial(NamedTuple):
    """The result of passing all that happens to the automaton.

    Args:
        possible: the mistakes that may be made.
        certain: those that are made in any case.
        right: the steps that may be reached without a mistake.
    """

    possible: frozenset[Fault]
    certain: frozenset[Fault]
    right: frozenset[int]


UNTRIED = Trial(frozenset(), frozenset(), frozenset())


class StepEffect(NamedTuple):
    """The effect of a step in a situation: its mistakes, and the situation after it, if any."""

    faults: tuple[Fault, ...]
    situation: Situation | None

    @property
    def violations(self) -> set[Violation]:
        return {fault.violation for fault in self.faults}


def in_order(faults: Iterable[Fault]) -> list[Fault]:
    return sorted(faults, key=lambda fault: (fault.violation.value, *fault[1:]))


def innermost(
    pair: CertainPair, claims: Collection[CertainPair], checked: Iterable[Certainty]
) -> CertainPair:
    """The pair as it stands in the innermost function that sees both ends, unless that function is
    right where others call it, and is not wrong by itself: then as it stands in the caller."""
    depth, last = 0, min(len(pair.here), len(pair.there)) - 1
    while depth < last and pair.here[depth] == pair.there[depth]:
        depth += 1
    for level in range(depth, 0, -1):
        within = pair._replace(here=pair.here[level:], there=pair.there[level:])
        if within in claims or all(
            whole in claims for each in checked for whole in each.wholes(within)
        ):
            return within
    return pair
