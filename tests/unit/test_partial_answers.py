"""Findings are shown as they come; a run that is ended says what is known, and that more is not."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree

import pytest

from amplint.output import FORMATS
from amplint.project.discover import project
from amplint.project.hierarchy import SettingsHierarchy
from amplint.run import engine, session, supervision
from amplint.run.request import Outcome, Request
from amplint.util.process_pool import Outlet
from tests.command import Amplint
from tests.helpers import ROOT, fixture_rules

LEGACY = "import torch\n\nwith torch.cuda.amp.autocast():\n    pass\n"
UNUSED = "x = 1  # amplint: ignore[AMP101]\n"
forks = pytest.mark.skipif(sys.platform != "linux", reason="there are no forks")

NOTED = re.compile("hangs|heard ")

# A run that comes to a file whose name says so, or to a stage, and stays there. All files of two
# directories are judged by two processes, or each directory is a part.
HANGING = f"""
import os, sys, time
sys.path.insert(0, {str(ROOT)!r})
from amplint.analyses import program
from amplint.cli import main as cli
from amplint.util import process_pool
from amplint.run import analysis, indexing, parts, session, supervision

def hang():
    os.write(2, b"hangs\\n")  # at once, whoever else writes
    while not os.path.exists("go"):
        time.sleep(0.01)

def look_at(file, *rest, original=analysis.look_at):
    if "hangs" in file.path:
        hang()
    return original(file, *rest)

def hear(known, message, original=supervision.KnownSoFar.hear):
    original(known, message)
    if isinstance(message, supervision.Judged):
        os.write(2, f"heard {{message.path}}\\n".encode())

supervision.KnownSoFar.hear = hear
where, shape, *arguments = sys.argv[1:]
process_pool.LEAST_WEIGHT = 1
if shape == "parts":
    session.divide = lambda sizes: parts.divide(sizes, 1, 0)
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
        command = [sys.executable, "-c", HANGING, where, shape, "check", "--no-cache", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )

    def until_it_hangs(self) -> None:
        """And the run has heard of the files of the other process."""
        assert self.process.stderr is not None
        awaited = {b"hangs\n", b"heard a/one.py\n", b"heard a/two.py\n"}
        while awaited:
            line = self.process.stderr.readline()
            assert NOTED.match(line.decode())
            awaited -= {line}

    def ended(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=60)
        said = [line for line in err.decode().splitlines() if not NOTED.match(line)]
        return self.process.returncode, out.decode(), "\n".join(said)

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


# ----------------------------------------------------------------------------------- as they come


@forks
@pytest.mark.parametrize("shape", ["whole", "parts"])
@pytest.mark.parametrize("name", ["concise", "json-lines"])
def test_findings_of_finished_files_are_printed_while_others_are_judged(
    name: str, shape: str
) -> None:
    running = Running("judge", shape, "--format", name, "--jobs", "2")
    assert running.process.stdout is not None
    first = [running.process.stdout.readline().decode() for _ in range(2)]
    assert [("one.py" in line, "two.py" in line) for line in first] == [(1, 0), (0, 1)]
    running.process.kill()
    running.process.communicate()
    assert running.survivors() == []


def request(tree: Path, jobs: int = 1) -> Request:
    settings = SettingsHierarchy()
    return Request(project([tree], settings), settings, fixture_rules(), jobs=jobs)


def test_files_come_once_each_in_the_order_of_their_paths(tree: Path) -> None:
    (tree / "b/broken.py").write_text("x = (\n")
    (tree / "a/bytes.py").write_bytes(b"\xff")
    come: list[Outcome] = []
    outcome = supervision.run(request(tree), found=come.append)
    assert [one.files for one in come] == [(path,) for path in outcome.files]
    assert tuple(finding for one in come for finding in one.findings) == outcome.findings
    assert {finding.code for finding in outcome.findings} >= {"AMP000", "AMP701"}


@pytest.mark.parametrize("broken", [None, "a/broken.py", "z/broken.py"])
def test_what_a_file_that_comes_later_may_change_is_not_said_before(
    tree: Path, broken: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That a comment suppresses nothing is not known where a file cannot be read."""
    monkeypatch.setattr(session, "divide", lambda sizes: [(path,) for path in sorted(sizes)])
    (tree / "b/comment.py").write_text(UNUSED)
    if broken is not None:
        (tree / broken).parent.mkdir(exist_ok=True)
        (tree / broken).write_text("x = (\n")
    come: list[Outcome] = []
    outcome = supervision.run(request(tree), found=come.append)
    told = [finding for one in come for finding in one.findings]
    assert told == list(outcome.findings)
    assert [finding.code for finding in told].count("AMP001") == (broken is None)


def test_json_lines_are_the_objects_of_json(amplint: Amplint) -> None:
    lines = amplint("check", "--no-cache", "--format", "json-lines").out.splitlines()
    assert [json.loads(line) for line in lines] == json.loads(
        amplint("check", "--format", "json").out
    )


@pytest.mark.parametrize("name", ["concise", "json-lines"])
def test_what_is_streamed_is_what_a_run_from_the_cache_prints(
    amplint: Amplint, tree: Path, name: str
) -> None:
    (tree / "a/broken.py").write_text("x = (\n")
    (tree / "z.py").write_text(UNUSED)
    arguments = ("check", "--format", name)
    streamed = amplint(*arguments)
    assert streamed.out.count("\n") == 5
    assert amplint(*arguments) == streamed
    assert amplint(*arguments, "--output-file", "file").status == 1
    assert Path("file").read_text() == streamed.out
    assert amplint(*arguments, "--no-cache", "--sort", "rule").out.count("\n") == 5


def test_known_findings_are_not_streamed(amplint: Amplint, tree: Path) -> None:
    amplint("baseline")
    (tree / "a/one.py").write_text(LEGACY + LEGACY.replace("import torch", ""))
    (line,) = amplint("check", "--no-cache", "--format", "concise").out.splitlines()
    assert line.startswith("a/one.py:7:")


@forks
def test_a_reader_that_goes_away_ends_the_run_quietly(tree: Path) -> None:
    running = Running("judge", "whole", "--format", "concise", "--jobs", "2")
    assert running.process.stdout is not None
    running.until_it_hangs()
    assert b"one.py" in running.process.stdout.readline()
    running.process.stdout.close()
    (tree / "go").touch()  # and there is more to print
    assert running.process.wait(60) == 2
    assert running.process.stderr is not None
    assert all(NOTED.match(line.decode()) for line in running.process.stderr)
    assert running.survivors() == []


# ----------------------------------------------------------------------------------- cut short


@forks
@pytest.mark.parametrize("stage", ["index", "link", "judge"])
@pytest.mark.parametrize("shape", ["whole", "parts"])
def test_a_time_limit_ends_each_stage(stage: str, shape: str) -> None:
    limit = "8" if stage == "judge" else "2"  # by which something is judged on a busy machine
    running = Running(stage, shape, "--jobs", "2", "--timeout", limit)
    status, out, err = running.ended()
    known = ["a/one.py", "a/two.py"] if stage == "judge" else []
    assert [path for path in ("a/one.py", "a/two.py", "b/hangs.py") if path in out] == known
    assert status == 2
    assert err.startswith(f"amplint: error: the time limit of {limit} s was reached when ")
    assert "of 4 files were checked: nothing is known about the others" in err
    assert "Traceback" not in err
    assert running.survivors() == []


@forks
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("shape", ["whole", "parts"])
def test_a_signal_ends_a_run_with_what_is_known(number: signal.Signals, shape: str) -> None:
    running = Running("judge", shape, "--jobs", "2", "--format", "concise")
    running.until_it_hangs()
    running.process.send_signal(number)
    status, out, err = running.ended()
    assert status == 128 + number
    assert [line.partition(":")[0] for line in out.splitlines()][:2] == ["a/one.py", "a/two.py"]
    assert "of 4 files were checked: nothing is known about the others" in err
    assert "Traceback" not in err
    assert running.survivors() == []


@forks
def test_the_workers_of_a_run_that_is_killed_end_too() -> None:
    running = Running("judge", "whole", "--jobs", "2")
    running.until_it_hangs()
    running.process.kill()
    assert running.ended()[0] == -signal.SIGKILL
    assert running.survivors() == []


@forks
def test_ctrl_c_at_a_terminal_reaches_the_workers_too() -> None:
    running = Running("judge", "whole", "--jobs", "2", "--format", "concise")
    running.until_it_hangs()
    os.killpg(running.process.pid, signal.SIGINT)
    status, out, err = running.ended()
    assert (status, "a/one.py" in out, "Traceback" in err) == (130, True, False)
    assert running.survivors() == []


@forks
def test_a_report_of_a_part_says_so_or_is_none(tree: Path) -> None:
    running = Running("judge", "whole", "--jobs=2", *(f"--format={n}:{n}.out" for n in FORMATS))
    running.until_it_hangs()
    running.process.send_signal(signal.SIGTERM)
    status, _, err = running.ended()
    assert status == 128 + signal.SIGTERM
    found = {name: tree / f"{name}.out" for name in FORMATS}
    for name in ("json", "gitlab"):
        assert not found.pop(name).exists()
        assert f"--format {name}:{name}.out: not written, because it would be incomplete" in err
    written = {name: path.read_text() for name, path in found.items()}
    assert all("a/one.py" in text for text in written.values())
    (invocation,) = json.loads(written["sarif"])["runs"][0]["invocations"]
    assert not invocation["executionSuccessful"]
    assert ElementTree.fromstring(written["junit"]).attrib["errors"] == "1"
    for name in ("sarif", "junit", "html"):
        assert "terminated (SIGTERM) when " in written[name]


@forks
def test_counts_of_a_part_are_none() -> None:
    status, out, err = Running("judge", "whole", "--timeout", "2", "--statistics").ended()
    assert (status, out) == (2, "")
    assert "--statistics: not written, because it would be incomplete" in err


@forks
def test_a_report_of_a_part_does_not_replace_a_file(tree: Path) -> None:
    (tree / "report").write_text("of before")
    running = Running("judge", "whole", "--timeout", "2", "--format", "json:report")
    assert "--format json:report: not written" in running.ended()[2]
    assert (tree / "report").read_text() == "of before"


@forks
def test_nothing_is_suppressed_where_a_run_was_ended(tree: Path) -> None:
    status, _, err = Running("judge", "whole", "--timeout", "2", "--add-ignores", "later").ended()
    assert (status, "suppressed" in err) == (2, False)
    assert all(path.read_text() == LEGACY for path in tree.rglob("*.py"))


@forks
@pytest.mark.parametrize("allowing", [["--exit-zero"], ["--fail-on", "correctness"]])
def test_a_run_that_was_ended_is_no_clean_one(allowing: list[str]) -> None:
    assert Running("judge", "whole", "--timeout", "2", *allowing).ended()[0] == 2


@forks
def test_a_run_that_was_ended_leaves_a_cache_that_holds(amplint: Amplint, tree: Path) -> None:
    (tree / "c.py").write_text(LEGACY + "#" * 60_000)
    command = [sys.executable, "-c", HANGING, "judge", "whole", "check", "--timeout", "4"]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 2
    whole = amplint("check", "--format", "concise")
    assert (whole.status, whole.out.count("\n"), whole.err) == (1, 5, "")
    assert amplint("check", "--no-cache", "--format", "concise") == whole


def test_nothing_is_said_to_be_fixed_that_was_not_looked_at(tree: Path, amplint: Amplint) -> None:
    amplint("baseline")
    for path in tree.rglob("*.py"):
        path.write_text("")
    running = Running("judge", "whole", "--timeout", "4")
    assert "fixed" not in running.ended()[2]


def test_a_run_may_not_be_asked_for_by_another_thread_than_the_first(tree: Path) -> None:
    """It cannot set handlers of signals there, and does without."""
    found: list[Outcome] = []
    thread = Thread(target=lambda: found.append(supervision.run(request(tree))))
    thread.start()
    thread.join()
    assert len(found[0].findings) == 4


def test_what_ends_a_run_is_raised_to_who_asked(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Request) -> Outcome:
        raise ZeroDivisionError

    monkeypatch.setattr(engine, "run", fail)
    with pytest.raises(ZeroDivisionError):
        supervision.run(request(tree))


def test_an_outlet_says_nothing_where_nobody_listens() -> None:
    assert Outlet()("news") is None
