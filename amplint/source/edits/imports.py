"""Names that a file's imports make available, and imports to add."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from amplint.findings.finding import Edit
from amplint.source.edits.code_edits import REFUSED
from amplint.source.scopes import Scopes
from amplint.util.text import Text
from amplint.values.lattice import agreed


@dataclass(frozen=True)
class Spelling:
    """How to write a library name at some place, and the edits without which it means nothing."""

    text: str
    edits: tuple[Edit, ...] = ()


class Imports:
    """The imports at the top level of a file."""

    def __init__(self, text: Text, scopes: Scopes) -> None:
        self.text = text
        self.scopes = scopes
        self.module = scopes.module

    def bound_as(self, dotted: str) -> str | None:
        """How a library name can be written with the imports there are: "torch.amp", "th.amp".

        Only by names that are bound by unconditional imports and nothing else in the file.
        """
        pairs = [
            (target, local + dotted[len(target) :])
            for local, target in self._available()
            if dotted == target or dotted.startswith(f"{target}.")
        ]
        # The most exact import; among equals the one that spells the name in full.
        best = min(pairs, key=lambda pair: (-len(pair[0]), pair[1] != dotted, pair), default=None)
        return best[1] if best is not None else None

    def meaning(self, written: str) -> str | None:
        """The library name that a dotted name stands for, where nothing but imports of one thing
        bind its first part anywhere in the file."""
        root, dot, rest = written.partition(".")
        target = agreed(each.target for each in self.scopes.bindings(root))
        return None if target is None else f"{target}{dot}{rest}"

    def spell(self, dotted: str) -> Spelling:
        """A way to write a library name, with an import if need be; its edits are refused if it
        would clash."""
        bound = self.bound_as(dotted)
        if bound is not None:
            return Spelling(bound)
        root = dotted.partition(".")[0]
        parent, _, name = dotted.rpartition(".")
        if parent and not self.scopes.bindings(name):
            extended = self._extend(parent, name)
            if extended is not None:
                return Spelling(name, (extended,))
        if not self.scopes.bindings(root):
            return Spelling(dotted, (self._insert(f"import {root}"),))
        if parent and not self.scopes.bindings(name):
            return Spelling(name, (self._insert(f"from {parent} import {name}"),))
        return Spelling(dotted, (REFUSED,))

    def _available(self) -> Iterator[tuple[str, str]]:
        for statement in self.module.body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                for alias in statement.names:
                    local = alias.asname or alias.name
                    if isinstance(statement, ast.Import) and alias.asname is None:
                        local = alias.name.partition(".")[0]
                    target = self.meaning(local)
                    if target is not None:
                        yield local, target

    def _extend(self, module: str, name: str) -> Edit | None:
        """Add a name to an import from the same module."""
        for statement in self.module.body:
            if (
                isinstance(statement, ast.ImportFrom)
                and (statement.module, statement.level) == (module, 0)
                and statement.names[-1].name != "*"
            ):
                end = end_of(self.text, statement.names[-1])
                return Edit(end, end, f", {name}")
        return None

    def _insert(self, line: str) -> Edit:
        """A new import above the first one from that package, or else below the first imports, or
        else below the docstring, or else on top."""
        newline = self.text.newline
        package = line.split()[1].partition(".")[0]
        above: ast.stmt | None = None
        for statement in self.module.body:
            if above is not None and self._cell(statement) != self._cell(above):
                break  # what a later cell imports, this one does not have yet
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                if package in _packages(statement):
                    start = self.text.start(statement.lineno)
                    return Edit(start, start, f"{line}{newline}")
                above = statement
            elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                break
            elif above is None and statement is self.module.body[0] and _is_docstring(statement):
                above = statement
        if above is None:
            start = self.text.start(first_row(self.module.body[0])) if self.module.body else 0
            return Edit(start, start, f"{line}{newline}")
        row = above.end_lineno or above.lineno
        if row >= self.text.rows:
            end = len(self.text.text)
            return Edit(end, end, f"{newline}{line}")
        start = self.text.start(row + 1)
        return Edit(start, start, f"{line}{newline}")

    def _cell(self, statement: ast.stmt) -> int | None:
        return self.text.part(statement.lineno).cell


def _packages(statement: ast.Import | ast.ImportFrom) -> set[str]:
    """Ex) {"torch"} of `from torch.cuda import amp`"""
    if isinstance(statement, ast.Import):
        return {alias.name.partition(".")[0] for alias in statement.names}
    return set() if statement.level else {(statement.module or "").partition(".")[0]}


def end_of(text: Text, node: ast.alias | ast.stmt) -> int:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return text.offset(node.end_lineno, node.end_col_offset)


def first_row(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
