"""The tensor that one that is built by itself meets, and whose dtype it should have."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amplint import FLOATS, Tensor, View, reachable
from amplint import libcst as cst
from amplint.knowledge.operations import SHAPE_METHODS

from .classes import AUTOGRAD_FUNCTION, bases_around, method_beside
from .dtypes import SAME_DTYPE, is_called_on, taken_by
from .growth import growth_of
from .local_values import definition, method_of, shaped, variables

if TYPE_CHECKING:
    from amplint import Source

SHAPE_FUNCTIONS = frozenset({"torch.triu", "torch.tril"})
JOINS = frozenset(
    {
        "torch.cat",
        "torch.concat",
        "torch.concatenate",
        "torch.stack",
        "torch.hstack",
        "torch.vstack",
    }
)
SAME_TENSOR = frozenset({"data", "T", "mT"})
ADDING = frozenset({"index_add_", "scatter_add_", "addcmul_", "addcdiv_", "index_put_"})


@dataclass(frozen=True)
class Met:
    """A tensor that a new one meets.

    Args:
        tensor: an expression for it, where the new one is built.
        place: where they meet, or where it gives the new one its size.
        gives_size: whether that is all.
        is_float: whether it surely is of floats; else nobody knows, and it may be of indices.
        dtype: its dtype, as far as that is known.
    """

    tensor: cst.BaseExpression
    place: cst.CSTNode
    gives_size: bool
    is_float: bool
    dtype: str | None


def tensor_met(made: cst.Call, result: cst.BaseExpression, src: Source) -> Met | None:
    """The tensor of floats that a new tensor meets, which has a name where that is built; one that
    may be of floats, if there is no other.

    None for a tensor that is added to: a sum is to be no narrower than float32, whatever is summed.

    Args:
        made: the call that builds the new tensor.
        result: what is read of it, behind methods that fill or move it.
    """
    if is_added_to(result, src):
        return None
    found = [
        Met(tensor, place, isinstance(place, cst.Arg), is_float(tensor, src), dtype_of(tensor, src))
        for other, place in (*operands_met(result, src), *sizes_of(made, src))
        if (tensor := named_before(other, made, src)) is not None
    ]
    met = [each for each in found if each.is_float or each.dtype is None]
    return next((each for each in met if each.is_float), met[0] if met else None)


def readings(made: cst.BaseExpression, src: Source, depth: int = 4) -> Iterator[cst.BaseExpression]:
    """The expressions that are the buffer: where it is made, where it is read, and what in-place
    methods, shapes and slice assignments leave of it."""
    for use in (made, *src.uses(made)):
        yield use
        kept = still_the_buffer(use, src) if depth else None
        if kept is not None:
            yield from readings(kept, src, depth - 1)


def buffers(made: View) -> Iterator[View]:
    """What is the buffer: where it is made, and what in-place methods, shapes and slice assignments
    leave of it."""
    yield made
    for taker in taken_by(made):
        if leaves_buffer(taker, made):
            yield from buffers(taker)


def leaves_buffer(at: View, buffer: View) -> bool:
    """Ex) buffer.normal_(), buffer.unsqueeze(0), torch.triu(buffer), buffer[:n] = x"""
    if is_called_on(buffer, at):
        return at.method.endswith("_") or at.method in SHAPE_METHODS
    if at.op == "put":
        return at.operands[0].is_same(buffer)
    return at.callee in SHAPE_FUNCTIONS


def still_the_buffer(use: cst.BaseExpression, src: Source) -> cst.BaseExpression | None:
    """Ex) buffer.normal_(), buffer.unsqueeze(0), torch.triu(buffer), buffer[:n] = x"""
    parent = src.parent(use)
    if isinstance(parent, cst.Attribute) and parent.value is use:
        call = src.parent(parent)
        name = parent.attr.value
        if isinstance(call, cst.Call) and call.func is parent:
            return call if name.endswith("_") or name in SHAPE_METHODS else None
    if isinstance(parent, cst.Arg):
        call = src.parent(parent)
        if isinstance(call, cst.Call) and src.name(call.func) in SHAPE_FUNCTIONS:
            return call
    if isinstance(parent, cst.Subscript) and parent.value is use:
        target = src.parent(parent)
        return parent if isinstance(target, cst.AssignTarget) else None
    return None


def operands_met(
    result: cst.BaseExpression, src: Source
) -> Iterator[tuple[cst.BaseExpression, cst.CSTNode]]:
    """The expressions beside the new tensor in operations, and these."""
    for reading in readings(result, src):
        for use in reachable([reading], lambda part: same_tensor(part, src)):
            yield from (pair for pair in beside(use, src.parent(use), src) if pair[0] is not use)


def same_tensor(part: cst.BaseExpression, src: Source) -> Iterable[cst.BaseExpression]:
    """Ex) x.data, for x"""
    parent = src.parent(part)
    if not isinstance(parent, cst.Attribute) or parent.value is not part:
        return ()
    return (parent,) if parent.attr.value in SAME_TENSOR else ()


def is_added_to(result: cst.BaseExpression, src: Source) -> bool:
    """Whether the function adds to the new tensor, or to a part of it, at any time.

    Ex) t += x, t[i] += x, t.add_(x), t = t + x
    """
    names = {src.assigned_name(each) for each in readings(result, src)} - {None}
    function = src.function(result)
    if function is None:
        return bool(names)  # other functions may
    nodes: Iterable[cst.CSTNode] = reachable([function.body], lambda node: node.children)
    return any(root(target) in names for node in nodes for target in added_to(node, src))


def added_to(node: cst.CSTNode, src: Source) -> Iterator[cst.BaseExpression]:
    growth = growth_of(node, src)
    if growth is not None:
        yield growth.variable
    if isinstance(node, cst.Call) and method_of(node) in ADDING:
        assert isinstance(node.func, cst.Attribute)
        yield node.func.value


def root(node: cst.BaseExpression) -> str | None:
    """Ex) x of x[0].data"""
    while isinstance(node, cst.Subscript | cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else None


def beside(
    use: cst.BaseExpression, parent: cst.CSTNode | None, src: Source
) -> Iterator[tuple[cst.BaseExpression, cst.CSTNode]]:
    """Ex) x of `use + x`, `use > x`, torch.cat([use, x]), f(x, use), x[i] = use, use[i] = x"""
    if isinstance(parent, cst.BinaryOperation):
        yield from ((other, parent) for other in (parent.left, parent.right))
    elif isinstance(parent, cst.Comparison | cst.ComparisonTarget):
        whole = src.parent(parent) if isinstance(parent, cst.ComparisonTarget) else parent
        if isinstance(whole, cst.Comparison):
            yield whole.left, whole
            yield from ((each.comparator, whole) for each in whole.comparisons)
    elif isinstance(parent, cst.Element):
        container = src.parent(parent)
        call = src.parent(src.parent(container))
        joined = isinstance(call, cst.Call) and src.name(call.func) in JOINS
        if joined and isinstance(container, cst.List | cst.Tuple) and call is not None:
            yield from ((each.value, call) for each in container.elements)
    elif isinstance(parent, cst.Arg):
        call = src.parent(parent)
        if isinstance(call, cst.Call):
            if src.name(call.func) is None and isinstance(call.func, cst.Attribute):
                yield call.func.value, call
            yield from ((arg.value, call) for arg in call.args)
    elif isinstance(parent, cst.Attribute) and parent.value is use:
        call = src.parent(parent)
        if isinstance(call, cst.Call) and call.func is parent:
            yield from ((arg.value, call) for arg in call.args)
    elif isinstance(parent, cst.AssignTarget) and isinstance(use, cst.Subscript):
        statement = src.parent(parent)
        if isinstance(statement, cst.Assign):
            yield statement.value, statement
    elif isinstance(parent, cst.Assign):
        for target in parent.targets:
            if isinstance(target.target, cst.Subscript):
                yield target.target.value, parent


def sizes_of(made: cst.Call, src: Source) -> Iterator[tuple[cst.BaseExpression, cst.CSTNode]]:
    """The tensors whose sizes a call is given: x of f(x.size(0)), f(*x.shape), and of f(n) after
    `n, m = x.shape`."""
    for arg in made.args:
        yield from ((each, arg) for each in sized_by(arg.value, src))


def sized_by(given: cst.BaseExpression, src: Source) -> Iterator[cst.BaseExpression]:
    """The tensors whose shapes a size is taken from."""

    def behind(part: cst.BaseExpression) -> Iterable[cst.BaseExpression]:
        held = definition(part, src)
        whole = src.variables.unpacked(part) if isinstance(part, cst.Name) else None
        one = part.value if isinstance(part, cst.Subscript) else None
        return [each for each in (held, whole, one) if each is not None]

    for part in reachable([given, *variables(given)], behind):
        tensor = sized(part) or shaped(part, src)
        if tensor is not None:
            yield tensor


def sized(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Ex) x of x.size(0)"""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    return node.func.value if node.func.attr.value == "size" else None


def named_before(
    node: cst.BaseExpression, made: cst.Call, src: Source
) -> cst.BaseExpression | None:
    """A name for a tensor of the same dtype, which it has where another tensor is built already.

    Ex) x, for y.contiguous() after `y = x.data[0]`
    """
    return next(
        (
            part
            for part in reachable([node], lambda part: same_dtype(part, src))
            if is_plain(part) and is_tensor(part, src) and src.variables.same_at(part, made)
        ),
        None,
    )


def same_dtype(part: cst.BaseExpression, src: Source) -> Iterable[cst.BaseExpression]:
    """The expression that gives another one its dtype, in one step."""
    made = definition(part, src)
    if made is not None:
        return (made,)
    if isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute):
        return (part.func.value,) if part.func.attr.value in SAME_DTYPE else ()
    if isinstance(part, cst.Attribute) and part.attr.value in SAME_TENSOR:
        return (part.value,)
    return (part.value,) if isinstance(part, cst.Subscript) else ()


def is_plain(node: cst.BaseExpression) -> bool:
    """Ex) x, self.weight; not x.data, which is x"""
    if isinstance(node, cst.Attribute) and node.attr.value in SAME_TENSOR:
        return False
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)


def is_tensor(node: cst.BaseExpression, src: Source) -> bool:
    return src.tensor(node) is not None or is_differentiated(node, src)


def dtype_of(node: cst.BaseExpression, src: Source) -> str | None:
    tensor = src.tensor(node)
    return tensor.dtype if tensor is not None else None


def is_float(node: cst.BaseExpression, src: Source) -> bool:
    """Whether a tensor is of floats: by its dtype, or since it has gradients, or is one."""
    return any(
        of_floats(src.tensor(part)) or is_differentiated(part, src)
        for part in reachable([node], lambda part: same_dtype(part, src))
    )


def of_floats(tensor: Tensor | None) -> bool:
    return tensor is not None and (tensor.dtype in FLOATS or tensor.grad is True)


def is_differentiated(node: cst.BaseExpression, src: Source) -> bool:
    """Whether it is a parameter of a Function's `forward` for which its `backward` returns a
    gradient, or one of `backward`, which are gradients."""
    function = src.function(node)
    param = src.parameter(node) if isinstance(node, cst.Name) else None
    if param is None or not isinstance(function, cst.FunctionDef):
        return False
    index = next((i for i, each in enumerate(function.params.params) if each is param), 0)
    if index == 0 or AUTOGRAD_FUNCTION not in bases_around(function, src):
        return False
    if function.name.value == "backward":
        return True
    backward = method_beside(function, "backward", src)
    return (
        function.name.value == "forward"
        and backward is not None
        and has_gradient(backward, index - 1)
    )


def has_gradient(backward: ast.FunctionDef, index: int) -> bool:
    """Whether a `backward` returns something else than None for an input, wherever it returns."""
    returned = [each.value for each in ast.walk(backward) if isinstance(each, ast.Return)]
    given = [each.elts if isinstance(each, ast.Tuple) else [each] for each in returned]
    return bool(given) and all(index < len(each) and not is_none(each[index]) for each in given)


def is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)
