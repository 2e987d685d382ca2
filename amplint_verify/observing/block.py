"""`with amplint.observe():` watches the code inside. Nothing heavy is imported before it begins."""

# What needs torch is imported when a block begins, and the linter when it has ended.
# ruff: noqa: PLC0415

from __future__ import annotations

import importlib.util
import os
import re
import sys
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplint.findings.finding import Finding
    from amplint_verify.observing.live import LiveWatcher

LOWEST_TORCH = (2, 4)  # as in the extra `amplint[verify]`


def observe(root: str | os.PathLike[str] | None = None) -> ObservedBlock:
    """A context manager that watches the code inside, on the devices that it uses.

    The findings are printed on standard error after the block, also where it raises.

    Args:
        root: the directory whose lines are the user's; by default the project that the calling file
            lies in, and in a notebook that of the working directory.

    Raises ImportError where there is no torch that can be watched, NotADirectoryError for a root
    that is none.
    """
    check_torch("amplint.observe()")
    place = root_of(sys._getframe(1).f_code.co_filename) if root is None else Path(root)
    if not place.is_dir():
        raise NotADirectoryError(f"{place} is not a directory")
    return ObservedBlock(Path(os.path.realpath(place)))


def check_torch(what: str) -> None:
    """Raises ImportError, in one sentence, where there is no torch that can be watched."""
    from amplint_verify import HOW_TO_GET_TORCH

    if importlib.util.find_spec("torch") is None:
        raise ModuleNotFoundError(f"{what} needs torch: {HOW_TO_GET_TORCH}", name="torch")
    import torch

    if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < LOWEST_TORCH:
        lowest = ".".join(map(str, LOWEST_TORCH))
        raise ImportError(f"{what} needs torch {lowest} or newer, and this is {torch.__version__}")


def root_of(file: str) -> Path:
    """The root of the project around a file; around the working directory for what is no file."""
    from amplint.project import discover
    from amplint_verify.observing import cells

    is_file = os.path.isfile(file) and not cells.text_of(file)  # noqa: PTH113  (never raises)
    return discover.root_of(file if is_file else os.getcwd())  # noqa: PTH109  (a string is asked)


class ObservedBlock:
    """A watched block.

    `findings` is what is reported of it, and empty until it has ended.
    """

    def __init__(self, root: Path) -> None:
        self.findings: tuple[Finding, ...] = ()
        self._root = root
        self._stack = ExitStack()
        self._watcher: LiveWatcher | None = None

    def __enter__(self) -> ObservedBlock:
        from amplint_verify.observing.live import NestedError, live

        try:
            self._watcher = self._stack.enter_context(live(self._root))
        except NestedError:
            tell_nested()
        return self

    def __exit__(
        self,
        _: type[BaseException] | None,
        error: BaseException | None,
        __: TracebackType | None,
    ) -> None:
        watcher, self._watcher = self._watcher, None
        self._stack.close()
        if watcher is not None:
            self.findings = report_safely(watcher, error)


@cache
def tell_nested() -> None:
    """Say it once: such a block may stand in a loop."""
    from amplint.output.console import tell_notices

    tell_notices(
        ["a block inside another watched block is not watched separately: the outer one reports it"]
    )


def report_safely(watcher: LiveWatcher, error: BaseException | None) -> tuple[Finding, ...]:
    """Print what was seen, and return it. A fault of amplint's own does not end the program."""
    from amplint.util.errors import Failure, describe, tell

    try:
        return report(watcher, error)
    except Failure as failure:
        tell(f"what was seen cannot be reported: {failure.message}")
    except Exception as fault:
        tell(f"what was seen cannot be reported, by a bug in amplint: {describe(fault)}")
    return ()


def report(watcher: LiveWatcher, error: BaseException | None) -> tuple[Finding, ...]:
    import click

    from amplint.output.console import tell_notices
    from amplint_verify.observing.reporting import WatchedCode, notices, reported

    watched = WatchedCode(
        Path(watcher.places.root), [watcher.observation(error)], watcher.places.cells
    )
    outcome, text = reported(watched)
    if text:
        click.echo(text, err=True)
    tell_notices(notices(watched, "", outcome))
    return outcome.findings
