"""An argument of Lightning's Trainer that was removed by version 2.0.

    Trainer(gpus=2, distributed_backend="ddp")     # TypeError: unexpected keyword argument 'gpus'

    Trainer(accelerator="gpu", devices=2, strategy="ddp")

The strategies `dp` and `ddp2`, and a strategy that is passed as the accelerator, are refused too.

Fix safety: unsafe: writes the successor if there is one with the same meaning; Lightning before 1.7
does not know it. Other successors are only named in the message. All successors in a call are one
fix. There is no fix if the call has another argument that no release accepts together with them.

Known limits: arguments of subclasses, of command lines and of configuration files are not seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Finding, Fix, Group, Rule, Safety, Unrun, View, calls, calls_with

from ._trainer import ASKING, SUCCESSORS, TRAINER_REMOVED, TRAINERS, removed_arguments, renewed

rule = Rule(
    "AMP611",
    __doc__,
    group=Group.MIGRATION,
    help="use its replacement in Lightning 2.0: `accelerator=`, `devices=`, `strategy=` and others",
    witness=Unrun(
        "Lightning is not installed here; seen with lightning 2.6.6",
        "https://github.com/Lightning-AI/pytorch-lightning/blob/2.0.0/src/lightning/pytorch/CHANGELOG.md",
    ),
)


@rule.on(calls(*TRAINERS) & calls_with(*ASKING, *TRAINER_REMOVED))
def check(call: View) -> Iterator[Finding]:
    if call.callee not in TRAINERS:
        return
    removed = removed_arguments(call)
    edits = renewed(removed, SUCCESSORS)
    for each in removed:
        fix = Fix("Use its successor", edits, Safety.UNSAFE) if edits and each.edits else None
        place = call.source.keyword(call.cst, each.name)
        yield call.finding(each.message, fix=fix, place=place)
