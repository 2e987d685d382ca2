"""A loss that a scaler has multiplied by its scale is logged or used as if it were the loss.

The value is the loss times the scale: 65536 times too large at first, and with another factor
whenever the scale changes. A curve of it mostly shows the scale. The gradients are right, so
training works.

    loss = scaler.scale(loss)
    loss.backward()
    total += loss.item()                    # 65536 times as large as the loss

    scaler.scale(loss).backward()
    total += loss.item()

Found are prints and logs, and losses that are added up, stored or passed on after their backward
pass, or after `.item()`, `.detach()` or `float()`, even if a function returns the loss to a caller
that does so.

Fix safety: unsafe, since the reported numbers change, as intended. Offered if the statement `loss =
scaler.scale(loss)` is in the same block as the only `loss.backward()`.

Known limits: attributes of objects, items of lists and arguments of the project's own functions are
not followed. Silent if a function on the way uses a name that ends in `_scale`, because it may
divide by it; where the report stands under another test of what decides whether the loss is scaled;
and if the code only compares the loss, or tests whether it is finite.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    Differs,
    Finding,
    Fix,
    Group,
    Rule,
    Safety,
    View,
    calls,
)
from amplint import libcst as cst

from ._scaled_losses import ReportedLosses

rule = Rule(
    "AMP419",
    __doc__,
    group=Group.CORRECTNESS,
    help="write `scaler.scale(loss).backward()`, and report the loss itself",
    witness=Differs(0.5),
    supersedes=("AMP101",),
    preview=True,
)


@rule.on(calls(".scale"))
def check(call: View) -> Iterator[Finding]:
    """Ex) loss = scaler.scale(loss), and then `total += loss.item()`"""
    report = call.ask(ReportedLosses)
    if report is not None:
        message = f"`{call.brief}` is reported as the loss, but multiplied by the scale"
        yield call.finding(message, (report,), scale_in_backward(call))


def scale_in_backward(call: View) -> Fix | None:
    """Ex) loss = scaler.scale(loss), then loss.backward() -> scaler.scale(loss).backward()"""
    src = call.source
    assign, backwards = src.parent(call.cst), list(backwards_of(call))
    if not isinstance(assign, cst.Assign) or len(backwards) != 1:
        return None
    [(_, _, loss)], scaled = call.arguments, backwards[0]
    names = {src.text(target.target) for target in assign.targets}
    block = src.parent(src.statement(assign))
    if names != {loss.text} or block is not src.parent(src.statement(scaled.cst)):
        return None
    if scaled.text != loss.text:
        return None
    edits = (src.edits.remove_statement(assign), src.edits.replace(scaled.cst, call.text))
    return Fix("Scale in the statement of the backward pass", edits, Safety.UNSAFE)


def backwards_of(call: View) -> Iterator[View]:
    """The result of a call on which `backward()` is called."""
    for method in call.uses:
        if method.op == "attr" and method.method == "backward":
            yield from method.operands
