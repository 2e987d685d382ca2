"""`amplint check --watch`: checks again whenever a file has changed, until Ctrl-C.

Nothing but the standard library watches: files are looked at now and then, so that it works on
every system and on every disk. What is known of the project stays in memory, as for an editor.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from amplint.adoption import baseline
from amplint.adoption.adoption import Adoption
from amplint.cli.options import files_and_settings, make_request
from amplint.output.console import CLEAN, TEXT, show
from amplint.project import observations
from amplint.project.config import Settings
from amplint.run import engine
from amplint.run.linking import LiveLinker
from amplint.run.request import Request
from amplint.run.watched import Listener
from amplint.server.looking import ProjectMemory
from amplint.util import progress
from amplint.util.errors import Failure
from amplint.util.paths import join, seen_from, slashes
from amplint.util.wording import counted

EVERY = 0.3  # seconds between two looks at the files
SHARE = 10  # of a processor, a tenth at most goes into looking
STILL = 0.05  # seconds in which nothing more changes: an editor writes several files at once
ROUNDS = 10  # after this number of rounds, what they have left in memory is cleaned up
MOST_NAMES = 3
OF_A_RUN = ("stdin_filename", "no_cache")  # arguments that say nothing of files and settings

Stamp = tuple[int, int] | None  # when a file was written, and its size; None where there is none


@dataclass(frozen=True)
class WatchedState:
    """All that decides what is found, as far as it can change while somebody watches.

    Args:
        files: by their full paths.
        reported: those of them whose findings are asked for, and paths that are not there.
        settings: by directory.
        failure: why these are not known.
    """

    files: Mapping[str, Stamp] = field(default_factory=dict)
    reported: frozenset[str] = frozenset()
    settings: Mapping[str, Settings] = field(default_factory=dict)
    failure: str = ""


def state_of(arguments: Mapping[str, Any]) -> WatchedState:
    """The state that the arguments of the command line lead to now."""
    named = {key: value for key, value in arguments.items() if key not in OF_A_RUN}
    try:
        selection, settings = files_and_settings(**named)
        request = Request(selection, settings, ())
        root = slashes(str(selection.root))
        used = [join(root, path) for path in selection.files]
        used += map(str, baseline.files_of(request))
        used += [join(directory, observations.FILE) for directory in request.projects]
        directories = {request.directory_of(path) for path in selection.files}
        return WatchedState(
            {path: stamp(path) for path in used},
            selection.reported.union(selection.problems),
            {directory: settings.at(directory) for directory in directories},
        )
    except Failure as error:
        return WatchedState(failure=error.message)


def stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116  (thousands of them, each time)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def changed(before: WatchedState, after: WatchedState) -> str:
    """The names of files that are other than they were, for a line about them."""
    paths = before.files.keys() | after.files.keys()
    names = sorted(
        seen_from(".", path)
        for path in paths
        if before.files.get(path) != after.files.get(path) and not (before.failure or after.failure)
    )
    text = ", ".join(names[:MOST_NAMES]) or "the settings"
    return f"{text} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else text


def pause(seconds: float, question: threading.Event | None = None) -> None:
    """Wait, until somebody asks for a check."""
    (question or threading.Event()).wait(seconds)


@dataclass
class RepeatedCheck:
    """Checks again and again.

    Args:
        adoption: which findings are reported.
        arguments: the other arguments of the command line, for `make_request`.
        jobs: how many processes may work on it.
        quiet: whether counts and remarks are left out.
        order: of the findings.
    """

    adoption: Adoption
    arguments: dict[str, Any]
    jobs: int | None
    quiet: bool
    order: str | None
    _memory: ProjectMemory | None = None
    _root: Path | None = None
    _listener: Listener = field(default_factory=Listener)

    def run(self) -> int:
        """Check until somebody ends it; the status is 0 then, whatever was found last."""
        try:
            state, why = state_of(self.arguments), ""
            for number in range(1, sys.maxsize):
                self._check(why)
                if number % ROUNDS == 0:
                    gc.collect()
                before, state = state, self._next(state)
                why = changed(before, state)
        except KeyboardInterrupt:
            click.echo(err=True)  # below the ^C that the terminal shows
        finally:
            self._listener.close()
        return CLEAN

    def _next(self, before: WatchedState) -> WatchedState:
        """The next state that is not the same, once nothing more changes."""
        now, cost = before, 0.0
        while now == before:
            self._listener.end()
            pause(max(EVERY, cost * SHARE), self._listener.question)
            self._listener.begin()
            begun = time.process_time()
            now = state_of(self.arguments)
            cost = time.process_time() - begun
        while True:
            pause(STILL)
            last, now = now, state_of(self.arguments)
            if last == now:
                return now

    def _check(self, why: str) -> None:
        """Check once, and show all findings that there are now.

        Args:
            why: what has changed; empty at first.
        """
        try:
            request, _ = make_request(**self.arguments)
            with progress.terminal_progress(sys.stderr, is_on=not self.quiet) as display:
                request = replace(request, progress=display, jobs=self.jobs)
                outcome = self.adoption.run(self._with_memory(request))
        except Failure as error:
            if not why:  # of the first round: it may be an option, which never changes
                raise
            self._listener.analysis = ""
            self._memory = None  # what is kept may be the reason
            error.show()
            self._say("amplint waits until that changes; stop with Ctrl-C")
            return
        if request.cache is not None:  # where those who ask look for what was found
            self._listener.listen(request.selection.root, engine.analysis_of(request))
        if self._memory is not None:
            self._memory.forget_old_texts()
        if why:
            click.clear()  # a terminal alone
        show(outcome, request, (TEXT,), self.quiet, self.order)
        if why:
            self._say(f"{time.strftime('%H:%M:%S')} {why}")
        else:
            files = counted(len(outcome.files), "file")
            self._say(f"amplint watches {files}; stop with Ctrl-C")

    def _with_memory(self, request: Request) -> Request:
        """The request with what is known of earlier rounds. The first takes what the cache has: a
        project in which nothing has changed waits for nothing."""
        if request.selection.root != self._root:
            self._root, self._memory = request.selection.root, None
            return request
        if self._memory is None:
            self._memory = ProjectMemory(LiveLinker())
        memory = self._memory
        return replace(request, indexed=memory.indexed, linker=memory.linker, lasting=True)

    def _say(self, text: str) -> None:
        if not self.quiet:
            click.echo(text, err=True)
