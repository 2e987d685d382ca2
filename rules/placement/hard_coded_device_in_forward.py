"""A module's `forward` names the GPU that it runs on.

A module runs where its parameters and its input are. `torch.arange(n, device="cuda")`, or a
`.cuda()`, puts one tensor on a fixed device: on a machine without a GPU it raises at once; with
several GPUs, it goes to the current GPU, or to the named one, and the next operation raises
"Expected all tensors to be on the same device". The same holds for functions that `forward` calls,
and for the loss method of a module (`loss`, `compute_loss`) that a framework calls.

    def forward(self, x):
        steps = torch.arange(x.size(1), device="cuda")

    def forward(self, x):
        steps = torch.arange(x.size(1), device=x.device)

Without a tensor at hand, a module can use `next(self.parameters()).device`, or the device of a
buffer.

Fix safety: uses the device of a tensor parameter of the function instead. Unsafe: that tensor may
still be on the CPU, and be moved later. No fix if the function moves its own parameters.

Known limits: the rule is silent under a test of the device (`if x.is_cuda`, `if self.use_gpu`); if
the class itself puts modules on a GPU, or the function names several GPUs (model parallelism); in
functions that call NCCL, and in files that import triton: both run only on GPUs. A name that is
bound elsewhere (`DEVICE`, `self.device`) is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Finding, Fix, Group, Heat, Raises, Rule, Safety, Shows, View

from .._shared.classes import constructor_around
from .._shared.gpus import MAY_NAME_GPU, elsewhere, gpu_named, input_of, is_asked_for, mentions_gpu

rule = Rule(
    "AMP508",
    __doc__,
    group=Group.CORRECTNESS,
    help="take the device of the input or of a parameter, as in `x.device`",
    witness=Raises("cuda", devices=True),
)


@rule.on(MAY_NAME_GPU)
def check(call: View) -> Iterator[Finding]:
    heat, named = call.hotness, gpu_named(call)
    if named is None or heat is None or not runs_in_forward(heat) or is_meant(call):
        return
    message = f"`{call.brief}` hard-codes CUDA: fails if the model is elsewhere"
    yield call.finding(message, heat.chain, as_input(call, named))


def runs_in_forward(heat: Heat) -> bool:
    """Whether a module's `forward`, or its loss, makes a place hot, not a loop that was seen."""
    return bool(heat.chain) and heat.chain[-1].kind is Shows.FORWARD


def is_meant(call: View) -> bool:
    """Whether somebody asks for the device, or it has been decided that it is this one."""
    return is_asked_for(call) or any(map(mentions_gpu, constructor_around(call)))


def as_input(call: View, named: View) -> Fix | None:
    """Ex) torch.arange(n, device="cuda") -> torch.arange(n, device=x.device)"""
    tensor = input_of(call)
    if tensor is None:
        return None
    return Fix("Follow the input", elsewhere(call, named, f"{tensor}.device"), Safety.UNSAFE)
