"""Hostile input, at sizes that tests have no time for: what each takes of CPU and of memory.

Each repository is made anew and looked at by a process of its own, whose CPU and memory are
limited. A failure is a run that ends by a signal, a limit or a fault of amplint, one that passes
over the other file of the repository, and one that leaves a trace outside of it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CPU = 60  # seconds
MEMORY = 8 << 30  # bytes of addresses
ORDINARY = "import torch\n\nwith torch.cuda.amp.autocast():\n    pass\n"
EXPECTED = "AMP701"  # of the ordinary file
HEAD = "import torch\n"
FAULT = "this is a bug in amplint"


def scaler(tests: int) -> str:
    branches = "".join(
        f"    if a[{i}]:\n        scaler.scale(l).backward()\n    else:\n        scaler.step(o)\n"
        for i in range(tests)
    )
    return f"scaler = torch.cuda.amp.GradScaler()\n\ndef f(l, o, a):\n{branches}"


def notebook(*sources: object) -> str:
    cells = [{"cell_type": "code", "metadata": {}, "source": source} for source in sources]
    return json.dumps({"nbformat": 4, "metadata": {}, "cells": cells})


def baseline(entries: int) -> str:
    found = [{"path": str(i), "code": "A", "scope": "", "line": ""} for i in range(entries)]
    return json.dumps({"amplint-baseline": 1, "findings": found})


# By name: the file, and what makes its content when it is needed.
TRIALS: Mapping[str, tuple[str, Callable[[], str]]] = {
    "a line of 200 MB": ("x.py", lambda: f"x = '{'a' * 200_000_000}'\n"),
    "a line of 3.9 MB": ("x.py", lambda: f"x = '{'a' * 3_900_000}'\n"),
    "a list of 300,000 numbers": ("x.py", lambda: f"x = [{'1,' * 300_000}]\n"),
    "a dict of 50,000 entries": (
        "x.py",
        lambda: "d = {" + ",".join(f"'{i}':{i}" for i in range(50_000)) + "}\n",
    ),
    "100,000 parentheses": ("x.py", lambda: f"x = {'(' * 100_000}1{')' * 100_000}\n"),
    "100,000 summands": ("x.py", lambda: f"x = {'1 + ' * 100_000}1\n"),
    "100,000 attributes": ("x.py", lambda: f"x = a{'.b' * 100_000}\n"),
    "numbers of numbers": (
        "x.py",
        lambda: "x = torch.zeros(10**10**10)\ny = 'x' * 10**9\nz = 1 << 10**10\n",
    ),
    "5,000 functions in a row": (
        "x.py",
        lambda: "".join(f"def f{i}(x):\n    return f{i + 1}(x)\n" for i in range(5_000)),
    ),
    "5,000 classes in a row": (
        "x.py",
        lambda: "\n".join(f"class A{i}(A{i + 1}): pass" for i in range(5_000)),
    ),
    "150 tests around a scaler": ("x.py", lambda: scaler(150)),
    "300 contexts of one statement": (
        "x.py",
        lambda: (
            "def f():\n  with "
            + ", ".join(f"torch.autocast('cuda') as a{i}" for i in range(300))
            + ":\n    x.item()\n"
        ),
    ),
    "1,000 reads in one line": (
        "x.py",
        lambda: f"for x in loader:\n    {'print(torch.ones(1).cuda().item()); ' * 1_000}\n",
    ),
    "a notebook of depth a million": ("x.ipynb", lambda: "[" * 1_000_000),
    "a notebook of a million `~`": ("x.ipynb", lambda: notebook("#" + "~" * 1_000_000)),
    "a notebook of 15 MB of nothing": ("x.ipynb", lambda: f"[{'{},' * 5_000_000}{{}}]"),
    "a notebook of 50,000 lines": ("x.ipynb", lambda: notebook(["x\n"] * 50_000)),
    "a .gitignore of stars": (".gitignore", lambda: f"{'*a' * 60}b\n" * 100),
    "settings of depth a million": ("pyproject.toml", lambda: "a = " + "[" * 1_000_000),
    "a baseline of depth a million": (".amplint-baseline.json", lambda: "[" * 1_000_000),
    "a baseline of 12 MB": (
        ".amplint-baseline.json",
        lambda: baseline(200_000),
    ),
}
REFUSED = ("pyproject.toml", ".amplint-baseline.json")  # what ends the command with a sentence


def measure(cache: Path) -> dict[str, object]:  # noqa: ARG001  (no packages are needed)
    figures: dict[str, object] = {}
    failures: list[str] = []
    for name, (file, content) in TRIALS.items():
        with tempfile.TemporaryDirectory() as directory:
            figures[name], why = trial(Path(directory), file, content())
        failures += [f"{name}: {each}" for each in why]
    return {
        "limits": {"cpu_s": CPU, "memory_mb": MEMORY >> 20},
        "trials": figures,
        "failures": failures,
    }


def trial(directory: Path, file: str, content: str) -> tuple[dict[str, object], list[str]]:
    """The figures of one repository, and what went wrong."""
    repository, home = directory / "repository", directory / "home"
    for each in (repository, home):
        each.mkdir()
    (repository / "pyproject.toml").touch()
    (repository / "a.py").write_text(ORDINARY)
    (repository / f"{'a' * 200}.py").write_text("x = 1\n")
    (repository / file).write_text(HEAD + content if file == "x.py" else content)
    status, out, err, cpu, memory = run(repository, home)
    figures: dict[str, object] = {"status": status, "cpu_s": round(cpu, 1), "memory_mb": memory}
    why: list[str] = []
    if status not in (0, 1, 2) or FAULT in err or "Traceback" in err:
        why.append(f"status {status}: {err.strip()[-300:]}")
    if EXPECTED not in out and not (status == 2 and file in REFUSED and err):
        why.append(f"the other file was passed over: {err.strip()[-300:]}")
    if list(home.iterdir()) or {each.name for each in directory.iterdir()} != {
        "repository",
        "home",
    }:
        why.append("something was written outside of the repository")
    return figures, why


def run(repository: Path, home: Path) -> tuple[int, str, str, float, int]:
    """Status, output, errors, seconds of CPU and MB of `amplint check`."""
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "HOME": str(home), "AMPLINT_CACHE_KEY": "of a trial",
    }  # fmt: skip
    command = [sys.executable, "-m", "amplint", "check", "--format", "concise", "."]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command, cwd=repository, env=environment, stdout=out, stderr=err,
            preexec_fn=limit,  # noqa: PLW1509  (nothing here has threads)
        )  # fmt: skip
        _, state, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(state)
        said = [stream.seek(0) or stream.read().decode(errors="replace") for stream in (out, err)]
    return process.returncode, *said, used.ru_utime + used.ru_stime, used.ru_maxrss // 1024


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
