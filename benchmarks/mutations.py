"""Mistakes that can be made in a training file, one at a time.

A mutant is made only where it is a mistake: each mutation says in its docstring what it asks of the
place. Positions are those of `ast`, so that the rest of a file stays as it is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard

from benchmarks import indirections
from benchmarks.indirections import Indirection, helper, scaler_behind

Mutants = Iterator[tuple[int, str]]  # the line that is broken, and the text of the file
Mutation = Callable[["Program"], Mutants]


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

    def rows(self, block: list[ast.stmt]) -> list[str]:
        """The lines of statements that follow each other."""
        return self.lines[block[0].lineno - 1 : block[-1].end_lineno]

    def enclosed(self, block: list[ast.stmt], header: str) -> str:
        """The text with statements that follow each other in a block."""
        start, end = block[0].lineno - 1, block[-1].end_lineno or block[-1].lineno
        inside = [f"    {line}" if line.strip() else line for line in self.rows(block)]
        opened = f"{self.indent(block[0])}{header}"
        return "\n".join([*self.lines[:start], opened, *inside, *self.lines[end:]])

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


def read_before_unscale(*lines: str) -> Callable[[Program], Mutants]:
    """Lines that read the gradients of `{optimizer}`, before `scaler.unscale_(optimizer)`."""

    def mutate(program: Program) -> Mutants:
        for body, position, call, function in program.calls("unscale_"):
            if is_scaler(function.value) and len(call.args) == 1:
                optimizer = ast.unparse(call.args[0])
                read = [line.format(optimizer=optimizer) for line in lines]
                yield call.lineno, program.preceded(body[position], read)

    return mutate


def updated_for_each(program: Program) -> Mutants:
    """The steps of two optimizers that follow each other, and the update after them, become a loop
    over the optimizers with both in it."""
    for body, position, call, function in program.calls("step"):
        lines, scaler = body[position : position + 3], ast.unparse(function.value)
        texts = [ast.unparse(line) for line in lines]
        step = re.compile(rf"{re.escape(scaler)}\.step\((.+)\)")
        steps = [step.fullmatch(text) for text in texts[:2]]
        if is_scaler(function.value) and all(steps) and texts[2:] == [f"{scaler}.update()"]:
            optimizers = ", ".join(each[1] for each in steps if each)
            loop = [f"for _each in ({optimizers}):", f"    {scaler}.step(_each)", f"    {texts[2]}"]
            changed = [f"{program.indent(lines[0])}{line}" for line in loop]
            before, after = program.lines[: call.lineno - 1], program.lines[lines[2].end_lineno :]
            yield call.lineno, "\n".join([*before, *changed, *after])


def switched_off(program: Program) -> Mutants:
    """A scaler whose step stands in a loop is switched off before the loop."""
    for body, position, call, function in program.calls("step"):
        loops = list(program.loops(body[position])) if is_scaler(function.value) else []
        if loops and len(call.args) == 1:
            off = f"{ast.unparse(function.value)}._enabled = False"
            yield call.lineno, program.preceded(loops[0], [off])


def scaled_loss_told(*lines: str) -> Callable[[Program], Mutants]:
    """What `scaler.scale(loss).backward()` goes back through gets a name, and lines after it report
    that name: the number is the loss times the scale."""

    def mutate(program: Program) -> Mutants:
        for body, position, call, function in program.calls("backward"):
            if scaled_loss(function) is not None:
                call.func = ast.copy_location(ast.Attribute(ast.Name("_scaled"), "backward"), call)
                named = f"_scaled = {ast.unparse(function.value)}"
                new = [named, ast.unparse(call), *lines]
                yield call.lineno, program.replaced(body[position], new)

    return mutate


def scaled_loss_kept(program: Program) -> Mutants:
    """`scaler.scale(loss).backward()` becomes `loss = scaler.scale(loss)` and `loss.backward()`,
    where a line after it in the same body, or in that of the loop, reads the loss, and not only
    whether it is finite."""
    for body, position, call, function in program.calls("backward"):
        loss = scaled_loss(function)
        loops = list(program.loops(body[position]))
        inside = loops[-1].body if loops else []
        later = inside[position_of(body[position], inside) + 1 :]
        after = body[position + 1 :] + (later if inside is not body else [])
        if isinstance(loss, ast.Name) and is_told(loss.id, after):
            scaled = f"{loss.id} = {ast.unparse(function.value)}"
            call.func = ast.copy_location(ast.Attribute(loss, "backward"), call)
            yield call.lineno, program.replaced(body[position], [scaled, ast.unparse(call)])


def is_told(loss: str, lines: list[ast.stmt]) -> bool:
    """Whether one of some statements reads a loss, before one that assigns it."""
    read = rf"\b{loss}\.(item|detach|cpu)\(|\bfloat\({loss}\)"
    for line in lines:
        if loss in names_of(line, ast.Store):
            return False
        text = ast.unparse(line)
        if re.search(read, text) and not re.search(r"is_?(finite|nan|inf)", text):
            return True
    return False


def names_of(line: ast.AST, context: type[ast.expr_context]) -> set[str]:
    """The variables that a statement reads, or that it assigns."""
    names = (node for node in ast.walk(line) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, context)}


# ------------------------------------------------------------------------------- the region


def forwards(program: Program) -> Iterator[tuple[list[ast.stmt], ast.With, ast.Call]]:
    """The regions with a header of one line in which a model is called, each with the body around
    it and that call. A model is known by its name."""
    for body in program.bodies:
        for region in body:
            if not is_region(region) or region.items[0].context_expr.end_lineno != region.lineno:
                continue
            calls = (node for line in region.body for node in ast.walk(line))
            for call in calls:
                if isinstance(call, ast.Call) and re.fullmatch(MODEL, ast.unparse(call.func)):
                    yield body, region, call
                    break


MODEL = r"(self\.)?_?(\w+_)?(model|net|network)"


def forward_before(*block: str) -> Callable[[Program], Mutants]:
    """The block of a region that runs the model and makes the loss stands before the `with`, whose
    block is the backward pass that followed, or lines that autocast leaves as they are.

    Args:
        block: those lines; none for the backward pass.
    """

    def mutate(program: Program) -> Mutants:
        for body, region, _ in forwards(program):
            position = body.index(region) + 1
            after = body[position] if position < len(body) else None
            back = loss_of(after)
            if after is None or back is None or back not in made_in(region):
                continue
            header, *inside = program.own(region)
            if len(region.items) == 1 and region.body[0].lineno == region.lineno + 1:
                lines = [line.format(loss=back) for line in block]
                last = program.own(after)
                held = [f"    {line}" for line in lines or last]
                changed = [*dedented(inside), header, *held, *(last if lines else ())]
                gone = Program(program.without(after))
                yield region.lineno, gone.replaced(region, changed)

    return mutate


def made_in(region: ast.With) -> set[str]:
    return set().union(*(names_of(line, ast.Store) for line in region.body))


def loss_of(line: ast.stmt | None) -> str | None:
    """The variable of `loss.backward()`, or of `scaler.scale(loss).backward()`."""
    call = line.value if isinstance(line, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    loss = scaled_loss(call.func) or call.func.value
    return loss.id if call.func.attr == "backward" and isinstance(loss, ast.Name) else None


def on_another_device(device: str, *lines: str) -> Callable[[Program], Mutants]:
    """The model of a region, and what it is called with, move right before it to a device that may
    be no CUDA, and the region is one of CUDA that nothing switches off.

    Args:
        device: the expression for the device; the text says what kinds it may be.
        lines: what that needs before.
    """

    def mutate(program: Program) -> Mutants:
        for _, region, call in forwards(program):
            given = call.args[0] if call.args else None
            if len(region.items) != 1 or not isinstance(given, ast.Name):
                continue
            if region.body[0].lineno == region.lineno or is_made_anew(given.id, region):
                continue
            names = (ast.unparse(call.func), given.id)
            moved = [f"{name} = {name}.to({device})" for name in names]
            inside = program.own(region)[1:]
            header = 'with torch.autocast("cuda", dtype=torch.float16):'
            yield region.lineno, program.replaced(region, [*lines, *moved, header, *inside])

    return mutate


def is_made_anew(name: str, region: ast.With) -> bool:
    """Whether a region assigns a variable what is made of other ones."""
    return any(name in names_of(line, ast.Store) - names_of(line, ast.Load) for line in region.body)


def backward_inside(program: Program) -> Mutants:
    """The backward pass moves to the end of the region that stands right before it."""
    for body, position, call, _ in program.calls("backward"):
        region = body[position - 1] if position else None
        if region is not None and is_region(region):
            moved = Program(program.without(body[position]))
            last = moved.at(region.body[-1])
            if last is not None:
                yield call.lineno, moved.followed(last, [ast.unparse(call)])


def loop_inside(opened: str) -> Callable[[Program], Mutants]:
    """A region opens around the innermost loop around a backward pass that none is around, in a
    file that has regions and no lines that may not be indented."""

    def mutate(program: Program) -> Mutants:
        regions = [line for body in program.bodies for line in body if is_region(line)]
        for body, position, call, _ in program.calls("backward") if regions else ():
            if any(holds(region, body[position]) for region in regions):
                continue
            loops = list(program.loops(body[position]))
            lines = program.own(loops[-1]) if loops else []
            if loops and may_be_indented(lines):
                around = [f"with {opened}:", *(f"    {line}" for line in lines)]
                yield call.lineno, program.replaced(loops[-1], around)

    return mutate


def may_be_indented(lines: list[str]) -> bool:
    """Whether no string, and no statement that goes on by a backslash, spans them."""
    return not any('"""' in line or line.endswith("\\") for line in lines)


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
            by_engine = ast.unparse(function.value) == indirections.ENGINE
            loss = call.args[0] if by_engine else scaled_loss(function) or function.value
            if isinstance(loss, ast.Name) and any(program.loops(body[position])):
                read = [line.format(loss=loss.id) for line in lines]
                yield call.lineno, program.followed(body[position], read)

    return mutate


# ------------------------------------------------------------------------------- placement


def built_on_host(factories: Mapping[str, str]) -> Callable[[Program], Mutants]:
    """`torch.zeros(..., device=d)` becomes `torch.zeros(...).to(d)`.

    Args:
        factories: what is called instead of each.
    """

    def mutate(program: Program) -> Mutants:
        for node in ast.walk(program.tree):
            if not isinstance(node, ast.Call) or node.lineno != node.end_lineno:
                continue
            device = next((each for each in node.keywords if each.arg == "device"), None)
            factory = factories.get(ast.unparse(node.func))
            if factory is None or device is None:
                continue
            others = [each for each in node.keywords if each is not device]
            built = ast.unparse(ast.Call(ast.Name(factory), node.args, others))
            line = program.lines[node.lineno - 1].encode()
            moved = f"{built}.to({ast.unparse(device.value)})".encode()
            lines = list(program.lines)
            whole = line[: node.col_offset] + moved + line[node.end_col_offset :]
            lines[node.lineno - 1] = whole.decode()
            yield node.lineno, "\n".join(lines)

    return mutate


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


FACTORIES = {name: name for name in (f"torch.{f}" for f in "zeros ones full empty arange".split())}


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


class MicroBatch(NamedTuple):
    """A backward pass in a loop, and what stands around it."""

    model: str  # how it is written
    outermost: ast.stmt  # the loop before which it is wrapped
    body: list[ast.stmt]  # of the innermost loop
    forward: int  # the position in it of the statement that first speaks of the model
    holding: int  # and of the one that holds the backward pass
    backward: ast.stmt

    def in_no_sync(self, program: Program, block: list[ast.stmt], opened: str) -> str:
        """The file with statements of the loop in a context of the model, which is wrapped in
        DistributedDataParallel before it."""
        changed = Program(program.enclosed(block, f"with {opened}:"))
        loop = changed.at_row(self.outermost.lineno)
        assert loop is not None  # it stands where it stood
        made = f"{self.model} = torch.nn.parallel.DistributedDataParallel({self.model})"
        return changed.preceded(loop, ["import contextlib", made])


def micro_batches(program: Program) -> Iterator[MicroBatch]:
    """The backward passes in loops that call a model before them, in a file without `no_sync`."""
    for body, position, _, _ in program.calls("backward") if "no_sync" not in program.text else ():
        backward = body[position]
        if program.indent(backward).strip():
            continue  # Ex) else: loss.backward()
        loops = [each for each in program.loops(backward) if not crosses(each, backward)]
        inside = loops[-1].body if loops else []
        holding = position_of(backward, inside)
        called = [
            (n, name)
            for n, line in enumerate(inside[: holding + 1])
            for node in ast.walk(line)
            if isinstance(node, ast.Call) and node.lineno < backward.lineno
            if re.fullmatch(MODEL, name := ast.unparse(node.func))
        ]
        if called and not is_assigned(called[0][1], loops[0]):
            first, model = called[0]
            yield MicroBatch(model, loops[0], inside, first, holding, backward)


def is_assigned(written: str, loop: ast.stmt) -> bool:
    """Whether a loop assigns a variable or an attribute, by how it is written."""
    targets = (node for node in ast.walk(loop) if isinstance(node, ast.Name | ast.Attribute))
    return any(isinstance(t.ctx, ast.Store) and ast.unparse(t) == written for t in targets)


def position_of(line: ast.stmt, body: list[ast.stmt]) -> int:
    """That of the statement that is another one, or holds it; -1 if none does."""
    found = (n for n, each in enumerate(body) if each is line or holds(each, line))
    return next(found, -1)


def crosses(loop: ast.stmt, line: ast.stmt) -> bool:
    """Whether a function begins between a loop and a statement in it."""
    functions = (n for n in ast.walk(loop) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(holds(function, line) for function in functions)


def backward_in_no_sync(program: Program) -> Mutants:
    """The backward pass alone stands in `no_sync()` of a model that is wrapped before the loop, and
    whose forward pass is another statement."""
    for batch in micro_batches(program):
        text = batch.in_no_sync(program, [batch.backward], f"{batch.model}.no_sync()")
        yield batch.backward.lineno, text


def step_not_synced(skips: Callable[[ast.expr], str | None]) -> Mutation:
    """The forward and backward passes of a model that is wrapped before the loop stand in
    `no_sync()` for the micro-batch after which the optimizer steps: it steps in an `if` of the same
    loop, whose test is one of variables that nothing between assigns.

    Args:
        skips: the condition of `no_sync()`, for that test; None where it has none.
    """

    def mutate(program: Program) -> Mutants:
        seen: set[int] = set()
        for batch in micro_batches(program):
            after = batch.body[batch.holding + 1 :]
            step = next((line for line in after if is_step(line)), None)
            condition = skips(step.test) if isinstance(step, ast.If) else None
            block = batch.body[batch.forward : batch.holding + 1]
            if not isinstance(step, ast.If) or condition is None or block[0].lineno in seen:
                continue
            seen.add(block[0].lineno)
            between = batch.body[batch.forward : batch.body.index(step)]
            assigned = set().union(*(names_of(line, ast.Store) for line in between))
            if not assigned & names_of(step.test, ast.Load) and may_be_indented(
                program.rows(block)
            ):
                opened = f"{batch.model}.no_sync() if {condition} else contextlib.nullcontext()"
                yield batch.backward.lineno, batch.in_no_sync(program, block, opened)

    return mutate


def is_step(line: ast.stmt) -> bool:
    return re.search(r"\b(scaler|optim\w*)\.step\(", ast.unparse(line)) is not None


def when_it_steps(test: ast.expr) -> str:
    """The wrong way round."""
    return f"({ast.unparse(test)})"


def counted_from_one_less(test: ast.expr) -> str | None:
    """Ex) i % n != 0, of `(i + 1) % n == 0`: after i = n - 1, for which it holds, it steps."""
    found = re.fullmatch(r"\((\w+) \+ 1\) % ([\w.]+) == 0", ast.unparse(test))
    return f"{found[1]} % {found[2]} != 0" if found else None


def read_when_compiled(decorator: str, *lines: str) -> Mutation:
    """The `forward` of a module is compiled, and begins with lines that read a tensor: its first
    argument, which it calls a method on that only a tensor of floats has.

    Args:
        decorator: that of the function.
        lines: with `{x}` for the argument.
    """

    def mutate(program: Program) -> Mutants:
        for function, x in tensor_forwards(program):
            first = function.body[is_docstring(function.body[0])]
            read = Program(program.preceded(first, [line.format(x=x) for line in lines]))
            compiled = read.at_row(function.lineno)
            assert compiled is not None  # what was changed stands below it
            yield first.lineno + 1, read.preceded(compiled, [decorator])

    return mutate


def tensor_forwards(program: Program) -> Iterator[tuple[ast.FunctionDef, str]]:
    """The methods `forward` of modules, without decorators, whose first argument is a tensor, with
    its name; in files that import torch and speak of no capture themselves."""
    if not re.search(r"^import torch$", program.text, re.M) or CAPTURING.search(program.text):
        return
    for cls in program.tree.body:
        bases = [ast.unparse(base) for base in cls.bases] if isinstance(cls, ast.ClassDef) else []
        is_module = not {"nn.Module", "torch.nn.Module"}.isdisjoint(bases)
        for function in cls.body if isinstance(cls, ast.ClassDef) and is_module else ():
            if not isinstance(function, ast.FunctionDef) or function.name != "forward":
                continue
            names = [each.arg for each in function.args.args[1:2]]
            body = function.body[is_docstring(function.body[0]) :]
            is_plain = not function.decorator_list and body and body[0].lineno > function.lineno
            text = "\n".join(map(ast.unparse, body))
            for x in names if is_plain and "yield" not in text else ():
                if re.search(rf"\b{x}\.(sqrt|softmax|sigmoid|mean|std|var|exp|log)\(", text):
                    yield function, x


CAPTURING = re.compile(r"torch\.(compile|jit|export|fx)|compiler|dynamo|capture_")


def is_docstring(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


CUDA = r"\(([\"'])cuda\1(, )?"  # the first argument


@dataclass(frozen=True)
class Kind:
    """A mistake, behind an indirection or in plain sight."""

    family: str
    name: str
    mutate: Mutation
    behind: Indirection = indirections.none


HOLDER = "class _Held:\n    def __init__(self, scaler):\n        self.scaler0 = scaler"
SCALER_IN_DICT = scaler_behind('_held["scaler"]', '_held = {{"scaler": {scaler}}}')
SCALER_IN_ATTRIBUTE = scaler_behind("_held.scaler0", "_held = _Held({scaler})", HOLDER)
SCALER_BY_GETATTR = scaler_behind(
    'getattr(_held, f"scaler{_which}")', "_held = _Held({scaler}); _which = 0", HOLDER
)

AUTOCAST = 'torch.autocast("cuda", dtype=torch.float16)'
RETURNED = f"def _region():\n    return {AUTOCAST}"
CHOSEN = f"""import contextlib
import os


def _region():
    return {AUTOCAST} if os.environ.get("AMP") else contextlib.nullcontext()"""
GENERATOR = f"""import contextlib


@contextlib.contextmanager
def _region():
    with {AUTOCAST}:
        yield"""
STACK = f"""import contextlib


@contextlib.contextmanager
def _region():
    with contextlib.ExitStack() as stack:
        stack.enter_context({AUTOCAST})
        yield"""

MASKED = "def _masked(scores):\n    return scores.masked_fill(scores > 0, -1e9)"
HOLDING = """import dataclasses


@dataclasses.dataclass
class _Held:
    scores: torch.Tensor"""

NORM_OF = """def _norm_of(optimizer):
    grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
    return torch.stack([grad.norm() for grad in grads]).norm()"""

TOLD = """def _told(value):
    return value.item()


def _tell(value):
    return _told(value)"""
ONE_OF_TWO = """import os


def _tell(value):
    return value.item()


def _ignore(value):
    return 0.0


_report = _tell if os.environ.get("REPORT") else _ignore"""
METER = """class _Meter:
    def __init__(self):
        self.total = 0.0

    def update(self, value):
        self.total += value.item()


_meter = _Meter()"""
BUILDERS = """def _zeros(*size, dtype=None):
    return torch.zeros(*size, dtype=dtype)


def _ones(*size, dtype=None):
    return torch.ones(*size, dtype=dtype)"""

MPS_OR_CUDA = 'torch.device("mps" if torch.backends.mps.is_available() else "cuda")'
DEVICE_OF = f"def _device():\n    return {MPS_OR_CUDA}"

# The codes of which a new finding counts.
CODES: dict[str, tuple[str, ...]] = {
    "scaler": ("AMP4",),
    "region": ("AMP3",),
    "dtype": ("AMP2", "AMP8"),
    "reads": ("AMP1",),
    "placement": ("AMP5",),
    "migration": ("AMP7",),
    "parallel": ("AMP6",),
    # Of the rules that have a family for themselves, so that no other one's finding counts.
    "off": ("AMP308",),
    "reported": ("AMP419",),
    "outside": ("AMP315",),
    "device": ("AMP316",),
    "reduced": ("AMP603",),
    "skipped": ("AMP604",),
    "captured": ("AMP114",),
}

MUTATIONS: tuple[Kind, ...] = (
    Kind("scaler", "update removed", update_removed),
    Kind("scaler", "step past the scaler", step_past),
    Kind("scaler", "backward past the scaler", backward_past),
    Kind("scaler", "unscale_ removed", unscale_removed),
    Kind("scaler", "unscale_ after the clip", unscale_after_clip),
    Kind("scaler", "unscale_ twice", unscaled_twice),
    Kind("scaler", "step twice", stepped_twice),
    Kind("scaler", "zero_grad before the step", cleared_before_step),
    Kind("scaler", "scaler made in the loop", made_in_loop),
    Kind("scaler", "state not saved", state_not_saved),
    Kind(
        "scaler",
        "norms logged before unscale_",
        read_before_unscale(
            'for _each in {optimizer}.param_groups[0]["params"]:',
            "    print(_each.grad.norm())",
        ),
    ),
    Kind(
        "scaler",
        "norm of a helper before unscale_",
        read_before_unscale("_norm = _norm_of({optimizer})", "print(_norm)"),
        helper(NORM_OF),
    ),
    Kind("scaler", "update for each optimizer", updated_for_each),
    Kind("scaler", "state not saved, by a helper", state_not_saved, indirections.saved_by_helper),
    Kind("off", "scaler switched off", switched_off),
    Kind("scaler", "update removed, scaler in a dict", update_removed, SCALER_IN_DICT),
    Kind("scaler", "step past, scaler in an attribute", step_past, SCALER_IN_ATTRIBUTE),
    Kind("scaler", "step twice, scaler by getattr", stepped_twice, SCALER_BY_GETATTR),
    Kind("scaler", "backward past, scaler wrapped", backward_past, indirections.scaler_wrapped),
    Kind(
        "scaler",
        "unscale_ removed, clip in a helper",
        unscale_removed,
        indirections.clip_in_helper,
    ),
    Kind("region", "backward inside", backward_inside),
    Kind("region", "loop inside", loop_inside('torch.autocast("cuda")')),
    Kind("region", "loss outside", loss_outside),
    Kind("region", "island", island),
    Kind("region", "enabled lost", enabled_lost),
    Kind("region", "loop inside, region returned", loop_inside("_region()"), helper(RETURNED)),
    Kind("region", "loop inside, region chosen", loop_inside("_region()"), helper(CHOSEN)),
    Kind("region", "loop inside, region generated", loop_inside("_region()"), helper(GENERATOR)),
    Kind("region", "loop inside, region on a stack", loop_inside("_region()"), helper(STACK)),
    Kind(
        "dtype",
        "factory",
        beside_half("{x} = torch.cat([{x}, torch.zeros({x}.shape, device={x}.device)])"),
    ),
    Kind(
        "dtype",
        "where",
        beside_half("{x} = torch.where({x} > 0, {x}, torch.zeros(1, device={x}.device))"),
    ),
    # Of a mean: under autocast a sum is float32, and the number no mistake.
    Kind("dtype", "epsilon", beside_half("{x} = {x} / ({x}.mean() + 1e-8)")),
    Kind("dtype", "mask", beside_half("{x} = {x}.masked_fill({x} > 0, -1e9)")),
    Kind("dtype", "mask in a helper", beside_half("{x} = _masked({x})"), helper(MASKED)),
    Kind(
        "dtype",
        "mask of an entry",
        beside_half(
            '_held = {{"scores": {x}}}',
            '{x} = _held["scores"].masked_fill(_held["scores"] > 0, -1e9)',
        ),
    ),
    Kind(
        "dtype",
        "mask of a field",
        beside_half(
            "_held = _Held(scores={x})", "{x} = _held.scores.masked_fill(_held.scores > 0, -1e9)"
        ),
        helper(HOLDING),
    ),
    Kind("reads", "item", read_in_loop("_seen = {loss}.item()")),
    Kind("reads", "print", read_in_loop("print({loss})")),
    Kind("reads", "test", read_in_loop("if {loss} > 10:", "    _large = True")),
    Kind("reads", "comprehension", read_in_loop("_seen = [each.item() for each in [{loss}]]")),
    Kind("reads", "helper", read_in_loop("_seen = _tell({loss})"), helper(TOLD)),
    Kind("reads", "one of two", read_in_loop("_seen = _report({loss})"), helper(ONE_OF_TWO)),
    Kind("reads", "method", read_in_loop("_meter.update({loss})"), helper(METER)),
    Kind(
        "reads",
        "item, backward by an engine",
        read_in_loop("_seen = {loss}.item()"),
        indirections.backward_by_engine,
    ),
    Kind("placement", "built on the host", built_on_host(FACTORIES)),
    Kind("placement", "moved later", moved_later),
    Kind(
        "placement",
        "built in a helper",
        built_on_host({"torch.zeros": "_zeros", "torch.ones": "_ones"}),
        helper(BUILDERS),
    ),
    Kind("migration", "in full", renamed("import torch", "torch.cuda.amp.{name}")),
    Kind("migration", "from", renamed("from torch.cuda.amp import {name}", "{name}")),
    Kind("migration", "from, as", renamed("from torch.cuda.amp import {name} as old", "old")),
    Kind(
        "migration", "from, the module", renamed("from torch.cuda import amp as old", "old.{name}")
    ),
    Kind("migration", "import, as", renamed("import torch.cuda.amp as old", "old.{name}")),
    Kind(
        "migration",
        "imported inside",
        renamed("from torch.cuda.amp import {name} as old", "old", True),
    ),
    Kind("parallel", "DataParallel", in_data_parallel),
    Kind(
        "reported",
        "scaled loss in a list",
        scaled_loss_told("_losses.append(_scaled.item())"),
        helper("_losses = []"),
    ),
    Kind("reported", "scaled loss printed", scaled_loss_told('print(f"loss {_scaled:.4f}")')),
    Kind("reported", "scaled loss kept", scaled_loss_kept),
    Kind("region", "backward alone inside", forward_before()),
    Kind("outside", "division alone inside", forward_before("{loss} = {loss} / 4")),
    Kind("device", "moved to mps", on_another_device('"mps"')),
    Kind("device", "device chosen", on_another_device("_device", f"_device = {MPS_OR_CUDA}")),
    Kind("device", "device of a helper", on_another_device("_device()"), helper(DEVICE_OF)),
    Kind("reduced", "backward alone in no_sync", backward_in_no_sync),
    Kind("skipped", "no_sync when it steps", step_not_synced(when_it_steps)),
    Kind("skipped", "no_sync one too early", step_not_synced(counted_from_one_less)),
    Kind(
        "captured",
        "item when compiled",
        read_when_compiled("@torch.compile", "_largest = {x}.abs().max().item()"),
    ),
    Kind(
        "captured",
        "test when compiled whole",
        read_when_compiled(
            "@torch.compile(fullgraph=True)", "if {x}.abs().max() > 1e4:", "    {x} = {x} / 2"
        ),
    ),
    Kind(
        "captured",
        "read by a helper",
        read_when_compiled("@torch.compile", "_mark({x})"),
        helper("def _mark(values):\n    return float(values.mean())"),
    ),
)
