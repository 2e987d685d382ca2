"""`scaler.unscale_(optimizer)` is called a second time before `scaler.update()`.

The scaler refuses to divide the same gradients twice: RuntimeError, "unscale_() has already been
called on this optimizer since the last update()".

    scaler.unscale_(optimizer)
    log(grad_norm(model))
    scaler.unscale_(optimizer)                       # raises
    clip_grad_norm_(model.parameters(), 1.0)

    scaler.unscale_(optimizer)
    log(grad_norm(model))
    clip_grad_norm_(model.parameters(), 1.0)

Fix safety: safe if the first call is in the same block, before the second: then the second could
only raise. None is offered otherwise, or if the error is caught.

Known limits: reported only if every path from the first call to the second is wrong.
"""

from __future__ import annotations

from amplint import Fix, Group, Misuse, Raises, Rule, View, Violation

from .._shared.guards import is_caught
from .._shared.steps import report
from ._fixes import other, own_line

DOMINATED = "the first call is in the same block, before the second"
UNCAUGHT = "nothing around it catches the error"

rule = Rule(
    "AMP405",
    __doc__,
    group=Group.CORRECTNESS,
    help="unscale an optimizer once between two updates of the scaler",
    witness=Raises("unscale_() has already been called"),
    safe_if=(DOMINATED, UNCAUGHT),
    violation=Violation.UNSCALED_TWICE,
)


def once(call: View, misuse: Misuse) -> Fix | None:
    """Ex) scaler.unscale_(opt); ...; scaler.unscale_(opt) -> scaler.unscale_(opt); ..."""
    src, first, line = call.source, other(call, misuse), own_line(call)
    before = own_line(first) if first is not None else None
    if line is None or before is None or src.parent(before) is not src.parent(line):
        return None
    if is_caught(call):
        return None
    edit = src.edits.remove_statement(line.body[0])
    return Fix.safe_if("Unscale once", (edit,), {DOMINATED: True, UNCAUGHT: True})


report(rule, "`{call}` raises: the gradients are unscaled already", once)
