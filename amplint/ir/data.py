"""Long literals of data, as the trees have them: by a sample of what stands in them.

    [0, 1, 1, ..., 1]                   [0, *(1, 0), 1]
    {"a": 0, "b": 1, ..., "z": 9}       {"a": 0, "b": 1, ..., **{"k": 0, "l": 2}, "z": 9}

A long stretch of constants, and of literals of such, is read as those that its values differ in.
They are starred, for they do not say how many there are, and what is starred has the place of the
whole stretch. So its values are joined to the same as before, and the length of a literal is paid
for once, by `ast`. LibCST, which takes fifty times as long, reads the sample: see `stretches`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from typing import Any, NamedTuple

from amplint.ir.ssa import where
from amplint.util.text import LINE_END, Text, without_comments

SHORT = 128  # constants that are read as they are written
# More than the lattice of values leaves apart: keys of a dict, and constants of a kind.
KEYS = 40
ALIKE = 8
WRITTEN_OUT = 10_000  # bits of an integer: Python writes no longer ones
Display = ast.List | ast.Tuple | ast.Set
Literal = Display | ast.Dict
Element = tuple[ast.expr | None, ast.expr]  # behind its key, in a dict
# In these, a tuple is no literal, or places do not hold before Python 3.12.
CLOSED = frozenset({ast.JoinedStr, ast.Subscript, getattr(ast, "TemplateStr", ast.JoinedStr)})


class Stretch(NamedTuple):
    """The offsets in a text between which data stand, and the code that is read in their place."""

    start: int
    end: int
    code: str


# ------------------------------------------------------------------------------ of a tree


def sampled(module: ast.Module, text: str, row: int = 1) -> ast.Module:
    """The tree of a text, from now on with samples of its long data.

    Args:
        row: that of the first line of the text.
    """
    if text.count(",") < SHORT:
        return module
    commas = [0, *accumulate(line.count(",") for line in LINE_END.split(text))]

    def is_long(node: Any) -> bool:
        """Whether there are commas enough on its lines; or it has no place."""
        first = getattr(node, "lineno", None)
        return first is None or (
            commas[node.end_lineno - row + 1] - commas[max(first - row, 0)] >= SHORT
        )

    literals: list[Literal] = []
    waiting: list[ast.AST] = [module]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Literal):
            literals.append(node)
        if type(node) not in CLOSED:
            waiting += filter(is_long, ast.iter_child_nodes(node))
    for literal in reversed(literals):  # what stands in another one comes before it
        shorten(literal)
    return module


def shorten(literal: Literal) -> None:
    """Leave a sample of each long stretch of data. The first and the last element stay, so that a
    stretch stands between two commas."""
    in_dict = isinstance(literal, ast.Dict)
    values = literal.values if isinstance(literal, ast.Dict) else literal.elts
    keys = literal.keys if isinstance(literal, ast.Dict) else [None] * len(values)
    first, last = KEYS if in_dict else 1, len(values) - 1
    parts = [
        leaves(value) if first <= number < last and (not in_dict or leaves(key)) else None
        for number, (key, value) in enumerate(zip(keys, values, strict=True))
    ]
    elements: list[Element] = []
    every = zip(zip(keys, values, strict=True), parts, strict=True)
    for are_data, group in groupby(every, lambda each: each[1] is not None):
        stretch = list(group)
        if not are_data or sum(len(inner or ()) for _, inner in stretch) <= SHORT:
            elements += [element for element, _ in stretch]
            continue
        before: dict[object, set[object]] = {}
        some = [element for element, inner in stretch if differs(inner or (), before)]
        elements.append((None, starred(some, stretch[0][0], stretch[-1][0])))
    if isinstance(literal, ast.Dict):
        literal.keys = [key for key, _ in elements]
    setattr(literal, "values" if in_dict else "elts", [value for _, value in elements])


def starred(elements: Sequence[Element], first: Element, last: Element) -> ast.expr:
    """A sample of what stands from one element to another, as one element."""
    keys, values = [key for key, _ in elements], [value for _, value in elements]
    in_dict = any(keys)
    load = ast.Load()
    sample = ast.Dict(keys, values) if in_dict else ast.Starred(ast.Tuple(values, load), load)
    ast.copy_location(sample, first[0] or first[1])
    sample.end_lineno, sample.end_col_offset = last[1].end_lineno, last[1].end_col_offset
    return ast.fix_missing_locations(sample)


def differs(parts: Iterable[tuple[object, object]], before: dict[object, set[object]]) -> bool:
    """Whether some part of an element is not among those before it, by their kind; it is from now
    on."""
    is_new = False
    for kind, content in parts:
        alike = before.setdefault(kind, set())
        if len(alike) < ALIKE and content not in alike:
            alike.add(content)
            is_new = True
    return is_new


def leaves(element: ast.expr | None) -> list[tuple[object, object]] | None:
    """The constants in an element and the lengths of its literals, each behind its kind and its
    place in the element; None of what is no data."""
    parts: list[tuple[object, object]] = []
    waiting: list[tuple[object, ast.expr | None]] = [((), element)]
    while waiting:
        path, node = waiting.pop()
        kind: object = type(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            kind, node = type(node.op), node.operand
        if isinstance(node, ast.Constant):
            content = node.value
            if isinstance(content, int) and content.bit_length() > WRITTEN_OUT:
                return None
            parts.append(((path, kind, type(content)), content))
        elif isinstance(node, Display):
            parts.append(((path, kind), len(node.elts)))
            waiting += [((path, number), each) for number, each in enumerate(node.elts)]
        elif isinstance(node, ast.Dict):
            parts.append(((path, kind), not node.keys))
            for key, value in zip(node.keys, node.values, strict=True):
                named = key.value if isinstance(key, ast.Constant) else None
                waiting.append(((path, kind, named), value))
                waiting += [((path, kind), key)] if key is not None else []
        elif isinstance(node, ast.Starred) and node is not element:
            waiting.append(((path, kind), node.value))
        else:
            return None
    return parts


# ------------------------------------------------------------------------------ of its text


def stretches(text: Text, things: Iterable[ast.AST]) -> list[Stretch]:
    """The stretches that are samples in a tree, in order, none in another.

    Args:
        things: the nodes of the tree.
    """
    every: list[Stretch] = []
    for node in things:
        if isinstance(node, ast.Dict):
            ends: Sequence[ast.expr] = node.values
            starts = [key or value for key, value in zip(node.keys, ends, strict=True)]
        elif isinstance(node, Display):
            ends = starts = node.elts
        else:
            continue
        for before, each, after in zip(ends, starts[1:], starts[2:], strict=False):
            if is_sample(each):
                start = after_comma(text, before, each)
                end = after_comma(text, each, after) - 1
                stars = "**" if isinstance(each, ast.Dict) else ""
                every.append(Stretch(start, end, f" {stars}{ast.unparse(each)}"))
    outer: list[Stretch] = []
    for stretch in sorted(every, key=lambda each: (each.start, -each.end)):
        if not outer or stretch.start >= outer[-1].end:
            outer.append(stretch)
    return outer


def is_sample(element: ast.expr) -> bool:
    """Whether this was not written so: then a star, or a bracket, would stand before the rest."""
    inside = next(ast.iter_child_nodes(element), None)
    starred = isinstance(element, ast.Starred | ast.Dict) and isinstance(inside, ast.expr)
    return starred and where(inside)[:2] == where(element)[:2]


def after_comma(text: Text, before: ast.expr, after: ast.expr) -> int:
    """The offset behind the comma between two elements."""
    start = text.offset(before.end_lineno or 0, before.end_col_offset or 0)
    gap = text.text[start : text.offset(after.lineno, after.col_offset)]
    return start + without_comments(gap).index(",") + 1
