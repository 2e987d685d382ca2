"""What amplint, mypy and ruff take after an edit of a large package, of all processes.

    python -m benchmarks.after_an_edit [--cache DIR] [--runs N] [--out FILE]

The edits are made one upon the other in timm, as a user would: a comment in the first line of a
model, a statement in it, and another constant as the default of an argument that most models name.
After each, mypy checks what its cache does not know, ruff checks all, amplint checks all; after one
more statement the hook looks at the file. Then a check that watches the project is started, and the
same is done again: what it takes counts for the run that asks it, until its answer. Prints medians
of seconds of CPU and their share of mypy's own cold run, and writes results/after_an_edit.json. The
last report is held against that of a run without a cache. For Linux.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from benchmarks.packages import RESULTS, Package, arguments, fetch, program
from benchmarks.speed import ENVIRONMENT, MYPY, RUFF, TOOLS, Command, install, measure

TIMM = Package(
    "timm", "1.0.31", ("timm",), "5bd50f7d0fe6d09bf9285ac2523234a1b7e6bf075c0be3e7aed09139fcb617c7"
)
MODEL, LAYER = "timm/models/levit.py", "timm/layers/drop.py"
CHECK = (program("amplint"), "check", "-q", "--format", "concise", ".")
HOOK = (program("amplint"), "check", "-q", "--format", "concise", MODEL)
INCREMENTAL = [word for word in TOOLS[MYPY].words if word != "--no-incremental"]
TICKS = os.sysconf("SC_CLK_TCK")

Rows = dict[str, list[float]]


def comment(tree: Path, number: int) -> None:
    """Put a comment into the first line of a model."""
    file = tree / MODEL
    file.write_text(f"# {number}\n{file.read_text()}")


def statement(tree: Path, number: int) -> None:
    """Put a statement into its longest method."""
    method = "    def forward_features(self, x):\n"
    replaced(tree / MODEL, re.escape(method), f"{method}        changed_{number} = {number}\n")


def default(tree: Path, number: int) -> None:
    """Have another constant as the default of an argument."""
    head = r"^def drop_path\(x, drop_prob: float = "
    replaced(tree / LAYER, f"{head}[0-9.]+", f"def drop_path(x, drop_prob: float = 0.{number}")


def replaced(file: Path, old: str, new: str) -> None:
    text, count = re.subn(old, new, file.read_text(), flags=re.MULTILINE)
    if count != 1:
        sys.exit(f"{file}: {count} times {old}")
    file.write_text(text)


EDITS: dict[str, Callable[[Path, int], None]] = {
    "a comment": comment,
    "a statement": statement,
    "a default": default,
}


def taken(process: subprocess.Popen[bytes]) -> float:
    """The seconds of CPU of a process and of those that it has waited for."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def cpu(words: tuple[str, ...], tree: Path) -> tuple[float, str]:
    """The seconds of CPU of a command, and a digest of what it printed."""
    sample = measure(Command("", words, 1, (0, 1, 2)), tree)
    return sample.cpu, sample.printed


def one_round(tree: Path, number: int, rows: Rows, others: dict[str, tuple[str, ...]]) -> None:
    """All edits, without and with a check that watches."""

    def note(name: str, seconds: float) -> None:
        rows.setdefault(name, []).append(round(seconds, 2))
        print(f"{name}: {seconds:.2f}", file=sys.stderr, flush=True)

    def checked(
        name: str, words: tuple[str, ...], watching: subprocess.Popen[bytes] | None
    ) -> None:
        before = taken(watching) if watching else 0.0
        seconds, _ = cpu(words, tree)
        note(name, seconds + (taken(watching) - before if watching else 0.0))

    for edit, make in EDITS.items():
        make(tree, number)
        for tool, words in others.items():
            note(f"{tool} after {edit}", cpu(words, tree)[0])
        checked(f"amplint after {edit}", CHECK, None)
    statement(tree, number + 1)
    checked("the hook after a statement", HOOK, None)
    cpu(CHECK, tree)
    checked("amplint, warm", CHECK, None)
    watch = (program("amplint"), "check", "--watch", "-q", ".")
    quiet = subprocess.DEVNULL
    watching = subprocess.Popen(watch, cwd=tree, stdout=quiet, stderr=quiet, env=ENVIRONMENT)
    try:
        time.sleep(3)
        statement(tree, number + 2)
        cpu(CHECK, tree)  # it has no values in memory before
        for edit, make in EDITS.items():
            make(tree, number + 3)
            checked(f"amplint after {edit}, watched", CHECK, watching)
        statement(tree, number + 4)
        checked("the hook after a statement, watched", HOOK, watching)
    finally:
        watching.terminate()
        watching.wait()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=5, help="rounds; default: %(default)s")
    parser.add_argument("--out", type=Path, default=RESULTS / "after_an_edit.json")
    options = parser.parse_args()
    tools = {name: install(TOOLS[name], options.cache / "tools") for name in (MYPY, RUFF)}
    rows: Rows = {}
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / "timm"
        shutil.copytree(fetch(TIMM, options.cache), tree, ignore=shutil.ignore_patterns(".*cache"))
        (tree / "pyproject.toml").touch()
        others = {
            name: (str(tools[name] / words[0]), *words[1:])
            for name, words in {MYPY: INCREMENTAL, RUFF: TOOLS[RUFF].words}.items()
        }
        for number in range(options.runs):
            if number < 3:
                with suppress(FileNotFoundError):
                    shutil.rmtree(tree / ".mypy_cache")
                rows.setdefault("mypy, cold", []).append(cpu(others[MYPY], tree)[0])
            if not number:
                rows["amplint, cold"] = [cpu(CHECK, tree)[0]]
            one_round(tree, 10 * (number + 1), rows, others)
        if cpu(CHECK, tree)[1] != cpu((*CHECK, "--no-cache"), tree)[1]:
            sys.exit("a run without a cache prints something else")
    medians = {name: statistics.median(seconds) for name, seconds in rows.items()}
    for name, seconds in medians.items():
        print(f"{name:<40} {seconds:7.2f} s {seconds / medians['mypy, cold']:6.2f} of mypy cold")
    state = {
        "package": f"{TIMM.name} {TIMM.version}",
        "tools": {name: TOOLS[name].version for name in (MYPY, RUFF)},
        "rows": {
            name: {
                "runs": rows[name],
                "cpu": seconds,
                "of mypy cold": round(seconds / medians["mypy, cold"], 3),
            }
            for name, seconds in medians.items()
        },
    }
    options.out.write_text(json.dumps(state, indent=1) + "\n")


if __name__ == "__main__":
    main()
