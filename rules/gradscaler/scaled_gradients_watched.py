"""`wandb.watch` logs gradients that are still multiplied by the scale of a GradScaler.

It hangs a hook on each parameter, which runs in the backward pass: before any `scaler.unscale_`.
The histograms show the gradients times the scale, and jump where the scale changes.

    wandb.watch(model)
    scaler.scale(loss).backward()

    wandb.watch(model, log="parameters")     # the norm of the gradients after unscale_ by hand

Fix safety: none is offered: the shape of the histograms is right.

Known limits: the scaler has to be used, or made, in the function that calls `wandb.watch`.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Finding, Group, Rule, Unrun, View, calls, constant
from amplint.knowledge.libraries import SCALERS

from .._shared.scalers import scaler_at

OF_GRADIENTS = (
    "gradients",
    "all",
)  # what `log`, the third parameter, may ask for; the default first

rule = Rule(
    "AMP421",
    __doc__,
    group=Group.PEDANTIC,
    help="log the gradients after `scaler.unscale_(optimizer)`, or remember the scale",
    witness=Unrun(
        "wandb is not installed here",
        "wandb/integration/torch/wandb_torch.py of wandb 0.31: _hook_variable_gradient_stats",
    ),
)


@rule.on(calls("wandb.watch"))
def check(call: View) -> Iterator[Finding]:
    log = call.arg("log", 2)
    if log is not None and constant(log.value) not in OF_GRADIENTS:
        return
    scaler = next((each for each in call.operations("call") if is_of_scaler(each)), None)
    if scaler is not None:
        because = (scaler.related("the scaler"),)
        yield call.finding(
            f"`{call.brief}` logs gradients that are multiplied by the scale", because
        )


def is_of_scaler(call: View) -> bool:
    """Whether a call makes a scaler that may be on, or scales a loss by one."""
    at = call if call.callee in SCALERS else call.receiver if call.method == "scale" else None
    scaler = scaler_at(at)
    return scaler is not None and scaler.enabled is not False
