"""A tensor is written into a buffer of another dtype, in a way that does not cast.

`buffer[index] = rows` with a tensor, a list or a mask as index, `index_add_`, `index_copy_`,
`scatter_` and similar operations raise if source and destination differ in dtype. Autocast does not
help: it does not change in-place operations. In a region, a linear layer returns half, and a buffer
from `torch.zeros` is float32.

    out = torch.zeros(n, d, device=x.device)          # float32
    out[index] = self.proj(x)                         # half: raises

    out[index] = self.proj(x).to(out.dtype)           # keeps the float32 buffer
    out = h.new_zeros(n, d)                           # or a buffer of the dtype of the rows

With a slice, a single number or a 0-dim tensor as the index, the write casts silently. With a mask,
a 0-dim source may have any dtype.

Fix safety: casts the source to the dtype of the buffer. Safe, because the line could only raise.
Unsafe if the error is caught.

Known limits: unknown dtypes and integers are not reported. For buffers of a module, only writes
within an autocast region are checked, since the whole module may be half. The out-of-place
operations `index_put`, `scatter_add` and `index_copy` may be promoted by autocast and are not
reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amplint import (
    WITH_HALF,
    Finding,
    Fix,
    Group,
    Host,
    Presumes,
    Raises,
    Rule,
    Sequence,
    Shows,
    Tensor,
    TensorTree,
    View,
    calls,
    evidence_of,
    nodes,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.casts import SAME_DTYPE_WRITES, policy
from amplint.knowledge.dtypes import SIGNED_INTEGERS

from .._shared.classes import constructor_around
from .._shared.dtypes import differ
from .._shared.guards import is_caught
from .._shared.parameters import holds_unannotated
from .._shared.tensors import is_surely_tensor
from ._operands import dtype_evidence, may_default_to_half

METHODS = frozenset({*SAME_DTYPE_WRITES, *(f"{name}_" for name in SAME_DTYPE_WRITES)})

RAISES = "the dtypes are known to differ: the line can only raise"
TENSOR = "the source is a tensor for every caller"
BUFFER = "the destination is a tensor for every caller"
UNCAUGHT = "nothing around it catches the error"


SOURCE_NAMES = ("source", "src", "values", "end")

rule = Rule(
    "AMP204",
    __doc__,
    group=Group.CORRECTNESS,
    help="cast the source with `.to(buffer.dtype)`, or build the buffer in the dtype of the source",
    witness=Raises("source and destination dtypes match", on_gpu="expected scalar type"),
    safe_if=(RAISES, TENSOR, BUFFER, UNCAUGHT),
    supersedes=("AMP201",),
    presumes=Presumes.AUDITED,
)


@rule.on(nodes("put") & WITH_HALF)
def check_assignment(at: View) -> Iterator[Finding]:
    """Ex) buffer[index] = source"""
    buffer, index, value = at.operands
    has_dimensions = value.tensor is not None and value.tensor.rank == 1
    source = at.assigned if is_advanced(index, has_dimensions) else None
    if source is not None:
        yield from report(buffer, source)


@rule.on(calls(*(f".{name}" for name in METHODS)) & WITH_HALF)
def check_call(call: View) -> Iterator[Finding]:
    """Ex) buffer.index_add_(0, index, source), torch.scatter(buffer, 0, index, source)"""
    buffer, source = write_of(call)
    if buffer is not None and source is not None and not may_promote(call):
        yield from report(buffer, source)


def report(buffer: View, source: View) -> Iterator[Finding]:
    to, what = buffer.tensor, source.tensor
    if to is None or what is None or not differ(to.dtype, what.dtype):
        return
    if may_default_to_half(buffer) or may_be_converted(buffer, to):
        return
    message = f"{what.dtype} is written into `{buffer.brief}`, which is {to.dtype}: RuntimeError"
    yield source.finding(message, dtype_evidence(to, what), cast(buffer, to, source))


def write_of(call: View) -> tuple[View | None, View | None]:
    """The destination and the source of a call that writes without a cast."""
    name = call.method
    buffer, position = call.receiver, SAME_DTYPE_WRITES[name.removesuffix("_")]
    if call.callee == f"torch.{name}":
        buffer, position = call.arg("input", 0), position + 1
    source = call.arg(SOURCE_NAMES[0], position)
    for keyword in SOURCE_NAMES[1:]:
        source = source or call.arg(keyword)
    return buffer, source


def may_promote(call: View) -> bool:
    """Whether a region, here or around an unseen caller, brings the operands to one dtype; of
    `lerp`, nobody says."""
    name, region = call.method, call.region
    if name.endswith("_"):
        return False
    if name == "lerp":
        return True
    if region is not None and region.enabled is False:
        return False
    devices = ("cuda", "cpu") if region is None or region.device is None else (region.device,)
    return any(policy(f"Tensor.{name}", device) == "promote" for device in devices)


def is_advanced(index: View, dimensioned: bool) -> bool:
    """Whether a write goes through a tensor, a list or a mask, which does not cast.

    Integer indices raise whatever the source is, masks where it has dimensions.
    """
    if index.op == "tuple":
        return any(is_advanced(each, dimensioned) for each in index.operands)
    if index.origin.op == "list":  # of numbers, it is a list of places
        places = [only(each.value) for each in index.origin.operands]
        return bool(places) and all(isinstance(a, Host) and a.kind == "int" for a in places)
    atom = only(index.value)
    if isinstance(atom, Sequence) and atom.items is None:
        atom = only(atom.element)  # torch.where(mask), mask.nonzero(as_tuple=True)
    if isinstance(atom, TensorTree):
        # An input, or a comparison with one. Of a nest, no tensor could be asked for it.
        return dimensioned and index.source.mode is not None
    if not isinstance(atom, Tensor) or (atom.rank != 1 and atom.dtype != "bool"):
        return False
    return dimensioned or atom.dtype in SIGNED_INTEGERS


def may_be_converted(buffer: View, tensor: Tensor) -> bool:
    """Whether the buffer may have become half with its module, which no value shows.

    In a region, modules are in float32; elsewhere, and where a region is presumed, only what this
    function itself has made is sure, and what has the dtype of an input that is assumed.
    """
    evidence = evidence_of(tensor.dtype_evidence)
    if evidence is not None and evidence.kind is Shows.ACTIVATION:
        return False
    region = buffer.enabled_region
    if region is not None and not region.presumed:
        return False
    return not is_decided_within(tensor, buffer)


def is_surely_written_to(buffer: View, tensor: Tensor) -> bool:
    """Whether the destination is a tensor for every caller, and not an array or a dict.

    After a first write, a variable no longer holds just what was assigned to it.
    """
    made_here = is_decided_within(tensor, buffer) and not holds_unannotated(buffer)
    return made_here or is_registered(buffer) or is_surely_tensor(buffer)


def cast(buffer: View, to: Tensor, source: View) -> Fix | None:
    """Ex) rows -> rows.to(buffer.dtype)"""
    if not isinstance(buffer.cst, cst.Name | cst.Attribute):
        return None
    edit = source.source.edits.append_call(source.cst, f"to({buffer.text}.dtype)")
    conditions = {
        RAISES: True,
        TENSOR: is_surely_tensor(source),
        BUFFER: is_surely_written_to(buffer, to),
        UNCAUGHT: not is_caught(source),
    }
    return Fix.safe_if(f"Cast the source to the dtype of `{buffer.brief}`", (edit,), conditions)


def is_decided_within(tensor: Tensor, at: View) -> bool:
    """Whether what decides a tensor's dtype stands in the function around.

    What callers pass may have another dtype in calls that nobody sees, or be no tensor.
    """
    evidence, src = evidence_of(tensor.dtype_evidence), at.source
    function = src.function(at.cst)
    if evidence is None or evidence.place.path != src.path or function is None:
        return False
    span = src.span(function.body)
    return span.start.row <= evidence.place.row <= span.end.row


def is_registered(at: View) -> bool:
    """Whether it is an attribute that the constructor of the class around registers as a buffer."""
    return at.op == "attr" and any(
        isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr == "register_buffer"
        and any(isinstance(arg, ast.Constant) and arg.value == at.method for arg in each.args)
        for statement in constructor_around(at)
        for each in ast.walk(statement)
    )
