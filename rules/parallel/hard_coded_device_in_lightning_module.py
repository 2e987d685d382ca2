"""A LightningModule names a GPU, although Lightning chooses the device.

The Trainer puts the module and its batches on a device, which differs between processes. `.cuda()`
and `device="cuda:0"` in a step put a tensor on the named GPU: with `accelerator="cpu"`, or without
a GPU, this or the next operation raises; with two GPUs, `"cuda:0"` is wrong in the second process.

    def training_step(self, batch, batch_idx):
        noise = torch.randn(8, 3).cuda()

    def training_step(self, batch, batch_idx):
        noise = torch.randn(8, 3, device=self.device)

Batches are on the device when a step gets them, so `batch["x"].cuda()` is superfluous. The same
holds in `forward`, in hooks (`on_train_epoch_end`), and in functions that the steps call, in any
file.

Fix safety: uses `self.device`, or the device of a tensor parameter, instead. Unsafe: the module may
be on the CPU, and this tensor on a GPU on purpose.

Known limits: the rule is silent in the constructor, under a test of the device (`if x.is_cuda`, `if
self.use_gpu`), and if the constructor or the function names GPUs by their numbers (model
parallelism).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from amplint import (
    Classes,
    Evidence,
    Finding,
    Fix,
    FunctionTexts,
    Group,
    Raises,
    Rule,
    Safety,
    View,
)

from .._shared.classes import constructor_around
from .._shared.gpus import MAY_NAME_GPU, elsewhere, gpu_named, input_of, is_asked_for, mentions_gpu
from .._shared.lightning import LIGHTNING_MODULES, in_lightning_module

# Hooks that are there to move batches, and what Lightning calls once the module is on its device.
TRANSFER = re.compile(r"on_(before|after)_batch_transfer|transfer_batch_to_device")
HOOK = re.compile(
    r"forward|(training|validation|test|predict)_(step|step_end|epoch_end)|"
    r"on_(train|validation|test|predict|before|after|epoch)_(?!.*transfer)\w+"
)


rule = Rule(
    "AMP613",
    __doc__,
    group=Group.CORRECTNESS,
    help="use `self.device`, and leave batches where Lightning put them",
    witness=Raises("cuda", devices=True),
    supersedes=("AMP501", "AMP502", "AMP508"),
)


@rule.on(MAY_NAME_GPU)
def check(call: View) -> Iterator[Finding]:
    named = gpu_named(call) if call.mentions("LightningModule") else None
    way = run_by_lightning(call) if named is not None else None
    if named is None or way is None or is_asked_for(call):
        return
    if any(mentions_gpu(each, several=True) for each in constructor_around(call)):
        return
    message = f"`{call.brief}` hard-codes CUDA: fails when Lightning uses another device"
    yield call.finding(message, way, as_module(call, named))


def run_by_lightning(call: View) -> Sequence[Evidence] | None:
    """The way from a LightningModule to the call; None where it does not lead there."""
    around = call.function.qualname.split(".")
    if any(map(TRANSFER.fullmatch, around)):
        return None
    if any(map(HOOK.fullmatch, around)):
        return () if in_lightning_module(call) else None
    heat = call.hotness
    if heat is None or not heat.chain:
        return None
    cls = call.fact(FunctionTexts).function(heat.chain[-1].place).cls
    bases = call.fact(Classes).library_bases(cls) if cls is not None else frozenset()
    return heat.chain if bases & LIGHTNING_MODULES else None


def as_module(call: View, named: View) -> Fix | None:
    """Ex) torch.rand(8, device="cuda") -> torch.rand(8, device=self.device)"""
    is_own = in_lightning_module(call) and "self" in {p.name for p in call.function.params[:1]}
    of = "self" if is_own else input_of(call)
    if of is None:
        return None
    edits = elsewhere(call, named, f"{of}.device")
    return Fix("Use the device of the module", edits, Safety.UNSAFE)
