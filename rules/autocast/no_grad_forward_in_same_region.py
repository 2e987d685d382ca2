"""A forward pass under `no_grad` removes the gradients of the next one in the same region (torch
before 2.11).

Autocast casts a weight once for each outermost region, and keeps the cast. A cast under `no_grad`
has no graph, but the next forward pass in the region still uses it: the weights silently get no
gradients, or `backward()` has nothing to do and raises.

    with torch.autocast("cuda"):
        with torch.no_grad():
            guess = model(x)
        loss = criterion(model(x, guess), y)          # no gradients for the weights

    with torch.no_grad(), torch.autocast("cuda"):
        guess = model(x)
    with torch.autocast("cuda"):
        loss = criterion(model(x, guess), y)

Calling `torch.clear_autocast_cache()` between the two also helps. Torch 2.11 fixed this: the rule
reports only if the project declares support for an older version, by `target-torch` or by its
requirements (`torch>=2.4`).

Fix safety: there is no fix; the author has to decide how to split the regions.

Either pass may be in a called function (`past = self.history(frames)`).

Known limits: both passes have to use the same module, and to be called from one function. The
weights have to be visibly trained: by an optimizer that gets `name.parameters()`, or all parameters
of the object that holds the module. Projects that mention `clear_autocast_cache` or
`cache_enabled` are not reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from amplint import IN_REGION, Finding, Group, Presumes, Rule, Unrun, View, nodes

rule = Rule(
    "AMP314",
    __doc__,
    group=Group.CORRECTNESS,
    help="give the pass under `no_grad` its own autocast region",
    witness=Unrun(
        "seen on the CPU with torch 2.4.1 and 2.10.0, fixed in 2.11.0",
        "https://github.com/pytorch/pytorch/pull/165068",
    ),
    until="2.11",
    presumes=Presumes.AUDITED,
)


@rule.on(nodes("call") & IN_REGION)
def check(call: View) -> Iterator[Finding]:
    if call.lost is None:
        return
    later, lost = call.lost
    if call.mentions("clear_autocast_cache") or call.mentions("cache_enabled"):
        return
    if not is_frozen(call, lost.name, lost.by_name):
        message = f"`{later.brief}` gets no gradients: it reuses the casts of this `no_grad` pass"
        yield call.finding(message, lost.because)


def is_frozen(call: View, module: str, by_name: bool) -> bool:
    """Whether some file says of a module that it is not trained.

    Args:
        by_name: whether its parameters are handed on by its name, and not only with all others.
    """
    name = re.escape(module)
    says = [
        rf"\bfor\b.*\b{name}\.(named_)?parameters\(",
        rf"\b{name}\b.*requires_grad",
        rf"freeze.*\b{name}\b",
    ]
    if not by_name:
        says += [rf"\b{name}\b.*\beval\(", rf"\b{name}\b.*freeze"]
    return call.matches("|".join(says), "parameters(", "requires_grad", "freeze", "eval(")
