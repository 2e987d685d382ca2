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

Known limits: both conditions have to be in one function and one loop, and use the remainder of the
same variable by the same number; if the number is not a literal, amplint tries 2 to 5. Of a
condition, the parts that have to hold are compared (those joined by `and`), and of these only what
names the variable. Silent if the function reduces or averages by itself, if its backward passes are
outside the block that `no_sync()` opens, and if the step comes before that block.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
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
    least,
    reachable,
)
from amplint import libcst as cst
from amplint.knowledge.vocabulary import REDUCES

from .._shared.guards import tests_before

rule = Rule(
    "AMP604",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="use one variable for both decisions: `last = (i + 1) % n == 0`",
    witness=Unrun(
        "it takes a process group of several processes",
        "docstring of DistributedDataParallel.no_sync in torch/nn/parallel/distributed.py of torch "
        "2.13: gradients are accumulated, and synchronized in the first pass outside of it",
    ),
    preview=True,
)

MODULI = (2, 3, 4, 5)  # that are tried for one that is not known
STEPPING = frozenset({"optimizer", "scaler"})  # kinds of objects that have `step()`
OUTSIDE = frozenset({"param", "attr", "name", "subscript"})
COMPUTED = frozenset({"binop", "bool", "compare", "const", "unary"})
ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "Add": operator.add,
    "Mod": operator.mod,
    "Mult": operator.mul,
    "Sub": operator.sub,
}
COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "Eq": operator.eq,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Lt": operator.lt,
    "LtE": operator.le,
    "NotEq": operator.ne,
}
Numbers = Mapping[str, int]  # by how a variable is written


class Test(NamedTuple):
    """An expression that has to be true, or false, for a call to run."""

    at: View
    holds: bool

    def is_met(self, numbers: Numbers) -> bool:
        """Whether it certainly is so."""
        value = value_of(self.at, numbers)
        return value is not None and bool(value) is self.holds


class Remainder(NamedTuple):
    """The remainder that a test computes with: counter % modulus."""

    counter: View
    modulus: View


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
    """Whether both compute with one remainder, and the optimizer steps after a micro-batch that is
    skipped, for every modulus."""
    found = next((each for test in skips for each in remainders(test.at)), None)
    if found is None or not is_of(steps, found) or not is_of(skips, found):
        return False
    counter, modulus = written(found.counter), written(found.modulus)
    known = constant(found.modulus.value)
    moduli = (known,) if isinstance(known, int) and known > 1 else MODULI
    tests, flags = list[Test](), dict[str, bool]()
    for test in (*skips, *steps):
        if any(written(each) in (counter, modulus) for each in leaves(test.at)):
            tests.append(test)
        elif not is_flag(test.at) or flags.setdefault(written(test.at), test.holds) != test.holds:
            return False

    def is_skipped(n: int) -> bool:
        turns = ({modulus: n, counter: i} for i in range(n, 2 * n))
        return any(all(test.is_met(turn) for test in tests) for turn in turns)

    return all(map(is_skipped, moduli))


def is_flag(at: View) -> bool:
    """Whether a test is made of what comes from outside, and of no item by a counter."""
    made = [each.origin for each in leaves(at)]
    return all(
        each.op in OUTSIDE and (each.op != "subscript" or each.operands[1].op == "const")
        for each in made
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
    made = at.origin
    return made if at.op == READ and made.op in COMPUTED else at


def remainders(at: View) -> Iterator[Remainder]:
    """Ex) i and n, of `use and (i + 1) % n == 0`"""
    for part in reachable([computed(at)], lambda each: () if is_mod(each) else parts_of(each)):
        if is_mod(part):
            dividend, modulus = part.operands
            counters = [each for each in leaves(dividend) if each.op == READ]
            if len(counters) == 1:
                yield Remainder(counters[0], computed(modulus))


def is_mod(at: View) -> bool:
    return at.op == "binop" and at.operator == "Mod"


def leaves(at: View) -> Iterator[View]:
    """The parts of an expression that are not computed."""
    return (part for part in reachable([computed(at)], parts_of) if part.op not in COMPUTED)


def parts_of(at: View) -> list[View]:
    """The operands of what is computed."""
    return [computed(each) for each in at.operands] if at.op in COMPUTED else []


def is_of(tests: list[Test], wanted: Remainder) -> bool:
    """Whether tests compute with the remainder of a variable, and with no other one."""
    found = [each for test in tests for each in remainders(test.at)]
    return bool(found) and all(
        each.counter.is_same(wanted.counter)
        and written(each.counter) == written(wanted.counter)
        and written(each.modulus) == written(wanted.modulus)
        for each in found
    )


def value_of(at: View, numbers: Numbers) -> int | None:
    """The value of an expression for some values of its variables; None where it is unknown."""

    def value(part: View, ask: Callable[[View], int | None]) -> int | None:
        part = computed(part)
        if part.op == "const":
            known = constant(part.value)
            return known if isinstance(known, int) else None
        if written(part) in numbers:
            return numbers[written(part)]
        if part.op not in COMPUTED:
            return None
        return applied(part, [ask(each) for each in part.operands])

    return least(at, value, None)


def applied(at: View, values: list[int | None]) -> int | None:
    """The value of an operation for those of its operands."""
    if at.op == "bool":
        return joined(values, decisive=at.operator == "Or")
    if None in values:
        return None
    if at.op == "unary":
        return int(not values[0]) if at.operator == "Not" else None
    left, *rest = (value for value in values if value is not None)
    names = at.operators if at.op == "compare" else (at.operator,)
    apply = {**ARITHMETIC, **COMPARISONS}.get(names[0]) if len(names) == 1 else None
    if apply is None or (names[0] == "Mod" and rest[0] == 0):
        return None
    return int(apply(left, rest[0]))


def joined(values: list[int | None], decisive: bool) -> int | None:
    """The truth of operands of an `or`, whose `decisive` truth is True, or of an `and`."""
    if any(value is not None and bool(value) is decisive for value in values):
        return int(decisive)
    return None if None in values else int(not decisive)
