"""Library classes and functions that are handed on as values, for somebody else to call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Candidates, Spot, Symbol, Value, canonical, in_functions_with, nodes
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Source

# What asks about a class, or names it for a check, and calls it not.
ASKING = frozenset({"isinstance", "issubclass", "hasattr", "getattr", "is_instance", "type"})


def handing_on(names: frozenset[str]) -> Candidates:
    """The nodes at which one of these library names may be handed on."""

    def is_meant(value: Value) -> bool:
        return any(isinstance(atom, Symbol) and canonical(atom.name) in names for atom in value)

    def hands_on(at: Spot) -> bool:
        return any(map(is_meant, at.operands))

    # What the name of a class attribute is bound to is no operand of anything.
    return in_functions_with(names) & (
        nodes("call", "return", "tuple", "list", "dict", "store") & hands_on
        | nodes("attr", "name", "import") & (lambda at: is_meant(at.value))
    )


def handed_on(
    node: cst.Arg | cst.Return | cst.Element | cst.DictElement | cst.Assign,
    names: frozenset[str],
    src: Source,
) -> Iterator[tuple[cst.BaseExpression, str]]:
    """An expression that hands a name on, and the name: an argument, a returned value, an element,
    the value of a field.

    Ex) autocast of partial(autocast, enabled=True), of `return autocast, GradScaler`, and of
    self.region = autocast
    """
    value = node.value
    if value is None or not isinstance(value, cst.Name | cst.Attribute):
        return
    name = src.name(value)
    if name is None or name not in names:
        return
    if isinstance(node, cst.Assign) and not sets_field(node, src):
        return
    call = src.parent(node)
    if isinstance(call, cst.ClassDef):
        return  # a base
    asked = isinstance(call, cst.Call) and src.text(call.func).rpartition(".")[2] in ASKING
    # Ex) isinstance(x, (GradScaler, Other))
    named = isinstance(node, cst.Element) and any(
        isinstance(around, cst.Call) and src.text(around.func) in ASKING
        for around in src.ancestors(node)
    )
    if not asked and not named:
        yield value, name


def sets_field(node: cst.Assign, src: Source) -> bool:
    """Whether an assignment sets a field of an object, or of a class."""
    cls, function = src.class_around(node), src.function(node)
    # Of a class in a function, the class is around it; of a method, the method.
    in_class = cls is not None and (function is None or src.span(function).start.row < cls.lineno)
    return in_class or any(isinstance(each.target, cst.Attribute) for each in node.targets)
