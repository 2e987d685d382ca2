"""Whether an expression is a tensor, or a part of one, for every caller of its function.

A value rests on the calls that are seen; a fix that is safe must hold for those that are not, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from amplint import READ, NoGrad, Object, View, only, reachable
from amplint import libcst as cst
from amplint.knowledge.factories import FACTORIES
from amplint.knowledge.modules import MODULES
from amplint.knowledge.operations import RESULTS

from .local_values import is_local
from .parameters import holds_unannotated

if TYPE_CHECKING:
    pass

# Of what has one of these methods, torch can build a tensor only if it is one.
TENSOR_METHODS = frozenset(
    """
    backward bfloat16 clone contiguous cpu cuda detach double expand expand_as float half
    index_select log_softmax long masked_fill masked_select new_empty new_full new_ones new_tensor
    new_zeros permute scatter sigmoid softmax to type_as unsqueeze view_as
    """.split()
)


# Ex) class Boxes(torch.Tensor):, x.as_subclass(Boxes), DTensor, torchvision.tv_tensors
# What stands in square brackets is no base: class Crop(Transform[torch.Tensor]):
OWN_CLASS = (
    r"^\s*class \w+\((?:[^\[\n]|\[[^\]\n]*\])*\bTensor\b"
    r"|\bas_subclass\(|\bDTensor\b|distribute_tensor|tv_tensors"
)


def has_own_classes(at: View) -> bool:
    """Whether the project has tensors of a class of their own, which results may take over."""
    return at.matches(OWN_CLASS, "Tensor", "as_subclass", "distribute_tensor", "tv_tensors")


# Ex) x.to_sparse(), torch.sparse_coo_tensor(i, v), x.to_mkldnn()
LAYOUTS = r"\b(to_sparse|sparse_\w+_tensor|sparse_tensor|to_mkldnn)"
NESTED = r"\bnested_tensor"


def has_other_layouts(at: View) -> bool:
    """Whether the project has tensors that are not strided: sparse ones, nested ones."""
    return at.matches(f"{LAYOUTS}|{NESTED}", "sparse", "mkldnn", "nested_tensor")


def is_surely_tensor(at: View, *, annotated: bool = True, called: bool = False) -> bool:
    """Whether the expression is a tensor, or the line raises.

    Args:
        annotated: whether the annotation of a parameter is believed, as it is of what is used as a
            tensor. Of what `torch.tensor` is given, it is a habit: lists are as welcome there.
        called: whether any call counts that returns one, but of a method of a parameter, which may
            be a number on another path.
    """
    if at.tensor is None or (not annotated and at.origin.op == "param"):
        return False
    return any(
        _is_of_torch(part) or (called and part.op == "call" and not _is_of_parameter(part))
        for part in reachable([at], _operands_of_tensor)
    )


def _is_of_parameter(call: View) -> bool:
    return any(map(holds_unannotated, _operands_of_tensor(call)))


def _operands_of_tensor(at: View) -> Sequence[View]:
    """The operands each of which makes an expression a tensor by being one."""
    if at.op == READ:
        return () if at.is_joined else (at.origin,)
    if at.op == "call":
        is_method = at.receiver is not None and at.operands[0].name is None
        return (at.receiver,) if is_method and at.receiver is not None else ()
    if at.op in ("attr", "subscript"):
        return at.operands[:1]
    return at.operands if at.op in ("binop", "unary") else ()


def _is_of_torch(at: View) -> bool:
    """Whether torch computes the expression, of whatever the callers pass."""
    if at.op == "call":
        function, name = at.operands[0], at.operands[0].name
        if name is not None:
            is_of_tables = name in FACTORIES or name in RESULTS
            return is_of_tables and is_local(function)
        return _is_torch_module(function) or at.method in TENSOR_METHODS
    if at.op == "param":  # what it is annotated with
        return any(each.name == "torch.Tensor" for each in at.operands)
    return at.op == "attr" and _is_torch_module(at.operands[0])


def _is_torch_module(at: View) -> bool:
    """Ex) self.proj, which is an nn.Linear"""
    thing = only(at.value)
    is_module = isinstance(thing, Object) and thing.type in MODULES
    return is_module and not holds_unannotated(at)


def is_under_no_grad(at: View) -> bool:
    """Whether it stands in a `with torch.no_grad()`."""
    return any(
        isinstance(atom, NoGrad)
        for around in at.source.ancestors(at.cst)
        if isinstance(around, cst.With)
        for item in around.items
        for atom in at.of(item.item).value
    )
