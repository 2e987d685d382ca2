"""For the fixes of the rules on a GradScaler: which scaler is meant, and where it is used."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from amplint import Edit, Misuse, Object, View, reachable
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import Source

    # By how they are written, and whether they have to hold.
    Tests = Mapping[tuple[str, bool], cst.BaseExpression]


def other(call: View, misuse: Misuse) -> View | None:
    """The call that makes it wrong, if it stands in the same function, and so sees the same
    variables."""
    place = call.source.related(misuse.other)
    if misuse.inner or place.path != call.source.path:
        return None
    return next((each for each in calls_around(call) if each.span == place.span), None)


def calls_around(call: View) -> Iterator[View]:
    """The calls in the function around a call, in order."""
    function = call.source.function(call.cst)
    for each in call.source.calls(function) if function is not None else ():
        yield call.of(each)


def methods(scaler: str, name: str, call: View) -> list[View]:
    """Those of them that are of a method of the scaler, by how that is written."""
    calls = (each for each in calls_around(call) if each.method == name)
    return [each for each in calls if each.receiver is not None and each.receiver.text == scaler]


def scaler_of(call: View | None) -> View | None:
    """The scaler of `scaler.scale(loss).backward()` or `scaler.step(optimizer)`."""
    receiver = call.receiver if call is not None else None
    if call is None or receiver is None or call.method != "backward":
        return receiver
    return receiver.receiver if receiver.method == "scale" else None


def scaler_for(call: View, misuse: Misuse) -> tuple[str, Tests] | None:
    """The scaler of the call that makes it wrong, as it is written, and the tests without which it
    may be None at this call; None where they are unknown, or it may be another one there."""
    scaler = scaler_of(other(call, misuse))
    if scaler is None or not call.source.variables.same_at(scaler.cst, call.cst):
        return None
    tests = _tests_missing(scaler, call)
    return (scaler.text, tests) if tests is not None else None


def _tests_missing(scaler: View, call: View) -> Tests | None:
    """The tests under which a function uses a scaler, and a call in it does not stand: without them
    the scaler may be None. None where they are unknown.

    Args:
        scaler: where it is used.
    """
    src, used = call.source, scaler.cst
    here = tests_of(call.cst, src)
    missing = new(tests_of(used, src), here)
    # Where the function is left before the scaler is used, it may be for the lack of one.
    jumps = between(call.cst, used, (cst.Break, cst.Continue, cst.Return, cst.Raise), src)
    jump_tests = [new(tests_of(each, src), here) for each in jumps]
    is_tested = any(scaler.text in text for tests in (missing, *jump_tests) for text, _ in tests)
    if not is_tested and all(_is_scaler(atom) for atom in scaler.value):
        return {}
    return missing if not jump_tests else None


def _is_scaler(atom: object) -> bool:
    return isinstance(atom, Object) and atom.kind == "scaler"


def new(tests: Tests, others: Container[tuple[str, bool]]) -> Tests:
    return {key: test for key, test in tests.items() if key not in others}


def own_line(call: View) -> cst.SimpleStatementLine | None:
    """The line that does nothing but the call."""
    line = call.source.statement(call.cst)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    statement = line.body[0]
    return line if isinstance(statement, cst.Expr) and statement.value is call.cst else None


def added(call: View, text: str) -> Edit | None:
    """Put a line after a line that is a call."""
    line = own_line(call)
    return call.source.edits.insert_statement_after(line, text) if line is not None else None


def instead(call: View, lines: Sequence[str], tests: Tests) -> Edit | None:
    """Put lines in the place of a line that is a call, under a test; without it the call stays.
    None where comments stand in the call: it is written twice, and they would be.

    Args:
        tests: one test; of more of them there is no edit.
    """
    has_comments = any(isinstance(each, cst.Comment) for each in within(call.cst))
    if len(tests) != 1 or has_comments or own_line(call) is None:
        return None
    [((text, holds), test)] = tests.items()
    if not call.source.variables.same_at(test, call.cst):
        return None
    branches = (lines, [call.text])
    return call.source.edits.branch(call.cst, text, branches if holds else branches[::-1])


def tests_of(node: cst.CSTNode, src: Source) -> Tests:
    """The tests around a node in its function."""
    tests, inner = {}, node
    for around in _around_in_function(node, src):
        if isinstance(around, cst.If) and inner is not around.test:
            tests[src.text(around.test), inner is around.body] = around.test
        inner = around
    return tests


def loops_of(node: cst.CSTNode, src: Source) -> list[cst.CSTNode]:
    """The loops around a node in its function, from the inside out."""
    loops = (cst.For, cst.While, cst.CompFor)
    return [each for each in _around_in_function(node, src) if isinstance(each, loops)]


def _around_in_function(node: cst.CSTNode, src: Source) -> Iterator[cst.CSTNode]:
    function = src.function(node)
    return itertools.takewhile(lambda each: each is not function, src.ancestors(node))


def within(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """All nodes in a node, and itself."""
    return reachable([node], lambda each: each.children)


def between(
    first: cst.CSTNode, last: cst.CSTNode, kinds: tuple[type[cst.CSTNode], ...], src: Source
) -> list[cst.CSTNode]:
    """The nodes of some kinds that begin after one node of a function, and before another."""
    top = src.function(first) or [*src.ancestors(first)][-1]
    nodes = (each for each in within(top) if isinstance(each, kinds))
    return [each for each in nodes if starts(first, each, src) and starts(each, last, src)]


def starts(one: cst.CSTNode, other: cst.CSTNode, src: Source) -> bool:
    """Whether one node begins before another."""
    return src.span(one).start < src.span(other).start


def without_not(tests: Tests) -> dict[str, bool]:
    """By the text of each test, whether it has to hold; `not x` as `x`."""
    by_text = {}
    for text, holds in tests:
        bare = text.removeprefix("not ")
        by_text[bare] = holds == (bare == text)
    return by_text
