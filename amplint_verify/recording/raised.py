"""The text of an exception, and where the user's code raised it."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable

# What torch.utils.data raises for an error in a worker: torch/_utils.py, `ExceptionWrapper`.
OF_WORKER = re.compile(r"Caught \w+ in (.+)\.\nOriginal Traceback ")
# What the simulation says of a tensor on the device in a worker.
OF_ANOTHER_PROCESS = "a tensor on the GPU in another process, such as a worker of a DataLoader"
IN_TRACEBACK = re.compile(r'^ *File "(.+)", line (\d+)', re.MULTILINE)


class OutOfTime(BaseException):
    """The time is nearly up: what was seen until now is worth more than the rest."""


def message(error: BaseException) -> str:
    """The text of an error; of one in a worker of a loader, that of the error there."""
    text = str(error)
    worker = OF_WORKER.match(text)
    if worker is None:
        return text
    reason = text.rstrip().rpartition("\n")[2].partition(": ")[2]
    return f"{reason} (in {worker[1]})"


def place(error: BaseException, path_of: Callable[[str], str | None]) -> str:
    """The innermost line below the root in the traceback, and in that of a worker of a loader, as
    "path:row"; "" if there is none.

    Args:
        error: as it was caught.
        path_of: the path of a file below the root; None of others.
    """
    frames = [(each.filename, each.lineno) for each in traceback.extract_tb(error.__traceback__)]
    if OF_WORKER.match(str(error)):
        frames += [(name, int(row)) for name, row in IN_TRACEBACK.findall(str(error))]
    places = ((path_of(name), row) for name, row in frames)
    return next((f"{path}:{row}" for path, row in reversed([*places]) if path is not None), "")
