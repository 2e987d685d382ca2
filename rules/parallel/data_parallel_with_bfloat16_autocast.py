"""A bfloat16 region around a `DataParallel`: its replicas run in float16.

DataParallel calls its replicas in threads, and a new thread knows nothing of the region. Of it,
DataParallel passes on whether autocast is on, but not the dtype: in the threads that is the default
of CUDA, float16. So the network overflows where bfloat16 would not, without a word.

    model = nn.DataParallel(model)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        output = model(x)

    class Net(nn.Module):
        @torch.autocast("cuda", dtype=torch.bfloat16)
        def forward(self, x): ...

Every replica runs the `forward` of the module, so the region is opened there. Or take
DistributedDataParallel, which has no threads.

Fix safety: none is offered: where the region belongs, in which module, is to be decided.

Known limits: a single device has no threads; whether there are several is not known. amplint is
silent where what the model runs opens a region of its own, or where the model comes from a library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    IN_REGION,
    Finding,
    Group,
    ReplicatedModules,
    Rule,
    Spot,
    Unrun,
    nodes,
)
from amplint import libcst as cst

from .._shared.code_texts import called_texts

if TYPE_CHECKING:
    from amplint import Source


def is_replicated(at: Spot) -> bool:
    region = at.region
    if region is None or (region.device, region.dtype) != ("cuda", "bfloat16"):
        return False
    return at.mentions("DataParallel") and at.is_replicated(at.node.operands[0])


rule = Rule(
    "AMP602",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="open the region inside the module's `forward`, or use `DistributedDataParallel`",
    witness=Unrun(
        "replicas need two GPUs; that threads begin with the default dtype is tested on the CPU",
        "torch/nn/parallel/parallel_apply.py, torch 2.13; https://github.com/pytorch/pytorch/issues/54912",
    ),
    presumes=False,
    candidates=nodes("call") & is_replicated & IN_REGION,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    region = src.region(call)
    if region is None or (region.device, region.dtype) != ("cuda", "bfloat16"):
        return
    if region.enabled is False or not src.mentions("DataParallel"):
        return
    wrapped = src.ask(ReplicatedModules, call.func)
    if wrapped is None or any("autocast" in text for text in called_texts(call, src)):
        return
    related = src.reasons(wrapped, region.evidence)
    message = f"the replicas of `{src.brief(call.func)}` run in float16, not in bfloat16"
    yield src.finding(rule, call, message, related=related)
