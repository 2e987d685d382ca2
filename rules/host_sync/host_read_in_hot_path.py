"""A tensor on the device is read by the host in every iteration of a training loop.

`.item()`, `.tolist()`, `.cpu()`, `.numpy()`, `.to("cpu")`, `float()`, `int()` and `np.asarray()`
of a device tensor make the host wait until the device has caught up. Once per step, that empties
the queue of kernels which keeps the device busy while Python runs ahead.

    for x, y in loader:
        loss = step(x, y)
        running += loss.item()            # waits for the device at every step

    for x, y in loader:
        loss = step(x, y)
        running += loss.detach()          # adds on the device; read it once, after the loop

The loop may be in a caller, also in another file; the chain from it is given as related places.
Of a function that only reads what it is given (`def to_numpy(t): return t.cpu().numpy()`), the call
is reported that runs for every batch: that is what has to be changed.
Evaluation loops are AMP102. What is guarded by an interval (`if step % 50 == 0`), by a flag that is
off, or stands on an error path is not hot.

Fix safety: offered for an accumulator that is a number before the loop and is not read inside it.
It is unsafe: the sum is then made in the tensor's precision instead of Python's float64 (adding
0.1 ten thousand times: 999.9029 in float32 instead of 1000.0). The accumulator becomes a Python
number again right after the loop: an integer where it began as one and integers are added.

Known limits: a tensor whose device the project does not show (a parameter of a function that
nobody is seen to call, the result of an unknown function) is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amplint import (
    FLOATS,
    HOT,
    Change,
    Finding,
    Fix,
    Group,
    HandedReads,
    Host,
    Method,
    PackedLengths,
    ReadBack,
    ReadsOfCallers,
    Rule,
    Safety,
    Syncs,
    Tensor,
    TensorTree,
    nodes,
    only,
    reachable,
)
from amplint import libcst as cst
from amplint.knowledge.dtypes import INTEGRAL
from amplint.knowledge.host_reads import takes_size

from .._shared.reads import READS, hot_evidence, tensor_read
from .._shared.tensors import detached

if TYPE_CHECKING:
    from amplint import Source, Spot


# `pack_padded_sequence` takes them from the CPU alone, so that one read at the end is no way out.
OF_LENGTHS = "keep the lengths on the CPU from the start: `pack_padded_sequence` reads them there"
# A size is needed before the result is allocated, so that no later read does.
OF_SIZE = (
    "take the size from the host: lengths that the loader keeps on the CPU, or a fixed maximum"
)
OF_NUMBERS = frozenset({"builtins.int", "builtins.min", "builtins.max"})


def hands_to_reader(at: Spot) -> bool:
    """Ex) to_numpy(loss)"""
    return at.ask(HandedReads) is not None


rule = Rule(
    "AMP101",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="keep it on the device (`.detach()`), and read it once after the loop, or every N steps",
    witness=Syncs(before=8, after=1),
    supersedes=("AMP113",),
    changes=frozenset({Change.ROUNDING}),
    candidates=(READS | nodes("call") & hands_to_reader) & HOT,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    evidence = hot_evidence(call, tensor_read(call, src), src)
    if evidence is None or src.ask(ReadsOfCallers, call):
        return
    if src.ask(ReadBack, call) and is_returned(call, src):
        return  # the caller reads it anyway
    message = f"`{src.brief(call)}` makes the host wait for the device in every iteration"
    found = src.finding(rule, call, message, keep_on_device(call, src), evidence)
    advice = advice_on(call, src)
    yield found if advice is None else replace(found, help=advice)


def advice_on(call: cst.Call, src: Source) -> str | None:
    """The help for a read that is needed at once, so that the tensor cannot stay on the device."""
    if src.ask(PackedLengths, call):
        return OF_LENGTHS
    return OF_SIZE if becomes_size(call, src) else None


def becomes_size(number: cst.BaseExpression, src: Source) -> bool:
    """Ex) n = lengths.max().item(), then x.new_zeros(n, 8)"""
    places = reachable(
        [number, *src.uses(number)],
        lambda each: [*(call := number_of(each, src)), *(use for c in call for use in src.uses(c))],
    )
    return any(is_size(each, src) for each in places)


def number_of(number: cst.BaseExpression, src: Source) -> list[cst.BaseExpression]:
    """Ex) int(n) of n, min(n, 3)"""
    given = src.parent(number)
    call = src.parent(given) if isinstance(given, cst.Arg) else None
    return [call] if isinstance(call, cst.Call) and src.name(call.func) in OF_NUMBERS else []


def is_size(number: cst.BaseExpression, src: Source) -> bool:
    """Ex) n of x.new_zeros(n, 8), of x.view((n + 1, -1)), of torch.arange(int(n)), of x[:n]"""
    given = src.layout.innermost(number, (cst.Arg, cst.Slice, cst.Subscript))
    if isinstance(given, cst.Slice):
        return True
    call = src.parent(given)
    if not isinstance(given, cst.Arg) or not isinstance(call, cst.Call):
        return False
    name = src.name(call.func) or ""
    method = only(src.value(call.func))
    if isinstance(method, Method) and isinstance(method.of, Tensor | TensorTree):
        name = f"Tensor.{method.name}"
    keyword = given.keyword.value if given.keyword is not None else None
    return takes_size(name, call.args.index(given), keyword)


def is_returned(call: cst.Call, src: Source) -> bool:
    """Ex) return loss.detach().cpu()"""
    statement = src.parent(call)
    return isinstance(statement, cst.Return)


@rule.check
def check_reader(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) to_numpy(loss), where that is `loss.detach().cpu().numpy()`"""
    read = src.ask(HandedReads, call)
    tensor = src.tensor(call.args[0].value) if read is not None else None
    evidence = hot_evidence(call, tensor, src)
    if evidence is None or read is None:
        return
    message = f"`{src.brief(call)}` makes the host wait for the device in every iteration"
    yield src.finding(rule, call, message, None, (src.related(read), *evidence))


def keep_on_device(call: cst.Call, src: Source) -> Fix | None:
    """Ex) `total += loss.item()` -> `total += loss.detach()`, and `float(total)` after the loop"""
    function = call.func
    if not (isinstance(function, cst.Attribute) and function.attr.value == "item"):
        return None
    add = src.parent(call)
    if not (
        isinstance(add, cst.AugAssign)
        and isinstance(add.operator, cst.AddAssign)
        and isinstance(add.target, cst.Name)
        and add.value is call
    ):
        return None
    loop = enclosing_loop(add, src)
    name = add.target.value
    if loop is None or loop.orelse is not None or src.layout.occurrences(name, loop) != 1:
        return None
    kind = kind_of_sum(only(src.value(add.target)), only(src.value(function.value)))
    after = src.edits.insert_statement_after(loop, f"{name} = {kind}({name})") if kind else None
    if after is None:
        return None
    edits = (src.edits.replace(call, detached(function.value, src)), after)
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
