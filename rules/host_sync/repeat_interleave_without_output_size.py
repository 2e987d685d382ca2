"""The host waits for a number that could be passed to the call, in every iteration of training.

`repeat_interleave` with a tensor of counts adds them up to know how many rows the result has, and
`one_hot` looks for the largest class: the host waits until the device has caught up. With
`output_size` or `num_classes`, neither reads from the device.

    for x, y, counts in loader:
        hot = F.one_hot(y.cuda())                                # waits
        rows = x.cuda().repeat_interleave(counts.cuda(), dim=0)  # waits

    for x, y, counts in loader:
        total = int(counts.sum())                                # on the CPU, where the counts are
        hot = F.one_hot(y.cuda(), num_classes=10)
        rows = x.cuda().repeat_interleave(counts.cuda(), dim=0, output_size=total)

The host usually knows the counts before they are moved: lengths of a batch, numbers of atoms,
tokens of an expert. Reading the sum from the device gains nothing. Without `num_classes`, `one_hot`
also returns a narrower result for a batch that lacks the last class.

Fix safety: none is offered: only the author knows the number.

Known limits: as for AMP101. The rule does not check whether a given number is right.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import HOT, Finding, Group, Rule, RuleName, Syncs, View, calls
from amplint.knowledge.host_reads import COUNTED

from .._shared.reads import read_of_batches
from ._counts import counted

rule = Rule(
    "AMP115",
    __doc__,
    group=Group.PERFORMANCE,
    help="pass the size as an argument, computed from what the host knows",
    witness=Syncs(before=3, after=0),
    supersedes=("AMP106",),
    preview=True,
    cut_from=(RuleName("AMP106", "data-dependent-shape-in-hot-path"),),
)


@rule.on(calls(*COUNTED) & HOT)
def check(call: View) -> Iterator[Finding]:
    """Ex) F.one_hot(y), x.repeat_interleave(counts, dim=0)"""
    reasons = read_of_batches(call, counted(call))
    if reasons is None:
        return
    word = COUNTED[call.callee or ""]
    message = f"`{call.brief}` waits for a count that `{word}=` would provide"
    yield call.finding(message, reasons)
