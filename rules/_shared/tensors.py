"""Whether an expression is a tensor whoever calls the function it stands in.

A value rests on the calls that are seen; a fix that is safe must hold for those that are not, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from amplint import Object, only, reachable
from amplint.knowledge.factories import FACTORIES
from amplint.knowledge.modules import MODULES
from amplint.knowledge.operations import RESULTS

if TYPE_CHECKING:
    from amplint import Source

# Of what has one of these methods, torch can build a tensor only if it is one.
TENSOR_METHODS = frozenset(
    """
    backward bfloat16 clone contiguous cpu cuda detach double expand expand_as float half
    index_select log_softmax long masked_fill masked_select new_empty new_full new_ones new_tensor
    new_zeros permute scatter sigmoid softmax to type_as unsqueeze view_as
    """.split()
)


# Ex) class Boxes(torch.Tensor):, x.as_subclass(Boxes), DTensor, torchvision.tv_tensors
OWN_CLASS = r"^\s*class \w+\(.*\bTensor\b|\bas_subclass\(|\bDTensor\b|distribute_tensor|tv_tensors"


def has_own_classes(src: Source) -> bool:
    """Whether the project has tensors of a class of their own, which results may take over."""
    return src.matches(OWN_CLASS)


def surely_tensor(node: cst.BaseExpression, src: Source, *, annotated: bool = True) -> bool:
    """Whether the expression is a tensor, or the line raises.

    Args:
        annotated: whether the annotation of a parameter is believed, as it is of what is used as a
            tensor. Of what `torch.tensor` is given, it is a habit: lists are as welcome there.
    """
    if not annotated and isinstance(node, cst.Name) and src.parameter(node) is not None:
        return False
    return src.tensor(node) is not None and _comes_from_torch(node, src)


def _comes_from_torch(node: cst.BaseExpression, src: Source) -> bool:
    """Whether torch computes the expression, of whatever the callers pass."""
    parts = reachable([node], lambda part: _deciding(part, src))
    return any(_is_from_torch(part, src) for part in parts)


def _deciding(node: cst.BaseExpression, src: Source) -> Iterator[cst.BaseExpression]:
    """The parts of an expression any one of which makes it a tensor if it is one."""
    if isinstance(node, cst.Call):
        named = src.name(node.func) is not None
        if not named and isinstance(node.func, cst.Attribute):
            yield node.func.value
    elif isinstance(node, cst.Name):
        origin = src.origin(node)
        if origin is not None:
            yield origin
    elif isinstance(node, cst.Attribute | cst.Subscript):
        yield node.value
    elif isinstance(node, cst.BinaryOperation):
        yield from (node.left, node.right)
    elif isinstance(node, cst.UnaryOperation):
        yield node.expression


def _is_from_torch(node: cst.BaseExpression, src: Source) -> bool:
    """Whether an expression is by itself the work of torch, or declared to be a tensor."""
    if isinstance(node, cst.Call):
        name = src.name(node.func)
        if name is not None:
            return name in FACTORIES or name in RESULTS
        method = node.func.attr.value if isinstance(node.func, cst.Attribute) else None
        return method in TENSOR_METHODS or _is_torch_module(node.func, src)
    if isinstance(node, cst.Name):
        return src.origin(node) is None and _is_annotated(node, src)
    return isinstance(node, cst.Attribute) and _is_torch_module(node.value, src)


def _is_torch_module(node: cst.BaseExpression, src: Source) -> bool:
    """Ex) self.proj, which is an nn.Linear"""
    thing = only(src.value(node))
    return isinstance(thing, Object) and thing.type in MODULES


def _is_annotated(name: cst.Name, src: Source) -> bool:
    """Whether the variable is a parameter that is declared to be a tensor."""
    param = src.parameter(name)
    declared = param.annotation if param is not None else None
    return declared is not None and src.name(declared.annotation) == "torch.Tensor"
