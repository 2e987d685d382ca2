"""A float32 buffer from `torch.zeros` meets half data.

`torch.zeros(...)`, `ones`, `full` and `empty` without a dtype are float32 whatever the data around
them are. Where the buffer then meets 16-bit data with dimensions, it either raises (`torch.lerp`,
a matrix product outside of a region) or silently widens everything that follows to float32
(`torch.cat`, arithmetic).

    memory = torch.zeros(b, n, device=x.device)
    y = torch.cat([x, memory], 1)                     # x is half: y is float32

    memory = x.new_zeros(b, n)                        # the dtype and the device of x

Fix safety: `dtype=` of the half tensor is added where that has a name before the buffer is made.
It is safe where the operation raises on mixed dtypes, nothing catches that, and nothing else reads
the buffer, for then the program could not go on; unsafe where it widens, for the result becomes
half.

Known limits: the buffer and the half data are followed within one function. A float32 accumulator
(`total += half`) is right and no finding. Half data that is written into the buffer by an index, a
`scatter_` and the like is AMP204.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amplint import (
    HALF,
    WITH_HALF,
    Change,
    Dtype,
    Finding,
    Fix,
    Group,
    Rule,
    Spot,
    Tensor,
    calls,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.casts import EQUAL_DTYPES

from .._shared.dtypes import default_may_be_half, dtype_places, enabled_region
from .._shared.guards import is_caught
from .._shared.meetings import JOINS, readings

if TYPE_CHECKING:
    from amplint import Source

RAISES = "the operation raises where the dtypes differ"
UNCAUGHT = "nothing around it catches the error"
ONLY = "nothing else reads the buffer"


FACTORIES = frozenset({"torch.zeros", "torch.ones", "torch.full", "torch.empty"})
# These demand equal dtypes, the second kind only where no region casts their operands.
STRICT = frozenset({"torch.lerp"})


def is_float32_buffer(at: Spot) -> bool:
    made = only(at.value)
    buffer = isinstance(made, Tensor) and made.dtype == "float32" and made.rank != 0
    return buffer and at.given("dtype") < 0


rule = Rule(
    "AMP201",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="use `x.new_zeros(...)` and its like, or give `dtype=x.dtype`",
    witness=Dtype(bad="float32", good="bfloat16"),
    safe_if=(RAISES, UNCAUGHT, ONLY),
    changes=frozenset({Change.DTYPE}),
    presumes=True,
    candidates=calls(*FACTORIES) & is_float32_buffer & WITH_HALF,
)


@dataclass(frozen=True)
class Meeting:
    """Where the buffer meets half data: the operation, the buffer and the half data in it, and
    whether it raises."""

    node: cst.CSTNode
    buffer: cst.BaseExpression
    half: cst.BaseExpression
    raises: bool


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    name = src.name(call.func)
    if name not in FACTORIES or src.keyword(call, "dtype") is not None:
        return
    if default_may_be_half(src):
        return
    made = only(src.value(call))
    if not isinstance(made, Tensor) or made.dtype != "float32" or made.rank == 0:
        return
    meeting = next((m for use in readings(call, src) if (m := meets_half(use, src))), None)
    if meeting is None:
        return
    half = src.tensor(meeting.half)
    place = "raises" if meeting.raises else "widens the result to float32"
    related = (
        src.related_node(
            meeting.node, f"meets `{src.brief(meeting.half)}`, which is half, and {place}"
        ),
        *dtype_places(src, half),
    )
    message = f"`{src.text(call.func)}` makes float32, which {place} where it meets half data"
    yield src.finding(rule, call, message, follow(call, meeting, src), related)


def meets_half(use: cst.BaseExpression, src: Source) -> Meeting | None:
    """The use that an expression makes of the buffer that it reads."""
    parent = src.parent(use)
    if isinstance(parent, cst.BinaryOperation):
        return multiplied(use, parent, src) or widened_by_operator(use, parent, src)
    if isinstance(parent, cst.Element):
        return widened_by_join(use, parent, src)
    if isinstance(parent, cst.Arg):
        return passed_to_strict(use, parent, src)
    return None


def multiplied(
    use: cst.BaseExpression, operation: cst.BinaryOperation, src: Source
) -> Meeting | None:
    """Ex) half @ buffer, where no autocast region makes them equal"""
    other = operation.right if operation.left is use else operation.left
    if not isinstance(operation.operator, cst.MatrixMultiply) or enabled_region(operation, src):
        return None
    return Meeting(operation, use, other, True) if is_half(other, src) else None


def passed_to_strict(use: cst.BaseExpression, arg: cst.Arg, src: Source) -> Meeting | None:
    """Ex) torch.lerp(buffer, half, 0.5), torch.baddbmm(buffer, half, half)"""
    call = src.parent(arg)
    if not isinstance(call, cst.Call):
        return None
    name = src.name(call.func)
    if name not in STRICT and (name not in EQUAL_DTYPES or enabled_region(call, src)):
        return None
    others = [given.value for given in call.args if given.value is not use]
    half = next((other for other in others if is_half(other, src)), None)
    return Meeting(call, use, half, True) if half is not None else None


def widened_by_operator(
    use: cst.BaseExpression, operation: cst.BinaryOperation, src: Source
) -> Meeting | None:
    """Ex) buffer + half, unless it is the sum that grows: total = total + half"""
    arithmetic = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
    other = operation.right if operation.left is use else operation.left
    result = src.tensor(operation)
    if not isinstance(operation.operator, arithmetic) or not is_half(other, src):
        return None
    if result is None or result.dtype != "float32":
        return None
    if isinstance(use, cst.Name) and src.assigned_name(operation) == use.value:
        return None
    return Meeting(operation, use, other, False)


def widened_by_join(use: cst.BaseExpression, element: cst.Element, src: Source) -> Meeting | None:
    """Ex) torch.cat([half, buffer], 1)"""
    container = src.parent(element)
    argument = src.parent(container) if container is not None else None
    call = src.parent(argument) if argument is not None else None
    if not isinstance(container, cst.List | cst.Tuple) or not isinstance(call, cst.Call):
        return None
    if src.name(call.func) not in JOINS:
        return None
    others = [e.value for e in container.elements if e.value is not use]
    half = next((other for other in others if is_half(other, src)), None)
    # Another float32 operand would widen the result anyhow.
    if half is None or not all(is_half(other, src) for other in others):
        return None
    return Meeting(call, use, half, False)


def is_half(node: cst.BaseExpression, src: Source) -> bool:
    """A 16-bit tensor that is not known to be 0-dim, which widens nothing."""
    tensor = src.tensor(node)
    return tensor is not None and tensor.dtype in HALF and tensor.rank != 0


def follow(call: cst.Call, meeting: Meeting, src: Source) -> Fix | None:
    """Give the buffer the dtype of the half tensor, where that has a name by then."""
    half = meeting.half
    if not isinstance(half, cst.Name) or not src.variables.bound_before(half, call):
        return None
    edit = src.edits.add_argument(call, f"dtype={half.value}.dtype")
    if edit is None:
        return None
    conditions = {
        RAISES: meeting.raises,
        UNCAUGHT: not is_caught(meeting.node, src),
        ONLY: meeting.buffer is call or (meeting.buffer,) == tuple(src.uses(call)),
    }
    return Fix.safe_if(f"Take the dtype of `{half.value}`", (edit,), conditions)
