"""A tensor on the device is read by the host for every batch of an evaluation or inference loop.

The reads of AMP101 (`.item()`, `.tolist()`, `.cpu()`, `.numpy()`, `float()` ...) make the host wait
for the device once per batch. Evaluation has no backward pass that hides the wait: the device idles
while the next batch is prepared and its kernels are launched.

    for x, y in loader:
        logits = model(x.cuda())
        correct += (logits.argmax(1) == y.cuda()).sum().item()    # waits for every batch

    correct = torch.zeros((), dtype=torch.long, device="cuda")
    for x, y in loader:
        logits = model(x.cuda())
        correct += (logits.argmax(1) == y.cuda()).sum()
    accuracy = correct.item() / len(loader.dataset)               # waits once

The rule is pedantic, since the read is often intended: outputs are moved to the CPU so that they do
not fill the memory of the device, and metrics of other libraries take arrays.

Fix safety: none is offered, since the read may be there to free memory of the device.

Known limits: as for AMP101. A loop counts as evaluation if it iterates a loader, and neither the
loop nor anything that it calls trains; `validation_step`, `test_step` and `predict_step` of a
LightningModule run for every batch, too. An object that is a loader only by its name counts in
functions that evaluate: by their name, after `model.eval()`, or without gradients.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import EVALUATED, EVALUATION, Finding, Group, Rule, Syncs, View

from .._shared.reads import LOGS, READS, read_of_batches, tensor_of_read

rule = Rule(
    "AMP102",
    __doc__,
    group=Group.PEDANTIC,
    help="accumulate on the device, and read the result once after the loop",
    witness=Syncs(before=4, after=1),
    supersedes=("AMP113",),
)


@rule.on((READS | LOGS) & EVALUATED)
def check(call: View) -> Iterator[Finding]:
    """Ex) loss.item(), logits.cpu(), np.asarray(scores)"""
    reasons = read_of_batches(call, tensor_of_read(call), EVALUATION)
    if reasons is not None:
        message = f"`{call.brief}` makes the host wait for every batch of evaluation"
        yield call.finding(message, reasons)
