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

from amplint import WITHIN_REGION, Finding, Group, Presumes, Raises, Rule, View, calls
from amplint import libcst as cst

from .._shared.classes import AUTOGRAD_FUNCTION, method_beside

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
    presumes=Presumes.ALWAYS,
)


@rule.on(calls(".save_for_backward") & WITHIN_REGION)
def check(saving: View) -> Iterator[Finding]:
    if saving.function.name != "forward" or AUTOGRAD_FUNCTION not in saving.bases:
        return
    others = (each for each in saving.operations("call") if each.method == "save_for_backward")
    if next(others, saving) != saving:
        return
    src = saving.source
    forward, written = src.function(saving.cst), method_beside(saving, "backward")
    backward = src.layout.node_for(written) if written is not None else None
    if not isinstance(forward, cst.FunctionDef) or not isinstance(backward, cst.FunctionDef):
        return
    product = next(products(forward), None)
    region = saving.of(product[0]).region if product is not None else None
    if region is None or region.enabled is not True or casts(forward, src) or casts(backward, src):
        return
    clash = clashing(backward, saving)
    if clash is not None:
        message = "`backward` runs outside of the region of this, and raises: half meets float32"
        because = (src.related_node(clash, "half with float32"), region.evidence)
        yield saving.finding(message, because, place=forward.name)


def casts(method: cst.FunctionDef, src: Source) -> bool:
    """Whether a method takes care of the dtypes, or of the region, itself."""
    decorators = {src.text(each.decorator) for each in method.decorators}
    return decorators != {"staticmethod"} or CASTING.search(src.text(method.body)) is not None


def is_float32_input(saved: View) -> bool:
    """Whether it is a parameter of `forward`, and comes as float32."""
    tensor, node = saved.tensor, saved.cst
    if tensor is None or tensor.dtype != "float32" or not isinstance(node, cst.Name):
        return False
    variables = saved.source.variables
    return variables.parameter(node) is not None and not variables.written_into(node)


def clashing(backward: cst.FunctionDef, saving: View) -> cst.BaseExpression | None:
    """A product of the gradient of the output with an input that is float32."""
    params = [param.name.value for param in backward.params.params]
    saved = [] if saving.has_star else [argument for _, _, argument in saving.arguments]
    wide = {
        name
        for name, given in zip(restored(backward, saving.source), saved, strict=False)
        if is_float32_input(given)
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
