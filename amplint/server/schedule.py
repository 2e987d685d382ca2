"""Which text is looked at next, and when: one look at a time, the text that was touched last first.

It knows of no clock and of no process, and so it says what is to be done instead of doing it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Schedule:
    """The texts that wait for a look, and the look that is under way."""

    _touched: dict[str, int] = field(default_factory=dict)  # by URI: when, the last one last
    _clock: int = 0
    _number: int = 0
    _under_way: RunningLook | None = None

    def touch(self, uris: Iterable[str]) -> None:
        """Note that texts have changed, or something that they depend on."""
        for uri in uris:
            self._clock += 1
            self._touched.pop(uri, None)
            self._touched[uri] = self._clock

    def forget(self, uri: str) -> None:
        """Note that a text was closed."""
        self._touched.pop(uri, None)

    def superseded(self) -> int | None:
        """The number of the look that is under way, if its texts have changed since."""
        running = self._under_way
        if running is None or self._touched.get(running.uri, 0) <= running.begun:
            return None
        return running.number

    def next(self) -> tuple[int, str] | None:
        """The number of the look that begins now, and the text that it begins with; None while
        another one is under way, or where none waits."""
        if self._under_way is not None or not self._touched:
            return None
        self._number += 1
        uri = next(reversed(self._touched))
        self._under_way = RunningLook(self._number, uri, self._clock)
        return self._number, uri

    def done(self, number: int, uris: Iterable[str]) -> None:
        """Note that a look has ended, and which texts were judged as they were when it began."""
        running = self._under_way
        if running is None or running.number != number:
            return
        self._under_way = None
        for uri in uris:
            if self._touched.get(uri, running.begun + 1) <= running.begun:
                del self._touched[uri]

    def failed(self) -> None:
        """Note that the look that is under way will never end. Its text waits for its next change,
        for the same would happen again."""
        if self._under_way is not None:
            self.done(self._under_way.number, [self._under_way.uri])

    @property
    def is_waited_for(self) -> bool:
        """Whether something is to be looked at, or is."""
        return bool(self._touched)


@dataclass(frozen=True)
class RunningLook:
    """A look that is under way."""

    number: int
    uri: str
    begun: int
