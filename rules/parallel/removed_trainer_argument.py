"""An argument that Lightning's Trainer has lost by version 2.0.

    Trainer(gpus=2, distributed_backend="ddp")     # TypeError: unexpected keyword argument 'gpus'

    Trainer(accelerator="gpu", devices=2, strategy="ddp")

So are the strategies `dp` and `ddp2`, and a strategy that is given as the accelerator: these names
are refused.

Fix safety: unsafe: writes the successor where there is one that means the same, which Lightning
before 1.7 does not know. The others are named in the message alone. All successors in a call are
one fix, and there is none where another argument is left that no release has beside them.

Known limits: arguments of subclasses, of command lines and of configuration files are not seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Finding, Fix, Group, Rule, Safety, Unrun, View, calls, calls_with

from .._shared.lightning import (
    ASKING,
    SUCCESSORS,
    TRAINER_REMOVED,
    TRAINERS,
    removed_arguments,
    renewed,
)

rule = Rule(
    "AMP611",
    __doc__,
    group=Group.MIGRATION,
    since="0.1",
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
