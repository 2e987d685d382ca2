"""The request to a process: what it runs, and within which bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Spec:
    """One run of one program on one back end.

    Args:
        root: the directory that is sys.path[0] and the working directory.
        target: what is called, as "package.module:function", e.g. "bad:run".
        backend: a name in `backends.BACKENDS`.
        args, kwargs: what it is called with, as JSON has it. The string "{device}" stands for the
            back end's device.
        seed: for random, NumPy and torch.
        guess: what a value that nobody knows is taken for (`sim`): True or 1.0, or False or 0.0.
        contexts: "module:function" of context managers to enter around the call, inside the
            recorder.
        traced: the files below the root of which is written down what ran. Slows their code down,
            before Python 3.12 many times.
        asked: rows, by file below the root, of which is written down whether they ran; and which
            functions of these files were entered. Cheap, also before Python 3.12.
        record: whether to record operations; without, times are the program's own.
        watched: whether to watch for what rules are about, in place of keeping each operation.
        profiled: of a watched program, whether to write down what its functions are given, too.
        timeline: whether a watched program's events of one step are written down.
        seconds: of wall time, after which the process is killed.
        memory: bytes of address space that the process may have beyond what it has at the start;
            on a GPU, of GPU memory.
    """

    root: str
    target: str
    backend: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    guess: bool = True
    contexts: tuple[str, ...] = ()
    traced: tuple[str, ...] = ()
    asked: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    record: bool = True
    watched: bool = False
    profiled: bool = False
    timeline: bool = False
    seconds: float = 120.0
    memory: int = 8 << 30
