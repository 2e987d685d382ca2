"""The line in which an editor shows that something is under way, if it has one."""

from __future__ import annotations

import itertools

from lsprotocol import types
from pygls.progress import Progress


class UnderWay:
    """One such line, for one thing at a time.

    Args:
        progress: speaks with the editor.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._numbers = itertools.count(1)
        self._target = ""  # the name of the line that is to be shown
        self._current = ""  # and of the one that is

    def begin(self, title: str) -> None:
        """Show a line, unless one is shown."""
        if not self._target:
            name = self._target = f"amplint-{next(self._numbers)}"
            self._progress.create(name, lambda _: self._created(name, title))

    def _created(self, name: str, title: str) -> None:
        if self._target == name:  # else it has come to its end already
            self._current = name
            self._progress.begin(name, types.WorkDoneProgressBegin(title))

    def end(self) -> None:
        """Take it back."""
        if self._current:
            self._progress.end(self._current, types.WorkDoneProgressEnd())
        self._target = self._current = ""
