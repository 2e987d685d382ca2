"""Generated Python: mutants of the fixtures, renamed and formatted programs.

- A mutant of a fixture (`mutations.py`) is checked and fixed without a fault. AMP000 is found where
  it cannot be read, and there alone; what fixes write compiles, and a second fix changes nothing.
- A program whose local variables have other names has the same findings, at the same statements.
  In packages, it may lose some: that a variable is called `loss` is evidence, too.
- A program that ruff or black has formatted has the same findings, at the same statements. They are
  tried on the fixtures and on files of real packages that train; one that is not installed is not.
"""

from __future__ import annotations

import ast
import builtins
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

from amplint.findings.finding import Finding
from amplint.fix.project_fixes import fix_project
from amplint.rule.fixtures import Files, write
from amplint.run import engine
from amplint.run.request import Request
from amplint.util.text import Text
from benchmarks.packages import fetch, load, program, sources
from benchmarks.robustness.files import accepted, disagreements, python_reads, request
from benchmarks.robustness.mutations import mutant

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"
ROUNDS = 100  # of mutants
TOGETHER = 40  # mutants that are one project
SAMPLED = 300  # files of real packages
PACKAGES = ("pytorch-ignite", "recbole", "fairseq", "timm", "accelerate", "openrlhf", "kornia")
TRAINS = re.compile(r"\.backward\(|GradScaler|autocast")
FORMATTERS: Mapping[str, Sequence[str]] = {
    "ruff, short lines": ("ruff", "format", "--quiet", "--isolated", "--line-length", "50"),
    "ruff, long lines": ("ruff", "format", "--quiet", "--isolated", "--line-length", "200"),
    "black": ("black", "--quiet", "--line-length", "88"),
    "black, short lines": ("black", "--quiet", "--line-length", "50"),
}


def measure(cache: Path) -> dict[str, object]:
    begun = time.monotonic()
    failures: list[str] = []
    counts: Counter[str] = Counter()
    random = Random(0)
    programs = fixtures()
    for number in range(ROUNDS):
        chosen = {f"m{i}.py": mutant(random, random.choice(programs)) for i in range(TOGETHER)}
        counts["mutants"] += len(chosen)
        counts["mutants_that_python_refuses"] += sum(
            not python_reads(each) for each in chosen.values()
        )
        failures += (f"mutants of round {number}: {each}" for each in wrong_with(chosen))
    real = trains(cache)
    for name, files in (("fixtures", in_files(programs)), ("packages", real)):
        counts[f"files_of_{name}"] = len(files)
        for told in changed(files, renamed_all(files)):
            if name == "packages" and ": lost: " in told:
                counts["findings_of_packages_that_a_name_speaks_for"] += 1
            else:
                failures.append(f"{name}, renamed: {told}")
        for formatter, command in FORMATTERS.items():
            if shutil.which(program(command[0])):
                after = formatted(files, command)
                counts[f"{formatter}_{name}"] = len(after)
                before = {path: files[path] for path in after}
                failures += (f"{name}, {formatter}: {each}" for each in changed(before, after))
    seconds = round(time.monotonic() - begun)
    return {**counts, "seconds": seconds, "failures": failures}


def fixtures() -> list[bytes]:
    return [path.read_bytes() for path in sorted(FIXTURES.glob("*/*.py"))]


def in_files(programs: Iterable[bytes]) -> dict[str, bytes]:
    return {f"p{number}.py": data for number, data in enumerate(programs)}


def trains(cache: Path) -> dict[str, bytes]:
    """Files of packages that train, the same ones every time."""
    found = [
        path.read_bytes()
        for package in load(PACKAGES)
        for path in sources(package, fetch(package, cache))
        if TRAINS.search(path.read_text("utf-8", "replace"))
    ]
    return in_files(Random(0).sample(found, min(SAMPLED, len(found))))


# ------------------------------------------------------------------------------ mutants


def wrong_with(files: Files) -> list[str]:
    """What does not hold of a project that may be anything."""
    with tempfile.TemporaryDirectory() as directory:
        asked = request(write(files, Path(directory)), files)
        first = engine.run(asked)
        told = [*first.problems, *disagreements(files, first.findings)]
        fixed = written(asked, files)
        told += broken(files, fixed)
        again = written(request(write(fixed, Path(directory)), fixed), fixed)
        told += (f"{path}: a second fix changes it" for path in files if again[path] != fixed[path])
    return told


def written(asked: Request, files: Files) -> dict[str, bytes]:
    """The files with all fixes in them."""
    outcome = fix_project(asked, unsafe=True)
    new = {path: outcome.before[path].encode(text) for path, text in outcome.after.items()}
    return {**files, **new}


def broken(files: Files, fixed: Files) -> Iterator[str]:
    for path, data in files.items():
        if fixed[path] == data or accepted(fixed[path]):
            continue
        # What only the compiler refuses, the file may have held before.
        if accepted(data) or not python_reads(fixed[path]):
            yield f"{path}: does not compile after the fixes"


# ------------------------------------------------------------------------------ the same program

Statement = tuple[str, str, int]  # a code, the function, and the number of the statement in it


def changed(before: Files, after: Files) -> Iterator[str]:
    """The findings that only one of two spellings of the same programs has."""
    one, other = found(before), found(after)
    for path in before:
        for sign, some in (("lost", one[path] - other[path]), ("new", other[path] - one[path])):
            for each in sorted(some.elements()):
                yield f"{path}: {sign}: {each}"


def found(files: Files) -> dict[str, Counter[Statement]]:
    """By file, where findings are, whatever the lines and the names are."""
    with tempfile.TemporaryDirectory() as directory:
        outcome = engine.run(request(write(files, Path(directory)), files))
    if outcome.problems:
        raise AssertionError(outcome.problems)
    places: dict[str, Counter[Statement]] = {path: Counter() for path in files}
    statements = {path: Statements(outcome.texts[path]) for path in files}
    for finding in outcome.findings:
        places[finding.path][statements[finding.path].of(finding)] += 1
    return places


class Statements:
    """The statements of a file by number, which is the same however the file is formatted."""

    def __init__(self, text: Text) -> None:
        self._text = text
        nodes = (node for node in ast.walk(ast.parse(text.text)) if isinstance(node, ast.stmt))
        self._spans = [
            (
                text.offset(node.lineno, node.col_offset),
                text.offset(node.end_lineno or 0, node.end_col_offset or 0),
            )
            for node in nodes
        ]

    def of(self, finding: Finding) -> Statement:
        at = self._text.start(finding.span.start.row) + finding.span.start.column - 1
        around = [
            (end - start, number)
            for number, (start, end) in enumerate(self._spans)
            if start <= at < end
        ]
        return finding.code, finding.scope, min(around, default=(0, -1))[1]


def renamed_all(files: Files) -> dict[str, bytes]:
    return {path: renamed(data) for path, data in files.items()}


def renamed(data: bytes) -> bytes:
    """The program with other names for its local variables.

    Names that something else has, too, such as a parameter, an attribute, a word in a string, or a
    variable of the module, stay: they may be known by them elsewhere.
    """
    text = Text.decode(data)
    tree = ast.parse(text.text)
    new = {name: f"v{number}_{name[:1]}" for number, name in enumerate(sorted(local_names(tree)))}
    edits = [
        (text.offset(node.lineno, node.col_offset), node.id)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id in new
    ]
    result = text.text
    for start, name in sorted(edits, reverse=True):
        result = result[:start] + new[name] + result[start + len(name) :]
    return text.encode(result)


def local_names(tree: ast.Module) -> set[str]:
    """The names that are variables of functions, and nothing else in the whole module."""
    stored: set[str] = set()
    taken = set(dir(builtins))
    stack: list[tuple[ast.AST, bool]] = [(tree, False)]
    while stack:
        node, inside = stack.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            (stored if inside else taken).add(node.id)
        if isinstance(node, ast.JoinedStr):  # before Python 3.12, places in them are wrong
            taken.update(each.id for each in ast.walk(node) if isinstance(each, ast.Name))
        for field in ("name", "asname", "arg", "attr", "rest", "names", "value"):
            taken.update(words(getattr(node, field, None)))
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        within = function or (inside and not isinstance(node, ast.ClassDef))
        stack.extend((child, within) for child in ast.iter_child_nodes(node))
    return stored - taken


def words(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from re.findall(r"\w+", value)
    elif isinstance(value, list):
        for each in value:
            yield from words(each)


def formatted(files: Files, command: Sequence[str]) -> dict[str, bytes]:
    """The files as a formatter writes them, without those that it changes more than the layout."""
    with tempfile.TemporaryDirectory() as directory:
        root = write(files, Path(directory))
        subprocess.run([program(command[0]), *command[1:], str(root)], check=False)
        after = {path: (root / path).read_bytes() for path in files}
    return {path: data for path, data in after.items() if same_tree(files[path], data)}


def same_tree(one: bytes, other: bytes) -> bool:
    return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))


if __name__ == "__main__":
    for line in wrong_with({each: Path(each).read_bytes() for each in sys.argv[1:]}):
        print(line)
