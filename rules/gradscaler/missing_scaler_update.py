"""A loop calls `scaler.step(optimizer)` without `scaler.update()` before the next step.

The scaler remembers that it has stepped until `update()` is called. Without it, the second
iteration raises, in `step` ("step() has already been called since the last update()") or in
`unscale_` ("unscale_() is being called after step()").

    for x, y in loader:
        ...
        scaler.scale(loss).backward()
        scaler.step(optimizer)             # raises in the second iteration

    for x, y in loader:
        ...
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

After `unscale_`, an iteration that skips the step needs `update()` too; only `update()` decreases
the scale. Infinite norms (`isfinite`) are normal in the first iterations.

    scaler.unscale_(optimizer)
    norm = clip_grad_norm_(model.parameters(), 1.0)
    if torch.isfinite(norm):
        scaler.step(optimizer)
        scaler.update()                    # after the first infinite norm, `unscale_` raises

Fix safety: unsafe: the program continues where it raised before, and `update()` may change the
scale.

Known limits: the step and its repetition have to be visible in one loop, directly or through
functions of the project. An unknown caller of a function that steps may call `update()` itself;
then the rule reports only if no other code can have the scaler (a variable or a field), and nothing
in the project updates it.
"""

from __future__ import annotations

from amplint import Change, Fix, Group, Misuse, Raises, Rule, View, Violation

from .._shared.steps import report, unsafe
from ._fixes import added, methods, scaler_of

rule = Rule(
    "AMP403",
    __doc__,
    group=Group.CORRECTNESS,
    help="call `scaler.update()` once after the steps of each iteration",
    witness=Raises("step() has already been called"),
    changes=frozenset({Change.TRAINING}),
    violation=Violation.MISSING_UPDATE,
)


def updated(call: View, misuse: Misuse) -> Fix | None:
    """Ex) scaler.step(optimizer) -> scaler.step(optimizer); scaler.update()"""
    scaler = scaler_of(call)
    if (
        call.method != "step"
        or misuse.inner
        or scaler is None
        or methods(scaler.text, "update", call)
    ):
        return None
    return unsafe("Update the scaler", added(call, f"{scaler.text}.update()"))


def message(call: View, _: Misuse) -> str:
    if call.method == "unscale_":
        return "`{call}` raises after an iteration without step and `update()`"
    return "no `update()` follows `{call}`, and the next iteration raises"


report(rule, message, updated)
