"""Segments that LibCST reads one by one, paired with `ast` by order, are what a file is that LibCST
reads whole and whose nodes are paired by the places that LibCST itself gives."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import libcst as cst
import pytest
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from amplint.source import segments
from amplint.source.navigation import FSTRING_PLACES_HOLD
from amplint.source.pairing import KINDS, ast_nodes, pair_by_order, walk
from amplint.source.segments import RefusedUnitError, Spans, Tree, Units, place
from amplint.util.text import Text
from benchmarks.robustness.files import with_places
from tests.helpers import FIXTURES, ROOT
from tests.unit.test_units import PROGRAMS

# A kind of LibCST's nodes, and a stretch of the text; of statements only the beginning, since
# LibCST counts what follows the last line of a block.
Key = tuple[type[cst.CSTNode], int, int]
STATEMENTS = frozenset(KINDS[kind] for kind in KINDS if issubclass(kind, ast.stmt))
STRINGS = (cst.FormattedString, cst.ConcatenatedString)
# What not every one of has a node in the other tree.
NESTED: Mapping[type[ast.AST], tuple[type[cst.CSTNode], ...]] = {
    ast.BoolOp: (cst.BooleanOperation,),
    ast.JoinedStr: STRINGS,
    ast.Tuple: (cst.Tuple,),
}


class Read(NamedTuple):
    """A node of LibCST as a rule sees it: what `ast` has in its place, what is around it, where it
    stands. None where that is in another segment, or LibCST does not know."""

    thing: ast.AST
    kind: type[cst.CSTNode]
    around: ast.AST | None
    start: int | None
    end: int | None


class WholeFile:
    """A file as LibCST reads it whole, every place from its PositionProvider."""

    def __init__(self, text: Text, module: ast.Module) -> None:
        wrapper = MetadataWrapper(cst.parse_module(text.text))
        assert wrapper.module.code == text.text
        self.text = text
        self.ranges: Mapping[cst.CSTNode, CodeRange] = wrapper.resolve(PositionProvider)
        self.nodes, self.parents = walk(wrapper.module.body)
        self.pairs = self.by_place(module)

    def of(self, node: cst.CSTNode) -> tuple[int, int] | None:
        """The offsets of a node without its own parentheses."""
        found = self.ranges.get(node)
        if found is None:
            return None
        start, end = found.start, found.end
        return self.text.start(start.line) + start.column, self.text.start(end.line) + end.column

    def by_place(self, module: ast.Module) -> dict[int, ast.AST]:
        """By the `id` of a LibCST node, the `ast` node of its kind that stands in its place."""
        kinds = frozenset((*KINDS.values(), *(kind for some in NESTED.values() for kind in some)))
        at = {key: node for node in self.nodes if type(node) in kinds for key in self.keys(node)}
        pairs: dict[int, ast.AST] = {}
        for thing in with_places(module):
            found: dict[int, ast.AST] | None = {}
            if isinstance(thing, ast.JoinedStr) and not FSTRING_PLACES_HOLD:
                span = place(self.text, thing)
                strings = [node for kind in STRINGS if (node := at.get((kind, *span)))]
                found = pair_by_order(walk(strings)[0], ast_nodes([thing])) if strings else None
            elif type(thing) in NESTED:
                places = [(kind, *place(self.text, thing)) for kind in NESTED[type(thing)]]
                found = {id(at[key]): thing for key in places if key in at}
            elif type(thing) in KINDS:
                key = key_of(self.text, thing)
                found = {id(at[key]): thing} if key in at else None
            assert found is not None, f"line {thing.lineno}: LibCST has no {type(thing).__name__}"
            pairs.update(found)
        return pairs

    def keys(self, node: cst.CSTNode) -> Iterator[Key]:
        """Where `ast` may say that a node stands.

        The two disagree about the parentheses of tuples, and of generators, which are found by what
        they yield.
        """
        kind = type(node)
        shown = node.elt if isinstance(node, cst.GeneratorExp) else node
        span = self.of(shown)
        if span is None:
            return
        yield (kind, span[0], -1) if kind in STATEMENTS else (kind, *span)
        if (
            isinstance(shown, cst.BaseExpression)
            and shown.lpar
            and kind in (cst.GeneratorExp, cst.Tuple)
        ):
            first, last = self.of(shown.lpar[-1]), self.of(shown.rpar[0])
            if first is not None and last is not None:
                yield kind, first[0], last[1]


def key_of(text: Text, thing: ast.expr | ast.stmt) -> Key:
    kind = KINDS[type(thing)]
    if isinstance(thing, ast.GeneratorExp):
        return (kind, *place(text, thing.elt))
    start, end = place(text, thing)
    return (kind, start, -1) if kind in STATEMENTS else (kind, start, end)


def read(nodes: Iterable[cst.CSTNode], tree: Tree | WholeFile) -> Iterator[Read]:
    """The nodes that are paired with one of `ast`, in their order."""
    spans = tree.spans if isinstance(tree, Tree) else tree
    for node in nodes:
        if id(node) not in tree.pairs:
            continue
        start, end = spans.of(node) or (None, None)
        around = tree.parents.get(id(node))
        while around is not None and id(around) not in tree.pairs:
            around = tree.parents.get(id(around))
        yield Read(
            tree.pairs[id(node)],
            type(node),
            tree.pairs[id(around)] if around is not None else None,
            start,
            None if type(node) in STATEMENTS else end,
        )


def in_segments(text: Text, module: ast.Module) -> Iterator[Read]:
    """As `read`, of the segments that LibCST does not refuse."""
    units = Units(text, module)
    for unit in units.units:
        try:
            tree = units.tree(unit)
        except RefusedUnitError:
            continue
        yield from read(tree.nodes, tree)


def compare(text: str) -> None:
    """Hold all that is read both ways against each other."""
    module = ast.parse(text)
    whole = WholeFile(Text(text), module)
    by_place = [*read(whole.nodes, whole)]
    by_order = [*in_segments(Text(text), module)]
    assert [each[:2] for each in by_order] == [each[:2] for each in by_place]
    for one, other in zip(by_order, by_place, strict=True):
        # The body of a class is cut into segments of their own.
        assert one.around is other.around or (
            one.around is None and isinstance(other.around, ast.ClassDef)
        )
        assert one[3:] == other[3:], ast.unparse(one.thing)
    everything = [thing for thing in ast_nodes(module.body) if type(thing) in KINDS]
    assert {*map(id, everything)} <= {id(each.thing) for each in by_order}
    assert whole.pairs == pair_by_order(whole.nodes, ast_nodes(module.body))


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", sorted(FIXTURES.iterdir()), ids=lambda path: path.name)
def test_segments_of_a_fixture_are_the_whole_file(folder: Path) -> None:
    for path in folder.rglob("*.py"):
        compare(text_of(path))


@pytest.mark.parametrize(
    "program",
    sorted((ROOT / "tests" / "oracles" / "programs").glob("*.py")),
    ids=lambda path: path.stem,
)
def test_segments_of_a_program_are_the_whole_file(program: Path) -> None:
    compare(text_of(program))


@pytest.mark.parametrize("text", PROGRAMS, ids=lambda text: text[:20])
def test_segments_of_odd_code_are_the_whole_file(text: str) -> None:
    compare(text)


TEXT = "def f(x):\n    return g(x), g(y)\n"


def shifted(spans: Spans, node: cst.CSTNode) -> tuple[int, int] | None:
    found = OF(spans, node)
    return (found[0] + 1, found[1] + 1) if found is not None else None


def swapped(nodes: Sequence[cst.CSTNode], things: Sequence[ast.AST]) -> dict[int, ast.AST] | None:
    """Each two calls changed about, as if the trees were walked in different orders."""
    pairs = pair_by_order(nodes, things)
    if pairs is not None:
        one, other = (key for key, thing in pairs.items() if isinstance(thing, ast.Call))
        pairs[one], pairs[other] = pairs[other], pairs[one]
    return pairs


OF = Spans.of


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [(Spans, "of", shifted), (segments, "pair_by_order", swapped)],
    ids=["places", "pairs"],
)
def test_what_is_wrong_is_found_out(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, wrong: object
) -> None:
    compare(TEXT)
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises(AssertionError):
        compare(TEXT)
