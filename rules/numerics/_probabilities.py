"""Probabilities that a sigmoid or a softmax computes, and logarithms of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amplint import READ, reachable
from amplint.knowledge.dtypes import FLOATS, HALF

from .._shared.constants import number_of
from .._shared.dtypes import library_casts_model_outputs, operation

if TYPE_CHECKING:
    from amplint import Reason, View

SOFTMAX = frozenset(
    {"torch.softmax", "torch.nn.functional.softmax", "torch.special.softmax", "Tensor.softmax"}
)
SIGMOID = frozenset(
    {"torch.sigmoid", "torch.nn.functional.sigmoid", "torch.special.expit", "Tensor.sigmoid"}
)
IN_PLACE = frozenset({"torch.sigmoid_", "Tensor.sigmoid_"})
LAYERS = frozenset({"torch.nn.Softmax", "torch.nn.Softmax2d", "torch.nn.Sigmoid"})
PROBABILITIES = SOFTMAX | SIGMOID | IN_PLACE | LAYERS
LOGARITHMS = frozenset(
    f"{home}.{name}" for home in ("torch", "Tensor") for name in ("log", "log2", "log10")
) | {"Tensor.log_"}
WIDER = frozenset({"float", "double"})
COMPUTED = frozenset({"binop", "phi", "subscript", "unary"})


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

    @property
    def kind(self) -> str:
        """The word for the function."""
        return "softmax" if "softmax" in self.function.lower() else "sigmoid"

    @property
    def region(self) -> Reason | None:
        """Why it is computed in a region."""
        around = self.call.enabled_region
        return around.evidence if around is not None else None


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
    op = operation(at)
    if op is None or op.name not in PROBABILITIES:
        return None
    return Probability(at, op.name, complement, there)


def sigmoid_of_unknown(at: View) -> Probability | None:
    """A sigmoid, or one minus it, in a float16 region of CUDA, of what nobody knows the dtype: what
    layers compute there is half.

    None where it may be float32 for all that is seen: something wide is computed into it, or a
    library casts what models give.
    """
    probability = probability_of(at)
    if probability is None or probability.kind != "sigmoid":
        return None
    tensor, region = probability.call.tensor, probability.call.enabled_region
    if tensor is None or tensor.dtype is not None or tensor.half is not None or region is None:
        return None
    if region.device == "cpu" or region.dtype != "float16":
        return None
    if any(map(is_wide, reachable([probability.call], parts_of))):
        return None
    return None if library_casts_model_outputs(at) else probability


def is_wide(at: View) -> bool:
    """Whether an expression is a tensor of floats that is not half on every path."""
    tensor = at.tensor
    return tensor is not None and tensor.dtype in FLOATS - HALF


def parts_of(at: View) -> Iterator[View]:
    """The operands that an expression is computed from, in its function."""
    if at.op == READ:
        yield at.origin
    elif at.op == "call":
        yield from (each for each in (at.receiver,) if each is not None)
        yield from (argument for _, _, argument in at.arguments)
    elif at.op in COMPUTED:
        yield from at.operands
