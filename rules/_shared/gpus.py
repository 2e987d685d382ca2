"""Devices that modules name: which call names a GPU, and what can be put in its place."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from amplint import Edit, Tensor, TensorTree, View, calls, calls_with, constant, only
from amplint import libcst as cst
from amplint.knowledge.vocabulary import ASKS_DEVICE

from .guards import is_wished

if TYPE_CHECKING:
    from amplint import Candidates

GPU = re.compile(r"(cuda|xpu|mps|npu|hpu)(:\d+)?")
OF_NCCL = re.compile(r"\bnccl[A-Z_]\w*\(")  # Ex) ncclRecv(x.storage(), rank, comm)
SEVERAL = re.compile(r"(?:cuda:|\.cuda\()(\d+)")
MAY_NAME_GPU: Candidates = calls(".cuda", ".to", "torch.device") | calls_with("device")


def gpu_named(call: View) -> View | None:
    """The expression that names the GPU: the call, `x.cuda()`, or an argument, `x.to("cuda")`."""
    if call.callee == "torch.device":
        arguments = [argument for _, _, argument in call.arguments]
        return call if len(arguments) == 1 and _is_gpu(arguments[0]) else None
    if call.method in ("cuda", "to"):
        receiver = call.receiver
        if receiver is None or not isinstance(only(receiver.value), Tensor | TensorTree):
            return None
        device = call.arg("device", 0)
        if call.method == "cuda" and (device is None or _is_index(device)):
            return call
    else:
        device = call.arg("device") if call.tensor is not None else None
    return device if device is not None and _is_gpu(device) else None


def _is_gpu(at: View) -> bool:
    """Ex) "cuda:0" """
    return at.op == "const" and GPU.fullmatch(str(constant(at.value))) is not None


def _is_index(at: View) -> bool:
    """Ex) the 0 of `x.cuda(0)`"""
    return at.op == "const" and type(constant(at.value)) is int


def is_asked_for(call: View) -> bool:
    """Whether the call stands under a test of the device, in a function that names several GPUs or
    calls NCCL, or among kernels of triton, which run on GPUs only."""
    src = call.source
    if is_wished(call, ASKS_DEVICE) or src.imports.bound_as("triton") is not None:
        return True
    function = src.function(call.cst)
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


def elsewhere(call: View, named: View, device: str) -> tuple[Edit, ...]:
    """The edits that put another device in the place of the GPU that a call names.

    Ex) torch.arange(n, device="cuda") -> torch.arange(n, device=x.device)
    """
    edits = call.source.edits
    if named != call or call.method != "cuda":
        return (edits.replace(named.cst, device),)
    index = call.source.argument(call.cst, "device", 0)
    where = (
        edits.insert_argument(call.cst, device) if index is None else edits.replace(index, device)
    )
    return edits.replace(call.cst.func.attr, "to"), where


def input_of(call: View) -> str | None:
    """The first parameter of the function that is a tensor, unless the function moves its own."""
    src = call.source
    function = src.function(call.cst)
    if not isinstance(function, cst.FunctionDef):
        return None
    tensors = set()
    for name in src.layout.names(function):
        param = src.variables.parameter(name)
        if param is not None and call.of(name).tensor is not None:
            move = src.parent(src.parent(name))
            if isinstance(move, cst.Call) and gpu_named(call.of(move)) is not None:
                return None
            tensors.add(param.name.value)
    return next((p.name.value for p in function.params.params if p.name.value in tensors), None)
