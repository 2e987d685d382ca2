"""What stands between a mistake and what it is about: a helper, an attribute, a dict, an engine.

Each indirection changes a file without changing what it does, or returns None where it has no place
in that file. mutations.py then makes the mistake behind it. What an indirection alone brings is in
the text that a mutant is compared with.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

Indirection = Callable[[str], str | None]
Edit = tuple[int, int, str]  # of the text's bytes: from, to, what replaces them

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
ENGINE = "_accelerator"
CLIPPING = re.compile(r"\b(torch\.)?(nn\.)?utils\.clip_grad_norm_\(")


def none(text: str) -> str:
    return text


def helper(*lines: str) -> Indirection:
    """Lines of a module's own, which the mutations then call."""

    def change(text: str) -> str | None:
        first = next((line for line in ast.parse(text).body if is_definition(line)), None)
        if first is None:
            return None
        row = min([first.lineno, *(each.lineno for each in first.decorator_list)]) - 1
        before, after = text.split("\n")[:row], text.split("\n")[row:]
        return "\n".join([*before, *"\n".join(lines).split("\n"), "", "", *after])

    return change


def is_definition(line: ast.stmt) -> bool:
    return isinstance(line, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)


def scaler_behind(read: str, made: str, *lines: str) -> Indirection:
    """The scaler of each function that steps by it is kept elsewhere, and read from there.

    Args:
        read: what stands for the scaler then.
        made: what keeps it, with the scaler's own name in it; several lines are separated by `;`.
        lines: what that needs in the module.
    """

    def change(text: str) -> str | None:
        edits: list[Edit] = []
        for function in ast.walk(ast.parse(text)):
            if isinstance(function, FUNCTION):
                edits += kept_elsewhere(text, function, read, made)
        changed = edited(text, edits)
        return helper(*lines)(changed) if changed is not None and lines else changed

    return change


def kept_elsewhere(
    text: str, function: ast.FunctionDef | ast.AsyncFunctionDef, read: str, made: str
) -> Iterator[Edit]:
    """The edits that keep the scaler of a function elsewhere, if it is a variable of its own."""
    name = next(stepping_scalers(function), None)
    nodes = list(ast.walk(function))
    if name is None or any(isinstance(n, FUNCTION) for n in nodes if n is not function):
        return
    stores = [
        line
        for line in nodes
        if isinstance(line, ast.Assign) and name in {ast.unparse(each) for each in line.targets}
    ]
    parameters = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
    first = function.body[0]
    is_doc = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    if len(stores) == 1 and stores[0] in function.body:
        after: ast.stmt = stores[0]
    elif not stores and name in parameters and len(function.body) > 1:
        after = first if is_doc else function.body[0]
    else:
        return
    indent = " " * after.col_offset
    new = "".join(f"\n{indent}{line.strip()}" for line in made.format(scaler=name).split(";"))
    end = offset(text, after.end_lineno or 0, after.end_col_offset or 0)
    yield end, end, new
    for node in nodes:
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            start = offset(text, node.lineno, node.col_offset)
            if start > end and read:
                yield start, start + len(name.encode()), read


def stepping_scalers(function: ast.AST) -> Iterator[str]:
    """The variables whose `step` is given an optimizer."""
    for call in ast.walk(function):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "step"
            and len(call.args) == 1
            and isinstance(call.func.value, ast.Name)
            and "scaler" in call.func.value.id.lower()
        ):
            yield call.func.value.id


def scaler_wrapped(text: str) -> str | None:
    """A class of the project forwards to each scaler that a file makes."""
    edits = []
    for line in ast.walk(ast.parse(text)):
        if (
            isinstance(line, ast.Assign)
            and isinstance(line.value, ast.Call)
            and ast.unparse(line.value.func).endswith("GradScaler")
            and len(line.targets) == 1
        ):
            start, end = (
                offset(text, line.value.lineno, line.value.col_offset),
                offset(text, line.value.end_lineno or 0, line.value.end_col_offset or 0),
            )
            edits += [(start, start, "_Scaling("), (end, end, ")")]
    changed = edited(text, edits)
    return helper(FORWARDING)(changed) if changed is not None else None


FORWARDING = """class _Scaling:
    def __init__(self, scaler):
        self._scaler = scaler

    def scale(self, loss):
        return self._scaler.scale(loss)

    def unscale_(self, optimizer):
        self._scaler.unscale_(optimizer)

    def step(self, optimizer):
        self._scaler.step(optimizer)

    def update(self):
        self._scaler.update()

    def state_dict(self):
        return self._scaler.state_dict()

    def load_state_dict(self, state):
        self._scaler.load_state_dict(state)"""


def clip_in_helper(text: str) -> str | None:
    """A function of the file clips the gradients."""
    changed = CLIPPING.sub("_clip(", text)
    return helper(CLIP)(changed) if changed != text else None


def saved_by_helper(text: str) -> str | None:
    """A function of the file saves the checkpoints."""
    changed = text.replace("torch.save(", "_save(")
    return (
        helper("def _save(state, path):\n    torch.save(state, path)")(changed)
        if changed != text
        else None
    )


CLIP = """def _clip(parameters, max_norm, norm_type=2.0):
    parameters = [each for each in parameters if each.grad is not None]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)"""


def backward_by_engine(text: str) -> str | None:
    """An engine runs the backward pass: `accelerator.backward(loss)`."""
    edits = []
    for line in ast.walk(ast.parse(text)):
        if isinstance(line, ast.Expr) and (loss := backpropagated(line.value)):
            start = offset(text, line.lineno, line.col_offset)
            end = offset(text, line.end_lineno or 0, line.end_col_offset or 0)
            edits.append((start, end, f"{ENGINE}.backward({loss})"))
    made = ["from accelerate import Accelerator", "", f"{ENGINE} = Accelerator()"]
    changed = edited(text, edits)
    return helper(*made)(changed) if changed is not None else None


def backpropagated(call: ast.expr) -> str | None:
    """`loss` of `loss.backward()` and of `scaler.scale(loss).backward()`."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    owner = call.func.value
    if call.func.attr != "backward" or call.args:
        return None
    if isinstance(owner, ast.Call) and "scaler.scale" in ast.unparse(owner.func).lower():
        owner = owner.args[0]
    return owner.id if isinstance(owner, ast.Name) else None


def offset(text: str, row: int, column: int) -> int:
    """The place in the bytes of a text of a position of `ast`."""
    return sum(len(line.encode()) + 1 for line in text.split("\n")[: row - 1]) + column


def edited(text: str, edits: list[Edit]) -> str | None:
    if not edits:
        return None
    raw = text.encode()
    for start, end, new in sorted(edits, reverse=True):
        raw = raw[:start] + new.encode() + raw[end:]
    return raw.decode()
