"""A custom `autograd.Function` runs in an autocast region without `custom_fwd` and `custom_bwd`.

Its `forward` is cast like everything in the region: it returns half, and so `backward` gets a half
gradient. But the tensors that `forward` saved are not cast, and `backward` runs outside the region.
There a product of the two raises "expected m1 and m2 to have the same dtype".

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
`torch.amp.custom_bwd(device_type="cuda")`, both run in the autocast state that `forward` was called
in. (A backward pass inside the region does not raise either, but see AMP301.)

The inputs of a kernel from an extension are not cast either: in a region it gets half activations
with float32 weights and buffers, and raises, or misreads the memory of one as the other dtype.

    @staticmethod
    def forward(ctx, sigmas):
        image = torch.zeros(sigmas.shape[0], 3, device=sigmas.device)    # float32
        _backend.accumulate(sigmas.contiguous(), image)                  # half and float32

There `custom_fwd` needs `cast_inputs=` with the dtype that the kernel takes, `torch.float32` unless
it is for half alone. Without it, it casts nothing, and the kernel still gets both: a bare
`custom_fwd` is reported like none.

Fix safety: there is no fix: with `cast_inputs=` the function runs in float32, without it in half.

Known limits: seen are products of a gradient with a value that `forward` put unchanged into
`save_for_backward`, a field of `ctx` or a dict of the module, and imported kernels that `forward`
calls directly. Functions that cast anything themselves are not reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    HALF,
    WITHIN_REGION,
    Finding,
    Group,
    Presumes,
    Raises,
    Rule,
    View,
    calls,
    is_unknown,
    nodes,
    reachable,
)
from amplint import libcst as cst
from amplint.knowledge.vocabulary import EXTENSION

from .._shared.classes import is_plain, passes_around

if TYPE_CHECKING:
    from amplint import Source

# What autocast runs in half, and what raises where its operands are of two dtypes.
PRODUCTS = frozenset(
    {"addbmm", "addmm", "baddbmm", "bmm", "linear", "matmul", "mm"}
    | {f"conv{form}{n}d" for form in ("", "_transpose") for n in (1, 2, 3)}
    | {f"conv{n}d_{of}" for of in ("input", "weight") for n in (1, 2, 3)}  # of torch.nn.grad
)
# What keeps the dtype of a tensor, and is in no list of autocast.
TURNING = frozenset({"t", "transpose", "T", "mT", "contiguous", "view", "reshape", "permute"})
# What returns the input of a function in another form.
FORMING = TURNING | {"flatten", "squeeze", "unsqueeze"}
BARE = re.compile(r"\bcustom_(fwd|bwd)\b")
CASTING = re.compile(r"autocast|dtype|type_as|\.(to|float|half|bfloat16)\(")

# Without `cast_inputs`, `custom_fwd` casts nothing: https://docs.pytorch.org/docs/stable/amp.html
KERNEL_HELP = (
    "decorate `forward` with `custom_fwd(..., cast_inputs=torch.float32)`, or the dtype that the "
    "kernel takes, and `backward` with `custom_bwd`"
)

rule = Rule(
    "AMP309",
    __doc__,
    group=Group.CORRECTNESS,
    help="decorate `forward` with `torch.amp.custom_fwd`, `backward` with `torch.amp.custom_bwd`",
    witness=Raises("same dtype", backward=True),
    presumes=Presumes.ALWAYS,
)


@rule.on(calls(".save_for_backward") & WITHIN_REGION)
def check(saving: View) -> Iterator[Finding]:
    methods = passes_around(saving)
    if methods is None:
        return
    others = (each for each in saving.operations("call") if each.method == "save_for_backward")
    if next(others, saving) != saving:
        return
    src = saving.source
    forward, backward = methods
    product = next(products(forward), None)
    region = saving.of(product[0]).region if product is not None else None
    if region is None or region.enabled is not True or any(casts(each, src) for each in methods):
        return
    clash = clashing(backward, saving)
    if clash is not None:
        message = "its `backward` runs outside the autocast region: half meets float32, and raises"
        because = (src.related_node(clash, "half with float32"), region.evidence)
        yield saving.finding(message, because, place=forward.name)


@rule.on(nodes("call") & WITHIN_REGION)
def check_kernel(call: View) -> Iterator[Finding]:
    """Ex) _backend.accumulate(sigmas, image)"""
    methods = passes_around(call)
    if methods is None or not is_foreign(call) or any(map(is_foreign, before(call))):
        return
    region, arguments = call.enabled_region, [argument for _, _, argument in call.arguments]
    wide = next(filter(is_float32, arguments), None)
    if region is None or wide is None or not any(map(may_be_half_input, arguments)):
        return
    src = call.source
    if any(casts(each, src) for each in methods if not is_decorated_bare(each, src)):
        return
    message = f"autocast casts nothing for `{call.called.brief}`, which gets half and float32 mixed"
    because = (wide.related("float32"), region.evidence)
    yield call.finding(message, because, help=KERNEL_HELP, place=methods[0].name)


def is_foreign(call: View) -> bool:
    """Whether it runs a kernel of an extension that the module has imported or loaded: what nothing
    is known of, or what has the name of one."""
    called = call.called
    if called.op not in ("attr", "name"):
        return False  # a kernel of Triton among them, which is launched by `kernel[grid](...)`
    if called.name is not None:
        return EXTENSION.search(called.name) is not None and not called.name.startswith("torch.")
    root = called.operands[0] if called.op == "attr" else called
    return root.op == "name" and is_unknown(root.value) and is_unknown(called.value)


def before(call: View) -> Iterator[View]:
    """The calls of the function that come before one."""
    for each in call.operations("call"):
        if each.is_same(call):
            return
        yield each


def is_float32(at: View) -> bool:
    tensor = at.tensor
    return tensor is not None and tensor.dtype == "float32"


def may_be_half_input(at: View) -> bool:
    """Whether it is an input of the function, as it comes, that is half or may be."""
    while at.origin.op == "call" and at.origin.method in FORMING:
        receiver = at.origin.receiver
        assert receiver is not None  # it is a method
        at = receiver
    tensor = at.tensor
    return at.origin.op == "param" and tensor is not None and tensor.dtype in {None, *HALF}


def casts(method: cst.FunctionDef, src: Source) -> bool:
    """Whether a method takes care of the dtypes, or of the region, itself."""
    return not is_plain(method, src) or CASTING.search(src.text(method.body)) is not None


def is_decorated_bare(method: cst.FunctionDef, src: Source) -> bool:
    """Whether `custom_fwd` or `custom_bwd` decorates a method without `cast_inputs`, and the method
    casts nothing itself: its kernel still gets what the caller passes.

    Ex) @torch.amp.custom_fwd(device_type="cuda")
    """
    texts = [src.text(each.decorator) for each in method.decorators]
    is_bare = any(BARE.search(text) for text in texts) and "cast_inputs" not in "".join(texts)
    return is_bare and CASTING.search(src.text(method.body)) is None


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
    if len(params) != 2:  # of several outputs, not all need be half
        return None
    src, wide = saving.source, set(wide_in(backward, params[0], saving))
    for whole, *operands in products(backward):
        names = {base(operand, src) for operand in operands}
        if params[1] in names and wide & names:
            return whole
    return None


def wide_in(backward: cst.FunctionDef, ctx: str, saving: View) -> Iterator[str]:
    """How `backward` writes what `forward` has saved, or kept in a field, and is float32."""
    names = restored(backward, saving.source)
    saved = [] if saving.has_star else [argument for _, _, argument in saving.arguments]
    for index, tensor in enumerate(saved):
        if is_float32_input(tensor):
            yield from names[index : index + 1]
            yield f"{ctx}.saved_tensors[{index}]"
    for store in saving.operations("store"):
        holder, value = store.operands
        if holder.origin.op == value.origin.op == "param" and is_float32(value):
            yield f"{ctx}.{store.operator}"
    for container in holding_float32(saving):
        yield from items_of(backward, container, saving.source)


def holding_float32(saving: View) -> Iterator[str]:
    """The containers of the module in which `forward` keeps its inputs, all of them float32.

    Ex) weights of weights[key] = weight
    """
    containers: dict[str, list[View]] = {}
    for put in saving.operations("put"):
        holder, _, value = put.operands
        if holder.op == "name":
            containers.setdefault(holder.text, []).append(value)
    for container, values in containers.items():
        if all(value.origin.op == "param" and is_float32(value) for value in values):
            yield container


def items_of(backward: cst.FunctionDef, container: str, src: Source) -> Iterator[str]:
    """Ex) weight of `weight = weights[key]`, and weights[key] itself"""
    for node in within(backward.body):
        if isinstance(node, cst.Subscript) and src.text(node.value) == container:
            yield src.text(node)
            yield src.assigned_name(node) or ""


def restored(backward: cst.FunctionDef, src: Source) -> tuple[str, ...]:
    """Ex) x, weight of `x, weight = ctx.saved_tensors`"""
    for node in within(backward.body):
        if isinstance(node, cst.Assign) and src.text(node.value).endswith(".saved_tensors"):
            target = node.targets[0].target
            if isinstance(target, cst.Tuple | cst.List):
                return tuple(src.text(element.value) for element in target.elements)
    return ()


def within(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """All nodes in a node, and itself."""
    return reachable([node], lambda each: each.children)


def products(function: cst.FunctionDef) -> Iterator[list[cst.BaseExpression]]:
    """The products of a function, each before what is multiplied, and what else it is given."""
    for node in within(function.body):
        match node:
            case cst.BinaryOperation(left, cst.MatrixMultiply(), right):
                yield [node, left, right]
            case cst.Call(cst.Attribute(receiver, cst.Name(name)), arguments) if name in PRODUCTS:
                yield [node, receiver, *(argument.value for argument in arguments)]


def base(node: cst.BaseExpression, src: Source) -> str:
    """Ex) "weight" of weight.t(), "ctx.weight" of ctx.weight"""
    while True:
        if isinstance(node, cst.Call):
            node = node.func
        elif isinstance(node, cst.Attribute) and node.attr.value in TURNING:
            node = node.value
        else:
            return src.text(node)
