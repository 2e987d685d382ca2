"""How long amplint takes, beside type checkers, other linters and the bare parse of the same files.

    python -m benchmarks.speed [--cache DIR] [--out FILE] [--trees NAME,...] [--runs N]
                               [--before REF] [--update]

mypy and ty are the semantic peers: they, too, follow values across functions and files. The
command copies pinned releases (and examples/) to a fresh directory, runs all commands in turn,
round after round, and prints medians, the most memory that one process held, and each target with
its figure. With --before, amplint of that commit runs in the same rounds. It writes
results/speed.json when all trees were measured; with --update, the rows of those that were measured
take the place of what stands there. It exits with 1 when a command fails, when amplint
leaves no cache, or when a warm run prints something else than the cold one; a target that is missed
is no failure. The packages' code is read and parsed, and never run. For Linux and macOS.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec

from benchmarks.packages import RESULTS, Package, default_cache, fetch, load, program, sources

COLD, WARM, EDIT = "amplint, cold", "amplint, warm", "amplint, one file changed"
FIX, FIX_UNSAFE = "amplint fix after a check", "amplint fix --unsafe after a check"
FIX_AGAIN, FIX_APPLY = "amplint fix, once more", "amplint fix --apply after a check"
HOOK = "amplint, hook on that file"
HELP, CLICK = "amplint --help", 'python -c "import click"'
MYPY, TY, RUFF, TORCHFIX = "mypy", "ty", "ruff", "TorchFix"
AST, LIBCST = "ast.parse", "libcst.parse_module"

CHECK = ("check", "-q", "--format", "concise", ".")
KEPT = ".amplint_cache"
# As in the environment of its users: what Python compiles of amplint is not compiled again.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def before(command: str) -> str:
    """The name of a command of the earlier amplint."""
    return command.replace("amplint", "amplint before", 1)


PARSE_ALL = """
import {module}, pathlib, warnings
warnings.simplefilter("ignore")
for path in pathlib.Path(".").rglob("*.py"):
    {module}.{function}(path.read_bytes())
"""
AST_ALL = PARSE_ALL.format(module="ast", function="parse")
LIBCST_ALL = PARSE_ALL.format(module="libcst", function="parse_module")


@dataclass(frozen=True)
class Tree:
    """A tree that is measured.

    Args:
        package: the release; None for the examples of this checkout.
        reference: the command that the others are compared with.
        peers: whether TorchFix, which takes minutes, runs too.
        starts: whether the start of amplint is measured too.
        fixes: whether `fix` is measured too.
        alone: whether amplint is measured alone, for what it took before.
        hook: whether the hook is measured on one changed file, with what that causes elsewhere.
        times: how many rounds stand for each round that the user wants.
        once: commands that run in the first round alone.
    """

    package: Package | None
    reference: str = RUFF
    peers: bool = False
    starts: bool = False
    fixes: bool = False
    alone: bool = False
    hook: bool = False
    times: int = 1
    once: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tool:
    """A tool of PyPI: installed in an environment of its own, as its users would have it."""

    package: str
    version: str
    words: tuple[str, ...]


TREES = {
    # The source archive has the tests too: 137,768 lines.
    "timm": Tree(
        Package(
            "timm",
            "1.0.30",
            ("timm", "tests"),
            "1444a3af7e17fdba5440ac2bcf6e4b728da96dd62289ed9e1bcba31a545f5935",
            "https://files.pythonhosted.org/packages/0e/ab/49041213990e48edcb6013463b18ef86d8d3c5d6ac5b408802c480443025/timm-1.0.30.tar.gz",
        ),
        peers=True,
    ),
    "transformers": Tree(
        Package(
            "transformers",
            "4.57.1",
            ("transformers",),
            "b10d05da8fa67dc41644dbbf9bc45a44cb86ae33da6f9295f5fbf5b7890bd267",
        ),
        once=(COLD, before(COLD), LIBCST, MYPY, TY),
    ),
    # A training script with its model: two optimizers, two GradScalers, accumulation, DDP.
    "lightweight-gan": Tree(
        Package(
            "lightweight-gan",
            "1.2.1",
            ("lightweight_gan",),
            "9db964c3e00c7ec8c47aca799db146f9f51e911c33baee6110522a4074abaa7e",
        ),
        reference=CLICK,
        starts=True,
        times=5,
    ),
    # 81,000 lines with many fixes.
    "s3prl": Tree(load(["s3prl"], None)[0], reference=AST, fixes=True, alone=True, hook=True),
    # A trainer whose scalers took most of the time, scripts, a small package, and many overriders.
    "trainer": Tree(load(["trainer"], None)[0], reference=AST, fixes=True, alone=True),
    "yolov5": Tree(load(["yolov5"], None)[0], reference=AST, fixes=True, alone=True, hook=True),
    "imagen-pytorch": Tree(
        load(["imagen-pytorch"], None)[0], reference=AST, fixes=True, alone=True
    ),
    "fairseq": Tree(load(["fairseq"], None)[0], reference=AST, alone=True),
    "examples": Tree(None, reference=CLICK, times=3),
}

TOOLS = {
    TORCHFIX: Tool("torchfix", "0.7.0", ("torchfix", ".")),
    MYPY: Tool(
        "mypy",
        "2.4.1",
        ("mypy", "--no-incremental", "--check-untyped-defs", "--ignore-missing-imports", "."),
    ),
    TY: Tool("ty", "0.0.105", ("ty", "check", "-q", ".")),
    RUFF: Tool(
        "ruff",
        "0.17.5",
        ("ruff", "check", "--no-cache", "--isolated", "-q", "--output-format", "concise", "."),
    ),
}

Prepare = Callable[[Path, int], AbstractContextManager[None]]


def _as_it_is(_tree: Path, _number: int) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True)
class Command:
    """What is run in a tree, so many rounds.

    `good`: the exit statuses that are no failure. `prepare`: what the tree is brought to before the
    round of that number, and what is undone after it.
    """

    name: str
    words: tuple[str, ...]
    rounds: int
    good: tuple[int, ...] = (0,)
    prepare: Prepare = _as_it_is


@dataclass(frozen=True)
class Sample:
    """One run: seconds on the clock and of CPU, the most memory that a process of it held, and the
    hash of what it printed."""

    seconds: float
    cpu: float
    peak_mb: float
    printed: str


@dataclass(frozen=True)
class Row:
    """All runs of one command in one tree: medians, and the most memory."""

    runs: list[float]
    seconds: float
    cpu: float
    peak_mb: float
    ratio: float | None = None


@dataclass(frozen=True)
class Measured:
    """One tree.

    Args:
        missing: the tools that could not be installed, and why.
        before: the commit of the earlier amplint; None where it was not run.
    """

    version: str
    files: int
    lines: int
    reference: str
    changed: str
    commands: dict[str, Row]
    missing: dict[str, str]
    before: str | None = None


@dataclass(frozen=True)
class Target:
    """A figure that is wanted, and the one measured; None where its commands were not run."""

    text: str
    wanted: str
    measured: float | None
    met: bool | None


# ------------------------------------------------------------------------------------- measuring


def measure(command: Command, tree: Path) -> Sample:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        process = subprocess.Popen(
            command.words,
            cwd=tree,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=ENVIRONMENT,
        )
        # What it used itself and what its own children did; memory is that of the largest of them.
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        errors = err.read().decode(errors="replace")
        if process.returncode not in command.good or "Traceback (most recent call" in errors:
            sys.exit(f"{command.name}: ended with {process.returncode}: {errors[-2000:]}")
        printed = hashlib.sha256(out.read()).hexdigest()
    unit = 1 if sys.platform == "darwin" else 1024
    return Sample(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * unit / 1e6, printed)


def run_rounds(name: str, tree: Path, commands: Sequence[Command]) -> dict[str, list[Sample]]:
    """The runs of each command; they take turns, so that all see the same load of the machine."""
    samples: dict[str, list[Sample]] = {command.name: [] for command in commands}
    rounds = max(command.rounds for command in commands)
    for number in range(rounds):
        for command in commands:
            if number < command.rounds:
                print(f"{name}, {number + 1} of {rounds}: {command.name}", file=sys.stderr)
                with command.prepare(tree, number):
                    samples[command.name].append(measure(command, tree))
    said = {sample.printed for state in (COLD, WARM) for sample in samples[state]}
    if len(said) > 1:
        sys.exit(f"{name}: a warm run does not print what the cold one did")
    return samples


def summary(samples: Sequence[Sample]) -> Row:
    return Row(
        [round(sample.seconds, 4) for sample in samples],
        statistics.median(sample.seconds for sample in samples),
        statistics.median(sample.cpu for sample in samples),
        max(sample.peak_mb for sample in samples),
    )


def rows(samples: Mapping[str, Sequence[Sample]], reference: str) -> dict[str, Row]:
    """The row of each command, and how many times the reference's seconds it took."""
    found = {name: summary(each) for name, each in samples.items()}
    base = found[reference].seconds if reference in found else None
    return {name: replace(row, ratio=ratio(row.seconds, base)) for name, row in found.items()}


def ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


# ------------------------------------------------------------------------------------- commands


def commands(
    tree: Tree, rounds: int, tools: Mapping[str, Path], earlier: Path | None, changed: str
) -> list[Command]:
    """The commands that are run in a tree.

    Args:
        tree: the tree.
        changed: the file in it that is changed; empty where none is.
        rounds: how many rounds the user wants.
        tools: the directories of the installed programs.
        earlier: a checkout of an earlier amplint; None to leave it out.
    """

    def python(code: str) -> tuple[str, ...]:
        return (sys.executable, "-c", code)

    def often(name: str) -> int:
        return 1 if name in tree.once or name == TORCHFIX else rounds * tree.times

    def tool(name: str) -> Command:
        first, *rest = TOOLS[name].words
        return Command(name, (str(tools[name] / first), *rest), often(name), (0, 1, 2))

    # Cold comes first in a round: what it leaves is the cache of the warm run.
    made = [
        *([_check(COLD, often(before(COLD)), _cold, earlier)] if earlier is not None else []),
        _check(COLD, often(COLD), _cold),
        *(tool(name) for name in (RUFF, MYPY, TY) if name in tools),
        _check(WARM, often(WARM), _warm),
        Command(AST, python(AST_ALL), often(AST)),
        *([_check(EDIT, often(EDIT), _edited)] if changed else []),
        *([_hook(often(HOOK), changed)] if tree.hook else []),
        *([] if tree.alone else [Command(LIBCST, python(LIBCST_ALL), often(LIBCST))]),
        *(tool(name) for name in (TORCHFIX,) if name in tools),
    ]
    for root in (None, earlier) if tree.fixes and earlier is not None else (None,) * tree.fixes:
        checked = Checked(_check(WARM, 1, root=root))
        made += [
            *([_check(WARM, often(WARM), checked, root)] if root is not None else []),
            _fix(FIX, often(FIX), checked, root),
            _fix(FIX_AGAIN, often(FIX_AGAIN), _as_it_is, root),
            _fix(FIX_UNSAFE, often(FIX_UNSAFE), checked, root, "--unsafe"),
            _fix(FIX_APPLY, often(FIX_APPLY), Restored(checked), root, "--apply"),
        ]
    if tree.starts:
        made += [
            Command(CLICK, python("import click"), often(CLICK)),
            Command(HELP, (program("amplint"), "--help"), often(HELP)),
        ]
    return made


def of_checkout(root: Path) -> tuple[str, ...]:
    """The words that run amplint of a checkout, which need not be installed."""
    loader = root / "conftest.py"  # until the rooms of the layout, it loaded rules/
    start = (
        f"runpy.run_path({str(loader)!r}); from amplint.cli import main"
        if loader.exists()
        else "from amplint.cli.main import main"
    )
    code = f"import runpy, sys; sys.path.insert(0, {str(root)!r}); {start}; sys.exit(main())"
    return (sys.executable, "-c", code)


@contextmanager
def checkout(ref: str | None) -> Iterator[Path | None]:
    """A checkout of a commit, for as long as the block runs."""
    if ref is None:
        yield None
        return
    repository = Path(__file__).resolve().parents[1]
    git = ("git", "-C", str(repository), "worktree")
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "amplint-before"
        subprocess.run([*git, "add", "--quiet", "--detach", str(root), ref], check=True)
        try:
            yield root
        finally:
            subprocess.run([*git, "remove", "--force", str(root)], check=True)


def _amplint(
    name: str, words: Sequence[str], rounds: int, prepare: Prepare, root: Path | None
) -> Command:
    """A command of amplint, or of that of a checkout."""
    name, start = (
        (name, (program("amplint"),)) if root is None else (before(name), of_checkout(root))
    )
    return Command(name, (*start, *words), rounds, (0, 1), prepare)


def _check(
    name: str, rounds: int, prepare: Prepare = _as_it_is, root: Path | None = None
) -> Command:
    return _amplint(name, CHECK, rounds, prepare, root)


def _hook(rounds: int, changed: str) -> Command:
    """The entry of .pre-commit-hooks.yaml on one file, behind a check of all of them."""
    words = ("check", "--force-exclude", "--caused-since", "HEAD", changed)
    return _amplint(HOOK, words, rounds, _committed, None)


def _fix(name: str, rounds: int, prepare: Prepare, root: Path | None, *options: str) -> Command:
    return _amplint(name, ("fix", "-q", *options, "."), rounds, prepare, root)


@dataclass(frozen=True)
class Checked:
    """The cache knows what a check keeps, and nothing of an earlier `fix`.

    `check`: the check, which is run once; what it has kept is laid there again.
    """

    check: Command

    @contextmanager
    def __call__(self, tree: Path, _number: int) -> Iterator[None]:
        kept = tree.with_name(f"{tree.name}, {self.check.name}")
        shutil.rmtree(tree / KEPT, ignore_errors=True)
        if not kept.exists():
            measure(self.check, tree)
            shutil.copytree(tree / KEPT, kept)
        shutil.copytree(kept, tree / KEPT, dirs_exist_ok=True)
        yield


@dataclass(frozen=True)
class Restored:
    """The same, and the files are afterwards as they were."""

    checked: Checked

    @contextmanager
    def __call__(self, tree: Path, number: int) -> Iterator[None]:
        texts = {path: path.read_bytes() for path in tree.rglob("*.py")}
        with self.checked(tree, number):
            yield
        for path, data in texts.items():
            if path.read_bytes() != data:
                path.write_bytes(data)


@contextmanager
def _cold(tree: Path, _number: int) -> Iterator[None]:
    shutil.rmtree(tree / KEPT, ignore_errors=True)
    yield


@contextmanager
def _warm(tree: Path, _number: int) -> Iterator[None]:
    measure(_check(WARM, 1), tree)
    if not (tree / KEPT).is_dir():
        sys.exit(f"{WARM}: there is no {KEPT} in {tree}")
    yield


@contextmanager
def _edited(tree: Path, number: int) -> Iterator[None]:
    """The cache knows all files, and one of them is then changed as it was never before."""
    path = middle_file(tree)
    before = path.read_bytes()
    with _warm(tree, number):
        path.write_bytes(edit(before.decode(), number).encode())
        yield
        path.write_bytes(before)


@contextmanager
def _committed(tree: Path, number: int) -> Iterator[None]:
    """The same with another change; the last commit of a repository has the file as it was."""
    git = ("git", "-C", str(tree), "-c", "user.name=a", "-c", "user.email=a@example.com")
    if not (tree / ".git").exists():
        (tree / ".gitignore").write_text(f"{KEPT}\n")
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "--no-verify", "-m", "x")):
            subprocess.run([*git, *words], check=True)
    with _edited(tree, -1 - number):
        yield


def middle_file(tree: Path) -> Path:
    """Of the files of models, one of middle size: an edit of what no tensor meets is no test."""
    models = (path for path in tree.rglob("*.py") if b"    def forward(" in path.read_bytes())
    files = sorted(models, key=lambda path: (path.stat().st_size, path))
    middle = len(files) // 2
    # From the middle upward, then downward. Few are parsed: this process must stay small, for it
    # is in its children's memory figures until they run their own program.
    for path in (*files[middle:], *reversed(files[:middle])):
        with suppress(ValueError):
            edit(path.read_bytes().decode(), 0)
            return path
    sys.exit(f"{tree}: no file has a `forward` that can be changed")


def edit(text: str, number: int) -> str:
    """The code with one more statement in its longest `forward`.

    Raises:
        ValueError: it has none, or none that can be changed so.
    """
    methods = [
        node
        for each in ast.walk(ast.parse(text))
        if isinstance(each, ast.ClassDef)
        for node in each.body
        if isinstance(node, ast.FunctionDef) and node.name == "forward"
    ]
    if not methods:
        raise ValueError("no forward")
    method = max(methods, key=lambda node: (node.end_lineno or 0) - node.lineno)
    last = method.body[-1]
    lines = text.split("\n")
    indent = lines[last.lineno - 1][: last.col_offset]
    decorated = isinstance(last, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    if decorated or not indent.isspace():
        raise ValueError("no line to insert before")
    lines.insert(last.lineno - 1, f"{indent}changed_in_round = {number}")
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------- tools


def install(tool: Tool, into: Path) -> Path:
    """The directory of the tool's programs; installs it the first time.

    Raises:
        subprocess.CalledProcessError: pip could not install it.
    """
    environment = into / f"{tool.package}-{tool.version}"
    programs = environment / "bin"
    if not (programs / tool.words[0]).exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
        command = [str(programs / "python"), "-m", "pip", "install", "--quiet"]
        command += ["--disable-pip-version-check", f"{tool.package}=={tool.version}"]
        subprocess.run(command, check=True, capture_output=True, encoding="utf-8")
    return programs


def installed(names: Sequence[str], into: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """The directories of those that can be installed, and why the others cannot."""
    tools: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            tools[name] = install(TOOLS[name], into)
        except subprocess.CalledProcessError as error:
            said = (error.stderr or str(error)).strip().splitlines()
            missing[name] = f"could not be installed: {said[-1] if said else error.returncode}"
    return tools, missing


# -------------------------------------------------------------------------------------- results


def run_tree(
    name: str, tree: Tree, cache: Path, rounds: int, earlier: Path | None = None
) -> Measured:
    wanted = () if tree.alone else (RUFF, MYPY, TY, *((TORCHFIX,) if tree.peers else ()))
    tools, missing = installed(wanted, cache / "tools")
    unpacked = EXAMPLES if tree.package is None else fetch(tree.package, cache)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / unpacked.name
        # No cache that an earlier run has left there: amplint must not find its own work done.
        shutil.copytree(unpacked, copy, ignore=shutil.ignore_patterns(KEPT))
        files = (
            sorted(copy.glob("*.py")) if tree.package is None else list(sources(tree.package, copy))
        )
        changed = "" if tree.package is None else middle_file(copy).relative_to(copy).as_posix()
        samples = run_rounds(name, copy, commands(tree, rounds, tools, earlier, changed))
        return Measured(
            tree.package.version if tree.package is not None else "",
            len(files),
            sum(path.read_bytes().count(b"\n") for path in files),
            tree.reference,
            changed,
            rows(samples, tree.reference),
            missing,
        )


def targets(found: Mapping[str, Measured]) -> list[Target]:
    """The targets, each with what was measured of it."""

    def seconds(tree: str, command: str) -> float | None:
        row = found[tree].commands.get(command) if tree in found else None
        return row.seconds if row else None

    def timm(one: str, other: str) -> float | None:
        return ratio(seconds("timm", one), seconds("timm", other))

    def small(one: str, other: str) -> float | None:
        return ratio(seconds("lightweight-gan", one), seconds("lightweight-gan", other))

    def line(tree: str) -> float | None:
        return ratio(seconds(tree, COLD), found[tree].lines) if tree in found else None

    s3prl = found["s3prl"].commands if "s3prl" in found else {}
    fix_more = s3prl[FIX].cpu - s3prl[WARM].cpu if {FIX, WARM} <= s3prl.keys() else None
    large = found["transformers"].commands if "transformers" in found else {}
    peak = max(
        (large[state].peak_mb for state in (COLD, WARM, EDIT) if state in large), default=None
    )
    return [
        _at_least("cold, timm: times faster than TorchFix", 25, timm(TORCHFIX, COLD)),
        _at_most("cold, timm: times mypy", 1, timm(COLD, MYPY)),
        _at_most("warm, timm: times ruff", 1, timm(WARM, RUFF)),
        _at_most("warm, lightweight-gan: times `import click`", 5, small(WARM, CLICK)),
        _at_most("one file changed, timm: times warm", 2, timm(EDIT, WARM)),
        _at_most("fix after a check, s3prl: seconds of CPU more than warm", 2, fix_more),
        _at_most(
            "cold, a line of transformers: times one of timm",
            1.2,
            ratio(line("transformers"), line("timm")),
        ),
        _at_most("transformers: MB of the largest process", 500, peak),
        _at_most("amplint --help: times `import click`", 2.5, small(HELP, CLICK)),
    ]


def _at_least(text: str, bound: float, measured: float | None) -> Target:
    return Target(text, f">= {bound:g}", measured, None if measured is None else measured >= bound)


def _at_most(text: str, bound: float, measured: float | None) -> Target:
    return Target(text, f"<= {bound:g}", measured, None if measured is None else measured <= bound)


def table(name: str, found: Measured) -> str:
    """The figures of one tree, to be read."""
    lines = [
        f"{name} {found.version}: {found.files} files, {found.lines:,} lines; "
        f"the changed file is {found.changed}",
        f"{'':<28}{'runs':>6}{'seconds':>10}{'of CPU':>9}{'MB':>7}  times {found.reference}",
    ]
    for command, row in found.commands.items():
        times = "-" if row.ratio is None else f"{row.ratio:.2f}"
        lines.append(
            f"{command:<28}{len(row.runs):>6}{row.seconds:>10.3f}{row.cpu:>9.3f}"
            f"{row.peak_mb:>7.0f}{times:>10}"
        )
    lines += [f"{tool:<28} {why}" for tool, why in found.missing.items()]
    return "\n".join([*lines, ""])


def verdicts(reached: Sequence[Target]) -> str:
    """Each target with its figure, to be read."""
    lines = [f"{'target':<52}{'wanted':>10}{'measured':>11}  met"]
    for target in reached:
        measured = "-" if target.measured is None else f"{target.measured:.2f}"
        met = {True: "yes", False: "NO", None: "not measured"}[target.met]
        lines.append(f"{target.text:<52}{target.wanted:>10}{measured:>11}  {met}")
    return "\n".join(lines)


def solve() -> None:
    """Python writes what it compiles of amplint when it is first run: that is not to be timed."""
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "pyproject.toml").touch()
        Path(scratch, "train.py").write_text(
            "import torch\n\n\ndef train(model, loader, optimizer):\n    for x in loader:\n"
            "        loss = model(x).sum()\n        loss.backward()\n        optimizer.step()\n"
            "        print(loss.item())\n"
        )
        measure(_check(COLD, 1), Path(scratch))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--cache", type=Path, default=default_cache(), help="holds the downloads")
    parser.add_argument("--out", type=Path, help="the JSON; default: results/speed.json for all")
    parser.add_argument("--trees", default=",".join(TREES), help="default: %(default)s")
    parser.add_argument("--runs", type=int, default=5, help="rounds; default: %(default)s")
    parser.add_argument("--before", metavar="REF", help="also run amplint of this commit")
    parser.add_argument("--update", action="store_true", help="keep the results of other trees")
    options = parser.parse_args()
    names = options.trees.split(",")
    if unknown := set(names) - TREES.keys():
        parser.error(f"no such tree: {', '.join(sorted(unknown))}")
    if options.runs < 1:
        parser.error("--runs must be 1 or more")

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"Python {platform.python_version()}, {cores} cores, medians of runs in turn\n")
    solve()
    found: dict[str, Measured] = {}
    with checkout(options.before) as earlier:
        for name in names:
            measured = run_tree(name, TREES[name], options.cache, options.runs, earlier)
            found[name] = replace(measured, before=options.before)
            print(table(name, found[name]), flush=True)
    written = RESULTS / "speed.json"
    if options.update:
        found = {**measured_before(written), **found}
    reached = targets(found)
    print(verdicts(reached))

    is_whole = options.update or found.keys() == TREES.keys()
    out = options.out or (written if is_whole else None)
    if out is not None:
        result = {
            "python": platform.python_version(),
            "cores": cores,
            "tools": {name: tool.version for name, tool in TOOLS.items()},
            "targets": [asdict(target) for target in reached],
            "trees": {name: asdict(each) for name, each in found.items()},
        }
        out.write_text(json.dumps(_short(result), indent=1) + "\n", encoding="utf-8")


def measured_before(results: Path) -> dict[str, Measured]:
    """The trees in the results of an earlier run."""
    return msgspec.json.decode(results.read_bytes(), type=Results).trees


@dataclass(frozen=True)
class Results:
    """The part of results that another run may keep."""

    trees: dict[str, Measured]


def _short(value: object) -> object:
    """Rounded to what can be said of a time."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_short(each) for each in value]
    return value


if __name__ == "__main__":
    main()
