"""`fix --apply` on copies of real packages, safe and with `--unsafe`, each one twice.

Some files of a copy get the line ends of Windows, a BOM or Latin-1, and each has one of three
modes. Of each pair of runs:

- `git diff` has as many files as the summary says, and `check` as many findings less;
- each file that has changed compiles, in the encoding, with the line ends and the mode that it had;
- no file is added or deleted, a temporary one included, and no other file has changed;
- the second run finds nothing to fix and changes nothing.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from amplint.util import replacing
from benchmarks.packages import Package, fetch, load
from benchmarks.robustness.determinism import with_line_ends
from benchmarks.robustness.files import accepted
from benchmarks.robustness.watching import amplint

PACKAGES = (
    "textbrewer", "torchcfm", "meshgpt-pytorch", "vector-quantize-pytorch", "k-diffusion",
    "magvit2-pytorch", "rtdetr", "gfpgan", "gigagan-pytorch", "trainer", "resemble-enhance",
    "pytorch-tabnet", "homura-core", "audiolm-pytorch", "open-flamingo", "bmtrain", "colbert-ai",
    "dinov2", "torchtune", "yolox", "elegantrl", "dalle2-pytorch", "groundingdino-py",
    "imagen-pytorch", "tortoise-tts", "gsplat", "joeynmt", "cleanrl",
)  # fmt: skip
TOGETHER = 4  # packages at a time
LIMIT = 20 * 60.0  # seconds for one run
RULES = ("--select", "ALL", "--target-torch", "2.10")
WAYS = (("fix", "--apply"), ("fix", "--apply", "--unsafe"))
MODES = (0o644, 0o755, 0o600)
COOKIE = b"# -*- coding: latin-1 -*-\n"
BOM = b"\xef\xbb\xbf"
LINE_END = re.compile(rb"\r\n|\r|\n")
NOTHING = "nothing to fix"
# Ex) fixed 3 findings in 2 files, which reveals 1 other
SUMMARY = re.compile(
    r"^fixed (\d+) findings? in (\d+) files?(?:, which reveals (\d+) others?)?", re.MULTILINE
)


def measure(cache: Path) -> dict[str, object]:
    begun = time.monotonic()
    packages = load(PACKAGES)
    with ThreadPoolExecutor(TOGETHER) as pool:  # of threads that wait for processes
        outcomes = list(pool.map(lambda package: tried(package, fetch(package, cache)), packages))
    counts = sum((counts for counts, _ in outcomes), Counter[str]())
    failures = [each for _, told in outcomes for each in told]
    seconds = round(time.monotonic() - begun)
    return {"packages": len(packages), **counts, "seconds": seconds, "failures": failures}


def tried(package: Package, tree: Path) -> tuple[Counter[str], list[str]]:
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary).resolve() / package.name
        shutil.copytree(tree, root)
        told = [f"{package.name}: {each}" for each in wrong_with(root, counts)]
    print(f"{package.name}: {dict(counts)} {told}", file=sys.stderr, flush=True)
    return counts, told


def wrong_with(root: Path, counts: Counter[str]) -> Iterator[str]:
    """What does not hold of the fixes of one copy, which are left in it."""
    for number, file in enumerate(sorted(root.rglob("*.py"))):
        vary(file, number)
    counts["files"] += len(held(root))
    git(root, "init", "--quiet")
    with (root / ".git/info/exclude").open("a") as ignored:
        ignored.write(".amplint_cache/\n")
    found = len(findings(root))
    for way in WAYS:
        name = " ".join(way)
        git(root, "add", "--all")
        before = held(root)
        summary = run(root, *way, *RULES)
        after = held(root)
        fixed = summarized(summary)
        if fixed is None:
            yield f"{name}: says {summary!r}"
            return
        changed = {path for path in before if before[path] != after.get(path)}
        left = len(findings(root))
        counts["files_changed"] += len(changed)
        counts["findings_fixed"] += fixed.findings
        if fixed.files != len(changed) or changed != set(git(root, "diff", "--name-only")):
            yield f"{name}: {summary!r}, and these files have changed: {sorted(changed)}"
        if left != found - fixed.findings + fixed.new:
            yield f"{name}: {summary!r}, with {found} findings before and {left} after"
        yield from (f"{name}: {each}: added or deleted" for each in before.keys() ^ after.keys())
        yield from (f"{name}: {each}: left" for each in replacing.left_below(root))
        for path in sorted(changed & after.keys()):
            yield from (f"{name}: {path}: {each}" for each in lost(before[path], after[path]))
        again = run(root, *way, *RULES)
        if NOTHING not in again or held(root) != after:
            different = sorted(path for path in after if held(root).get(path) != after[path])
            yield f"{name}, again: {again!r} {different}"
        found = left


# ------------------------------------------------------------------------------ files


@dataclass(frozen=True)
class Held:
    """A file: its content and its mode."""

    data: bytes
    mode: int


def held(root: Path) -> dict[str, Held]:
    """The files of a copy, without those of git and of the cache."""
    return {
        path.relative_to(root).as_posix(): Held(
            path.read_bytes(), stat.S_IMODE(path.stat().st_mode)
        )
        for path in root.rglob("*")
        if path.is_file() and path.relative_to(root).parts[0] not in (".git", ".amplint_cache")
    }


def vary(path: Path, number: int) -> None:
    """Give a file other line ends, another encoding and another mode, by its number."""
    data = path.read_bytes()
    if encoding(data) == "utf-8" and b"coding" not in data[:200]:
        if number % 5 == 1:
            data = BOM + data
        elif number % 7 == 1:
            data = latin_1(data)
    if number % 3 == 1:
        data = with_line_ends(b"\r\n", data)
    path.write_bytes(data)
    path.chmod(MODES[number % len(MODES)])


def latin_1(data: bytes) -> bytes:
    """The file in Latin-1, with a cookie; as it is where Latin-1 lacks one of its characters."""
    try:
        return COOKIE + data.decode().encode("latin-1")
    except UnicodeError:
        return data


def encoding(data: bytes) -> str:
    try:
        return tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except SyntaxError:
        return "none that Python knows"


def lost(before: Held, after: Held) -> Iterator[str]:
    """What a file had that it has no longer."""
    if before.mode != after.mode:
        yield f"mode {after.mode:o} instead of {before.mode:o}"
    if encoding(before.data) != encoding(after.data):
        yield f"{encoding(after.data)} instead of {encoding(before.data)}"
    if new := {*LINE_END.findall(after.data)} - {*LINE_END.findall(before.data)}:
        yield f"line ends that it did not have: {new}"
    if accepted(before.data) and not accepted(after.data):
        yield "does not compile"


# ------------------------------------------------------------------------------ runs


@dataclass(frozen=True)
class Summary:
    """The numbers of the line that `fix` ends with."""

    findings: int
    files: int
    new: int


def summarized(said: str) -> Summary | None:
    if NOTHING in said:
        return Summary(0, 0, 0)
    numbers = SUMMARY.search(said)
    return Summary(*(int(each or 0) for each in numbers.groups())) if numbers else None


def findings(root: Path) -> Sequence[object]:
    done = ended(root, amplint("check", "--format", "json", *RULES))
    found = json.loads(done.stdout)
    assert isinstance(found, list)
    return found


def run(root: Path, *arguments: str) -> str:
    """What amplint says besides its findings."""
    return ended(root, amplint(*arguments)).stderr


def git(root: Path, *arguments: str) -> list[str]:
    """What git says, by line."""
    command = ["git", "-c", "core.autocrlf=false", "-c", "core.quotePath=false", *arguments]
    return ended(root, command).stdout.splitlines()


def ended(root: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=root, capture_output=True, encoding="utf-8", timeout=LIMIT, check=False
    )
