"""The report of a project is the same, to the byte, whatever way a run comes to it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from amplint.output import FORMATS
from amplint.run import indexing, partition, session
from amplint.util import process_pool
from benchmarks.robustness.concurrency import tried
from benchmarks.robustness.determinism import with_line_ends
from tests.command import Amplint
from tests.helpers import ROOT, modules

FOLDERS = ("legacy_grad_scaler", "clip_before_unscale", "legacy_autocast")
Report = Callable[..., Mapping[str, str]]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A few fixtures, as modules of one project, and files that nobody can read."""
    (tmp_path / "pyproject.toml").touch()
    for folder in FOLDERS:
        for path, data in modules(folder).items():
            place = tmp_path / folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
    (tmp_path / "broken.py").write_text("x = (\n")
    (tmp_path / "bytes.py").write_bytes(b"\xff")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(process_pool, "LEAST_WEIGHT", 1)
    monkeypatch.setattr(indexing, "LEAST_KEPT", 0)
    monkeypatch.setattr(session, "LEAST_KEPT", 0)
    return tmp_path


@pytest.fixture
def report(amplint: Amplint, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Runs amplint: its status, and what it writes in each format."""
    into = tmp_path_factory.mktemp("reports")

    def reported(*arguments: str) -> Mapping[str, str]:
        given = [f"--format={name}:{into / name}" for name in FORMATS]
        ran = amplint("check", "--quiet", *given, *arguments)
        assert (ran.status, ran.out, ran.err) == (1, "", "")
        return {name: (into / name).read_text() for name in FORMATS}

    return reported


@pytest.mark.parametrize("shape", ["whole", "parts"])
def test_any_number_of_processes(
    report: Report, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shape == "parts":
        monkeypatch.setattr(session, "divide", lambda sizes: partition.divide(sizes, 1, 0))
    one = report("--no-cache", "--jobs", "1")
    assert one["concise"].count("\n") > 10
    for jobs in ("2", "3", "8"):
        assert report("--no-cache", "--jobs", jobs) == one
        assert report("--jobs", jobs) == one


def test_any_order_in_which_files_are_named(report: Report, project: Path) -> None:
    usual = report("--no-cache")
    files = sorted(str(path.relative_to(project)) for path in project.rglob("*.py"))
    for seed in range(3):
        named = random.Random(seed).sample(files, len(files))
        assert report("--no-cache", *named) == usual
        assert report(*named, *named) == usual
    assert report(".", *files, str(project)) == usual


def test_any_order_in_which_files_are_found(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = report("--no-cache")
    scandir = os.scandir

    class Backwards:
        def __init__(self, *where: str) -> None:
            self._entries = sorted(scandir(*where), key=lambda entry: entry.name, reverse=True)

        def __enter__(self) -> list[os.DirEntry[str]]:
            return self._entries

        def __exit__(self, *_: object) -> None: ...

        def __iter__(self) -> object:
            return iter(self._entries)

    monkeypatch.setattr(os, "scandir", Backwards)
    assert report("--no-cache") == usual


def test_cold_warm_and_after_edits_that_were_taken_back(report: Report, project: Path) -> None:
    usual = report("--no-cache")
    assert report() == usual
    assert report() == usual
    for path in sorted(project.rglob("bad.py")):
        text = path.read_bytes()
        path.write_bytes(text + b"\n\ndef added(x):\n    return x.item()\n")
        assert report() == report("--no-cache")
        path.write_bytes(text)
        assert report() == usual
    for entry in (project / ".amplint_cache").iterdir():
        if b'"findings"' in entry.read_bytes()[:200]:
            entry.unlink()  # what the whole run gave: the index and the values stay
    assert report() == usual


def test_line_ends_of_windows(report: Report, project: Path) -> None:
    """The lines that a fix writes end as those of the file, and nothing else differs."""
    for path in project.rglob("*.py"):
        path.write_bytes(with_line_ends(b"\n", path.read_bytes()))
    usual = report("--no-cache")
    for path in project.rglob("*.py"):
        path.write_bytes(with_line_ends(b"\r\n", path.read_bytes()))
    windows = report("--no-cache")
    assert {name: text.replace(r"\r\n", r"\n") for name, text in windows.items()} == usual
    assert r"\r\n" in windows["json"]


def test_json_lines_are_the_objects_of_json(report: Report) -> None:
    found = report()
    assert [json.loads(line) for line in found["json-lines"].splitlines()] == json.loads(
        found["json"]
    )


def test_any_seed_of_hashes(project: Path) -> None:
    found = {
        subprocess.run(
            [sys.executable, "-m", "amplint", "check", "--no-cache", "--format", "json-lines"],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(seed)},
            cwd=project,
            capture_output=True,
            check=False,
            timeout=120,
        ).stdout
        for seed in range(3)
    }
    (lines,) = found
    assert lines.count(b"\n") > 10


def test_processes_that_share_a_cache_give_the_report_that_one_alone_gives(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(project.parent)
    (project / "large.py").write_text("#" * 60_000)  # so that its index is kept too
    outcome = tried(project, 8)
    assert outcome["failures"] == []
