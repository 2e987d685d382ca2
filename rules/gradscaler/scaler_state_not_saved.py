"""A checkpoint of model and optimizer leaves out the state of the scaler.

A restart then begins with the scale that a new scaler has, 65536, and forgets how long the last one
has been good for. Where training had come down to a smaller one, the first steps are skipped, after
each of which the scale is halved; where it had gone up, small gradients are lost until it is there
again. The resumed run differs from an uninterrupted one.

    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)

    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({**state, "scaler": scaler.state_dict()}, path)
    scaler.load_state_dict(torch.load(path)["scaler"])              # at a restart

Fix safety: there is no fix: what is saved has to be loaded, and older checkpoints lack it.

Known limits: silent about a project that saves the state of a scaler, or of what may be one,
anywhere; that saves a scaler, or an object that holds one, as a whole; or that hands one to
something unknown. The steps have to be made, and the checkpoint saved, below a common function, or
by methods of one class.
"""

from __future__ import annotations

from amplint import Differs, Group, Misuse, Rule, View, Violation

from .._shared.steps import report

rule = Rule(
    "AMP413",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="save `scaler.state_dict()` in the checkpoint, and load it at a restart",
    witness=Differs(rtol=0.1),
    violation=Violation.STATE_NOT_SAVED,
)


def leaves_out(call: View, _: Misuse) -> str:
    """The message about a call that saves, or that gives the optimizer's part of a state."""
    shown = "{call}" if call.method == "state_dict" else "{function}"
    return f"`{shown}` leaves out the scaler: a resumed run has another scale"


report(rule, leaves_out)
