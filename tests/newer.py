"""Code in the syntax of newer Pythons: what says the same in two ways, said in the newer one."""

from __future__ import annotations

import re

import libcst as cst

PARAMETERS = cst.TypeParameters([cst.TypeParam(cst.TypeVar(cst.Name("T_")))])


def in_newer_syntax(text: str) -> str:
    """The text with type parameters, `except` without parentheses, and braces of f-strings that
    hold the quotes around them. No row changes."""
    return cst.parse_module(text).visit(InNewerSyntax()).code


class InNewerSyntax(cst.CSTTransformer):
    """Writes what is older in newer syntax."""

    def leave_FunctionDef(self, _: cst.FunctionDef, node: cst.FunctionDef) -> cst.FunctionDef:
        return node.with_changes(type_parameters=node.type_parameters or PARAMETERS)

    def leave_ClassDef(self, _: cst.ClassDef, node: cst.ClassDef) -> cst.ClassDef:
        return node.with_changes(type_parameters=node.type_parameters or PARAMETERS)

    def leave_ExceptHandler(
        self, _: cst.ExceptHandler, node: cst.ExceptHandler
    ) -> cst.ExceptHandler:
        types = node.type
        if node.name is not None or not isinstance(types, cst.Tuple) or len(types.elements) < 2:
            return node
        bare = types.with_changes(lpar=(), rpar=())
        return node.with_changes(type=bare, whitespace_after_except=cst.SimpleWhitespace(" "))

    def leave_FormattedString(
        self, _: cst.FormattedString, node: cst.FormattedString
    ) -> cst.FormattedString:
        return node.with_changes(parts=[part.visit(Quoted(node.quote)) for part in node.parts])


class Quoted(cst.CSTTransformer):
    """Puts strings in the quotes of the f-string around them."""

    def __init__(self, quote: str) -> None:
        super().__init__()
        self._quote = quote

    def leave_SimpleString(self, _: cst.SimpleString, node: cst.SimpleString) -> cst.SimpleString:
        held = node.raw_value
        if len(self._quote) > 1 or re.search(r"['\"\\\n]", held):
            return node
        return node.with_changes(value=f"{node.prefix}{self._quote}{held}{self._quote}")
