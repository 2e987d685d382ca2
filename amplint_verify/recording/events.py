"""The events of one step of training, in their order: plain data, which needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from amplint_verify.recording.sightings import ModulePath


class EventKind(Enum):
    """The kinds of events that a page shows."""

    CALL = "call"  # of a module, from outside of any
    REGION_ON = "region-on"
    REGION_OFF = "region-off"
    CAST = "cast"  # by autocast
    OWN_CAST = "own-cast"  # by the program
    GRADIENT_CAST = "gradient-cast"
    WAIT = "wait"
    SCALE = "scale"
    BACKWARD = "backward"
    UNSCALE = "unscale"
    CLIP = "clip"
    SCALER_STEP = "scaler-step"
    STEP = "step"
    UPDATE = "update"
    ZERO_GRAD = "zero-grad"


@dataclass(frozen=True)
class Event:
    """Something that happened, and how often at a stretch.

    Args:
        kind: what it was.
        detail: dtypes, the class of an optimizer, a `Wait.value`: as the kind has it.
        asked: the function of torch that was called, if any.
        path, row: the line of the project that asks; "" and 0 if there is none.
        direct: whether the line itself asks for it, and not a library that it calls.
        module: in whose call; None outside of any.
        region: the dtype of the autocast region around; "" outside of any.
        count: how many followed each other that are equal in all of this.
        size: bytes of what they made.
    """

    kind: EventKind
    detail: str = ""
    asked: str = ""
    path: str = ""
    row: int = 0
    direct: bool = True
    module: ModulePath | None = None
    region: str = ""
    count: int = 1
    size: int = 0


@dataclass(frozen=True)
class ModuleDtypes:
    """The dtypes that a module was seen with in a step.

    Args:
        module: the module.
        inputs, outputs: of the tensors in its arguments and in its results, over all calls.
        parameters: of its own parameters, without those of modules in it.
        calls: how many there were.
        casts, own_casts: how many casts of autocast, and of the program, there were in its own
            calls, without those of modules in it.
    """

    module: ModulePath
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    calls: int = 0
    casts: int = 0
    own_casts: int = 0


@dataclass(frozen=True)
class Timeline:
    """One step of training, from the first line of its loop to the last.

    Args:
        first: its number, from 1.
        made: how many steps were made until its end: more than `first` where no line separates one
            step from the next, fewer where none was made.
        events: in order.
        left_out: how many more there were.
        modules: those that were called, in the order of their first call.
        modules_left_out: how many more.
    """

    first: int = 1
    made: int = 0
    events: tuple[Event, ...] = ()
    left_out: int = 0
    modules: tuple[ModuleDtypes, ...] = ()
    modules_left_out: int = 0
