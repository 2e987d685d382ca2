"""A forward pass under `no_grad` takes the gradients of the next one in the same region (torch
before 2.11).

Autocast casts a weight once for each outermost region, and keeps the cast. Made under `no_grad`,
the cast has no graph, and the forward pass that follows it in the region uses it all the same: the
weights get no gradients, without a word, or `backward()` finds nothing to do and raises.

    with torch.autocast("cuda"):
        with torch.no_grad():
            guess = model(x)
        loss = criterion(model(x, guess), y)          # no gradients for the weights

    with torch.no_grad(), torch.autocast("cuda"):
        guess = model(x)
    with torch.autocast("cuda"):
        loss = criterion(model(x, guess), y)

`torch.clear_autocast_cache()` between the two does as well. Torch 2.11 repaired it: the rule speaks
only where the project says that it supports an older one, by `target-torch` or by its requirements
(`torch>=2.4`).

Fix safety: there is no fix; how regions are to be split is for the author.

Known limits: both passes have to be calls of the same module in one function. Modules whose weights
are not seen to be trained, by `name.parameters()`, and projects that mention
`clear_autocast_cache` or `cache_enabled`, are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    WITHIN_REGION,
    Classes,
    Finding,
    Group,
    NoGrad,
    Object,
    Presumes,
    Rule,
    Unrun,
    View,
    nodes,
    only,
)
from amplint import libcst as cst

from .._shared.forward import opens_region

if TYPE_CHECKING:
    from amplint import Source


rule = Rule(
    "AMP314",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="give the pass under `no_grad` an autocast region of its own",
    witness=Unrun(
        "seen on the CPU with torch 2.4.1 and 2.10.0, repaired in 2.11.0",
        "https://github.com/pytorch/pytorch/pull/165068",
    ),
    until="2.11",
    presumes=Presumes.AUDITED,
)


@rule.on(nodes("context") & WITHIN_REGION)
def check(context: View) -> Iterator[Finding]:
    if not forbids_gradients(context):
        return
    if context.mentions("clear_autocast_cache") or context.mentions("cache_enabled"):
        return
    src = context.source
    block, function = src.parent(src.parent(context.cst)), src.function(context.cst)
    if not isinstance(block, cst.With) or not isinstance(function, cst.FunctionDef):
        return
    if any(forbids_gradients(context.of(each.decorator)) for each in function.decorators):
        return
    end = src.span(block).end
    later = [call for call in calls_in(function.body, context) if call.span.start >= end]
    for first in calls_in(block.body, context):
        if first.enabled_region is None or not is_trained(first.operands[0]):
            continue
        second = next((call for call in later if repeats(call, first, block)), None)
        if second is not None and are_in_one_region(first, second):
            message = f"the casts of this pass leave `{second.brief}` without gradients"
            lost = second.related("this pass gets no gradients for the weights")
            yield first.finding(message, [lost])
            return


def forbids_gradients(context: View) -> bool:
    return isinstance(only(context.value), NoGrad)


def calls_in(node: cst.CSTNode, at: View) -> Iterator[View]:
    """The calls that run with a block, in the order of the text."""
    for child in node.children:
        if isinstance(child, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            continue
        call = at.of(child) if isinstance(child, cst.Call) else None
        if call is not None and call.op == "call":
            yield call
        yield from calls_in(child, at)


def are_in_one_region(first: View, second: View) -> bool:
    """Whether the outermost region around two calls is one, as far as their function shows."""
    opening = outermost_region(first)
    return second.enabled_region is not None and opening is outermost_region(second)


def outermost_region(call: View) -> cst.BaseExpression | None:
    """The outermost context around a call that casts; None where it is entered elsewhere."""
    opened = [each for each in call.contexts_around if opens_region(each) and each.region is None]
    return opened[-1].cst if opened else None


def repeats(second: View, first: View, block: cst.With) -> bool:
    """Whether a call runs the module of another one, with gradients, after its block."""
    called, src = second.operands[0], second.source
    if called.text != first.operands[0].text:
        return False
    if not src.variables.same_meaning(called.cst, first.cst):
        return False
    if any(map(forbids_gradients, second.contexts_around)):
        return False
    return is_followed(block, second.cst, src)


def is_followed(block: cst.With, later: cst.CSTNode, src: Source) -> bool:
    """Whether a node that stands further down may run after a block."""
    above = list(src.ancestors(later))
    if leaves(block.body):
        return False
    for around in src.ancestors(block):
        if any(around is each for each in above):
            # Of an `if` or a `try` itself, they are different branches.
            return isinstance(around, cst.IndentedBlock)
        if leaves(around):
            return False
    return False


def leaves(block: cst.CSTNode) -> bool:
    """Whether a block ends with a `return` or the like."""
    last = block.body[-1] if isinstance(block, cst.IndentedBlock) and block.body else None
    exits = (cst.Return, cst.Raise, cst.Continue, cst.Break)
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], exits)


def is_trained(module: View) -> bool:
    """Whether an expression is a module whose parameters some file hands on, but not to freeze."""
    atom = only(module.value)
    is_layer = isinstance(atom, Object) and atom.kind == "module"
    if not is_layer and not module.fact(Classes).is_module(module.value):
        return False
    name = re.escape(module.text.rpartition(".")[2])
    frozen = (
        rf"\bfor\b.*\b{name}\.(named_)?parameters\(",
        rf"\b{name}\b.*requires_grad",
        rf"freeze.*\b{name}\b",
    )
    handed_on = module.matches(rf"\b{name}\.parameters\(", "parameters(")
    return handed_on and not module.matches(
        "|".join(frozen), "parameters(", "requires_grad", "freeze"
    )
