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
the class puts modules on a GPU itself or the function names several (model parallelism), in one
that calls NCCL, nor in a file that imports triton: both run on GPUs only. A name that is bound
elsewhere (`DEVICE`, `self.device`) is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Finding, Fix, Group, Raises, Rule, Safety
from amplint import libcst as cst

from .._shared.classes import constructor_around
from .._shared.gpus import NAMES_GPU, elsewhere, input_of, is_asked_for, mentions_gpu, names_gpu
from .._shared.reads import heat_places, runs_in_forward

if TYPE_CHECKING:
    from amplint import Source

rule = Rule(
    "AMP508",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="take the device of the input or of a parameter, as in `x.device`",
    witness=Raises("cuda", devices=True),
    candidates=NAMES_GPU & (lambda at: (heat := at.heat) is not None and runs_in_forward(heat)),
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    named = names_gpu(call, src)
    if named is None:
        return
    heat = src.heat(call)
    if heat is None or not runs_in_forward(heat) or is_meant(call, src):
        return
    message = f"`{src.brief(call)}` names a GPU, and raises where the input is elsewhere"
    yield src.finding(rule, call, message, as_input(call, named, src), heat_places(heat, src))


def is_meant(call: cst.Call, src: Source) -> bool:
    """Whether somebody asks for the device, or it has been decided that it is this one."""
    return is_asked_for(call, src) or any(map(mentions_gpu, constructor_around(call, src)))


def as_input(call: cst.Call, named: cst.BaseExpression, src: Source) -> Fix | None:
    """Ex) torch.arange(n, device="cuda") -> torch.arange(n, device=x.device)"""
    tensor = input_of(call, src)
    if tensor is None:
        return None
    return Fix("Follow the input", elsewhere(call, named, f"{tensor}.device", src), Safety.UNSAFE)
