"""A small number that is to keep off a zero is itself zero in float16.

The least number above zero is 6e-8 in float16; 1e-8 and smaller ones round to 0. What is added to
a divisor, or is the lower limit of a logarithm's operand, then does nothing, and the result is inf
or nan. Likewise, an upper limit above 0.9997 is 1. Under CUDA autocast `log`, `rsqrt` and `norm`
run in float32, but what stands before them has been rounded already.

    y = x / (x.mean(-1, keepdim=True) + 1e-8)              # x is half: + 0
    p = probability.clamp(1e-7, 1 - 1e-7)                  # half: no more than 1

    y = x.float() / (x.float().mean(-1, keepdim=True) + 1e-8)

Outside of a region `F.normalize` and `F.cosine_similarity` of half have such a number by default.

Fix safety: there is no fix: a larger number, or float32, changes results.

Known limits: a dtype that is half and not known to be float16, such as that of a region whose dtype
is an option, is taken for bfloat16, which has these numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amplint import WITH_HALF, Differs, Finding, Group, Host, Rule, Spot, Tensor, nodes
from amplint import libcst as cst
from amplint.knowledge.casts import HALF_OF_LEAST
from amplint.knowledge.dtypes import CHOICES, half_on_a_path

from .._shared.constants import number_of
from .._shared.dtypes import dtype_places

if TYPE_CHECKING:
    from amplint import Source

HALF_STEP_BELOW_ONE = 2.0**-12  # what is not farther from 1 rounds to it
LIMITING = frozenset({"clamp", "clamp_", "clip", "clip_"})
LOWER = frozenset({"clamp_min", "clamp_min_"})
# What to do about 0/0: the least number of float16 as a divisor leads to inf.
DIVIDE = "divide in float32, where neither side has been rounded: `x.float() / (y.float() + 1e-8)`"
GIVE_FLOAT = "give it `x.float()`, or an `eps` that float16 holds, such as 1e-4"
DEFAULTS = {
    "torch.nn.functional.normalize": ("eps", 3, 1e-12),
    "torch.nn.functional.cosine_similarity": ("eps", 3, 1e-8),
}


def has_small(at: Spot) -> bool:
    """Whether a sum, or a limit, may have a number that is nearly 0 or 1."""
    if at.node.op == "binop":
        return at.node.data == "Add" and any(is_number(at, each) for each in at.node.operands)
    limits = at.method in LIMITING | LOWER or at.name in DEFAULTS
    called = (at.name or "").rpartition(".")[2] in LIMITING | LOWER
    return limits or called


def is_number(at: Spot, number: int) -> bool:
    return any(isinstance(atom, Host) for atom in at.of(number))


def has_half(at: Spot) -> bool:
    """Whether the result is float16, or what a number is added to or limits."""
    numbers = [at.number, *(at.node.operands if at.node.op == "binop" else at.arguments[:1])]
    if at.receiver >= 0:
        numbers.append(at.receiver)
    return any(is_float16(at.tensor(number)) for number in numbers)


def is_float16(tensor: Tensor | None) -> bool:
    """Whether it is, on one path at least."""
    return tensor is not None and half_on_a_path(tensor.dtype) == "float16"


rule = Rule(
    "AMP802",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="compute this in float32, or use a limit that float16 can hold",
    witness=Differs(rtol=0.1),
    presumes=True,
    candidates=nodes("binop", "call") & has_half & has_small & WITH_HALF,
)


@rule.check
def check_sum(node: cst.BinaryOperation, src: Source) -> Iterator[Finding]:
    """Ex) x + 1e-8"""
    if isinstance(node.operator, cst.Add):
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if vanishes(number_of(side, src)):
                divides = any(is_divisor(each, src) for each in (node, *src.uses(node)))
                what = "a quotient may be inf or nan" if divides else "a 0 stays 0"
                message = f"`{src.brief(side)}` is 0 in float16: {what}"
                help_ = DIVIDE if divides else None
                yield from in_half(node, other, message, src, help_)


@rule.check
def check_call(call: cst.Call, src: Source) -> Iterator[Finding]:
    name = src.name(call.func)
    if name in DEFAULTS:
        keyword, position, default = DEFAULTS[name]
        given = src.argument(call, keyword, position)
        number = default if given is None else number_of(given.value, src)
        if vanishes(number) and not any(arg.star for arg in call.args):
            message = f"`eps={number:g}` is 0 in float16: a row of zeros becomes nan"
            yield from in_half(call, None, message, src, GIVE_FLOAT)
        return
    limited = call.func.value if name is None and isinstance(call.func, cst.Attribute) else None
    for limit, lower in limits(call, name, src):
        number = number_of(limit, src)
        if lower and vanishes(number):
            message = f"`{src.brief(limit)}` is 0 in float16: as a limit, it leaves zeros"
            yield from in_half(call, limited, message, src)
            return
        if not lower and number is not None and 0 < 1 - number <= HALF_STEP_BELOW_ONE:
            message = f"`{src.brief(limit)}` is 1 in float16: as a limit, it leaves ones"
            yield from in_half(call, limited, message, src)
            return


def limits(
    call: cst.Call, name: str | None, src: Source
) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """The limits that a call sets, and whether they are lower ones."""
    function = name is not None and name.startswith("torch.")
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    method = name.rpartition(".")[2] if function and name is not None else method
    if method in LIMITING | LOWER:
        first = src.argument(call, "min", int(function))
        second = src.argument(call, "max", 1 + function) if method in LIMITING else None
        yield from ((arg.value, arg is first) for arg in (first, second) if arg is not None)


def vanishes(number: float | None) -> bool:
    """Whether a number above zero is zero in float16."""
    return number is not None and 0 < number <= HALF_OF_LEAST


def is_divisor(node: cst.BaseExpression, src: Source) -> bool:
    """Ex) x.mean() + 1e-8 of `x / (x.mean() + 1e-8)`"""
    around = src.parent(node)
    if isinstance(around, cst.AugAssign):
        return isinstance(around.operator, cst.DivideAssign) and around.value is node
    if not isinstance(around, cst.BinaryOperation):
        return False
    return isinstance(around.operator, cst.Divide) and around.right is node


def in_half(
    node: cst.BaseExpression,
    other: cst.BaseExpression | None,
    message: str,
    src: Source,
    help_: str | None = None,
) -> Iterator[Finding]:
    """The finding, if the result is known to be float16: itself, or by what the number meets.

    Args:
        help_: what to do there, where it is something else than the help of the rule.
    """
    made = [src.tensor(each) for each in (node, other) if each is not None]
    half = next(filter(is_float16, made), None)
    if half is not None:
        places = dtype_places(src, half)
        found = src.finding(rule, node, message, None, places, anywhere=half.dtype in CHOICES)
        yield found if help_ is None else replace(found, help=help_)
