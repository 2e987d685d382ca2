"""A checkpoint of model and optimizer leaves out the state of the scaler.

After a restart, the scaler begins with the initial scale, 65536, and without its count of good
steps. If the scale had decreased before, the first steps are skipped, and the scale is halved after
each; if it had increased, small gradients are lost until the scale has increased again. The resumed
run differs from an uninterrupted one.

    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)

    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({**state, "scaler": scaler.state_dict()}, path)
    scaler.load_state_dict(torch.load(path)["scaler"])              # at a restart

Fix safety: there is no fix: the saved state also has to be loaded, and older checkpoints lack it.

A checkpoint is one that `torch.save` writes, or a function of a library that is handed model and
optimizer (`save(path, model=model, optimizer=optimizer)`). Where the project loads nothing, it has
to say how far the training is (`"epoch": epoch`), as what nobody goes on with does not.

Known limits: silent if the project anywhere saves the state of a scaler, or of an object that may
be one; saves a scaler, or an object that holds one, as a whole; or passes one to unknown code. A
common function has to lead to both the steps and the saving of the checkpoint, or both have to be
in methods of one class.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import MISUSED, Differs, Finding, Group, Rule, View, Violation
from amplint import libcst as cst

from .._shared.steps import places

rule = Rule(
    "AMP413",
    __doc__,
    group=Group.PRECISION,
    help="save `scaler.state_dict()` in the checkpoint, and load it when resuming",
    witness=Differs(rtol=0.1),
    violation=Violation.STATE_NOT_SAVED,
)


@rule.on(MISUSED)
def check(call: View) -> Iterator[Finding]:
    """Ex) torch.save({"optimizer": optimizer.state_dict()}, path); of a dict that is put together
    before it is saved, the call that returns the optimizer's part"""
    misuse = call.misuse(rule.violation)
    if misuse is None:
        return
    loss = "a resumed run has another scale"
    if call.method == "state_dict":
        message = f"`{call.brief}` is saved without the scaler's state: {loss}"
    else:
        message = f"`{call.called.brief}` leaves out the scaler: {loss}"
    yield call.finding(message, places(call, misuse), place=dict_around(call))


def dict_around(call: View) -> cst.CSTNode | None:
    """The dict that a call returns a part of; of several that are nested, the outer one. None where
    the call saves itself, or returns what is put into a dict afterwards."""
    if call.method != "state_dict":
        return None
    around = [
        each
        for each in call.source.ancestors(call.cst)
        if isinstance(each, cst.Dict | cst.DictComp)
    ]
    return around[-1] if around else None
