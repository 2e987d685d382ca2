"""A project of 20,000 files and three million lines: time and memory, of all of it and of a part.

The tree is made of real packages, each several times under other names, so that no copy imports
what another one defines.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.packages import Package, fetch, load, sources
from benchmarks.robustness.watching import Watched, amplint, watched

PACKAGES = (
    "colossalai", "deepspeed", "fairseq", "mmaction2", "mmagic", "mmdet", "mmpose", "mmpretrain",
    "parlai", "s3prl", "torch-geometric", "xuance",
)  # fmt: skip
COPIES = 2
JOBS = 2
ONE = "s3prl_0"  # the package that is checked alone, in the same project
WHOLE = 4 * 60 * 60  # seconds
LIMIT = 20 * 60  # for each of the others
MOST_MB = 8_000


def measure(cache: Path) -> dict[str, object]:
    """Check the whole tree; and one package of it from nothing, again from the cache,
    and once more after an edit."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary).resolve()
        (root / "pyproject.toml").touch()
        files, lines = 0, 0
        for path, text in copies(cache):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(text)
            files, lines = files + 1, lines + text.count(b"\n")
        command = amplint("check", "--jobs", str(JOBS), "--format", "concise")
        runs = {"whole": watched([*command, "."], root, WHOLE)}
        shutil.rmtree(root / ".amplint_cache")
        runs["one package"] = watched([*command, ONE], root, LIMIT)
        runs["one package, warm"] = watched([*command, ONE], root, LIMIT)
        with (root / ONE / "__init__.py").open("ab") as edited:
            edited.write(b"\n# changed\n")
        runs["one package, edited"] = watched([*command, ONE], root, LIMIT)
    alone = {run.stdout for name, run in runs.items() if name != "whole"}
    return {
        "files": files,
        "lines": lines,
        "jobs": JOBS,
        "runs": {name: figures(run) for name, run in runs.items()},
        "failures": [
            *(f"{name}: {why}" for name, run in runs.items() for why in failures(run)),
            *(["one package: the reports differ"] if len(alone) > 1 else []),
        ],
    }


def copies(cache: Path) -> Iterator[tuple[str, bytes]]:
    """The files of the tree, by their paths, with what is in them."""
    for package in load(PACKAGES):
        kept = fetch(package, cache)
        read = {
            source.relative_to(kept).as_posix(): source.read_bytes()
            for source in sources(package, kept)
        }
        for number in range(COPIES):
            yield from renamed(package, read, f"_{number}")


def renamed(package: Package, texts: dict[str, bytes], suffix: str) -> Iterator[tuple[str, bytes]]:
    """The files of a package whose top directories have other names, which its imports name."""
    roots = "|".join(map(re.escape, package.roots))
    word = re.compile(rf"\b({roots})\b".encode())
    for path, text in texts.items():
        top, _, below = path.partition("/")
        yield f"{top}{suffix}/{below}", word.sub(rb"\1" + suffix.encode(), text)


def figures(run: Watched) -> dict[str, object]:
    return {
        "seconds": run.seconds,
        "peak of all processes, MB": run.peak_mb,
        "peak of the largest, MB": run.largest_mb,
        "processes": run.processes,
        "findings": run.stdout.count(b"\n"),
        "status": run.status,
    }


def failures(run: Watched) -> Iterator[str]:
    if run.status != 1:
        yield f"status {run.status}: {run.stderr[-300:]}"
    if run.peak_mb > MOST_MB:
        yield f"{run.peak_mb} MB, more than {MOST_MB}"
