"""Watch code of this process, as it is and on the devices that it uses.

Nothing is simulated, seeded or limited, and all that is replaced is put back.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from amplint_verify.backends.cuda import recorded
from amplint_verify.observing import cells
from amplint_verify.recording.digits import OF_ANGLES, WideCopies
from amplint_verify.recording.observation import Observation, OperationRow, RunOutcome
from amplint_verify.recording.raised import message, place
from amplint_verify.recording.record import OWN, LineFinder, Recorder, copy_of, wait_of
from amplint_verify.recording.sightings import Act, DigitLoss
from amplint_verify.recording.timeline import short
from amplint_verify.recording.watching import Watcher, watching

# A home directory may be the root of a notebook, and have a Python below it.
LIBRARIES = (
    *OWN,
    *(
        os.path.realpath(sysconfig.get_path(name)) + os.sep
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
    ),
)
# What is replaced while a program is watched. A program that is under way has imported it before.
REPLACED = (
    (torch.nn.utils, "clip_grad_norm_"),
    (torch.nn.utils, "clip_grad_value_"),
    (torch.autograd, "backward"),
    (torch.cuda, "synchronize"),
    (torch.cuda, "empty_cache"),
)
_turn = threading.Lock()  # what is replaced is replaced for all threads


class NestedError(Exception):
    """The code is watched already."""


class LivePlaces(LineFinder):
    """Finds lines in files as they lie on the disk, and in cells of a notebook.

    `cells`: the texts of those that were met, by the names that readers know.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.cells: dict[str, str] = {}

    def below(self, name: str) -> str | None:
        text = cells.text_of(name)
        if text:
            label = cells.label(name)
            self.cells[label] = text
            return label
        return None if os.path.realpath(name).startswith(LIBRARIES) else super().below(name)


class LiveWatcher(Watcher):
    """A watcher of a program that uses whatever device it wants.

    Args:
        root: as of a watcher.
    """

    supports_higher_order_operators = True  # else torch.cond raises where it is seen

    def __init__(self, root: Path) -> None:
        super().__init__(root, has_values=True)
        self.copies: WideCopies | None = None
        self.places: LivePlaces = LivePlaces(root)

    def clear(self) -> None:
        super().clear()
        self.backend = "cpu"
        self.losses: list[DigitLoss] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As a watcher, and in half of its time: it looks for the line of what waits alone."""
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):  # what it is given to call is not watched
            return func(*args, **kwargs)
        wait = wait_of(func, args, kwargs, self.on_device)
        result = self.compared(func, args, kwargs)
        copied = copy_of(func, args, kwargs, result)
        wait = copied[0] if copied else wait
        if wait is not None:
            path, row, direct, _ = self.places.here()
            self.write(OperationRow(path, row, str(func), (), (), wait, direct))
        if isinstance(result, torch.Tensor):
            self.backend = "cuda" if result.is_cuda else self.backend
        self.examine(func, args, kwargs, result)
        return result

    @contextmanager
    def comparing(self) -> Iterator[None]:
        """Look for digits that half loses."""
        self.copies = WideCopies()
        try:
            yield
        finally:
            self.copies = None

    def compared(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The result of an operation, whose digits are looked at where that is asked for."""
        expected = None if self.copies is None else self.copies.expect(func, args, kwargs)
        result = func(*args, **kwargs)
        if self.copies is None or expected is None:
            return result
        loss = self.copies.loss(func, expected, result)
        line = self.places.here() if loss is not None else None
        if loss is None or line is None or not line.path or not line.direct:
            return result
        if func.overloadpacket in OF_ANGLES:
            self.sight(Act.LOST_ANGLES, short(expected.half))
        else:
            op = func.overloadpacket.__name__
            self.losses.append(DigitLoss(op, line.path, line.row, *loss))
        return result

    def observation(self, error: BaseException | None = None) -> Observation:
        """The record since the last `clear`.

        Args:
            error: has ended it.
        """
        ended: dict[str, Any] = {"outcome": RunOutcome.OK}
        if error is not None:
            ended = {
                "outcome": RunOutcome.EXCEPTION,
                "error": type(error).__name__,
                "text": message(error),
                "place": place(error, self.places.path_of),
            }
        return Observation(self.backend, torch.__version__, **ended, **self.fields())


@contextmanager
def live(root: Path) -> Iterator[LiveWatcher]:
    """Watch what is inside. Raises NestedError where something is being watched."""
    modes = _get_current_dispatch_mode_stack()
    if any(isinstance(mode, Recorder) for mode in modes) or not _turn.acquire(blocking=False):
        raise NestedError
    try:
        watcher = LiveWatcher(root)
        before = [getattr(owner, name) for owner, name in REPLACED]
        with uncompiled(), recorded(watcher), watching(watcher):
            after = [getattr(owner, name) for owner, name in REPLACED]
            rebind(before, after)
            try:
                yield watcher
            finally:
                rebind(after, before)
    finally:
        _turn.release()


def uncompiled() -> AbstractContextManager[object]:
    """Have functions that torch.compile has made run uncompiled: it can compile none whose
    operations somebody sees, and one that it has met so stays uncompiled for good."""
    stance: Any = getattr(torch.compiler, "set_stance", None)  # since torch 2.6
    eager: AbstractContextManager[object] = stance("force_eager") if stance else nullcontext()
    return eager


def rebind(old: Sequence[object], new: Sequence[object]) -> None:
    """Have each module that has one of these objects under any name have the other one."""
    by_id = {id(one): other for one, other in zip(old, new, strict=True)}
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType):
            names = vars(module)
            for name, value in list(names.items()):
                if id(value) in by_id:
                    names[name] = by_id[id(value)]
