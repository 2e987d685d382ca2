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
same variable by the same number; if the number is not a literal, amplint tries 2 to 5. Other
comparisons (`i - last >= n`) are found if both conditions depend on the same comparison in the same
way. Other parts of the conditions are ignored, if they do not depend on that variable or that
number. Silent if the function reduces or averages by itself, if its backward passes are outside the
block that `no_sync()` opens, and if the step comes before that block.
"""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
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
MAX_FLAGS = 5
STEPPING = frozenset({"optimizer", "scaler"})  # kinds of objects that have `step()`
NAMED = frozenset({READ, "attr", "name", "subscript"})
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
            is_skipped = skips_remainder(skips, steps) or depend_alike(skips, steps)
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
    """Whether both compute with one remainder, by which the step comes after what is skipped."""
    remainder = next((found for test in skips for found in remainders(test.at)), None)
    if remainder is None or not is_of(steps, remainder) or not is_of(skips, remainder):
        return False
    return meet(skips, steps, remainder)


def depend_alike(skips: list[Test], steps: list[Test]) -> bool:
    """Whether a comparison of counters has to come out the same way for both.

    Ex) `i - last >= n`, for `no_sync()` and for the step
    """
    tests = [*skips, *steps]

    def is_met(some: list[Test], by: str, value: int) -> bool:
        return any(
            choice[by] == value and all(test.is_met(choice) for test in some)
            for choice in choices_of(tests, set())
        )

    pairs = itertools.product(comparisons(skips), comparisons(steps))
    found = {written(one) for one, other in pairs if is_same_comparison(one, other)}
    return any(
        is_met(tests, by, value)
        and not is_met(skips, by, 1 - value)
        and not is_met(steps, by, 1 - value)
        for by in found
        for value in (1, 0)
    )


def comparisons(tests: list[Test]) -> Iterator[View]:
    """The comparisons of counters among what is true or false in tests: `i - last >= n`"""
    for part in reachable([computed(each.at) for each in tests], flag_parts):
        operators = part.operators if part.op == "compare" else ()
        if len(operators) == 1 and operators[0] in COMPARISONS and len([*leaves(part)]) > 1:
            yield part


def is_same_comparison(one: View, other: View) -> bool:
    """Whether two comparisons are written alike, and compare the same values."""
    pairs = itertools.zip_longest(leaves(one), leaves(other))
    return written(one) == written(other) and all(left.is_same(right) for left, right in pairs)


def written(at: View) -> str:
    """How an expression is written, with one kind of quotes and no parentheses around it."""
    return normal(at.text)


@lru_cache(maxsize=256)  # the same few are asked for again for every number that is tried
def normal(text: str) -> str:
    try:
        return ast.unparse(ast.parse(f"({text}\n)", mode="eval"))
    except SyntaxError:
        return text  # it has as many parentheses in each other as Python allows


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
    """The tests on which it depends in its loop whether a call runs."""
    loop, inner = loop_of(call), call.cst
    for ancestor in call.source.ancestors(call.cst):
        if ancestor is loop:
            break
        if isinstance(ancestor, cst.If | cst.IfExp) and inner is not ancestor.test:
            yield Test(call.of(ancestor.test), inner is ancestor.body)
        inner = ancestor
    for test in tests_before(call):
        if loop_of(test) is loop:
            yield Test(test, False)


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


def meet(skips: list[Test], steps: list[Test], remainder: Remainder) -> bool:
    """Whether the optimizer steps after a micro-batch that is skipped, for every modulus."""
    counter, modulus = written(remainder.counter), written(remainder.modulus)
    known = constant(remainder.modulus.value)
    moduli = (known,) if isinstance(known, int) and known > 1 else MODULI
    tests = [*skips, *steps]

    def is_skipped(n: int, choice: Numbers) -> bool:
        turns = ({**choice, modulus: n, counter: i} for i in range(n, 2 * n))
        return any(all(test.is_met(turn) for test in tests) for turn in turns)

    assigned = named(remainder.modulus.origin)  # Ex) args.n, of `n = args.n`
    choices = choices_of(tests, {counter, modulus, *assigned})
    return any(all(is_skipped(n, choice) for n in moduli) for choice in choices)


def choices_of(tests: list[Test], numbers: set[str]) -> list[Numbers]:
    """The ways in which what is true or false in tests may come out; none of too many."""
    flags = sorted({flag for test in tests for flag in flags_of(test.at, numbers)})
    if len(flags) > MAX_FLAGS:
        return []
    ways = itertools.product((1, 0), repeat=len(flags))
    return [dict(zip(flags, way, strict=True)) for way in ways]


def flags_of(at: View, numbers: set[str]) -> Iterator[str]:
    """The parts of a test that are true or false, whatever the variables are.

    Ex) use_ddp, of `use_ddp and i % n != 0`
    """
    for part in reachable([computed(at)], flag_parts):
        if not is_of_flags(part) and part.op != "const" and not depends_on(part, numbers):
            yield written(part)


def flag_parts(at: View) -> list[View]:
    return parts_of(at) if is_of_flags(at) else []


def is_of_flags(at: View) -> bool:
    """Ex) use_ddp and not last"""
    return at.op == "bool" or (at.op == "unary" and at.operator == "Not")


def depends_on(at: View, numbers: set[str]) -> bool:
    """Whether a part of a test may be made of one of some variables: it names one, or what one of
    its variables is assigned does; or there are several such assignments."""
    shown = [each for each in (at, at.origin) if each.is_written]
    names = {name.value for each in shown for name in each.source.layout.names(each.cst)}
    names.update(name for part in reachable([at], made_of) for name in named(part))
    return at.is_joined or not names.isdisjoint(numbers)


def named(at: View) -> Iterator[str]:
    """A variable, an attribute or an item, by how it is written."""
    if at.op in NAMED and at.is_written:
        yield written(at)


def made_of(at: View) -> list[View]:
    """The nodes that a value is made of; not what stands beside an item: `args["epochs"] = n`"""
    return [*(at.operands[:1] if at.op == "put" else at.operands), at.origin]


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
