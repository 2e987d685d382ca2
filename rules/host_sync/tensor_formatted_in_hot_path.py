"""A tensor on the device is turned into text in every iteration of a training loop.

`print(loss)`, an f-string, `"%s" % loss`, `logger.info("%s", loss)` and `set_postfix(loss=loss)`
copy the tensor to the host to format it, and so wait for the device.

    for step, batch in enumerate(loader):
        loss = train_step(batch)
        print(f"loss {loss}")             # waits at every step

    for step, batch in enumerate(loader):
        loss = train_step(batch)
        if step % 50 == 0:
            print(f"loss {loss}")         # waits now and then

Fix safety: none is offered; the author has to choose which steps to report.

Known limits: as for AMP101. A logger is recognised by its origin (`logging`, a module's `logger`),
or by the name of its method together with a constant text as the first argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from amplint import HOT, Finding, Group, Rule, Syncs, View, calls, nodes
from amplint import libcst as cst

from .._shared.reads import hot_tensor, read_of_batches
from ._formatting import FORMATTING_BUILTINS, FORMATTING_METHODS, LOGGING, in_call, in_percent

if TYPE_CHECKING:
    from .._shared.reads import Reasons

# A warning is there for what should not happen.
RARE = frozenset({"warnings.warn"})


rule = Rule(
    "AMP104",
    __doc__,
    group=Group.PERFORMANCE,
    help="format it every N steps, not in each",
    witness=Syncs(before=4, after=1),
)


@rule.on(nodes("fstring") & HOT)
def check_fstring(at: View) -> Iterator[Finding]:
    """One finding for each of the strings that are written one after the other."""
    reported: list[cst.CSTNode | None] = []
    for operand, reasons in reads(at.operands):
        if is_rare(at):
            return
        string = at.source.layout.innermost(operand.cst, (cst.FormattedString,))
        if string not in reported:
            reported.append(string)
            yield at.finding(message(operand), reasons, place=string)


@rule.on((calls(*FORMATTING_BUILTINS, *LOGGING, *FORMATTING_METHODS) | nodes("binop")) & HOT)
def check(at: View) -> Iterator[Finding]:
    """One finding for the first of the operands that is a tensor on the device."""
    for operand, reasons in reads(in_percent(at) if at.op == "binop" else in_call(at)):
        yield at.finding(message(operand), reasons)
        return


def reads(operands: Sequence[View]) -> Iterator[tuple[View, Reasons]]:
    """Those of the operands that are tensors on the device, and why the host waits for them."""
    for operand in operands:
        reasons = read_of_batches(operand, hot_tensor(operand))
        if reasons is not None:
            yield operand, reasons


def message(operand: View) -> str:
    return f"formatting `{operand.brief}` waits for the device in every iteration"


def is_rare(at: View) -> bool:
    return any(at.of(around).callee in RARE for around in at.source.ancestors(at.cst))
