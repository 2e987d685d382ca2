"""What each part of amplint is worth on real code: which of its lines real code ever runs.

    python -m benchmarks.worth DIRECTORY... [--output FILE]

Runs `amplint check --select ALL` over each directory, and `amplint fix` without writing, under
coverage. Writes by module how many lines of code it has, and which functions and lines nothing of
it has run: a special case that no project needs is found there. Code under analysis is read, and
never run.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import coverage

from benchmarks.size import lines_of_code

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("amplint", "rules")
COMMANDS = (("check", "--no-cache", "--format", "json"), ("fix", "--no-cache", "--unsafe"))
COMMON = ("--select", "ALL", "--preview", "--jobs", "1")


def run(directories: Sequence[Path], data: Path) -> None:
    """Run both commands over each directory, under coverage."""
    settings = data.with_suffix(".settings")
    sources = ",".join(str(ROOT / room) for room in ROOMS)
    settings.write_text(
        f"[run]\nparallel = true\npatch = _exit\ndata_file = {data}\nsource = {sources}\n"
    )
    for directory in directories:
        for command in COMMANDS:
            program = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}"]
            subprocess.run(
                [*program, "-m", "amplint", *command, *COMMON, str(directory)],
                cwd=directory,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.DEVNULL,
                check=False,
            )
            print(directory.name, command[0], file=sys.stderr, flush=True)


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """The outermost functions and methods of a module, by their names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner


def unused(measured: coverage.Coverage, path: Path) -> dict[str, object] | None:
    """What nothing has run of a module."""
    text = path.read_text(encoding="utf-8")
    _, _, _, missing, _ = measured.analysis2(str(path))
    rows = set(missing)
    idle = {}
    for name, node in functions(ast.parse(text)):
        own = {each.lineno for each in ast.walk(node) if isinstance(each, ast.stmt)} - {node.lineno}
        if own and own <= rows:
            idle[name] = (node.end_lineno or node.lineno) - node.lineno + 1
            rows -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return {"lines": lines_of_code(text), "functions": idle, "others": sorted(rows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        run([each.resolve() for each in given.directories], data)
        measured = coverage.Coverage(data_file=str(data), config_file=str(data) + ".settings")
        measured.combine([scratch])
        files = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
        found = {path.relative_to(ROOT).as_posix(): unused(measured, path) for path in files}
    text = json.dumps(found, indent=1)
    print(text) if given.output is None else given.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
