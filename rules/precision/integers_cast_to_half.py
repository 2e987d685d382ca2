"""Integers are cast to half, which cannot hold them.

float16 represents the integers up to 2048, bfloat16 those up to 256. Beyond these limits,
neighbouring integers become equal (2049 becomes 2048), and above 65504 float16 is infinite. So a
cast silently changes ids, labels and codes; using them as an index then raises. Usually the cast
covers a whole batch, but was meant for its images.

    batch = {k: v.half() for k, v in batch.items()}                # input_ids, too

    batch = {k: v.half() if v.is_floating_point() else v for k, v in batch.items()}

A cast is reported if the tensor is used as an index before or after it, or if an entry of the batch
is known to hold integers.

Fix safety: there is no fix; the author has to decide which entries to cast, or whether ids belong
in arithmetic at all.

Known limits: casting integers is not reported by itself: masks, counts and one-hot codes are exact
in half. Positions (`torch.arange`) and batches with unknown entries are not reported. If a loop
guards its cast with any condition, amplint assumes that it is right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from amplint import (
    READ,
    WITH_HALF,
    Differs,
    Finding,
    Group,
    Mapping,
    Presumes,
    Rule,
    Sequence,
    Tensor,
    Value,
    View,
    calls,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.dtypes import INTEGERS_BEYOND_HALF, half_on_a_path
from amplint.knowledge.operations import INDEX_ARGUMENTS

from .._shared.dtypes import SAME_DTYPE, dtype_of_cast, operation
from ._operands import dtype_evidence, first, takers

LIMITS = {"float16": 2048, "bfloat16": 256, "half": 2048}  # integers are exact up to here
# What leaves the numbers as they are.
SAME_NUMBERS = SAME_DTYPE | {"long", "int", "to"}
# These take what may be one of a few classes, rather than of many rows.
OF_CLASSES = frozenset({"gather", "one_hot", "take_along_dim", "scatter", "scatter_"})

rule = Rule(
    "AMP207",
    __doc__,
    group=Group.CORRECTNESS,
    help="cast only floating-point tensors: test `t.is_floating_point()` first",
    witness=Differs(rtol=1e-5),
    presumes=Presumes.AUDITED,
)


@rule.on(calls(".half", ".bfloat16", ".to", ".type") & WITH_HALF)
def check_cast(call: View) -> Iterator[Finding]:
    dtype, tensor = half_on_a_path(dtype_of_cast(call)), call.receiver
    if dtype not in LIMITS or tensor is None:
        return
    if tensor.tensor is not None and tensor.tensor.dtype not in (None, *INTEGERS_BEYOND_HALF):
        return
    index = index_before(tensor) or first(index for _, index in index_uses(call, SAME_NUMBERS))
    if index is not None:
        holds = f"holds indices, and {dtype} holds integers only up to {LIMITS[dtype]}"
        yield call.finding(f"`{tensor.brief}` {holds}", (index.related("used as an index here"),))
    elif (entry := integer_entry(tensor)) is not None:
        rounds = f"is cast to {dtype}, which rounds one entry's integers"
        yield call.finding(f"every `{tensor.brief}` {rounds}", dtype_evidence(entry))


def index_uses(at: View, through: Collection[str]) -> Iterator[tuple[View, View]]:
    """The operations that take a value as an index, behind methods of these names.

    Each with this index.
    """
    for taker, operand in takers(at, through):
        yield from ((taker, index) for index in indices_of(taker) if index.is_same(operand))


def indices_of(at: View) -> Iterator[View]:
    """The operands that a call or a subscript takes as indices."""
    if at.op in ("subscript", "put"):
        container, index = at.operands[:2]
        if container.tensor is not None:
            parts = index.operands if index.op == "tuple" else (index,)
            yield from (part for part in parts if part.op != "slice")
        return
    called = operation(at)
    if called is not None and called.name in INDEX_ARGUMENTS:
        position = INDEX_ARGUMENTS[called.name]
        named = (at.arg(keyword) for keyword in ("input", "indices"))
        yield from filter(None, (at.arg("index", position), *named))


def index_before(tensor: View) -> View | None:
    """Where the same value is the index of a row. A subscript may take it for a mask."""
    if tensor.op != READ or tensor.origin.callee == "torch.arange":
        return None
    is_known = tensor.tensor is not None and tensor.tensor.dtype is not None
    uses = index_uses(tensor, SAME_NUMBERS)
    return first(index for by, index in uses if (takes_rows(by) if by.op == "call" else is_known))


def takes_rows(call: View) -> bool:
    return (call.callee or call.method).rpartition(".")[2] not in OF_CLASSES


def integer_entry(at: View) -> Tensor | None:
    """The integers among what the variable of a loop runs over, where no condition picks."""
    origin = at.origin if at.op == READ else at
    element = origin.operands[0].origin if origin.op == "unpack" else origin
    entry = integers_in(element.operands[0]) if element.op == "iter" else None
    return entry if entry is not None and not is_picked(at) else None


def integers_in(container: View) -> Tensor | None:
    """Ex) the labels in batch.items(), (images, labels)"""
    call = container.origin
    if call.op == "call" and call.receiver is not None and call.method in ("items", "values"):
        container = call.receiver
    atom = only(container.value)
    values: Iterable[Value] = ()
    if isinstance(atom, Mapping):
        values = (value for _, value in atom.items)
    elif isinstance(atom, Sequence):
        values = atom.items or ()
    entries = map(only, values)
    integers = (e for e in entries if isinstance(e, Tensor) and e.dtype in INTEGERS_BEYOND_HALF)
    return next(integers, None)


def is_picked(name: View) -> bool:
    """Whether a condition picks what is done with the variable of a loop."""
    src = name.source
    for around in src.ancestors(name.cst):
        if isinstance(around, cst.If | cst.IfExp):
            return True
        loop = around.for_in if isinstance(around, cst.BaseComp) else around
        bound = src.layout.names(loop.target) if isinstance(loop, cst.For | cst.CompFor) else ()
        if name.text in {each.value for each in bound}:
            return isinstance(loop, cst.CompFor) and bool(loop.ifs)
    return True
