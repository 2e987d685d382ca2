"""A factory builds a tensor on the CPU in one dtype, and it is then converted to match another
tensor.

`torch.zeros(n).type_as(x)` allocates and fills float32 memory on the host, converts it, and copies
it over the bus while the host waits. `x.new_zeros(n)` builds the tensor directly with the dtype and
on the device of `x`.

    mask = torch.zeros(n).type_as(x)          # built on the host, cast, copied
    mask = torch.zeros(n).to(x)               # the same

    mask = x.new_zeros(n)                     # built where it is used

The cast may also be a few lines later, if nothing reads the tensor in between. A constant is
reported too, as in `torch.tensor(0.0).to(x)`.

Fix safety: safe for zeros, ones and empty, and for an integer arange, which keeps its cast. Unsafe
for rand and similar functions (another generator: other random numbers), for linspace and float
arange (the last bit may differ), for full and eye, after `expand` (the copy has separate memory for
each element), for a slice (`[::2]`; the copy has no gaps between its elements), if the project
defines tensor subclasses or has sparse or nested tensors, for `.to(x)` if only the visible calls
show that `x` is a tensor, and for a constant, which is rounded once instead of twice. None with
`requires_grad=`, or if `x` is more than a name or an attribute.

Known limits: `.to(x)` counts as a cast only if `x` is known to be a tensor, by its value or because
its shape is read. With `device=`, it is reported only if the dtypes are known to differ.
`torch.tensor(data)` has to copy data of the host anyway, so it is not reported; a constant is (as
AMP502 if it runs for every batch).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from amplint import (
    Atom,
    Change,
    Device,
    DType,
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
    is_unknown,
)
from amplint import libcst as cst
from amplint.knowledge.dtypes import CHOICES
from amplint.knowledge.factories import FACTORIES

from .._shared.factories import Built, built, same_numbers
from .._shared.host_copies import OF_DATA, constant_of, copy_by, filling
from .._shared.moves import without_move
from .._shared.tensors import has_other_layouts, has_own_classes, is_surely_tensor

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
}
KNOWN_ARGUMENTS = frozenset({"size", "fill_value", "n", "m", "dtype", "device"})
MOVE_OPTIONS = frozenset({"non_blocking", "copy"})

rule = Rule(
    "AMP202",
    __doc__,
    group=Group.PERFORMANCE,
    help="build it like the other tensor directly, for example with `x.new_zeros(...)`",
    witness=Same(),
    safe_if=(VALUES, OPERANDS, NOT_SHARED, WHOLE, PLAIN, DENSE, CAST),
    changes=frozenset({Change.ROUNDING, Change.STREAM}),
    supersedes=("AMP201",),
)


@rule.on(calls(".type_as", ".to"))
def check(call: View) -> Iterator[Finding]:
    target = cast_like(call)
    origin = built(call.receiver) if target is not None and call.receiver is not None else None
    if target is None or origin is None or not is_like(call, target) or not changes(origin, target):
        return
    host = origin.call.arg("device") is None
    if not host and not (origin.shaped and origin.alone):
        return  # computed in one dtype where it is used, and then cast
    what = "on the CPU, then cast and moved" if host else "in one dtype, then cast"
    message = f"`{origin.call.operands[0].brief}(...)` is built {what} to match `{target.brief}`"
    # What was done to the values would be done in another dtype.
    fix = build_like(call, origin, target) if origin.shaped and origin.alone else None
    if origin.is_named:
        yield origin.call.finding(message, [call.related(f"made like `{target.brief}` here")], fix)
    else:
        yield call.finding(message, fix=fix)


@rule.on(calls(".type_as", ".to"))
def check_constant(call: View) -> Iterator[Finding]:
    """Ex) torch.tensor(0.0).to(x) -> torch.full((), 0.0, dtype=x.dtype, device=x.device)"""
    target, copy = cast_like(call), copy_by(call)
    if target is None or copy is None or copy.move is None or copy.call.callee not in OF_DATA:
        return  # a legacy constructor decides the dtype, too (AMP504)
    constant = constant_of(copy.data) if is_like(call, target) else None
    if constant is None:
        return
    creation, fix = filling(copy, constant), None
    if creation is not None:
        fix = Fix("Create the scalar on the device, in its dtype", creation.edits, Safety.UNSAFE)
    what = f"is built on the CPU, then cast and moved to match `{target.brief}`"
    yield copy.call.finding(f"`{copy.call.brief}` {what}", fix=fix)


def cast_like(call: View) -> View | None:
    """The expression that a call would cast to the like of, if that is a tensor.

    Ex) x of mask.type_as(x), mask.to(x), mask.to(other=x, non_blocking=True)
    """
    arguments = [*call.arguments]
    if call.receiver is None or call.has_star or not arguments:
        return None
    target = call.arg("other", 0)
    others = [keyword for _, keyword, argument in arguments if argument != target]
    if target is None or not MOVE_OPTIONS.issuperset(others):
        return None
    return target if call.method == "to" or not others else None


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


def changes(origin: Built, target: View) -> bool:
    """Whether the cast is known to be one, or is from the CPU to where the other tensor may be."""
    value, like = origin.call.tensor, target.tensor or Tensor()
    if value is None:
        return False
    unsure = {None, *CHOICES} & {value.dtype, like.dtype}
    recast = not unsure and value.dtype != like.dtype
    if origin.call.arg("device") is None and like.device.kind != "cpu":
        return True
    return recast and origin.name in NEW


def build_like(call: View, origin: Built, target: View) -> Fix | None:
    """Build the tensor as it is to be, and take the cast away."""
    src, node, like = call.source, origin.call.cst, target.text
    if not is_dotted(target.cst) or not src.variables.same_meaning(target.cst, node):
        return None  # evaluated up there, it might be something else
    keywords = {keyword for _, keyword, _ in origin.call.arguments if keyword is not None}
    if not keywords <= KNOWN_ARGUMENTS:
        return None
    if origin.name in NEW:
        options = (src.keyword(node, name) for name in ("dtype", "device"))
        arguments = [arg for arg in options if arg is not None]
        edits = src.edits.remove_arguments(node, arguments) if arguments else ()
        new = src.edits.replace(node.func, f"{like}.{NEW[origin.name]}")
        edits = (*edits, new, without_move(call))
    elif "device" in keywords:
        return None
    else:
        edits = (src.edits.add_argument(node, f"device={like}.device"),)
    return Fix.safe_if(title(origin, like), edits, conditions(call, origin, target))


def title(origin: Built, like: str) -> str:
    if origin.name in NEW:
        return f"Build it with `{like}.{NEW[origin.name]}`"
    other = " (draws different random numbers)" if FACTORIES[origin.name].values == "random" else ""
    return f"Build it on the device of `{like}`{other}"


def conditions(call: View, origin: Built, target: View) -> dict[str, bool]:
    is_type_as = call.method == "type_as"
    return {
        VALUES: same_numbers(origin) and origin.name not in ("torch.full", "torch.eye"),
        OPERANDS: origin.certain,
        NOT_SHARED: not origin.expanded,
        WHOLE: not origin.sliced,
        PLAIN: not has_own_classes(call),
        # `x.to(sparse)` makes a dense tensor, `new_zeros` a sparse one; of a nested one, it raises.
        DENSE: not has_other_layouts(call),
        # Not a dtype or a device on a path that is not seen.
        CAST: is_type_as or is_surely_tensor(target),
    }


def is_dotted(node: cst.BaseExpression) -> bool:
    """Ex) x, self.weight"""
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)
