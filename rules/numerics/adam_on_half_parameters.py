"""Adam, or a kin of it, makes its step on parameters in float16, where its epsilon is 0.

The optimizer divides by the root of squared gradients, plus `eps` lest that be 0. It keeps and
computes all of this in the dtype of the parameters. In float16 the square of a gradient below 2e-4
is 0, and so is the default `eps` of 1e-8: the first step makes weights infinite, or nan where the
gradient is 0.

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

Fix safety: there is no fix: parameters in float32 and autocast are another program, and an `eps`
that float16 has (1e-4) is another optimizer.

Known limits: the cast, the optimizer and the step have to be met on the paths of one function and
of what it calls, and the optimizer has to be given `model.parameters()`, or what is picked out of
them there, or by a function that does nothing else: in lists, groups, chains, `filter`. Where the
function freezes parameters, or casts or replaces a part of the module, those that are picked out
may be float32, and nothing is said. A module that is handed to an unknown function after the cast,
or whose parameters are looped over for more than that, is left alone, as it may be float32 again;
so are optimizers that are `fused` or `capturable`, which compute in float32 or scale their epsilon,
and those that a framework wraps.
"""

from __future__ import annotations

from amplint import Differs, Group, Rule, Violation

from .._shared.steps import report

rule = Rule(
    "AMP804",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="keep the parameters in float32 and compute under autocast, or use an `eps` of 1e-4",
    witness=Differs(rtol=0.1),
    violation=Violation.EPSILON_OF_ZERO,
)
report(rule, "`{call}` divides by 0 for small gradients: `eps` is 0 in float16")
