"""Devices that modules name: which call names a GPU, and what can be put
in its place."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from amplint import Edit, Tensor, TensorTree, calls, nodes, only
from amplint import libcst as cst
from amplint.knowledge.vocabulary import ASKS_DEVICE

from .guards import is_wished

if TYPE_CHECKING:
    from amplint import Source, Spot

GPU = re.compile(r"(cuda|xpu|mps|npu|hpu)(:\d+)?")
OF_NCCL = re.compile(r"\bnccl[A-Z_]\w*\(")  # Ex) ncclRecv(x.storage(), rank, comm)
SEVERAL = re.compile(r"(?:cuda:|\.cuda\()(\d+)")


def names_gpu(call: cst.Call, src: Source) -> cst.BaseExpression | None:
    """The node that names the GPU: the call itself, `x.cuda()`, or an argument, `x.to("cuda")`."""
    function = call.func
    if src.name(function) == "torch.device":
        return call if len(call.args) == 1 and is_gpu(call.args[0].value) else None
    method = function.attr.value if isinstance(function, cst.Attribute) else ""
    if method in ("cuda", "to") and isinstance(function, cst.Attribute):
        if not isinstance(only(src.value(function.value)), Tensor | TensorTree):
            return None
        given = src.argument(call, "device", 0)
        if method == "cuda" and (given is None or isinstance(given.value, cst.Integer)):
            return call
        return given.value if given is not None and is_gpu(given.value) else None
    device = src.keyword(call, "device")
    if device is None or src.tensor(call) is None or not is_gpu(device.value):
        return None
    return device.value


def is_gpu(node: cst.BaseExpression) -> bool:
    """Ex) "cuda:0" """
    if not isinstance(node, cst.SimpleString):
        return False
    text = node.evaluated_value
    return isinstance(text, str) and GPU.fullmatch(text) is not None


def is_asked_for(call: cst.Call, src: Source) -> bool:
    """Whether the call stands under a test of the device, in a function that names several GPUs or
    calls NCCL, or among kernels of triton, which run on GPUs only."""
    if is_wished(call, ASKS_DEVICE, src) or src.imports.bound_as("triton") is not None:
        return True
    function = src.function(call)
    if function is None:
        return False
    text = src.text(function)
    return len(set(SEVERAL.findall(text))) > 1 or OF_NCCL.search(text) is not None


def mentions_gpu(statement: ast.stmt, several: bool = False) -> bool:
    """Whether a statement names a GPU; `several`: one of several, by its number."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "cuda" and not several)
        or (
            isinstance(node, ast.Constant)
            and (match := GPU.fullmatch(str(node.value))) is not None
            and not (several and match[2] is None)
        )
        for node in ast.walk(statement)
    )


def elsewhere(
    call: cst.Call, named: cst.BaseExpression, device: str, src: Source
) -> tuple[Edit, ...]:
    """The edits that put another device in the place of the GPU that a call names.

    Ex) torch.arange(n, device="cuda") -> torch.arange(n, device=x.device)
    """
    if (
        named is not call
        or not isinstance(call.func, cst.Attribute)
        or call.func.attr.value != "cuda"
    ):
        return (src.edits.replace(named, device),)
    index = src.argument(call, "device", 0)
    where = (
        src.edits.insert_argument(call, device)
        if index is None
        else src.edits.replace(index, device)
    )
    return (src.edits.replace(call.func.attr, "to"), *([where] if where is not None else []))


def input_of(call: cst.Call, src: Source) -> str | None:
    """The first parameter of the function that is a tensor, unless the function moves its own."""
    function = src.function(call)
    if not isinstance(function, cst.FunctionDef):
        return None
    tensors = set()
    for name in src.layout.names(function):
        param = src.parameter(name)
        if param is not None and src.tensor(name) is not None:
            move = src.parent(src.parent(name))
            if isinstance(move, cst.Call) and names_gpu(move, src) is not None:
                return None
            tensors.add(param.name.value)
    return next((p.name.value for p in function.params.params if p.name.value in tensors), None)


# ------------------------------------------------------------------------------------ candidates


def may_name_gpu(at: Spot) -> bool:
    """As `names_gpu`."""
    if at.method in ("cuda", "to"):
        if not isinstance(only(at.of(at.receiver)), Tensor | TensorTree):
            return False
        device = at.given("device", 0)
        return at.method == "cuda" or (device >= 0 and is_gpu_constant(at, device))
    if at.name == "torch.device":
        return any(is_gpu_constant(at, each) for each in at.arguments)
    device = at.given("device")
    return device >= 0 and is_gpu_constant(at, device) and at.tensor(at.number) is not None


def is_gpu_constant(at: Spot, number: int) -> bool:
    node = at.graph.nodes[number]
    return node.op == "const" and GPU.fullmatch(str(node.data)) is not None


NAMES_GPU = (
    calls(".cuda", ".to", "torch.device")
    | nodes("call") & (lambda at: "device" in at.node.data.keywords)
) & may_name_gpu
