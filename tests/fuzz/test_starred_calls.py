"""Calls with stars of every function that amplint knows by name, and nothing that counts operands.

Behind a star, the operands of a call and its arguments are not the same in number.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from amplint import knowledge
from amplint.run import engine
from amplint.testing import write
from benchmarks.robustness.files import request

ROOT = Path(__file__).resolve().parent.parent.parent
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+|\.[A-Za-z_]\w*")  # torch.cat, .item
METHOD = re.compile(r"(?:Tensor)?\.([A-Za-z_]\w*)")
ARGUMENTS = (
    "", "*slot", "*longer", "*rest", "*()", "**options", "x, *rest", "*slot, n, *rest",
    "*pair, dim=0", "*x, -1e9",
)  # fmt: skip
# `slot` is one of two tuples of one length, `longer` of two; of `rest`, nothing is known.
FUNCTION = """

def test{number}(x, n, rest, options, flag):
    x = x.cuda()
    slot = (x, "forward") if flag else (x, "original")
    longer = (x,) if flag else (x, n, 0)
    pair = [x, n]
    for batch in rest:
        loss = x.mean()
        loss.backward()
"""
PARTS = 4
ENGINE = ("amplint/inference", "amplint/facts", "amplint/analyses", "amplint/gradscaler")


def known_names() -> set[str]:
    """The dotted names in the tables of amplint, and those that its code and rules ask for."""
    texts: set[str] = set()
    for module in pkgutil.iter_modules(knowledge.__path__):
        tables = importlib.import_module(f"{knowledge.__name__}.{module.name}")
        texts.update(each for value in vars(tables).values() for each in strings(value))
    for tree in trees(*ENGINE, "rules"):
        constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
        texts.update(each for each in constants if isinstance(each, str))
    return {each for each in texts if DOTTED.fullmatch(each)}


def trees(*directories: str) -> Iterator[ast.Module]:
    for directory in directories:
        for path in sorted((ROOT / directory).rglob("*.py")):
            yield ast.parse(path.read_text("utf-8"), path.relative_to(ROOT).as_posix())


def strings(table: object) -> Iterator[str]:
    """The texts in a table."""
    if isinstance(table, str):
        yield table
    elif isinstance(table, Mapping | frozenset | set | tuple | list):
        for each in table:
            yield from strings(each)


def program(names: Sequence[str]) -> str:
    """A function for each name, which calls what has it, and then the result."""
    imports, functions = {"import torch"}, ""
    for number, name in enumerate(names):
        method, (module, _, function) = METHOD.fullmatch(name), name.rpartition(".")
        if method is not None:
            callee = f"x.{method[1]}"
        elif module == "builtins":
            callee = function
        else:
            callee = name
            imports.add(f"import {module}")
        functions += FUNCTION.format(number=number)
        functions += "".join(f"        y = {callee}({given})\n" for given in ARGUMENTS)
        functions += "        y(*slot, x).item(*rest)\n        scaler.step(y, *rest)\n"
    return "\n".join(sorted(imports)) + functions


NAMES = sorted(known_names())


def test_the_special_names_are_among_them() -> None:
    special = ("getattr", "isinstance", "len", "zip", "super", "iter", "map", "enumerate")
    assert {*(f"builtins.{name}" for name in special), "functools.partial"} <= set(NAMES)
    assert {"torch.where", "torch.cat", "Tensor.item", "torch.nn.Linear"} <= set(NAMES)


@pytest.mark.parametrize("part", range(PARTS))
def test_starred_calls_of_every_name_are_checked(part: int, tmp_path: Path) -> None:
    names = NAMES[part::PARTS]
    files = {f"m{start}.py": program(names[start::20]).encode() for start in range(20)}
    assert all(ast.parse(each) for each in files.values())
    assert engine.run(request(write(files, tmp_path), files)).problems == ()


def test_nothing_else_counts_the_operands_of_a_call() -> None:
    """`Node` has `argument`, `arguments`, `positional` and `named` for that, and `second` for other
    operations. The callee, or the only operand, is `operands[0]`."""
    counted = [
        ast.unparse(node)
        for is_engine, rooms in ((True, ENGINE), (False, ("rules",)))
        for tree in trees(*rooms)
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "operands"
        and not is_plain(node.slice)
        # Rules ask Views: of what is called so, `arguments` and `arg` are for that.
        and (is_engine or ast.unparse(node.value.value) in ("call", "fill", "moving"))
    ]
    assert counted == []


def is_plain(index: ast.expr) -> bool:
    """Ex) [0], [-1], [:2], [name]"""
    if isinstance(index, ast.Slice):
        return index.lower is None
    if isinstance(index, ast.UnaryOp):
        return True
    return isinstance(index, ast.Name) or (isinstance(index, ast.Constant) and index.value == 0)
