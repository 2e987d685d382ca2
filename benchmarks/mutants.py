"""Whether amplint sees a mistake that is made on purpose in a real training file.

    python -m benchmarks.mutants [PACKAGE...] [--mutation NAME]... [--cache DIR] [--out FILE]

Each file of mutants.json is checked as it is, with its whole package around it. Then it is broken
in every way that applies, one at a time, and checked again: a mutant is caught where a finding of
its family comes that was not there before. Prints the share of each family and what was missed, and
writes results/mutants.json, package after package; what it says of others, and of mutations that
were not asked for, stays.

A mutant is made only where it is a mistake: by `MUTATIONS`, each of which says in its docstring
what it asks of the place. Positions are those of `ast`, so that the rest of a file stays as it is.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeGuard

from amplint.run import engine
from amplint.run.cache import NAME, Cache
from benchmarks.packages import HERE, RESULTS, Package, arguments, fetch, load, request_for, sources

Places = Counter[tuple[str, str, str]]  # by path, code and message: how many findings
Mutants = Iterator[tuple[int, str]]  # the line that is broken, and the text of the file


@dataclass(frozen=True)
class Outcome:
    """What came of one mutant."""

    package: str
    path: str
    row: int
    family: str
    mutation: str
    caught: bool


class Program:
    """A file, and its statements in the order in which they are written."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.tree = ast.parse(text)
        self.bodies = [
            body
            for node in ast.walk(self.tree)
            for name in ("body", "orelse", "finalbody")
            if isinstance(body := getattr(node, name, None), list)
        ]

    def calls(self, method: str) -> Iterator[tuple[list[ast.stmt], int, ast.Call, ast.Attribute]]:
        """The calls of a method that are statements of their own, each with the body around it."""
        for body in self.bodies:
            for position, line in enumerate(body):
                if not isinstance(line, ast.Expr) or not isinstance(line.value, ast.Call):
                    continue
                function = line.value.func
                if isinstance(function, ast.Attribute) and function.attr == method:
                    yield body, position, line.value, function

    def loops(self, line: ast.stmt) -> Iterator[ast.For | ast.While]:
        """The loops around a statement, the outermost first."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.For | ast.While) and holds(node, line):
                yield node

    def indent(self, line: ast.stmt) -> str:
        return self.lines[line.lineno - 1][: line.col_offset]

    def without(self, line: ast.stmt) -> str:
        """The text with `pass` in the place of a statement."""
        return self.replaced(line, ["pass"])

    def replaced(self, line: ast.stmt, new: list[str]) -> str:
        """The text with other lines in the place of a statement."""
        before, after = self.lines[: line.lineno - 1], self.lines[line.end_lineno or line.lineno :]
        return "\n".join([*before, *(self.indent(line) + each for each in new), *after])

    def followed(self, line: ast.stmt, new: list[str]) -> str:
        """The text with more lines after a statement."""
        return self.replaced(line, [*self.own(line), *new])

    def preceded(self, line: ast.stmt, new: list[str]) -> str:
        return self.replaced(line, [*new, *self.own(line)])

    def at(self, line: ast.stmt) -> ast.stmt | None:
        """The statement that a statement of another version of the file is in this one: of those
        that read like it, the nearest."""
        written = ast.unparse(line)
        same = [each for body in self.bodies for each in body if ast.unparse(each) == written]
        return min(same, key=lambda each: abs(each.lineno - line.lineno), default=None)

    def at_row(self, row: int) -> ast.stmt | None:
        """The innermost statement that begins in a row."""
        found = [each for body in self.bodies for each in body if each.lineno == row]
        return found[-1] if found else None

    def first_import(self) -> ast.stmt | None:
        """The first import of the module, after those that Python wants first."""
        for line in self.tree.body:
            is_future = isinstance(line, ast.ImportFrom) and line.module == "__future__"
            if isinstance(line, ast.Import | ast.ImportFrom) and not is_future:
                return line
        return None

    def own(self, line: ast.stmt) -> list[str]:
        """The lines of a statement, without the indentation of the first."""
        lines = self.lines[line.lineno - 1 : line.end_lineno]
        indent = len(self.indent(line))
        return [each[indent:] if each[:indent].strip() == "" else each for each in lines]


def holds(around: ast.AST, line: ast.stmt) -> bool:
    """Whether a statement stands inside another one."""
    start, end = getattr(around, "lineno", 0), getattr(around, "end_lineno", 0)
    return start < line.lineno and (line.end_lineno or 0) <= end


def is_scaler(node: ast.expr) -> bool:
    return "scaler" in ast.unparse(node).lower()


def scaled_loss(function: ast.Attribute) -> ast.expr | None:
    """`loss` of `scaler.scale(loss).backward`."""
    inner = function.value
    if not isinstance(inner, ast.Call) or not isinstance(inner.func, ast.Attribute):
        return None
    scaled = inner.func.attr == "scale" and len(inner.args) == 1 and is_scaler(inner.func.value)
    return inner.args[0] if scaled else None


# ------------------------------------------------------------------------------- the scaler


def update_removed(program: Program) -> Mutants:
    """`scaler.update()` goes, where the same file steps by the scaler."""
    for body, position, call, function in program.calls("update"):
        if is_scaler(function.value) and not call.args:
            yield call.lineno, program.without(body[position])


def step_past(program: Program) -> Mutants:
    """`scaler.step(optimizer)` becomes `optimizer.step()`."""
    for body, position, call, function in program.calls("step"):
        if is_scaler(function.value) and len(call.args) == 1:
            yield (
                call.lineno,
                program.replaced(body[position], [f"{ast.unparse(call.args[0])}.step()"]),
            )


def backward_past(program: Program) -> Mutants:
    """`scaler.scale(loss).backward()` becomes `loss.backward()`."""
    for body, position, call, function in program.calls("backward"):
        loss = scaled_loss(function)
        if loss is not None:
            alone = ast.unparse(ast.Expr(ast.Attribute(loss, "backward")))
            yield call.lineno, program.replaced(body[position], [f"{alone}()"])


def unscale_removed(program: Program) -> Mutants:
    """`scaler.unscale_(optimizer)` goes, where a clip follows in the same body."""
    for body, position, call, function in program.calls("unscale_"):
        if is_scaler(function.value) and any(
            "clip" in ast.unparse(n) for n in body[position + 1 :]
        ):
            yield call.lineno, program.without(body[position])


def unscale_after_clip(program: Program) -> Mutants:
    """`scaler.unscale_(optimizer)` moves behind the clip that follows it."""
    for body, position, call, function in program.calls("unscale_"):
        if not is_scaler(function.value) or position + 1 >= len(body):
            continue
        clip = body[position + 1]
        if "clip" in ast.unparse(clip) and isinstance(clip, ast.Expr | ast.Assign):
            moved = Program(program.without(body[position]))
            line = moved.at(clip)
            if line is not None:
                yield call.lineno, moved.followed(line, [ast.unparse(call)])


def unscaled_twice(program: Program) -> Mutants:
    """`scaler.unscale_(optimizer)` stands there twice."""
    for body, position, call, function in program.calls("unscale_"):
        if is_scaler(function.value):
            yield call.lineno, program.followed(body[position], [ast.unparse(call)])


def stepped_twice(program: Program) -> Mutants:
    """`scaler.step(optimizer)` stands there twice."""
    for body, position, call, function in program.calls("step"):
        if is_scaler(function.value) and len(call.args) == 1:
            yield call.lineno, program.followed(body[position], [ast.unparse(call)])


def cleared_before_step(program: Program) -> Mutants:
    """`optimizer.zero_grad()` right before the step of the scaler."""
    for body, position, call, function in program.calls("step"):
        if is_scaler(function.value) and len(call.args) == 1:
            cleared = f"{ast.unparse(call.args[0])}.zero_grad()"
            yield call.lineno, program.preceded(body[position], [cleared])


def made_in_loop(program: Program) -> Mutants:
    """The scaler is made at the start of each iteration that steps by it."""
    for body, position, call, function in program.calls("step"):
        loops = list(program.loops(body[position])) if is_scaler(function.value) else []
        if loops:
            made = f'{ast.unparse(function.value)} = torch.amp.GradScaler("cuda")'
            yield call.lineno, program.preceded(loops[-1].body[0], [made])


def state_not_saved(program: Program) -> Mutants:
    """Each entry of a dict that is the state of a scaler goes, where all stand in lines of their
    own."""
    states = [
        (key, value)
        for node in ast.walk(program.tree)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if key is not None and re.search(r"scaler[\w.]*\.state_dict\(\)", ast.unparse(value))
    ]
    rows = {key.lineno for key, _ in states}
    if rows and all(key.lineno == value.end_lineno for key, value in states):
        kept = [line for row, line in enumerate(program.lines, 1) if row not in rows]
        yield min(rows), "\n".join(kept)


# ------------------------------------------------------------------------------- the region


def backward_inside(program: Program) -> Mutants:
    """The backward pass moves to the end of the region that stands right before it."""
    for body, position, call, _ in program.calls("backward"):
        region = body[position - 1] if position else None
        if region is not None and is_region(region):
            moved = Program(program.without(body[position]))
            last = moved.at(region.body[-1])
            if last is not None:
                yield call.lineno, moved.followed(last, [ast.unparse(call)])


def loop_inside(program: Program) -> Mutants:
    """A region opens around the innermost loop around a backward pass that none is around, in a
    file that has regions and no lines that may not be indented."""
    regions = [line for body in program.bodies for line in body if is_region(line)]
    for body, position, call, _ in program.calls("backward") if regions else ():
        if any(holds(region, body[position]) for region in regions):
            continue
        loops = list(program.loops(body[position]))
        lines = program.own(loops[-1]) if loops else []
        if loops and not any('"""' in line or line.endswith("\\") for line in lines):
            around = ['with torch.autocast("cuda"):', *(f"    {line}" for line in lines)]
            yield call.lineno, program.replaced(loops[-1], around)


DEVICE = r"[\"'\w.]+"  # an argument
CROSS_ENTROPY = r"cross_entropy|binary_cross_entropy_with_logits"
CROSS_ENTROPY_CLASS = r"=.*\b(CrossEntropyLoss|BCEWithLogitsLoss)\("


def losses(program: Program) -> Iterator[tuple[ast.With, int]]:
    """The regions with a loss of what was computed in them, each with the position of the loss.

    A cross entropy by the words of the file itself: that of half logits is half. A mean of squares
    is widened by its float32 targets, and what a criterion from elsewhere does is not known.
    """
    text = "\n".join(program.lines)
    for body in program.bodies:
        for region in body:
            if not is_region(region):
                continue
            made: set[str] = set()
            for position, line in enumerate(region.body):
                for call in ast.walk(line):
                    if not isinstance(call, ast.Call) or not call.args:
                        continue
                    name = ast.unparse(call.func)
                    named = re.fullmatch(rf"[\w.]*\b({CROSS_ENTROPY})", name) or re.search(
                        re.escape(name) + r"\s*" + CROSS_ENTROPY_CLASS, text
                    )
                    logits = {n.id for n in ast.walk(call.args[0]) if isinstance(n, ast.Name)}
                    if named and logits & made:
                        yield region, position
                        break
                else:
                    made |= {
                        n.id
                        for n in ast.walk(line)
                        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
                    }
                    continue
                break


def is_region(line: ast.stmt) -> TypeGuard[ast.With]:
    return isinstance(line, ast.With) and "autocast" in ast.unparse(line.items[0])


def dedented(lines: list[str]) -> list[str]:
    return [line.removeprefix("    ") for line in lines]


def loss_outside(program: Program) -> Mutants:
    """The loss, and what follows it, moves behind the region."""
    for region, position in losses(program):
        loss = region.body[position]
        lines = program.own(region)
        cut = loss.lineno - region.lineno
        yield loss.lineno, program.replaced(region, [*lines[:cut], *dedented(lines[cut:])])


def island(program: Program) -> Mutants:
    """The loss is computed with autocast off, of what autocast has made."""
    for region, position in losses(program):
        loss = region.body[position]
        inside = [f"    {line}" for line in program.own(loss)]
        yield (
            loss.lineno,
            program.replaced(loss, ['with torch.autocast("cuda", enabled=False):', *inside]),
        )


def enabled_lost(program: Program) -> Mutants:
    """`torch.autocast("cuda", enabled=x)` loses the name of its argument: the second one by
    position is the dtype."""
    for row, line in enumerate(program.lines, 1):
        changed = re.sub(rf"(\btorch\.(amp\.)?autocast\({DEVICE}, )enabled=", r"\1", line)
        if changed != line and not line.lstrip().startswith("#"):
            yield row, "\n".join([*program.lines[: row - 1], changed, *program.lines[row:]])


# ------------------------------------------------------------------------------- dtypes


def beside_half(*lines: str) -> Callable[[Program], Mutants]:
    """Lines that follow `x = ....half()`, and are wrong for a float16 tensor."""

    def mutate(program: Program) -> Mutants:
        for body in program.bodies:
            for line in body:
                if (
                    isinstance(line, ast.Assign)
                    and isinstance(line.targets[0], ast.Name)
                    and re.search(HALVED, ast.unparse(line.value))
                ):
                    name = line.targets[0].id
                    if "model" not in name:
                        new = [each.format(x=name) for each in lines]
                        yield line.lineno, program.followed(line, new)

    return mutate


HALVED = r"(\.half\(\)|\.to\((dtype=)?torch\.(float16|half)\))$"

# ------------------------------------------------------------------------------- reads


def read_in_loop(*lines: str) -> Callable[[Program], Mutants]:
    """Lines that read the loss follow its backward pass in a loop."""

    def mutate(program: Program) -> Mutants:
        for body, position, call, function in program.calls("backward"):
            loss = scaled_loss(function) or function.value
            if isinstance(loss, ast.Name) and any(program.loops(body[position])):
                read = [line.format(loss=loss.id) for line in lines]
                yield call.lineno, program.followed(body[position], read)

    return mutate


HELPERS = """

def _told(value):
    return value.item()


def _tell(value):
    return _told(value)
"""


def read_in_helper(program: Program) -> Mutants:
    """A function reads the loss that another one gives it."""
    for row, text in read_in_loop("_seen = _tell({loss})")(program):
        yield row, text + HELPERS


# ------------------------------------------------------------------------------- placement


def built_on_host(program: Program) -> Mutants:
    """`torch.zeros(..., device=d)` becomes `torch.zeros(...).to(d)`."""
    for node in ast.walk(program.tree):
        if not isinstance(node, ast.Call) or node.lineno != node.end_lineno:
            continue
        device = next((each for each in node.keywords if each.arg == "device"), None)
        if ast.unparse(node.func) not in FACTORIES or device is None:
            continue
        others = [each for each in node.keywords if each is not device]
        built = ast.unparse(ast.Call(node.func, node.args, others))
        line = program.lines[node.lineno - 1].encode()
        moved = f"{built}.to({ast.unparse(device.value)})".encode()
        lines = list(program.lines)
        whole = line[: node.col_offset] + moved + line[node.end_col_offset :]
        lines[node.lineno - 1] = whole.decode()
        yield node.lineno, "\n".join(lines)


def moved_later(program: Program) -> Mutants:
    """`x = torch.zeros(..., device=d)` becomes `x = torch.zeros(...)`, which is moved a line later,
    or two where the next line does not speak of it."""
    for body in program.bodies:
        for position, line in enumerate(body):
            if not isinstance(line, ast.Assign) or not isinstance(line.value, ast.Call):
                continue
            call, name = line.value, line.targets[0]
            device = next((each for each in call.keywords if each.arg == "device"), None)
            if (
                ast.unparse(call.func) not in FACTORIES
                or device is None
                or not isinstance(name, ast.Name)
            ):
                continue
            others = [each for each in call.keywords if each is not device]
            built = f"{name.id} = {ast.unparse(ast.Call(call.func, call.args, others))}"
            after = body[position + 1] if position + 1 < len(body) else line
            spoken = any(isinstance(n, ast.Name) and n.id == name.id for n in ast.walk(after))
            changed = Program(program.replaced(line, [built]))
            last = changed.at(
                ast.copy_location(ast.parse(built).body[0], line) if spoken else after
            )
            if last is not None:
                moved = f"{name.id} = {name.id}.to({ast.unparse(device.value)})"
                yield line.lineno, changed.followed(last, [moved])


FACTORIES = frozenset(f"torch.{name}" for name in "zeros ones full empty arange".split())


# ------------------------------------------------------------------------------- migration


TODAY = {
    "torch.autocast": "autocast",
    "torch.amp.autocast": "autocast",
    "torch.GradScaler": "GradScaler",
    "torch.amp.GradScaler": "GradScaler",
}


def renamed(imported: str, name: str, inside: bool = False) -> Callable[[Program], Mutants]:
    """A call of a name of today, for CUDA by a constant, becomes one of the old name.

    Args:
        imported: the import that the old name needs.
        name: what is written for it then.
        inside: whether the import stands before the statement of the call, or at the top.
    """

    def mutate(program: Program) -> Mutants:
        for call, today in calls_of_today(program.tree):
            old = TODAY[today]
            brought = imported.format(name=old)
            written = name.format(name=old)
            if written == old and re.search(rf"^\s*(from|import) .*\b{old}\b", program.text, re.M):
                continue  # the file has that name already
            row = call.lineno - 1
            line = program.lines[row].encode()
            kept = [ast.unparse(each) for each in (*call.args, *call.keywords) if not on_cuda(each)]
            new = f"{written}({', '.join(kept)})".encode()
            lines = list(program.lines)
            lines[row] = (line[: call.col_offset] + new + line[call.end_col_offset :]).decode()
            broken = Program("\n".join(lines))
            first = broken.at_row(call.lineno) if inside else broken.first_import()
            if first is not None:
                yield call.lineno, broken.preceded(first, [brought])

    return mutate


def calls_of_today(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """The calls for CUDA of one of `TODAY`, on one line each, with the name in full."""
    names = {
        each.asname or each.name: f"{node.module}.{each.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and not node.level
        for each in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno == node.end_lineno:
            first, dot, rest = ast.unparse(node.func).partition(".")
            name = names.get(first, first) + dot + rest
            if name in TODAY and any(map(on_cuda, (*node.args, *node.keywords))):
                yield node, name


def on_cuda(argument: ast.expr | ast.keyword) -> bool:
    """Whether an argument names the device as a constant; the old names take none."""
    value = argument.value if isinstance(argument, ast.keyword) else argument
    return isinstance(value, ast.Constant) and value.value == "cuda"


def in_data_parallel(program: Program) -> Mutants:
    """A model that was moved to its device is wrapped."""
    for body in program.bodies:
        for line in body:
            if isinstance(line, ast.Assign) and re.fullmatch(
                r"((self\.)?model) = \1\.(to\([\w.]+\)|cuda\(\))", ast.unparse(line)
            ):
                name = ast.unparse(line.targets[0])
                yield (
                    line.lineno,
                    program.followed(line, [f"{name} = torch.nn.DataParallel({name})"]),
                )


CUDA = r"\(([\"'])cuda\1(, )?"  # the first argument

# By family: the codes of which a new finding counts, and the mutations.
MUTATIONS: dict[str, tuple[str | tuple[str, ...], dict[str, Callable[[Program], Mutants]]]] = {
    "scaler": (
        "AMP4",
        {
            "update removed": update_removed,
            "step past the scaler": step_past,
            "backward past the scaler": backward_past,
            "unscale_ removed": unscale_removed,
            "unscale_ after the clip": unscale_after_clip,
            "unscale_ twice": unscaled_twice,
            "step twice": stepped_twice,
            "zero_grad before the step": cleared_before_step,
            "scaler made in the loop": made_in_loop,
            "state not saved": state_not_saved,
        },
    ),
    "region": (
        "AMP3",
        {
            "backward inside": backward_inside,
            "loop inside": loop_inside,
            "loss outside": loss_outside,
            "island": island,
            "enabled lost": enabled_lost,
        },
    ),
    "dtype": (
        ("AMP2", "AMP8"),
        {
            "factory": beside_half(
                "{x} = torch.cat([{x}, torch.zeros({x}.shape, device={x}.device)])"
            ),
            "where": beside_half(
                "{x} = torch.where({x} > 0, {x}, torch.zeros(1, device={x}.device))"
            ),
            # Of a mean: under autocast a sum is float32, and the number no mistake.
            "epsilon": beside_half("{x} = {x} / ({x}.mean() + 1e-8)"),
            "mask": beside_half("{x} = {x}.masked_fill({x} > 0, -1e9)"),
        },
    ),
    "reads": (
        "AMP1",
        {
            "item": read_in_loop("_seen = {loss}.item()"),
            "print": read_in_loop("print({loss})"),
            "test": read_in_loop("if {loss} > 10:", "    _large = True"),
            "comprehension": read_in_loop("_seen = [each.item() for each in [{loss}]]"),
            "helper": read_in_helper,
        },
    ),
    "placement": ("AMP5", {"built on the host": built_on_host, "moved later": moved_later}),
    "migration": (
        "AMP7",
        {
            "in full": renamed("import torch", "torch.cuda.amp.{name}"),
            "from": renamed("from torch.cuda.amp import {name}", "{name}"),
            "from, as": renamed("from torch.cuda.amp import {name} as old", "old"),
            "from, the module": renamed("from torch.cuda import amp as old", "old.{name}"),
            "import, as": renamed("import torch.cuda.amp as old", "old.{name}"),
            "imported inside": renamed("from torch.cuda.amp import {name} as old", "old", True),
        },
    ),
    "parallel": ("AMP6", {"DataParallel": in_data_parallel}),
}


def findings(tree: Path, package: Package, cache: Cache) -> Places:
    """The findings of a package's default rules."""
    request = request_for(tree, list(sources(package, tree)))
    outcome = engine.run(replace(request, cache=cache))
    return Counter((each.path, each.code, each.message) for each in outcome.findings)


def main() -> None:
    parser = arguments(__doc__)
    names = [name for _, mutations in MUTATIONS.values() for name in mutations]
    parser.add_argument("--mutation", action="append", choices=names, help="only this one")
    parser.add_argument("--out", type=Path, default=RESULTS / "mutants.json")
    options = parser.parse_args()
    wanted = frozenset(options.mutation or names)
    files: dict[str, list[str]] = json.loads((HERE / "mutants.json").read_text(encoding="utf-8"))
    known: dict[str, list[Outcome]] = defaultdict(list)
    if options.out.exists():
        for row in json.loads(options.out.read_text(encoding="utf-8"))["outcomes"]:
            known[row["package"]].append(Outcome(**row))
    chosen = options.packages or sorted(files)
    for package in load(chosen):
        kept = [each for each in known[package.name] if each.mutation not in wanted]
        new = of_package(package, files[package.name], options.cache, wanted)
        known[package.name] = [*kept, *new]
        rows = [asdict(each) for name in sorted(known) for each in known[name]]
        text = json.dumps({"outcomes": rows}, indent=1)
        options.out.write_text(f"{text}\n", encoding="utf-8")
    show([each for name in chosen for each in known[name]])


def of_package(
    package: Package, paths: list[str], cache: Path, wanted: frozenset[str]
) -> Iterator[Outcome]:
    """The outcomes of the mutants of a package's files, by the names of their mutations."""
    original = fetch(package, cache)
    texts = {path: (original / path).read_text(encoding="utf-8") for path in paths}
    mutants = [
        (path, family, name, row, mutant)
        for path, text in texts.items()
        for family, (_, mutations) in MUTATIONS.items()
        for name, mutate in mutations.items()
        if name in wanted
        for row, mutant in mutate(Program(text))
    ]
    if not mutants:
        return
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / "tree"
        shutil.copytree(original, tree)
        kept = Cache(tree / NAME)
        before = findings(tree, package, kept)
        for path, family, name, row, mutant in mutants:
            ast.parse(mutant)
            (tree / path).write_text(mutant, encoding="utf-8")
            new = findings(tree, package, kept) - before
            (tree / path).write_text(texts[path], encoding="utf-8")
            caught = any(code.startswith(MUTATIONS[family][0]) for _, code, _ in new)
            yield Outcome(package.name, path, row, family, name, caught)
        print(f"{package.name}: {len(mutants)} mutants", file=sys.stderr, flush=True)


def show(outcomes: list[Outcome]) -> None:
    by_family: dict[str, Counter[bool]] = defaultdict(Counter)
    by_mutation: dict[tuple[str, str], Counter[bool]] = defaultdict(Counter)
    for each in outcomes:
        by_family[each.family][each.caught] += 1
        by_mutation[each.family, each.mutation][each.caught] += 1
    for (family, name), counts in by_mutation.items():
        print(f"{family:<12}{name:<28}{counts[True]:>4} of {counts.total():>4}")
    for family, counts in by_family.items():
        share = counts[True] / counts.total()
        print(f"{family:<40}{counts[True]:>4} of {counts.total():>4}  {share:.0%}")
    caught = sum(each.caught for each in outcomes)
    print(f"{'all':<40}{caught:>4} of {len(outcomes):>4}  {caught / max(len(outcomes), 1):.0%}")
    for each in outcomes:
        if not each.caught:
            print(f"missed: {each.package} {each.path}:{each.row} {each.family}, {each.mutation}")


if __name__ == "__main__":
    main()
