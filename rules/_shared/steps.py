"""The check that the rules on the protocol of a GradScaler share, and helpers for their fixes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from amplint import (
    Autocast,
    Edit,
    Finding,
    Fix,
    Misuse,
    Object,
    Related,
    Rule,
    Violation,
    reachable,
)
from amplint import libcst as cst
from amplint.knowledge.libraries import DEFAULT_DTYPES

if TYPE_CHECKING:
    from amplint import Source

    Message = str | Callable[[cst.Call, Misuse, Source], str | None]
    FindFix = Callable[[Misuse, cst.Call, Source], Fix | None]


def report(
    rule: Rule,
    message: Message,
    find_fix: FindFix | None = None,
    violation: Violation | None = None,
) -> None:
    """Let a rule report the calls with its violation.

    Args:
        message: with `{call}` and `{function}` where the call, or what it calls, stands in it; or a
            function that makes the message, or None where nothing is to be reported.
        find_fix: makes the fix of a call, if there is one.
        violation: which calls, if not those with the rule's own.
    """

    @rule.check
    def check(call: cst.Call, src: Source) -> Iterator[Finding]:
        misuse = src.misuse(call, violation or rule.violation)
        if misuse is None:
            return
        if isinstance(message, str):
            names = {"call": src.brief(call), "function": src.brief(call.func)}
            text: str | None = message.format(**names)
        else:
            text = message(call, misuse, src)
        if text is not None:
            fix = find_fix(misuse, call, src) if find_fix is not None else None
            yield src.finding(rule, call, text, fix, places(misuse, call, src))


def places(misuse: Misuse, call: cst.Call, src: Source) -> list[Related]:
    """The places that a violation rests on, each once, except that of the finding itself.

    A call that goes wrong in the next iteration is the other call of its own violation.
    """
    other_place = src.related(misuse.other)
    inner = [src.related(evidence) for evidence in misuse.inner]
    shown = [*(one for one in inner if where(one) != where(other_place)), other_place]
    return [one for one in shown if where(one) != (src.path, src.span(call))]


def where(place: Related) -> tuple[str, object]:
    return place.path, place.span


def other(misuse: Misuse, call: cst.Call, src: Source) -> cst.Call | None:
    """The call that makes it wrong, if it stands in the same function, and so sees the same
    variables."""
    place = src.related(misuse.other)
    function = src.function(call)
    if misuse.inner or place.path != src.path or function is None:
        return None
    return next((each for each in src.calls(function) if src.span(each) == place.span), None)


def scaler_of(call: cst.Call | None) -> cst.BaseExpression | None:
    """The scaler of `scaler.scale(loss).backward()` or `scaler.step(optimizer)`."""
    function = call.func if call is not None else None
    if not isinstance(function, cst.Attribute):
        return None
    if function.attr.value == "backward":
        inner = function.value
        if not isinstance(inner, cst.Call) or not isinstance(inner.func, cst.Attribute):
            return None
        return inner.func.value if inner.func.attr.value == "scale" else None
    return function.value


def scaler_for(misuse: Misuse, call: cst.Call, src: Source) -> cst.BaseExpression | None:
    """The scaler of the call that makes it wrong, if that name means it at this call, too."""
    scaler = scaler_of(other(misuse, call, src))
    return scaler if scaler is not None and src.variables.same_at(scaler, call) else None


def tests_missing(
    scaler: cst.BaseExpression, call: cst.Call, src: Source
) -> Mapping[tuple[str, bool], cst.BaseExpression] | None:
    """The tests under which a function uses a scaler, and a call in it does not stand: without them
    the scaler may be None. They are as in `tests_of`; None where they are unknown.

    Args:
        scaler: where it is used.
    """
    here, top = tests_of(call, src), src.function(call) or [*src.ancestors(call)][-1]
    missing = new(tests_of(scaler, src), here)
    # Where the function is left before the scaler is used, it may be for the lack of one.
    left = [
        new(tests_of(each, src), here)
        for each in within(top)
        if is_jump(each) and starts(call, each, src) and starts(each, scaler, src)
    ]
    is_tested = any(src.text(scaler) in text for tests in (missing, *left) for text, _ in tests)
    if not is_tested and all(is_scaler(atom) for atom in src.value(scaler)):
        return {}
    return missing if not left else None


def is_jump(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Break | cst.Continue | cst.Return | cst.Raise)


def is_scaler(atom: object) -> bool:
    return isinstance(atom, Object) and atom.kind == "scaler"


def new(
    tests: Mapping[tuple[str, bool], cst.BaseExpression], known: Container[tuple[str, bool]]
) -> dict[tuple[str, bool], cst.BaseExpression]:
    return {key: test for key, test in tests.items() if key not in known}


def instead(
    call: cst.Call,
    lines: Sequence[str],
    tests: Mapping[tuple[str, bool], cst.BaseExpression],
    src: Source,
) -> Edit | None:
    """Put lines in the place of a line that is a call, under a test; without it the call stays.
    None where comments stand in the call: it is written twice, and they would be.

    Args:
        tests: one test, as in `tests_of`; of more of them there is no edit.
    """
    has_comments = any(isinstance(each, cst.Comment) for each in within(call))
    if len(tests) != 1 or has_comments or not is_statement(call, src):
        return None
    [((text, holds), test)] = tests.items()
    if not src.variables.same_at(test, call):
        return None
    branches = (lines, [src.text(call)])
    return src.edits.branch(call, text, branches if holds else branches[::-1])


def methods(scaler: str, name: str, call: cst.Call, src: Source) -> list[cst.Call]:
    """The calls of a method of the scaler in the function around a call, in order."""
    function = src.function(call)
    return [
        each
        for each in (src.calls(function) if function is not None else ())
        if isinstance(each.func, cst.Attribute)
        and each.func.attr.value == name
        and src.text(each.func.value) == scaler
    ]


def tests_of(node: cst.CSTNode, src: Source) -> dict[tuple[str, bool], cst.BaseExpression]:
    """The tests around a node in its function, by how they are written and have to come out."""
    found, inner = {}, node
    for around in around_in_function(node, src):
        if isinstance(around, cst.If) and inner is not around.test:
            found[src.text(around.test), inner is around.body] = around.test
        inner = around
    return found


def loops_of(node: cst.CSTNode, src: Source) -> list[cst.CSTNode]:
    """The loops around a node in its function, from the inside out."""
    loops = (cst.For, cst.While, cst.CompFor)
    return [each for each in around_in_function(node, src) if isinstance(each, loops)]


def around_in_function(node: cst.CSTNode, src: Source) -> Iterator[cst.CSTNode]:
    function = src.function(node)
    return itertools.takewhile(lambda each: each is not function, src.ancestors(node))


def within(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """All nodes in a node, and itself."""
    return reachable([node], lambda each: each.children)


def starts(one: cst.CSTNode, other: cst.CSTNode, src: Source) -> bool:
    """Whether one node begins before another."""
    return src.span(one).start < src.span(other).start


def is_statement(call: cst.Call, src: Source) -> bool:
    """Whether the call is all that its line does."""
    line = src.statement(call)
    return (
        isinstance(line, cst.SimpleStatementLine)
        and len(line.body) == 1
        and isinstance(line.body[0], cst.Expr)
        and line.body[0].value is call
    )


def regions_before(call: cst.Call, src: Source) -> Iterator[Autocast]:
    """The enabled regions above a call, or around it, in the blocks that the call stands in."""
    function, around = src.function(call), list(src.ancestors(call))
    for block in around:
        if block is function:
            break
        if isinstance(block, cst.With):
            yield from regions(block, src)
        if not isinstance(block, cst.IndentedBlock):
            continue
        for line in block.body:
            if any(each is line for each in around):
                break
            if isinstance(line, cst.With):
                yield from regions(line, src)


def regions(opened: cst.With, src: Source) -> Iterator[Autocast]:
    for item in opened.items:
        for atom in src.value(item.item):
            if isinstance(atom, Autocast) and atom.enabled is not False:
                yield atom


def region_dtype(region: Autocast) -> str | None:
    return region.dtype or DEFAULT_DTYPES.get(region.device or "")
