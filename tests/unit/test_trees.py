"""Trees that were forgotten, and functions that are parsed alone: nothing is told from the rest."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from amplint.ir.ast_cache import FunctionNode, TreeCache, function_alone
from amplint.ir.file_index import File
from amplint.ir.model import Graph
from amplint.ir.ssa import where
from amplint.run import session
from amplint.run.engine import run
from amplint.util.text import Text
from tests.helpers import ROOT, Files, folders, lint, modules, request, write

# One module in ten of what stands here.
SOURCES = sorted(
    path for room in ("amplint", "tests", "fixtures") for path in (ROOT / room).rglob("*.py")
)[::10]


def functions(tree: ast.Module) -> list[FunctionNode]:
    return [node for node in ast.walk(tree) if isinstance(node, FunctionNode)]


# ----------------------------------------------------------------------------- a function alone


def test_a_function_alone_is_the_one_in_its_file() -> None:
    found = 0
    for path in SOURCES:
        text = Text.read(path).text
        lines = text.split("\n")
        for node in functions(ast.parse(text)):
            alone = function_alone(lines, where(node))
            assert alone is not None, (path, node.name)
            node.decorator_list = []  # they are the scope's around it
            assert ast.dump(alone, include_attributes=True) == ast.dump(
                node, include_attributes=True
            )
            found += 1
    assert found > 500


@pytest.mark.parametrize(
    "text",
    [
        "if x:\n\tdef f(a):\n\t\treturn a\n",
        "class C:\n  async def f(self): return 1; x = 2\n",
        "class C:\n    def f(self):\n        return '''\nno indent\n''' + u'é'\n",
        "def g():\n    @wrap(\n        1)\n    def f(a=lambda: 0): nonlocal x; return (yield)\n",
        "try:\n    pass\nfinally:\n    def f(): \\\n        return 1\n",
    ],
)
def test_a_function_alone_however_it_is_indented(text: str) -> None:
    for node in functions(ast.parse(text)):
        node.decorator_list = []
        alone = function_alone(text.split("\n"), where(node))
        assert alone is not None
        assert ast.dump(alone, include_attributes=True) == ast.dump(node, include_attributes=True)


@pytest.mark.parametrize(
    "text",
    [
        # The line before goes on: alone, the function would be indented otherwise.
        "class C:\n    x = 1\n\\\n    def f(self): return 1\n",
        "class C:\n    \\\n  def f(self): return 1\n",
    ],
)
def test_a_function_that_cannot_be_had_alone_is_none_or_the_same(text: str) -> None:
    (node,) = functions(ast.parse(text))
    alone = function_alone(text.split("\n"), where(node))
    assert alone is None or ast.dump(alone, include_attributes=True) == ast.dump(
        node, include_attributes=True
    )


# -------------------------------------------------------------------------- trees are forgotten


def graphs(file: File) -> dict[str, Graph]:
    """All graphs of a file, lambdas included."""
    known: dict[str, Graph] = {}
    while new := file.facts.functions.keys() - known.keys():
        for function in sorted(new):
            known[function] = file.graph(function)
    return known


def places(file: File) -> list[tuple[str, str, int, int]]:
    """Where the expressions of a file stand, each by its text and place."""
    return sorted(
        (f"{where(node)} {type(node).__name__}", *at)
        for function in graphs(file)
        for node, at in file.placed().within(function).items()
        if isinstance(node, ast.expr)
    )


LAMBDAS = """\
def f():
    return f"{(lambda x: x + 1)(2)}" f"{(lambda y, q=3: y.item())(3)} {(lambda: 0)()}"

class C:
    x: "lambda: 0" = 1
    def g(self, k: "(lambda: 1)()" = lambda: 2): return lambda: lambda v: v
"""


def test_graphs_and_places_are_the_same_when_the_tree_was_forgotten() -> None:
    for text in (LAMBDAS, *(Text.read(path).text for path in SOURCES[::2])):
        kept, forgetful = File("a.py", text), File("a.py", text)
        forgetful.forget()
        assert graphs(forgetful) == graphs(kept)
        forgetful.forget()
        assert forgetful.facts == kept.facts
        assert places(forgetful) == places(kept)
        assert forgetful.stored_from_outside == kept.stored_from_outside


def test_the_tree_that_somebody_holds_stays_that_of_the_nodes_placed() -> None:
    file = File("a.py", "def f(x):\n    return x.item()\n")
    file.graph("a.py::f")
    held = file.placed()
    file.forget()
    again = file.placed()
    assert held.module is not again.module
    for placed in (held, again):
        standings = placed.within("a.py::f")
        assert len(standings) == 3
        nodes = [node for node in ast.walk(placed.module) if placed.get(node) is not None]
        assert {node: placed.get(node) for node in nodes} == standings


class Tree:
    """What a shelf holds."""

    def __init__(self, size: int) -> None:
        self.text = "x" * size
        self.forgotten = 0

    def forget(self) -> None:
        self.forgotten += 1


def test_a_shelf_keeps_what_was_asked_for_last() -> None:
    tree_cache = TreeCache(10)
    first, second, third = Tree(4), Tree(4), Tree(4)
    tree_cache.put(first)
    tree_cache.put(second)
    tree_cache.put(first)
    tree_cache.put(third)
    assert [first.forgotten, second.forgotten, third.forgotten] == [0, 1, 0]
    tree_cache.put(second)
    assert [first.forgotten, second.forgotten, third.forgotten] == [1, 1, 0]


def test_a_tree_without_room_is_kept_until_the_next() -> None:
    tree_cache = TreeCache(3)
    large, small = Tree(9), Tree(1)
    tree_cache.put(large)
    assert large.forgotten == 0
    tree_cache.put(small)
    assert [large.forgotten, small.forgotten] == [1, 0]


def files_of_fixtures() -> Files:
    """Of every eighth fixture."""
    return {
        f"{folder}/{path}": data
        for folder in folders()[::8]
        for path, data in modules(folder).items()
    }


def test_what_is_found_does_not_depend_on_the_trees_that_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_of_fixtures()
    kept = run(request(files, write(files, tmp_path)))
    analyse_part, shelves = session.analyse_part, []

    def forgetful(part, task, processes=1):  # type: ignore[no-untyped-def]
        shelves.append(TreeCache(0))
        return analyse_part(part, replace(task, tree_cache=shelves[-1]), processes)

    monkeypatch.setattr(session, "analyse_part", forgetful)
    forgotten = run(replace(request(files, tmp_path), indexed={}))
    assert shelves
    assert forgotten.findings == kept.findings
    assert len(kept.findings) > 50
    assert lint(files, tmp_path).findings == kept.findings
