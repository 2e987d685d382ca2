"""A loop inside one autocast region updates the weights: training is frozen, without a word.

Autocast casts a float32 weight once, where it is first used, and keeps the cast until the outermost
autocast context is left. Where the loop over the batches stands inside that context, every forward
pass uses the weights of the first one. The optimizer goes on to move the real ones; the loss does
not follow.

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
do the same. So does an outer context that is switched off (`enabled=False`) or of another device
type: the casts that correct regions inside of it make are kept as long as it is open.

Fix safety: adds `cache_enabled=False`, so that weights are cast anew each time they are used;
unsafe, since the model learns from then on. Better is to move the region into the loop, around the
forward pass and the loss. Not offered where regions lie within each other: remove the outer one.

Known limits: two forward passes of a model around one update, without a loop, are not seen, nor are
weights that change otherwise (`load_state_dict`, averaging).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amplint import (
    CastCache,
    Change,
    Differs,
    Finding,
    Fix,
    Group,
    Rule,
    Safety,
    Stale,
    nodes,
)
from amplint import libcst as cst
from amplint.knowledge.libraries import AUTOCASTS

if TYPE_CHECKING:
    from amplint import Source

REMOVE_OUTER = "remove this outer region: those inside it cast by themselves, for each forward pass"

rule = Rule(
    "AMP302",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="open the region inside the loop, around the forward pass and the loss",
    witness=Differs(rtol=0.1),
    changes=frozenset({Change.ROUNDING, Change.TRAINING}),
    supersedes=("AMP301", "AMP303"),
    presumes=False,
    candidates=nodes("context") & (lambda at: at.is_stale),
)


@rule.check
def check_with(item: cst.WithItem, src: Source) -> Iterator[Finding]:
    yield from check(item.item, src)


@rule.check
def check_decorator(decorator: cst.Decorator, src: Source) -> Iterator[Finding]:
    yield from check(decorator.decorator, src)


def check(context: cst.BaseExpression, src: Source) -> Iterator[Finding]:
    at, place = src.at(context), src.place(context)
    if at is None or place is None:
        return
    stale = src.fact(CastCache).of_context(at, place)
    if stale is None:
        return
    message = f"training is frozen: `{src.brief(context)}` keeps the first casts of the weights"
    places = (stale.loop, stale.update, stale.forward, *stale.backwards)
    related = tuple(src.related(evidence) for evidence in places)
    found = src.finding(rule, context, message, keep_no_casts(context, stale, src), related)
    yield replace(found, help=REMOVE_OUTER) if stale.nested else found


def keep_no_casts(context: cst.BaseExpression, stale: Stale, src: Source) -> Fix | None:
    """Ex) torch.autocast("cuda") -> torch.autocast("cuda", cache_enabled=False)"""
    if stale.nested or not isinstance(context, cst.Call) or src.has_star(context):
        return None
    if src.name(context.func) not in AUTOCASTS:
        return None
    edit = src.edits.add_argument(context, "cache_enabled=False")
    if edit is None:
        return None
    return Fix("Keep no casts of the weights", (edit,), Safety.UNSAFE)
