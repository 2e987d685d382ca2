"""A run that is ended by Ctrl-C or by a signal ends at once, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.command import Amplint
from tests.helpers import ROOT

LEGACY = "import torch\n\nwith torch.cuda.amp.autocast():\n    pass\n"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are no forks")

# A run that comes to a file whose name says so, or to a stage, and stays there. All files of two
# directories are judged by two processes, or each directory is a part.
HANGING = f"""
import os, sys, time
sys.path.insert(0, {str(ROOT)!r})
from amplint.facts import program
from amplint.cli import main as cli
from amplint.util import process_pool
from amplint.run import analysis, indexing, session
from amplint.run import partition

def hang():
    os.write(2, b"hangs\\n")  # at once, whoever else writes
    time.sleep(600)

def look_at(file, *rest, original=analysis.look_at):
    if "hangs" in file.path:
        hang()
    return original(file, *rest)

where, shape, *arguments = sys.argv[1:]
process_pool.LEAST_WEIGHT = 1
if shape == "parts":
    session.divide = lambda sizes: partition.divide(sizes, 1, 0)
if where == "index":
    indexing.File = lambda *_: hang()
elif where == "link":
    program.complete = lambda _: hang()
elif where == "judge":
    analysis.look_at = look_at
sys.argv[1:] = arguments
sys.exit(cli.entry())
"""


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").touch()
    for name in ("a/one.py", "a/two.py", "b/hangs.py", "b/last.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(LEGACY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Running:
    """A run that hangs, in a session of its own."""

    def __init__(self, where: str, shape: str, *arguments: str) -> None:
        command = [sys.executable, "-c", HANGING, where, shape, "check", "--jobs=2", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        assert self.process.stderr is not None
        assert self.process.stderr.readline() == b"hangs\n"

    def ended(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out.decode(), err.decode().replace("hangs\n", "")

    def survivors(self) -> list[int]:
        """The processes that are left after a moment."""
        for _ in range(100):
            left = [*self._left()]
            if not left:
                break
            time.sleep(0.1)
        return left

    def _left(self) -> Iterator[int]:
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with suppress(ProcessLookupError):
                    if os.getsid(int(entry.name)) == self.process.pid:
                        yield int(entry.name)


@pytest.mark.parametrize("stage", ["index", "link", "judge"])
@pytest.mark.parametrize("shape", ["whole", "parts"])
def test_ctrl_c_ends_each_stage(stage: str, shape: str) -> None:
    running = Running(stage, shape)
    running.process.send_signal(signal.SIGINT)
    assert running.ended() == (130, "", "\namplint: interrupted\n")
    assert running.survivors() == []


def test_ctrl_c_at_a_terminal_reaches_the_workers_too() -> None:
    running = Running("judge", "whole")
    os.killpg(running.process.pid, signal.SIGINT)
    assert running.ended() == (130, "", "\namplint: interrupted\n")
    assert running.survivors() == []


@pytest.mark.parametrize("shape", ["whole", "parts"])
def test_a_run_that_takes_too_long_reports_nothing_and_fails(shape: str) -> None:
    running = Running("judge", shape, "--timeout=4", "--exit-zero")
    status, out, err = running.ended()
    late = "stopped after 4 s, so nothing is reported (--timeout)"
    assert (status, out, err) == (2, "", f"amplint: error: {late}\n")
    assert running.survivors() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("shape", ["whole", "parts"])
def test_the_workers_of_a_run_that_is_killed_end_too(number: signal.Signals, shape: str) -> None:
    running = Running("judge", shape)
    running.process.send_signal(number)
    assert running.ended() == (-number, "", "")
    assert running.survivors() == []


def test_a_run_that_was_ended_writes_nothing(tree: Path) -> None:
    (tree / "report").write_text("of before")
    running = Running("judge", "whole", "--add-ignores", "later", "--format", "json:report")
    running.process.send_signal(signal.SIGINT)
    assert running.ended()[0] == 130
    assert (tree / "report").read_text() == "of before"
    assert all(path.read_text() == LEGACY for path in tree.rglob("*.py"))


@pytest.mark.parametrize("allowing", [["--exit-zero"], ["--fail-on", "correctness"]])
def test_a_run_that_was_ended_is_no_clean_one(allowing: list[str]) -> None:
    running = Running("judge", "whole", *allowing)
    running.process.send_signal(signal.SIGINT)
    assert running.ended()[0] == 130


def test_a_run_that_was_ended_leaves_a_cache_that_holds(amplint: Amplint, tree: Path) -> None:
    (tree / "c.py").write_text(LEGACY + "#" * 60_000)
    running = Running("judge", "whole")
    running.process.send_signal(signal.SIGINT)
    assert running.ended()[0] == 130
    whole = amplint("check", "--format", "concise")
    assert (whole.status, whole.out.count("\n"), whole.err) == (1, 5, "")
    assert amplint("check", "--no-cache", "--format", "concise") == whole
