"""A factory's tensor is built in one type on the CPU, and then made like another tensor.

`torch.zeros(n).type_as(x)` allocates and fills float32 memory on the host, converts it, and copies
it over the bus while the host waits. `x.new_zeros(n)` builds the tensor at once with the dtype and
on the device of `x`.

    mask = torch.zeros(n).type_as(x)          # built on the host, cast, copied
    mask = torch.zeros(n).to(x)               # the same
    mask = torch.zeros(n).type(x.type())      # the same

    mask = x.new_zeros(n)                     # built where it is used

Also where the cast stands a few lines further down, if nothing reads the tensor in between, and for
a constant, as in `torch.tensor(0.0).to(x)`.

Fix safety: safe for zeros, ones and empty, for eye where the dtype of `x` is known, for an integer
arange (which keeps its cast), and for full with a constant that every type, or the known type of
`x`, can hold. Unsafe for rand and its kin (another generator: other random numbers), for linspace
and float arange (the last bit may differ), for full with any other value (`new_full` raises where
the cast overflowed), through `expand` (the copy has memory of its own for each element), of a part
(`[::2]`; the copy has no gaps between its elements), where the project has tensors of a class of
their own, for `.to(x)` where it has sparse tensors or only the calls that were seen say that `x` is
a tensor, for a constant, which is rounded once instead of twice,
and for `.type(x.type())`, which means the current GPU. None with `requires_grad=`, and
where `x` is more than a name or an attribute.

Known limits: `.to(x)` is only known to be a cast where `x` is known to be a tensor, by its value or
because its shape is read. Where `device=` is given, it is a finding only if the dtypes are known to
differ. `torch.tensor(data)` must copy data of the host anyhow; a constant need not: it is a finding
(AMP502 where it runs for every batch).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    FLOATS,
    Atom,
    Change,
    Device,
    DType,
    Edit,
    Finding,
    Fix,
    Group,
    Host,
    Rule,
    Safety,
    Same,
    Spot,
    Tensor,
    TensorTree,
    Unknown,
    calls,
    constant,
    is_unknown,
)
from amplint import libcst as cst
from amplint.knowledge.dtypes import CHOICES
from amplint.knowledge.factories import FACTORIES

from .._shared.cst_factories import Built, built, is_built, same_numbers
from .._shared.cst_host_copies import constant_of, copy_by, filling
from .._shared.dtypes import surely_decided
from .._shared.host_copies import OF_DATA
from .._shared.local_values import is_local, method_of
from .._shared.tensors import has_nested, has_other_layouts, has_own_classes, surely_tensor

if TYPE_CHECKING:
    from amplint import Source

VALUES = "every device and dtype is given the same values"
OPERANDS = "what it is built and shaped with is the same for every caller"
NOT_SHARED = "no elements share memory"
WHOLE = "no part of it is taken"
PLAIN = "the project has no tensors of a class of their own"
DENSE = "what it is made like is strided"
CAST = "the cast is to the dtype and the device of a tensor"


# A factory of sizes -> the method that builds the like of a tensor.
NEW = {
    "torch.zeros": "new_zeros",
    "torch.ones": "new_ones",
    "torch.empty": "new_empty",
    "torch.full": "new_full",
}
# These take a dtype and give the same values as when they are cast to it.
TAKE_DTYPE = frozenset({*NEW, "torch.eye"})
KNOWN_ARGUMENTS = frozenset({"size", "fill_value", "n", "m", "dtype", "device"})
MOVE_OPTIONS = frozenset({"non_blocking", "copy"})
INFINITE = re.compile(r"-?((math|np|numpy|torch|th)\.inf|float\([\"'][+-]?inf(inity)?[\"']\))")
HALF_MAX = 65504
INT_MAX = 127  # of the smallest integer type


def is_cast_of_new(at: Spot) -> bool:
    """Ex) torch.zeros(n).type_as(x)"""
    given = at.arguments[:1]
    like = any(may_be_tensor(at, each) for each in given)
    if not like or at.receiver < 0:
        return False
    return is_built(at, at.receiver) or is_built(at, at.receiver, OF_DATA)


def may_be_tensor(at: Spot, number: int) -> bool:
    """Whether it is a tensor, what nobody knows, or the type of a tensor."""
    value, node = at.of(number), at.graph.nodes[number]
    typed = node.op == "call" and at.graph.nodes[node.operands[0]].data == "type"
    return (
        at.method == "type_as"
        or typed
        or any(isinstance(a, Tensor | TensorTree | Unknown) for a in value)
    )


rule = Rule(
    "AMP202",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="build it like the other tensor at once, as by `x.new_zeros(...)`",
    witness=Same(),
    safe_if=(VALUES, OPERANDS, NOT_SHARED, WHOLE, PLAIN, DENSE, CAST),
    changes=frozenset({Change.ROUNDING, Change.STREAM}),
    supersedes=("AMP201",),
    candidates=calls(".type_as", ".to", ".type") & is_cast_of_new,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    target = cast_like(call, src)
    if target is None:
        return
    assert isinstance(call.func, cst.Attribute)
    made = built(call.func.value, src)
    if made is None or not changes(made, target, src):
        return
    like = src.brief(target)
    host = src.keyword(made.call, "device") is None
    if not host and not (made.shaped and made.alone):
        return  # computed in one dtype where it is used, and then cast
    what = "on the CPU, then cast and moved" if host else "in one dtype, then cast"
    message = f"`{src.brief(made.call.func)}(...)` is built {what} to match `{like}`"
    related = (src.related_node(call, f"made like `{like}` here"),) if made.names else ()
    # What was done to the values would be done in another dtype.
    fix = build_like(call, made, target, src) if made.shaped and made.alone else None
    yield src.finding(rule, made.call if made.names else call, message, fix, related)


@rule.check
def check_constant(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) torch.tensor(0.0).to(x) -> torch.full((), 0.0, dtype=x.dtype, device=x.device)"""
    target, copy = cast_like(call, src), copy_by(call, src)
    if target is None or copy is None or copy.move is copy.made:
        return
    constant = constant_of(copy.data.value, src)
    if constant is None or src.name(copy.made.func) not in OF_DATA:
        return  # a legacy constructor decides the dtype, too (AMP504)
    made, like = filling(copy, constant, src), src.brief(target)
    fix = None
    if made is not None:
        fix = Fix("Fill the number in where it is used", made.edits, Safety.UNSAFE)
    message = f"`{src.brief(copy.made)}` is built on the CPU, then cast and moved to match `{like}`"
    yield src.finding(rule, copy.made, message, fix)


def cast_like(call: cst.Call, src: Source) -> cst.BaseExpression | None:
    """Ex) x of made.type_as(x), made.to(x), made.to(other=x, non_blocking=True)
    Ex) x of made.type(x.type())"""
    if not isinstance(call.func, cst.Attribute) or src.has_star(call):
        return None
    method = call.func.attr.value
    if method == "type":
        return typed_like(call)
    target = src.argument(call, "other", 0)
    if target is None or method not in ("type_as", "to"):
        return None
    options = {arg.keyword.value for arg in call.args if arg.keyword and arg is not target}
    if method == "type_as":
        return target.value if len(call.args) == 1 else None
    if not options <= MOVE_OPTIONS or len(options) + 1 != len(call.args):
        return None
    return target.value if is_tensor(target.value, src) else None


def typed_like(call: cst.Call) -> cst.BaseExpression | None:
    """Ex) x of made.type(x.type())"""
    target = call.args[0].value if len(call.args) == 1 else None
    if (
        not isinstance(target, cst.Call)
        or target.args
        or not isinstance(target.func, cst.Attribute)
    ):
        return None
    return target.func.value if target.func.attr.value == "type" else None


def is_tensor(node: cst.BaseExpression, src: Source) -> bool:
    """Whether what `.to` is given is a tensor: on some path, and on the others nobody knows, for it
    takes no nest of them; or its shape is read, which devices and dtypes do not have."""
    value = src.value(node)
    if any(isinstance(atom, Tensor | TensorTree) for atom in value):
        # `.to(array)` would raise, and a nest of tensors has no dtype either: those paths are none.
        return not any(isinstance(atom, DType | Device) or is_name(atom) for atom in value)
    if not is_unknown(value) or not isinstance(node, cst.Name):
        return False
    shaped = re.compile(rf"\b{node.value}\.(shape|ndim|size\(|dim\()")
    function = src.function(node)
    return function is not None and shaped.search(src.text(function)) is not None


def is_name(atom: Atom) -> bool:
    """Whether it may name a device: "cuda", or the index of a GPU."""
    return isinstance(atom, Host) and atom.kind in ("str", "int")


def changes(made: Built, target: cst.BaseExpression, src: Source) -> bool:
    """Whether the cast is known to be one, or is from the CPU to where the other tensor may be."""
    value, like = src.tensor(made.call), src.tensor(target)
    if value is None:
        return False
    like = like or Tensor()
    unsure = {None, *CHOICES} & {value.dtype, like.dtype}
    recast = not unsure and value.dtype != like.dtype
    if src.keyword(made.call, "device") is None and like.device.kind != "cpu":
        return True
    return recast and made.name in TAKE_DTYPE


def build_like(call: cst.Call, made: Built, target: cst.BaseExpression, src: Source) -> Fix | None:
    """Build the tensor as it is to be, and take the cast away."""
    if not is_plain(target) or not src.variables.same_meaning(target, made.call):
        return None  # evaluated up there, it might be something else
    keywords = {arg.keyword.value for arg in made.call.args if arg.keyword is not None}
    if not keywords <= KNOWN_ARGUMENTS:
        return None
    like = src.text(target)
    if made.name not in TAKE_DTYPE:
        if "device" in keywords:
            return None
        edit = src.edits.add_argument(made.call, f"device={like}.device")
        if edit is None:
            return None
        return Fix.safe_if(title(made, like), (edit,), conditions(call, made, target, src))
    gone = [src.keyword(made.call, name) for name in ("dtype", "device")]
    given = [arg for arg in gone if arg is not None]
    if made.name == "torch.full" and gone[0] is not None:
        return None  # the value goes through two conversions
    edits: list[Edit | None] = [*src.edits.remove_arguments(made.call, given)] if given else []
    if made.name in NEW:
        edits.append(src.edits.replace(made.call.func, f"{like}.{NEW[made.name]}"))
    elif given:
        return None
    else:
        placed = f"dtype={like}.dtype", f"device={like}.device"
        edits.append(src.edits.add_argument(made.call, *placed))
    edits.append(without_cast(call, like, src))
    done = tuple(edit for edit in edits if edit is not None)
    if len(done) < len(edits):
        return None
    return Fix.safe_if(title(made, like), done, conditions(call, made, target, src))


def is_plain(node: cst.BaseExpression) -> bool:
    """Ex) x, self.weight"""
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)


def without_cast(call: cst.Call, like: str, src: Source) -> Edit | None:
    """Ex) torch.zeros(n).type_as(x) -> torch.zeros(n); m = m.type_as(x) -> nothing at all"""
    assert isinstance(call.func, cst.Attribute)
    receiver, whole = call.func.value, with_move(call, like, src)
    statement = src.layout.assignment(whole)
    if isinstance(receiver, cst.Name) and src.assigned_name(whole) == receiver.value and statement:
        return src.edits.remove_statement(statement)
    return src.edits.remove_between(receiver, whole)


def with_move(call: cst.Call, like: str, src: Source) -> cst.Call:
    """Ex) made.type_as(x).to(x.device) of made.type_as(x), which has moved it there"""
    method = src.parent(call)
    move = src.parent(method) if isinstance(method, cst.Attribute) else None
    if not isinstance(move, cst.Call) or move.func is not method or method_of(move) != "to":
        return call
    return move if [src.text(arg) for arg in move.args] == [f"{like}.device"] else call


def title(made: Built, like: str) -> str:
    if made.name in NEW:
        return f"Build it with `{like}.{NEW[made.name]}`"
    if made.name in TAKE_DTYPE:
        return f"Build it with the dtype and on the device of `{like}`"
    other = " (other random numbers)" if FACTORIES[made.name].values == "random" else ""
    return f"Build it on the device of `{like}`{other}"


def conditions(
    call: cst.Call, made: Built, target: cst.BaseExpression, src: Source
) -> dict[str, bool]:
    assert isinstance(call.func, cst.Attribute)
    like = src.tensor(target)
    exact = same_numbers(made, src)
    # Of a dtype that a caller has decided, another caller may know nothing.
    dtype = like.dtype if like is not None and surely_decided(like, target, src) else None
    if made.name == "torch.full":
        fill = src.argument(made.call, "fill_value", 1)
        exact = fill is not None and holds(dtype, fill.value, src)
    if made.name == "torch.eye":
        exact = dtype is not None  # a few take a cast, but have no `eye`
    method = call.func.attr.value
    return {
        VALUES: exact,
        OPERANDS: made.certain,
        NOT_SHARED: not made.expanded,
        WHOLE: not made.sliced,
        PLAIN: not has_own_classes(src),
        # `x.type_as(sparse)` raises; `x.to(sparse)` makes a dense tensor, `new_zeros` a sparse one.
        # Of a nested tensor, either makes a dense one, and `new_zeros` raises.
        DENSE: not (has_nested(src) if method == "type_as" else has_other_layouts(src)),
        # Not a dtype or a device on a path that is not seen; "torch.cuda.FloatTensor" means the
        # current GPU.
        CAST: method == "type_as" or (method == "to" and surely_tensor(target, src)),
    }


def holds(dtype: str | None, fill: cst.BaseExpression, src: Source) -> bool:
    """Whether `new_full` makes the value that the cast from the default dtype makes."""
    if INFINITE.fullmatch(src.text(fill, parentheses=False)):
        return dtype in FLOATS
    value = constant(src.value(fill))
    if not isinstance(value, bool | int | float) or not is_local(fill, src):
        return False
    if dtype is None or dtype not in FLOATS:
        return 0 <= value <= INT_MAX and is_float32(value)
    return abs(value) <= HALF_MAX and (dtype != "float64" or is_float32(value))


def is_float32(value: float) -> bool:
    """Whether float32 holds the number exactly, as the tensor did before it was cast."""
    return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
