"""Imports that fixes have left unused: which they are, and the text without them."""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from posixpath import basename, split

from amplint.findings.finding import Edit, edited
from amplint.knowledge.libraries import STAR_IMPORTS
from amplint.source.edits.imports import end_of, first_row
from amplint.util.text import Text

Function = ast.FunctionDef | ast.AsyncFunctionDef
# What a test may consist of that may as well not be asked.
PURE = (
    ast.Name, ast.Attribute, ast.Constant, ast.BoolOp, ast.UnaryOp, ast.Compare,
    ast.boolop, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip
# What may hold a statement; no expression does.
HOLDERS = (ast.stmt, ast.ExceptHandler, ast.match_case)


@dataclass(frozen=True)
class Orphan:
    """An import of the new text whose names only the old text makes use of.

    Args:
        names: what it binds: one name, or all those of a star.
        at_top: whether it is the module's, so that other files may take the names from there.
        block: the statements that it stands among.
        branch: the `if` whose first block that is, and the block of the `if`.
    """

    names: frozenset[str]
    at_top: bool
    block: Sequence[ast.stmt]
    statement: ast.Import | ast.ImportFrom
    alias: ast.alias
    branch: tuple[ast.If, Sequence[ast.stmt]] | None = None


def orphans(before: ast.Module, after: ast.Module) -> Iterator[Orphan]:
    """The imports of the module, and of its functions, that have lost their last use."""
    earlier = dict(_scopes(before, ()))
    for key, scope in _scopes(after, ()):
        if key in earlier:
            yield from _orphans_of(earlier[key], scope)


def without(text: Text, leftovers: Iterable[Orphan]) -> str:
    """The text without these imports.

    An import that says `noqa`, or that cannot go without a comment, stays. One that is all of its
    block goes with the `if` of that block, or stays.
    """
    by_statement: dict[ast.Import | ast.ImportFrom, list[Orphan]] = defaultdict(list)
    for orphan in leftovers:
        by_statement[orphan.statement].append(orphan)
    edits: set[Edit] = set()
    for those in by_statement.values():
        if not _is_done_with(those[0].block, by_statement):
            edits.update(_removals(text, those))
        elif those[0].branch is not None and _is_needless(those[0].branch[0], by_statement):
            edits.update(_whole_lines(text, *those[0].branch))
    return edited(text.text, edits)


def read_too_early(module: ast.Module) -> frozenset[str]:
    """The names that are read above all imports of theirs at the top level of a module.

    Within a function too: a cell of a notebook may call one before the cell below runs.
    """
    rows: dict[str, int] = {}
    for statement in module.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                for name in _bound(statement, alias):
                    rows.setdefault(name, statement.lineno)
    last = max(rows.values(), default=0)
    return frozenset(
        node.id
        for statement in module.body
        if first_row(statement) < last
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and node.lineno < rows.get(node.id, 0)
    )


def uses(module: ast.Module, name: str) -> bool:
    """Whether a module reads a name, or has a string that may name it."""
    return name in _used_names(module)


def lists_its_names(module: ast.Module) -> bool:
    """Whether a module says by a list in `__all__` what it is there for."""
    return any(
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, (ast.List, ast.Tuple))
        and all(isinstance(each, ast.Constant) for each in statement.value.elts)
        and _sets_exports(statement)
        for statement in module.body
    )


def starred(path: str) -> re.Pattern[str]:
    """A pattern for a statement of another file that imports all names of this module."""
    module = re.escape(stem(path))
    return re.compile(rf"\bfrom\s+[.\w]*\b{module}\s+import\s*\*")


def exported(path: str, name: str) -> re.Pattern[str]:
    """A pattern for a statement of another file that imports the name from this module; by a
    star it takes those that it reads."""
    module, name = re.escape(stem(path)), re.escape(name)
    names = rf"[^(\n]*\b{name}\b|\([^)]*\b{name}\b|.*\\\r?\n"
    return re.compile(rf"\bfrom\s+[.\w]*\b{module}\s+import\s+(?:{names})|\b{module}\.{name}\b")


def stem(path: str) -> str:
    """The last part of a module's name, which is its directory's where it is a package: it stands
    in every statement that imports from it."""
    directory, file = split(path)
    return basename(directory) if file == "__init__.py" else file.removesuffix(".py")


def _scopes(
    node: ast.AST, key: tuple[tuple[str, int], ...]
) -> Iterator[tuple[tuple[tuple[str, int], ...], ast.Module | Function]]:
    """The module and its functions, each with its path: names, and which of that name it is."""
    if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)):
        yield key, node
    counts: Counter[str] = Counter()
    stack = [*reversed(list(ast.iter_child_nodes(node)))]
    while stack:
        child = stack.pop()
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            counts[child.name] += 1
            yield from _scopes(child, (*key, (child.name, counts[child.name])))
        elif isinstance(child, HOLDERS):
            stack += reversed(list(ast.iter_child_nodes(child)))


def _orphans_of(before: ast.AST, after: ast.Module | Function) -> Iterator[Orphan]:
    imports = [
        (statement, block, branch)
        for block, branch in _blocks(after)
        for statement in block
        if isinstance(statement, (ast.Import, ast.ImportFrom))
    ]
    if not imports or (isinstance(after, Function) and _shares_names(after)):
        return
    lost = _used_names(before) - (remaining := _used_names(after))
    at_top = isinstance(after, ast.Module)
    for statement, block, branch in imports:
        for alias in statement.names:
            names = _bound(statement, alias)
            # `from x import y as y` is there for others
            if names & lost and not names & remaining and alias.asname != alias.name:
                yield Orphan(names, at_top, block, statement, alias, branch)


def _bound(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> frozenset[str]:
    if alias.name == "*" and isinstance(statement, ast.ImportFrom):
        return STAR_IMPORTS.get(statement.module or "", frozenset())
    return frozenset({alias.asname or alias.name.partition(".")[0]})


def _blocks(
    scope: ast.Module | Function,
) -> Iterator[tuple[list[ast.stmt], tuple[ast.If, list[ast.stmt]] | None]]:
    """The blocks that a module or a function consists of, each with the `if` that it is the first
    of. Not those of `try`, which say what may fail."""
    blocks: list[tuple[list[ast.stmt], tuple[ast.If, list[ast.stmt]] | None]]
    blocks = [(scope.body, None)]
    while blocks:
        block, branch = blocks.pop()
        yield block, branch
        for statement in block:
            if isinstance(statement, ast.If):
                blocks += [(statement.body, (statement, block)), (statement.orelse, None)]
            elif isinstance(statement, (ast.For, ast.AsyncFor, ast.While)):
                blocks += [(statement.body, None), (statement.orelse, None)]
            elif isinstance(statement, (ast.With, ast.AsyncWith)):
                blocks.append((statement.body, None))


def _shares_names(function: Function) -> bool:
    return any(isinstance(node, (ast.Global, ast.Nonlocal)) for node in ast.walk(function))


ByStatement = Mapping[ast.Import | ast.ImportFrom, Sequence[Orphan]]


def _is_done_with(block: Sequence[ast.stmt], by_statement: ByStatement) -> bool:
    """Whether nothing would stay in a block but what takes the place of the imports."""
    names = {name for those in by_statement.values() for each in those for name in each.names}
    return all(
        len(by_statement.get(each, ())) == len(each.names)
        if isinstance(each, (ast.Import, ast.ImportFrom))
        else _sets_one_of(names, each)
        for each in block
    )


def _sets_one_of(names: set[str], statement: ast.stmt) -> bool:
    """Ex) amp = None"""
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and all(isinstance(each, ast.Name) and each.id in names for each in statement.targets)
    )


def _is_needless(branch: ast.If, by_statement: ByStatement) -> bool:
    """Ex) `if self.args.fp16: from torch.cuda import amp`, or with `else: amp = None`"""
    return all(isinstance(node, PURE) for node in ast.walk(branch.test)) and _is_done_with(
        branch.orelse, by_statement
    )


def _removals(text: Text, those: Sequence[Orphan]) -> list[Edit]:
    """How to remove some of the names of a statement, or all of it."""
    statement, block = those[0].statement, those[0].block
    cuts = [any(alias is orphan.alias for orphan in those) for alias in statement.names]
    if all(cuts):
        return _whole_lines(text, statement, block)
    return removed_names(text, statement, cuts)


def removed_names(
    text: Text, statement: ast.Import | ast.ImportFrom, cuts: Sequence[bool]
) -> list[Edit]:
    """How to remove some of the names of a statement, but not all; not at all with a comment."""
    if any("#" in text.line(row) for row in _rows(statement)):
        return []
    last = max(index for index, removed in enumerate(cuts) if not removed)
    starts = [text.offset(each.lineno, each.col_offset) for each in statement.names]
    edits = [Edit(starts[i], starts[i + 1], "") for i in range(last) if cuts[i]]
    if last + 1 < len(cuts):
        edits.append(
            Edit(end_of(text, statement.names[last]), end_of(text, statement.names[-1]), "")
        )
    return edits


def _whole_lines(text: Text, statement: ast.stmt, block: Sequence[ast.stmt]) -> list[Edit]:
    """How to remove a statement that has its lines for itself, and is not all of its block."""
    rows = _rows(statement)
    if any("#" in text.line(row) for row in rows) or len(block) == 1:
        return []
    start, end = text.start(rows[0]), text.start(rows[-1] + 1)
    written = text.text[
        text.offset(statement.lineno, statement.col_offset) : end_of(text, statement)
    ]
    if text.text[start:end].strip() != written.strip():
        return []
    # Of an empty line above and one below, one is enough; at the top of a block, none.
    spaced = block[0] is statement or not text.line(rows[0] - 1).strip()
    if spaced and rows[-1] < text.rows and not text.line(rows[-1] + 1).strip():
        end = text.start(min(rows[-1] + 2, text.rows))
    return [Edit(start, end, "")]


def _rows(statement: ast.stmt) -> range:
    return range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)


def _used_names(scope: ast.AST) -> set[str]:
    """The names that are read, be it by code in a string (`__all__`, annotations, doctests)."""
    names: set[str] = set()
    for node in ast.walk(scope):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= _names_in_string(node.value)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            names.update(node.names)
        elif isinstance(node, (ast.Assign, ast.AugAssign)) and _sets_exports(node):
            names.update(words_in(node.value))  # Ex) "a b".split()
    return names


def words_in(node: ast.AST) -> Iterator[str]:
    """The identifiers of an expression, and the words of its strings, however deep it is nested:
    `ast.unparse` recurses."""
    for each in ast.walk(node):
        for name in ("id", "attr", "arg", "value"):
            written = getattr(each, name, None)
            if isinstance(written, str):
                yield from re.findall(r"\w+", written)


def _sets_exports(statement: ast.Assign | ast.AugAssign) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(isinstance(each, ast.Name) and each.id == "__all__" for each in targets)


@lru_cache(maxsize=10_000)  # a file has nearly the strings that it had before its fixes
def _names_in_string(value: str) -> frozenset[str]:
    if ">>>" in value:
        return frozenset(re.findall(r"\w+", value))
    if len(value) >= 200 or value.startswith("-"):
        return frozenset()  # too long for an annotation, or an option: "--amp"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = ast.parse(value.strip())
    except (SyntaxError, ValueError):
        return frozenset()
    return frozenset(node.id for node in ast.walk(code) if isinstance(node, ast.Name))
