"""In a bfloat16 region, the replicas of a `DataParallel` run in float16.

DataParallel calls its replicas in threads, and a new thread does not inherit the region.
DataParallel passes on whether autocast is on, but not the dtype: in the threads it is the default
of CUDA, float16. So the network silently overflows where bfloat16 would not.

    model = nn.DataParallel(model)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        output = model(x)

    class Net(nn.Module):
        @torch.autocast("cuda", dtype=torch.bfloat16)
        def forward(self, x): ...

Every replica runs the `forward` of the module, so the region is opened there. Or use
DistributedDataParallel, which has no threads.

Fix safety: none is offered: the author has to decide in which module the region belongs.

Known limits: with a single device there are no threads, and the number of devices is not known. The
rule is silent if code that the model runs opens its own region, or if the model comes from a
library.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    IN_REGION,
    CalledTexts,
    Finding,
    Group,
    Presumes,
    Rule,
    Unrun,
    View,
    nodes,
)

from ._replicated import ReplicatedModules

rule = Rule(
    "AMP602",
    __doc__,
    group=Group.CORRECTNESS,
    help="open the region inside the module's `forward`, or use `DistributedDataParallel`",
    witness=Unrun(
        "replicas need two GPUs; that threads begin with the default dtype is tested on the CPU",
        "torch/nn/parallel/parallel_apply.py, torch 2.13; https://github.com/pytorch/pytorch/issues/54912",
    ),
    presumes=Presumes.AUDITED,
)


@rule.on(nodes("call") & IN_REGION)
def check(call: View) -> Iterator[Finding]:
    region = call.region
    if region is None or (region.device, region.dtype) != ("cuda", "bfloat16"):
        return
    wrapped = call.called.ask(ReplicatedModules) if call.mentions("DataParallel") else None
    if wrapped is None or any("autocast" in text for text in call.ask(CalledTexts) or ()):
        return
    message = f"the replicas of `{call.called.brief}` run in float16, not in bfloat16"
    yield call.finding(message, (wrapped, region.evidence))
