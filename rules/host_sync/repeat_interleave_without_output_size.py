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

Fix safety: unsafe. For `one_hot(x.argmax(dim))`, the number of classes is the size of that
dimension, and the result is wider if no element has the last class. Only the author knows other
numbers.

Known limits: as for AMP101. The rule does not check whether a given number is right.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import HOT, Finding, Fix, Group, Rule, RuleName, Safety, Syncs, View, calls, constant
from amplint import libcst as cst
from amplint.knowledge.host_reads import COUNTED

from .._shared.counts import counted
from .._shared.reads import read_of_training

rule = Rule(
    "AMP115",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="pass the size as an argument, computed from what the host knows",
    witness=Syncs(before=3, after=0),
    supersedes=("AMP106",),
    preview=True,
    cut_from=(RuleName("AMP106", "data-dependent-shape-in-hot-path"),),
)


@rule.on(calls(*COUNTED) & HOT)
def check(call: View) -> Iterator[Finding]:
    """Ex) F.one_hot(y), x.repeat_interleave(counts, dim=0)"""
    reasons = read_of_training(call, counted(call))
    if reasons is None:
        return
    word = COUNTED[call.callee or ""]
    message = f"`{call.brief}` waits for a count that `{word}=` would provide"
    yield call.finding(message, reasons, with_classes(call))


def with_classes(call: View) -> Fix | None:
    """Ex) F.one_hot(x.argmax(-1)) -> F.one_hot(x.argmax(-1), num_classes=x.shape[-1])"""
    classes = call.arg("tensor", 0) or call.arg("input", 0)
    if COUNTED[call.callee or ""] != "num_classes" or call.arg("num_classes", 1) or classes is None:
        return None
    scores, dim = classes.receiver, classes.arg("dim", 0) if classes.method == "argmax" else None
    at = constant(dim.value) if dim is not None else None
    is_inline = isinstance(classes.cst, cst.Call)  # else the name may stand for another tensor now
    if (
        scores is None
        or type(at) is not int
        or not isinstance(scores.cst, cst.Name)
        or not is_inline
    ):
        return None
    edit = call.source.edits.add_argument(call.cst, f"num_classes={scores.cst.value}.shape[{at}]")
    return Fix("Pass the number of classes", (edit,), Safety.UNSAFE) if edit else None
