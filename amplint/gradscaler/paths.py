"""Paths through a function: the events on them, and their state while the function is run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from amplint.gradscaler.decision_diagram import TRUE, Condition, DecisionDiagrams
from amplint.gradscaler.events import Role, TrainingEventKind
from amplint.gradscaler.instructions import FunctionCode
from amplint.gradscaler.symbolic_values import NOTHING, Symbolic, SymbolicValues
from amplint.inference import SiteId, State
from amplint.ir.model import Graph

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

    kind: TrainingEventKind
    site: Site
    object: Symbolic
    argument: Symbolic
    guards: frozenset[Decision]


class PathStep(NamedTuple):
    """A step of one path or several: an event, a decision, or that paths meet.

    Args:
        before: the numbers of the steps before it.
        decision: which outcomes of tests lead on.
    """

    before: tuple[int, ...]
    event: Occurrence | None = None
    decision: Condition = TRUE


class PathSteps:
    """The steps of all paths, each after those before it; the first is the start of all."""

    def __init__(self) -> None:
        self.all = [PathStep(())]

    def add(self, step: PathStep) -> int:
        """The number of a new step."""
        self.all.append(step)
        return len(self.all) - 1

    def join(self, steps: list[int]) -> int:
        """The step at which paths meet."""
        distinct = tuple(dict.fromkeys(steps))
        return distinct[0] if len(distinct) == 1 else self.add(PathStep(distinct))


@dataclass(frozen=True)
class Paths:
    """All paths through a function.

    Args:
        steps: each after those before it; the first is the start of all paths.
        ends: the last step of each path.
        tests: by symbolic value, the tests (their places) whose outcome depends on it.
        roles: what objects are.
        modules: by optimizer, the modules whose parameters it was given.
        dividing: the optimizers as in `divides_by_zero`.
        adams: those as in `is_adam`.
        may_be_off: what may be a scaler that is off, or None.
    """

    steps: list[PathStep]
    ends: tuple[int, ...]
    symbols: SymbolicValues
    diagrams: DecisionDiagrams
    tests: dict[Symbolic, set[SiteId]]
    roles: dict[Symbolic, Role]
    modules: dict[Symbolic, Sequence[Symbolic]]
    dividing: set[Symbolic]
    adams: set[Symbolic]
    may_be_off: set[Symbolic]


class Suspended(NamedTuple):
    """A caller: what its nodes hold, as far as it is read later."""

    values: tuple[tuple[int, Symbolic], ...]
    caller: Suspended | None


@dataclass(slots=True)
class PathState:
    """The present state of one path, or of several that became one.

    Args:
        values: of the nodes that were run.
        derived: of nodes that were not, but are read.
        fields: what was stored in objects.
        condition: which outcomes of tests lead here, as far as they are tested again.
        guards: the tests around, with their outcomes, from the outermost.
        half: the modules whose parameters are float16 or bfloat16.
        step: the number of the last step.
        result: what the function returns.
    """

    values: dict[int, Symbolic]
    step: int
    fields: dict[Field, Symbolic] = field(default_factory=dict)
    condition: Condition = TRUE
    guards: tuple[frozenset[Decision], ...] = ()
    half: frozenset[Symbolic] = frozenset()
    caller: Suspended | None = None
    result: Symbolic = NOTHING
    derived: dict[int, Symbolic] = field(default_factory=dict)

    def copy(self) -> PathState:
        return replace(
            self,
            values=dict(self.values),
            fields=dict(self.fields),
            derived=dict(self.derived),
        )

    def key(self) -> tuple[object, ...]:
        """The part of the state that paths have to share to become one."""
        return (
            frozenset(self.values.items()),
            frozenset(self.fields.items()),
            self.guards,
            self.half,
            self.caller,
            self.result,
        )


@dataclass
class Activation:
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
    code: FunctionCode
    key: Symbolic
    around: Activation | None = None
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
    def chain(self) -> Iterator[Activation]:
        """It, and those that run it."""
        frame: Activation | None = self
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


class Knowledge:
    """The lessons of runs: the roles of objects, and when a test or a field is asked for last.

    A run knows what the runs before it have taught. One that teaches nothing new has dropped
    nothing that was asked for later.
    """

    def __init__(self) -> None:
        self.roles: dict[Symbolic, Role] = {}
        self._known_roles: dict[Symbolic, Role] = {}
        self._known: dict[Symbolic | Field, Time] = {}
        self._learned: dict[Symbolic | Field, Time] = {}

    def begin_run(self) -> None:
        self._known, self._learned = self._learned, {}
        self._known_roles = dict(self.roles)

    def is_complete(self) -> bool:
        """Whether this run has taught nothing new."""
        return self.roles == self._known_roles and all(
            time <= self._known.get(asked, ()) for asked, time in self._learned.items()
        )

    def ask(self, asked: Symbolic | Field, time: Time) -> None:
        """Note that a test or a field is asked for."""
        self._learned[asked] = max(self._learned.get(asked, ()), time)

    def is_asked_from(self, asked: Symbolic | Field, time: Time) -> bool:
        """Whether it is asked for at that time or later."""
        return self._known.get(asked, ()) >= time
