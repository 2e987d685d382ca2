"""A custom `autograd.Function` runs in an autocast region without `custom_fwd` and `custom_bwd`.

Its `forward` is cast like everything in the region: what it returns is half, and so is the gradient
that its `backward` is given. What `forward` has saved is not cast, and `backward` runs outside of
the region. There a product of the two raises "expected m1 and m2 to have the same dtype".

    class MatMul(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight                                    # half

        @staticmethod
        def backward(ctx, grad):
            x, weight = ctx.saved_tensors
            return grad @ weight.t(), x.t() @ grad               # half with float32

Decorated with `torch.amp.custom_fwd(device_type="cuda")` and
`torch.amp.custom_bwd(device_type="cuda")`, both run in the state that `forward` was called in. (A
backward pass inside of the region runs as well, but see AMP301.)

Fix safety: there is no fix: with `cast_inputs=` the function runs in float32, without it in half.

Known limits: only products of a gradient with what `save_for_backward` was given as it came are
seen. Functions that cast anything themselves are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import WITHIN_REGION, Finding, Group, Raises, Rule, calls
from amplint import libcst as cst

from .._shared.classes import AUTOGRAD_FUNCTION, bases_around, method_beside

if TYPE_CHECKING:
    from amplint import Source

PRODUCTS = frozenset({"matmul", "mm", "bmm"})
# What keeps the dtype of a tensor, and is in no list of autocast.
TURNING = frozenset({"t", "transpose", "T", "mT", "contiguous", "view", "reshape", "permute"})
CASTING = re.compile(r"autocast|dtype|type_as|\.(to|float|half|bfloat16)\(")


rule = Rule(
    "AMP309",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="decorate `forward` by `torch.amp.custom_fwd`, `backward` by `torch.amp.custom_bwd`",
    witness=Raises("same dtype", backward=True),
    presumes=True,
    candidates=calls(".save_for_backward") & WITHIN_REGION,
)


@rule.check
def check(forward: cst.FunctionDef, src: Source) -> Iterator[Finding]:
    if forward.name.value != "forward" or AUTOGRAD_FUNCTION not in bases_around(forward, src):
        return
    written = method_beside(forward, "backward", src)
    backward = src.layout.node_for(written) if written is not None else None
    product = next(products(forward), None)
    if (
        not isinstance(backward, cst.FunctionDef)
        or product is None
        or casts(forward, src)
        or casts(backward, src)
    ):
        return
    region = src.region(product[0])
    if region is None or region.enabled is not True:
        return
    clash = clashing(backward, saved_inputs(forward, src), src)
    if clash is None:
        return
    message = "`backward` runs outside of the region of this, and raises: half meets float32"
    related = (src.related_node(clash, "half with float32"), *src.reasons(region.evidence))
    yield src.finding(rule, forward.name, message, related=related)


def casts(method: cst.FunctionDef, src: Source) -> bool:
    """Whether a method takes care of the dtypes, or of the region, itself."""
    decorators = {src.text(each.decorator) for each in method.decorators}
    return decorators != {"staticmethod"} or CASTING.search(src.text(method.body)) is not None


def saved_inputs(forward: cst.FunctionDef, src: Source) -> tuple[cst.BaseExpression, ...]:
    """The arguments of `save_for_backward`, in order."""
    for call in src.calls(forward.body):
        function = call.func
        if isinstance(function, cst.Attribute) and function.attr.value == "save_for_backward":
            return () if src.has_star(call) else tuple(arg.value for arg in call.args)
    return ()


def is_float32_input(saved: cst.BaseExpression, src: Source) -> bool:
    """Whether it is a parameter of `forward`, and comes as float32."""
    tensor = src.tensor(saved)
    if not isinstance(saved, cst.Name) or tensor is None or src.parameter(saved) is None:
        return False
    return tensor.dtype == "float32" and not src.variables.written_into(saved)


def clashing(
    backward: cst.FunctionDef, saved: tuple[cst.BaseExpression, ...], src: Source
) -> cst.BaseExpression | None:
    """A product of the gradient of the output with an input that is float32."""
    params = [param.name.value for param in backward.params.params]
    wide = {
        name
        for name, given in zip(restored(backward, src), saved, strict=False)
        if is_float32_input(given, src)
    }
    if len(params) != 2:  # of several outputs, not all need be half
        return None
    for whole, left, right in products(backward):
        pair = [base(left), base(right)]
        if params[1] in pair and wide & set(pair):
            return whole
    return None


def restored(backward: cst.FunctionDef, src: Source) -> tuple[str, ...]:
    """Ex) x, weight of `x, weight = ctx.saved_tensors`"""
    stack: list[cst.CSTNode] = [backward.body]
    while stack:
        node = stack.pop()
        if isinstance(node, cst.Assign) and src.text(node.value).endswith(".saved_tensors"):
            target = node.targets[0].target
            if isinstance(target, cst.Tuple | cst.List):
                return tuple(src.text(element.value) for element in target.elements)
        stack.extend(node.children)
    return ()


def products(
    function: cst.FunctionDef,
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression, cst.BaseExpression]]:
    """The matrix products of a function, each with what is multiplied."""
    stack: list[cst.CSTNode] = [function.body]
    while stack:
        node = stack.pop()
        if isinstance(node, cst.BinaryOperation):
            if isinstance(node.operator, cst.MatrixMultiply):
                yield node, node.left, node.right
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            args = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
            if node.func.attr.value in PRODUCTS and len(args) == len(node.args):
                if len(args) == 1:
                    yield node, node.func.value, args[0]
                elif len(args) == 2:
                    yield node, args[0], args[1]
        stack.extend(reversed(node.children))


def base(node: cst.BaseExpression) -> str:
    """Ex) "weight" of weight.t()"""
    while True:
        if isinstance(node, cst.Call):
            node = node.func
        elif isinstance(node, cst.Attribute) and node.attr.value in TURNING:
            node = node.value
        else:
            return node.value if isinstance(node, cst.Name) else ""
