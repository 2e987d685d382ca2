"""Any file: trees of Python are checked by all rules, fixed, and read by LibCST.

What is held of every few hundred files, in a process that is ended where it hangs:

- amplint ends without a fault; AMP000 is found in the files that Python refuses, and no other;
- every file that a fix changes compiles, and no line changes but those of an edit and of imports;
- LibCST reads every unit that `ast` does, and both say that a node stands in the same place; what
  only `ast` reads is counted, for it is told and not checked;
- a function with mistakes that is put below a file is fixed in whatever file it stands.

    python -m benchmarks.robustness.files TREE < PATHS      the outcome for a list of paths, as JSON

The outcomes are kept beside the downloads, under the digest of amplint's code: a run that was
stopped goes on where it was, and one that failed tries again what has failed.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import platform
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from amplint.findings.finding import Edit, Finding
from amplint.fix.applying import UNSAFE
from amplint.fix.project_fixes import fix_project
from amplint.fix.single_round import fix_round
from amplint.project.config import Settings
from amplint.project.discover import Selection
from amplint.rule import registry
from amplint.run import engine
from amplint.run.indexing import environment_digest
from amplint.run.request import Outcome, Request
from amplint.source.navigation import FSTRING_PLACES_HOLD
from amplint.source.segments import RefusedUnitError, Units, place
from amplint.util.text import LINE_END, Text
from benchmarks.ecosystem import kill_group
from benchmarks.packages import Package, fetch, load, sources

LIMIT = 900  # seconds of a processor for one process
WALL = 6  # times that limit on the clock, for a process that waits
TOGETHER = 300  # files that are checked as one project, in one process
EVERY = 10  # of so many files of a tree, one goes through LibCST whole, and one gets the function

# Trees of packages.json, and of others that have nothing to do with torch.
TREES = (
    "cpython", "mmpretrain", "parlai", "mmpose", "mmagic", "colossalai", "s3prl", "xuance",
    "super-gradients", "mmaction2", "mmrazor", "torchao", "fairscale", "avalanche-lib",
    "torch-geometric", "lightly-train", "ludwig", "pykeen", "transformers", "axolotl",
)  # fmt: skip
# Those with compiled parts have these wheels for CPython 3.11 on Linux.
OTHERS = tuple(
    Package(name, version, (root,), sha256)
    for name, version, root, sha256 in (
        (
            "django", "5.2.19", "django",
            "5965d974a5218a2b68a11dd1276434707f23886525c23f0598eccedaf4f4ca00",
        ),
        (
            "jax", "0.10.2", "jax",
            "724d73c4678d8b06f6a6ab4db1b8a2fea8cd4f1e2c2564f99601634ec7b8d1c6",
        ),
        (
            "kubernetes", "37.0.2", "kubernetes",
            "d72683392fc10f59fb78b89bd91cb3be60a05d6ff0bbb2150966a224af6edc03",
        ),
        (
            "networkx", "3.6.1", "networkx",
            "d47fbf302e7d9cbbb9e2555a0d267983d2aa476bac30e90dfbe5669bd57f3762",
        ),
        (
            "pandas", "3.1.1", "pandas",
            "4f1602f614bb83f443381dbcbb94c4ac764b2e50c8d6c965614c5cd83e328c47",
        ),
        (
            "pygments", "2.21.0", "pygments",
            "2363c69b61c4a97c838da3b130dcd6468f4848992b21a82f2a63ec34377137d9",
        ),
        (
            "scikit-learn", "1.9.1", "sklearn",
            "52a0703bbc07ad27f560fa63fa68e4c54dd735bfbbf65b4dd3c225dc7547b6df",
        ),
        (
            "scipy", "1.17.1", "scipy",
            "43af8d1f3bea642559019edfe64e9b11192a8978efbd1539d7bc2aaa23d92de4",
        ),
        (
            "setuptools", "84.2.1", "setuptools",
            "ca140b45d5325a9478f880e351484f62fef15f336462e449ca0c03c873d589c2",
        ),
        (
            "sphinx", "9.0.4", "sphinx",
            "5bebc595a5e943ea248b99c13814c1c5e10b3ece718976824ffa7959ff95fffb",
        ),
        (
            "sqlalchemy", "2.1.9", "sqlalchemy",
            "3a24b459e52b3ac138f6a05e99a4bd0589443a1ae18041a59c1cfdee12134a2b",
        ),
        (
            "twisted", "26.10.0", "twisted",
            "3732f42af218925a0fe78d6668db55853f7fb532245a89a2669babe7d3000fa8",
        ),
    )
)  # fmt: skip

# Each of its mistakes has a fix, and one of these fixes changes the import above it.
GRAFT = """

def amplint_graft(model, loader, optimizer):
    import torch
    from torch.cuda.amp import GradScaler, autocast

    scaler = GradScaler()
    for batch in loader:
        optimizer.zero_grad()
        with autocast():
            loss = model(batch.cuda()).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        torch.cuda.empty_cache()
        print(loss.item())
"""


@dataclass
class Tried:
    """What came of some files of a tree.

    Args:
        files, lines: how many there are.
        refused: files that Python does not read.
        findings, fixed: findings, and files that the fixes change.
        units: what LibCST was shown, and `only_ast` those of them that it refuses.
        grafted: files below which the function was put.
        seconds: of a processor.
        failures: sentences about what did not hold.
    """

    files: int = 0
    lines: int = 0
    refused: int = 0
    findings: int = 0
    fixed: int = 0
    units: int = 0
    only_ast: list[str] = field(default_factory=list)
    grafted: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)


def measure(cache: Path) -> dict[str, object]:
    kept = cache / f"files-{environment_digest()}.jsonl"
    lines = kept.read_text().splitlines() if kept.exists() else []
    outcomes = {name: Tried(**outcome) for name, outcome in map(json.loads, lines)}
    outcomes = {name: tried for name, tried in outcomes.items() if not tried.failures}
    stretches = list(stretched(cache))
    left = [stretch for stretch in stretches if stretch[0] not in outcomes]
    with ThreadPoolExecutor(os.cpu_count()) as pool, kept.open("a") as file:
        for name, outcome in pool.map(one_stretch, left):  # threads that wait for processes
            outcomes[name] = outcome
            file.write(json.dumps([name, asdict(outcome)]) + "\n")
            file.flush()
    return summary({name: outcomes[name] for name, _, _ in stretches})


def stretched(cache: Path) -> Iterator[tuple[str, Path, Sequence[str]]]:
    """The stretches of all trees: a name, the tree, and the paths of some files in it."""
    for package in (*load(TREES, among=None), *OTHERS):
        tree = fetch(package, cache)
        paths = [path.relative_to(tree).as_posix() for path in sources(package, tree)]
        for start in range(0, len(paths), TOGETHER):
            yield f"{package.name} from {paths[start]}", tree, paths[start : start + TOGETHER]


def one_stretch(stretch: tuple[str, Path, Sequence[str]]) -> tuple[str, Tried]:
    name, tree, paths = stretch
    outcome = in_process(tree, paths)
    print(f"{name}: {outcome}", file=sys.stderr, flush=True)
    return name, outcome


def summary(outcomes: Mapping[str, Tried]) -> dict[str, object]:
    every = list(outcomes.values())
    return {
        "python": platform.python_version(),
        "files": sum(tried.files for tried in every),
        "lines": sum(tried.lines for tried in every),
        "refused_by_python": sum(tried.refused for tried in every),
        "findings": sum(tried.findings for tried in every),
        "files_fixed": sum(tried.fixed for tried in every),
        "units_read_by_libcst": sum(tried.units for tried in every),
        "units_read_only_by_ast": [each for tried in every for each in tried.only_ast],
        "files_with_the_function": sum(tried.grafted for tried in every),
        "cpu_seconds": round(sum(tried.seconds for tried in every)),
        "failures": [f"{name}: {each}" for name in outcomes for each in outcomes[name].failures],
    }


def in_process(tree: Path, paths: Sequence[str]) -> Tried:
    """The outcome for some files of a tree, from a process that is ended after some time."""
    command = [sys.executable, "-m", "benchmarks.robustness.files", str(tree)]
    process = subprocess.Popen(
        command, stdin=-1, stdout=-1, stderr=-1, encoding="utf-8", start_new_session=True
    )
    try:
        stdout, stderr = process.communicate(json.dumps(paths), WALL * LIMIT)
    except subprocess.TimeoutExpired:
        kill_group(process.pid)
        process.communicate()
        return Tried(files=len(paths), failures=[f"waited for more than {WALL * LIMIT} seconds"])
    if process.returncode:
        return Tried(files=len(paths), failures=[f"{process.returncode}: {stderr[-500:]}"])
    return Tried(**json.loads(stdout))


# ------------------------------------------------------------------------------ one tree


def tried(root: Path, paths: Sequence[str]) -> Tried:
    """Check and fix some files of a tree, and read them with LibCST."""
    result = Tried()
    data = {path: (root / path).read_bytes() for path in paths}
    result.files = len(data)
    result.lines = sum(each.count(b"\n") for each in data.values())
    asked = request(root, data)
    first = engine.run(asked)
    result.findings = len(first.findings)
    result.failures += first.problems
    refused = {path for path, content in data.items() if not python_reads(content)}
    result.refused = len(refused)
    result.failures += disagreements(data, first.findings)
    result.failures += fixed(asked, first, result)
    texts = {path: Text.decode(data[path]) for path in paths if path not in refused}
    for path in list(texts)[::EVERY]:
        shown_to_libcst(path, texts[path], result)
    result.failures += grafted(root, texts, result)
    result.seconds = round(sum(os.times()[:4]), 1)  # of this process and those it has waited for
    return result


def request(root: Path, paths: Iterable[str], overlays: Mapping[str, str] | None = None) -> Request:
    """All rules over some files, with what each torch since 2.0 has to say."""
    files = tuple(sorted(paths))
    settings = Settings(root, select=("ALL",), preview=True, target_torch="2.10")
    project = Selection(root, files, frozenset(files))
    return Request(project, settings, registry.own_rules(), overlays or {})


def python_reads(source: bytes | str) -> bool:
    """Whether the parser of the Python that runs takes a file, as it would from the disk."""
    try:
        # `compile` passes over bytes in a comment that are no UTF-8. From the disk, Python refuses.
        if isinstance(source, bytes):
            # It takes a file with line ends of an old Mac for one line, as the parser does not.
            importlib.util.decode_source(source.replace(b"\r", b"\n"))
    except (SyntaxError, UnicodeError, LookupError):
        return False
    return accepted(source, ast.PyCF_ONLY_AST)


def accepted(source: bytes | str, flags: int = 0) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source, "file", "exec", flags, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def disagreements(data: Mapping[str, bytes], findings: Iterable[Finding]) -> Iterator[str]:
    """The files of which Python and AMP000 say different things."""
    refused = {path for path, content in data.items() if not python_reads(content)}
    found = {finding.path for finding in findings if finding.code == "AMP000"}
    for path in sorted(found - refused):
        yield f"{path}: AMP000 in a file that Python reads"
    for path in sorted(refused - found):
        yield f"{path}: no AMP000 in a file that Python refuses"


def fixed(asked: Request, first: Outcome, result: Tried | None = None) -> Iterator[str]:
    """Fix a project, and say what is wrong with what the fixes write."""
    changes = fix_round(first, asked, UNSAFE)
    yield from changes.problems
    for path, change in changes.fixed.items():
        before = first.texts[path]
        for row in strays(before, change.text, change.edits):
            yield f"{path}:{row}: changed by no edit"
    if not changes.fixed:
        return
    outcome = fix_project(asked, unsafe=True)
    yield from outcome.outcome.problems
    for path, text in outcome.after.items():
        before = outcome.before[path]
        if not accepted(before.encode(text)) and accepted(before.encode(before.text)):
            yield f"{path}: does not compile after the fixes"
    if result is not None:
        result.fixed = len(outcome.after)


def strays(before: Text, after: str, edits: Sequence[Edit]) -> Iterator[int]:
    """The rows that are gone though no edit is about them and no import stands there."""
    may = {row for edit in edits for row in rows(before, edit)} | imports(before.text)
    left = iter(LINE_END.split(after))
    for row in range(1, before.rows + 1):
        line = before.line(row)
        if row not in may and line.strip() and line not in left:
            yield row
            return


def rows(text: Text, edit: Edit) -> range:
    return range(text.position(edit.start).row, text.position(edit.end).row + 1)


def imports(text: str) -> set[int]:
    """The rows of imports, which fixes add to and remove."""
    statements = (
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)
    )
    return {row for each in statements for row in range(each.lineno, (each.end_lineno or 0) + 1)}


def with_places(module: ast.Module) -> Iterator[ast.expr | ast.stmt]:
    """The nodes of `ast` whose places are right: before Python 3.12, none within an f-string."""
    stack: list[ast.AST] = [module]
    while stack:
        thing = stack.pop()
        if isinstance(thing, ast.expr | ast.stmt):
            yield thing
        if FSTRING_PLACES_HOLD or not isinstance(thing, ast.JoinedStr):
            stack.extend(ast.iter_child_nodes(thing))


def shown_to_libcst(path: str, text: Text, result: Tried) -> None:
    """Have LibCST read all units of a file, and compare places with those that `ast` knows."""
    units = Units(text, ast.parse(text.text))
    certain = {id(thing) for thing in with_places(units.module)}
    for unit in units.units:
        result.units += 1
        try:
            tree = units.tree(unit)
        except RefusedUnitError as refused:
            result.only_ast.append(f"{path}:{refused.row}: {refused.reason}")
            continue
        for node in tree.nodes:
            thing = tree.pairs.get(id(node))
            if not isinstance(thing, ast.Call) or id(thing) not in certain:
                continue
            if tree.spans.of(node) not in (None, place(text, thing)):
                result.failures.append(f"{path}:{thing.lineno}: elsewhere for LibCST")


def grafted(root: Path, texts: Mapping[str, Text], result: Tried) -> Iterator[str]:
    """Fix the function below every so many files of a tree."""
    overlays = {}
    for path in list(texts)[EVERY // 2 :: EVERY]:
        text = LINE_END.sub("\n", texts[path].text) + GRAFT
        if accepted(text):
            overlays[path] = text.replace("\n", texts[path].newline)
    result.grafted = len(overlays)
    asked = request(root, overlays, overlays)
    first = engine.run(asked)
    yield from first.problems
    yield from fixed(asked, first)
    found = {finding.path for finding in first.findings if "amplint_graft" in finding.scope}
    for path in sorted(overlays.keys() - found):
        yield f"{path}: nothing was found in the function below it"


if __name__ == "__main__":
    import resource  # not on Windows, where tests import this module

    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
    print(json.dumps(asdict(tried(Path(sys.argv[1]), json.load(sys.stdin)))))
