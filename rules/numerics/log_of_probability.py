"""The logarithm of a softmax or a sigmoid in float16, which has become 0 already.

A probability below 6e-8 is 0 in float16, and its logarithm -inf; one above 0.9997 is 1, and the
logarithm of what is left -inf as well. That takes logits which are 17 (or 8) apart, and a loss or a
gradient that is inf or nan then. A function that computes both in one step has the logarithm
itself, which is a number like any other.

    loss = -torch.log(torch.sigmoid(logits)).mean()        # logits are half: -log(0)
    logp = torch.log(F.softmax(logits.half(), dim=-1))

    loss = -F.logsigmoid(logits).mean()
    logp = F.log_softmax(logits.half(), dim=-1)

Under CUDA autocast a softmax is float32, and reaches as far as logits go; a sigmoid is not.

Fix safety: unsafe: the logarithm is another number, where it was -inf and, by rounding, elsewhere;
`F.logsigmoid` of half is half, where `torch.log` in a region is float32. Offered where one is the
operand of the other; what is kept under a name is used otherwise, too.

Known limits: a dtype that is half and not known to be float16 is taken for bfloat16, which reaches
as far as float32 does. A probability is known by the function that computes it, not by a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amplint import (
    WITH_HALF,
    Change,
    Differs,
    Finding,
    Fix,
    Group,
    Rule,
    Safety,
    Spot,
    calls,
)
from amplint import libcst as cst
from amplint.knowledge.dtypes import CHOICES, half_on_a_path

from .._shared.constants import number_of
from .._shared.dtypes import dtype_places, operation

if TYPE_CHECKING:
    from amplint import Source

SOFTMAX = frozenset(
    {"torch.softmax", "torch.nn.functional.softmax", "torch.special.softmax", "Tensor.softmax"}
)
SIGMOID = frozenset(
    {"torch.sigmoid", "torch.nn.functional.sigmoid", "torch.special.expit", "Tensor.sigmoid"}
)
LAYERS = frozenset({"torch.nn.Softmax", "torch.nn.Softmax2d", "torch.nn.Sigmoid"})
LOGARITHMS = frozenset(
    f"{home}.{name}" for home in ("torch", "Tensor") for name in ("log", "log2", "log10")
) | {"Tensor.log_"}
NATURAL = frozenset({"torch.log", "Tensor.log"})
WIDER = frozenset({"float", "double"})


def has_half(at: Spot) -> bool:
    """Whether the operand may be computed of a softmax or sigmoid in float16."""

    def is_half(number: int) -> bool:
        tensor = at.tensor(number)
        return tensor is not None and half_on_a_path(tensor.dtype) == "float16"

    operands = (operand for operand in (at.receiver, *at.arguments) if operand >= 0)
    return any(at.may_come_from(operand, is_half) for operand in operands)


rule = Rule(
    "AMP803",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="compute both in one step: `F.log_softmax`, `F.logsigmoid`",
    witness=Differs(rtol=0.1),
    changes=frozenset({Change.DTYPE, Change.ROUNDING}),
    presumes=True,
    candidates=calls(*LOGARITHMS) & has_half & WITH_HALF,
)


@dataclass(frozen=True)
class Probability:
    """A call that computes one.

    Args:
        function: what is called, as in `SOFTMAX` and its kin.
        complement: whether one minus it is meant.
        there: whether it stands where it is read, and is read nowhere else.
    """

    call: cst.Call
    function: str
    complement: bool
    there: bool


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    found = operation(call, src)
    if found is None or found.name not in LOGARITHMS or not found.operands:
        return
    probability = probability_of(found.operands[0], src)
    tensor = src.tensor(probability.call) if probability is not None else None
    if probability is None or tensor is None or half_on_a_path(tensor.dtype) != "float16":
        return
    kind = "softmax" if "softmax" in probability.function.lower() else "sigmoid"
    limit = int(probability.complement)
    message = f"`{src.brief(call)}` is -inf where the {kind} is {limit} in float16"
    fix = in_one(call, probability, src) if found.name in NATURAL else None
    anywhere = tensor.dtype in CHOICES
    yield src.finding(rule, call, message, fix, dtype_places(src, tensor), anywhere=anywhere)


def probability_of(node: cst.BaseExpression, src: Source) -> Probability | None:
    """Ex) torch.sigmoid(x), x.softmax(-1).float(), 1 - p"""
    there, complement = True, False
    while True:
        if isinstance(node, cst.Name):
            made = src.origin(node)
            if made is None:
                return None
            node, there = made, False
        elif isinstance(node, cst.BinaryOperation):
            if complement or not isinstance(node.operator, cst.Subtract):
                return None
            if number_of(node.left, src) != 1:
                return None
            node, complement = node.right, True
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value not in WIDER or node.args:
                break
            node, there = node.func.value, False
        else:
            break
    if not isinstance(node, cst.Call):
        return None
    found = operation(node, src)
    if found is None or found.name not in SOFTMAX | SIGMOID | LAYERS:
        return None
    return Probability(node, found.name, complement, there)


def in_one(call: cst.Call, probability: Probability, src: Source) -> Fix | None:
    """Ex) torch.log(F.softmax(x, dim=-1)) -> F.log_softmax(x, dim=-1)"""
    inner = probability.call
    if not probability.there or any(arg.star for arg in inner.args):
        return None
    if probability.function in SOFTMAX and not probability.complement:
        return logarithm_of_softmax(call, inner, src)
    if probability.function in SIGMOID:
        return logarithm_of_sigmoid(call, inner, probability, src)
    return None


def logarithm_of_softmax(call: cst.Call, inner: cst.Call, src: Source) -> Fix | None:
    given = src.text(inner, parentheses=False).removeprefix(src.text(inner.func))
    if not isinstance(inner.func, cst.Attribute) or not given.startswith("("):
        return None
    edit = src.edits.replace(call, f"{src.text(inner.func.value)}.log_softmax{given}")
    return Fix("Compute the logarithm of the softmax in one step", (edit,), Safety.UNSAFE)


def logarithm_of_sigmoid(
    call: cst.Call, inner: cst.Call, probability: Probability, src: Source
) -> Fix | None:
    """Also of one minus it, which is the sigmoid of the negative."""
    method = probability.function == "Tensor.sigmoid"
    if method and isinstance(inner.func, cst.Attribute) and not inner.args:
        logits: cst.BaseExpression = inner.func.value
    elif not method and len(inner.args) == 1:
        logits = inner.args[0].value
    else:
        return None
    spelled = src.imports.spell("torch.nn.functional.logsigmoid")
    if spelled is None:
        return None
    text = (
        f"-{src.edits.as_receiver(logits)}" if probability.complement else src.text(logits, False)
    )
    edit = src.edits.replace(call, f"{spelled.text}({text})")
    title = "Compute the logarithm of the sigmoid in one step"
    return Fix(title, (*spelled.edits, edit), Safety.UNSAFE)
