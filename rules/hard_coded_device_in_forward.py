"""A module's `forward` names the GPU that it runs on.

A module runs where its parameters and its input are. `torch.arange(n, device="cuda")`, or a
`.cuda()`, puts one tensor elsewhere: on a machine without a GPU it raises at once; with several, it
goes to the current GPU, or to the one that is named, and the next operation raises "Expected all
tensors to be on the same device". So it is in what `forward` calls.

    def forward(self, x):
        steps = torch.arange(x.size(1), device="cuda")

    def forward(self, x):
        steps = torch.arange(x.size(1), device=x.device)

A module without a tensor at hand knows `next(self.parameters()).device`, or the device of a buffer.

Fix safety: the device of a parameter of the function that is a tensor is put in the place. Unsafe:
that tensor may still be on the CPU, and be moved later. No fix where the function moves its own
parameters.

Known limits: nothing is said under a test of the device (`if x.is_cuda`, `if self.use_gpu`), where
the class puts modules on a GPU itself or the function names several (model parallelism), nor in a
file that imports triton, whose kernels run on GPUs only. A name that is bound elsewhere (`DEVICE`,
`self.device`) is left alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import libcst as cst

from amplint import Finding, Fix, Group, Raises, Rule, Safety, Source, Tensor, only
from amplint.guards import is_wished
from amplint.reads import heat_places, runs_in_forward
from amplint.values import Blob

rule = Rule(
    "AMP508",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    witness=Raises("cuda", devices=True),
    hot=True,
    words=frozenset({"cuda", "device", "to"}),
)

GPU = re.compile(r"(cuda|xpu|mps|npu|hpu)(:\d+)?")
ASKS_DEVICE = re.compile(r"cuda|gpu|device|is_available", re.IGNORECASE)


SEVERAL = re.compile(r"(?:cuda:|\.cuda\()(\d+)")


@rule.on(cst.Call)
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    named = names_gpu(call, src)
    if named is None:
        return
    heat = src.heat(call)
    if heat is None or not runs_in_forward(heat) or is_meant(call, src):
        return
    message = f"`{src.brief(call)}` names a GPU, and the input may be elsewhere"
    yield src.finding(rule, call, message, as_input(call, named, src), heat_places(heat, src))


def names_gpu(call: cst.Call, src: Source) -> cst.BaseExpression | None:
    """What names the GPU: the call itself, `x.cuda()`, or an argument, `x.to("cuda")`."""
    function = call.func
    if src.name(function) == "torch.device":
        return call if len(call.args) == 1 and is_gpu(call.args[0].value) else None
    method = function.attr.value if isinstance(function, cst.Attribute) else ""
    if method in ("cuda", "to") and isinstance(function, cst.Attribute):
        if not isinstance(only(src.value(function.value)), Tensor | Blob):
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


def is_meant(call: cst.Call, src: Source) -> bool:
    """Whether somebody asks for the device, or it has been decided that it is this one."""
    if is_wished(call, ASKS_DEVICE, src) or src.bound_as("triton") is not None:
        return True
    function = src.function(call)
    if function is not None and len(set(SEVERAL.findall(src.text(function)))) > 1:
        return True
    return any(decides(statement) for statement in src.constructor_around(call))


def decides(statement: ast.stmt) -> bool:
    """Whether a statement of the constructor names a GPU, where it puts its modules perhaps."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "cuda")
        or (isinstance(node, ast.Constant) and GPU.fullmatch(str(node.value)) is not None)
        for node in ast.walk(statement)
    )


def as_input(call: cst.Call, named: cst.BaseExpression, src: Source) -> Fix | None:
    """Ex) torch.arange(n, device="cuda") -> torch.arange(n, device=x.device)"""
    tensor = input_of(call, src)
    if tensor is None:
        return None
    device = f"{tensor}.device"
    edits = [src.replace(named, device)]
    if named is call and isinstance(call.func, cst.Attribute) and call.func.attr.value == "cuda":
        index = src.argument(call, "device", 0)
        where = src.insert_argument(call, device) if index is None else src.replace(index, device)
        edits = [src.replace(call.func.attr, "to"), *([where] if where is not None else [])]
    return Fix("Follow the input", tuple(edits), Safety.UNSAFE)


def input_of(call: cst.Call, src: Source) -> str | None:
    """The first parameter of the function that is a tensor, unless the function moves its own."""
    function = src.function(call)
    if not isinstance(function, cst.FunctionDef):
        return None
    tensors = set()
    for name in src.names(function):
        param = src.parameter(name)
        if param is not None and src.tensor(name) is not None:
            move = src.parent(src.parent(name))
            if isinstance(move, cst.Call) and names_gpu(move, src) is not None:
                return None
            tensors.add(param.name.value)
    return next((p.name.value for p in function.params.params if p.name.value in tensors), None)
