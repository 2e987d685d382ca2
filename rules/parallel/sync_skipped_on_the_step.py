"""`no_sync()` skips the reduction of gradients for the last micro-batch before the optimizer steps.

Each process then steps with its own gradients: nothing raises, and the copies of the model diverge.
This happens if the two conditions count differently.

    for i, (x, y) in enumerate(loader):
        with model.no_sync() if i % n != 0 else nullcontext():
            model(x).mean().backward()
        if (i + 1) % n == 0:
            optimizer.step()                  # with n = 4 after i = 3, which was not reduced

    for i, (x, y) in enumerate(loader):
        last = (i + 1) % n == 0
        with nullcontext() if last else model.no_sync():
            model(x).mean().backward()
        if last:
            optimizer.step()

Fix safety: none is offered: the author has to decide which of the two conditions is right.

Known limits: both conditions have to be in one function and one loop, and ask whether the remainder
of one variable, or of the next number, is zero. Silent if the function reduces or averages by
itself, if its backward passes are outside the block that `no_sync()` opens, and if the step comes
before that block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from amplint import (
    NONE,
    READ,
    Finding,
    Group,
    Object,
    Rule,
    Unrun,
    View,
    calls,
    constant,
    reachable,
)
from amplint import libcst as cst
from amplint.knowledge.vocabulary import REDUCES

from .._shared.guards import tests_before

rule = Rule(
    "AMP604",
    __doc__,
    group=Group.CORRECTNESS,
    help="use one variable for both decisions: `last = (i + 1) % n == 0`",
    witness=Unrun(
        "it takes a process group of several processes",
        "docstring of DistributedDataParallel.no_sync in torch/nn/parallel/distributed.py of torch "
        "2.13: gradients are accumulated, and synchronized in the first pass outside of it",
    ),
    preview=True,
)

STEPPING = frozenset({"optimizer", "scaler"})  # kinds of objects that have `step()`
OUTSIDE = frozenset({"param", "attr", "name", "subscript"})
COMPUTED = frozenset({"binop", "bool", "compare", "const", "unary"})


class Test(NamedTuple):
    """An expression that has to be true, or false, for a call to run."""

    at: View
    holds: bool


class Remainder(NamedTuple):
    """A test that holds if (counter + shift) % modulus is zero, or if it is not."""

    counter: View
    shift: int
    modulus: View
    is_zero: bool


@rule.on(calls(".no_sync"))
def check(call: View) -> Iterator[Finding]:
    """Ex) model.no_sync() if i % n != 0 else nullcontext()"""
    skips = [*tests_of(call)]
    if not skips or any(map(REDUCES.search, call.function.words)):
        return
    for step in call.operations("call"):
        follows = step.span.start > call.span.start
        if is_step(step) and follows and loop_of(step) is loop_of(call):
            steps = [*tests_of(step)]
            is_skipped = skips_remainder(skips, steps)
            if is_skipped and holds_backward(call):
                message = f"`{call.brief}` skips the reduction right before an optimizer step"
                yield call.finding(message, (step.related("the optimizer steps here"),))
                return


def holds_backward(call: View) -> bool:
    """Whether a backward pass may run in the block that `no_sync()` opens. A forward pass alone
    keeps the gradients of its module from being reduced, which another optimizer may not step by.
    """
    around = [*call.source.ancestors(call.cst)]
    if not any(isinstance(each, cst.WithItem) for each in around):
        return True  # it is kept, and opened elsewhere
    block = next(each for each in around if isinstance(each, cst.With))
    passes = [each for each in call.operations("call") if each.method == "backward"]
    inside = any(each is block for it in passes for each in call.source.ancestors(it.cst))
    return inside or not passes  # else a function that is called may have it


def skips_remainder(skips: list[Test], steps: list[Test]) -> bool:
    """Whether the optimizer steps after a micro-batch that is skipped, by one remainder."""
    flags = dict[str, bool]()
    for test in (*skips, *steps):
        if remainder(test) is not None:
            continue
        if not is_flag(test.at) or flags.setdefault(written(test.at), test.holds) != test.holds:
            return False
    remainders = [[each for each in map(remainder, tests) if each] for tests in (skips, steps)]
    if [len(each) for each in remainders] != [1, 1]:
        return False
    (skip,), (step,) = remainders
    return (
        step.counter.is_same(skip.counter)
        and written(step.counter) == written(skip.counter)
        and written(step.modulus) == written(skip.modulus)
        and constant(skip.modulus.value) != 1
        and step.is_zero
        and skip.is_zero is (skip.shift == step.shift)
    )


def remainder(test: Test) -> Remainder | None:
    """Ex) (i + 1) % n == 0, i % n; i % n == 0 or i == last, of which a part is enough"""
    for at in map(computed, test.at.operands if test.at.op == "bool" else (test.at,)):
        asks_zero = at.op == "compare" and at.operators in (("Eq",), ("NotEq",))
        if asks_zero and constant(at.operands[1].value) != 0:
            continue
        equals = at.operators == ("Eq",)
        part = computed(at.operands[0]) if asks_zero else at
        if part.op != "binop" or part.operator != "Mod":
            continue
        counter, modulus = map(computed, part.operands)
        is_sum = counter.op == "binop" and counter.operator == "Add"
        shift = int(is_sum and constant(counter.operands[1].value) == 1)
        counter = counter.operands[0] if shift else counter
        if counter.op == READ:
            return Remainder(counter, shift, modulus, equals is test.holds)
    return None


def is_flag(at: View) -> bool:
    """Whether a test is made of what comes from outside, and of no item by a counter."""
    parts = reachable([computed(at)], parts_of)
    origins = [each.origin for each in parts if each.op not in COMPUTED]
    return all(
        each.op in OUTSIDE and (each.op != "subscript" or each.operands[1].op == "const")
        for each in origins
    )


def is_step(call: View) -> bool:
    """Ex) optimizer.step(), scaler.step(optimizer), whichever of several classes it is of"""
    receiver = call.receiver if call.method == "step" else None
    atoms = receiver.value - {NONE} if receiver is not None else frozenset()
    return bool(atoms) and all(isinstance(a, Object) and a.kind in STEPPING for a in atoms)


def loop_of(call: View) -> cst.CSTNode | None:
    """The innermost loop around a call, in its function."""
    scopes = (cst.For, cst.While, cst.FunctionDef, cst.Lambda)
    return call.source.layout.innermost(call.cst, scopes)


def tests_of(call: View) -> Iterator[Test]:
    """The tests that have to hold in its loop for a call to run."""
    loop, inner = loop_of(call), call.cst
    for ancestor in call.source.ancestors(call.cst):
        if ancestor is loop:
            break
        if isinstance(ancestor, cst.If | cst.IfExp) and inner is not ancestor.test:
            yield from required(call.of(ancestor.test), inner is ancestor.body)
        inner = ancestor
    for test in tests_before(call):
        if loop_of(test) is loop:
            yield from required(test, False)


def required(at: View, holds: bool) -> Iterator[Test]:
    """Ex) `use` and `i % n != 0`, where `use and i % n != 0` has to hold"""
    waiting = [Test(computed(at), holds)]
    for test in waiting:
        at, holds = test
        if at.op == "unary" and at.operator == "Not":
            waiting.append(Test(computed(at.operands[0]), not holds))
        elif at.op == "bool" and (at.operator == "And") is holds:
            waiting += (Test(computed(each), holds) for each in at.operands)
        else:
            yield test


def written(at: View) -> str:
    """How an expression is written, with one kind of quotes."""
    return at.text.replace("'", '"') if at.is_written else ""


def computed(at: View) -> View:
    """The value of a variable, where it is computed of others; else the expression itself."""
    origin = at.origin
    return origin if at.op == READ and origin.op in COMPUTED else at


def parts_of(at: View) -> list[View]:
    """The operands of what is computed."""
    return [computed(each) for each in at.operands] if at.op in COMPUTED else []
