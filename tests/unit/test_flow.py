"""The questions about value graphs: asked of small functions, and answered in one place."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from textwrap import indent

import pytest

from amplint.ir import flow, ops
from amplint.ir.file_index import File
from amplint.ir.model import Graph
from amplint.values.atoms import BOTTOM, NONE, Host, Tensor, is_number, may_be, one, surely
from tests.helpers import ROOT, tree_of

Ask = Callable[[Graph, int], object]
BRANCH = "if c:\n a = b\n"
LOOP = "for x in xs:\n if x: return a\n a = x"


def said(ask: Callable[[Graph, int], Iterable[int] | None]) -> Ask:
    """The question for what the nodes of an answer are: a name, or a constant."""

    def told(graph: Graph, number: int) -> object:
        found = ask(graph, number)
        return None if found is None else {str(graph.nodes[each].data) for each in found}

    return told


@pytest.mark.parametrize(
    ("ask", "answers"),
    [
        (said(flow.origins), {"a": {"a"}, f"{BRANCH}return a": {*"ab"}, LOOP: {"a", "None"}}),
        (said(flow.terms), {"a and not b > 1": {*"ab1"}, f"{BRANCH}return a > 1": {*"ab1"}}),
        (said(flow.elements), {"[a, b]": {*"ab"}, "(a,)": {"a"}, "()": set(), "a": None}),
        (said(lambda g, n: [flow.whole(g, n)]), {"a[0][b]": {"a"}, "a.b": {"b"}}),
        (flow.is_carried, {LOOP: True, f"{BRANCH}return a": False, "a": False}),
        (flow.constant, {"'x'": "x", "-1": None, "None": None, "a": None}),
        (flow.is_none, {"None": True, "0": False, "a": False}),
        (flow.is_number, {"-0.5": True, "True": True, "'1'": False, "-a": False}),
        (flow.last_name, {"a.args.verbose": "verbose", f"{BRANCH}return a": "a", "a()": ""}),
        (lambda g, n: [*flow.names_in_test(g, n)], {"a.fp16 or b[0]": ["a.fp16"], "xs(a)": []}),
        (lambda g, n: flow.method_called(g, g.nodes[n])[0], {"a.b()": "b", "a.b": "", "a()": ""}),
        (lambda g, n: g.nodes[n].operator, {"a + b": "Add", "-a": "", "a < b": ""}),
    ],
)
def test_a_question_has_its_answer(ask: Ask, answers: Mapping[str, object]) -> None:
    for text, answer in answers.items():
        body = text if "return" in text else f"return {text}"
        graph = File("m.py", f"def f(a, b, c, xs):\n{indent(body, ' ')}").graph("m.py::f")
        assert ask(graph, graph.given_back[0]) == answer, text


def test_a_value_may_be_what_it_surely_is() -> None:
    number, either = one(Host("int")), frozenset({Host("int"), Tensor()})
    assert is_number(number) and not any(map(is_number, (either, one(NONE), BOTTOM)))
    assert may_be(either, Host) and surely(number, Host) and not surely(either, Host)


def sets_of(tree: ast.Module) -> set[str]:
    """The constants of a module that are sets, or sequences, of operations."""
    operations = {f"ops.{name}" for name in vars(ops)}
    return {
        ast.unparse(node.targets[0])
        for node in tree.body
        if isinstance(node, ast.Assign)
        for part in ast.walk(node.value)
        if operations.intersection(map(ast.unparse, getattr(part, "elts", ())))
    }


def test_sets_of_operations_are_in_flow() -> None:
    """But for that of what an evaluation does without a function of its own."""
    assert sets_of(ast.parse("A = {ops.PHI} | {ops.CALL, b}\nC = {ops.PHI: 1}")) == {"A"}
    paths = (path for room in ("amplint", "rules") for path in (ROOT / room).rglob("*.py"))
    found = (sets_of(tree_of(path)) for path in paths if path.parent.name != "ir")
    assert set().union(*found) == {"QUIET"}
