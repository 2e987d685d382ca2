"""The four ways to run a program, what each can show, and which of them a machine has.

What each shows was found by trying: `sim` against PyTorch's own lists of autocast operations (no
dtype was ever wrong), fake kernels against real ones on 32 calls with operands of unequal dtypes,
and `policy` with real values (`amplint verify --self-test` repeats the first and the last).
"""

from __future__ import annotations

import importlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from amplint_verify import HOW_TO_GET_TORCH


class Aspect(Enum):
    """An aspect of a program that a run may show. The value is the heading of its column."""

    VALUES = "values"
    GRADIENTS = "backward"
    DTYPES = "CUDA autocast dtypes"
    ERRORS = "errors of unequal dtypes"
    DEVICES = "devices"
    WAITS = "host waits"
    WARNINGS = "warnings"
    TIME = "time and memory"


class AspectShown(Enum):
    """Whether a back end shows an aspect."""

    YES = "yes"
    PARTLY = "partly"
    NO = "no"


YES, PARTLY, NO = AspectShown.YES, AspectShown.PARTLY, AspectShown.NO


@dataclass(frozen=True)
class Backend:
    """A way to run a program.

    Args:
        name: as on the command line.
        title: what may be said of it; simulated autocast is never called real.
        device: the device that the program is to use.
        shows: for every aspect whether the back end shows it.
        notes: what "partly" and "no" mean, by aspect, where it needs words.
    """

    name: str
    title: str
    device: str
    shows: Mapping[Aspect, AspectShown]
    notes: Mapping[Aspect, str]


def _backend(name: str, title: str, device: str, shows: str, **notes: str) -> Backend:
    """`shows` has a letter for each aspect, in their order."""
    letters = {"y": YES, "p": PARTLY, "n": NO}
    by_aspect = {
        aspect: letters[letter] for aspect, letter in zip(Aspect, shows.split(), strict=True)
    }
    return Backend(
        name, title, device, by_aspect, {Aspect[key.upper()]: text for key, text in notes.items()}
    )


_TABLE = (
    #                                                       V G D E D W W T
    _backend("cuda", "CUDA autocast on a GPU", "cuda", "y y y y y y y y"),
    _backend(
        "sim",
        "a simulated GPU, dtypes and devices only: nothing is computed",
        "cuda",
        "n n y p y y y n",
        values="tensors have no values; values that the host reads are guessed",
        gradients="only which leaves have one, with its dtype and device",
        errors="fake kernels accept some; the recorder flags them",
        waits="except some inside one kernel, such as those of isin",
    ),
    _backend(
        "policy",
        "a simulated GPU with values: CUDA's autocast, computed on the CPU",
        "cpu",
        "y y y y n n y n",
        errors="as the CPU's kernels raise them",
        devices="everything is on the CPU",
        waits="everything is on the CPU",
    ),
    _backend(
        "cpu",
        "CPU autocast",
        "cpu",
        "y y n y n p y p",
        dtypes="the CPU has another list of operations",
        devices="everything is on the CPU",
        waits="reads that would wait, were the tensor on a GPU",
        time="those of this CPU, not of a GPU",
    ),
)
BACKENDS: Mapping[str, Backend] = {backend.name: backend for backend in _TABLE}
AUTO = "auto"


def missing(name: str) -> str | None:
    """Why this machine cannot run a back end; None if it can.

    Imports torch. A machine whose torch cannot be imported has none of them.
    """
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError as error:
        return f"torch cannot be imported ({error}); {HOW_TO_GET_TORCH}"
    if name == "cuda" and not torch.cuda.is_available():
        return "torch sees no CUDA GPU"
    if name == "sim" and platform.system() != "Linux" and torch.version.cuda is None:
        # A build for the CPU needs a slot of libc10.so filled (see sim.py).
        return "simulation on a CPU build of torch is for Linux"
    return None


def backends_of(name: str) -> tuple[Backend, ...]:
    """The back ends that `--backend NAME` means: a GPU if there is one, else what stands for it."""
    if name != AUTO:
        return (BACKENDS[name],)
    names = ("cuda",) if missing("cuda") is None else ("sim", "policy")
    return tuple(BACKENDS[each] for each in names if missing(each) is None)


def available() -> tuple[Backend, ...]:
    """The back ends that this machine can run."""
    return tuple(backend for backend in _TABLE if missing(backend.name) is None)


def table() -> str:
    """The aspects that each back end shows, as a table in Markdown."""
    heads = ["back end", *(aspect.value for aspect in Aspect)]
    lines = [heads, ["---"] * len(heads)]
    for backend in _TABLE:
        cells = [backend.shows[aspect].value for aspect in Aspect]
        lines.append([f"`{backend.name}`", *cells])
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    notes = [
        f"- `{backend.name}`: {backend.title}."
        + "".join(f" {aspect.value}: {text}." for aspect, text in backend.notes.items())
        for backend in _TABLE
    ]
    return "\n".join([*rows, "", *notes]) + "\n"
