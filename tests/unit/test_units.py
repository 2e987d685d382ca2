"""A file is cut into units, and every LibCST node gets the `ast` node that stands for it."""

from __future__ import annotations

import ast
import random
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.source.navigation import FSTRING_PLACES_HOLD
from amplint.source.pairing import FIELDS, ast_nodes, pair_by_order, walk
from amplint.source.segments import MAX_OPERANDS, RefusedUnitError, Tree, Units, place
from amplint.util.text import Text

# One of everything that the two trees order or nest differently.
SYNTAX = '''\
from __future__ import annotations
import a.b as c, d
from e import (f, g as h,)

@decorate(f(1), k=f(2)).more
class A(B, *C, metaclass=D, **E):
    """Doc."""
    x: int = y if (z := w) else v
    a.b, (c[1], *d) = e = f, g
    @one
    @two(lambda p, /, q=r, *s, t=u, **v: (yield))
    async def m(self, a: b, /, c: d = e, *f: g, h: i = j, k, **l: n) -> o:
        async with p(q) as r, (s): await t
        async for u, in v: continue
        else: return (yield)
        return [a async for b in c(d) if e if f for g in h] or {**i, j: k, **l, n: o}
    @property
    def n(self): return f(a=b(c), *d(e), **g(h)), f(a(b), *c(d), e=f(g), *h(i), **j(k))

def f(
    a=b(c), *, d=e(f),
):
    global x
    nonlocal_ = x[a:b(c):d, ..., e(f)][g(h)]
    del x.y, (z[i(j)])
    for a.b in c: break
    else:
        pass
    while a < b(c) <= d(e) not in f is not g: x += h(i)
    try: a(b)
    except (c, d(e)) as f: raise g(h) from i(j)
    except k: pass
    else: l(m)
    finally: n(o)
    assert a(b), c(d)
    if a(b): c
    elif d(e): f
    elif g: h
    else:
        if i: j
    return -a ** b(c) @ d // ~e & (f | g ^ h) << i, not j and k or l and (m or n)

match a(b), c:
    case [d.e, *f] | (g, _) if h(i): j
    case {"k": l.m, -1: 2 + 3j, **n} as o: p(q)
    case R(s, t=U(v)) | None | True: w(x)
g = (a for b in (c for d in e(f)) if g), {h: i for j, k in l}, {m for n in o}, [p, *q]
s = f"a{b(c)!r:>{d(e)}}{f(g)=}" "h" f'{i(j)}' f"""{
    k(l)
} {m(f'{n(o)}{p}')}"""
t = await_ = {a(b), *c}, [lambda: lambda x: x(y)]; u = v; w.x(y)
if __name__ == "__main__":
    main()
'''
NEWER_SYNTAX = {
    (3, 11): "try: a(b)\nexcept* c(d) as e: f(g)\nx[*a(b), c]\ndef f(*a: *b): ...\n",
    (3, 12): "type A[T: b(c), *U, **V] = d[e]\ndef f[T: a(b)](c: d) -> e: ...\n"
    "class B[T](c(d)): ...\nx = f'{f'{a(b)}' + c(d)}'\n",
    (3, 14): "x = t'{a(b):>{c(d)}}' and t'{t'{e()}'}'\ntry: f()\nexcept g(h), i: j()\n"
    "y = f'{a(b):{c}}', f'{d()}'\n",
    (3, 15): "lazy import a.b as c\nlazy from . import d\n"
    "x = {**e(f) for g in h(i)}, [*j(k) for l in m]\n",
}
PROGRAMS = [
    SYNTAX,
    *(text for version, text in NEWER_SYNTAX.items() if sys.version_info >= version),
]

# What stands between the nodes: white space and operators, and these.
TRIVIA_MODULES = ("libcst._nodes.whitespace", "libcst._nodes.op")
TRIVIA = (
    cst.LeftParen, cst.RightParen, cst.LeftSquareBracket, cst.RightSquareBracket,
    cst.LeftCurlyBrace, cst.RightCurlyBrace, cst.Asynchronous, cst.ParamSlash, cst.ParamStar,
)  # fmt: skip


def standard_library(count: int) -> list[str]:
    """Some modules of the standard library that are not too long, the same ones every time."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    files = [file for file in files if 2_000 < file.stat().st_size < 40_000]
    return [file.read_text("utf-8") for file in random.Random(0).sample(files, count)]


def trees(text: str) -> Iterator[Tree]:
    units = Units(Text(text), ast.parse(text))
    for unit in units.units:
        yield units.tree(unit)
    assert "_whole" not in vars(units)


def unit_texts(text: str) -> list[str]:
    return [text[unit.start : unit.end] for unit in Units(Text(text), ast.parse(text)).units]


# ------------------------------------------------------------------------------- the field table


def by_children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from by_children(child)


@pytest.mark.parametrize("text", [*PROGRAMS, *standard_library(8)], ids=lambda text: text[:20])
def test_the_table_of_fields_is_in_source_order_and_misses_nothing(text: str) -> None:
    module = cst.parse_module(text)
    nodes, parents = walk(module.body)
    known = {id(node) for node in nodes}
    everything = list(by_children(module))[1:]
    assert [node for node in everything if id(node) in known] == nodes
    for node in everything:
        for child in node.children:
            if id(child) in known:
                assert parents[id(child)] is node
    for node in everything:
        if id(node) not in known and type(node).__module__ not in TRIVIA_MODULES:
            # Names that are no expressions, and what holds nothing but them.
            names = (cst.Name, cst.Attribute, cst.NameItem, cst.AsName)
            assert isinstance(node, (*TRIVIA, *names)), node


def test_every_kind_with_children_that_matter_is_in_the_table() -> None:
    seen = {
        type(node)
        for text in PROGRAMS
        for node in walk(cst.parse_module(text).body)[0]
        if type(node) in FIELDS
    }
    missing = {kind.__name__ for kind in FIELDS if kind not in seen and kind is not cst.CSTNode}
    known_to_be_newer = {
        "LazyImport",
        "LazyImportFrom",
        "StarredDictComp",
        "TemplatedString",
        "TemplatedStringExpression",
    }
    if sys.version_info < (3, 12):
        known_to_be_newer |= {"TypeAlias", "TypeParam", "TypeParameters", "TypeVar"}
    if sys.version_info < (3, 11):
        known_to_be_newer |= {"TryStar", "ExceptStarHandler"}
    assert missing <= known_to_be_newer


# ------------------------------------------------------------------------------- pairing


@pytest.mark.parametrize("text", [*PROGRAMS, *standard_library(8)], ids=lambda text: text[:20])
def test_paired_nodes_stand_in_the_same_place(text: str) -> None:
    for tree in trees(text):
        assert tree.pairs
        for node in tree.nodes:
            thing = tree.pairs.get(id(node))
            if thing is None or isinstance(thing, ast.GeneratorExp) or in_fstring(node, tree):
                continue  # `ast` counts the parentheses of a generator expression, and of a tuple
            if isinstance(node, cst.Tuple) and node.lpar:
                continue
            assert isinstance(thing, (ast.expr, ast.stmt))
            span = tree.spans.of(node)
            assert span is not None
            if tree.unit.header and thing is tree.unit.statements[0]:
                assert span[0] == place(Text(text), thing)[0]
            else:
                assert span == place(Text(text), thing)


def in_fstring(node: cst.CSTNode, tree: Tree) -> bool:
    parent = tree.parents.get(id(node))
    while parent is not None:
        if isinstance(parent, cst.FormattedStringExpression):
            return not FSTRING_PLACES_HOLD
        parent = tree.parents.get(id(parent))
    return False


NAMES = st.sampled_from(["a", "b", "é", "c.d", "None"])


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions around expressions; each kind that the pairing has to keep in order."""
    several = st.lists(inner, min_size=1, max_size=3)
    templates = [
        "f({0}, *{1}, k={2}, *{0}, **{1})", "({0})({1})", "({0}).m", "({0})[{1}:{2}]",
        "({0} if {1} else {2})", "(lambda x={0}, *y: {1})", "[{0} for x in {1} if {2}]",
        "{{{0}: {1}, **{2}}}", "({0} + {1} * -{2})", "({0} and {1} or {2})", "({0} < {1} in {2})",
        "(x := {0})", "({0} for x in {1})", "f({0} for x in {1})", "{{{0}, *({1})}}",
        "(not {0}, {1})", "({0} and {1} and ({2} and {0}) or {1})", "(({0}, {1}), {2})",
        "({0})[{1}, {2}]", "({0})[({1}, {2})]", "({0})[{1},]", "({0})[({1}, {2}),]",
    ]  # fmt: skip
    return st.builds(
        lambda template, parts: template.format(*(parts * 3)[:3]),
        st.sampled_from(templates),
        several,
    )


EXPRESSIONS = st.recursive(NAMES, nested, max_leaves=8)


@given(st.lists(EXPRESSIONS, min_size=1, max_size=3), st.sampled_from(["", "    "]))
@settings(max_examples=150, deadline=None)
def test_random_programs_pair_in_place(expressions: list[str], indent: str) -> None:
    body = "".join(f"{indent}x = {each}\n{indent}{each}; {each}\n" for each in expressions)
    test_paired_nodes_stand_in_the_same_place("class A:\n" + body if indent else body)


@st.composite
def fstrings(draw: st.DrawFn) -> str:
    """f-strings of several lines, nested, with specifications, joined to others."""
    break_ = draw(st.sampled_from(["", "\n", " \n  "]))
    quote = '"""' if break_ else draw(st.sampled_from(['"', '"""']))
    inner = st.one_of(EXPRESSIONS, EXPRESSIONS.map(lambda each: f"f'{{g({each})}}'"))
    parts = draw(st.lists(inner, min_size=1, max_size=3))
    ends = st.sampled_from(["", "!r", "=", ":>{w(n)}", "!s:{w}"])
    text = "".join(f"{break_}t{{ {break_}{part} {draw(ends)}}}" for part in parts)
    prefix = draw(st.sampled_from(["", "é ", "'s' ", "f'{p(q)}' "]))
    written = f"{prefix if prefix.strip() != 'é' else ''}f{quote}{text}{quote}"
    return f"x = a(é, {written}, b(c))"


@given(fstrings())
@settings(max_examples=300, deadline=None)
def test_nodes_in_fstrings_pair_with_what_they_say(program: str) -> None:
    try:
        module = ast.parse(program)
    except SyntaxError:  # a quote or a lambda's colon where the grammar takes none
        return
    nodes, _ = walk(cst.parse_module(program).body)
    pairs = pair_by_order(nodes, ast_nodes(module.body))
    assert pairs is not None
    for node in nodes:
        thing = pairs.get(id(node))
        if isinstance(thing, ast.expr) and not isinstance(thing, ast.Constant):
            written = cst.Module([]).code_for_node(node)
            assert same_code(f"({written}\n)", thing), written


def same_code(written: str, thing: ast.expr) -> bool:
    def plain(node: ast.AST) -> str:
        return re.sub(r"(Store|Del)\(\)", "Load()", ast.dump(node))

    return plain(ast.parse(written, mode="eval").body) == plain(thing)


def test_trees_that_differ_are_not_paired() -> None:
    def pair(one: str, other: str) -> object:
        return pair_by_order(walk(cst.parse_module(one).body)[0], ast_nodes(ast.parse(other).body))

    assert pair("f(a, b)", "f(a, b)")
    for other in ("f(a)", "g(a, b)", "f.g(a, b)", "f(a, b)()", "f(a, c)", "f(a, b); f"):
        assert pair("f(a, b)", other) is None


@pytest.mark.parametrize(
    "text",
    [
        "del a, b",
        "del (a, b)",
        "del (a, b), c",
        "del a,",
        "for x in a, b: pass",
        "x[a, b], x[(a, b)], x[a,], x[(a, b),], x[a:b, c]",
        "x[()]",
        "a, (b, c) = d, (e,)",
        "a and b and c",
        "(a and b) and c",
        "a and (b and c)",
        "a or b and c or d or (e and f and g)",
        "not a and not (b or c)",
        "'a' 'b'",
        "'a' f'{b}' 'c' f'd'",
        "f''",
        "f'{a:{b}} {c!r:>{d}}'",
        "f'{a}' + f'{b}' 'c'",
        "b'a' b'b'",
    ],
)
def test_what_the_trees_nest_differently_is_paired(text: str) -> None:
    module = ast.parse(text)
    nodes, _ = walk(cst.parse_module(text).body)
    pairs = pair_by_order(nodes, ast_nodes(module.body))
    assert pairs is not None
    kinds = (ast.BoolOp, ast.Tuple, ast.JoinedStr)
    for node in nodes:
        thing = pairs.get(id(node))
        if isinstance(thing, kinds):
            written = cst.Module([]).code_for_node(node)
            assert same_code(f"({written}\n)", thing), written
    paired = {id(thing) for thing in pairs.values()}
    left_out = [t for t in ast.walk(module) if isinstance(t, kinds) and id(t) not in paired]
    assert all(isinstance(thing, (ast.Tuple, ast.JoinedStr)) for thing in left_out)


def test_names_are_compared_as_python_does() -> None:
    (tree,) = trees("\u2102.\u2115(\ufb01)\n")  # double-struck letters and a ligature
    call = next(node for node in tree.nodes if isinstance(node, cst.Call))
    thing = tree.pairs[id(call)]
    assert isinstance(thing, ast.Call) and ast.unparse(thing) == "C.N(fi)"


# ------------------------------------------------------------------------------- cutting


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a\nb\n", ["a\n", "b\n"], id="a statement is a unit"),
        pytest.param("a; b\nc", ["a; b\n", "c"], id="statements that share a line are one"),
        pytest.param("a; b = '''\n'''; c\nd\n", ["a; b = '''\n'''; c\n", "d\n"], id="two lines"),
        pytest.param("# c\n\na  # d\n", ["a  # d\n"], id="comments above are left out"),
        pytest.param("@a\n@b\ndef f():\n  a\n", ["@a\n@b\ndef f():\n  a\n"], id="decorators"),
        pytest.param(
            "class A(B):\n    x = 1\n    # c\n    @d\n    def f(self): ...\n\n    y = 2\nz\n",
            [
                "class A(B):\n",
                "    x = 1\n",
                "    @d\n    def f(self): ...\n",
                "    y = 2\n",
                "z\n",
            ],
            id="a class is its header and its statements",
        ),
        pytest.param(
            "class A:\n  # c\n\n  'doc'\n", ["class A:\n  # c\n\n", "  'doc'\n"], id="doc"
        ),
        pytest.param(
            "class A: x = 1; y = 2\nz\n", ["class A: x = 1; y = 2\n", "z\n"], id="one line"
        ),
        pytest.param("class A(\n B\n): x\n", ["class A(\n B\n): x\n"], id="body after the bases"),
        pytest.param(
            "class A:\n class B:\n  x\n y\n",
            ["class A:\n", " class B:\n  x\n", " y\n"],
            id="nested",
        ),
        pytest.param("\f a = 1\n", None, id="a form feed and a space is no top level"),
        pytest.param("\fa = 1\n", ["a = 1\n"], id="a form feed may stand before a statement"),
        pytest.param("a = 1 \\\n  + 2\nb", ["a = 1 \\\n  + 2\n", "b"], id="continued line"),
    ],
)
def test_cuts(text: str, expected: list[str] | None) -> None:
    if expected is None:
        with pytest.raises(SyntaxError):
            ast.parse(text)
        return
    assert unit_texts(text) == expected
    assert sum(1 for tree in trees(text) for _ in tree.nodes) > 0


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_spans_are_offsets_in_the_file(end: str) -> None:
    text = f"é = 1\nclass A:\n    def f(self):\n        return '''é\n{'':8}''', g(é, (x))\n"
    text = text.replace("\n", end)
    tree = list(trees(text))[-1]
    call = next(node for node in tree.nodes if isinstance(node, cst.Call))
    span = tree.spans.of(call)
    assert span is not None and text[slice(*span)] == "g(é, (x))"
    string = next(node for node in tree.nodes if isinstance(node, cst.SimpleString))
    span = tree.spans.of(string)
    assert span is not None and text[slice(*span)] == f"'''é{end}{'':8}'''"


def test_each_line_is_part_of_a_unit() -> None:
    text = "item\nitems; it\nclass A:\n    x.item()\n    cuda(\n        it)\nitem = 1\n"
    units = Units(Text(text), ast.parse(text))
    assert [units.at(row).row for row in range(1, 8)] == [1, 2, 3, 4, 5, 5, 7]


@pytest.mark.parametrize("text", ["", "# item\n", "\n\f\n"])
def test_a_file_without_statements_has_no_units(text: str) -> None:
    assert list(Units(Text(text), ast.parse(text)).units) == []


def test_an_ast_node_leads_to_its_unit() -> None:
    text = "@d(\n  a)\ndef f():\n  b\n\n# c\nclass A(e):\n  x = 1\n\n  g"
    module = ast.parse(text)
    units = Units(Text(text), module)
    rows = {
        node.id: units.around(node).row for node in ast.walk(module) if isinstance(node, ast.Name)
    }
    assert rows == {"d": 1, "a": 1, "b": 1, "e": 7, "x": 8, "g": 10}


# ------------------------------------------------------------------------------- the whole file


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("class A:\n  x = f(1)\n  @\\\n  d(2)\n  def f(self): g(3)\n", id="decorator"),
        pytest.param("f(1)\n@\\\nd(2)\ndef f(self): g(3)\n", id="decorator at the top"),
        pytest.param("f(1)\nclass A: \\\nx = d(2), g(3)\n", id="continued header"),
        pytest.param("f(1)\nclass A:\n\f  @d(2)\n  def f(self): g(3)\n", id="form feed in a class"),
        pytest.param("f(1)\ndef h():\n\f  d(2)\n  g(3)\n", id="form feed in a function"),
    ],
)
def test_odd_layout_goes_through_the_whole_file(text: str) -> None:
    units = Units(Text(text), ast.parse(text))
    calls = []
    for unit in units.units:
        tree = units.tree(unit)
        for node in tree.nodes:
            thing = tree.pairs.get(id(node))
            if isinstance(thing, ast.Call):
                span = tree.spans.of(node)
                # LibCST drops form feeds: all its offsets would be wrong, and so it gives none.
                assert (span is None) == ("\f" in text and ast.unparse(thing) != "f(1)")
                assert span is None or text[slice(*span)] == ast.unparse(thing)
                calls.append(ast.unparse(thing))
    assert "_whole" in vars(units)
    assert calls == ["f(1)", "d(2)", "g(3)"]


def refusal(text: str) -> str:
    """Where and why the first unit is refused."""
    units = Units(Text(text), ast.parse(text))
    with pytest.raises(RefusedUnitError) as error:
        units.tree(units.units[0])
    return f"{error.value.row}: {error.value.reason}"


def test_a_unit_that_only_ast_can_read_is_refused_and_the_others_are_not() -> None:
    text = "class A(x=1, *b):\n    y = 1\n"
    assert refusal(text) == "1: LibCST cannot read it"
    units = Units(Text(text), ast.parse(text))
    assert units.tree(units.units[1]).nodes
    # Nor does the whole file help then.
    assert refusal("@\\\nd\ndef f(): ...\n" + text) == "2: LibCST cannot read it"


def test_a_panic_of_the_native_parser_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(_: str) -> cst.Module:
        raise type("PanicException", (BaseException,), {})

    monkeypatch.setattr(cst, "parse_module", panic)
    assert refusal("f(1)\n") == "1: LibCST cannot read it"


def test_an_interrupt_is_no_panic(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: str) -> cst.Module:
        raise KeyboardInterrupt

    monkeypatch.setattr(cst, "parse_module", interrupted)
    with pytest.raises(KeyboardInterrupt):
        refusal("f(1)\n")


def test_what_would_overflow_libcsts_stack_is_not_shown_to_it() -> None:
    chain = " and ".join(["a"] * (MAX_OPERANDS + 1))
    assert refusal(f"x = {chain}\n") == f"1: an expression has more than {MAX_OPERANDS} operands"


def test_deep_expressions_have_pairs_but_no_offsets() -> None:
    text = "x" + ".a" * 700 + "\n"
    (tree,) = trees(text)
    assert len(tree.pairs) == 702
    assert tree.spans.of(tree.nodes[0]) is None
