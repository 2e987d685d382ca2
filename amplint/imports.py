"""What a file's imports make available, how to add one, and how to drop one left unused."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from posixpath import basename

from amplint.finding import Edit
from amplint.scopes import Scopes
from amplint.text import Text


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
        found = [
            (target, local + dotted[len(target) :])
            for local, target in self._available()
            if dotted == target or dotted.startswith(f"{target}.")
        ]
        # The most exact import; among equals the one that spells the name in full.
        best = min(found, key=lambda pair: (-len(pair[0]), pair[1] != dotted, pair), default=None)
        return best[1] if best is not None else None

    def spell(self, dotted: str) -> Spelling | None:
        """A way to write a library name, with an import if need be; None if it would clash."""
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
        return None

    def _available(self) -> Iterator[tuple[str, str]]:
        for statement in self.module.body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                for alias in statement.names:
                    local = alias.asname or alias.name
                    if isinstance(statement, ast.Import) and alias.asname is None:
                        local = alias.name.partition(".")[0]
                    targets = {each.target for each in self.scopes.bindings(local)}
                    if len(targets) == 1 and (target := targets.pop()) is not None:
                        yield local, target

    def _extend(self, module: str, name: str) -> Edit | None:
        """Add a name to an import from the same module."""
        for statement in self.module.body:
            if (
                isinstance(statement, ast.ImportFrom)
                and (statement.module, statement.level) == (module, 0)
                and statement.names[-1].name != "*"
            ):
                end = _end(self.text, statement.names[-1])
                return Edit(end, end, f", {name}")
        return None

    def _insert(self, line: str) -> Edit:
        """A new import below the first imports, or else below the docstring, or else on top."""
        newline = self.text.newline
        above: ast.stmt | None = None
        for statement in self.module.body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                above = statement
            elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                break
            elif above is None and statement is self.module.body[0] and _is_docstring(statement):
                above = statement
        if above is None:
            start = self.text.start(_first_row(self.module.body[0])) if self.module.body else 0
            return Edit(start, start, f"{line}{newline}")
        row = above.end_lineno or above.lineno
        if row >= self.text.rows:
            end = len(self.text.text)
            return Edit(end, end, f"{newline}{line}")
        start = self.text.start(row + 1)
        return Edit(start, start, f"{line}{newline}")


def orphans(before: ast.Module, after: ast.Module) -> frozenset[str]:
    """The names that imports bind at the top level of `after`, and only `before` makes use of."""
    lost = _used_names(before) - _used_names(after)
    return frozenset(
        alias.asname or alias.name.partition(".")[0]
        for statement in after.body
        if isinstance(statement, (ast.Import, ast.ImportFrom))
        for alias in statement.names
        if alias.asname != alias.name  # `from x import y as y` is there for others
    ) & frozenset(lost)


def without(text: Text, module: ast.Module, names: Iterable[str]) -> str:
    """The text without the top-level imports of the names.

    An import that says `noqa`, or that cannot go without a comment, stays.
    """
    names = frozenset(names)
    edits = [
        edit
        for statement in module.body
        if isinstance(statement, (ast.Import, ast.ImportFrom))
        for edit in _removals(text, statement, names)
    ]
    result = text.text
    for edit in reversed(edits):
        result = result[: edit.start] + edit.text + result[edit.end :]
    return result


def exported(path: str, name: str) -> re.Pattern[str]:
    """What a statement of another file may look like that takes the name from this module."""
    stem, name = re.escape(basename(path).removesuffix(".py")), re.escape(name)
    names = rf"[^(\n]*\b{name}\b|\([^)]*\b{name}\b|.*\\|\*"
    return re.compile(rf"\bfrom\s+[.\w]*\b{stem}\s+import\s+(?:{names})|\b{stem}\.{name}\b")


def _removals(
    text: Text, statement: ast.Import | ast.ImportFrom, names: frozenset[str]
) -> list[Edit]:
    rows = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    lines = [text.line(row) for row in rows]
    gone = [(each.asname or each.name.partition(".")[0]) in names for each in statement.names]
    if not any(gone) or any("#" in line for line in lines):
        return []
    if all(gone):
        start, end = text.start(rows[0]), text.start(rows[-1] + 1)
        written = text.text[
            text.offset(statement.lineno, statement.col_offset) : _end(text, statement)
        ]
        alone = text.text[start:end].strip() == written.strip()
        return [Edit(start, end, "")] if alone else []
    kept = max(index for index, removed in enumerate(gone) if not removed)
    starts = [text.offset(each.lineno, each.col_offset) for each in statement.names]
    edits = [Edit(starts[i], starts[i + 1], "") for i in range(kept) if gone[i]]
    if kept + 1 < len(gone):
        edits.append(Edit(_end(text, statement.names[kept]), _end(text, statement.names[-1]), ""))
    return edits


def _used_names(module: ast.Module) -> set[str]:
    """The names that are read, and the strings that may name one (`__all__`, annotations)."""
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.update(re.findall(r"\w+", node.value) if len(node.value) < 200 else ())
    return names


def _end(text: Text, node: ast.alias | ast.stmt) -> int:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return text.offset(node.end_lineno, node.end_col_offset)


def _first_row(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
