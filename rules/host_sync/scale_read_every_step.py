"""The scale of a GradScaler is read by the host in every iteration of a training loop.

The scale is a tensor on the device. `scaler.get_scale()` copies it to the host, and so waits until
the device has caught up, as `scaler.step()` does once per step already.

    scaler.step(optimizer)
    scaler.update()
    log("scale", scaler.get_scale())              # waits at every step

    scaler.step(optimizer)
    scaler.update()
    if step % 50 == 0:
        log("scale", scaler.get_scale())          # waits now and then

The rule is pedantic, because this is the only public way to find out that a step was skipped
(`before = scaler.get_scale(); scaler.update(); skipped = scaler.get_scale() < before`), which a
scheduler of the learning rate has to know.

Fix safety: none is offered; the author has to choose which steps need the scale.

Known limits: a scaler whose construction is not visible (a parameter of a function that nobody
calls, a field of another library's object) is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import CPU, HOT, Finding, Group, Object, Rule, Syncs, View, calls, only

from .._shared.reads import heat_of_training

rule = Rule(
    "AMP112",
    __doc__,
    group=Group.PEDANTIC,
    help="read the scale every N steps, not in each",
    witness=Syncs(before=16, after=8),  # `scaler.step` reads once per step in any case
)


@rule.on(calls(".get_scale") & HOT)
def check(call: View) -> Iterator[Finding]:
    scaler = only(call.receiver.value) if call.receiver is not None else None
    if not isinstance(scaler, Object) or scaler.kind != "scaler":
        return
    heat = heat_of_training(call)
    # Switched off, or at home on the host, a scaler waits for nothing.
    if heat is None or scaler.enabled is False or scaler.device.kind == CPU.kind:
        return
    message = f"`{call.brief}` reads the scale from the device in every iteration"
    yield call.finding(message, heat.chain)
