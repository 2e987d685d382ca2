"""Faults put into amplint on purpose: does the test command find them?

    python -m benchmarks.seeded_faults make [--seed N] [--count N]
    python -m benchmarks.seeded_faults contexts --contexts FILE
    python -m benchmarks.seeded_faults run [--seed N] [--from N] [--to N] --contexts FILE
    python -m benchmarks.seeded_faults survivors --contexts FILE

`make` writes the faults to benchmarks/seeded_faults.json: single edits of lines of amplint, its
rules and its harness, drawn by the seed, a fifth by each operator. They are committed before
anything is chosen by them. `contexts` runs the tests of the short run once under coverage, in a
worktree of HEAD, and writes which tests execute the statement of each fault, in the processes that
they start as well, and how long each takes. `run` applies one fault after another in such a
worktree, and runs there the tests that execute its line, cheapest first, to the first that fails; a
line that an import executes is every test's. After 30 seconds of tests a fault counts as a
survivor. `survivors` applies all of those at once, runs all tests (`pytest --whole`), and then
those that fail with each survivor alone, and without any. results/seeded_faults.json says which
faults were caught, by which test, by the short run and by all tests.
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

import coverage

ROOT = Path(__file__).resolve().parents[1]
FAULTS = ROOT / "benchmarks" / "seeded_faults.json"
RESULTS = ROOT / "benchmarks" / "results" / "seeded_faults.json"
ROOMS = ("amplint", "amplint_verify", "rules")
SWAPPED = {"any": "all", "all": "any", "min": "max", "max": "min"}
FAILED = re.compile(r"^(?:FAILED|ERROR) (.*?)(?: - |$)", re.MULTILINE)
HANGS = 240  # seconds after which a run counts as one that comes to no end
MOST = 30.0  # seconds of tests for a fault alone

# Coverage of the processes that tests start, too: a program of the tests says which test it is by
# the environment, and a worker of pytest-xdist by the plugin. Both save what they have at os._exit.
SETTINGS = """
[run]
parallel = true
patch = _exit, fork
data_file = {data}
include = {files}
context = ${{AMPLINT_TEST-}}
"""
START = "import coverage; coverage.process_startup()\n"
PLUGIN = """
import os
import sys
import coverage
import pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    name = os.environ["AMPLINT_TEST"] = item.nodeid.partition("@tests/")[0]
    measured = coverage.Coverage.current()
    if sys.gettrace() is None:  # a test has traced something itself
        measured.stop()
        measured.start()
    measured.switch_context(name)
    return (yield)
"""


Key = tuple[str, str]


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


@dataclass(frozen=True)
class Contexts:
    """Which tests execute the line of a fault.

    Args:
        seconds: what each test took, under coverage.
        lines: the tests by file and row, as "path:row"; "" for an import.
        commit: at which that was seen, and faults are tried.
    """

    commit: str
    seconds: Mapping[str, float]
    lines: Mapping[str, Sequence[str]]

    def of(self, fault: Fault, tree: Path) -> list[str]:
        """The tests to run, cheapest first, for `MOST` seconds at most."""
        tests = set(self.lines[f"{fault.path}:{fault.row}"])
        importers: set[str] = set()
        if "" in tests:
            tests = set(self.seconds)
            importers = importing(tree, fault.path, {test.partition("::")[0] for test in tests})
        # The first test of a fixture makes what the others of it read.
        shared = {beginning(test) for test in tests}
        tests |= {test for test in self.seconds if beginning(test) in shared}
        chosen, left = list[str](), MOST

        def order(test: str) -> tuple[bool, float, str]:
            is_other = test.partition("::")[0] not in importers
            return is_other, self.seconds.get(test, 1.0), test

        for test in sorted(tests, key=order):
            left -= self.seconds.get(test, 1.0)
            if left < 0:
                break
            chosen.append(test)
        return chosen


def importing(tree: Path, path: str, files: Iterable[str]) -> set[str]:
    """The files of tests that name a module: their tests come first for a line of its tables."""
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    package, _, name = module.rpartition(".")
    named = re.compile(rf"{re.escape(module)}\b|from {re.escape(package)} import .*\b{name}\b")
    return {file for file in files if named.search((tree / file).read_text(encoding="utf-8"))}


def beginning(test: str) -> str:
    """The file of a test and the first of its parameters: a fixture, in most."""
    path, _, rest = test.partition("::")
    _, _, parameters = rest.partition("[")
    return f"{path}[{parameters.partition('-')[0]}]" if parameters else test


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """A commit in a directory of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "amplint"
        git = ("git", "-C", str(ROOT), "worktree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def contexts(faults: Sequence[Fault]) -> Contexts:
    """Run the tests once, and see which ones execute the faults' lines."""
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    with worktree(head) as tree, tempfile.TemporaryDirectory() as scratch:
        data, times, plugin = (Path(scratch) / name for name in ("data", "times", "told.py"))
        files = ",".join(sorted({f"{tree}/{fault.path}" for fault in faults}))
        settings = Path(scratch) / "settings"
        settings.write_text(SETTINGS.format(data=data, files=files), encoding="utf-8")
        plugin.write_text(PLUGIN, encoding="utf-8")
        (tree / "sitecustomize.py").write_text(START, encoding="utf-8")
        path = os.pathsep.join([str(tree), scratch])
        environment = {**os.environ, "PYTHONPATH": path, "COVERAGE_PROCESS_START": str(settings)}
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "told"]
        subprocess.run([*command, f"--times={times}"], cwd=tree, env=environment, check=False)
        found = coverage.Coverage(data_file=str(data))
        found.combine([scratch])
        lines: dict[str, list[str]] = {}
        for fault in faults:
            tests = found.get_data().contexts_by_lineno(f"{tree}/{fault.path}")
            span = statement(fault, (tree / fault.path).read_text(encoding="utf-8"))
            lines[f"{fault.path}:{fault.row}"] = sorted(
                {t for row in span for t in tests.get(row, ())}
            )
        return Contexts(head, json.loads(times.read_text()), lines)


def statement(fault: Fault, source: str) -> range:
    """The rows of the statement, or of the head of one, that has the fault: of an expression over
    several lines the interpreter need not name each."""
    found = range(fault.row, fault.row + 1)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= fault.row <= (node.end_lineno or 0):
            inner = [each.lineno for each in ast.walk(node) if isinstance(each, ast.stmt)]
            ends = [row for row in inner if row > node.lineno]
            last = min(ends) - 1 if ends else node.end_lineno or node.lineno
            if fault.row <= last:
                found = range(node.lineno, last + 1)
    return found


def tried(fault: Fault, tree: Path, tests: Sequence[str]) -> dict[str, object]:
    """What comes of a fault in a worktree, which is left as it was."""
    file = tree / fault.path
    source = file.read_text(encoding="utf-8")
    if source.splitlines()[fault.row - 1][fault.start : fault.end] != fault.was:
        return {**asdict(fault), "verdict": "moved", "by": "", "seconds": 0}
    if not tests:
        return {**asdict(fault), "verdict": "survived", "by": "", "tests": 0, "seconds": 0}
    file.write_text(broken(fault, source), encoding="utf-8")
    begun = time.monotonic()
    listed = tree.parent / "tests.txt"
    listed.write_text("\n".join(tests), encoding="utf-8")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"@{listed}"],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS,
        )
    except subprocess.TimeoutExpired:
        return {**asdict(fault), "verdict": "caught", "by": "it hangs", "seconds": HANGS}
    finally:
        file.write_text(source, encoding="utf-8")
    verdict, by = "survived", ""
    if done.returncode:
        is_broken = "while loading conftest" in done.stderr or "ERROR collecting" in done.stdout
        assert is_broken or done.returncode in (1, 2, 3), done.stdout + done.stderr
        failed = FAILED.search(done.stdout)
        verdict, by = "caught", failed[1] if failed else "collection"
    seconds = round(time.monotonic() - begun)
    return {**asdict(fault), "verdict": verdict, "by": by, "tests": len(tests), "seconds": seconds}


def run(faults: Mapping[int, Fault], known: Contexts) -> Iterator[tuple[int, dict[str, object]]]:
    """Try the faults, two at a time, each in a worktree of its own."""
    with (
        worktree(known.commit) as first,
        worktree(known.commit) as second,
        ThreadPoolExecutor(2) as pool,
    ):
        trees = SimpleQueue[Path]()
        trees.put(first)
        trees.put(second)

        def one(number: int) -> tuple[int, dict[str, object]]:
            tree = trees.get()
            try:
                return number, tried(faults[number], tree, known.of(faults[number], tree))
            finally:
                trees.put(tree)

        yield from pool.map(one, faults)


def together(faults: Mapping[Key, Fault], known: Contexts) -> Iterator[tuple[Key, str, bool]]:
    """The survivors that some test finds, the test, and whether it is one of the short run.

    Args:
        faults: by seed and number.
    """
    with worktree(known.commit) as tree:
        originals = {fault.path: (tree / fault.path).read_bytes() for fault in faults.values()}

        def put(chosen: Iterable[Fault]) -> None:
            for path, data in originals.items():
                (tree / path).write_bytes(data)
            for fault in sorted(chosen, key=lambda each: (each.path, -each.row, -each.start)):
                file = tree / fault.path
                file.write_text(broken(fault, file.read_text(encoding="utf-8")), encoding="utf-8")

        put(faults.values())
        failing = failures(tree, ["-n", "2", "--whole"])
        # One of each test with parameters says as much as all of them.
        first = {test.partition("[")[0]: test for test in reversed(failing)}
        print("together:", *failing, sep="\n    ", flush=True)
        put(())
        tests = [test for test in first.values() if test not in failures(tree, [*first.values()])]
        for number, fault in faults.items() if tests else ():
            put([fault])
            found = failures(tree, tests)
            short = [test for test in found if test in known.seconds]
            if found:
                yield number, (short or found)[0], bool(short)


def failures(tree: Path, arguments: Sequence[str]) -> list[str]:
    """The tests that fail in a worktree."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    return FAILED.findall(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("make", "contexts", "run", "survivors"))
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--count", type=int, default=140)
    parser.add_argument("--contexts", type=Path, help="the file of the contexts")
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--to", dest="last", type=int)
    given = parser.parse_args()
    drawn = json.loads(FAULTS.read_text()) if FAULTS.exists() else {}
    seed = str(given.seed)
    if given.what == "make":
        drawn[seed] = [asdict(each) for each in make(given.seed, given.count)]
        FAULTS.write_text(json.dumps(drawn, indent=1) + "\n", encoding="utf-8")
        return
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    of_short = results.setdefault(seed, {}).setdefault("short", {})
    if given.what == "contexts":
        every = [Fault(**each) for some in drawn.values() for each in some]
        found = contexts(every)
        given.contexts.write_text(json.dumps(asdict(found)), encoding="utf-8")
        return
    faults = dict(enumerate(Fault(**each) for each in drawn[seed]))
    if given.what == "survivors":
        survivors = {
            (of_seed, number): Fault(**drawn[of_seed][int(number)])
            for of_seed, kinds in results.items()
            for number, each in kinds["short"].items()
            if each["verdict"] == "survived"
        }
        known = Contexts(**json.loads(given.contexts.read_text(encoding="utf-8")))
        for (of_seed, number), test, is_short in together(survivors, known):
            found = {"verdict": "caught" if is_short else "by all", "by": test}
            results[of_seed]["short"][number].update(found)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            print(of_seed, number, test, is_short, flush=True)
        return
    faults = {n: fault for n, fault in faults.items() if n in range(given.first, given.last or 999)}
    known = Contexts(**json.loads(given.contexts.read_text(encoding="utf-8")))
    for number, outcome in run(faults, known):
        of_short[str(number)] = outcome
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(number, *(outcome[key] for key in ("verdict", "seconds", "by")), flush=True)


if __name__ == "__main__":
    main()
