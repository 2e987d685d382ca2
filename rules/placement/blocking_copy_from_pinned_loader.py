"""A batch in pinned memory is copied to the device, and the host waits for the copy.

`DataLoader(..., pin_memory=True)` pays for page-locked memory so that a copy to the device can
overlap with other work. `x.to(device)` wastes that: the host waits until the device has caught up
and the copy is done, and only then goes on to queue the next kernels.

    loader = DataLoader(dataset, pin_memory=True)
    for x, y in loader:
        x = x.to(device)                        # waits

        x = x.to(device, non_blocking=True)     # goes on; the device keeps the order

Fix safety: safe, because the device runs the copy before any operation that uses it, and the loader
uses new memory for each batch. Unsafe if the batch is a parameter, because another caller may copy
from the device to the host with the same line (the host would then read too early); if the loader
is a parameter or part of one (`self.loader`, `loaders["train"]`), whose batches may be objects with
their own `to`; if the host writes to the batch later; and if the loader has its own `collate_fn`,
or a class with its own constructor, because its batches may not be tensors.

Known limits: if a loader has its own `collate_fn`, the batch itself and its attributes are not
reported; neither is a loader whose `pin_memory=` may be false by default. If `pin_memory=` depends
on an option, such as `torch.cuda.is_available()`, the loader is assumed to pin; if it does not, the
copy behaves as before. A view of the batch is assumed to be in new memory, unless it is a slice or
comes of `squeeze`, `unsqueeze` or `view`. A cast that changes the dtype happens on the host first,
in memory that is not pinned, and is not reported. If the dtype of the batch is unknown, a cast to
float32 or int64 is assumed to change nothing: datasets mostly give these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    ACCELERATOR,
    DType,
    Finding,
    Fix,
    Group,
    Instance,
    Mapping,
    Object,
    Rule,
    Same,
    Sequence,
    Tensor,
    TensorTree,
    Value,
    View,
    calls,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.dtypes import OF_DATASETS

from .._shared.moves import move_of

if TYPE_CHECKING:
    from amplint import Source

FRESH = "the batch comes from a loader that no caller passes"
UNWRITTEN = "nothing writes into the batch later"
COLLATED = "torch collates the batch"


rule = Rule(
    "AMP505",
    __doc__,
    group=Group.PERFORMANCE,
    help="copy with `non_blocking=True`",
    witness=Same(),
    safe_if=(FRESH, UNWRITTEN, COLLATED),
)


@rule.on(calls(".to", ".cuda"))
def check(call: View) -> Iterator[Finding]:
    batch, there = pinned_batch(call), only(call.value)
    if batch is None or not isinstance(there, Tensor | TensorTree):
        return
    heat = call.hotness
    if heat is None or there.device.kind != ACCELERATOR:
        return
    # Whether it is the current GPU or another one (`.cuda(args.gpu)`) makes no difference here.
    if move_of(call) is None:
        return
    message = f"`{call.brief}` blocks, although the loader pins its batches"
    fix = without_waiting(call, batch)
    yield call.finding(message, (*heat.chain, batch.device.evidence), fix)


def pinned_batch(call: View) -> Tensor | TensorTree | None:
    """The tensor that a call copies from pinned memory without a word about waiting."""
    waits = call.arg("non_blocking", 1 if call.method == "cuda" else 2) is None
    if call.receiver is None or call.has_star or not waits:
        return None
    batch = only(call.receiver.value)
    if not isinstance(batch, Tensor | TensorTree) or not batch.device.pinned:
        return None
    dtype = call.arg("dtype", 1)
    return None if dtype is not None and casts(batch, dtype) else batch


def casts(batch: Tensor | TensorTree, dtype: View) -> bool:
    """Whether a cast of a batch makes a copy, as far as is known."""
    target = only(dtype.value)
    before = batch.dtype if isinstance(batch, Tensor) else None
    same = OF_DATASETS if before is None else {before}
    return not isinstance(target, DType) or target.name not in same


def without_waiting(call: View, value: Tensor | TensorTree) -> Fix | None:
    """Ex) x.to(device) -> x.to(device, non_blocking=True)"""
    added = call.source.edits.add_argument(call.cst, "non_blocking=True")
    batch = call.receiver
    if batch is None:
        return None
    while batch.op == "subscript":
        batch = batch.operands[0]
    conditions = {
        FRESH: is_fresh(batch),
        UNWRITTEN: is_unwritten(batch),
        COLLATED: not value.device.pinned_within,
    }
    return Fix.safe_if("Pass `non_blocking=True`", (added,), conditions)


def is_fresh(batch: View) -> bool:
    """Whether no caller passes the batch, which may come back from the device by the same line, or
    a loader, whose batches may be what cannot be moved in this way, or is written into while it is
    copied."""
    src = batch.source
    functions = [each for each in src.ancestors(batch.cst) if isinstance(each, cst.FunctionDef)]
    parameters = {name.value for each in functions for name in src.layout.names(each.params)}
    return bool(functions) and not any(
        gives_batches(batch.of(part).value)
        for name in src.layout.names(functions[-1])
        if name.value in parameters
        for part in dotted(name, src)
    )


def dotted(name: cst.BaseExpression, src: Source) -> Iterator[cst.BaseExpression]:
    """Ex) self, self.data and self.data.loader"""
    yield name
    while isinstance(around := src.parent(name), cst.Attribute) and around.value is name:
        yield (name := around)


def gives_batches(value: Value) -> bool:
    """Whether a value may be a pinned batch, or a loader, or holds one: `{"train": loader}`"""
    values = [value]
    while values:
        for atom in values.pop():
            if isinstance(atom, Tensor | TensorTree) and atom.device.pinned:
                return True
            if isinstance(atom, Object) and atom.kind == "loader":
                return True
            if isinstance(atom, Instance) and (atom.device.pinned or atom.device.pinned_within):
                return True
            if isinstance(atom, Sequence):
                if atom.batches:
                    return True
                values.extend((atom.element, *(atom.items or ())))
            if isinstance(atom, Mapping):
                values.extend((atom.rest, *(item for _, item in atom.items)))
    return False


def is_unwritten(at: View) -> bool:
    """Whether the variable is left alone by the host after the copy has been started.

    Ex) x, y = x.to(device), y.to(device), which leaves nobody who could write into the batch
    """
    src, batch = at.source, at.cst
    if not isinstance(batch, cst.Name):
        return False
    line = src.statement(batch)
    bound = src.text(line).rpartition(" = ")[0] if isinstance(line, cst.SimpleStatementLine) else ""
    return batch.value in re.findall(r"\w+", bound) or not src.variables.written_into(batch)
