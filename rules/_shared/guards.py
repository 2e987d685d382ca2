"""Code that may stay as it is: for another version of torch, on demand, once, or under a `try`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator
from functools import partial
from operator import is_not
from typing import TYPE_CHECKING

from amplint import constant
from amplint import libcst as cst
from amplint.knowledge.vocabulary import ASKS_TORCH, ASKS_VERSION

from ._versioned_calls import versioned_calls

if TYPE_CHECKING:
    from amplint import Source, View

# The new names of torch, of which old ones are the fallback.
NEW_NAME = re.compile(r"\btorch\.(amp|autocast)\b|from torch import [^\n]*\b(amp|autocast)\b")
ENDS_PROCESS = re.compile(r"(sys\.|os\._)?exit\(|quit\(")
CATCHES = re.compile(r"\b(suppress|raises|assertRaises\w*)\(")
MISSING_NAME = frozenset(
    {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"}
)
# What a new argument raises where only its name was known: also much else does.
MISSING_ARGUMENT = frozenset({"TypeError", "RuntimeError"})
# The names of mixed precision, old and new.
OF_AMP = re.compile(r"autocast|GradScaler|\bcustom_[fb]wd\b|\bamp\b")
GETS_OF_TORCH = re.compile(r"getattr\(\s*torch\b")
RETURNS = "return"
# How many variables are followed, each made of the next: `IS_OLD = V < Version("2.4")`
MAX_VARIABLES = 4


def is_fallback(at: View) -> bool:
    """Whether the node runs only on a torch that lacks a name, or has it, or is done another way
    where it fails.

    Ex) try: torch.amp.GradScaler("cuda") except AttributeError: <node>
    Ex) try: return <node> except TypeError: return torch.is_autocast_enabled()
    Ex) if hasattr(torch.amp, "autocast"): return ...; <node>
    """
    node, src = at.cst, at.source
    inner = node
    for ancestor in src.ancestors(node):
        if isinstance(ancestor, cst.ExceptHandler):
            block = src.parent(ancestor)
            if isinstance(block, cst.Try) and _catches_missing(ancestor, block, src):
                return True
        elif isinstance(ancestor, cst.Try):
            if inner is ancestor.body and _is_done_otherwise(node, ancestor, src):
                return True
        elif isinstance(ancestor, cst.If | cst.IfExp):
            if _asks_version(ancestor.test, ASKS_VERSION, src):
                return True
        elif isinstance(ancestor, cst.BooleanOperation):
            if inner is not ancestor.left and _asks_version(ancestor.left, ASKS_TORCH, src):
                return True
        elif isinstance(ancestor, cst.Call):
            if inner in ancestor.args[2:] and GETS_OF_TORCH.match(src.text(ancestor)):
                return True
        elif isinstance(ancestor, cst.IndentedBlock):
            before = itertools.takewhile(partial(is_not, inner), ancestor.body)
            if any(_leaves_by_version(each, src) for each in before):
                return True
        elif isinstance(ancestor, cst.FunctionDef) and _is_called_by_version(ancestor, src):
            return True
        inner = ancestor
    return False


def _is_called_by_version(function: cst.FunctionDef, src: Source) -> bool:
    return versioned_calls(src.layout.module).decide_on(function.name.value)


def _catches_missing(handler: cst.ExceptHandler, block: cst.Try, src: Source) -> bool:
    """Whether a handler runs where a name is missing, or an argument of mixed precision.

    Ex) except (ImportError, AttributeError):
    """
    if handler.type is None:
        return True
    caught = re.findall(r"\w+", src.text(handler.type))
    if not MISSING_NAME.isdisjoint(caught):
        return True
    return (
        not MISSING_ARGUMENT.isdisjoint(caught) and OF_AMP.search(src.text(block.body)) is not None
    )


def _is_done_otherwise(node: cst.CSTNode, block: cst.Try, src: Source) -> bool:
    """Whether a handler does what the statement of a node does, and not only logs, or cleans up.

    Ex) try: scaler = <node> except AttributeError: scaler = None
    """
    around = itertools.chain([node], src.ancestors(node))
    statement = next((each for each in around if src.parent(each) is block.body), None)
    if statement is None:
        return False
    done = _does(statement)
    return any(
        _catches_missing(each, block, src)
        and (OF_AMP.search(src.text(each.body)) or not done.isdisjoint(_does(each.body)))
        for each in block.handlers
    )


def _does(statement: cst.CSTNode) -> set[str]:
    """The names that a statement binds; RETURNS if it returns a value."""
    names = set[str]()
    waiting = [statement]
    while waiting:
        part = waiting.pop()
        if isinstance(part, cst.Return) and part.value is not None:
            if not (isinstance(part.value, cst.Name) and part.value.value == "None"):
                names.add(RETURNS)
        elif isinstance(part, cst.AssignTarget):
            names.add(cst.Module([]).code_for_node(part.target))
        elif isinstance(part, cst.ImportAlias):
            names.add(part.evaluated_alias or part.evaluated_name)
        else:
            waiting += part.children
    return names


def _leaves_by_version(statement: cst.CSTNode, src: Source) -> bool:
    """Whether what comes after a statement runs only on a torch that lacks a name, or has it.

    Ex) if hasattr(torch.amp, "autocast"): return torch.amp.autocast("cuda")
    Ex) try: return torch.amp.autocast("cuda") except AttributeError: pass
    """
    if isinstance(statement, cst.If):
        return _leaves(statement.body) and _asks_version(statement.test, ASKS_TORCH, src)
    if isinstance(statement, cst.Try):
        caught = any(_catches_missing(each, statement, src) for each in statement.handlers)
    elif isinstance(statement, cst.With):
        caught = any(
            CATCHES.search(text) and not MISSING_NAME.isdisjoint(re.findall(r"\w+", text))
            for text in (src.text(item.item) for item in statement.items)
        )
    else:
        return False
    body = statement.body
    return caught and _leaves(body) and NEW_NAME.search(src.text(body)) is not None


def _leaves(body: cst.BaseSuite) -> bool:
    """Whether a block ends by leaving what it stands in, for another reason than an error."""
    last = body.body[-1] if body.body else None
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return isinstance(last, cst.Return | cst.Continue | cst.Break)


def _asks_version(test: cst.BaseExpression, asks: re.Pattern[str], src: Source) -> bool:
    """Whether a test asks for the version of torch, or for a name of it, itself or by a variable.

    Ex) new = getattr(torch, "get_autocast_dtype", None), and then `if new is not None`
    Ex) try: from torch.amp import autocast; NEW = True except ImportError: NEW = False
    """
    if asks.search(src.text(test)):
        return True
    expressions = dict.fromkeys([test])
    for _ in range(MAX_VARIABLES):
        names = [name for each in expressions for name in src.layout.names(each)]
        if any(_is_tried(name, src) for name in names):
            return True
        values = (src.variables.origin(name) or src.variables.global_value(name) for name in names)
        expressions = dict.fromkeys(value for value in values if value is not None)
        if any(ASKS_TORCH.search(src.text(each)) for each in expressions):
            return True
    return False


def _is_tried(name: cst.Name, src: Source) -> bool:
    """Whether the module sets a variable where an import of a new name works, or where it fails."""
    return any(
        not MISSING_NAME.isdisjoint(each.caught) and NEW_NAME.search(each.text)
        for each in src.variables.try_statements(name.value)
    )


def tests_before(at: View, asserted: bool = False) -> Iterator[View]:
    """The tests of the `if`s that leave the blocks around a node before it; `asserted`: what is
    asserted there, too.

    Ex) if device.type != "cuda": return model(x); <node>
    """
    for each in _statements_before(at):
        if isinstance(each, cst.If) and (_leaves(each.body) or _raises(each.body, at.source)):
            yield at.of(each.test)
        for part in each.body if asserted and isinstance(each, cst.SimpleStatementLine) else ():
            if isinstance(part, cst.Assert):
                yield at.of(part.test)


def _statements_before(at: View) -> Iterator[cst.CSTNode]:
    """The statements before a node in the blocks around it, within its function."""
    inner = at.cst
    for ancestor in at.source.ancestors(inner):
        if isinstance(ancestor, cst.IndentedBlock | cst.Module):
            yield from itertools.takewhile(partial(is_not, inner), ancestor.body)
        if isinstance(ancestor, cst.FunctionDef | cst.Lambda):
            return
        inner = ancestor


def _raises(body: cst.BaseSuite, src: Source) -> bool:
    """Whether a block ends with an error, or with the process."""
    last = body.body[-1] if body.body else None
    if not isinstance(last, cst.SimpleStatementLine):
        return False
    end = last.body[-1]
    if isinstance(end, cst.Expr):  # where an expression stands, `ast` says
        return ENDS_PROCESS.match(src.text(end.value)) is not None
    return isinstance(end, cst.Raise)


def is_caught(at: View) -> bool:
    """Whether the function goes on where the node raises.

    Ex) try: <node> except RuntimeError: ...; with suppress(RuntimeError): <node>
    """
    node, src = at.cst, at.source
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


def is_wished(at: View, words: re.Pattern[str]) -> bool:
    """Whether the node runs only where somebody asks for it: `if args.sync:`."""
    return any(words.search(test.text) for test in tests_around(at))


def asks_type(at: View) -> bool:
    """Whether an expression stands under a test of its own type."""
    asks = re.compile(rf"\b(isinstance|hasattr|is_tensor|type)\(\s*{re.escape(at.text)}\b")
    return any(asks.search(test.text) for test in tests_around(at))


def fills_cache(at: View) -> bool:
    """Whether the node runs only while something is not there yet; not while an argument is left
    out, which may be so in every call.

    Ex) if key not in self.tables: <node>
    """
    return any(
        test.operators[:1] in (("NotIn",), ("Is",)) and test.operands[0].origin.op != "param"
        for test in tests_around(at)
    )


def is_kept(at: View) -> bool:
    """Whether the node makes what is kept from then on, in a field or a table that was asked first.

    Ex) if self.window is None: self.window = <node>
    Ex) if key not in self.tables: self.tables[key] = <node>
    """
    node, src = at.cst, at.source
    inner = node
    for ancestor in src.ancestors(node):
        if isinstance(ancestor, cst.FunctionDef | cst.Lambda):
            return False
        if isinstance(ancestor, cst.If) and inner is ancestor.body:
            tests = _operands_of(at.of(ancestor.test))
            written = [at.of(each) for each in _targets(ancestor.body)]
            if any(_keeps(test, each) for test in tests for each in written):
                return True
        inner = ancestor
    return False


def _keeps(test: View, written: View) -> bool:
    """Whether a test asks for what is missing in a field or a table, which is then written to."""
    is_item = isinstance(written.cst, cst.Subscript)
    holder = written.operands[0] if is_item else written
    if test.operators[:1] == ("NotIn",):
        key, table = test.operands
        never_found = is_item and _is_longer(written.operands[1], key)
        return holder.text == table.text and not never_found
    field = test.operands[0] if test.operators[:1] == ("Is",) else None
    return field is not None and field.op == "attr" and holder.text == field.text


def _is_longer(key: View, other: View) -> bool:
    """Whether a key is made of the one that was asked for and of more: it is not found by that.

    Ex) (size, x.device) and str(size) + "_" + str(x.device), where `size not in tables` is asked
    """
    parts = [*_parts(key)]
    is_text = any(isinstance(constant(each.value), str) for each in parts)
    joins = len(parts) > 1 and (key.op != "binop" or is_text)
    return joins and any(each.text == other.text for each in parts)


def _parts(key: View) -> Iterator[View]:
    """The elements of a tuple, and the parts of a text, each without the `str` around it."""
    if key.op == "binop":
        for operand in key.operands:
            yield from _parts(operand)
    elif key.op in ("tuple", "fstring"):
        yield from key.operands
    else:
        yield key.operands[1] if key.callee == "builtins.str" else key


def _targets(body: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The fields, tables and variables that the statements of a block write to."""
    for statement in body.children:
        for part in statement.children:
            if isinstance(part, cst.Assign):
                yield from (each.target for each in part.targets)


def _operands_of(test: View) -> Iterator[View]:
    """Ex) a, b, c of `a or (b and c)`"""
    if test.op == "bool":
        for operand in test.operands:
            yield from _operands_of(operand)
    else:
        yield test


def tests_around(at: View) -> Iterator[View]:
    """The tests of the `if`s around a node within its function."""
    inner = at.cst
    for ancestor in at.source.ancestors(inner):
        if isinstance(ancestor, cst.FunctionDef | cst.Lambda):
            return
        if isinstance(ancestor, cst.If | cst.IfExp) and inner is not ancestor.test:
            always = isinstance(ancestor.test, cst.Name) and ancestor.test.value == "True"
            if not always:
                yield at.of(ancestor.test)
        inner = ancestor


def speaks_of(at: View, names: Collection[str]) -> bool:
    """Whether a file of the project has the last word of one of these dotted names."""
    return any(at.mentions(word) for word in {name.rpartition(".")[2] for name in names})
