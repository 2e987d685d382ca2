"""Faults put into amplint on purpose: does the test command find them?

    python -m benchmarks.seeded_faults make [--seed N] [--count N]
    python -m benchmarks.seeded_faults run [--whole] [--from N] [--to N] [--limit SECONDS]

`make` writes the faults to benchmarks/seeded_faults.json: single edits of lines of amplint, its
rules and its harness, drawn by the seed, a fifth by each operator. They are committed before
anything is chosen by them. `run` applies one after another in a worktree of HEAD, runs
`pytest -n 2 -x` there (`--whole`: all tests), and writes to results/seeded_faults.json which were
caught, by which test and in how many seconds, and which survived or reached the limit. A fault that
breaks the import of everything is caught by the collection.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FAULTS = ROOT / "benchmarks" / "seeded_faults.json"
RESULTS = ROOT / "benchmarks" / "results" / "seeded_faults.json"
ROOMS = ("amplint", "amplint_verify", "rules")
SWAPPED = {"any": "all", "all": "any", "min": "max", "max": "min"}
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    """One edit.

    Args:
        operator: how it was made: inverted, joined, off-by-one, dropped or row.
        path: the file, from the root of the repository.
        row: of the edit, from 1.
        start, end: the characters of the row that are replaced.
        text: what stands there instead.
        was: what stood there when it was drawn; where that has moved, the fault is not tried.
    """

    operator: str
    path: str
    row: int
    start: int
    end: int
    text: str
    was: str = ""


def edits(path: str, source: str) -> Iterator[Fault]:
    """All faults that the operators can make in a module, each on one line."""
    lines = source.splitlines()
    tree = ast.parse(source)

    def fault(operator: str, node: ast.expr | ast.stmt, text: str) -> Iterator[Fault]:
        row, end = node.lineno, node.end_col_offset
        if row == node.end_lineno and end is not None and lines[row - 1].isascii():
            was = lines[row - 1][node.col_offset : end]
            yield Fault(operator, path, row, node.col_offset, end, text, was)

    def written(node: ast.AST) -> str:
        return ast.get_source_segment(source, node) or ""

    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            yield from fault("inverted", node.test, f"(not ({written(node.test)}))")
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield from fault("inverted", test, f"(not ({written(test)}))")
        elif isinstance(node, ast.BoolOp):
            word = " or " if isinstance(node.op, ast.And) else " and "
            parts = word.join(f"({written(each)})" for each in node.values)
            yield from fault("joined", node, f"({parts})")
        elif isinstance(node, ast.Name) and node.id in SWAPPED and isinstance(node.ctx, ast.Load):
            yield from fault("joined", node, SWAPPED[node.id])
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd):
            sign = "&" if isinstance(node.op, ast.BitOr) else "|"
            if not isinstance(node.right, ast.Constant) and ast.unparse(node).islower():
                text = f"({written(node.left)} {sign} {written(node.right)})"
                yield from fault("joined", node, text)
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield from fault("off-by-one", node, str(node.value + 1))
        elif (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)) or isinstance(
            node, ast.AugAssign
        ):
            yield from fault("dropped", node, "pass")
    for table in tree.body:
        value = table.value if isinstance(table, ast.Assign | ast.AnnAssign) else None
        for node in ast.walk(value) if value is not None else ():
            yield from rows(node, lines, path)


def rows(node: ast.AST, lines: list[str], path: str) -> Iterator[Fault]:
    """The rows of a module's tables that fill a line: entries of a dict, a set or a tuple."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    if isinstance(node, ast.Dict):
        pairs = [(key, value) for key, value in zip(node.keys, node.values, strict=True) if key]
    elif isinstance(node, ast.Set | ast.Tuple | ast.List):
        pairs = [(each, each) for each in node.elts]
    for first, last in pairs:
        row = first.lineno
        line = lines[row - 1]
        whole = line.strip().rstrip(",")
        spans = first.col_offset, last.end_col_offset
        if last.end_lineno == row and line[slice(*spans)] == whole and line.isascii():
            yield Fault("row", path, row, spans[0], len(line), "", line[spans[0] :])


def make(seed: int, count: int) -> list[Fault]:
    """Faults, a fifth by each operator, each in a module that is drawn first."""
    found: dict[str, dict[str, list[Fault]]] = {}
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            path = file.relative_to(ROOT).as_posix()
            for each in edits(path, file.read_text(encoding="utf-8")):
                found.setdefault(each.operator, {}).setdefault(path, []).append(each)
    drawn, chosen = random.Random(seed), list[Fault]()
    operators = sorted(found)
    while len(chosen) < count:
        by_path = found[operators[len(chosen) % len(operators)]]
        # By size: a long module has more to go wrong.
        paths = sorted(by_path)
        path = drawn.choices(paths, [len(by_path[path]) for path in paths])[0]
        fault = drawn.choice(by_path[path])
        if fault not in chosen and compiles(fault):
            chosen.append(fault)
    return chosen


def broken(fault: Fault, source: str) -> str:
    lines = source.splitlines(keepends=True)
    line = lines[fault.row - 1]
    body, end = line.rstrip("\n"), line[len(line.rstrip("\n")) :]
    lines[fault.row - 1] = body[: fault.start] + fault.text + body[fault.end :] + end
    return "".join(lines)


def compiles(fault: Fault) -> bool:
    source = (ROOT / fault.path).read_text(encoding="utf-8")
    try:
        ast.parse(broken(fault, source))
    except SyntaxError:
        return False
    return True


def tried(fault: Fault, tree: Path, arguments: list[str], limit: int) -> dict[str, object]:
    """What comes of a fault in a worktree, which is left as it was."""
    file = tree / fault.path
    source = file.read_text(encoding="utf-8")
    if source.splitlines()[fault.row - 1][fault.start : fault.end] != fault.was:
        return {**asdict(fault), "verdict": "moved", "by": "", "seconds": 0}
    file.write_text(broken(fault, source), encoding="utf-8")
    begun = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    try:
        done = subprocess.run(
            [*command, *arguments],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
        verdict, by = ("survived", "") if done.returncode == 0 else ("caught", "collection")
        if verdict == "caught" and (failed := FAILED.search(done.stdout)):
            by = failed[1]
    except subprocess.TimeoutExpired:
        verdict, by = "limit", ""
    finally:
        file.write_text(source, encoding="utf-8")
    return {
        **asdict(fault),
        "verdict": verdict,
        "by": by,
        "seconds": round(time.monotonic() - begun),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("make", "run"))
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--count", type=int, default=140)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--to", dest="last", type=int)
    parser.add_argument("--limit", type=int, default=900)
    given = parser.parse_args()
    if given.what == "make":
        faults = [asdict(each) for each in make(given.seed, given.count)]
        FAULTS.write_text(json.dumps({"seed": given.seed, "faults": faults}, indent=1) + "\n")
        return
    faults = [Fault(**each) for each in json.loads(FAULTS.read_text())["faults"]]
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kind = "whole" if given.whole else "short"
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "amplint"
        git = ("git", "-C", str(ROOT), "worktree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), "HEAD"], check=True)
        try:
            for number in range(given.first, given.last or len(faults)):
                arguments = ["--whole"] if given.whole else []
                outcome = tried(faults[number], tree, arguments, given.limit)
                results.setdefault(kind, {})[str(number)] = outcome
                RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
                print(number, outcome["verdict"], outcome["seconds"], outcome["by"], flush=True)
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


if __name__ == "__main__":
    main()
