"""The tensor that one that is built by itself meets, and whose dtype it should have."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amplint import FLOATS, HALF, Tensor, View, reachable
from amplint import libcst as cst
from amplint.knowledge.casts import SAME_DTYPE_WRITES
from amplint.knowledge.operations import SHAPE_METHODS

from .classes import AUTOGRAD_FUNCTION, method_beside
from .constants import number_of
from .dtypes import SAME_DTYPE, is_called_on, taken_by
from .growth import growth_of
from .local_values import definition, is_dotted, shaped, variables

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
# What in-place methods write: the position of the argument.
COPIES = frozenset({"index_copy", "index_put", "masked_scatter", "put", "scatter"})
WRITTEN = {
    "copy_": 0,
    "fill_": 0,
    "index_fill_": 2,
    "masked_fill_": 1,
    **{f"{name}_": SAME_DTYPE_WRITES[name] for name in COPIES},
}
# In-place methods that write zeros and ones alone, or nothing.
WRITE_BITS = frozenset(
    {"bernoulli_", "requires_grad_", "tril_", "triu_", "zero_", *(f"{e}_" for e in SHAPE_METHODS)}
)


@dataclass(frozen=True)
class MetTensor:
    """A tensor that a new one meets.

    Args:
        tensor: an expression for it, where the new one is built.
        place: where they meet, or where the new one takes its size.
        gives_size: whether that is all.
        is_float: whether it surely is of floats; else nobody knows, and it may be of indices.
        dtype: its dtype, as far as that is known.
    """

    tensor: View
    place: cst.CSTNode
    gives_size: bool
    is_float: bool
    dtype: str | None


def tensor_met(made: View, result: View) -> MetTensor | None:
    """The tensor of floats that a new tensor meets, which has a name where that is built; one that
    may be of floats, if there is no other.

    None for a tensor that is added to: a sum is to be no narrower than float32, whatever is summed.

    Args:
        made: the call that builds the new tensor.
        result: what is read of it, behind methods that fill or move it.
    """
    if _is_added_to(result):
        return None
    found = [
        MetTensor(tensor, place, isinstance(place, cst.Arg), is_float(tensor), _dtype_of(tensor))
        for other, place in (*_operands_met(result), *_sizes_of(made))
        if (tensor := _named_before(other, made)) is not None
    ]
    met = [each for each in found if each.is_float or each.dtype is None]
    return next((each for each in met if each.is_float), met[0] if met else None)


def buffers(made: View) -> Iterable[View]:
    """The operations whose value is the buffer: the one that makes it, in-place methods, shapes and
    slice assignments."""
    return reachable([made], lambda at: (each for each in taken_by(at) if _leaves_buffer(each, at)))


def half_holds(made: View) -> bool:
    """Whether half holds all that the function writes into a tensor: half data, and numbers that
    float16 and bfloat16 alike have. What nothing is known of may be float32."""
    return all(map(_is_held, written_into(made)))


def written_into(made: View) -> Iterator[View | None]:
    """All that the function writes into a tensor, its fill value included; None for the unknown.

    Ex) y of `made[0] = y` and `made[:2].copy_(y)`; None of `made.normal_()`
    """
    if made.callee == "torch.full":
        yield made.arg("fill_value", 1)
    for part in reachable([made], lambda at: (e for e in taken_by(at) if _shares_memory(e, at))):
        yield from _written_by(part)


def _shares_memory(at: View, buffer: View) -> bool:
    """Ex) buffer[0], and what leaves it the buffer"""
    is_part = at.op == "subscript" and at.operands[0].is_same(buffer)
    return is_part or _leaves_buffer(at, buffer)


def _written_by(at: View) -> Iterable[View | None]:
    """Ex) y of `made[0] = y` and made.copy_(y)"""
    if at.op == "put":
        return (at.assigned,)
    if at.op != "call" or not at.method.endswith("_") or at.method in WRITE_BITS:
        return ()
    position = WRITTEN.get(at.method)
    return (at.arg("value", position) if position is not None else None,)


def _is_held(value: View | None) -> bool:
    if value is None:
        return False
    if value.tensor is not None:
        return value.tensor.dtype in HALF
    number = number_of(value)
    return number is not None and is_exact_in_half(number)


def is_exact_in_half(number: float) -> bool:
    """Whether float16 and bfloat16 both have the number: infinite, or of eight binary digits within
    the normal numbers of float16 (2**-14 to 65504).

    Source: IEEE 754 binary16; bfloat16 has eight digits of precision.
    """
    if not math.isfinite(number) or number == 0:
        return True
    digits, exponent = math.frexp(abs(number))
    return (digits * 2**8).is_integer() and -13 <= exponent <= 16


def _leaves_buffer(at: View, buffer: View) -> bool:
    """Ex) buffer.normal_(), buffer.unsqueeze(0), torch.triu(buffer), buffer[:n] = x"""
    if is_called_on(buffer, at):
        return at.method.endswith("_") or at.method in SHAPE_METHODS
    if at.op == "put":
        return at.operands[0].is_same(buffer)
    return at.callee in SHAPE_FUNCTIONS


def _operands_met(result: View) -> Sequence[tuple[View, cst.CSTNode]]:
    """The expressions beside the new tensor in operations, and these, in the order of the text."""
    found = [
        (other, taker)
        for buffer in buffers(result)
        for use in reachable([buffer], _same_tensors)
        for taker in taken_by(use)
        for other in _beside(taker)
        if not other.is_same(use)
    ]
    return [(other, taker.cst) for other, taker in sorted(found, key=lambda pair: pair[1].span)]


def _same_tensors(at: View) -> Iterator[View]:
    """Ex) x.data, for x"""
    return (each for each in at.uses if each.op == "attr" and each.method in SAME_TENSOR)


def _beside(taker: View) -> Iterable[View]:
    """The operands of an operation, the new tensor included.

    Ex) x of `new + x`, `new > x`, torch.cat([new, x]), f(x, new), x[i] = new, new[i] = x
    """
    if taker.op in ("binop", "compare"):
        return taker.operands
    if taker.op == "put":
        value = taker.assigned
        return taker.operands[:1] if value is None else (taker.operands[0], value)
    if taker.op != "call":
        return ()
    given = [argument for _, _, argument in taker.arguments]
    if taker.callee in JOINS and given and given[0].op in ("list", "tuple"):
        return given[0].operands
    is_method = taker.called.name is None and taker.receiver is not None
    return [*([taker.receiver] if is_method and taker.receiver is not None else []), *given]


def _is_added_to(result: View) -> bool:
    """Whether the function adds to the new tensor, or to a part of it, at any time.

    Ex) t += x, t[i] += x, t.add_(x), t = t + x
    """
    src = result.source
    made = [each.cst for each in buffers(result) if each.op != "put"]
    reads = (read for each in made for read in (each, *src.variables.uses(each)))
    names = {src.assigned_name(read) for read in reads} - {None}
    function = src.function(result.cst)
    if function is None:
        return bool(names)  # other functions may
    nodes: Iterable[cst.CSTNode] = reachable([function.body], lambda node: node.children)
    return any(_root(target) in names for node in nodes for target in _added_to(node, src))


def _added_to(node: cst.CSTNode, src: Source) -> Iterator[cst.BaseExpression]:
    growth = growth_of(node, src)
    if growth is not None:
        yield growth.variable
    method = node.func if isinstance(node, cst.Call) else None
    if isinstance(method, cst.Attribute) and method.attr.value in ADDING:
        yield method.value


def _root(node: cst.BaseExpression) -> str | None:
    """Ex) x of x[0].data"""
    while isinstance(node, cst.Subscript | cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else None


def _sizes_of(made: View) -> Iterator[tuple[View, cst.CSTNode]]:
    """The tensors whose sizes a call is given: x of f(x.size(0)), f(*x.shape), and of f(n) after
    `n, m = x.shape`."""
    for arg in made.cst.args:
        yield from ((each, arg) for each in _sized_by(made.of(arg.value)))


def _sized_by(given: View) -> Iterator[View]:
    """The tensors whose shapes a size is taken from."""
    source = given.source

    def behind(part: cst.BaseExpression) -> Iterable[cst.BaseExpression]:
        held = definition(part, source)
        whole = source.variables.unpacked(part) if isinstance(part, cst.Name) else None
        one = part.value if isinstance(part, cst.Subscript) else None
        return [each for each in (held, whole, one) if each is not None]

    for part in map(given.of, reachable([given.cst, *variables(given.cst)], behind)):
        # Ex) x of x.size(0)
        tensor = part.receiver if part.op == "call" and part.method == "size" else shaped(part)
        if tensor is not None:
            yield tensor


def _named_before(at: View, made: View) -> View | None:
    """A name for a tensor of the same dtype, which it has where another tensor is built already.

    Ex) x, for y.contiguous() after `y = x.data[0]`
    """
    src = at.source
    parts = reachable([at.cst], lambda part: _same_dtype(part, src))
    named = (part for part in parts if _is_plain(part) and src.variables.same_at(part, made.cst))
    return next((tensor for part in named if _is_tensor(tensor := at.of(part))), None)


def _same_dtype(part: cst.BaseExpression, src: Source) -> Iterable[cst.BaseExpression]:
    """The expression that another one takes its dtype from, in one step."""
    made = definition(part, src)
    if made is not None:
        return (made,)
    if isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute):
        return (part.func.value,) if part.func.attr.value in SAME_DTYPE else ()
    if isinstance(part, cst.Attribute) and part.attr.value in SAME_TENSOR:
        return (part.value,)
    return (part.value,) if isinstance(part, cst.Subscript) else ()


def _is_plain(node: cst.BaseExpression) -> bool:
    """Ex) x, self.weight; not x.data, which is x"""
    if isinstance(node, cst.Attribute) and node.attr.value in SAME_TENSOR:
        return False
    return is_dotted(node)


def _is_tensor(at: View) -> bool:
    return at.tensor is not None or _is_differentiated(at)


def _dtype_of(at: View) -> str | None:
    return at.tensor.dtype if at.tensor is not None else None


def is_float(at: View) -> bool:
    """Whether a tensor is of floats: by its dtype, or since it has gradients, or is one."""
    parts = reachable([at.cst], lambda part: _same_dtype(part, at.source))
    return any(_of_floats(each.tensor) or _is_differentiated(each) for each in map(at.of, parts))


def _of_floats(tensor: Tensor | None) -> bool:
    return tensor is not None and (tensor.dtype in FLOATS or tensor.grad is True)


def _is_differentiated(at: View) -> bool:
    """Whether it is a parameter of a Function's `forward` for which its `backward` returns a
    gradient, or one of `backward`, which are gradients."""
    src, function = at.source, at.source.function(at.cst)
    param = src.variables.parameter(at.cst) if isinstance(at.cst, cst.Name) else None
    if param is None or not isinstance(function, cst.FunctionDef):
        return False
    index = next((i for i, each in enumerate(function.params.params) if each is param), 0)
    if index == 0 or AUTOGRAD_FUNCTION not in at.bases:
        return False
    if function.name.value == "backward":
        return True
    backward = method_beside(at, "backward")
    return (
        function.name.value == "forward"
        and backward is not None
        and _has_gradient(backward, index - 1)
    )


def _has_gradient(backward: ast.FunctionDef, index: int) -> bool:
    """Whether a `backward` returns something else than None for an input, wherever it returns."""
    returned = [each.value for each in ast.walk(backward) if isinstance(each, ast.Return)]
    given = [each.elts if isinstance(each, ast.Tuple) else [each] for each in returned]
    return bool(given) and all(index < len(each) and not _is_none(each[index]) for each in given)


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)
