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

from amplint import (
    READ,
    WITH_HALF,
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

from .._shared.constants import number_of
from .._shared.dtypes import finding_on_dtype, operation, tensor_on_a_path

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


rule = Rule(
    "AMP803",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="compute both in one step: `F.log_softmax`, `F.logsigmoid`",
    witness=Differs(rtol=0.1),
    changes=frozenset({Change.DTYPE, Change.ROUNDING}),
    presumes=Presumes.ALWAYS,
)


@dataclass(frozen=True)
class Probability:
    """A call that computes one.

    Args:
        function: what is called, as in `SOFTMAX` and its kin.
        complement: whether one minus it is meant.
        there: whether it stands where it is read, and is read nowhere else.
    """

    call: View
    function: str
    complement: bool
    there: bool


@rule.on(calls(*LOGARITHMS) & WITH_HALF)
def check(call: View) -> Iterator[Finding]:
    found = operation(call)
    if found is None or found.name not in LOGARITHMS or not found.operands:
        return
    probability = probability_of(found.operands[0])
    tensor = tensor_on_a_path(probability.call) if probability is not None else None
    if probability is None or tensor is None or tensor.half_on_a_path != "float16":
        return
    kind = "softmax" if "softmax" in probability.function.lower() else "sigmoid"
    message = f"`{call.brief}` is -inf where the {kind} is {int(probability.complement)} in float16"
    fix = in_one(call, probability) if found.name in NATURAL else None
    yield finding_on_dtype(call, tensor, message, fix)


def probability_of(at: View) -> Probability | None:
    """Ex) torch.sigmoid(x), x.softmax(-1).float(), 1 - p"""
    there, complement = True, False
    while True:
        if at.op == READ:
            at, there = at.origin, False
        elif at.op == "binop" and at.operator == "Sub" and not complement:
            if number_of(at.operands[0]) != 1:
                return None
            at, complement = at.operands[1], True
        elif at.receiver is not None and at.method in WIDER and not any(at.arguments):
            at, there = at.receiver, False
        else:
            break
    found = operation(at)
    if found is None or found.name not in SOFTMAX | SIGMOID | LAYERS:
        return None
    return Probability(at, found.name, complement, there)


def in_one(call: View, probability: Probability) -> Fix | None:
    """Ex) torch.log(F.softmax(x, dim=-1)) -> F.log_softmax(x, dim=-1)"""
    if not probability.there or probability.call.has_star:
        return None
    if probability.function in SOFTMAX and not probability.complement:
        return logarithm_of_softmax(call, probability.call.cst)
    if probability.function in SIGMOID:
        return logarithm_of_sigmoid(call, probability)
    return None


def logarithm_of_softmax(call: View, inner: cst.Call) -> Fix | None:
    src = call.source
    given = src.text(inner, parentheses=False).removeprefix(src.text(inner.func))
    if not isinstance(inner.func, cst.Attribute) or not given.startswith("("):
        return None
    edit = src.edits.replace(call.cst, f"{src.text(inner.func.value)}.log_softmax{given}")
    return Fix("Compute the logarithm of the softmax in one step", (edit,), Safety.UNSAFE)


def logarithm_of_sigmoid(call: View, probability: Probability) -> Fix | None:
    """Also of one minus it, which is the sigmoid of the negative."""
    src, given = call.source, [argument for _, _, argument in probability.call.arguments]
    if probability.function == "Tensor.sigmoid":
        given = [] if given or probability.call.receiver is None else [probability.call.receiver]
    spelled = src.imports.spell("torch.nn.functional.logsigmoid")
    if spelled is None or len(given) != 1:
        return None
    logits = given[0].cst
    negative = f"-{src.edits.as_receiver(logits)}"
    text = negative if probability.complement else src.text(logits, parentheses=False)
    edit = src.edits.replace(call.cst, f"{spelled.text}({text})")
    title = "Compute the logarithm of the sigmoid in one step"
    return Fix(title, (*spelled.edits, edit), Safety.UNSAFE)
