"""Random edits of a project, as people make them, sensible or not.

Most touch one line of a function; some a signature, a decorator, an import, a name; some a whole
file. What comes out need not be Python.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Mapping
from typing import Union

Project = Mapping[str, str]  # texts by path
Change = Mapping[str, Union[str, None]]  # noqa: UP007 - by path, the new text; None deletes the file
FunctionNode = Union[ast.FunctionDef, ast.AsyncFunctionDef]  # noqa: UP007 - Python 3.10

LINES = (
    "x = None",
    "x = x.cuda()",
    "x = self.forward(x)",
    "loss = loss.half()",
    "y = x.item()",
    "import torch",
    "self.cache = torch.zeros(3).cuda()",
    "self.cache = self.cache + x",
    'print("hello")',
    'with torch.autocast("cuda"): y = x @ x',
    "return x",
)
RETURNED = ("None", "torch.zeros(3)", "(x, y)", "1", "self", "{}", "[x]", "x.cuda()")
GIVEN = ("None", "1", "torch.ones(2)", "self", "x", "*args", "key=x")
DECORATORS = ("@torch.no_grad()", "@staticmethod", "@property", '@torch.autocast("cuda")', "@wrap")
NEW_FUNCTION = """
def added_{number}(x, model=None):
    y = model(x) if model is not None else x
    return y.cuda().item()
"""
NEW_FILE = """import torch
import torch.nn as nn


class Added(nn.Module):
    def forward(self, x):
        for each in x:
            print(each.item())
        return torch.zeros(3).cuda()
"""


def edit(project: Project, chance: random.Random, moves: bool = False) -> tuple[str, Change]:
    """What is edited, and the new texts.

    Args:
        moves: whether to make edits that only move code.
    """
    while True:
        if moves:
            edited = chance.choice(MOVING)
        else:
            edited = chance.choices(OF_PROJECT, weights=[weight for _, weight in WEIGHTS])[0]
        change = edited(project, chance)
        if change:
            return f"{edited.__name__} {' '.join(change)}", change


# ------------------------------------------------------------------------------ in a function


def in_function(
    project: Project,
    chance: random.Random,
    change: Callable[[list[str], FunctionNode, random.Random], bool],
) -> Change | None:
    """A file in which a function is changed, line by line."""
    path = chance.choice(sorted(project))
    lines = project[path].split("\n")
    try:
        tree = ast.parse(project[path])
    except (SyntaxError, ValueError):
        return None
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    if not functions or not change(lines, chance.choice(functions), chance):
        return None
    return {path: "\n".join(lines)}


def replaced(lines: list[str], node: ast.expr, text: str) -> bool:
    """Put another text for an expression, if it stands in one line."""
    if node.lineno != node.end_lineno:
        return False
    line = lines[node.lineno - 1].encode()
    lines[node.lineno - 1] = (
        line[: node.col_offset] + text.encode() + line[node.end_col_offset :]
    ).decode()
    return True


def statements(function: FunctionNode, lines: list[str]) -> list[ast.stmt]:
    """The statements of a function that stand in a line of their own."""
    return [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.stmt)
        and node.lineno == node.end_lineno
        and not lines[node.lineno - 1][: node.col_offset].strip()
        and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]


def constant_changed(project: Project, chance: random.Random) -> Change | None:
    def change(lines: list[str], function: FunctionNode, chance: random.Random) -> bool:
        found = [
            node
            for statement in function.body
            for node in ast.walk(statement)
            if isinstance(node, ast.Constant) and type(node.value) in (int, float, bool)
        ]
        if not found:
            return False
        node = chance.choice(found)
        value = node.value
        if isinstance(value, bool):
            return replaced(lines, node, repr(not value))
        assert isinstance(value, int | float)
        return replaced(lines, node, repr(value + 1))

    return in_function(project, chance, change)


def default_changed(project: Project, chance: random.Random) -> Change | None:
    def change(lines: list[str], function: FunctionNode, chance: random.Random) -> bool:
        found = [each for each in function.args.defaults if isinstance(each, ast.Constant)]
        return bool(found) and replaced(
            lines, chance.choice(found), chance.choice(["None", "0", "0.5", "True", '"cuda"'])
        )

    return in_function(project, chance, change)


def line_added(project: Project, chance: random.Random) -> Change | None:
    def change(lines: list[str], function: FunctionNode, chance: random.Random) -> bool:
        found = statements(function, lines)
        if not found:
            return False
        before = chance.choice(found)
        lines.insert(before.lineno - 1, " " * before.col_offset + chance.choice(LINES))
        return True

    return in_function(project, chance, change)


def line_removed(project: Project, chance: random.Random) -> Change | None:
    def change(lines: list[str], function: FunctionNode, chance: random.Random) -> bool:
        found = statements(function, lines)
        if not found:
            return False
        gone = chance.choice(found)
        lines[gone.lineno - 1] = " " * gone.col_offset + "pass"
        return True

    return in_function(project, chance, change)


def line_repeated(project: Project, chance: random.Random) -> Change | None:
    def change(lines: list[str], function: FunctionNode, chance: random.Random) -> bool:
        found = statements(function, lines)
        if not found:
            return False
        number = chance.choice(found).lineno
        lines.insert(number, lines[number - 1])
        return True

    return in_function(project, chance, change)


def return_changed(project: Project, chance: random.Random) -> Change | None:
    def change(lines: list[str], function: FunctionNode, chance: random.Random) -> bool:
        found = [node for node in statements(function, lines) if isinstance(node, ast.Return)]
        if not found:
            return False
        node = chance.choice(found)
        indent = " " * node.col_offset
        lines[node.lineno - 1] = f"{indent}return {chance.choice(RETURNED)}"
        return True

    return in_function(project, chance, change)


def argument_changed(project: Project, chance: random.Random) -> Change | None:
    def change(lines: list[str], function: FunctionNode, chance: random.Random) -> bool:
        found = [
            node.args[-1]
            for statement in function.body
            for node in ast.walk(statement)
            if isinstance(node, ast.Call) and node.args
        ]
        return bool(found) and replaced(lines, chance.choice(found), chance.choice(GIVEN))

    return in_function(project, chance, change)


def decorator_added(project: Project, chance: random.Random) -> Change | None:
    def change(lines: list[str], function: FunctionNode, chance: random.Random) -> bool:
        first = min([function.lineno, *(node.lineno for node in function.decorator_list)])
        lines.insert(first - 1, " " * function.col_offset + chance.choice(DECORATORS))
        return True

    return in_function(project, chance, change)


def parameter_added(project: Project, chance: random.Random) -> Change | None:
    def change(lines: list[str], function: FunctionNode, _: random.Random) -> bool:
        number = function.lineno - 1
        new = re.sub(r"(def \w+\((?:self, |cls, )?)(?=\w)", r"\1extra, ", lines[number], count=1)
        changed = new != lines[number]
        lines[number] = new
        return changed

    return in_function(project, chance, change)


# ------------------------------------------------------------------------------ in a file


def function_renamed(project: Project, chance: random.Random) -> Change | None:
    """One function, in its own file alone, or in all."""
    path = chance.choice(sorted(project))
    names = re.findall(r"\bdef ([a-z]\w+)\(", project[path])
    if not names:
        return None
    name = chance.choice(names)
    paths = [path] if chance.random() < 0.5 else sorted(project)
    word = re.compile(rf"\b{name}\b")
    new = {each: word.sub(f"{name}_new", project[each]) for each in paths}
    return {each: text for each, text in new.items() if text != project[each]}


def class_renamed(project: Project, chance: random.Random) -> Change | None:
    path = chance.choice(sorted(project))
    names = re.findall(r"\bclass (\w+)\b", project[path])
    if not names:
        return None
    name = chance.choice(names)
    return {path: re.sub(rf"\b{name}\b", f"{name}New", project[path])}


def base_changed(project: Project, chance: random.Random) -> Change | None:
    path = chance.choice(sorted(project))
    found = list(re.finditer(r"^(\s*class \w+)(\([\w.]+\))?:", project[path], re.MULTILINE))
    if not found:
        return None
    at = chance.choice(found)
    base = chance.choice(["", "(object)", "(torch.nn.Module)", "(Exception)"])
    text = project[path]
    return {path: f"{text[: at.start()]}{at[1]}{base}:{text[at.end() :]}"}


def function_added(project: Project, chance: random.Random) -> Change | None:
    path = chance.choice(sorted(project))
    return {path: project[path] + NEW_FUNCTION.format(number=chance.randrange(100))}


def import_changed(project: Project, chance: random.Random) -> Change | None:
    path = chance.choice(sorted(project))
    lines = project[path].split("\n")
    found = [n for n, line in enumerate(lines) if re.match(r"(from|import) ", line)]
    if not found:
        return None
    number = chance.choice(found)
    if chance.random() < 0.5:
        lines.insert(number, "import torch.nn.functional as F")
    else:
        lines[number] = f"# {lines[number]}"
    return {path: "\n".join(lines)}


def global_changed(project: Project, chance: random.Random) -> Change | None:
    path = chance.choice(sorted(project))
    return {path: f"{project[path]}\nADDED = {chance.randrange(100)}\n"}


def lines_moved(project: Project, chance: random.Random) -> Change | None:
    """A comment in front of all: every place moves, and nothing else."""
    path = chance.choice(sorted(project))
    return {path: f"# {chance.randrange(100)}\n{project[path]}"}


def comment_added(project: Project, chance: random.Random) -> Change | None:
    """A comment in a line of its own, or behind code; at times a string is meant, which is code."""
    path = chance.choice(sorted(project))
    lines = project[path].split("\n")
    number = chance.randrange(len(lines))
    if chance.random() < 0.5:
        indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
        lines.insert(number, f"{indent}# x.half() {chance.randrange(100)}")
    else:
        lines[number] += f"  # x.half() {chance.randrange(100)}"
    return {path: "\n".join(lines)}


def docstring_changed(project: Project, chance: random.Random) -> Change | None:
    path = chance.choice(sorted(project))
    found = list(re.finditer(r':\n\s+"""', project[path]))
    if not found:
        return None
    at = chance.choice(found).end()
    return {path: f"{project[path][:at]}autocast({chance.randrange(100)})\n\n{project[path][at:]}"}


def broken(project: Project, chance: random.Random) -> Change | None:
    """A syntax error; a file that has one is mended."""
    path = chance.choice(sorted(project))
    mark = "\n)) broken\n"
    text = project[path]
    return {path: text.removesuffix(mark) if text.endswith(mark) else text + mark}


def mended(project: Project, _: random.Random) -> Change | None:
    found = [path for path in sorted(project) if project[path].endswith("\n)) broken\n")]
    return {path: project[path].removesuffix("\n)) broken\n") for path in found}


# ------------------------------------------------------------------------------ of files


def file_added(project: Project, chance: random.Random) -> Change | None:
    beside = chance.choice(sorted(project))
    folder = beside.rpartition("/")[0]
    path = f"{folder}/added_{chance.randrange(100)}.py".lstrip("/")
    return {path: NEW_FILE} if path not in project else None


def file_deleted(project: Project, chance: random.Random) -> Change | None:
    return {chance.choice(sorted(project)): None} if len(project) > 1 else None


def file_moved(project: Project, chance: random.Random) -> Change | None:
    path = chance.choice(sorted(project))
    new = path.removesuffix(".py") + "_moved.py"
    return {path: None, new: project[path]} if new not in project else None


# The edits, and how often each is made beside the others.
WEIGHTS: list[tuple[Callable[[Project, random.Random], Change | None], int]] = [
    (constant_changed, 12),
    (default_changed, 6),
    (line_added, 20),
    (line_removed, 12),
    (line_repeated, 4),
    (return_changed, 12),
    (argument_changed, 12),
    (lines_moved, 4),
    (decorator_added, 4),
    (parameter_added, 3),
    (function_renamed, 3),
    (class_renamed, 2),
    (base_changed, 2),
    (function_added, 4),
    (import_changed, 4),
    (global_changed, 3),
    (broken, 3),
    (mended, 3),
    (file_added, 2),
    (file_deleted, 2),
    (file_moved, 2),
]
OF_PROJECT = [edited for edited, _ in WEIGHTS]
MOVING = [lines_moved, comment_added, docstring_changed]
