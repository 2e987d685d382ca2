"""The events of a function, in the order in which they happen, with the tests between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from amplint.gradscaler.events import Role, TrainingEventKind
from amplint.gradscaler.outcomes import Decision
from amplint.gradscaler.symbolic_values import Symbolic, SymbolicValues
from amplint.inference import SiteId

Site = tuple[SiteId, ...]


class Occurrence(NamedTuple):
    """An event that happens.

    Args:
        site: the call nodes from the outermost function to the call itself.
        object, argument: as in `TrainingEvent`, as symbolic values; `NOTHING` without one.
        guards: the tests around it, with their outcomes.
    """

    kind: TrainingEventKind
    site: Site
    object: Symbolic
    argument: Symbolic
    guards: frozenset[Decision]


class TraceStep(NamedTuple):
    """An event, the outcome of a test, or that the sides of a test meet.

    Args:
        before: the numbers of the steps that it may follow.
    """

    before: tuple[int, ...]
    event: Occurrence | None = None
    decision: Decision | None = None


@dataclass
class TrainingTrace:
    """All that may happen in a function.

    Args:
        steps: each after those before it; the first is the start.
        ends: the last step, if the end of the function is reached.
        tests: by place, those that are asked there.
        roles: what objects are.
        modules: by optimizer, the modules whose parameters it was given.
        dividing: the optimizers as in `divides_by_zero`.
        adams: those as in `is_adam`.
        may_be_off: what may be a scaler that is off, or None.
        elements: what loops that are run once draw, each with where.
        is_complete: whether all calls could be followed.
    """

    symbols: SymbolicValues
    steps: list[TraceStep] = field(default_factory=lambda: [TraceStep(())])
    ends: tuple[int, ...] = ()
    tests: dict[SiteId, set[Symbolic]] = field(default_factory=dict)
    roles: dict[Symbolic, Role] = field(default_factory=dict)
    modules: dict[Symbolic, Sequence[Symbolic]] = field(default_factory=dict)
    dividing: set[Symbolic] = field(default_factory=set)
    adams: set[Symbolic] = field(default_factory=set)
    may_be_off: set[Symbolic] = field(default_factory=set)
    elements: dict[Symbolic, set[SiteId]] = field(default_factory=dict)
    is_complete: bool = True

    @property
    def events(self) -> Iterator[Occurrence]:
        return (step.event for step in self.steps if step.event is not None)

    def add(self, step: TraceStep) -> int:
        """The number of a new step."""
        self.steps.append(step)
        return len(self.steps) - 1

    def join(self, steps: Iterable[int]) -> int:
        """The step at which several meet."""
        distinct = tuple(dict.fromkeys(steps))
        return distinct[0] if len(distinct) == 1 else self.add(TraceStep(distinct))
