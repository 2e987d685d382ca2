"""A tensor on the device is read by the host in every iteration of a training loop.

`.item()`, `.tolist()`, `.cpu()`, `.numpy()`, `.to("cpu")`, `float()`, `int()` and `np.asarray()` of
a device tensor make the host wait until the device has caught up. Once per step, this empties the
queue of kernels that keeps the device busy while Python runs ahead.

    for x, y in loader:
        loss = step(x, y)
        running += loss.item()            # waits for the device at every step

    for x, y in loader:
        loss = step(x, y)
        running += loss.detach()          # adds on the device; read it once, after the loop

So does a write into a tensor that stays on the CPU: `losses[i] = loss` after `losses =
torch.zeros(n)`; with `device=`, it copies on the device. (If that tensor is moved next to the
device of what is written, AMP501 reports where it is made.)

The loop may be in a caller, even in another file; the finding shows the chain of calls as related
places. Evaluation loops are AMP102. Code under an interval (`if step % 50 == 0`), under a flag that
is off, or on an error path does not count as hot.

Some reads are needed: lengths for `pack_padded_sequence`, a size, an array for a library of the
host. Keep lengths on the host from the collator on; read an array once for the whole batch, or
start its copy early with `non_blocking=True` and wait for its event.

Fix safety: offered for an accumulator that is a number before the loop and is not read inside it.
It is unsafe: the sum is then computed in the tensor's precision instead of Python's float64 (adding
0.1 ten thousand times: 999.9029 in float32 instead of 1000.0). The accumulator becomes a Python
number again right after the loop: an integer where it began as one and integers are added.

Known limits: a tensor of unknown device (a parameter of a function without a visible caller, the
result of an unknown function) is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    CPU,
    FLOATS,
    HOT,
    Change,
    Finding,
    Fix,
    Group,
    Host,
    Rule,
    Safety,
    Syncs,
    Tensor,
    View,
    nodes,
    only,
    reachable,
)
from amplint import libcst as cst
from amplint.knowledge.dtypes import INTEGRAL

from .._shared.default_device import changes_default_device
from .._shared.factories import built
from .._shared.reads import LOGS, READS, device_tensor, read_of_batches, tensor_of_read
from ._graphs import without_graph
from ._read_back import ReadBack

if TYPE_CHECKING:
    from amplint import Source

rule = Rule(
    "AMP101",
    __doc__,
    group=Group.PERFORMANCE,
    help="keep it on the device (`.detach()`), and read it once after the loop, or every N steps",
    witness=Syncs(before=8, after=1),
    supersedes=("AMP113",),
    changes=frozenset({Change.ROUNDING}),
)


@rule.on((READS | LOGS) & HOT)
def check(call: View) -> Iterator[Finding]:
    reasons = read_of_batches(call, tensor_of_read(call))
    if reasons is None:
        return
    if call.ask(ReadBack) and isinstance(call.source.parent(call.cst), cst.Return):
        return  # the caller reads it anyway
    message = f"`{call.brief}` makes the host wait for the device in every iteration"
    yield call.finding(message, reasons, keep_on_device(call))


@rule.on(nodes("put") & HOT)
def check_write(at: View) -> Iterator[Finding]:
    """Ex) losses[i] = loss, where `losses` was made on the CPU"""
    buffer, _, source = at.operands
    tensor = buffer.tensor
    if tensor is None or tensor.device.kind != CPU.kind:
        return
    reasons = read_of_batches(at, device_tensor(source.value))
    if reasons is None or at.assigned is None or changes_default_device(at):
        return
    if _is_moved_with(at) or _mixes_devices(source):
        return
    message = f"a write into `{buffer.brief}`, on the CPU, makes the host wait in every iteration"
    help = "make it on the device: pass `device=` to the factory"
    yield at.finding(message, (*reasons, tensor.device.evidence), help=help)


def _is_moved_with(write: View) -> bool:
    """Ex) `rows.to(x.device)` after `rows[: len(x)] = x`, of which AMP501 speaks"""
    calls = (call for moved in write.uses if moved.method == "to" for call in moved.uses)
    return any(
        call.receiver is not None and built(call.receiver, device=call.arg("device", 0))
        for call in calls
        if call.op == "call"
    )


def _mixes_devices(written: View) -> bool:
    """Whether what is written would raise if what seems to be on the CPU were there.

    Ex) `x[j] = mask[j] * x[j] + noise.cuda()`
    """

    def terms(each: View) -> list[View]:
        return [part.origin for part in each.operands] if each.op == "binop" else []

    tensors = (part.tensor for part in reachable([written.origin], terms))
    return any(t is not None and t.device.kind == CPU.kind and t.rank != 0 for t in tensors)


def keep_on_device(call: View) -> Fix | None:
    """Ex) `total += loss.item()` -> `total += loss.detach()`, and `float(total)` after the loop"""
    src, read = call.source, call.receiver
    if read is None or call.method != "item":
        return None
    add = src.parent(call.cst)
    if not (
        isinstance(add, cst.AugAssign)
        and isinstance(add.operator, cst.AddAssign)
        and isinstance(add.target, cst.Name)
        and add.value is call.cst
    ):
        return None
    loop = enclosing_loop(add, src)
    name = add.target.value
    if loop is None or loop.orelse is not None or src.layout.occurrences(name, loop) != 1:
        return None
    kind = kind_of_sum(only(call.of(add.target).value), only(read.value))
    if kind is None:
        return None
    after = src.edits.insert_statement_after(loop, f"{name} = {kind}({name})")
    edits = (src.edits.replace(call.cst, without_graph(read)), after)
    return Fix("Add up on the device and read the sum after the loop", edits, Safety.UNSAFE)


def kind_of_sum(start: object, read: object) -> str | None:
    """The kind of a Python number plus numbers of this tensor: "int", "float", None if unknown"""
    if not (isinstance(start, Host) and start.kind in ("int", "float", "number")):
        return None
    if start.kind == "float":
        return "float"
    dtype = read.dtype if isinstance(read, Tensor) else None
    if dtype in FLOATS:
        return "float"
    return "int" if dtype in INTEGRAL and start.kind == "int" else None


def enclosing_loop(node: cst.CSTNode, src: Source) -> cst.For | cst.While | None:
    """The innermost loop around a node, within its function."""
    loops_and_scopes = (cst.For, cst.While, cst.FunctionDef, cst.Lambda, cst.ClassDef)
    around = src.layout.innermost(node, loops_and_scopes)
    return around if isinstance(around, cst.For | cst.While) else None
