"""A loop inside one autocast region updates the weights: training is silently frozen.

Autocast casts a float32 weight once, where it is first used, and keeps the cast until the outermost
autocast context is left. If the loop over the batches is inside that context, every forward pass
uses the weights of the first one. The optimizer still updates the real weights, but the forward
passes do not see the updates.

    with torch.autocast("cuda"):              # one region around all steps
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()

    for x, y in loader:
        with torch.autocast("cuda"):          # one for each forward pass
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

A decorator around the function that holds the loop, and a region around the call of that function,
do the same. So does an outer context of another device type: the casts of correct regions inside it
are kept as long as it is open.

The same happens if weights are overwritten between two forward passes: by averaged weights
(`p.data.copy_(s)`), or by a checkpoint (`model.load_state_dict(...)`). The second pass uses the
weights of the first one, even under `no_grad`.

Fix safety: adds `cache_enabled=False`, so that weights are cast anew each time they are used;
unsafe, since the model then learns. It is better to move the region into the loop, around the
forward pass and the loss. Not offered for nested regions: remove the outer one.

Known limits: two forward passes of a model around one step of an optimizer, without a loop, are not
seen, nor is an outer region that is switched off (`enabled=False`) around right ones. Calls are
followed that run one function alone. For overwritten weights, the region has to be opened in the
function that runs both passes, or that calls the function which does, and an optimizer has to get
the weights through the name of the module.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Change, Differs, Finding, Fix, Group, Presumes, Rule, Safety, View, nodes
from amplint.knowledge.libraries import AUTOCASTS

from ._overwritten_weights import OverwrittenWeights
from ._regions import MAY_BE_REGION, opens_region

REMOVE_OUTER = "remove this outer region: the inner ones cast anew for each forward pass"
OPEN_INNER = "open one region for each forward pass, not one around both"

rule = Rule(
    "AMP302",
    __doc__,
    group=Group.CORRECTNESS,
    help="open the region inside the loop, around the forward pass and the loss",
    witness=Differs(rtol=0.1),
    changes=frozenset({Change.ROUNDING, Change.TRAINING}),
    supersedes=("AMP301", "AMP303"),
    presumes=Presumes.AUDITED,
)


@rule.on(nodes("context") & MAY_BE_REGION)
def check(context: View) -> Iterator[Finding]:
    stale = context.stale
    if stale is None:
        yield from check_overwritten(context)
        return
    message = f"`{context.brief}` reuses its first casts of the weights: nothing is learned"
    if stale.nested:
        yield context.finding(message, stale.because, help=REMOVE_OUTER)
    else:
        yield context.finding(message, stale.because, keep_no_casts(context))


def check_overwritten(context: View) -> Iterator[Finding]:
    """Ex) averaged weights that are swapped in between two forward passes"""
    changed = context.ask(OverwrittenWeights)
    if changed is None or context.mentions("clear_autocast_cache"):
        return
    message = f"`{context.brief}` keeps its cast of the old `{changed.name}`, which is overwritten"
    alone = sum(map(opens_region, context.contexts)) == 1
    fix = keep_no_casts(context) if alone else None
    yield context.finding(message, changed.because, fix, help=OPEN_INNER)


def keep_no_casts(context: View) -> Fix | None:
    """Ex) torch.autocast("cuda") -> torch.autocast("cuda", cache_enabled=False)"""
    if context.callee not in AUTOCASTS or context.has_star:
        return None
    edit = context.source.edits.add_argument(context.cst, "cache_enabled=False")
    return Fix("Do not cache casts of the weights", (edit,), Safety.UNSAFE)
