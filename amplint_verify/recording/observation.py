"""Observations of one run of a program: plain data, to JSON and back.

The process that runs a program writes an `Observation`; the one that judges reads it. Neither this
module nor what it holds needs torch.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from amplint_verify.recording.events import Timeline
from amplint_verify.recording.sightings import Called, Gave, Sighting

SCHEMA = 1
T = TypeVar("T")


class SchemaError(ValueError):
    """A JSON document is no observation, or one of another schema."""


class RunOutcome(Enum):
    """How a run ended."""

    OK = "ok"
    EXCEPTION = "exception"
    TIMEOUT = "timeout"
    KILLED = "killed"
    NO_RESULT = "no-result"  # the process ended, and said nothing: sys.exit, os._exit
    NOT_SIMULABLE = "not-simulable"


class Wait(Enum):
    """An operation that makes the host wait for the device, or copies between them."""

    SCALAR_READ = "scalar-read"
    SHAPE_READ = "shape-read"
    BOOL_INDEX = "bool-index"
    TO_HOST = "d2h-copy"
    TO_DEVICE = "h2d-copy"
    TO_HOST_ASYNC = "d2h-copy-async"
    TO_DEVICE_ASYNC = "h2d-copy-async"
    SYNCHRONIZE = "synchronize"
    EMPTY_CACHE = "empty-cache"

    @property
    def blocks(self) -> bool:
        """Whether the host stands still until the device is done."""
        return self not in (Wait.TO_HOST_ASYNC, Wait.TO_DEVICE_ASYNC)

    @property
    def reads(self) -> bool:
        """Whether the host stands still for what the device has computed."""
        return self.blocks and self is not Wait.TO_DEVICE


@dataclass(frozen=True)
class OperationRow:
    """One operation that was dispatched.

    Args:
        path: the file of the innermost frame below the root, relative to it; "" if there is none.
        row: the line of that frame, from 1; 0 if there is none.
        op: e.g. "aten.mm.default".
        inputs: dtype and device of each tensor that goes in, e.g. "float16@cuda:0".
        outputs: likewise of what comes out.
        wait: how it makes the host wait, or copies, if it does.
        direct: whether the line itself asks for it, and not a library that it calls.
    """

    path: str
    row: int
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    wait: Wait | None = None
    direct: bool = True


@dataclass(frozen=True)
class Occurrences:
    """How often something happened.

    Args:
        user: asked for by a line below the root.
        library: asked for inside a library.
    """

    user: int = 0
    library: int = 0

    @property
    def total(self) -> int:
        return self.user + self.library


@dataclass(frozen=True)
class Flag:
    """An operation on operands whose dtypes real kernels do not take together.

    Args:
        path, row, op: as in `OperationRow`.
        dtypes: those of the operands that clash.
    """

    path: str
    row: int
    op: str
    dtypes: tuple[str, ...]


@dataclass(frozen=True)
class ReturnedTensor:
    """A tensor that a program gave back.

    Args:
        dtype: e.g. "float16".
        device: e.g. "cuda:0".
        shape, stride: as torch has them; a tensor that is not strided has no stride.
        type: of the Python object, e.g. "torch.Tensor", "torch.nn.parameter.Parameter".
        requires_grad: as torch has it.
        sha256: of the bytes of the contiguous values; None where there are no values.
        data: those bytes in base64, of tensors up to 1 MiB; None of larger ones.
        sample: where there is no data, those of some elements: see `sample_step`.
    """

    dtype: str
    device: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    type: str
    requires_grad: bool
    sha256: str | None
    data: str | None
    sample: str | None = None


SAMPLED = 4096  # elements of a tensor that is too large to be sent


def sample_step(elements: int) -> int:
    """The distance between the elements of a sample, from the first one on."""
    return max(1, -(-elements // SAMPLED))


@dataclass(frozen=True)
class Leaf:
    """A part of what a program gave back. Containers are leaves too, followed by what they hold.

    Args:
        where: e.g. "result['loss'][0]".
        kind: the type, e.g. "float", "dict", "torch.Tensor".
        text: repr of a number, string, None or bool; the length of a container; "" of an object
            that nothing is known of.
        tensor: of a tensor or an array.
    """

    where: str
    kind: str
    text: str = ""
    tensor: ReturnedTensor | None = None


@dataclass(frozen=True)
class Observation:
    """The observation of one run.

    Args:
        backend: on which back end.
        torch: the version; "" if it was not imported.
        outcome: how the run ended.
        error: the type of the exception, or what ended the process.
        text: of the exception.
        printed: the end of what the program printed, where it came to no end.
        place: the innermost line below the root in its traceback, as "path:row"; "" if none.
        rows: the operations, in order; the first 200000 of them.
        dropped: how many more there were.
        waits: how often the host waited or copied, by `Wait.value`.
        counters: what other counters of the same waits say (`cuda`), by their name.
        to_device: bytes copied from host to device.
        to_host: bytes copied from device to host.
        flags: operations that would raise with real kernels.
        warnings: the texts that were warned of.
        result: what the program gave back.
        state: what else was given to compare: parameters, gradients, a scaler.
        rng: a hash of the states of all random generators at the end.
        guesses: how many values or shapes were guessed (`sim`).
        ran: the parts of the text that ran (`tracing.Place`), by path below the root, of the files
            for which that was asked.
        notes: what a reader should know of the run itself.
        sightings: what the program did that a rule is about, where that was asked for.
        steps: how many steps of training it made, likewise.
        skipped: how many of them a scaler left out, since gradients were not finite.
        regions: the dtypes of the autocast regions that torch was called in, likewise.
        timeline: the events of one of them, where that was asked for.
        reached: of the rows that were asked for, those that ran, by path below the root.
        entered: the first rows of the functions that were entered, in the files of these.
        called, gave: what functions were given, and what expressions gave, where that was asked
            for.
        calling: the rows that have called something, by path below the root, likewise.
        schema: of this document.
    """

    backend: str
    torch: str
    outcome: RunOutcome
    error: str = ""
    text: str = ""
    printed: str = ""
    place: str = ""
    rows: tuple[OperationRow, ...] = ()
    dropped: int = 0
    waits: Mapping[str, Occurrences] = dataclasses.field(default_factory=dict)
    counters: Mapping[str, int] = dataclasses.field(default_factory=dict)
    to_device: int = 0
    to_host: int = 0
    flags: tuple[Flag, ...] = ()
    warnings: tuple[str, ...] = ()
    result: tuple[Leaf, ...] = ()
    state: tuple[Leaf, ...] = ()
    rng: str = ""
    guesses: int = 0
    ran: Mapping[str, tuple[tuple[int, ...], ...]] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    steps: int = 0
    skipped: int = 0
    regions: tuple[str, ...] = ()
    timeline: Timeline | None = None
    reached: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    entered: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    called: tuple[Called, ...] = ()
    gave: tuple[Gave, ...] = ()
    calling: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    schema: int = SCHEMA

    @property
    def blocking(self) -> Occurrences:
        """How often the host stood still."""
        return self._sum(wait for wait in Wait if wait.blocks)

    @property
    def reads(self) -> Occurrences:
        """How often the host stood still for what the device had computed."""
        return self._sum(wait for wait in Wait if wait.reads)

    def _sum(self, kinds: Iterable[Wait]) -> Occurrences:
        counts = [self.waits[kind.value] for kind in kinds if kind.value in self.waits]
        return Occurrences(sum(c.user for c in counts), sum(c.library for c in counts))

    def to_json(self) -> dict[str, Any]:
        """As JSON has it: numbers, strings, lists and dicts."""
        return typing.cast("dict[str, Any]", to_json(self))

    @classmethod
    def from_json(cls, data: Any) -> Observation:
        """Raises SchemaError for anything but an observation of this schema."""
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise SchemaError(f"this is not an observation of schema {SCHEMA}")
        return from_json(cls, data)


# ------------------------------------------------------------------------------- dataclasses, JSON


def to_json(value: object) -> object:
    """A frozen dataclass of this package as JSON has it; fields that hold their default are left
    out, except for the schema."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    return {
        field.name: to_json(getattr(value, field.name))
        for field in dataclasses.fields(value)
        if field.name == "schema" or getattr(value, field.name) != default(field)
    }


def default(field: dataclasses.Field[Any]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def from_json(kind: type[T], data: Any) -> T:
    """The dataclass that `to_json` wrote. Raises SchemaError if the document does not fit."""
    try:
        return typing.cast("T", _read(kind, data))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SchemaError(f"no {kind.__name__}: {error}") from error


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _read(hint: Any, data: Any) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):  # X | None is all there is
        return None if data is None else _read(inner[0], data)
    if origin is tuple:
        return tuple(_read(inner[0], item) for item in data)
    if origin is not None:  # a mapping
        return {key: _read(inner[1], item) for key, item in data.items()}
    if hint is Any or hint is object:
        return data
    kind: type[Any] = hint
    if issubclass(kind, Enum):
        return kind(data)
    if dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{key: _read(hints[key], item) for key, item in data.items()})
    if not isinstance(data, (int, float) if kind is float else kind):
        raise TypeError(f"{data!r} is no {kind.__name__}")
    return data
