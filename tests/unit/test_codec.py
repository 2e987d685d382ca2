"""What is kept of a file's index is what was there, to the type of each constant."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.ir.codec import Record, packed, unpacked
from amplint.ir.file_index import File
from amplint.ir.model import CallShape
from amplint.util.text import Text
from tests.helpers import ROOT
from tests.unit.test_trees import graphs as graphs_of

STDLIB = Path(sys.base_prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
# CPython tests its own parser with these: every kind of statement, expression and constant.
GRAMMAR = "test_grammar test_patma test_unpack_ex test_syntax test_fstring test_complex test_float"

SOURCES = [
    *ROOT.glob("amplint/**/*.py"),
    *ROOT.glob("fixtures/**/*.py"),
    *(STDLIB / "test" / f"{name}.py" for name in GRAMMAR.split()),
]
CONSTANTS = """\
values = 1, True, 1.0, 0.0, -0.0, 1e999, 1e999 - 1e999, 3j, 0j, None, ..., b"\\xff", "\\ud800", ""
big = 0x{}, -9223372036854775809, 9223372036854775808, 18446744073709551616
named = {{1: 0, True: 1, 1.0: 2, b"x": 3, ...: 4, None: 5, "x": 6, 2j: 7, **{{}}}}

def f(a=1, b=True, c=1.0, d=..., e="\\udfff", *f, g=(lambda: 1j), **h):
    return (lambda x=(lambda: 0): x)(a), (lambda: 2)

def f(a: "lambda: 0" = lambda: 1): return lambda: a
""".format("f" * 3000)


def same(text: str) -> None:
    plain = File("a/b.py", text)
    record = plain.encoded()
    kept = File("a/b.py", text, None, Record("a/b.py", record))
    graphs = graphs_of(plain)
    names = list(graphs)
    assert graphs_of(kept) == graphs
    assert kept.facts == plain.facts
    # `repr` tells 1, True and 1.0 apart, and -0.0 from 0.0; it is equal for two NaN.
    for function in names:
        assert repr(kept.graph(function)) == repr(graphs[function])
        assert repr(kept.facts.functions[function].params) == repr(
            plain.facts.functions[function].params
        )
    assert kept.stored_from_outside == plain.stored_from_outside
    # A file that comes from a record is placed like one that was parsed.
    standings = [[*file.placed().within(f).values()] for file in (kept, plain) for f in names]
    assert standings[: len(names)] == standings[len(names) :]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
def test_all_graphs_and_facts_are_as_they_were() -> None:
    found = 0
    for path in SOURCES:
        if path.is_file():
            same(Text.read(path).text)
            found += 1
    assert found > 300


def test_every_kind_of_constant() -> None:
    same(CONSTANTS)


CONSTANT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.binary()
    | st.just(...) | st.text(st.characters()) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3).map(tuple)
    | st.builds(CallShape, st.integers(), st.tuples(st.text()), st.booleans(), st.text()),
    max_leaves=5,
)  # fmt: skip


@given(CONSTANT)
def test_a_constant_is_packed_and_unpacked(value: object) -> None:
    assert repr(unpacked(packed(value))) == repr(value)


def test_what_is_no_constant_is_refused() -> None:
    with pytest.raises(TypeError, match="a set is no constant"):
        packed({1})


def test_lambdas_appear_with_the_graph_around_them() -> None:
    text = "def f():\n    return lambda: 0\n\ndef f():\n    return lambda: 1\n"
    plain = File("a.py", text)
    for file in (File("a.py", text, None, Record("a.py", plain.encoded())), plain):
        assert set(file.facts.functions) == {"a.py::", "a.py::f", "a.py::f#2"}
        file.graph("a.py::f#2")
        assert set(file.facts.functions) == {"a.py::", "a.py::f", "a.py::f#2", "a.py::f#2.<lambda>"}


@pytest.mark.parametrize("cut", [0, 1, 10, -1])
def test_a_record_that_was_cut_is_an_error(cut: int) -> None:
    record = File("a.py", "def f(x):\n    return x\n").encoded()
    with pytest.raises(ValueError, match=r"truncated|format"):
        Record("a.py", record[:cut])
