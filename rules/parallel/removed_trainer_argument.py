"""An argument that Lightning's Trainer lost in version 2.0.

    Trainer(gpus=2, distributed_backend="ddp")     # TypeError: unexpected keyword argument 'gpus'

    Trainer(accelerator="gpu", devices=2, strategy="ddp")

So are the strategies `dp` and `ddp2`, and a strategy that is given as the accelerator: these names
are refused.

Fix safety: unsafe: writes the successor where there is one that means the same, which Lightning
before 1.7 does not know. The others are named in the message alone.

Known limits: arguments of subclasses, of command lines and of configuration files are not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Edit, Finding, Fix, Group, Rule, Safety, Unrun, calls, constant
from amplint import libcst as cst
from amplint.knowledge.libraries import TRAINER_REMOVED, TRAINERS

if TYPE_CHECKING:
    from amplint import Source

DEVICES = {"gpus": "gpu", "tpu_cores": "tpu", "num_processes": "cpu"}
STRATEGIES = frozenset({"ddp", "ddp_spawn", "ddp_notebook", "ddp_fork"})  # as an accelerator, once
WITHOUT_SUCCESSOR = frozenset({"dp", "ddp2"})
ASKING = frozenset({"strategy", "accelerator", "distributed_backend"})
ASKED = ASKING | TRAINER_REMOVED.keys()


rule = Rule(
    "AMP611",
    __doc__,
    group=Group.MIGRATION,
    since="0.1",
    help="use what Lightning 2.0 has instead: `accelerator=`, `devices=`, `strategy=` and others",
    witness=Unrun(
        "Lightning is not installed here; seen with lightning 2.6.6",
        "https://github.com/Lightning-AI/pytorch-lightning/blob/2.0.0/src/lightning/pytorch/CHANGELOG.md",
    ),
    candidates=calls(*TRAINERS) & (lambda at: not ASKED.isdisjoint(at.node.data.keywords)),
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    if src.name(call.func) not in TRAINERS:
        return
    for arg in call.args:
        name = arg.keyword.value if arg.keyword is not None else ""
        value = constant(src.value(arg.value))
        if name in ASKING and value in WITHOUT_SUCCESSOR:
            message = f'the strategy "{value}" is gone since Lightning 2.0, use "ddp"'
        elif name == "accelerator" and value in STRATEGIES:
            message = f'`accelerator="{value}"` is refused since Lightning 2.0, use `strategy=`'
        elif name in TRAINER_REMOVED:
            message = f"`{name}=` is gone since Lightning 2.0{TRAINER_REMOVED[name]}"
        else:
            continue
        edits = [edit for edit in successor(call, arg, name, value, src) if edit is not None]
        fix = Fix("Use its successor", tuple(edits), Safety.UNSAFE) if edits else None
        yield src.finding(rule, arg, message, fix)


def successor(
    call: cst.Call, arg: cst.Arg, name: str, value: object, src: Source
) -> Iterator[Edit | None]:
    """Ex) gpus=2 -> accelerator="gpu", devices=2"""
    given = {each.keyword.value for each in call.args if each.keyword is not None}
    if src.has_star(call):
        return
    if name in DEVICES:
        # A variable may be -1, "0,1" or a list elsewhere.
        counted = isinstance(arg.value, cst.Integer) and arg.value.evaluated_value > 0
        if counted and not given & {"accelerator", "devices"} and len(given & DEVICES.keys()) == 1:
            yield src.edits.name_argument(arg, f'accelerator="{DEVICES[name]}", devices')
    elif name in ("distributed_backend", "accelerator"):
        if value in STRATEGIES and "strategy" not in given:
            yield src.edits.name_argument(arg, "strategy")
    elif name == "profile" and value is True and "profiler" not in given:
        yield src.edits.name_argument(arg, "profiler")
        yield src.edits.replace(arg.value, '"simple"')
