"""The process of the language server that analyses, through thousands of edits: memory, threads
and open files, which may not grow with them.

The edits are those of benchmarks/editor.py, one upon the other: comments, constants, functions,
statements, and moments in which the text is no Python. Each tenth one goes back to the text of the
beginning, so that the text itself does not grow.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from amplint.server.analyst import START
from amplint.server.messages import (
    HEAD,
    JudgedText,
    LogLine,
    Look,
    LookEnded,
    Open,
    answer_in,
    framed,
)
from benchmarks.editor import EDITS
from benchmarks.robustness.watching import memory

NUMBER = 10_000
SECONDS = 40 * 60.0  # after which it ends with fewer
SAMPLES = 20
MOST_GROWTH = 1.5  # times the most in the first quarter
LEAST = {"MB": 120, "threads": 5, "open files": 8}  # which is no growth; two looks need as much

TRAIN = """\
import torch

from helpers import total


def train(model, loader, optimizer):
    running = 0.0
    seen = 0
    for batch in loader:
        loss = total(model(batch.cuda()))
        loss.backward()
        optimizer.step()
        running += loss.item()
        seen += 1
    return running / seen
"""
HELPERS = "def total(losses):\n    return losses.mean()\n"


def measure(cache: Path) -> dict[str, object]:
    """The figures for a project of two files."""
    del cache
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary).resolve()
        (root / "pyproject.toml").touch()
        (root / "helpers.py").write_text(HELPERS)
        (root / "train.py").write_text(TRAIN)
        return edited(root, NUMBER, SECONDS)


def edited(root: Path, number: int, seconds: float) -> dict[str, object]:
    """Edit train.py so many times, or for so long."""
    command = [sys.executable, "-c", START, *sys.path]
    begun = time.monotonic()
    samples: list[dict[str, int]] = []
    failures: list[str] = []
    done = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for done, text in enumerate(texts(number), 1):
            findings = answer(process, done, root / "train.py", text)
            if findings != 1:
                failures.append(f"edit {done}: {findings} findings")
            if done % max(number // SAMPLES, 1) == 0:
                samples.append({"edits": done, **state(process.pid)})
            if time.monotonic() > begun + seconds:
                break
        assert process.stdin is not None
        process.stdin.close()
    return {
        "edits": done,
        "seconds": round(time.monotonic() - begun),
        "samples": samples,
        "failures": failures + list(grown(samples)),
    }


def texts(number: int) -> Iterator[str]:
    """The text after each edit."""
    text, kinds = TRAIN, [*EDITS.values()]
    for done in range(number):
        if done % 10 == 0:
            text = TRAIN
        after = kinds[done % len(kinds)](text, done)
        yield after
        if kinds[done % len(kinds)] is not EDITS["an open parenthesis"]:
            text = after


def answer(process: subprocess.Popen[bytes], number: int, path: Path, text: str) -> int:
    """Have the text looked at; how many findings are shown. -1: something was told of it."""
    assert process.stdin is not None and process.stdout is not None
    uri = path.as_uri()
    process.stdin.write(framed(Look(number, uri, {uri: Open(text)}, "utf-16")))
    process.stdin.flush()
    found = 0
    while True:
        head = process.stdout.read(HEAD.size)
        said = answer_in(process.stdout.read(*HEAD.unpack(head)))
        if isinstance(said, JudgedText):
            found = len(said.items)
        elif isinstance(said, LogLine):
            found = -1
        elif isinstance(said, LookEnded):
            return found


def state(process: int) -> dict[str, int]:
    """The memory of a process in MB, its threads and its open files."""
    proc = Path(f"/proc/{process}")
    return {
        "MB": memory(process)[1] // 1024,
        "threads": len([*(proc / "task").iterdir()]),
        "open files": len([*(proc / "fd").iterdir()]),
    }


def grown(samples: list[dict[str, int]]) -> Iterator[str]:
    """A sentence for each figure that has grown since the first quarter of the samples."""
    early = samples[: max(len(samples) // 4, 2)]
    for name, least in LEAST.items():
        before, after = (max(one[name] for one in some) for some in (early, samples))
        if after > max(MOST_GROWTH * before, least):
            yield f"{name}: {before} became {after}"
