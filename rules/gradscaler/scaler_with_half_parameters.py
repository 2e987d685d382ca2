"""A GradScaler is used with parameters in float16.

The gradients of float16 parameters are float16, and the scaler refuses to divide them: "Attempting
to unscale FP16 gradients." In mixed precision the weights stay float32, because float16 loses the
small steps of an optimizer; only autocast computes in half.

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

Fix safety: none is offered; a region has to be opened around the forward pass, and the casts of the
module's inputs have to be removed.

Known limits: the cast, the optimizer and the step have to be on the paths of one function and the
functions that it calls. A module is not reported if it is passed to an unknown function after the
cast, or if its parameters are looped over for more than selecting them for the optimizer, as it may
be float32 again. Selected parameters are not reported if the function freezes some, or casts or
replaces a part of the module. For accelerate's scaler, the step of an optimizer that `prepare`
returned is reported, if the code itself asks for float16 and no function there mentions DeepSpeed.
"""

from __future__ import annotations

from amplint import Group, Raises, Rule, Violation

from .._shared.steps import report

rule = Rule(
    "AMP410",
    __doc__,
    group=Group.CORRECTNESS,
    help="keep the parameters in float32, and let autocast compute in float16",
    witness=Raises("Attempting to unscale FP16 gradients"),
    violation=Violation.HALF_PARAMETERS,
)
report(rule, "`{call}` raises: the parameters and their gradients are float16")
