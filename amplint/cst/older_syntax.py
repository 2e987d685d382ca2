"""A text with newer syntax, written as the running Python reads it; `newer_syntax` says why."""

from __future__ import annotations

import sys
from typing import TypeVar

import libcst as cst

from amplint.core.text import why_python_refuses
from amplint.cst.newer_syntax import Newer
from amplint.cst.segments import parse_module

RUNNING = sys.version_info[:2]
NOTHING = cst.SimpleString('""')
BLANK = cst.Module([])

Defined = TypeVar("Defined", cst.FunctionDef, cst.ClassDef)
Comprehension = TypeVar("Comprehension", cst.ListComp, cst.SetComp, cst.GeneratorExp)
Handler = TypeVar("Handler", cst.ExceptHandler, cst.ExceptStarHandler)


def main() -> None:
    """Answers for the text on standard input."""
    newer = found(sys.stdin.buffer.read().decode("utf-8", "surrogatepass"))
    if newer is not None:
        (major, minor), what = newer
        sys.stdout.write(f"{major} {minor} {what}")


def found(text: str) -> Newer | None:
    """The newest syntax for which alone `ast` refuses a text, or None."""
    module = parse_module(text)
    if module is None:
        return None
    older = InOlderSyntax()
    try:
        code = module.visit(older).code
    except Exception:  # nested too deeply, or of parts that do not go together
        return None
    if not older.found or why_python_refuses(code) is not None:
        return None
    return max(older.found, key=lambda newer: newer.python)


class InOlderSyntax(cst.CSTTransformer):
    """Writes what the running Python does not read in a way that it does; the meaning may differ.

    `found` is what was written so.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Newer] = []

    def is_newer(self, since: tuple[int, int], what: str) -> bool:
        """Whether syntax is newer than the running Python; if so, it is noted."""
        if since <= RUNNING:
            return False
        self.found.append(Newer(since, what))
        return True

    # -- Python 3.11

    def leave_TryStar(self, _: cst.TryStar, node: cst.TryStar) -> cst.BaseStatement:
        if not self.is_newer((3, 11), "`except*`"):
            return node
        handlers = [
            cst.ExceptHandler(one.body, one.type, one.name, one.leading_lines)
            for one in node.handlers
        ]
        return cst.Try(node.body, handlers, node.orelse, node.finalbody, node.leading_lines)

    def leave_Index(self, _: cst.Index, node: cst.Index) -> cst.Index:
        if node.star is None or not self.is_newer((3, 11), "a `*` in brackets of an index"):
            return node
        return node.with_changes(star=None)

    def leave_Annotation(self, _: cst.Annotation, node: cst.Annotation) -> cst.Annotation:
        starred = node.annotation
        if not isinstance(starred, cst.StarredElement):
            return node
        if not self.is_newer((3, 11), "a `*` in an annotation"):
            return node
        return node.with_changes(annotation=starred.value)

    # -- Python 3.12, and 3.13 for defaults

    def leave_FunctionDef(self, _: cst.FunctionDef, node: cst.FunctionDef) -> cst.FunctionDef:
        return self._without_type_parameters(node)

    def leave_ClassDef(self, _: cst.ClassDef, node: cst.ClassDef) -> cst.ClassDef:
        return self._without_type_parameters(node)

    def _without_type_parameters(self, node: Defined) -> Defined:
        if node.type_parameters is None:
            return node
        if not self.is_newer((3, 12), "type parameters in brackets behind a name"):
            return node
        return node.with_changes(type_parameters=None)

    def leave_TypeAlias(self, _: cst.TypeAlias, node: cst.TypeAlias) -> cst.BaseSmallStatement:
        if not self.is_newer((3, 12), "the `type` statement"):
            return node
        return cst.Pass(node.semicolon)

    def leave_TypeParam(self, _: cst.TypeParam, node: cst.TypeParam) -> cst.TypeParam:
        if node.default is None:
            return node
        if not self.is_newer((3, 13), "the default of a type parameter"):
            return node
        return node.with_changes(default=None, equal=cst.MaybeSentinel.DEFAULT, star="")

    def leave_FormattedString(
        self, original: cst.FormattedString, node: cst.FormattedString
    ) -> cst.BaseExpression:
        if not _is_of_312(original):
            return node
        if not self.is_newer((3, 12), "what the braces of an f-string hold"):
            return node
        return NOTHING.with_changes(lpar=node.lpar, rpar=node.rpar)

    # -- Python 3.14

    def leave_ExceptHandler(
        self, _: cst.ExceptHandler, node: cst.ExceptHandler
    ) -> cst.ExceptHandler:
        return self._with_parentheses(node)

    def leave_ExceptStarHandler(
        self, _: cst.ExceptStarHandler, node: cst.ExceptStarHandler
    ) -> cst.ExceptStarHandler:
        return self._with_parentheses(node)

    def _with_parentheses(self, node: Handler) -> Handler:
        types = node.type
        if not isinstance(types, cst.Tuple) or types.lpar or node.name is not None:
            return node
        if not self.is_newer((3, 14), "`except` with several types and no parentheses"):
            return node
        brackets = {"lpar": [cst.LeftParen()], "rpar": [cst.RightParen()]}
        return node.with_changes(type=types.with_changes(**brackets))

    def leave_TemplatedString(
        self, _: cst.TemplatedString, node: cst.TemplatedString
    ) -> cst.BaseExpression:
        if not self.is_newer((3, 14), "a t-string"):
            return node
        return NOTHING.with_changes(lpar=node.lpar, rpar=node.rpar)

    # -- Python 3.15

    def leave_LazyImport(self, _: cst.LazyImport, node: cst.LazyImport) -> cst.BaseSmallStatement:
        if not self.is_newer((3, 15), "`lazy import`"):
            return node
        return cst.Import(node.names, node.semicolon)

    def leave_LazyImportFrom(
        self, _: cst.LazyImportFrom, node: cst.LazyImportFrom
    ) -> cst.BaseSmallStatement:
        if not self.is_newer((3, 15), "`lazy from ... import`"):
            return node
        relative = node.relative
        return cst.ImportFrom(node.module, node.names, relative, node.lpar, node.rpar)

    def leave_ListComp(self, _: cst.ListComp, node: cst.ListComp) -> cst.ListComp:
        return self._without_star(node)

    def leave_SetComp(self, _: cst.SetComp, node: cst.SetComp) -> cst.SetComp:
        return self._without_star(node)

    def leave_GeneratorExp(self, _: cst.GeneratorExp, node: cst.GeneratorExp) -> cst.GeneratorExp:
        return self._without_star(node)

    def _without_star(self, node: Comprehension) -> Comprehension:
        starred = node.elt
        if not isinstance(starred, cst.StarredElement):
            return node
        if not self.is_newer((3, 15), "a `*` in a comprehension"):
            return node
        return node.with_changes(elt=starred.value)

    def leave_StarredDictComp(
        self, _: cst.StarredDictComp, node: cst.StarredDictComp
    ) -> cst.BaseExpression:
        if not self.is_newer((3, 15), "a `**` in a comprehension"):
            return node
        return cst.DictComp(node.value, node.value, node.for_in, lpar=node.lpar, rpar=node.rpar)


def _is_of_312(node: cst.FormattedString) -> bool:
    """Whether Python reads an f-string from 3.12 on for what its braces hold."""
    marks = (node.quote, "\\", "\n", "\r", "#")
    held = [part for part in node.parts if isinstance(part, cst.FormattedStringExpression)]
    codes = map(BLANK.code_for_node, held)
    return any(mark in code for code in codes for mark in marks) or any(map(_is_deep, held))


def _is_deep(held: cst.FormattedStringExpression) -> bool:
    """Whether the format of a value holds a value that has a format with one in it, too."""
    return any(
        isinstance(part, cst.FormattedStringExpression) and bool(part.format_spec)
        for part in held.format_spec or ()
    )
