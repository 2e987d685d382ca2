"""Verdicts on a change: on one back end, and on all of them together.

A verdict rests on runs of the program before and after. Nothing is taken for right because it is
near: results are bitwise equal, or differ as the rules behind the change declare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from amplint.findings.declaration import Change
from amplint_verify.backends.choice import Aspect, AspectShown, Backend
from amplint_verify.compare.operations import (
    Compare,
    Divergence,
    LeafDifference,
    Place,
    accurate,
    after_cast,
    bits,
    close,
    differences,
    draws,
    first_divergence,
    kinds,
    operations,
)
from amplint_verify.compare.verdict import BAD, GOOD, Verdict
from amplint_verify.recording.observation import Leaf, Observation, RunOutcome

NORMALISED = "amplint_verify.runs.rng:normalised"
REFERENCE = "amplint_verify.runs.reference:in_float64"
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}  # what a change of dtype may cost
ORDER = list(Verdict)
# What a fix that changes the training leaves as it is; a new gradient or a new value is its point.
KEPT_IN_TRAINING = ("type", "dtype", "device", "shape")


@dataclass(frozen=True)
class GroundedVerdict:
    """A verdict and what it rests on.

    Args:
        verdict: of the change.
        reason: a clause for the user.
        differences: of the results, where they decided.
        divergence: where the traces part first, if they do.
        undeclared: the change that no rule declares, of a verdict that would be good with it.
        of_original: whether the original alone is why nothing can be said, of this change as of
            any other.
        unended: whether that is the time limit, which no verdict of another back end makes up for.
    """

    verdict: Verdict
    reason: str
    differences: tuple[LeafDifference, ...] = ()
    divergence: Divergence | None = None
    undeclared: Change | None = None
    of_original: bool = False
    unended: bool = False

    @property
    def good(self) -> bool:
        """Whether the change may be written."""
        return self.verdict in GOOD and self.undeclared is None


@dataclass(frozen=True)
class Runs:
    """The runs of a program on one back end.

    Args:
        backend: on which it ran.
        original, again: the program before the change, twice.
        fixed: after it.
        more: further runs, if they are needed: of the fixed program or not, in which context.
        same_line: the place in the original of a line of the fixed program; None for lines of
            statements that were edited.
    """

    backend: Backend
    original: Observation
    again: Observation
    fixed: Observation
    more: Callable[[bool, str], Observation]
    same_line: Callable[[Place], Place | None]


def judge(runs: Runs, changes: frozenset[Change]) -> GroundedVerdict:
    """The verdict of runs on one back end, for a change that declares some effects."""
    verdict = (
        by_outcome(runs)
        or by_noise(runs)
        or by_waits(runs, changes)
        or by_flags(runs)
        or by_results(runs, changes)
    )
    return replace(verdict, divergence=first_divergence(runs.original.rows, runs.fixed.rows))


# ------------------------------------------------------------------------------- without results


def by_original(original: Observation) -> GroundedVerdict | None:
    """That nothing can be said of any change, since the original shows nothing to hold it against.

    One that raises does: a change may be what it needs.
    """
    if original.outcome in (RunOutcome.OK, RunOutcome.EXCEPTION):
        return None
    if original.outcome is RunOutcome.NOT_SIMULABLE:
        return undecidable(f"this cannot be simulated: {original.text}")
    if original.outcome is RunOutcome.TIMEOUT:
        reason = (
            f"the original {ending(original)} on {original.backend}: --timeout allows more, or "
            "--backend names others"
        )
        return replace(undecidable(reason), unended=True)
    return undecidable(f"the original {ending(original)}")


def undecidable(reason: str, gaps: tuple[LeafDifference, ...] = ()) -> GroundedVerdict:
    return GroundedVerdict(Verdict.INCONCLUSIVE, reason, gaps, of_original=True)


def by_outcome(runs: Runs) -> GroundedVerdict | None:
    """A verdict where one of the runs did not come to its end."""
    before, after = runs.original, runs.fixed
    nothing = by_original(before)
    if nothing is not None:
        return nothing
    if after.outcome is RunOutcome.NOT_SIMULABLE:
        return GroundedVerdict(Verdict.INCONCLUSIVE, f"this cannot be simulated: {after.text}")
    if before.outcome is RunOutcome.OK:
        if after.outcome is RunOutcome.OK:
            return None
        return GroundedVerdict(Verdict.CRASHES, f"the fixed program {ending(after)}")
    if (runs.again.outcome, runs.again.error) != (before.outcome, before.error):
        return undecidable(f"the original {ending(before)}, and then {ending(runs.again)}")
    if after.outcome is RunOutcome.OK:
        return GroundedVerdict(
            Verdict.IMPROVED, f"the original {ending(before)}; the fixed program runs"
        )
    if (after.outcome, after.error) == (before.outcome, before.error):
        return undecidable(f"both programs {ending(before, many=True)}")
    return GroundedVerdict(
        Verdict.CRASHES, f"the original {ending(before)}, the fixed program {ending(after)}"
    )


def ending(run: Observation, *, many: bool = False) -> str:
    """How a run ended, as a predicate."""
    s = "" if many else "s"
    if run.outcome is RunOutcome.OK:
        return f"run{s}"
    if run.outcome is RunOutcome.TIMEOUT:
        return f"exceed{s} the time limit"
    if run.outcome in (RunOutcome.KILLED, RunOutcome.NO_RESULT):
        return f"end{s} without a result ({run.error})"
    place = f" at {run.place}" if run.place else ""
    first = run.text.partition("\n")[0]
    return f"raise{s} {run.error}{place}: {first}"


def by_noise(runs: Runs) -> GroundedVerdict | None:
    """No verdict on a program that differs from itself."""
    if runs.again.outcome is not RunOutcome.OK:
        return undecidable(f"the original runs, and then {ending(runs.again)}")
    own = compared(runs.original, runs.again, strictest(runs))
    if own:
        others = (runs.again, runs.fixed)
        near = not any(compared(runs.original, other, close) for other in others)
        rest = "; all runs are close by the standards of torch.testing" if near else ""
        reason = f"the original differs from itself: {own[0]}{rest}"
        return undecidable(reason, own)
    if runs.original.rng != runs.again.rng:
        return undecidable("the original draws other random numbers each time")
    return None


def by_waits(runs: Runs, changes: frozenset[Change]) -> GroundedVerdict | None:
    """More waits of the host are a mistake, wherever they come from: except for a fix that lets the
    training do what it left out, such as a step of the scaler, which waits."""
    reason = more_waits(runs)
    if not reason or Change.TRAINING in changes:
        return None
    return GroundedVerdict(Verdict.DIFFERS, reason)


def more_waits(runs: Runs) -> str:
    """That the host waits more often, in words; "" if it does not, as far as is known."""
    before, after = runs.original.blocking.total, runs.fixed.blocking.total
    if after <= before or runs.backend.shows[Aspect.WAITS] is AspectShown.NO:
        return ""
    return f"the host waits {after} times instead of {before}"


def by_flags(runs: Runs) -> GroundedVerdict | None:
    """New operations that a fake kernel let pass, and a real one would not."""
    old_flags = {(flag.op, flag.dtypes) for flag in runs.original.flags}
    for flag in runs.fixed.flags:
        if (flag.op, flag.dtypes) not in old_flags:
            dtypes = " and ".join(flag.dtypes)
            reason = f"{flag.op} of {dtypes} at {flag.path}:{flag.row} raises with real kernels"
            return GroundedVerdict(Verdict.CRASHES, reason)
    return None


# ------------------------------------------------------------------------------- results


def by_results(runs: Runs, changes: frozenset[Change]) -> GroundedVerdict:
    """Bitwise equal, or else what the change declares, tried from the strictest on."""
    gaps = compared(runs.original, runs.fixed, strictest(runs))
    if not gaps:
        return by_stream(runs, changes) or by_dtypes(runs, changes)
    stream = by_normalised_results(runs, changes)
    if stream is not None:
        return stream
    if Change.DTYPE in changes and not compared(runs.original, runs.fixed, after_cast):
        return GroundedVerdict(Verdict.DECLARED_CHANGE, "equal after the declared cast", gaps)
    by_error = None
    if changes & {Change.DTYPE, Change.ROUNDING}:
        by_error = by_reference(runs, changes, gaps)
        if by_error.good or Change.TRAINING not in changes:
            return by_error
    if Change.TRAINING in changes:
        return by_training(runs, changes, gaps)
    return by_error or GroundedVerdict(Verdict.DIFFERS, str(gaps[0]), gaps)


def by_training(
    runs: Runs, changes: frozenset[Change], gaps: tuple[LeafDifference, ...]
) -> GroundedVerdict:
    """Other values, where the rule says that the original trains on wrong ones.

    No run can show that the new values are the right ones. It shows that dtypes, devices and
    shapes are as they were.
    """
    invariants = set(KEPT_IN_TRAINING) - ({"dtype"} if Change.DTYPE in changes else set())
    for each in gaps:
        if each.what in invariants:
            return GroundedVerdict(Verdict.DIFFERS, str(each), gaps)
    reasons = filter(None, (str(gaps[0]), more_waits(runs)))
    return GroundedVerdict(Verdict.DECLARED_CHANGE, "; ".join(reasons), gaps)


def compared(
    before: Observation, after: Observation, compare: Compare
) -> tuple[LeafDifference, ...]:
    return differences(leaves(before), leaves(after), compare)


def strictest(runs: Runs) -> Compare:
    """The comparison under which equal programs are equal on this back end."""
    return bits if has_values(runs.backend) else kinds


def has_values(backend: Backend) -> bool:
    return backend.shows[Aspect.VALUES] is AspectShown.YES


def leaves(run: Observation) -> Sequence[Leaf]:
    return (*run.result, *run.state)


def by_stream(runs: Runs, changes: frozenset[Change]) -> GroundedVerdict | None:
    """Equal results, and generators that were used otherwise: what is drawn later will differ."""
    counts = draws(runs.original.rows), draws(runs.fixed.rows)
    if runs.original.rng == runs.fixed.rng and counts[0] == counts[1]:
        return None
    rest = "the results are equal" if has_values(runs.backend) else "there are no values here"
    return stream_changed(runs, changes, rest)


def by_normalised_results(runs: Runs, changes: frozenset[Change]) -> GroundedVerdict | None:
    """Other random numbers, where these are all that makes the difference."""
    draws_differ = draws(runs.original.rows) != draws(runs.fixed.rows)
    if not draws_differ and runs.original.rng == runs.fixed.rng:
        return None
    before, after = runs.more(False, NORMALISED), runs.more(True, NORMALISED)
    both_ran = before.outcome is after.outcome is RunOutcome.OK
    if not both_ran or compared(before, after, bits):
        return None
    return stream_changed(runs, changes, "otherwise exact")


def stream_changed(runs: Runs, changes: frozenset[Change], rest: str) -> GroundedVerdict:
    counts = draws(runs.original.rows), draws(runs.fixed.rows)
    old, new = (
        sorted({device for _, device in one - other}) for one, other in (counts, counts[::-1])
    )
    if old and new and old != new:
        where = f"the generator of {new[0]} instead of that of {old[0]}"
    else:
        where = "other random numbers"
    undeclared = None if Change.STREAM in changes else Change.STREAM
    return GroundedVerdict(Verdict.STREAM_CHANGED, f"{where}; {rest}", undeclared=undeclared)


def by_dtypes(runs: Runs, changes: frozenset[Change]) -> GroundedVerdict:
    """Equal results: did lines that were not edited compute with other dtypes or devices?"""
    before, after = operations(runs.original.rows), operations(runs.fixed.rows)
    for place, now in after.items():
        source = runs.same_line(place)
        was = before.get(source, set()) if source is not None else set()
        for op in sorted({each[0] for each in now} & {each[0] for each in was}):
            new = {each for each in now - was if each[0] == op}
            old = {each for each in was - now if each[0] == op}
            if new or old:
                where = f"{place[0]}:{place[1]}"
                reason = f"{op} at {where} computes with {text_of(new)}, not {text_of(old)}"
                if Change.DTYPE in changes:
                    return GroundedVerdict(Verdict.DECLARED_CHANGE, reason)
                return GroundedVerdict(Verdict.DIFFERS, reason)
    return GroundedVerdict(Verdict.EXACT, "")


def text_of(done: Iterable[tuple[str, ...]]) -> str:
    """Ex) "float16@cpu -> float32@cpu" """
    return " or ".join(sorted(" ".join(each[1:]) for each in done)) or "the others only"


def by_reference(
    runs: Runs, changes: frozenset[Change], gaps: tuple[LeafDifference, ...]
) -> GroundedVerdict:
    """Hold the errors of both programs, on the same random numbers, against a float64 run."""
    if not has_values(runs.backend):
        return by_properties(changes, gaps)
    exact = runs.more(False, REFERENCE)
    before, after = runs.more(False, NORMALISED), runs.more(True, NORMALISED)
    for run, name in ((exact, "the float64 run"), (before, "the original"), (after, "the fix")):
        if run.outcome is not RunOutcome.OK:
            reason = f"changed, without a reference ({name} {ending(run)}): {gaps[0]}"
            return GroundedVerdict(Verdict.INCONCLUSIVE, reason, gaps)
    reference = {leaf.where: leaf for leaf in leaves(exact)}
    worse = compared(before, after, partial(accurate, reference, 0.0))
    if not worse and Change.ROUNDING in changes:
        return GroundedVerdict(Verdict.IMPROVED, "no further from a float64 reference", gaps)
    if worse and Change.DTYPE in changes:
        eps = max((EPS.get(name, 0.0) for name in dtypes_in(runs.fixed)), default=0.0)
        worse = compared(before, after, partial(accurate, reference, eps))
    if worse:
        return GroundedVerdict(Verdict.DIFFERS, str(worse[0]), worse)
    return GroundedVerdict(Verdict.DECLARED_CHANGE, "within the declared dtype's rounding", gaps)


def by_properties(changes: frozenset[Change], gaps: tuple[LeafDifference, ...]) -> GroundedVerdict:
    """Where there are no values: dtypes may differ if that is declared, and nothing else."""
    if Change.DTYPE in changes and all(each.what == "dtype" for each in gaps):
        return GroundedVerdict(Verdict.DECLARED_CHANGE, str(gaps[0]), gaps)
    return GroundedVerdict(Verdict.DIFFERS, str(gaps[0]), gaps)


def dtypes_in(run: Observation) -> set[str]:
    return {each.partition("@")[0] for row in run.rows for each in row.outputs}


# ------------------------------------------------------------------------------- all back ends


def overall(
    judgements: Mapping[str, GroundedVerdict], backends: Sequence[Backend]
) -> GroundedVerdict:
    """One verdict for all back ends: the worst; but what one could not decide, another may have,
    unless that was for want of time.

    Only a back end with values can make it good.
    """
    with_values = [judgements[each.name] for each in backends if has_values(each)]
    everything = [*with_values, *judgements.values()]  # of equals, values have the first word
    bad = [each for each in everything if each.verdict in BAD or each.undeclared]
    if bad:
        return max(bad, key=severity)
    for each in everything:
        if each.unended:
            return each
    if not with_values:
        return GroundedVerdict(Verdict.INCONCLUSIVE, "no back end with values ran it")
    if not all(each.good for each in with_values):
        return max(with_values, key=severity)
    return max((each for each in everything if each.good), key=severity)


def severity(judgement: GroundedVerdict) -> int:
    return ORDER.index(judgement.verdict)
