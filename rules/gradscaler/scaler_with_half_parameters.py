"""A GradScaler is used with parameters in float16.

The gradients of float16 parameters are float16, and the scaler refuses to divide them: "Attempting
to unscale FP16 gradients." The weights stay float32 in mixed precision, for the small steps of an
optimizer are lost in float16; it is autocast that computes in half.

    model = Net().cuda().half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler.scale(model(x.half()).mean()).backward()
    scaler.step(optimizer)                           # raises

    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)

Fix safety: none is offered; the region has to be opened around the forward pass, and what was cast
for the module is not to be cast any more.

Known limits: the cast, the optimizer and the step have to be met on the paths of one function and
of what it calls. A module that is handed to an unknown function after the cast, or whose parameters
are looped over and not just picked out for the optimizer, is left alone, as it may be float32
again; so are parameters that are picked out where the function freezes some, or casts or replaces a
part of the module. Of accelerate's scaler, the step of an optimizer that `prepare` has returned is
reported, where the code itself asks for float16 and no function there speaks of DeepSpeed.
"""

from __future__ import annotations

from amplint import Group, Raises, Rule, Violation

from .._shared.steps import report

rule = Rule(
    "AMP410",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="keep the parameters in float32, and let autocast compute in float16",
    witness=Raises("Attempting to unscale FP16 gradients"),
    violation=Violation.HALF_PARAMETERS,
)
report(rule, "`{call}` raises: the parameters and their gradients are float16")
