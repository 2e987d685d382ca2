"""Deprecated names that a file imports, and that nobody uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from amplint import Candidates, Finding, Fix, Rule, Safety, Spot, nodes
from amplint import libcst as cst

from .guards import is_fallback

if TYPE_CHECKING:
    from amplint import Source

INIT = "__init__.py"
MEANT = re.compile(r"#.*\b(noqa|pylint)\b")


def importing(names: frozenset[str]) -> Candidates:
    """The imports of one of these library names."""

    def is_meant(at: Spot) -> bool:
        module, name, level = at.node.data
        return not level and f"{module}.{name}" in names

    return nodes("import") & is_meant


def unused_imports(
    rule: Rule, statement: cst.ImportFrom, names: frozenset[str], src: Source
) -> Iterator[Finding]:
    """A finding for each of these names that a statement imports for nobody.

    An `__init__.py` imports for others, a cell of a notebook for what is typed in the next, and an
    import in a `try` may be there to see whether it fails. A comment for another linter says that
    the import is meant.
    """
    module = src.text(statement.module) if statement.module is not None else ""
    if statement.relative or isinstance(statement.names, cst.ImportStar):
        return
    if not src.path.endswith(".py") or src.path.rpartition("/")[2] == INIT:
        return
    if is_fallback(statement, src) or any(isinstance(a, cst.Try) for a in src.ancestors(statement)):
        return
    line = src.statement(statement)
    if line is None or MEANT.search(cst.Module([]).code_for_node(line)):
        return
    unused = [
        alias
        for alias in statement.names
        if f"{module}.{alias.evaluated_name}" in names and is_unused(bound_by(alias), src)
    ]
    for alias in unused:
        said = f"`{alias.evaluated_name}` of `{module}` is deprecated, and nothing uses this import"
        yield src.finding(rule, alias, said, without(statement, unused, src))


def bound_by(alias: cst.ImportAlias) -> str:
    """Ex) old of `autocast as old`"""
    return alias.evaluated_alias or alias.evaluated_name


def is_unused(name: str, src: Source) -> bool:
    """Whether a name stands once in the file, and no other file seems to take it from there."""
    again = rf"(?<![.\w]){name}\b[\s\S]*(?<![.\w]){name}\b"
    if src.says(re.compile(again)):
        return False
    # As `exported` in amplint/cst/imports.py, by lines: what is asked of other files are lines.
    stem = PurePosixPath(src.path).stem
    taken = rf"\b{re.escape(stem)}\s+import\b.*([*(\\]|\b{name}\b)|\b{re.escape(stem)}\.{name}\b"
    return not src.matches(taken, stem)


def without(statement: cst.ImportFrom, gone: list[cst.ImportAlias], src: Source) -> Fix | None:
    """Import the rest, if there is any. Unsafe: who is out of sight may take the name from here."""
    assert not isinstance(statement.names, cst.ImportStar)
    left = [alias for alias in statement.names if alias not in gone]
    title = "Remove the import"
    if not left:
        edit = src.edits.remove_statement(statement)
        return Fix(title, (edit,), Safety.UNSAFE) if edit is not None else None
    if statement.lpar is not None or statement.module is None:
        return None  # its lines, and the comments on them, are not for amplint to set anew
    kept = ", ".join(src.text(alias).rstrip(", ") for alias in left)
    new = f"from {src.text(statement.module)} import {kept}"
    return Fix(title, (src.edits.replace(statement, new),), Safety.UNSAFE)
