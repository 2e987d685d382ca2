"""A number is read from the device only to be used in an operation on the device.

`.item()` and `float()` make the host wait until the device has computed the number; in a hot loop,
once per step. Operations accept the 0-dim tensor itself: then nothing is read, and the host does
not wait.

    for x, y in loader:
        weight = confidence(x)
        loss = criterion(model(x), y) * weight.item()      # waits, and sends the number back

    for x, y in loader:
        weight = confidence(x)
        loss = criterion(model(x), y) * weight.detach()    # stays on the device

Arithmetic, comparisons, `clamp`, `where`, `lerp`, `pow`, `fill_` and `x[i] = t` take the tensor.
`torch.full(size, t.item())` and `torch.tensor(t.item(), device=...)` are found too. These functions
would read a tensor themselves, so write `t.expand(size)`, `t.clone()` or `torch.stack` instead.

Fix safety: passes the detached tensor in place of the number. Unsafe: with another dtype the result
may be rounded differently, `x / t` divides where `x / t.item()` multiplies by the inverse, a tensor
of one element may add a dimension, and the backward pass raises if the tensor has been changed in
place since.

Known limits: as for AMP101. `alpha=` and `value=` of in-place operations have to be numbers:
multiply first. `masked_fill` and `index_fill` read a tensor themselves. AMP101 reports these, and
also a number that Python needs as well, or that reaches the operation through another function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint import (
    FLOATS,
    HOT,
    READ,
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
    calls,
    is_unknown,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.host_reads import TAKES_TENSOR

from .._shared.reads import device_tensor, hot_tensor, read_of_batches
from ._graphs import without_graph

ASKING = frozenset({"In", "NotIn", "Is", "IsNot"})
FILLS = frozenset({"torch.full", "torch.full_like", "torch.tensor", "torch.as_tensor"})
# Those that have two bounds -> how many arguments they have with one.
CLAMPS = {
    **dict.fromkeys(("Tensor.clamp", "Tensor.clamp_", "Tensor.clip", "Tensor.clip_"), 1),
    **dict.fromkeys(("torch.clamp", "torch.clip"), 2),
}


rule = Rule(
    "AMP110",
    __doc__,
    group=Group.PERFORMANCE,
    help="compute with the detached tensor itself, not with a number that is read from it",
    witness=Syncs(before=8, after=0),
    supersedes=("AMP101",),
    changes=frozenset({Change.ROUNDING}),
)


@rule.on(calls(".item", "builtins.float", "builtins.int") & HOT)
def check(call: View) -> Iterator[Finding]:
    operand = scalar_read(call)
    if operand is None:
        return
    tensor = hot_tensor(operand, receiver=call.method == "item")
    reasons = read_of_batches(call, tensor)
    uses = [fed_back(call, use) for use in call.uses] if reasons is not None else []
    used = [use for use in uses if use is not None]
    if reasons is None or not uses or None in uses or not is_used_there_alone(call):
        return
    used.sort(key=lambda use: use.span)
    named = call.source.assigned_name(call.cst) is not None
    there = [use.related("goes back to the device here") for use in used[:1] if named]
    message = f"`{call.brief}` is read by the host and goes straight back to the device"
    fix = pass_tensor(call, operand, used) if isinstance(tensor, Tensor) else None
    yield call.finding(message, (*reasons, *there), fix)


def scalar_read(call: View) -> View | None:
    """The expression of which a call brings one number to the host: t.item(), float(t), int(n)"""
    arguments = [argument for _, _, argument in call.arguments]
    if call.method:
        return call.receiver if call.method == "item" and not arguments else None
    if call.callee not in ("builtins.float", "builtins.int") or len(arguments) != 1:
        return None
    # `int()` of a float cuts it off, and of what is unknown may do so.
    tensor = arguments[0].tensor
    whole = tensor is not None and tensor.dtype is not None and tensor.dtype not in FLOATS
    return arguments[0] if call.callee == "builtins.float" or whole else None


def is_used_there_alone(call: View) -> bool:
    """Whether these uses are all that there is of a number, also of the variable that it is
    assigned to."""
    src, number = call.source, call.cst
    if call.is_merged:
        return False
    if not isinstance(src.parent(number), cst.Assign | cst.AnnAssign | cst.NamedExpr):
        return True
    target, function = src.layout.assigned(number), src.function(number)
    if not isinstance(target, cst.Name) or function is None:
        return isinstance(target, cst.Subscript)
    reads = src.variables.uses(number)
    operands = [each for use in call.uses for each in taken_by(use) if each.is_same(call)]
    # Ex) not of `if number:`, which is a read that no operation takes
    return len(operands) == len(reads) == src.layout.occurrences(target.value, function) - 1


def taken_by(use: View) -> Iterator[View]:
    """The operands of an operation, and what is in tuples and lists among them."""
    for operand in use.operands:
        yield from operand.operands if operand.op in ("tuple", "list") else (operand,)


def fed_back(number: View, use: View) -> View | None:
    """The operation on the device that a number goes into, and nothing else does with it."""
    if use.op == "unary" and use.operator == "USub":
        return beyond(use)
    if use.op == "binop":
        left, right = use.operands
        other = right if left.is_same(number) else left
        if is_on_device(other):
            return use
        # `2 * t.item() * x`: first a number with a number, or with whatever may join tensors.
        return beyond(use) if is_number(other) or is_unknown(other.value) else None
    if use.op == "compare":
        return compared(use)
    if use.op == "aug":
        target, value = use.operands
        return use if value.is_same(number) and is_on_device(target) else None
    if use.op == "put":
        return stored(number, use)
    return passed(number, use) if use.op == "call" else None


def beyond(number: View) -> View | None:
    """The operation on the device that a number goes into, where it stands and nowhere else. The
    number is computed of the one that is read."""
    uses = list(number.uses)
    if len(uses) != 1 or any(each.op == READ for each in uses[0].operands if each.is_same(number)):
        return None
    return fed_back(number, uses[0])


def compared(comparison: View) -> View | None:
    """Ex) scores > threshold.item()"""
    if len(comparison.operators) != 1 or not ASKING.isdisjoint(comparison.operators):
        return None
    return comparison if any(map(is_on_device, comparison.operands)) else None


def stored(number: View, put: View) -> View | None:
    """Ex) losses[step] = loss.item()

    Not `x[mask] = t.item()`, which would read a tensor on the device by itself.
    """
    container, index, value = put.operands
    parts = index.operands if index.op == "tuple" else (index,)
    plain = all(part.op == "slice" or is_number(part) for part in parts)
    if not is_on_device(container) or not plain or not value.is_same(number):
        return None
    assign = put.source.parent(put.source.parent(put.cst))
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return None
    return put.of(assign)


def passed(number: View, call: View) -> View | None:
    """Ex) x.clamp(min=t.item()), torch.where(mask, x, t.item()), torch.full(size, t.item()),
    torch.tensor([loss.item(), count.item()], device="cuda")"""
    name = call.callee or ""
    if name in FILLS:
        return call if is_on_device(call) else None
    arguments = list(call.arguments)
    others = [argument for _, _, argument in arguments if not argument.is_same(number)]
    if name.startswith("Tensor.") and call.receiver is not None:
        others = [call.receiver]
    if call.has_star or not any(map(is_on_device, others)):
        return None
    if name in CLAMPS and len(arguments) > CLAMPS[name]:
        return None  # beside a bound that is a number, a tensor is read
    takes = TAKES_TENSOR.get(name, ())
    places = [keyword or position for position, keyword, each in arguments if each.is_same(number)]
    return call if places and all(each in takes for each in places) else None


def is_on_device(at: View) -> bool:
    return isinstance(device_tensor(at.value, certain=True), Tensor)


def is_number(at: View) -> bool:
    atom = only(at.value)
    return isinstance(atom, Host) and atom.kind in ("int", "float", "bool", "number")


def pass_tensor(call: View, operand: View, uses: Sequence[View]) -> Fix | None:
    """Ex) x * t.item() -> x * t.detach()"""
    tensor = operand.tensor
    if tensor is None or tensor.rank == 1 or call.method != "item":
        return None
    if any(use.callee in FILLS for use in uses):
        return None  # it would read the tensor
    # A name outlives what it is read from: that may be changed in place before it is used.
    named = call.source.assigned_name(call.cst) is not None
    passed = without_graph(operand)
    edit = call.source.edits.replace(call.cst, f"{passed}.clone()" if named else passed)
    return Fix("Pass the tensor itself", (edit,), Safety.UNSAFE)
