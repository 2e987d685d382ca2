"""Explanations of lines, as the server asks for them.

Each is made by a process of its own, which ends with its answer: the whole project is linked once
more, which may take as long as the first look at it, and looks go on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from amplint.server.analyst import Analyst
from amplint.server.messages import Answer, Explain, Explained, Open


class Explainer:
    """Has one line explained at a time: the last one that was asked for.

    Args:
        explained: is called with each explanation.
        ended: is called when there will be none, with the status of the process.
    """

    def __init__(
        self, explained: Callable[[Explained], None], ended: Callable[[int | None], None]
    ) -> None:
        self._explained = explained
        self._ended = ended
        self._number = 0
        self._analyst: Analyst | None = None
        self._sending: set[asyncio.Task[None]] = set()

    def ask(self, uri: str, shown: str, line: int, opened: Mapping[str, Open]) -> None:
        """Ask for an explanation: the arguments are those of `Explain`."""
        self.stop()
        self._number += 1
        self._analyst = Analyst(self._answered, self._ended)
        request = Explain(self._number, uri, shown, line, dict(opened))
        task = asyncio.get_running_loop().create_task(self._analyst.send(request))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def stop(self) -> None:
        """End the process that explains."""
        if self._analyst is not None:
            self._analyst.stop()
            self._analyst = None

    def _answered(self, answer: Answer) -> None:
        if isinstance(answer, Explained) and answer.number == self._number:
            self.stop()
            self._explained(answer)
