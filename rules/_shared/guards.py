"""Code that runs only on another version of torch, on demand, or once: it may stay as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Source

# What a test of the version, or of whether a name is there, says.
# Ex) torch.__version__ >= "2.4", hasattr(torch.amp, "GradScaler"), TORCH_GE_2_4, is_torch_2_4
ASKS_VERSION = re.compile(r"version|hasattr\(|getattr\(|\bparse\(|torch\w*\d", re.IGNORECASE)
# The same of what a variable is made of, where `getattr(args, "amp")` is no such thing.
MADE_OF_VERSION = re.compile(r"__version__|version\.|(get|has)attr\(\s*torch|torch\w*\d")
CATCHES = re.compile(r"\b(suppress|raises)\(")
MISSING_NAME = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "Exception"})


def is_fallback(node: cst.CSTNode, src: Source) -> bool:
    """Whether the node runs only on a torch that lacks a name, or has it.

    Ex) try: torch.amp.GradScaler("cuda") except AttributeError: <node>
    """
    for ancestor in src.ancestors(node):
        if isinstance(ancestor, cst.ExceptHandler):
            if ancestor.type is None or MISSING_NAME & set(
                re.findall(r"\w+", src.text(ancestor.type))
            ):
                return True
        elif isinstance(ancestor, cst.If | cst.IfExp) and asks_version(ancestor.test, src):
            return True
    return False


def asks_version(test: cst.BaseExpression, src: Source) -> bool:
    """Whether a test asks for the version of torch, or for a name of it, itself or by a variable.

    Ex) new = getattr(torch, "get_autocast_dtype", None), and then `if new is not None`
    """
    made = (src.origin(name) or src.variables.global_value(name) for name in src.layout.names(test))
    return ASKS_VERSION.search(src.text(test)) is not None or any(
        each is not None and MADE_OF_VERSION.search(src.text(each)) for each in made
    )


def is_caught(node: cst.CSTNode, src: Source) -> bool:
    """Whether the function goes on where the node raises.

    Ex) try: <node> except RuntimeError: ...; with suppress(RuntimeError): <node>
    """
    inner = node
    for ancestor in src.ancestors(node):
        if isinstance(ancestor, cst.FunctionDef | cst.Lambda):
            return False
        if isinstance(ancestor, cst.Try | cst.TryStar):
            if ancestor.handlers and inner is ancestor.body:
                return True
        elif isinstance(ancestor, cst.With) and any(
            CATCHES.search(src.text(item.item)) for item in ancestor.items
        ):
            return True
        inner = ancestor
    return False


def is_wished(node: cst.CSTNode, words: re.Pattern[str], src: Source) -> bool:
    """Whether the node runs only where somebody asks for it: `if args.sync:`."""
    return any(words.search(src.text(test)) for test in tests_around(node, src))


def asks_type(node: cst.BaseExpression, src: Source) -> bool:
    """Whether an expression stands under a test of its own type."""
    asks = re.compile(rf"\b(isinstance|hasattr|is_tensor|type)\(\s*{re.escape(src.text(node))}\b")
    return any(asks.search(src.text(test)) for test in tests_around(node, src))


def fills_cache(node: cst.CSTNode, src: Source) -> bool:
    """Whether the node runs only while something is not there yet; not while an argument is left
    out, which may be so in every call.

    Ex) if key not in self.tables: <node>
    """
    return any(
        isinstance(test, cst.Comparison)
        and isinstance(test.comparisons[0].operator, cst.NotIn | cst.Is)
        and not (isinstance(test.left, cst.Name) and src.parameter(test.left) is not None)
        for test in tests_around(node, src)
    )


def is_kept(node: cst.CSTNode, src: Source) -> bool:
    """Whether the node makes what is kept from then on, in a field or a table that was asked first.

    Ex) if self.window is None: self.window = <node>
    Ex) if key not in self.tables: self.tables[key] = <node>
    """
    inner = node
    for ancestor in src.ancestors(node):
        if isinstance(ancestor, cst.FunctionDef | cst.Lambda):
            return False
        if isinstance(ancestor, cst.If) and inner is ancestor.body:
            asked = {name for test in operands_of(ancestor.test) for name in missing(test, src)}
            if asked and not asked.isdisjoint(stored(ancestor.body, src)):
                return True
        inner = ancestor
    return False


def missing(test: cst.BaseExpression, src: Source) -> Iterator[str]:
    """The text of the field or the table that a test asks for what it lacks."""
    if isinstance(test, cst.Comparison):
        operator, right = test.comparisons[0].operator, test.comparisons[0].comparator
        if isinstance(operator, cst.NotIn):
            yield src.text(right)
        elif isinstance(operator, cst.Is) and isinstance(test.left, cst.Attribute):
            yield src.text(test.left)


def stored(body: cst.CSTNode, src: Source) -> Iterator[str]:
    """The texts of the fields and of the tables that the statements of a block write to."""
    for statement in body.children:
        for part in statement.children:
            if isinstance(part, cst.Assign):
                for target in part.targets:
                    written = target.target
                    yield src.text(written.value if isinstance(written, cst.Subscript) else written)


def is_probe(node: cst.CSTNode, src: Source) -> bool:
    """Whether the node is there to see whether it raises.

    Ex) try: _ = torch.zeros(1).to(device) except RuntimeError: return False
    """
    statement = src.parent(node)
    thrown = isinstance(statement, cst.Expr) or src.assigned_name(node) == "_"
    return thrown and is_caught(node, src)


def meets_mismatch(node: cst.CSTNode, src: Source) -> bool:
    """Whether the node runs only where two tensors differ in device or dtype, as they should not.

    Ex) if boxes.device != labels.device: return <node>
    """
    return any(
        isinstance(test, cst.Comparison)
        and isinstance(test.comparisons[0].operator, cst.NotEqual)
        and isinstance(test.left, cst.Attribute)
        and test.left.attr.value in ("device", "dtype")
        for whole in tests_around(node, src)
        for test in operands_of(whole)
    )


def operands_of(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Ex) a, b, c of `a or (b and c)`"""
    if isinstance(test, cst.BooleanOperation):
        yield from operands_of(test.left)
        yield from operands_of(test.right)
    else:
        yield test


def tests_around(node: cst.CSTNode, src: Source) -> Iterator[cst.BaseExpression]:
    """The tests of the `if`s around a node within its function."""
    inner = node
    for ancestor in src.ancestors(node):
        if isinstance(ancestor, cst.FunctionDef | cst.Lambda):
            return
        if isinstance(ancestor, cst.If | cst.IfExp) and inner is not ancestor.test:
            always = isinstance(ancestor.test, cst.Name) and ancestor.test.value == "True"
            if not always:
                yield ancestor.test
        inner = ancestor
