"""Of long literals of data the trees have a sample: values and places are as of all of it."""

from __future__ import annotations

import ast
from pathlib import Path

import libcst as cst
import pytest

from amplint.ir import data
from amplint.ir.data import sampled
from amplint.source.segments import Units, place
from amplint.util.text import Text
from amplint.values.lattice import MAX_ALTERNATIVES, MAX_KEYS, MAX_LENGTHS, MAX_STRINGS
from tests.helpers import fix
from tests.unit.test_inference import value

COUNT = range(300)
NUMBERS = ", ".join(f"{'+-'[n % 2]}{n % 7}" for n in COUNT)
NAMES = ", ".join(f"'name{n}'" for n in COUNT)
LITERALS = [
    f"[{NUMBERS}]",
    f"({NAMES})",
    f"{{{NUMBERS}}}",
    *(
        f"[{', '.join(elements)}]"
        for elements in (
            ["1", "True", "1.0"] * 100,
            [f"{n}.5" if n == 200 else f"{n}" for n in COUNT],
            ["('a')", "('b' # of, two\n)"] * 200,
            [f"('é{n}', {n}, None, [{n}, 1.5])" for n in COUNT],
            [f"({n},), ({n}, 'x')" for n in COUNT],
            [f"[{'0, ' * (n % 5)}]" for n in COUNT],
            [f"{{'a': {n}, 'k{n % 20}': 'x', 1: {{}}}}" for n in COUNT],
            [f"{n}, torch.zeros({n})" if n in (0, 250) else f"{n}" for n in COUNT],
        )
    ),
]
DICTS = [
    f"{{{', '.join(items)}}}"
    for items in (
        [f"'k{n}': {n}" for n in COUNT],
        [f"'k{n}': ('x', {n})" for n in COUNT],
        [f"{n}: 'x'" for n in COUNT],
        [f"({n}, 1): {{'a': {n}}}" for n in COUNT],
        [f"'k{n}': {n}, **d" if n == 250 else f"'k{n}': {n}" for n in COUNT],
    )
]
LONG_ROWS = f"[{', '.join([f'[{NUMBERS}]'] * 200)}]"


def test_more_is_in_a_sample_than_values_tell_apart() -> None:
    assert data.KEYS > MAX_KEYS
    assert max(MAX_ALTERNATIVES, MAX_STRINGS, MAX_LENGTHS) < data.ALIKE


def test_what_is_taken_out_has_the_value_that_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    for literal in (*LITERALS, *(f"{literal}.values()" for literal in DICTS)):
        program = f"def main(d):\n    for each in {literal}:\n        print(each)\n"
        sample = value("each", program)
        with monkeypatch.context() as patch:
            patch.setattr(data, "SHORT", len(program))
            assert value("each", program) == sample, literal


def test_libcst_reads_the_sample_and_its_nodes_stand_where_they_did() -> None:
    for literal in (*LITERALS, *DICTS, LONG_ROWS):
        text = Text(f"class É:\r\n    x = f({literal}, k=g(1)); y = h(2)\r\n")
        units = Units(text, sampled(ast.parse(text.text), text.text))
        trees = [units.tree(unit) for unit in units.units]
        assert sum(len(tree.nodes) for tree in trees) < 1500, literal
        calls = [
            (tree.spans.of(node), place(text, tree.pairs[id(node)]))
            for tree in trees
            for node in tree.nodes
            if isinstance(node, cst.Call)
        ]
        assert len(calls) >= 3
        assert all(of_libcst == of_ast for of_libcst, of_ast in calls), literal


def test_a_tree_is_no_larger_for_twice_the_data() -> None:
    def size(text: str) -> int:
        return sum(1 for _ in ast.walk(sampled(ast.parse(text), text)))

    assert size(f"x = [{NUMBERS}, {NUMBERS}]") <= size(f"x = [{NUMBERS}]")


def test_an_index_of_many_names_is_left_as_it_is() -> None:
    text = f"x: Literal[{NAMES}]\n"
    assert ast.dump(sampled(ast.parse(text), text)) == ast.dump(ast.parse(text))


def test_a_fix_leaves_the_data_as_they_are(tmp_path: Path) -> None:
    text = f"import torch\nmask = torch.FloatTensor([{NUMBERS}]).cuda()\n"
    text = fix({"main.py": text.encode()}, tmp_path, unsafe=True)["main.py"].decode()
    assert f"torch.tensor([{NUMBERS}]" in text
