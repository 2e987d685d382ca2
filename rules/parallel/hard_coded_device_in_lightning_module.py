"""A LightningModule names its GPU, where Lightning decides on the device.

The Trainer puts the module and its batches on a device, another one in each of several processes.
`.cuda()` and `device="cuda:0"` in a step put a tensor on the GPU that is named: with
`accelerator="cpu"`, or without a GPU, the next operation raises, or this one; with two GPUs,
`"cuda:0"` is the wrong one in the second process.

    def training_step(self, batch, batch_idx):
        noise = torch.randn(8, 3).cuda()

    def training_step(self, batch, batch_idx):
        noise = torch.randn(8, 3, device=self.device)

Batches are on the device when a step gets them: `batch["x"].cuda()` has nothing to do there. So it
is in `forward`, in hooks (`on_train_epoch_end`), and in what the steps call, in whatever file.

Fix safety: `self.device`, or the device of a parameter that is a tensor, is put in the place.
Unsafe: with a GPU at hand, the module may be on the CPU, and this tensor elsewhere on purpose.

Known limits: nothing is said of the constructor, under a test of the device (`if x.is_cuda`, `if
self.use_gpu`), or where the constructor or the function names GPUs by their numbers (model
parallelism).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from amplint import (
    Classes,
    Finding,
    Fix,
    FunctionTexts,
    Group,
    Raises,
    Related,
    Rule,
    Safety,
    where,
)
from amplint import libcst as cst

from .._shared.classes import constructor_around
from .._shared.gpus import NAMES_GPU, elsewhere, input_of, is_asked_for, mentions_gpu, names_gpu
from .._shared.lightning import LIGHTNING_MODULES, in_lightning_module
from .._shared.reads import heat_places

if TYPE_CHECKING:
    from amplint import Source

# What Lightning calls once the module is on its device.
# Hooks that are there to move batches.
TRANSFERS = frozenset(
    {"on_after_batch_transfer", "on_before_batch_transfer", "transfer_batch_to_device"}
)
HOOK = re.compile(
    r"forward|(training|validation|test|predict)_(step|step_end|epoch_end)|"
    r"on_(train|validation|test|predict|before|after|epoch)_(?!.*transfer)\w+"
)


rule = Rule(
    "AMP613",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="use `self.device`, and leave batches where Lightning has put them",
    witness=Raises("cuda", devices=True),
    supersedes=("AMP501", "AMP502", "AMP508"),
    candidates=NAMES_GPU & where(lambda at: at.mentions("LightningModule")),
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    named = names_gpu(call, src)
    if named is None or is_asked_for(call, src):
        return
    related = run_by_lightning(call, src)
    if related is None:
        return
    several = partial(mentions_gpu, several=True)
    if any(map(several, constructor_around(call, src))):
        return
    message = f"`{src.brief(call)}` names a GPU, and raises if Lightning takes another one"
    yield src.finding(rule, call, message, as_module(call, named, src), related)


def run_by_lightning(call: cst.Call, src: Source) -> tuple[Related, ...] | None:
    """The way from a LightningModule to the call; None where it does not lead there."""
    functions = [each for each in src.ancestors(call) if isinstance(each, cst.FunctionDef)]
    if any(each.name.value in TRANSFERS for each in functions):
        return None
    if any(HOOK.fullmatch(each.name.value) for each in functions):
        return () if in_lightning_module(call, src) else None
    heat = src.heat(call)
    if heat is None or not heat.chain:
        return None
    cls = src.fact(FunctionTexts).function(heat.chain[-1].place).cls
    bases = src.fact(Classes).library_bases(cls) if cls is not None else frozenset()
    return heat_places(heat, src) if bases & LIGHTNING_MODULES else None


def as_module(call: cst.Call, named: cst.BaseExpression, src: Source) -> Fix | None:
    """Ex) torch.rand(8, device="cuda") -> torch.rand(8, device=self.device)"""
    function = src.function(call)
    params = function.params.params if function is not None else ()
    if in_lightning_module(call, src) and params and params[0].name.value == "self":
        device = "self.device"
    else:
        tensor = input_of(call, src)
        if tensor is None:
            return None
        device = f"{tensor}.device"
    return Fix("Take the device of the module", elsewhere(call, named, device, src), Safety.UNSAFE)
