"""The logarithm of a softmax or a sigmoid is taken in float16, where it may already be 0.

A probability below 6e-8 is 0 in float16, and its logarithm is -inf; one above 0.9997 is 1, and the
logarithm of its complement is -inf as well. Logits that are 17 (or 8) apart are enough, and then
the loss or a gradient is inf or nan. A function that computes both in one step returns a finite
logarithm.

    loss = -torch.log(torch.sigmoid(logits)).mean()        # logits are half: -log(0)
    logp = torch.log(F.softmax(logits.half(), dim=-1))

    loss = -F.logsigmoid(logits).mean()
    logp = F.log_softmax(logits.half(), dim=-1)

Under CUDA autocast a softmax runs in float32, which is enough. A sigmoid does not: in a float16
region it is half, unless something has cast its logits to a wider dtype.

bfloat16 can represent numbers as small as float32 can, but has fewer numbers near 1 than float16:
one minus a sigmoid is 0 for logits from 7 on.

Fix safety: unsafe: the logarithm changes where it was -inf and, by rounding, elsewhere;
`F.logsigmoid` of half is half, while `torch.log` in a region is float32. Offered if the probability
is directly the operand of the logarithm; a probability in a variable may have other uses.

Known limits: a half dtype that is not known to be float16 is assumed to be bfloat16. A probability
is recognised by the function that computes it, not by a name.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    WITH_HALF,
    WITHIN_REGION,
    Change,
    Differs,
    Finding,
    Fix,
    Group,
    Presumes,
    Rule,
    Safety,
    View,
    calls,
)
from amplint import libcst as cst

from .._shared.dtypes import finding_on_dtype, operation, tensor_on_a_path
from ._probabilities import (
    LOGARITHMS,
    SIGMOID,
    SOFTMAX,
    Probability,
    probability_of,
    sigmoid_of_unknown,
)

NATURAL = frozenset({"torch.log", "Tensor.log"})


rule = Rule(
    "AMP803",
    __doc__,
    group=Group.PRECISION,
    help="compute both in one step: `F.log_softmax`, `F.logsigmoid`",
    witness=Differs(rtol=0.1),
    changes=frozenset({Change.DTYPE, Change.ROUNDING}),
    presumes=Presumes.ALWAYS,
)


@rule.on(calls(*LOGARITHMS) & WITH_HALF)
def check(call: View) -> Iterator[Finding]:
    operand = operand_of(call)
    probability = probability_of(operand) if operand is not None else None
    tensor = tensor_on_a_path(probability.call) if probability is not None else None
    dtype = tensor.half_on_a_path if tensor is not None else None
    if probability is None or tensor is None or dtype is None:
        return
    # bfloat16 reaches as far down as float32 does, and has no more numbers near 1 than float16.
    if dtype == "float16" or probability.complement:
        where = f"the {probability.kind} is {int(probability.complement)} in {dtype}"
        message = f"`{call.brief}` is -inf where {where}"
        yield finding_on_dtype(call, tensor, message, in_one(call, probability))


@rule.on(calls(*LOGARITHMS) & WITHIN_REGION)
def check_unknown(call: View) -> Iterator[Finding]:
    """Ex) torch.log(torch.sigmoid(x))"""
    operand = operand_of(call)
    probability = sigmoid_of_unknown(operand) if operand is not None else None
    if probability is not None:
        where = f"the sigmoid of half logits is {int(probability.complement)}"
        message = f"`{call.brief}` is -inf where {where}"
        yield call.finding(message, [probability.region], in_one(call, probability))


def operand_of(call: View) -> View | None:
    """The operand of a logarithm."""
    op = operation(call)
    if op is None or op.name not in LOGARITHMS or not op.operands:
        return None
    return op.operands[0]


def in_one(call: View, probability: Probability) -> Fix | None:
    """Ex) torch.log(F.softmax(x, dim=-1)) -> F.log_softmax(x, dim=-1)"""
    op = operation(call)
    is_natural = op is not None and op.name in NATURAL
    if not is_natural or not probability.there or probability.call.has_star:
        return None
    if probability.function in SOFTMAX and not probability.complement:
        return logarithm_of_softmax(call, probability.call.cst)
    if probability.function in SIGMOID:
        return logarithm_of_sigmoid(call, probability)
    return None


def logarithm_of_softmax(call: View, inner: cst.Call) -> Fix | None:
    src = call.source
    arguments = src.text(inner, parentheses=False).removeprefix(src.text(inner.func))
    if not isinstance(inner.func, cst.Attribute) or not arguments.startswith("("):
        return None
    edit = src.edits.replace(call.cst, f"{src.text(inner.func.value)}.log_softmax{arguments}")
    return Fix("Compute the logarithm of the softmax in one step", (edit,), Safety.UNSAFE)


def logarithm_of_sigmoid(call: View, probability: Probability) -> Fix | None:
    """Also of one minus it, which is the sigmoid of the negative."""
    src, inputs = call.source, [argument for _, _, argument in probability.call.arguments]
    if probability.function == "Tensor.sigmoid":
        inputs = [] if inputs or probability.call.receiver is None else [probability.call.receiver]
    spelled = src.imports.spell("torch.nn.functional.logsigmoid")
    if len(inputs) != 1:
        return None
    logits = inputs[0].cst
    negative = f"-{src.edits.as_receiver(logits)}"
    text = negative if probability.complement else src.text(logits, parentheses=False)
    edit = src.edits.replace(call.cst, f"{spelled.text}({text})")
    title = "Compute the logarithm of the sigmoid in one step"
    return Fix(title, (*spelled.edits, edit), Safety.UNSAFE)
