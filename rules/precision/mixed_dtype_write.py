"""A tensor is written into a buffer of another dtype, in a way that does not cast.

`buffer[index] = rows` with a tensor, a list or a mask as index, `index_add_`, `index_copy_`,
`scatter_` and their kin raise where source and destination differ in dtype. Autocast does not
help: it leaves in-place operations alone. Under a region, what a linear layer returns is half, and
the buffer from `torch.zeros` is float32.

    out = torch.zeros(n, d, device=x.device)          # float32
    out[index] = self.proj(x)                         # half: raises

    out[index] = self.proj(x).to(out.dtype)           # keeps the float32 buffer
    out = h.new_zeros(n, d)                           # or a buffer of the dtype of the rows

Slices, single numbers and 0-dim tensors as index cast in silence, and a mask takes a 0-dim source
of any dtype.

Fix safety: the source is cast to the dtype of the buffer, which is safe: the line could only raise.
Unsafe where the error is caught.

Known limits: dtypes that are unknown are left alone, as are integers. Of buffers of a module,
only writes within an autocast region are judged, since the whole module may be half. Out of place,
`index_put`, `scatter_add` and `index_copy` may be promoted by autocast and are no finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    WITH_HALF,
    Finding,
    Fix,
    Group,
    Host,
    Raises,
    Rule,
    Sequence,
    Spot,
    Tensor,
    Value,
    calls,
    nodes,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.casts import SAME_DTYPE_WRITES, policy
from amplint.knowledge.dtypes import SIGNED_INTEGERS

from .._shared.dtypes import (
    decided_within,
    default_may_be_half,
    differ,
    dtype_places,
    enabled_region,
    surely_decided,
)
from .._shared.guards import is_caught
from .._shared.parameters import holds_unannotated
from .._shared.tensors import is_registered, surely_tensor

if TYPE_CHECKING:
    from amplint import Source

METHODS = frozenset({*SAME_DTYPE_WRITES, *(f"{name}_" for name in SAME_DTYPE_WRITES)})

RAISES = "the dtypes are known to differ: the line can only raise"
TENSOR = "the source is a tensor for every caller"
BUFFER = "the destination is a tensor for every caller"
UNCAUGHT = "nothing around it catches the error"


SOURCE_NAMES = ("source", "src", "values", "end")
SEQUENCES = frozenset({"builtins.list", "builtins.range"})


def clash(at: Spot, one: int, other: int) -> bool:
    """Whether the dtypes of two tensors are known to differ."""
    to, what = at.tensor(one), at.tensor(other)
    return to is not None and what is not None and differ(to.dtype, what.dtype)


def writes_mixed(at: Spot) -> bool:
    """Ex) buffer.index_add_(0, index, source)"""
    buffers = (at.receiver, *at.arguments[:1])
    return any(clash(at, buffer, each) for buffer in buffers for each in at.arguments)


rule = Rule(
    "AMP204",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="cast the source by `.to(buffer.dtype)`, or build the buffer in the dtype of the source",
    witness=Raises("source and destination dtypes match", on_gpu="expected scalar type"),
    safe_if=(RAISES, TENSOR, BUFFER, UNCAUGHT),
    supersedes=("AMP201",),
    presumes=False,
    candidates=(
        nodes("put") & (lambda at: clash(at, at.node.operands[0], at.node.operands[-1]))
        | calls(*(f".{name}" for name in METHODS)) & writes_mixed
    )
    & WITH_HALF,
)


@rule.check
def check_assignment(assign: cst.Assign, src: Source) -> Iterator[Finding]:
    """Ex) buffer[index] = source"""
    for target in assign.targets:
        subscript = target.target
        if isinstance(subscript, cst.Subscript) and writes_by_index(subscript, assign.value, src):
            yield from report(subscript.value, assign.value, src)


@rule.check
def check_call(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) buffer.index_add_(0, index, source), torch.scatter(buffer, 0, index, source)"""
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in METHODS:
        written = write_of(call, call.func, src)
        if written is not None:
            yield from report(*written, src)


def report(
    buffer: cst.BaseExpression, source: cst.BaseExpression, src: Source
) -> Iterator[Finding]:
    to, what = src.tensor(buffer), src.tensor(source)
    if to is None or what is None or not differ(to.dtype, what.dtype):
        return
    if default_may_be_half(src) or may_be_converted(buffer, to, src):
        return
    message = (
        f"{what.dtype} is written into `{src.brief(buffer)}`, which is {to.dtype}: RuntimeError"
    )
    yield src.finding(
        rule, source, message, cast(buffer, to, source, src), dtype_places(src, to, what)
    )


def write_of(
    call: cst.Call, method: cst.Attribute, src: Source
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """The destination and the source of a call that writes without a cast."""
    name = method.attr.value
    position = SAME_DTYPE_WRITES[name.removesuffix("_")]
    buffer = method.value
    if src.name(call.func) == f"torch.{name}":
        first = src.argument(call, "input", 0)
        if first is None:
            return None
        buffer, position = first.value, position + 1
    if not name.endswith("_") and (name == "lerp" or may_promote(name, call, src)):
        return None
    given = src.argument(call, SOURCE_NAMES[0], position)
    for keyword in SOURCE_NAMES[1:]:
        given = given or src.keyword(call, keyword)
    return (buffer, given.value) if given is not None else None


def may_promote(name: str, node: cst.CSTNode, src: Source) -> bool:
    """Whether a region, here or around an unseen caller, brings the operands to one dtype."""
    region = src.region(node)
    if region is not None and region.enabled is False:
        return False
    devices = ("cuda", "cpu") if region is None or region.device is None else (region.device,)
    return any(policy(f"Tensor.{name}", device) == "promote" for device in devices)


def writes_by_index(target: cst.Subscript, source: cst.BaseExpression, src: Source) -> bool:
    """Whether the assignment goes through a tensor, a list or a mask, which does not cast."""
    tensor = src.tensor(source)
    if tensor is None:
        return False
    dimensioned = tensor.rank == 1
    return any(
        isinstance(element.slice, cst.Index) and is_advanced(element.slice.value, dimensioned, src)
        for element in target.slice
    )


def is_advanced(index: cst.BaseExpression, dimensioned: bool, src: Source) -> bool:
    """Integer indices raise whatever the source is, masks where it has dimensions."""
    if isinstance(index, cst.Tuple):
        return any(is_advanced(element.value, dimensioned, src) for element in index.elements)
    value = src.value(index)
    if holds_index_tensor(value, dimensioned):
        return True
    atom = only(value)
    if not isinstance(atom, Sequence):
        return False
    if atom.items is not None and any(holds_index_tensor(v, dimensioned) for v in atom.items):
        return True
    # A tuple of numbers is a place, a list of numbers is a list of places.
    return is_list(index, src) and (dimensioned or is_integers(atom))


def holds_index_tensor(value: Value, dimensioned: bool) -> bool:
    atom = only(value)
    if isinstance(atom, Sequence) and atom.items is None:
        atom = only(atom.element)  # torch.where(mask), mask.nonzero(as_tuple=True)
    if not isinstance(atom, Tensor) or (atom.rank != 1 and atom.dtype != "bool"):
        return False
    return dimensioned or atom.dtype in SIGNED_INTEGERS


def is_list(index: cst.BaseExpression, src: Source) -> bool:
    made = src.origin(index) if isinstance(index, cst.Name) else index
    if isinstance(made, cst.Call):
        return src.name(made.func) in SEQUENCES
    return isinstance(made, cst.List | cst.ListComp)


def is_integers(sequence: Sequence) -> bool:
    elements = sequence.items if sequence.items is not None else (sequence.element,)
    return all(
        isinstance(atom, Host) and atom.kind == "int" for value in elements for atom in value
    )


def may_be_converted(buffer: cst.BaseExpression, tensor: Tensor, src: Source) -> bool:
    """Whether the buffer may have become half with its module, which no value shows.

    In a region, modules are in float32; elsewhere, and where a region is presumed, only what this
    function itself has made is sure.
    """
    region = enabled_region(buffer, src)
    if region is not None and not region.presumed:
        return False
    return not decided_within(tensor, buffer, src)


def is_surely_written_to(buffer: cst.BaseExpression, tensor: Tensor, src: Source) -> bool:
    """Whether the destination is a tensor for every caller, and not an array or a dict.

    After a first write, a variable no longer holds just what was assigned to it.
    """
    made_here = decided_within(tensor, buffer, src) and not holds_unannotated(buffer, src)
    return made_here or is_registered(buffer, src) or surely_tensor(buffer, src)


def cast(
    buffer: cst.BaseExpression, to: Tensor, source: cst.BaseExpression, src: Source
) -> Fix | None:
    """Ex) rows -> rows.to(buffer.dtype)"""
    conditions = {
        RAISES: True,
        TENSOR: surely_tensor(source, src),
        BUFFER: is_surely_written_to(buffer, to, src),
        UNCAUGHT: not is_caught(source, src),
    }
    if isinstance(buffer, cst.Name | cst.Attribute):
        edit = src.edits.append_call(source, f"to({src.text(buffer)}.dtype)")
        title = f"Cast the source to the dtype of `{src.brief(buffer)}`"
        return Fix.safe_if(title, (edit,), conditions)
    if to.dtype == "float32":
        conditions[RAISES] = surely_decided(to, buffer, src)
        edit = src.edits.append_call(source, "float()")
        return Fix.safe_if("Cast the source to float32", (edit,), conditions)
    return None
