"""A loss that a scaler has multiplied by its scale is reported as the loss.

It is the loss times the scale: 65536 times too large at first, and another factor each time that
the scaler changes the scale. A curve of it shows the scale, above all; a threshold, a search for
the best model or a scheduler that is given it goes by the scale too. The gradients are right, so
that training works.

    loss = scaler.scale(loss)
    loss.backward()
    total += loss.item()                    # 65536 times as large as the loss

    scaler.scale(loss).backward()
    total += loss.item()

Found are reads (`.item()`, `.detach()`, `float()`), prints, logs and comparisons, and what is kept
or handed on after its backward pass, also where a function returns it to who does so.

Fix safety: unsafe, since the numbers that are reported change, as is meant. Offered where the
statement `loss = scaler.scale(loss)` stands in the block of the only `loss.backward()`.

Known limits: the attributes of an object, and the items of a list, are not followed. Silent where a
function on the way has a name that ends in `_scale`, for it may divide by it, unless that is only a
factor of terms of the loss before it is scaled (`args.aux_loss_scale * aux`); where another test
names what decides whether the loss is scaled; and where it is only asked whether it is finite.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Differs, Finding, Fix, Group, ReportedLosses, Rule, Safety, View, calls
from amplint import libcst as cst

rule = Rule(
    "AMP419",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
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
    removal = src.edits.remove_statement(assign)
    if scaled.text != loss.text or removal is None:
        return None
    edits = (removal, src.edits.replace(scaled.cst, call.text))
    return Fix("Scale in the statement of the backward pass", edits, Safety.UNSAFE)


def backwards_of(call: View) -> Iterator[View]:
    """The result of a call on which `backward()` is called."""
    for method in call.uses:
        if method.op == "attr" and method.method == "backward":
            yield from method.operands
