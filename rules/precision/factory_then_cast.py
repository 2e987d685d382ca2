"""A factory builds a tensor on the CPU in one dtype, and it is then converted to match another
tensor.

`torch.zeros(n).type_as(x)` allocates and fills float32 memory on the host, converts it, and copies
it over the bus while the host waits. `x.new_zeros(n)` builds the tensor directly with the dtype and
on the device of `x`.

    mask = torch.zeros(n).type_as(x)          # built on the host, cast, copied
    mask = torch.zeros(n).to(x)               # the same
    mask = torch.zeros(n).type(x.type())      # the same

    mask = x.new_zeros(n)                     # built where it is used

The cast may also be a few lines later, if nothing reads the tensor in between. A constant is
reported too, as in `torch.tensor(0.0).to(x)`.

Fix safety: safe for zeros, ones and empty, for eye if the dtype of `x` is known, for an integer
arange (which keeps its cast), and for full with a constant that every dtype, or the known dtype of
`x`, can hold. Unsafe for rand and similar functions (another generator: other random numbers), for
linspace and float arange (the last bit may differ), for full with any other value (`new_full`
raises where the cast overflowed), after `expand` (the copy has separate memory for each element),
for a slice (`[::2]`; the copy has no gaps between its elements), if the project defines tensor
subclasses, for `.to(x)` if the project has sparse tensors or only the visible calls show that `x`
is a tensor, for a constant, which is rounded once instead of twice, and for `.type(x.type())`,
which means the current GPU. None with `requires_grad=`, or if `x` is more than a name or an
attribute.

Known limits: `.to(x)` counts as a cast only if `x` is known to be a tensor, by its value or because
its shape is read. With `device=`, it is reported only if the dtypes are known to differ.
`torch.tensor(data)` has to copy data of the host anyway, so it is not reported; a constant is (as
AMP502 if it runs for every batch).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

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
    Tensor,
    TensorTree,
    View,
    calls,
    constant,
    is_unknown,
)
from amplint import libcst as cst
from amplint.knowledge.dtypes import CHOICES
from amplint.knowledge.factories import FACTORIES

from .._shared.dtypes import is_surely_decided
from .._shared.factories import Built, built, same_numbers
from .._shared.host_copies import OF_DATA, constant_of, copy_by, filling
from .._shared.local_values import is_dotted, is_local
from .._shared.moves import without_move
from .._shared.tensors import has_nested, has_other_layouts, has_own_classes, is_surely_tensor

VALUES = "every device and dtype gets the same values"
OPERANDS = "its arguments are the same for every caller"
NOT_SHARED = "no elements share memory"
WHOLE = "no part of it is sliced out"
PLAIN = "the project has no tensor subclasses"
DENSE = "the other tensor is strided"
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

rule = Rule(
    "AMP202",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="build it like the other tensor directly, for example with `x.new_zeros(...)`",
    witness=Same(),
    safe_if=(VALUES, OPERANDS, NOT_SHARED, WHOLE, PLAIN, DENSE, CAST),
    changes=frozenset({Change.ROUNDING, Change.STREAM}),
    supersedes=("AMP201",),
)


@rule.on(calls(".type_as", ".to", ".type"))
def check(call: View) -> Iterator[Finding]:
    target = cast_like(call)
    made = built(call.receiver) if target is not None and call.receiver is not None else None
    if target is None or made is None or not is_like(call, target) or not changes(made, target):
        return
    host = made.call.arg("device") is None
    if not host and not (made.shaped and made.alone):
        return  # computed in one dtype where it is used, and then cast
    what = "on the CPU, then cast and moved" if host else "in one dtype, then cast"
    message = f"`{made.call.operands[0].brief}(...)` is built {what} to match `{target.brief}`"
    # What was done to the values would be done in another dtype.
    fix = build_like(call, made, target) if made.shaped and made.alone else None
    if made.is_named:
        yield made.call.finding(message, [call.related(f"made like `{target.brief}` here")], fix)
    else:
        yield call.finding(message, fix=fix)


@rule.on(calls(".type_as", ".to", ".type"))
def check_constant(call: View) -> Iterator[Finding]:
    """Ex) torch.tensor(0.0).to(x) -> torch.full((), 0.0, dtype=x.dtype, device=x.device)"""
    target, copy = cast_like(call), copy_by(call)
    if target is None or copy is None or copy.move is None or copy.made.callee not in OF_DATA:
        return  # a legacy constructor decides the dtype, too (AMP504)
    constant = constant_of(copy.data) if is_like(call, target) else None
    if constant is None:
        return
    made, fix = filling(copy, constant), None
    if made is not None:
        fix = Fix("Create the scalar on the device, in its dtype", made.edits, Safety.UNSAFE)
    what = f"is built on the CPU, then cast and moved to match `{target.brief}`"
    yield copy.made.finding(f"`{copy.made.brief}` {what}", fix=fix)


def cast_like(call: View) -> View | None:
    """The expression that a call would cast to the like of, if that is a tensor.

    Ex) x of made.type_as(x), made.to(x), made.to(other=x, non_blocking=True), made.type(x.type())
    """
    given = [*call.arguments]
    if call.receiver is None or call.has_star or not given:
        return None
    if call.method == "type":
        return typed_like(given[0][2]) if len(given) == 1 else None
    target = call.arg("other", 0)
    others = [keyword for _, keyword, argument in given if argument != target]
    if target is None or not MOVE_OPTIONS.issuperset(others):
        return None
    return target if call.method == "to" or not others else None


def typed_like(target: View) -> View | None:
    """Ex) x of x.type()"""
    asked = target.op == "call" and target.method == "type" and not [*target.arguments]
    return target.receiver if asked else None


def is_like(call: View, target: View) -> bool:
    """Whether a call casts to what a tensor is: of `.to`, a device or a dtype may be asked for."""
    return call.method != "to" or is_tensor(target)


def is_tensor(at: View) -> bool:
    """Whether what `.to` is given is a tensor: on some path, and on the others nobody knows, for it
    takes no nest of them; or its shape is read, which devices and dtypes do not have."""
    if any(isinstance(atom, Tensor | TensorTree) for atom in at.value):
        # `.to(array)` would raise, and a nest of tensors has no dtype either: those paths are none.
        return not any(isinstance(atom, DType | Device) or is_name(atom) for atom in at.value)
    if not is_unknown(at.value) or not isinstance(at.cst, cst.Name):
        return False
    shaped = re.compile(rf"\b{at.cst.value}\.(shape|ndim|size\(|dim\()")
    function = at.source.function(at.cst)
    return function is not None and shaped.search(at.source.text(function)) is not None


def is_name(atom: Atom) -> bool:
    """Whether it may name a device: "cuda", or the index of a GPU."""
    return isinstance(atom, Host) and atom.kind in ("str", "int")


def changes(made: Built, target: View) -> bool:
    """Whether the cast is known to be one, or is from the CPU to where the other tensor may be."""
    value, like = made.call.tensor, target.tensor or Tensor()
    if value is None:
        return False
    unsure = {None, *CHOICES} & {value.dtype, like.dtype}
    recast = not unsure and value.dtype != like.dtype
    if made.call.arg("device") is None and like.device.kind != "cpu":
        return True
    return recast and made.name in TAKE_DTYPE


def build_like(call: View, made: Built, target: View) -> Fix | None:
    """Build the tensor as it is to be, and take the cast away."""
    src, factory, like = call.source, made.call.cst, target.text
    if not is_dotted(target.cst) or not src.variables.same_meaning(target.cst, factory):
        return None  # evaluated up there, it might be something else
    keywords = {keyword for _, keyword, _ in made.call.arguments if keyword is not None}
    if not keywords <= KNOWN_ARGUMENTS:
        return None
    edits = edits_of(call, made, like, keywords)
    done = tuple(edit for edit in edits if edit is not None)
    if not edits or len(done) < len(edits):
        return None
    return Fix.safe_if(title(made, like), done, conditions(call, made, target))


def edits_of(call: View, made: Built, like: str, keywords: set[str]) -> list[Edit | None]:
    """The edits that build a tensor like another one; none where it cannot be built so."""
    edits, factory = call.source.edits, made.call.cst
    placed = f"dtype={like}.dtype", f"device={like}.device"
    if made.name not in TAKE_DTYPE:
        return [] if "device" in keywords else [edits.add_argument(factory, placed[1])]
    if made.name == "torch.full" and "dtype" in keywords:
        return []  # the value goes through two conversions
    gone = [call.source.keyword(factory, name) for name in ("dtype", "device")]
    given = [arg for arg in gone if arg is not None]
    done: list[Edit | None] = [*edits.remove_arguments(factory, given)] if given else []
    if made.name in NEW:
        done.append(edits.replace(factory.func, f"{like}.{NEW[made.name]}"))
    elif given:
        return []
    else:
        done.append(edits.add_argument(factory, *placed))
    return [*done, without_move(call, with_move(call, like))]


def with_move(call: View, like: str) -> View:
    """Ex) made.type_as(x).to(x.device) of made.type_as(x), which has moved it there"""
    then = call.source.layout.call_on(call.cst)
    move = call.of(then) if then is not None else call
    given = [argument.text for _, _, argument in move.arguments]
    return move if move.method == "to" and given == [f"{like}.device"] else call


def title(made: Built, like: str) -> str:
    if made.name in NEW:
        return f"Build it with `{like}.{NEW[made.name]}`"
    if made.name in TAKE_DTYPE:
        return f"Build it with the dtype and on the device of `{like}`"
    other = " (draws different random numbers)" if FACTORIES[made.name].values == "random" else ""
    return f"Build it on the device of `{like}`{other}"


def conditions(call: View, made: Built, target: View) -> dict[str, bool]:
    like = target.tensor
    exact = same_numbers(made)
    # Of a dtype that a caller has decided, another caller may know nothing.
    dtype = like.dtype if like is not None and is_surely_decided(like, target) else None
    if made.name == "torch.full":
        fill = made.call.arg("fill_value", 1)
        exact = fill is not None and holds(dtype, fill)
    if made.name == "torch.eye":
        exact = dtype is not None  # a few take a cast, but have no `eye`
    method = call.method
    return {
        VALUES: exact,
        OPERANDS: made.certain,
        NOT_SHARED: not made.expanded,
        WHOLE: not made.sliced,
        PLAIN: not has_own_classes(call),
        # `x.type_as(sparse)` raises; `x.to(sparse)` makes a dense tensor, `new_zeros` a sparse one.
        # Of a nested tensor, either makes a dense one, and `new_zeros` raises.
        DENSE: not (has_nested(call) if method == "type_as" else has_other_layouts(call)),
        # Not a dtype or a device on a path that is not seen; "torch.cuda.FloatTensor" means the
        # current GPU.
        CAST: method == "type_as" or (method == "to" and is_surely_tensor(target)),
    }


def holds(dtype: str | None, fill: View) -> bool:
    """Whether `new_full` makes the value that the cast from the default dtype makes."""
    if INFINITE.fullmatch(fill.source.text(fill.cst, parentheses=False)):
        return dtype in FLOATS
    value = constant(fill.value)
    if not isinstance(value, bool | int | float) or not is_local(fill):
        return False
    if dtype is None or dtype not in FLOATS:
        return 0 <= value <= INT_MAX and is_float32(value)
    return abs(value) <= HALF_MAX and (dtype != "float64" or is_float32(value))


def is_float32(value: float) -> bool:
    """Whether float32 holds the number exactly, as the tensor did before it was cast."""
    return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
