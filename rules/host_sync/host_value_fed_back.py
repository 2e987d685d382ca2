"""A number is read from the device only to go straight back into an operation there.

`.item()` and `float()` make the host wait until the device has computed the number, in a hot loop
once per step. Operations take the 0-dim tensor itself: then nothing is read, and the host runs on.

    for x, y in loader:
        weight = confidence(x)
        loss = criterion(model(x), y) * weight.item()      # waits, and sends the number back

    for x, y in loader:
        weight = confidence(x)
        loss = criterion(model(x), y) * weight.detach()    # stays on the device

Arithmetic, comparisons, `clamp`, `where`, `lerp`, `pow`, `fill_` and `x[i] = t` take the tensor.
`torch.full(size, t.item())` and `torch.tensor(t.item(), device=...)` are found too; they would read
a tensor themselves, so `t.expand(size)`, `t.clone()` or `torch.stack` is what to write there.

Fix safety: passes the tensor, detached, as `.item()` was. Safe where both are known to have the
same dtype and device, no gradient flows, and the operation rounds a tensor as it does a number
(`+`, `-`, `*`, comparisons) and writes into neither. Else unsafe: with another dtype the result may
be rounded otherwise, `x / t` divides where `x / t.item()` multiplies by the inverse, a tensor of
one element may bring a dimension along, and backward objects if the tensor has been changed in
place since.

Known limits: as for AMP101. `alpha=` and `value=` of in-place operations are numbers: multiply
first; `masked_fill` and `index_fill` read a tensor themselves. Those are left to AMP101, and so is
a number that Python needs as well, or that reaches the operation through another function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amplint import (
    FLOATS,
    HOT,
    Change,
    Finding,
    Fix,
    Group,
    Host,
    Rule,
    Syncs,
    Tensor,
    is_unknown,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.dtypes import CHOICES
from amplint.knowledge.host_reads import TAKES_TENSOR

from .._shared.dtypes import decided_within
from .._shared.reads import READS, device_tensor, hot_evidence, tensor_of_training
from .._shared.tensors import detached, has_own_classes

if TYPE_CHECKING:
    from amplint import Source

INLINE = "the number is used where it is read"
ROUNDS = "the operation rounds a tensor as it does a number"
NEW = "nothing is written into what the number is read from"
PLAIN = "the project has no tensors of a class of their own"
HERE = "both are made in this function"
ALIKE = "both have one known dtype and device, and no gradient"

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
    since="0.1",
    help="compute with the tensor itself, detached, not with the number that is read from it",
    witness=Syncs(before=8, after=0),
    supersedes=("AMP101",),
    safe_if=(INLINE, ROUNDS, NEW, PLAIN, HERE, ALIKE),
    changes=frozenset({Change.ROUNDING}),
    candidates=READS & HOT,
)


@dataclass(frozen=True)
class Read:
    """A call that brings one number to the host.

    Args:
        operand: the expression that is read.
        method: whether it is `.item()`; `float()` and `int()` take numbers as well.
    """

    operand: cst.BaseExpression
    method: bool


@dataclass(frozen=True)
class Use:
    """Where a number goes back to the device.

    Args:
        node: the operation or assignment.
        other: the tensor on the device that it is combined with; None where passing the tensor
            alone would not do.
        exact: whether the operation has the same result with a tensor of the same dtype.
    """

    node: cst.CSTNode
    other: Tensor | None
    exact: bool


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    read = scalar_read(call, src)
    if read is None:
        return
    tensor = tensor_of_training(read.operand, src, receiver=read.method)
    evidence = hot_evidence(call, tensor, src)
    if evidence is None:
        return
    places = [call] if src.assigned_name(call) is None else readers(call, src)
    uses = [fed_back(place, src) for place in places]
    if not uses or None in uses:
        return
    used = [use for use in uses if use is not None]
    there = [
        src.related_node(use.node, "goes back to the device here") for use in used[:1]
        if places != [call]
    ]  # fmt: skip
    message = f"`{src.brief(call)}` is read by the host and goes straight back to the device"
    fix = pass_tensor(call, read, used, src) if isinstance(tensor, Tensor) else None
    yield src.finding(rule, call, message, fix, (*evidence, *there))


def scalar_read(call: cst.Call, src: Source) -> Read | None:
    """Ex) t.item(), float(t), int(n)"""
    function = call.func
    if isinstance(function, cst.Attribute):
        item = function.attr.value == "item" and not call.args
        return Read(function.value, True) if item else None
    name = src.name(function)
    if name not in ("builtins.float", "builtins.int") or len(call.args) != 1 or call.args[0].star:
        return None
    operand = call.args[0].value
    atom = only(src.value(operand))
    # `int()` of a float cuts it off, and of what is unknown may do so.
    whole = isinstance(atom, Tensor) and atom.dtype is not None and atom.dtype not in FLOATS
    return Read(operand, False) if name == "builtins.float" or whole else None


def readers(call: cst.Call, src: Source) -> Sequence[cst.BaseExpression]:
    """The places that read the variable a call is assigned to; none where they may not be all."""
    name, function = src.assigned_name(call), src.function(call)
    if name is None or function is None or src.joined(call):
        return ()
    uses = src.uses(call)
    return uses if src.layout.occurrences(name, function) == len(uses) + 1 else ()


def fed_back(number: cst.BaseExpression, src: Source) -> Use | None:
    """The operation on the device that the number goes into, and nothing else does with it."""
    parent = src.parent(number)
    if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Minus):
        return fed_back(parent, src)
    if isinstance(parent, cst.BinaryOperation):
        other = parent.right if parent.left is number else parent.left
        tensor = device_operand(other, src)
        if tensor is not None:
            return Use(
                parent, tensor, isinstance(parent.operator, (cst.Add, cst.Subtract, cst.Multiply))
            )
        # `2 * t.item() * x`: first a number with a number, or with whatever may join tensors.
        joins = is_number(other, src) or is_unknown(src.value(other))
        beyond = fed_back(parent, src) if joins else None
        return Use(beyond.node, beyond.other, False) if beyond is not None else None
    if isinstance(parent, cst.ComparisonTarget):
        return compared(src.parent(parent), src)
    if isinstance(parent, cst.Comparison):
        return compared(parent, src)
    if isinstance(parent, cst.AugAssign) and parent.value is number:
        tensor = device_operand(parent.target, src)
        exact = isinstance(parent.operator, (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign))
        return Use(parent, tensor, exact) if tensor is not None else None
    if isinstance(parent, cst.Assign):
        return stored(parent, src)
    if isinstance(parent, cst.Arg):
        call = src.parent(parent)
        return passed(parent, call, src) if isinstance(call, cst.Call) else None
    if isinstance(parent, cst.Element):
        return listed(parent, src)
    return None


def compared(comparison: cst.CSTNode | None, src: Source) -> Use | None:
    """Ex) scores > threshold.item()"""
    if not isinstance(comparison, cst.Comparison) or len(comparison.comparisons) != 1:
        return None
    if isinstance(comparison.comparisons[0].operator, cst.In | cst.NotIn | cst.Is | cst.IsNot):
        return None
    for side in (comparison.left, comparison.comparisons[0].comparator):
        tensor = device_operand(side, src)
        if tensor is not None:
            return Use(comparison, tensor, True)
    return None


def stored(assign: cst.Assign, src: Source) -> Use | None:
    """Ex) losses[step] = loss.item()

    Not `x[mask] = t.item()`, which would read a tensor on the device by itself.
    """
    target = assign.targets[0].target if len(assign.targets) == 1 else None
    if not isinstance(target, cst.Subscript):
        return None
    tensor = device_operand(target.value, src)
    plain = all(
        isinstance(each.slice, cst.Slice)
        or (isinstance(each.slice, cst.Index) and is_number(each.slice.value, src))
        for each in target.slice
    )
    return Use(assign, tensor, False) if tensor is not None and plain else None


def passed(arg: cst.Arg, call: cst.Call, src: Source) -> Use | None:
    """Ex) x.clamp(min=t.item()), torch.where(mask, x, t.item()), torch.full(size, t.item())"""
    name = src.name(call.func)
    if name in FILLS:
        return filled(call, src)
    function = call.func
    receiver = function.value if isinstance(function, cst.Attribute) and name is None else None
    if receiver is not None:
        tensor = device_operand(receiver, src)
        name = f"Tensor.{function.attr.value}" if isinstance(function, cst.Attribute) else None
    else:
        others = [other.value for other in call.args if other is not arg and not other.star]
        tensor = next(filter(None, (device_operand(other, src) for other in others)), None)
    if tensor is None or src.has_star(call):
        return None
    if name == "Tensor.new_full":
        return filled(call, src)
    if name in CLAMPS and len(call.args) > CLAMPS[name]:
        return Use(call, None, False)  # beside a bound that is a number, a tensor is read
    takes = TAKES_TENSOR.get(name or "", ())
    keyword = arg.keyword.value if arg.keyword is not None else None
    position = next(i for i, each in enumerate(call.args) if each is arg)
    return Use(call, tensor, False) if (keyword or position) in takes else None


def listed(element: cst.Element, src: Source) -> Use | None:
    """Ex) torch.tensor([loss.item(), count.item()], device="cuda")"""
    sequence = src.parent(element)
    arg = src.parent(sequence)
    call = src.parent(arg)
    if not isinstance(sequence, cst.List | cst.Tuple) or not isinstance(arg, cst.Arg):
        return None
    built = isinstance(call, cst.Call) and src.name(call.func) in FILLS
    return filled(call, src) if built and isinstance(call, cst.Call) else None


def filled(call: cst.Call, src: Source) -> Use | None:
    """Where the tensor that is filled is on the device, or moves there at once."""
    if device_operand(call, src) is not None:
        return Use(call, None, False)
    attribute = src.parent(call)
    move = src.parent(attribute)
    if isinstance(attribute, cst.Attribute) and isinstance(move, cst.Call):
        moves = attribute.attr.value in ("cuda", "to") and move.func is attribute
        if moves and device_operand(move, src) is not None:
            return Use(move, None, False)
    return None


def device_operand(node: cst.BaseExpression, src: Source) -> Tensor | None:
    found = device_tensor(src.value(node), certain=True)
    return found if isinstance(found, Tensor) else None


def is_number(node: cst.BaseExpression, src: Source) -> bool:
    atom = only(src.value(node))
    return isinstance(atom, Host) and atom.kind in ("int", "float", "bool", "number")


def pass_tensor(call: cst.Call, read: Read, uses: Sequence[Use], src: Source) -> Fix | None:
    """Ex) x * t.item() -> x * t.detach()"""
    tensor = src.tensor(read.operand)
    others = [use.other for use in uses if use.other is not None]
    if tensor is None or tensor.rank == 1 or len(others) < len(uses) or not read.method:
        return None
    named = src.assigned_name(call) is not None
    conditions = {
        INLINE: not named,
        ROUNDS: all(use.exact for use in uses),
        NEW: not any(writes(use.node, read.operand, src) for use in uses),
        PLAIN: not has_own_classes(src),
        HERE: all(decided_within(each, call, src) for each in (tensor, *others)),
        ALIKE: all(same_kind(tensor, other) for other in others),
    }
    # A name outlives what it is read from: that may be changed in place before it is used.
    alike = not named and all(conditions.values())
    passed = src.edits.as_receiver(read.operand) if alike else detached(read.operand, src)
    edits = (src.edits.replace(call, f"{passed}.clone()" if named else passed),)
    return Fix.safe_if("Pass the tensor itself", edits, conditions)


def writes(node: cst.CSTNode, operand: cst.BaseExpression, src: Source) -> bool:
    """Whether an operation writes into memory that the number may be read from.

    Ex) x -= x[0].item(), t.item() * t.zero_(); not x -= (t * t).item()
    """
    in_place = isinstance(node, cst.AugAssign) and not isinstance(operand, cst.BinaryOperation)
    return in_place or any(
        isinstance(call.func, cst.Attribute) and call.func.attr.value.endswith("_")
        for call in src.calls(node)
    )


def same_kind(one: Tensor, other: Tensor) -> bool:
    """Whether a number and a 0-dim tensor are the same here: in value, place and graph."""
    return (
        one.rank == 0
        and one.dtype is not None
        and (one.dtype, one.grad, one.device.name) == (other.dtype, False, other.device.name)
        and other.grad is False
        and one.device.name is not None
        and one.dtype not in ("half", *CHOICES)
    )
