"""Many processes at once over one cache: each gives the report that a run alone gives.

All of them start together, from nothing: half over the same project, half over copies of it to
which a file was added, whose cache is a link to the first one's.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.packages import fetch, load
from benchmarks.robustness.watching import amplint

PACKAGE = "lightweight-gan"
PROCESSES = 50
OTHERS = 5  # projects that share the cache of the first
LIMIT = 20 * 60.0
ADDED = "import torch\n\nwith torch.cuda.amp.autocast():\n    x = {number}\n"


def measure(cache: Path) -> dict[str, object]:
    """Run all of them, then one more that finds all in the cache."""
    (package,) = load([PACKAGE])
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary).resolve()
        shutil.copytree(fetch(package, cache), scratch / "0")
        return tried(projects(scratch / "0", OTHERS), PROCESSES)


def projects(first: Path, others: int) -> list[Path]:
    """A project, and copies of it with another file each; all have one cache."""
    found = [first]
    (first / ".amplint_cache").mkdir()
    for number in range(1, others + 1):
        other = first.with_name(str(number))
        shutil.copytree(first, other, ignore=shutil.ignore_patterns(".amplint_cache"))
        (other / "added.py").write_text(ADDED.format(number=number))
        (other / ".amplint_cache").symlink_to(first / ".amplint_cache", target_is_directory=True)
        found.append(other)
    return found


def tried(found: Sequence[Path], processes: int) -> dict[str, object]:
    """Run so many processes over these projects, every other one over the first."""
    alone = {project: report(project, "--no-cache") for project in found}
    begun = time.monotonic()
    where = [found[0] if n % 2 else found[(n // 2) % len(found)] for n in range(processes)]
    running = [(project, started(project)) for project in where]
    failures = []
    for project, process in running:
        out, err = process.communicate(timeout=LIMIT)
        if (process.returncode, out, err) != alone[project]:
            failures.append(f"{project.name}: {process.returncode}: {err.decode()[-200:]}")
    seconds = round(time.monotonic() - begun, 1)
    for project in found:
        if report(project) != alone[project]:
            failures.append(f"{project.name}: another report from the cache")
    kept = [*(found[0] / ".amplint_cache").iterdir()]
    failures += [f"left behind: {file.name}" for file in kept if file.name.startswith("new-")]
    return {
        "processes": processes,
        "projects": len(found),
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
