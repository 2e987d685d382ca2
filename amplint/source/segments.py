"""Cut a file into units, parse the ones that can matter with LibCST, and pair them with `ast`.

LibCST is slow, `ast` is not: so `ast` reads whole files, and LibCST only the *units* that hold a
candidate of some rule. A unit is a top-level statement; a class at top level is cut into its
header and the statements of its body; statements that share a line are one unit.

The two trees are paired by order (see `pairing`); where anything is odd, the whole file goes
through LibCST instead.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper
from libcst.metadata.span_provider import CodeSpan

from amplint.ir.data import stretches
from amplint.source.pairing import ast_nodes, pair_by_order, walk
from amplint.util.text import Text

# LibCST nests `a and b and ...`, which `ast` keeps flat: some 10,000 operands overflow its stack
# and end the process.
MAX_OPERANDS = 1000

_FORM_FEED_INDENT = re.compile(r"^[ \t]*\f[ \t\f]*[^\s#]", re.MULTILINE)
LONE_CR = re.compile(r"\r(?!\n)")


class RefusedUnitError(Exception):
    """A unit that only `ast` can read; `row` is its first line."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


@dataclass(frozen=True)
class Unit:
    """A stretch [start, end) of the text that LibCST can parse on its own.

    Args:
        row: its first line.
        statements: what stands in it, as `ast` has it.
        scope: the top-level class whose body it is from, else "".
        header: whether it is a class without its body.
    """

    start: int
    end: int
    row: int
    statements: tuple[ast.stmt, ...]
    scope: str = ""
    header: bool = False

    @property
    def last_row(self) -> int:
        """The last line of its last statement."""
        return self.statements[-1].end_lineno or self.row


@dataclass(frozen=True)
class Spans:
    """Where the nodes of a parsed module stand in the file, resolved when first asked for.

    Args:
        module: what was parsed: a unit, or the whole file.
        code: the text that it was parsed from.
        shift: what to add to an offset in `code` to have it in the file.
        samples: in order, where samples of data stand in `code`, and how much longer these are.
    """

    module: cst.Module
    code: str
    shift: int
    samples: Sequence[tuple[int, int, int]] = ()

    def of(self, node: cst.CSTNode) -> tuple[int, int] | None:
        """The offsets in the file's text of a node without its own parentheses.

        None where LibCST does not give back the text it has read, and its offsets are wrong.
        """
        if self._bytes is None or node not in self._bytes:
            return None
        span = self._bytes[node]
        start, end = span.start, span.start + span.length
        if self._encoded is not None:
            start = len(self._encoded[:start].decode())
            end = len(self._encoded[:end].decode())
        return self._in_file(start), self._in_file(end)

    def _in_file(self, offset: int) -> int:
        shift = self.shift
        for start, end, more in self.samples:
            if offset < end:
                return min(offset, start) + shift
            shift += more
        return offset + shift

    @cached_property
    def _encoded(self) -> bytes | None:
        return None if self.code.isascii() else self.code.encode()

    @cached_property
    def _bytes(self) -> Mapping[cst.CSTNode, CodeSpan] | None:
        try:
            if self.module.code != self.code:
                return None
            wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
            spans: Mapping[cst.CSTNode, CodeSpan] = wrapper.resolve(ByteSpanPositionProvider)
            return spans
        except RecursionError:  # expressions nested deeper than Python's own stack
            return None


@dataclass(frozen=True)
class Tree:
    """A unit as LibCST reads it.

    Args:
        unit: the unit.
        nodes: its nodes in source order, except for names that are no expressions.
        parents: by the `id` of a node, the node around it, within the unit.
        pairs: by the `id` of a node, its `ast` node.
        spans: where the nodes stand.
    """

    unit: Unit
    nodes: Sequence[cst.CSTNode]
    parents: Mapping[int, cst.CSTNode]
    pairs: Mapping[int, ast.AST]
    spans: Spans

    @cached_property
    def by_ast(self) -> Mapping[int, cst.CSTNode]:
        """By the `id` of an `ast` node, the node paired with it."""
        return {id(self.pairs[id(node)]): node for node in self.nodes if id(node) in self.pairs}


class Units:
    """The units of one file; each is parsed when it is asked for, and once."""

    def __init__(self, text: Text, module: ast.Module) -> None:
        self.text = text
        self.module = module
        self.units: Sequence[Unit] = list(cut(text, module))
        self._starts = [unit.start for unit in self.units]
        self._trees: dict[int, Tree | RefusedUnitError] = {}

    def at(self, row: int) -> Unit:
        """The unit that a line is part of."""
        return self.units[self._index(self.text.start(row + 1) - 1)]

    def around(self, node: ast.expr | ast.stmt) -> Unit:
        """The unit that an `ast` node is part of."""
        return self.at(node.lineno)

    def tree(self, unit: Unit) -> Tree:
        """A unit as LibCST reads it. Raises RefusedUnitError."""
        if unit.start not in self._trees:
            try:
                self._trees[unit.start] = parse(self.text, unit) or self._from_whole(unit)
            except RefusedUnitError as refused:
                self._trees[unit.start] = refused
        tree = self._trees[unit.start]
        if isinstance(tree, RefusedUnitError):
            raise tree
        return tree

    def _index(self, offset: int) -> int:
        return max(bisect_right(self._starts, offset) - 1, 0)

    @cached_property
    def _whole(self) -> Tree | None:
        """The whole file through LibCST; None where LibCST refuses it, or reads another program."""
        things = ast_nodes(self.module.body)
        lines, samples = with_samples(self.text, 0, len(self.text.text), things)
        code = LONE_CR.sub("\n", lines)
        module = parse_module(code)
        if module is None:
            return None
        nodes, parents = walk(module.body)
        pairs = pair_by_order(nodes, things)
        whole = Unit(0, len(self.text.text), 1, tuple(self.module.body))
        spans = Spans(module, code, 0, samples)
        return None if pairs is None else Tree(whole, nodes, parents, pairs, spans)

    def _from_whole(self, unit: Unit) -> Tree:
        whole = self._whole
        if whole is None:
            raise RefusedUnitError(unit.row, "LibCST cannot read it")
        roots: dict[int, cst.CSTNode] = {}
        for statement in unit.statements:
            node = whole.by_ast[id(statement)]
            while not isinstance(node, cst.BaseStatement):  # a simple statement, to its line
                node = whole.parents[id(node)]
            roots[id(node)] = node
        nodes, parents = walk(roots.values(), unit.header)
        return Tree(unit, nodes, parents, whole.pairs, whole.spans)


def place(text: Text, thing: ast.expr | ast.stmt) -> tuple[int, int]:
    """The offsets of an `ast` node."""
    end_row, end_column = thing.end_lineno, thing.end_col_offset
    assert end_row is not None and end_column is not None  # as `ast.parse` leaves no gaps
    return text.offset(thing.lineno, thing.col_offset), text.offset(end_row, end_column)


def cut(text: Text, module: ast.Module) -> Iterator[Unit]:
    """The units of a file, in order."""
    for group in _by_lines(module.body):
        statement = group[0]
        if not isinstance(statement, ast.ClassDef) or not _begins_line(text, statement.body[0]):
            yield _unit(text, group)
            continue
        header_end = text.start(_first_row(statement.body[0]))
        start = _first_character(text, _first_row(statement))
        row = _first_row(statement)
        yield Unit(start, header_end, row, tuple(group), header=True)
        for inner in _by_lines(statement.body):
            yield _unit(text, inner, statement.name)


def parse(text: Text, unit: Unit) -> Tree | None:
    """A unit through LibCST, paired by order; None where only the whole file will do.

    Raises RefusedUnitError where LibCST refuses what `ast` accepts.
    """
    things = ast_nodes(unit.statements, unit.header)
    if any(isinstance(node, ast.BoolOp) and len(node.values) > MAX_OPERANDS for node in things):
        raise RefusedUnitError(unit.row, f"an expression has more than {MAX_OPERANDS} operands")
    # An indented unit keeps its text: dedenting would corrupt strings of several lines.
    prefix = f"if True:{text.newline}" if unit.scope else ""
    lines, samples = with_samples(text, unit.start, unit.end, things, len(prefix))
    if _is_odd(unit, lines):
        return None
    suffix = f"{_indentation(text, unit)}pass{text.newline}" if unit.header else ""
    # A lone \r ends a line for Python; LibCST stumbles over it.
    code = LONE_CR.sub("\n", prefix + lines + suffix)
    module = parse_module(code)
    if module is None:
        if _ast_accepts(code):
            raise RefusedUnitError(unit.row, "LibCST cannot read it")
        return None
    roots: Sequence[cst.CSTNode] = module.body
    if unit.scope:
        wrapper = module.body[0]
        if not isinstance(wrapper, cst.If) or len(module.body) != 1 or wrapper.orelse:
            return None
        roots = wrapper.body.body
    nodes, parents = walk(roots, unit.header)
    pairs = pair_by_order(nodes, things)
    if pairs is None:
        return None
    return Tree(unit, nodes, parents, pairs, Spans(module, code, unit.start - len(prefix), samples))


def with_samples(
    text: Text, start: int, end: int, things: Iterable[ast.AST], before: int = 0
) -> tuple[str, list[tuple[int, int, int]]]:
    """The part of a text with samples for its long data, and where these stand: see `Spans`.

    Args:
        things: its nodes.
        before: how many characters are to be put before it.
    """
    code, samples = "", []
    for stretch in stretches(text, things):
        code += text.text[start : stretch.start]
        begin = before + len(code)
        code += stretch.code
        longer = stretch.end - stretch.start - len(stretch.code)
        samples.append((begin, before + len(code), longer))
        start = stretch.end
    return code + text.text[start:end], samples


def _by_lines(statements: Iterable[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """The statements, those together that share a line."""
    group: list[ast.stmt] = []
    for statement in statements:
        if group and _first_row(statement) > (group[-1].end_lineno or 0):
            yield group
            group = []
        group.append(statement)
    if group:
        yield group


def _unit(text: Text, group: list[ast.stmt], scope: str = "") -> Unit:
    row = _first_row(group[0])
    start = text.start(row) if scope else _first_character(text, row)
    return Unit(start, text.start((group[-1].end_lineno or 0) + 1), row, tuple(group), scope)


def _first_row(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min(statement.lineno, *(each.lineno for each in decorators), statement.lineno)


def _first_character(text: Text, row: int) -> int:
    """Where a top-level statement begins: a form feed may stand before it, which LibCST drops."""
    line = text.line(row)
    return text.start(row) + len(line) - len(line.lstrip(" \t\f"))


def _begins_line(text: Text, statement: ast.stmt) -> bool:
    row = _first_row(statement)
    if row < statement.lineno:
        return text.line(row).lstrip().startswith("@")
    start = text.start(row)
    return not text.text[start : text.offset(row, statement.col_offset)].strip()


def _indentation(text: Text, unit: Unit) -> str:
    """The indentation of the body of a class whose header is the unit."""
    (statement,) = unit.statements
    assert isinstance(statement, ast.ClassDef)
    line = text.line(_first_row(statement.body[0]))
    return line[: len(line) - len(line.lstrip())] or " "


def _is_odd(unit: Unit, lines: str) -> bool:
    decorated = bool(getattr(unit.statements[0], "decorator_list", ()))
    if decorated and not lines.lstrip(" \t").startswith("@"):
        return True  # `@\` and the decorator on the next line, where `ast` says that it begins
    return "\f" in lines and _FORM_FEED_INDENT.search(lines) is not None


def parse_module(code: str) -> cst.Module | None:
    """A text as LibCST reads it; None if it does not."""
    try:
        return cst.parse_module(code)
    except Exception:  # ParserSyntaxError, and now and then a node that does not like its parts
        return None
    except BaseException as error:  # a panic of the native parser is no Exception
        if type(error).__name__ != "PanicException":
            raise
        return None


def _ast_accepts(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
