"""A small number that should prevent a zero is itself zero in float16.

The smallest number above zero is 6e-8 in float16; 1e-8 and smaller numbers round to 0. As a summand
of a divisor, or as the lower limit before a logarithm, such a number then has no effect, and the
result is inf or nan. Likewise, an upper limit above 0.9997 is 1. Under CUDA autocast `log`, `rsqrt`
and `norm` run in float32, but their inputs have already been rounded.

    y = x / (x.mean(-1, keepdim=True) + 1e-8)              # x is half: + 0
    p = probability.clamp(1e-7, 1 - 1e-7)                  # half: no more than 1

    y = x.float() / (x.float().mean(-1, keepdim=True) + 1e-8)

The result of a sigmoid in a float16 region is assumed to be half, even if its logits are unknown:
they are half unless something has cast them to a wider dtype.

Outside a region, `F.normalize` and `F.cosine_similarity` of float16 have such a number as their
default `eps`.

Fix safety: there is no fix: a larger number, or float32, changes results.

Known limits: a half dtype that is not known to be float16, for example because an option chooses
the dtype of the region, is assumed to be bfloat16, which can represent these numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    WITH_HALF,
    WITHIN_REGION,
    Differs,
    Finding,
    Group,
    Presumes,
    Rule,
    Tensor,
    View,
    calls,
    nodes,
)
from amplint.knowledge.casts import HALF_OF_LEAST

from .._shared.constants import number_of
from .._shared.dtypes import finding_on_dtype, operation, tensor_on_a_path
from ._probabilities import LOGARITHMS, sigmoid_of_unknown

HALF_STEP_BELOW_ONE = 2.0**-12  # what is not farther from 1 rounds to it
LIMITING = frozenset({"clamp", "clamp_", "clip", "clip_"})
LOWER = frozenset({"clamp_min", "clamp_min_"})
ADDITIONS = frozenset({"torch.add", "Tensor.add", "Tensor.add_"})
# What to do about 0/0: the least number of float16 as a divisor leads to inf.
DIVIDE = "divide in float32, where neither side has been rounded: `x.float() / (y.float() + 1e-8)`"
GIVE_FLOAT = "pass `x.float()`, or an `eps` that float16 can represent, such as 1e-4"
AS_OF_LOGITS = "the dtype of a sigmoid of half logits"
DEFAULTS = {
    "torch.nn.functional.normalize": ("eps", 3, 1e-12),
    "torch.nn.functional.cosine_similarity": ("eps", 3, 1e-8),
}


LIMITS = tuple(f"{home}.{name}" for home in ("", "torch") for name in LIMITING | LOWER)

rule = Rule(
    "AMP802",
    __doc__,
    group=Group.PRECISION,
    help="compute this in float32, or use a limit that float16 can represent",
    witness=Differs(rtol=0.1),
    presumes=Presumes.ALWAYS,
)


@rule.on((nodes("binop", "aug") | calls(*ADDITIONS)) & WITH_HALF)
def check_sum(at: View) -> Iterator[Finding]:
    """Ex) x + 1e-8, x += 1e-8, x.add(1e-8)"""
    for side, other in summands(at):
        half = float16_of(at, other)
        if half is not None and vanishes(number_of(side)):
            divides = is_divisor(at)
            if not divides and is_quotient(other):
                continue
            what = "the quotient may be inf or nan" if divides else "it does not change a zero"
            message = f"`{side.brief}` is 0 in float16: {what}"
            yield finding_on_dtype(at, half, message, help=DIVIDE if divides else "")


def summands(at: View) -> Iterator[tuple[View, View]]:
    """Each of what is added up, with the other."""
    if at.op == "call":
        op = operation(at)
        is_sum = op is not None and op.name in ADDITIONS
        operands = op.operands if op is not None and is_sum and not at.arg("alpha") else ()
    else:
        operands = tuple(at.operands) if at.operator == "Add" else ()
    if len(operands) == 2:
        yield operands[0], operands[1]
        yield operands[1], operands[0]


@rule.on(calls(*LOGARITHMS) & WITHIN_REGION)
def check_logarithm(call: View) -> Iterator[Finding]:
    """Ex) torch.log(x.sigmoid() + 1e-8), (1 - p + 1e-8).log()"""
    op = operation(call)
    if op is None or not op.operands:
        return
    at = op.operands[0].origin
    for side, other in summands(at):
        sigmoid = sigmoid_of_unknown(other) if vanishes(number_of(side)) else None
        if sigmoid is not None:
            message = f"`{side.brief}` is 0 in float16, {AS_OF_LOGITS}: it does not change a zero"
            yield at.finding(message, [sigmoid.region])


@rule.on(calls(*DEFAULTS) & WITH_HALF)
def check_default(call: View) -> Iterator[Finding]:
    """Ex) F.normalize(x)"""
    half = float16_of(call)
    if half is None or call.has_star or call.callee not in DEFAULTS:
        return
    keyword, position, default = DEFAULTS[call.callee]
    argument = call.arg(keyword, position)
    number = default if argument is None else number_of(argument)
    if vanishes(number):
        message = f"`eps={number:g}` is 0 in float16: a row of zeros becomes nan"
        yield finding_on_dtype(call, half, message, help=GIVE_FLOAT)


@rule.on(calls(*LIMITS) & WITH_HALF)
def check_limit(call: View) -> Iterator[Finding]:
    """Ex) x.clamp(1e-8), torch.clamp(p, max=1 - 1e-7)"""
    half = float16_of(call) or (None if is_function(call) else float16_of(call.receiver))
    lost = limit_lost(call, "float16") if half is not None else None
    if half is not None and lost is not None:
        yield finding_on_dtype(call, half, lost)


@rule.on(calls(*LIMITS) & WITHIN_REGION)
def check_limit_of_sigmoid(call: View) -> Iterator[Finding]:
    """Ex) torch.clamp(x.sigmoid(), 1e-4, 1 - 1e-4)"""
    limited = call.arg("input", 0) if is_function(call) else call.receiver
    sigmoid = sigmoid_of_unknown(limited) if limited is not None else None
    lost = limit_lost(call, f"float16, {AS_OF_LOGITS}") if sigmoid is not None else None
    if sigmoid is not None and lost is not None:
        yield call.finding(lost, [sigmoid.region])


def is_function(call: View) -> bool:
    """Whether a function of torch is called, and no method."""
    return (call.callee or "").startswith("torch.")


def limit_lost(call: View, where: str) -> str | None:
    """The message about the first limit of a call that is none in half.

    Args:
        where: the dtype, and why it is that.
    """
    for limit, is_lower in limits(call, int(is_function(call))):
        if (vanishes if is_lower else is_rounded_to_one)(number_of(limit)):
            end, numbers = ("0", "zeros") if is_lower else ("1", "ones")
            return f"`{limit.brief}` is {end} in {where}: as a limit, it lets {numbers} through"
    return None


def limits(call: View, first: int) -> Iterator[tuple[View, bool]]:
    """The limits that a call sets, and whether they are lower ones.

    Args:
        first: the position of the first of them.
    """
    lower, upper = call.arg("min", first), call.arg("max", first + 1)
    if lower is not None:
        yield lower, True
    if upper is not None and call.method not in LOWER:
        yield upper, False


def vanishes(number: float | None) -> bool:
    """Whether a number above zero is zero in float16."""
    return number is not None and 0 < number <= HALF_OF_LEAST


def is_rounded_to_one(number: float | None) -> bool:
    """Whether a number below one is one in float16."""
    return number is not None and 0 < 1 - number <= HALF_STEP_BELOW_ONE


def is_quotient(at: View) -> bool:
    """Ex) a / b of `a / b + 1e-8`, which guards nothing in float32 either"""
    return at.origin.op == "binop" and at.origin.operator == "Div"


def is_divisor(at: View) -> bool:
    """Ex) x.mean() + 1e-8 of `x / (x.mean() + 1e-8)`"""
    return any(
        use.op in ("binop", "aug") and use.operator == "Div" and use.operands[1].is_same(at)
        for use in at.uses
    )


def float16_of(*views: View | None) -> Tensor | None:
    """The first tensor of some expressions that is float16, on one path at least: the result, or
    what a number meets."""
    tensors = map(tensor_on_a_path, views)
    half_tensors = (each for each in tensors if each and each.half_on_a_path == "float16")
    return next(half_tensors, None)
