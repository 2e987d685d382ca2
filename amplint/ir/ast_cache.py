"""The `ast` of a file, and how long it is kept.

What `ast` makes of code takes 45 times the memory of its text. A project that is one part keeps the
trees of all its files, for most are asked for again when the rules judge. A project in parts keeps
those that were asked for last; of what another file needs a function or two, only these are parsed.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from amplint.ir.data import sampled
from amplint.ir.model import Location
from amplint.ir.ssa import where

ROOM = 500_000  # characters of code whose trees are kept

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.Module | ast.ClassDef | FunctionNode | ast.Lambda


class NodePlace(NamedTuple):
    """Where an expression of the `ast` stands: its function, its node there, and its block."""

    function: str
    node: int
    block: int


class Parsed:
    """A file as `ast` reads it.

    Args:
        module: its tree.

    `scopes` are its functions and classes by id; `standings` says by function where the expressions
    of its graph stand, for those functions that have been asked for.
    """

    def __init__(self, module: ast.Module) -> None:
        self.module = module
        self.scopes: dict[str, Scope] = {}
        self.standings: dict[str, dict[ast.AST, NodePlace]] = {}


class Holder(Protocol):
    """The holder of a tree that it can make again."""

    text: str

    def forget(self) -> None: ...


class TreeCache:
    """The trees that were asked for last.

    Args:
        room: how much code they are of, in characters.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._holders: dict[Holder, None] = {}  # the one that was asked last is the last

    def put(self, holder: Holder) -> None:
        """Keep its tree, and have those forget theirs for which there is no room."""
        if holder in self._holders:
            del self._holders[holder]
        else:
            self._room -= len(holder.text)
        self._holders[holder] = None
        while self._room < 0 and len(self._holders) > 1:
            oldest = next(iter(self._holders))
            del self._holders[oldest]
            self._room += len(oldest.text)
            oldest.forget()


def function_alone(lines: Sequence[str], location: Location) -> FunctionNode | None:
    """A function as `ast` reads it without the rest of its file, every place as in the file; None
    where that cannot be had, such as behind a line that goes on.

    Args:
        lines: of the file, without their ends.
        location: of the function, without its decorators.
    """
    row, column, last, _ = location
    text = "\n".join(lines[row - 1 : last])
    before = "\n" * (row - 1) if column == 0 else "\n" * (row - 2) + "if True:\n"
    try:
        body = sampled(ast.parse(before + text), text, row).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if column and body and isinstance(body[0], ast.If):
        body = body[0].body
    node = body[0] if len(body) == 1 else None
    return node if isinstance(node, FunctionNode) and where(node) == location else None
