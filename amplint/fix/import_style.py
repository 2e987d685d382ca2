"""Keep the style of import that a file has, where fixes replace all uses of an imported name.

A rule writes a new name in a way that is right for one use alone: `torch.amp.autocast("cuda")` for
an `autocast` from torch.cuda.amp, whose import has to stay for the other uses. Where all of them
are replaced by the same thing, the import may name that instead, and the uses stay short.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from amplint.findings.finding import Edit, edited
from amplint.fix.unused_imports import removed_names, uses, words_in
from amplint.knowledge.vocabulary import ASKS_WHAT_IS_THERE
from amplint.source.edits.imports import Imports
from amplint.source.scopes import Scopes
from amplint.util.text import Text

DOTTED = re.compile(r"\w+(\.\w+)+")
ADDED = re.compile(r"import (\w+)")
UNUSED_ON_PURPOSE = re.compile(r"#\s*noqa(?!:)|#\s*noqa:.*\bF401\b", re.IGNORECASE)
Statement = ast.Import | ast.ImportFrom
FAILS = {"ImportError", "Exception", "BaseException"}


@dataclass(frozen=True)
class Renamed:
    """An imported name, of which all uses are replaced.

    Args:
        name: as the file calls it.
        statements: the imports that bind it.
        written: what the fixes write in its place: "torch.amp.autocast".
        module: where the new thing is imported from: "torch.amp".
        edits: those that replace a use.
    """

    name: str
    statements: tuple[Statement, ...]
    written: str
    module: str
    edits: frozenset[Edit]


def in_style(
    text: Text, edits: Sequence[Edit], is_taken: Callable[[str], bool]
) -> tuple[Edit, ...] | None:
    """The edits of a file with short names for long ones, and with the imports that these need.

    None where no import has lost all its uses to one other thing of its name, or where it cannot
    be changed without a risk.

    Args:
        text: the text before the edits.
        edits: all that is replaced in it.
        is_taken: whether other files may take a name from this one.
    """
    by_name = _by_name(text, edits)
    if not by_name:
        return None
    renamed = list(_renamed(text, ast.parse(text.text), edits, by_name, is_taken))
    while renamed:
        imports, stuck = _imports(text, renamed)
        if not stuck:
            return _without_needless(text, [*_shortened(edits, renamed), *imports])
        renamed = [each for each in renamed if stuck.isdisjoint(each.statements)]
    return None


def _renamed(
    text: Text,
    module: ast.Module,
    edits: Sequence[Edit],
    by_name: Mapping[str, Mapping[int, Edit]],
    is_taken: Callable[[str], bool],
) -> Iterator[Renamed]:
    wholly = list(_replaced_wholly(text, module, by_name))
    if not wholly:
        return
    after = ast.parse(edited(text.text, edits))
    scopes, imports = Scopes(module), Imports(text, Scopes(after))
    unsure = _unsure(module)
    for name, long, replaced in wholly:
        meaning = imports.meaning(long)
        statements = _statements(scopes, name, meaning)
        if (
            meaning is not None
            and statements
            and unsure.isdisjoint(statements)
            and not any(UNUSED_ON_PURPOSE.search(_lines(text, each)) for each in statements)
            and not uses(after, name)
            # Some uses may have been replaced before: they would be written in two ways.
            and not re.search(rf"(?<![\w.]){re.escape(long)}\b", text.text)
            and not (any(b.scope is module for b in scopes.bindings(name)) and is_taken(name))
        ):
            yield Renamed(name, statements, long, meaning.rpartition(".")[0], frozenset(replaced))


def _by_name(text: Text, edits: Sequence[Edit]) -> Mapping[str, Mapping[int, Edit]]:
    """The edits that write a dotted name in the place of a name: by that one, and by place."""
    by_name: dict[str, dict[int, Edit]] = defaultdict(dict)
    for edit in edits:
        name = re.match(r"\w+", text.text[edit.start : edit.end])
        if name is not None and DOTTED.fullmatch(_written(text, name.group(), edit)):
            by_name[name.group()][edit.start] = edit
    return by_name


def _replaced_wholly(
    text: Text, module: ast.Module, by_name: Mapping[str, Mapping[int, Edit]]
) -> Iterator[tuple[str, str, list[Edit]]]:
    """The names of which all uses are replaced by one dotted name: that one, and the edits."""
    rows = {text.position(start).row for by_start in by_name.values() for start in by_start}
    reads: dict[str, list[Edit | None]] = defaultdict(list)
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and node.id in by_name:
            is_near = node.lineno in rows
            at = text.offset(node.lineno, node.col_offset) if is_near else -1
            reads[node.id].append(by_name[node.id].get(at))
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            for name in node.names:
                reads[name].append(None)
    for name, places in reads.items():
        replaced = [edit for edit in places if edit is not None]
        written = {_written(text, name, edit) for edit in replaced}
        if len(replaced) == len(places) and len(written) == 1:
            yield name, written.pop(), replaced


def _written(text: Text, name: str, edit: Edit) -> str:
    """The name that an edit writes for another: "torch.amp", where it makes `torch.amp.autocast` of
    `amp.autocast`; empty where it does something else."""
    rest = text.text[edit.start + len(name) : edit.end]
    new = re.match(r"[\w.]*", edit.text)
    dotted = new.group() if new is not None else ""
    return dotted.removesuffix(rest) if re.fullmatch(r"(\.\w+)*", rest) and rest in dotted else ""


def _statements(scopes: Scopes, name: str, meaning: str | None) -> tuple[Statement, ...]:
    """The imports of a name, if nothing else binds it, and if they import what has the same name
    as the new thing. `from x import y as y` is there for others."""
    statements: list[Statement] = []
    last = (meaning or "").rpartition(".")[2]
    for binding in scopes.bindings(name):
        statement = binding.node
        if (
            not isinstance(statement, Statement)
            or isinstance(binding.scope, ast.ClassDef)
            or binding.target is None
            or binding.target.rpartition(".")[2] != last
        ):
            return ()
        # `import x.y as z` has that name for what it was.
        if (_alias(statement, name).asname == last) is isinstance(statement, ast.ImportFrom):
            return ()
        if _reads(binding.scope, name):
            statements.append(statement)
    targets = {binding.target for binding in scopes.bindings(name)}
    return tuple(statements) if len(targets) == 1 else ()


def _reads(scope: ast.AST, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(scope))


def _alias(statement: Statement, name: str) -> ast.alias:
    return next(each for each in statement.names if name == (each.asname or each.name))


def _unsure(module: ast.Module) -> set[ast.stmt]:
    """The statements that another import might take to another end: under a test of what there
    is, or in a `try` that is not there for imports that fail; and those above a
    `from helpers import *`, which may bind the same name once more, to what it meant before."""
    every = [node for node in ast.walk(module) if isinstance(node, ast.stmt)]
    all_names = max((each.lineno for each in every if _takes_all(each)), default=0)
    statements = {each for each in every if each.lineno < all_names}
    for node in ast.walk(module):
        if isinstance(node, ast.If) and any(map(ASKS_WHAT_IS_THERE.search, words_in(node.test))):
            parts = [*node.body, *node.orelse]
        elif isinstance(node, ast.Try) and not any(map(_expects_failure, node.handlers)):
            parts = node.body
        else:
            continue
        statements.update(
            each for part in parts for each in ast.walk(part) if isinstance(each, ast.stmt)
        )
    return statements


def _takes_all(statement: ast.stmt) -> bool:
    """Ex) from helpers import *"""
    return isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*"


def _expects_failure(handler: ast.ExceptHandler) -> bool:
    """Ex) except ImportError:, except (ImportError, AttributeError):, except:"""
    if handler.type is None:
        return True
    return any(isinstance(node, ast.Name) and node.id in FAILS for node in ast.walk(handler.type))


# ------------------------------------------------------------------------------------- edits


def _imports(text: Text, renamed: Iterable[Renamed]) -> tuple[list[Edit], set[Statement]]:
    """The edits of the imports, and those that cannot be edited."""
    by_statement: dict[Statement, list[Renamed]] = defaultdict(list)
    for each in renamed:
        for statement in each.statements:
            by_statement[statement].append(each)
    edits: list[Edit] = []
    stuck: set[Statement] = set()
    for statement, those in by_statement.items():
        changes = _changed(text, statement, those)
        edits += changes
        if not changes:
            stuck.add(statement)
    return edits, stuck


def _changed(text: Text, statement: Statement, those: Sequence[Renamed]) -> list[Edit]:
    """One import, of the new module; or another one above it, if it has more names."""
    modules = sorted({each.module for each in those})
    cuts = [
        any(_alias(statement, each.name) is alias for each in those) for alias in statement.names
    ]
    if all(cuts) and len(modules) == 1:
        if isinstance(statement, ast.Import):
            return _replaced(
                text, statement, statement.names[0].name, f"{modules[0]}.{those[0].name}"
            )
        return _replaced(text, statement, statement.module or "", modules[0])
    above = text.start(statement.lineno)
    indent = text.text[above : text.offset(statement.lineno, statement.col_offset)]
    removed = [] if all(cuts) else removed_names(text, statement, cuts)
    if indent.strip() or not removed or isinstance(statement, ast.Import):
        return []
    lines = [
        f"{indent}from {module} import {_names(statement, those, module)}{text.newline}"
        for module in modules
    ]
    return [Edit(above, above, "".join(lines)), *removed]


def _replaced(text: Text, statement: Statement, old: str, new: str) -> list[Edit]:
    """Put another module's name in the place of the first one of an import."""
    start = text.offset(statement.lineno, statement.col_offset)
    match = re.compile(rf"((?:from|import)[ \t]+){re.escape(old)}\b").match(text.text, start)
    return [Edit(match.end(1), match.end(), new)] if match else []


def _names(statement: ast.ImportFrom, those: Sequence[Renamed], module: str) -> str:
    """Ex) autocast as ac, GradScaler"""
    names = {each.name for each in those if each.module == module}
    aliases = [each for each in statement.names if (each.asname or each.name) in names]
    return ", ".join(ast.unparse(alias) for alias in aliases)


def _shortened(edits: Iterable[Edit], renamed: Sequence[Renamed]) -> Iterator[Edit]:
    """The edits, with the name that the file has for what they write."""
    for edit in edits:
        by = next((each for each in renamed if edit in each.edits), None)
        yield edit if by is None else replace(edit, text=by.name + edit.text[len(by.written) :])


def _without_needless(text: Text, edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """The edits without the imports that only the long names needed."""
    after = ast.parse(edited(text.text, edits))

    def is_needless(edit: Edit) -> bool:
        added = ADDED.fullmatch(edit.text.strip()) if edit.start == edit.end else None
        return added is not None and not uses(after, added[1])

    return tuple(edit for edit in edits if not is_needless(edit))


def _lines(text: Text, statement: ast.stmt) -> str:
    last = statement.end_lineno or statement.lineno
    return text.text[text.start(statement.lineno) : text.start(last + 1)]
