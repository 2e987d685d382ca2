"""One project, one report, to the byte, in every format: for any number of processes, any order of
the paths, any seed of hashes, from nothing, from the cache and after an edit that was taken back,
and with the line ends of Windows, in which fixes then write theirs.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from amplint.output import FORMATS
from benchmarks.packages import fetch, load
from benchmarks.robustness.watching import amplint

PACKAGES = ("lightweight-gan", "mamba-ssm")
LIMIT = 20 * 60.0
HASH_SEEDS = ("1", "2")
JOBS = (2, 3, 8)
SEEDS = (1, 2)  # of the orders in which files are named
ADDED = b"\n\ndef added(x):\n    return x.item()\n"


@dataclass(frozen=True)
class Way:
    """A way to run amplint over a project.

    Args:
        name: of the way.
        arguments: besides the formats.
        paths: those that are named.
        environment: what differs there.
    """

    name: str
    arguments: tuple[str, ...] = ("--no-cache",)
    paths: tuple[str, ...] = (".",)
    environment: Mapping[str, str] = field(default_factory=dict)


WINDOWS = Way("line ends of Windows")


def measure(cache: Path) -> dict[str, object]:
    """Compare the ways, package after package."""
    failures: list[str] = []
    findings: dict[str, int] = {}
    ways: list[str] = []
    for package in load(PACKAGES):
        with tempfile.TemporaryDirectory() as temporary:
            root = Path(temporary).resolve() / package.name
            shutil.copytree(fetch(package, cache), root)
            name = f"{package.name} {package.version}"
            ways, findings[name], different = compared(root)
            failures += [f"{name}: {one}" for one in different]
    return {"findings": findings, "ways": ways, "formats": [*FORMATS], "failures": failures}


def compared(root: Path) -> tuple[list[str], int, list[str]]:
    """The ways that were tried, how many findings there are, and which reports differ."""
    usual = reports(root, Way("alone", ("--no-cache", "--jobs", "1")))
    tried, different = [], []
    for way in ways(root):
        tried.append(way.name)
        found = reports(root, way)
        if way is WINDOWS:
            found = {name: text.replace(rb"\r\n", rb"\n") for name, text in found.items()}
        different += [f"{way.name}: {name}" for name in usual if found[name] != usual[name]]
    return tried, usual["concise"].count(b"\n"), different


def ways(root: Path) -> Iterator[Way]:
    """The ways; what a way needs is done to the project when it is its turn."""
    for jobs in JOBS:
        yield Way(f"{jobs} processes", ("--no-cache", f"--jobs={jobs}"))
    for seed in HASH_SEEDS:
        yield Way(f"hash seed {seed}", environment={"PYTHONHASHSEED": seed})
    files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
    for number in SEEDS:
        chance = random.Random(number)
        yield Way(f"order {number}", paths=tuple(chance.sample(files, len(files))))
    yield Way("cold cache", ())
    yield Way("warm cache", ())
    edited = root / files[len(files) // 2]
    text = edited.read_bytes()
    edited.write_bytes(text + ADDED)
    reports(root, Way("edited", ()))
    edited.write_bytes(text)
    for entry in (root / ".amplint_cache").iterdir():
        if entry.name not in FORMATS and b'"findings"' in entry.read_bytes()[:200]:
            entry.unlink()  # the result of the whole run, so that it is computed again
    yield Way("an edit that was taken back", ())
    for file in files:
        (root / file).write_bytes(with_line_ends(b"\r\n", (root / file).read_bytes()))
    yield WINDOWS


def with_line_ends(end: bytes, text: bytes) -> bytes:
    """The text with these line ends."""
    return b"\n".join(text.splitlines()).replace(b"\n", end) + end * text.endswith(b"\n")


def reports(root: Path, way: Way) -> dict[str, bytes]:
    """The report in each format."""
    with tempfile.TemporaryDirectory() as into:
        given = [f"--format={name}:{into}/{name}" for name in FORMATS]
        done = subprocess.run(
            amplint("check", "--quiet", *given, *way.arguments, *way.paths),
            cwd=root,
            env={**os.environ, **way.environment},
            timeout=LIMIT,
            check=False,
        )
        found = {name: Path(into, name).read_bytes() for name in FORMATS}
    return {**found, "status": str(done.returncode).encode()}
