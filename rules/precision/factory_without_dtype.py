"""A float32 buffer from `torch.zeros` meets half data.

`torch.zeros(...)`, `ones`, `full` and `empty` without a dtype are float32, whatever the dtype of
the data around them. If the buffer then meets 16-bit data with dimensions, the operation either
raises (`torch.lerp`, a matrix product outside of a region) or silently widens everything that
follows to float32 (`torch.cat`, arithmetic).

    memory = torch.zeros(b, n, device=x.device)
    y = torch.cat([x, memory], 1)                     # x is half: y is float32

    memory = x.new_zeros(b, n)                        # the dtype and the device of x

Fix safety: adds `dtype=` of the half tensor, if that has a name before the buffer is created, and
all that is written into the buffer is half, or a number that half holds exactly. Unsafe, because
the result becomes half.

Known limits: the buffer and the half data are followed within one function. A float32 accumulator
(`total += half`) is correct and not reported, nor is a buffer into which float32 data is written.
Half data that is written into the buffer by an index, `scatter_` and similar operations is AMP204.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from amplint import (
    HALF,
    WITH_HALF,
    Change,
    Dtype,
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
from amplint.knowledge.casts import EQUAL_DTYPES
from amplint.knowledge.dtypes import WIDE_FLOATS

from .._shared.dtypes import ARITHMETIC, operation, taken_by
from ._buffers import buffers, half_holds, written_into
from ._operands import dtype_evidence, may_default_to_half

WHERE = "torch.where"  # of two numbers
FACTORIES = frozenset({"torch.zeros", "torch.ones", "torch.full", "torch.empty", WHERE})
# These demand equal dtypes, the second kind only where no region casts their operands.
STRICT = frozenset({"torch.lerp"})
JOINS = frozenset(
    {f"torch.{each}" for each in ("cat", "concat", "concatenate", "stack", "hstack", "vstack")}
)

rule = Rule(
    "AMP201",
    __doc__,
    group=Group.PRECISION,
    help="use `x.new_zeros(...)` and similar methods, or pass `dtype=x.dtype`",
    witness=Dtype(bad="float32", good="bfloat16"),
    changes=frozenset({Change.DTYPE}),
    presumes=Presumes.ALWAYS,
    supersedes=("AMP213",),
)


@dataclass(frozen=True)
class Meeting:
    """Where a buffer meets half data: the operation, the half data in it, and whether it raises."""

    at: View
    half: View
    raises: bool


@rule.on(calls(*FACTORIES) & WITH_HALF)
def check(call: View) -> Iterator[Finding]:
    tensor = call.tensor
    if call.callee not in FACTORIES or call.arg("dtype") is not None:
        return
    if call.callee == WHERE and any(each.tensor is not None for each in call.operands[2:]):
        return
    if tensor is None or tensor.dtype != "float32" or tensor.rank == 0:
        return
    uses = (meets_half(taker, buffer) for buffer in buffers(call) for taker in taken_by(buffer))
    meetings = sorted((each for each in uses if each is not None), key=lambda each: each.at.span)
    if not meetings or may_default_to_half(call) or holds_float32(call):
        return
    meeting = meetings[0]
    place = "raises" if meeting.raises else "widens the result to float32"
    here = meeting.at.related(f"meets `{meeting.half.brief}`, which is half, and {place}")
    message = f"`{call.operands[0].text}` makes float32, which {place} where it meets half data"
    because = (here, *dtype_evidence(meeting.half.tensor))
    yield call.finding(message, because, follow(call, meeting))


def holds_float32(call: View) -> bool:
    """Whether float32 data is written into the buffer: half would round it."""
    return any(each is not None and is_wide(each) for each in written_into(call))


def is_wide(at: View) -> bool:
    tensor = at.tensor
    return tensor is not None and tensor.dtype in WIDE_FLOATS and tensor.rank != 0


def meets_half(at: View, buffer: View) -> Meeting | None:
    """The use that an operation makes of the buffer that it takes."""
    if at.op == "binop":
        return met_by_operator(at, buffer)
    operands = joined(at) if at.callee in JOINS else given_to_strict(at)
    others = [each for each in operands if not each.is_same(buffer)]
    half = next((other for other in others if is_half(other)), None)
    if half is None:
        return None
    # Another float32 operand of a join would widen the result anyhow.
    if at.callee in JOINS and not all(map(is_half, others)):
        return None
    return Meeting(at, half, at.callee not in JOINS)


def met_by_operator(at: View, buffer: View) -> Meeting | None:
    """Ex) half @ buffer, where no autocast region makes them equal; buffer + half, unless it is the
    sum that grows: total = total + half"""
    left, right = at.operands
    other, read = (right, left) if left.is_same(buffer) else (left, right)
    if not is_half(other):
        return None
    if at.operator == "MatMult":
        return Meeting(at, other, True) if at.enabled_region is None else None
    result = at.tensor
    if at.operator not in ARITHMETIC or result is None or result.dtype != "float32":
        return None
    return Meeting(at, other, False) if not grows(at, read) else None


def grows(at: View, read: View) -> bool:
    """Ex) total = total + half"""
    return isinstance(read.cst, cst.Name) and at.source.assigned_name(at.cst) == read.cst.value


def joined(call: View) -> tuple[View, ...]:
    """Ex) half, buffer of torch.cat([half, buffer], 1)"""
    tensors = call.arg("tensors", 0)
    is_written = tensors is not None and tensors.op in ("list", "tuple")
    return tuple(tensors.operands) if tensors is not None and is_written else ()


def given_to_strict(call: View) -> tuple[View, ...]:
    """Ex) buffer, half of torch.lerp(buffer, half, 0.5) and torch.baddbmm(buffer, half, half)"""
    name = call.callee
    if name not in STRICT and (name not in EQUAL_DTYPES or call.enabled_region is not None):
        return ()
    op = operation(call)
    return op.operands if op is not None else ()


def is_half(at: View) -> bool:
    """A 16-bit tensor that is not known to be 0-dim, which widens nothing."""
    tensor = at.tensor
    return tensor is not None and tensor.dtype in HALF and tensor.rank != 0


def follow(call: View, meeting: Meeting) -> Fix | None:
    """Give the buffer the dtype of the half tensor, where that has a name by then, and rounds
    nothing that is written into it."""
    half, src = meeting.half.cst, call.source
    if not isinstance(half, cst.Name) or not src.variables.same_at(half, call.cst):
        return None
    if not half_holds(call):
        return None
    edit = src.edits.add_argument(call.cst, f"dtype={half.value}.dtype")
    return Fix(f"Use the dtype of `{half.value}`", (edit,), Safety.UNSAFE)
