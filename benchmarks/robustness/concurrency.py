"""Many processes at once over one cache: each gives the report that a run alone gives.

All of them start together, from nothing: every other one as most users run amplint, the others with
other rules, whose entries lie in the same cache.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from amplint.run.cache import NAME
from amplint.util.replacing import is_left
from benchmarks.packages import fetch, load
from benchmarks.robustness.watching import amplint

PACKAGE = "lightweight-gan"
PROCESSES = 50
LIMIT = 20 * 60.0
USUAL: tuple[str, ...] = ()
WAYS = (USUAL, *(("--select", rules) for rules in ("ALL", "AMP1", "AMP4", "AMP5", "AMP7")))


def measure(cache: Path) -> dict[str, object]:
    """Run all of them, then one more that finds all in the cache."""
    (package,) = load([PACKAGE])
    with tempfile.TemporaryDirectory() as temporary:
        project = Path(temporary).resolve() / package.name
        shutil.copytree(fetch(package, cache), project)
        return tried(project, PROCESSES)


def tried(project: Path, processes: int) -> dict[str, object]:
    """Run so many processes over a project."""
    alone = {way: report(project, "--no-cache", *way) for way in WAYS}
    begun = time.monotonic()
    ways = [USUAL if n % 2 else WAYS[(n // 2) % len(WAYS)] for n in range(processes)]
    running = [(way, started(project, *way)) for way in ways]
    failures = []
    for way, process in running:
        out, err = process.communicate(timeout=LIMIT)
        if (process.returncode, out, err) != alone[way]:
            failures.append(f"{way}: {process.returncode}: {err.decode()[-200:]}")
    seconds = round(time.monotonic() - begun, 1)
    for way in WAYS:
        if report(project, *way) != alone[way]:
            failures.append(f"{way}: another report from the cache")
    kept = [*(project / NAME).iterdir()]
    failures += [f"left behind: {file.name}" for file in kept if is_left(file.name)]
    return {
        "processes": processes,
        "selections": len(WAYS),
        "seconds": seconds,
        "entries": len(kept),
        "failures": failures,
    }


def started(project: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = amplint("check", "--format", "json", "--jobs", "2", *arguments)
    return subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def report(project: Path, *arguments: str) -> tuple[int, bytes, bytes]:
    """What a run alone gives: its status, and what it prints."""
    process = started(project, *arguments)
    out, err = process.communicate(timeout=LIMIT)
    return process.returncode, out, err
