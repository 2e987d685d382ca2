"""Adam, or a similar optimizer, steps on float16 parameters, where its epsilon is 0.

The optimizer divides by the root of squared gradients plus `eps`, which prevents a division by 0.
It keeps and computes all of this in the dtype of the parameters. In float16 the square of a
gradient below 2e-4 is 0, and so is the default `eps` of 1e-8: the first step makes weights
infinite, or nan where the gradient is 0.

    model = Net().cuda().half()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(x.half()).mean().backward()
    optimizer.step()                                    # -inf, nan

    model = Net().cuda()                                # float32 parameters
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(x).mean()
    loss.backward()
    optimizer.step()

Fix safety: there is no fix: float32 parameters with autocast are another program, and an `eps` that
float16 can represent (1e-4) is another optimizer.

Known limits: the cast, the optimizer and the step have to be on the paths of one function and the
functions that it calls. The optimizer has to get `model.parameters()`, or parameters that are
selected from them there, or by a function that does nothing else: in lists, groups, chains,
`filter`. If the function freezes parameters, or casts or replaces a part of the module, selected
parameters may be float32, and the rule is silent. A module is not reported if it is passed to an
unknown function after the cast, or if its parameters are looped over for more than a selection, as
it may be float32 again. Optimizers that are `fused` or `capturable`, which compute in float32 or
scale their epsilon, and optimizers that a framework wraps, are not reported either.
"""

from __future__ import annotations

from amplint import Differs, Group, Rule, Violation

from .._shared.steps import report

rule = Rule(
    "AMP804",
    __doc__,
    group=Group.CORRECTNESS,
    help="keep the parameters in float32 and compute under autocast, or use an `eps` of 1e-4",
    witness=Differs(rtol=0.1),
    violation=Violation.EPSILON_OF_ZERO,
)
report(rule, "`{call}` divides by 0 for small gradients: `eps` is 0 in float16")
