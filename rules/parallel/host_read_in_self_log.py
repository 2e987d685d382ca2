"""A tensor is read by the host in every training step, only to be logged by Lightning.

`self.log` takes tensors: it detaches them, keeps them on the device, and reads them when a logger
asks, every 50 steps by default. With `.item()`, `float()` or `.cpu()` the host waits for
the device in every step instead.

    self.log("loss", loss.item())

    self.log("loss", loss)

The same holds for the dict of `self.log_dict`, and for a variable that is used only for the log.

Fix safety: passes the tensor itself. Unsafe: a callback or a project's own logger may then get a
tensor.

Known limits: with `prog_bar=True` the progress bar reads the value in every step anyway; AMP101
reports this, and also a number that is used in a computation before it is logged. In evaluation,
AMP102 reports the read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import HOT, Finding, Fix, Function, Group, Rule, Safety, Syncs, View, constant, only
from amplint import libcst as cst

from .._shared.lightning import in_lightning_module
from .._shared.reads import READS, operand_of_read, read_of_batches, tensor_of_read

if TYPE_CHECKING:
    from amplint import Source

# What may follow the read before the value is logged.
CONVERTING = frozenset({"item", "tolist", "cpu", "numpy", "detach"})


rule = Rule(
    "AMP614",
    __doc__,
    group=Group.PERFORMANCE,
    help="pass the tensor itself to `self.log`",
    witness=Syncs(before=4, after=0),
    supersedes=("AMP101",),
)


@rule.on(READS & HOT)
def check(call: View) -> Iterator[Finding]:
    operand = operand_of_read(call) if in_lightning_module(call) else None
    evidence = read_of_batches(call, tensor_of_read(call)) if operand is not None else None
    if operand is None or evidence is None:
        return
    number = converted(call.cst, call.source)
    if not is_logged(call.of(number)):
        return
    message = f"`{call.brief}` waits for the device, but `self.log` accepts the tensor itself"
    edit = call.source.edits.replace(number, operand.text)
    yield call.finding(message, evidence, Fix("Log the tensor", (edit,), Safety.UNSAFE))


def converted(call: cst.Call, src: Source) -> cst.Call:
    """The whole of what is read and then converted: `x.cpu().item()` around `x.cpu()`."""
    outer = src.layout.call_on(call)
    if outer is not None and src.text(outer.func).rpartition(".")[2] in CONVERTING:
        return converted(outer, src)
    return call


def is_logged(number: View) -> bool:
    """Whether all that happens to a number is that Lightning logs it."""
    src = number.source
    if src.assigned_name(number.cst) is None:
        return is_given_to_log(number)
    uses = src.variables.uses(number.cst)
    return bool(uses) and not number.is_merged and all(map(is_given_to_log, map(number.of, uses)))


def is_given_to_log(value: View) -> bool:
    """Ex) self.log("loss", value), self.log_dict({"loss": value})"""
    src = value.source
    arg, method, position, keyword = src.parent(value.cst), "log", 1, "value"
    if isinstance(arg, cst.DictElement):
        arg = src.parent(src.parent(arg))
        method, position, keyword = "log_dict", 0, "dictionary"
    node = src.parent(arg)
    if not isinstance(node, cst.Call) or src.argument(node, keyword, position) is not arg:
        return False
    call = value.of(node)
    bar = call.arg("prog_bar")
    return (
        call.method == method
        and call.receiver is not None
        and call.receiver.text == "self"
        and (bar is None or constant(bar.value) is False)
        and not isinstance(only(call.called.value), Function)
    )
