"""How far a run has come: where it is shown, what, and that nothing of it stays."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TextIO

import pytest

from amplint.util import progress
from amplint.util.progress import SILENT, Progress, Stage, terminal_progress
from tests.command import LEGACY
from tests.helpers import ROOT

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals", allow_module_level=True)


class Terminal:
    """A pseudo-terminal: a stream to write to, and what has been written."""

    def __init__(self) -> None:
        self._reading, self.writing = os.openpty()
        self.stream: TextIO = os.fdopen(self.writing, "w")

    def written(self) -> str:
        """All that was written; nobody writes any more."""
        self.stream.close()
        content = b""
        with suppress(OSError):  # Linux' way to say that nobody writes any more
            while chunk := os.read(self._reading, 4096):
                content += chunk
        os.close(self._reading)
        return content.decode()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.delenv("TERM", raising=False)
    monkeypatch.setattr(progress, "DELAY", 0.01)
    monkeypatch.setattr(progress, "EVERY", 0.01)
    return Terminal()


class Asked:
    """A gauge, and a way to wait until what it said last is shown."""

    def __init__(self, known: int, *done: int) -> None:
        self._known = known
        self._done = [*done]
        self._shown = Event()
        self._more = 3  # one look asks twice: at the next one, the last is written

    def __call__(self) -> tuple[int, int]:
        if len(self._done) > 1:
            return self._done.pop(0), self._known
        self._more -= 1
        if not self._more:
            self._shown.set()
        return self._done[0], self._known

    def wait(self) -> None:
        assert self._shown.wait(60)


def looks(written: str) -> list[str]:
    """What the line was at each time, without the seconds."""
    return [re.sub(r"^\d+ s ", "", text).rstrip() for text in written.split("\r")]


def left(written: str) -> str:
    """What stands in the line at the end, up to the cursor and behind it."""
    assert "\n" not in written
    line, column = "", 0
    for character in written:
        if character == "\r":
            column = 0
            continue
        line = line[:column].ljust(column) + character + line[column + 1 :]
        column += 1
    return line.rstrip() + "|" * column


# ------------------------------------------------------------------------------ what is shown


def test_a_stage_is_shown_and_gone_in_the_end(terminal: Terminal) -> None:
    judged, other = Asked(1234, *range(10)), Asked(2, 1)
    with terminal_progress(terminal.stream) as at:
        at.at("judging files", judged)
        judged.wait()
        at.at("x", other)  # shorter than what it takes the place of
        other.wait()
    written = terminal.written()
    assert "[--------------------] judging files 9/1,234" in looks(written)
    assert "[##########----------] x 1/2" in looks(written)
    assert left(written) == ""


def test_it_is_gone_after_an_error_too(terminal: Terminal) -> None:
    read = Asked(0, 0)

    def run() -> None:
        with terminal_progress(terminal.stream) as at:
            at.at("reading files", read)
            read.wait()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    written = terminal.written()
    assert "[--------------------] reading files 0/0" in looks(written)
    assert left(written) == ""


def test_a_run_that_is_soon_over_shows_nothing(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "DELAY", 60)
    begun = time.monotonic()
    with terminal_progress(terminal.stream) as at:
        at.at("judging files", lambda: (1, 2))
    assert time.monotonic() - begun < 30  # nor does it wait
    assert terminal.written() == ""


def test_nobody_is_shown_anything_but_at_a_terminal_who_wants_it(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "log").open("w") as file, terminal_progress(file) as at:
        assert at is SILENT
    with terminal_progress(terminal.stream, is_on=False) as at:
        assert at is SILENT
    monkeypatch.setenv("TERM", "dumb")
    with terminal_progress(terminal.stream) as at:
        assert at is SILENT


def test_where_nobody_looks_nothing_is_kept() -> None:
    silent = Progress(watched=False)
    silent.at("indexing files", lambda: (1, 2))
    assert silent.counted("judging files", abs, [-1]) is abs
    assert silent.noted("parts", abs, [-1]) is abs
    assert silent.stage is None


def test_a_line_is_no_longer_than_the_terminal_is_wide(terminal: Terminal) -> None:
    asked = Asked(2, 1)
    with terminal_progress(terminal.stream) as at:
        at.at("y" * 200, asked)
        asked.wait()
    assert max(map(len, terminal.written().split("\r"))) == progress.COLUMNS - 1


def test_work_is_counted_and_notes_are_read() -> None:
    at = Progress(watched=True)
    work = at.counted("judging files", abs, [-5, 7, -9])
    judging = at.stage
    assert (work(-9), work(-5)) == (9, 5)
    assert str(judging) == "judging files 2/3"
    notes = Stage("parts", lambda: (1, 4), lambda: ["indexing files 1/2", "b 3/4"])
    assert str(notes) == "parts 1/4; indexing files 1/2; b 3/4"


# ------------------------------------------------------------------------------ a run

SLOWLY = f"""
import runpy, sys, time
sys.path.insert(0, {str(ROOT)!r})
from amplint.run import analysis
from amplint.cli import main as cli
from amplint.run import partition
from amplint.util import progress
from amplint.run import session

def slowly(*arguments, original=analysis.look_at):
    time.sleep(0.2)
    return original(*arguments)

analysis.look_at = slowly
session.workers = lambda _: 2
progress.DELAY = progress.EVERY = 0.02
if sys.argv[1] == "parts":
    session.divide = lambda sizes: partition.divide(sizes, 700_000, 0)
sys.exit(cli.main(["check", "--no-cache", "--format", "concise", *sys.argv[2:]]))
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project of two directories with three files each, large enough for two processes."""
    (tmp_path / "pyproject.toml").touch()
    for number in range(6):
        directory = tmp_path / f"d{number % 2}"
        directory.mkdir(exist_ok=True)
        (directory / f"m{number}.py").write_text(LEGACY + "#" * 200_000)
    return tmp_path


def run(tree: Path, *arguments: str, stderr: int) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if name != "TERM"}
    command = [sys.executable, "-c", SLOWLY, *arguments]
    return subprocess.run(
        command, cwd=tree, stdout=subprocess.PIPE, stderr=stderr, check=False, timeout=120,
        env=environment,
    )  # fmt: skip


def at_a_terminal(tree: Path, *arguments: str) -> tuple[bytes, str]:
    """Standard output, and what the terminal was sent."""
    terminal = Terminal()
    done = run(tree, *arguments, stderr=terminal.writing)
    assert done.returncode == 1
    return done.stdout, terminal.written()


def numbers(written: str, name: str) -> Iterator[int]:
    return (int(done) for done in re.findall(rf"{name} (\d+)/\d", written))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_files_are_counted_in_all_processes(tree: Path) -> None:
    _, written = at_a_terminal(tree, "whole")
    assert max(numbers(written, "judging files")) > 3  # half of them are another process's
    assert left(written) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="parts have no processes of their own")
def test_parts_say_how_far_they_are(tree: Path) -> None:
    _, written = at_a_terminal(tree, "parts")
    assert re.search(r"\] parts [01]/2; judging files \d/3", written)
    assert left(written) == ""


def test_what_is_reported_stays_as_it_is(tree: Path) -> None:
    piped = run(tree, "whole", stderr=subprocess.PIPE)
    assert piped.stderr == b""
    assert piped.stdout.count(b"AMP701") == 6
    assert at_a_terminal(tree, "whole")[0] == piped.stdout
    assert at_a_terminal(tree, "whole", "--quiet") == (piped.stdout, "")
