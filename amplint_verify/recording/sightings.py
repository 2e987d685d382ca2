"""Sightings of a watched program: plain data, which needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Act(Enum):
    """Something that a program did and that a rule is about."""

    READ = "read"  # item(), tolist(), float(), cpu(): values of the device go to the host
    TRUTH = "truth"  # a test of a tensor
    FORMATTED = "formatted"
    AS_NUMBER = "as-number"  # an operation of torch reads a number that it is given as a tensor
    SHAPE = "shape"  # the host waits for the shape of a result
    SYNCHRONIZE = "synchronize"
    EMPTY_CACHE = "empty-cache"
    MIXED_WHERE = "mixed-where"
    FLOAT64 = "float64"
    BACKWARD_IN_REGION = "backward-in-region"
    STEP_IN_REGION = "step-in-region"
    STEP_PAST_SCALER = "step-past-scaler"
    STEP_AGAIN = "step-again"  # with gradients that the scaler has made a step with
    BACKWARD_PAST_SCALER = "backward-past-scaler"
    SCALED_CLIP = "scaled-clip"
    VANISHING = "vanishing"  # a number is added, or is a limit, and is 0 in float16
    ADAM_ON_HALF = "adam-on-half"
    SCALER_MADE = "scaler-made"
    STALE_WEIGHTS = "stale-weights"  # the cast of a weight is older than its last write
    BEYOND = "beyond"  # a tensor is to hold a number that its dtype has not
    MERGED_POSITIONS = "merged-positions"
    LOST_ANGLES = "lost-angles"  # half has rounded angles, and their sines have not one right bit
    ROUNDED_INTEGERS = "rounded-integers"
    MOVED_FACTORY = "moved-factory"  # built on the host, then moved
    COPIED = "copied"  # a tensor is built from a tensor
    OVERFLOW = "overflow"  # infinity or NaN in half, of finite operands, and not in float32


@dataclass(frozen=True)
class UserExpression:
    """The expression of the user's that asked for something.

    Args:
        path: of its file, relative to the root.
        row, end_row: the first and the last row, from 1.
        column, end_column: in bytes of UTF-8, from 0, the end exclusive; -1 where Python does not
            say (before 3.11).
    """

    path: str
    row: int
    end_row: int
    column: int = -1
    end_column: int = -1


@dataclass(frozen=True)
class ModulePath:
    """A module of the program's.

    Args:
        root: the class of the module that is called from outside of any.
        path: the name that it has in there, such as "layers.3"; "" of the root itself.
        kind: its class.
    """

    root: str
    path: str
    kind: str


@dataclass(frozen=True)
class Sighting:
    """The things seen at one place, however often.

    Args:
        act: what was done.
        site: where.
        detail: words that the message needs, such as the dtypes.
        count: how often.
        steps: in how many steps of training.
        first: the first of these, from 1.
        size: bytes that were moved or made, each time together.
        callers: the lines of the project from which it was reached, the nearest first.
        module: the first of the modules in whose calls it was seen; None outside of any.
        modules: how many these are.
    """

    act: Act
    site: UserExpression
    detail: str = ""
    count: int = 1
    steps: int = 1
    first: int = 1
    size: int = 0
    callers: tuple[UserExpression, ...] = ()
    module: ModulePath | None = None
    modules: int = 0


@dataclass(frozen=True)
class DigitLoss:
    """The loss of all digits by an operation whose operands have theirs.

    Args:
        op: the operation, e.g. "sub".
        path, row: the line that asks for it.
        error: of the result, relative to its size.
        bound: of the errors of the operands.
    """

    op: str
    path: str
    row: int
    error: float
    bound: float


# What is kept of a value: of a tensor "dtype device dimensions", as "float16 cuda 1", the device
# "?" where the run does not show it, the dimensions 0 for none and 1 for some; of lists, tuples and
# dicts with tensors in them a list or a dict of these; of anything else `OTHER`.
Shape = Any
OTHER = "other"


@dataclass(frozen=True)
class Called:
    """The calls of one function of the program.

    Args:
        path, row, name: of its first line, that of a decorator if it has one.
        parameters: what they were given, by name, each kind once.
        regions: the dtypes of the autocast regions that it was called in, "" for none.
        learns: whether gradients were on in one of the calls.
        calls: how many there were.
        steps: in how many steps of training.
    """

    path: str
    row: int
    name: str
    parameters: Mapping[str, tuple[Shape, ...]] = field(default_factory=dict)
    regions: tuple[str, ...] = ()
    learns: bool = False
    calls: int = 0
    steps: int = 0


@dataclass(frozen=True)
class Gave:
    """The values that an expression of the program gave.

    Args:
        kind: "call", "attribute", "subscript" or "operation".
        site: where it stands.
        shapes: each kind of value once.
    """

    kind: str
    site: UserExpression
    shapes: tuple[Shape, ...]
