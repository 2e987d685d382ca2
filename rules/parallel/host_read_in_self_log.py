"""A tensor is read by the host in every training step, only to be logged by Lightning.

`self.log` takes tensors: it detaches them, keeps them on the device, and reads them when a logger
asks, every 50 steps by default. With `.item()`, `float()` or `.cpu()` the host waits for
the device in every step instead.

    self.log("loss", loss.item())

    self.log("loss", loss)

Likewise in the dict that `self.log_dict` takes, and where the number has a name that is used for
nothing else.

Fix safety: the tensor is handed over as it is. Unsafe: what a callback or a project's own logger is
given may be a tensor then.

Known limits: with `prog_bar=True` the progress bar reads the value in every step anyway; that is
left to AMP101, as is a number that is computed with before it is logged. In evaluation, AMP102
speaks of the read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    HOT,
    Edit,
    Finding,
    Fix,
    Function,
    Group,
    Rule,
    Safety,
    Syncs,
    constant,
    only,
    where,
)
from amplint import libcst as cst

from .._shared.lightning import LIGHTNING_MODULES, in_lightning_module
from .._shared.reads import READS, hot_evidence, operand_read, tensor_read

if TYPE_CHECKING:
    from amplint import Source

# What may follow the read before the value is logged.
CONVERTING = frozenset({"item", "tolist", "cpu", "numpy", "detach"})


rule = Rule(
    "AMP614",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="hand the tensor itself to `self.log`",
    witness=Syncs(before=4, after=0),
    supersedes=("AMP101",),
    candidates=READS & where(lambda at: not at.bases.isdisjoint(LIGHTNING_MODULES)) & HOT,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    operand = operand_read(call, src)
    number = converted(call, src)
    if operand is None or not is_logged(number, src):
        return
    evidence = hot_evidence(call, tensor_read(call, src), src)
    if evidence is None:
        return
    message = f"`{src.brief(call)}` waits for the device, and `self.log` takes the tensor itself"
    fix = Fix("Log the tensor", (hand_over(operand, number, src),), Safety.UNSAFE)
    yield src.finding(rule, call, message, fix, evidence)


def converted(call: cst.Call, src: Source) -> cst.Call:
    """The whole of what is read and then converted: `x.cpu().item()` around `x.cpu()`."""
    attribute = src.parent(call)
    if isinstance(attribute, cst.Attribute) and attribute.attr.value in CONVERTING:
        outer = src.parent(attribute)
        if isinstance(outer, cst.Call) and outer.func is attribute:
            return converted(outer, src)
    return call


def is_logged(number: cst.Call, src: Source) -> bool:
    """Whether all that happens to a number is that Lightning logs it."""
    if src.assigned_name(number) is None:
        return logs(number, src)
    uses = src.uses(number)
    return bool(uses) and not src.joined(number) and all(logs(use, src) for use in uses)


def logs(value: cst.BaseExpression, src: Source) -> bool:
    """Ex) self.log("loss", value), self.log_dict({"loss": value})"""
    around = src.parent(value)
    if isinstance(around, cst.DictElement) and around.value is value:
        arg, name = src.parent(src.parent(around)), "log_dict"
    else:
        arg, name = around, "log"
    call = src.parent(arg)
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return False
    position, keyword = (0, "dictionary") if name == "log_dict" else (1, "value")
    bar = src.keyword(call, "prog_bar")
    return (
        call.func.attr.value == name
        and src.text(call.func.value) == "self"
        and src.argument(call, keyword, position) is arg
        and (bar is None or constant(src.value(bar.value)) is False)
        and not isinstance(only(src.value(call.func)), Function)
        and in_lightning_module(call, src)
    )


def hand_over(operand: cst.BaseExpression, number: cst.Call, src: Source) -> Edit:
    """Ex) loss.item() -> loss, float(loss) -> loss"""
    return src.edits.replace(number, src.text(operand))
