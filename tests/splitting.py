"""Cut a program into one module for each of its definitions, joined by imports of every style.

What amplint says of a program must not depend on how it is spread over files. The split is
mechanical, so that it can be taken of every fixture: a definition keeps its text, and gets in front
of it the imports of the program and the imports of whatever else of the program it names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

PACKAGE = "parts"


@dataclass(frozen=True)
class Part:
    """A module of the split program: what it defines, and its text without imports."""

    name: str
    defines: frozenset[str]
    uses: frozenset[str]
    text: str


def split(source: str) -> dict[str, str]:
    """The modules of a package `parts` that together are the program.

    Args:
        source: a module whose definitions are functions, classes, and statements that bind names.

    Returns:
        path -> text. Modules import each other absolutely, relatively, through the re-exports of
        the package, and with a star, in turn.
    """
    tree = ast.parse(source)
    lines = source.split("\n")
    header = "\n".join(_text(node, lines) for node in tree.body if _is_header(node))
    parts = list(_parts(tree, lines))
    owner = {name: part for part in parts for name in part.defines}
    files = {f"{PACKAGE}/__init__.py": _reexports(parts)}
    for number, part in enumerate(parts):
        imports = [
            _import(owner[name].name, name, number + position)
            for position, name in enumerate(sorted(part.uses & owner.keys() - part.defines))
        ]
        files[f"{PACKAGE}/{part.name}.py"] = "\n".join([header, *imports, "", part.text, ""])
    return files


def _is_header(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Try) and any(
        isinstance(inner, ast.Import | ast.ImportFrom) for inner in ast.walk(node)
    )


def _parts(tree: ast.Module, lines: list[str]) -> Iterator[Part]:
    """A part for each definition; the statements that are none stand together in the first."""
    shared = [
        node
        for node in tree.body
        if not _is_header(node)
        and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    definitions = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    yield _part("shared", shared, lines)
    by_name: dict[str, list[ast.stmt]] = {}
    for node in definitions:
        by_name.setdefault(node.name, []).append(node)
    for name, nodes in by_name.items():
        yield _part(f"part_{name}", nodes, lines)


def _part(name: str, nodes: list[ast.stmt], lines: list[str]) -> Part:
    defines: set[str] = set()
    uses: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defines.add(node.name)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                stored_here = isinstance(inner.ctx, ast.Store) and node is not inner
                top = not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                (defines if stored_here and top else uses).add(inner.id)
            elif isinstance(inner, ast.keyword) and isinstance(inner.value, ast.Constant):
                uses.add(str(inner.value.value))  # of TypeVar("T", bound="Net")
    text = "\n\n".join(_text(node, lines) for node in nodes)
    return Part(name, frozenset(defines), frozenset(uses), text)


def _text(node: ast.stmt, lines: list[str]) -> str:
    """The statement's lines, with its decorators and the comment at its end."""
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return "\n".join(lines[first - 1 : node.end_lineno])


def _import(module: str, name: str, turn: int) -> str:
    return (
        f"from .{module} import {name}",
        f"from {PACKAGE}.{module} import {name}",
        f"from {PACKAGE} import {name}",
        f"from .{module} import *",
        f"from . import {name}",
    )[turn % 5]


def _reexports(parts: list[Part]) -> str:
    lines = []
    for number, part in enumerate(parts):
        if not part.defines:
            continue
        names = ", ".join(sorted(part.defines))
        lines.append(
            f"from .{part.name} import *" if number % 2 else f"from .{part.name} import {names}"
        )
    return "\n".join([*lines, ""])
