"""The mistakes that are certain, of those that are made on some path of a function.

A mistake has two ends: the call to be changed, and the one that makes it wrong. It counts only if
*every* path from the one to the other goes wrong, whatever the flags are: `if clip: unscale_` and
`if max_norm: clip` may go together for all that is known. Tests on a remainder (`if step % n == 0`)
are an exception, for they will have any outcome at some time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from amplint.claim.violations import Violation
from amplint.gradscaler.automaton import StepCall
from amplint.gradscaler.decision_diagram import FALSE, TRUE, Condition
from amplint.gradscaler.events import Role
from amplint.gradscaler.paths import Decision, Paths, Site
from amplint.gradscaler.symbolic_values import Symbolic
from amplint.util.walks import reachable

# Pairs that are looked at together. All at once, 300 tests around calls of a scaler took 6 GB.
AT_ONCE = 4_000
# The calls that make it right, on a path that a test keeps away from the mistake.
REMEDIES = {
    Violation.STEP_BYPASSES_SCALER: StepCall.STEP,
    Violation.STEP_BYPASSES_CHECK: StepCall.STEP,
    Violation.BACKWARD_BYPASSES_SCALER: StepCall.SCALED_BACKWARD,
    Violation.MISSING_UPDATE: StepCall.UPDATE,
    Violation.CLIP_BEFORE_UNSCALE: StepCall.UNSCALE,
    Violation.SCALED_GRADIENTS_READ: StepCall.UNSCALE,
}


class Fault(NamedTuple):
    """A mistake on one path, by the numbers of steps: the call to be changed, and the other."""

    violation: Violation
    here: int
    there: int
    raises: str = ""


class CertainPair(NamedTuple):
    """A mistake on all paths; `first`: whether the call to be changed comes first."""

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


@dataclass
class Points:
    """The steps of all paths of a function, each as often as what came before it differs for the
    scaler; by number, after all that come before.

    Args:
        steps: the step of each.
        before: the points that lead to each.
        faults: the mistakes that are made there.
        conditions: the outcomes of tests with which paths get there.
        calls: the calls that are made there.
        ends: the last of each path, where the function ends or raises.
    """

    paths: Paths
    steps: list[int] = field(default_factory=list)
    before: list[tuple[int, ...]] = field(default_factory=list)
    faults: list[tuple[Fault, ...]] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    calls: list[tuple[StepCall, ...]] = field(default_factory=list)
    ends: set[int] = field(default_factory=set)

    def add(
        self,
        step: int,
        before: tuple[int, ...],
        condition: Condition,
        faults: tuple[Fault, ...] = (),
        calls: tuple[StepCall, ...] = (),
    ) -> int:
        self.steps.append(step)
        self.before.append(before)
        self.conditions.append(condition)
        self.faults.append(faults)
        self.calls.append(calls)
        return len(self.steps) - 1

    def complete(self) -> Points:
        """The points of paths that contradict themselves nowhere, up to an end."""
        kept = sorted(reachable(self.ends, self.before.__getitem__))
        numbers = {point: number for number, point in enumerate(kept)}
        found = Points(self.paths, ends={numbers[end] for end in self.ends})
        for point in kept:
            before = tuple(numbers[each] for each in self.before[point])
            found.add(
                self.steps[point],
                before,
                self.conditions[point],
                self.faults[point],
                self.calls[point],
            )
        return found

    @cached_property
    def guarded(self) -> dict[StepCall, set[Decision]]:
        """By call, the decisions under which it is made."""
        guarded: dict[StepCall, set[Decision]] = {}
        for point, calls in enumerate(self.calls):
            event = self.paths.steps[self.steps[point]].event
            for call in calls:
                guarded.setdefault(call, set()).update(event.guards if event is not None else ())
        return guarded

    def site(self, step: int) -> Site:
        event = self.paths.steps[step].event
        return event.site if event is not None else ()

    @cached_property
    def after(self) -> list[list[int]]:
        """The points that each leads to."""
        after: list[list[int]] = [[] for _ in self.steps]
        for point, before in enumerate(self.before):
            for each in before:
                after[each].append(point)
        return after

    @cached_property
    def sites(self) -> dict[Site, list[int]]:
        """The points of each call."""
        sites: dict[Site, list[int]] = {}
        for point, step in enumerate(self.steps):
            if self.paths.steps[step].event is not None:
                sites.setdefault(self.site(step), []).append(point)
        return sites

    @cached_property
    def last_decided(self) -> dict[Symbolic, int]:
        """By test, the last step that depends on its outcome."""
        return {
            test: number
            for number, step in enumerate(self.paths.steps)
            for test in self.paths.diagrams.tests(step.decision)
        }

    def decided(self, condition: Condition, step: int) -> Condition:
        """The condition after a step, as far as later ones depend on it."""
        diagrams = self.paths.diagrams
        condition = diagrams.both(condition, self.paths.steps[step].decision)
        if len(self.paths.steps[step].before) < 2:
            return condition
        return diagrams.where(condition, lambda test: self.last_decided.get(test, -1) > step)

    def pair(self, fault: Fault) -> CertainPair:
        here, there = self.site(fault.here), self.site(fault.there)
        return CertainPair(fault.violation, here, there, fault.here < fault.there)

    def meets(self, first: Site, then: Site) -> bool:
        """Whether one call is made, and the other after it, on some path."""
        if first not in self.sites or then not in self.sites:
            return False
        starts = [later for point in self.sites[first] for later in self.after[point]]
        last = self.sites[then][-1]
        goals = set(self.sites[then])
        return any(
            point in goals
            for point in reachable(
                (each for each in starts if each <= last),
                lambda point: (each for each in self.after[point] if each <= last),
            )
        )

    def wholes(self, pair: CertainPair) -> Iterator[CertainPair]:
        """The pairs here of which the given one, seen from within a function, is a part."""
        for site in self.sites:
            if site[-len(pair.here) :] == pair.here:
                around = site[: -len(pair.here)]
                whole = pair._replace(here=site, there=around + pair.there)
                if self.meets(*whole.ends):
                    yield whole


def review(points: Points) -> dict[CertainPair, str]:
    """The pairs that no path of a function avoids, each with the text of the exception."""
    raises: dict[CertainPair, str] = {}
    remedied: set[CertainPair] = set()
    for point, faults in enumerate(points.faults):
        for fault in faults:
            pair = points.pair(fault)
            raises.setdefault(pair, fault.raises)
            if has_remedy(fault, points.conditions[point], points):
                remedied.add(pair)
    pairs = [pair for pair in raises if pair not in remedied]
    doubtful = {
        pair
        for first in range(0, len(pairs), AT_ONCE)
        for pair in may_be_avoided(points, pairs[first : first + AT_ONCE])
        if is_avoided(pair, points)
    }
    frees = list(free_tests(points)) if doubtful else []
    return {
        pair: raises[pair]
        for pair in pairs
        if pair not in doubtful or any(is_certain(pair, points, free) for free in frees)
    }


def innermost(
    pair: CertainPair, claims: Collection[CertainPair], reviewed: Iterable[Points]
) -> CertainPair:
    """The pair as it stands in the innermost function that sees both ends, unless that function is
    right where others call it, and is not wrong by itself: then as it stands in the caller."""
    depth, last = 0, min(len(pair.here), len(pair.there)) - 1
    while depth < last and pair.here[depth] == pair.there[depth]:
        depth += 1
    for level in range(depth, 0, -1):
        within = pair._replace(here=pair.here[level:], there=pair.there[level:])
        if within in claims or all(
            whole in claims for points in reviewed for whole in points.wholes(within)
        ):
            return within
    return pair


def has_remedy(fault: Fault, condition: Condition, points: Points) -> bool:
    """Whether the same test keeps the mistake and the right call apart: then it may well be the
    test that says whether the scaler is enabled. Not where the scaler itself was asked for, as in
    `if scaler is not None`: no other test is needed then.

    Args:
        condition: the outcomes of tests with which the mistake is made.
    """
    wanted, event = REMEDIES.get(fault.violation), points.paths.steps[fault.here].event
    if wanted is None or event is None:
        return False
    roles = points.paths.roles
    if any(outcome and roles.get(test) is Role.SCALER for test, outcome in event.guards):
        return False
    guarded, diagrams = points.guarded.get(wanted, set()), points.paths.diagrams
    return any(
        (test, not outcome) in guarded
        and diagrams.both(condition, diagrams.literal(test, outcome)) != FALSE
        for test, outcome in event.guards
    )


def may_be_avoided(points: Points, pairs: list[CertainPair]) -> Iterator[CertainPair]:
    """The pairs of which both ends are met on some path, in their order, and all is right; whatever
    the outcomes of tests on it.

    The pairs are looked at together: those for which a path like this leads to a point are the bits
    of a number. One number is of those with neither end met, one of those with the first end met,
    one of those with both.
    """
    firsts: dict[Site, int] = {}
    thens: dict[Site, int] = {}
    bits = {pair: 1 << position for position, pair in enumerate(pairs)}
    for pair, bit in bits.items():
        first, then = pair.ends
        firsts[first] = firsts.get(first, 0) | bit
        thens[then] = thens.get(then, 0) | bit
    right: list[tuple[int, int, int]] = []
    found = 0
    for point, step in enumerate(points.steps):
        none, one, both = 0, 0, 0
        for before in points.before[point]:
            none |= right[before][0]
            one |= right[before][1]
            both |= right[before][2]
        if not points.before[point]:
            none = (1 << len(pairs)) - 1
        site = points.site(step)
        both |= one & thens.get(site, 0)
        one = (one & ~thens.get(site, 0)) | (none & firsts.get(site, 0))
        none &= ~firsts.get(site, 0)
        wrong = 0
        for fault in points.faults[point]:
            wrong |= bits.get(points.pair(fault), 0)
        right.append((none & ~wrong, one & ~wrong, both & ~wrong))
        if point in points.ends:
            found |= right[point][2]
    return (pair for pair, bit in bits.items() if found & bit)


def is_avoided(pair: CertainPair, points: Points) -> bool:
    """Whether a pair is avoided on a path that contradicts itself in no test."""
    diagrams = points.paths.diagrams
    # By point, and by how many ends are met there: when that is so, and nothing went wrong.
    conditions: list[tuple[Condition, ...]] = []
    for point, step in enumerate(points.steps):
        if diagrams.is_large:
            return True
        before = points.before[point]
        reached = [FALSE, FALSE, FALSE]
        for met in range(3):
            condition = TRUE if met == 0 and not before else FALSE
            condition = diagrams.any((condition, *(conditions[each][met] for each in before)))
            now = following(met, pair, points, point)
            if now != WRONG:
                decided = points.decided(condition, step)
                reached[now] = diagrams.either(reached[now], decided)
        conditions.append(tuple(reached))
        if point in points.ends and reached[2] != FALSE:
            return True
    return False


WRONG = 3


def following(met: int, pair: CertainPair, points: Points, point: int) -> int:
    """The number of ends of a pair that are met after a point, from that before it; `WRONG` where
    the mistake is made."""
    if any(points.pair(fault) == pair for fault in points.faults[point]):
        return WRONG
    return met + (met < 2 and points.site(points.steps[point]) == pair.ends[met])


# ------------------------------------------------------------------------------ free tests


def free_tests(points: Points) -> Iterator[frozenset[Symbolic]]:
    """The tests on a remainder, each with those that share a part with it."""
    tests = points.paths.tests
    for test, places in tests.items():
        if points.paths.symbols.is_periodic(test):
            yield frozenset(other for other, at in tests.items() if at & places)


def is_certain(pair: CertainPair, points: Points, free: frozenset[Symbolic]) -> bool:
    """Whether some outcome of the free tests makes the mistake, for all outcomes of the others with
    which both ends are met.

    Two tests that change from one iteration to the next may be one in other words: a mistake under
    one of them is certain only if they are free.
    """
    if not varying(pair, points) <= free:
        return False
    diagrams, steps = points.paths.diagrams, points.paths.steps
    # By point, and by how many ends are met before it: when it goes right, and when wrong.
    conditions: dict[tuple[int, int], tuple[Condition, Condition]] = {}
    for point in range(len(points.steps) - 1, -1, -1):
        if diagrams.is_large:
            return False
        decision = steps[points.steps[point]].decision
        for met in range(3):
            now = following(met, pair, points, point)
            if now == WRONG:
                right, wrong = FALSE, TRUE
            elif point in points.ends:
                right, wrong = (TRUE if now == 2 else FALSE), FALSE
            else:
                after = [conditions[later, now] for later in points.after[point]]
                right = diagrams.any(each[0] for each in after)
                wrong = diagrams.any(each[1] for each in after)
            conditions[point, met] = diagrams.both(decision, right), diagrams.both(decision, wrong)
    right, wrong = (
        diagrams.where(each, lambda test: test not in free) for each in conditions[0, 0]
    )
    return diagrams.implies(right, wrong)


def varying(pair: CertainPair, points: Points) -> frozenset[Symbolic]:
    """The tests around both ends, on paths with the mistake, whose outcome is another one in
    another iteration."""
    wrong = [
        point
        for point, faults in enumerate(points.faults)
        if any(points.pair(fault) == pair for fault in faults)
    ]
    on_paths = {
        *reachable(wrong, points.after.__getitem__),
        *reachable(wrong, points.before.__getitem__),
    }
    guards: set[Symbolic] = set()
    for site in (pair.here, pair.there):
        for point in points.sites.get(site, ()):
            event = points.paths.steps[points.steps[point]].event
            if point in on_paths and event is not None:
                guards |= {test for test, _ in event.guards}
    return frozenset(test for test in guards if points.paths.symbols.varies(test))
