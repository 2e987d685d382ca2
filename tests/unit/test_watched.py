"""Runs that let a check that watches their project work for them."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from amplint.project.reading import Reading
from amplint.run import engine, watched
from amplint.run.request import AnalysisResult, Request
from amplint.run.watched import Listener, address, is_checked
from tests.command import LEGACY, MODERN, Amplint

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "AF_UNIX"), reason="there are no sockets that only one user can reach"
)


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where sockets are: in a directory with a short path, as these need."""
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    monkeypatch.setenv("XDG_STATE_HOME", str(directory))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    """Listens for questions about the directory of the test."""
    listener = Listener()
    listener.listen(tmp_path, "ours")
    yield listener
    listener.close()
    assert not address(tmp_path).exists()


def test_who_asks_waits_for_the_check_that_begins_then(
    tmp_path: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "SIGN", 0.01)
    with ThreadPoolExecutor() as threads:
        listener.begin()
        answer = threads.submit(is_checked, tmp_path, "ours")
        assert listener.question.wait(10)
        listener.end()  # of a check that had begun before
        with pytest.raises(TimeoutError):
            answer.result(0.1)
        listener.begin()
        listener.end()
        assert answer.result(10)


def test_another_analysis_is_refused_at_once(tmp_path: Path, listener: Listener) -> None:
    assert not is_checked(tmp_path, "theirs")
    assert not is_checked(tmp_path / "elsewhere", "ours")
    assert not listener.question.is_set()


def test_who_hears_nothing_waits_no_longer(
    tmp_path: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "PATIENCE", 0.05)
    assert not is_checked(tmp_path, "ours")  # as of a process that was stopped
    assert listener.question.is_set()


def test_what_a_killed_process_has_left_is_replaced(tmp_path: Path) -> None:
    Listener().listen(tmp_path, "ours")  # makes the directory
    place = address(tmp_path)
    place.unlink()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place))
    assert not is_checked(tmp_path, "ours")
    listener = Listener()
    listener.listen(tmp_path, "ours")
    second = Listener()
    second.listen(tmp_path, "theirs")
    second.close()
    assert not is_checked(tmp_path, "theirs")
    with ThreadPoolExecutor() as threads:
        answer = threads.submit(is_checked, tmp_path, "ours")
        assert listener.question.wait(10)
        listener.begin()
        listener.end()
        assert answer.result(10)
    listener.close()


def test_nobody_listens_or_asks_where_others_could(tmp_path: Path, state: Path) -> None:
    (state / watched.DIRECTORY).mkdir(parents=True)
    (state / watched.DIRECTORY).chmod(0o755)
    Listener().listen(tmp_path, "ours")
    assert not any((state / watched.DIRECTORY).iterdir())
    with pytest.raises(PermissionError):
        address(tmp_path)
    assert not is_checked(tmp_path, "ours")


def test_a_check_reports_what_the_one_that_watches_has_found(
    project: Path, amplint: Amplint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same settings, nothing is analysed twice; with others, each finds its own."""
    monkeypatch.setattr(watched, "PATIENCE", 60)  # the machine may be busy with other tests
    (project / "a.py").write_text(LEGACY)
    process = subprocess.Popen(
        [sys.executable, "-m", "amplint", "check", "--watch"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stderr is not None
    analysed, analyses = engine.analysed, list[Request]()

    def noted(request: Request, reading: Reading) -> AnalysisResult:
        analyses.append(request)
        return analysed(request, reading)

    monkeypatch.setattr(engine, "analysed", noted)
    try:
        assert process.stderr.readline() == "amplint watches 1 file; stop with Ctrl-C\n"
        for number in range(3):
            for text in (MODERN, LEGACY, f"{LEGACY}\n\ndef f(x):\n    return x.cuda(), {number}\n"):
                (project / "a.py").write_text(text)
                of_one, of_all = amplint("check", "a.py"), amplint("check")
                assert not analyses
                assert of_all == amplint("check", "--no-cache")
                assert of_one.out == of_all.out
                analyses.clear()
        (project / "a.py").write_text(MODERN)
        assert amplint("check", "--select", "ALL") == amplint(
            "check", "--select", "ALL", "--no-cache"
        )
        assert len(analyses) == 2
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    (project / "a.py").write_text(LEGACY + "x = 1\n")
    assert amplint("check") == amplint("check", "--no-cache")
