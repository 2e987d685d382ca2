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
    Autocast,
    Classes,
    Finding,
    Group,
    NoGrad,
    Object,
    Rule,
    Unrun,
    nodes,
    only,
)
from amplint import libcst as cst

from .._shared.dtypes import enabled_region

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
    presumes=False,
    candidates=nodes("context") & (lambda at: isinstance(only(at.value), NoGrad)) & WITHIN_REGION,
)


@rule.check
def check(block: cst.With, src: Source) -> Iterator[Finding]:
    function = src.function(block)
    if not isinstance(function, cst.FunctionDef) or not forbids_gradients(block, src):
        return
    if src.mentions("clear_autocast_cache") or src.mentions("cache_enabled"):
        return
    if any(isinstance(only(src.value(each.decorator)), NoGrad) for each in function.decorators):
        return
    end = src.span(block).end
    later = [call for call in calls_in(function.body) if src.span(call).start >= end]
    for first in calls_in(block.body):
        region = region_of(first, src)
        if region is None or not is_trained(first.func, src):
            continue
        second = next((call for call in later if repeats(call, first, block, src)), None)
        if second is not None and region_of(second, src) is region:
            message = f"the casts of this pass leave `{src.brief(second)}` without gradients"
            related = (src.related_node(second, "this pass gets no gradients for the weights"),)
            yield src.finding(rule, first, message, related=related)
            return


def forbids_gradients(block: cst.With, src: Source) -> bool:
    return any(isinstance(only(src.value(item.item)), NoGrad) for item in block.items)


def calls_in(node: cst.CSTNode) -> Iterator[cst.Call]:
    """The calls that run with a block, in the order of the text."""
    for child in node.children:
        if isinstance(child, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            continue
        if isinstance(child, cst.Call):
            yield child
        yield from calls_in(child)


def blocks_around(node: cst.CSTNode, src: Source) -> Iterator[cst.With]:
    """The `with`s around a node in its function."""
    for around in src.ancestors(node):
        if isinstance(around, cst.FunctionDef | cst.Lambda):
            return
        if isinstance(around, cst.With):
            yield around


def region_of(call: cst.Call, src: Source) -> cst.CSTNode | None:
    """The outermost context around a call, as far as its function shows: a `with`, or the
    function itself; None where autocast does not cast."""
    if enabled_region(call, src) is None:
        return None
    opening: cst.CSTNode | None = src.function(call)
    for block in blocks_around(call, src):
        context = next((i.item for i in block.items if is_region(i.item, src)), None)
        if context is not None and src.region(context) is None:
            opening = block
    return opening


def is_region(context: cst.BaseExpression, src: Source) -> bool:
    return any(isinstance(atom, Autocast) for atom in src.value(context))


def repeats(second: cst.Call, first: cst.Call, block: cst.With, src: Source) -> bool:
    """Whether a call runs the module of another one, with gradients, after its block."""
    if src.text(second.func) != src.text(first.func) or not src.variables.same_meaning(
        second.func, first
    ):
        return False
    if any(forbids_gradients(around, src) for around in blocks_around(second, src)):
        return False
    return is_followed(block, second, src)


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


def is_trained(module: cst.BaseExpression, src: Source) -> bool:
    """Whether an expression is a module whose parameters some file hands on, but not to freeze."""
    atom = only(src.value(module))
    if not src.fact(Classes).is_module(src.value(module)) and not (
        isinstance(atom, Object) and atom.kind == "module"
    ):
        return False
    name = re.escape(src.text(module).rpartition(".")[2])
    frozen = (
        rf"\bfor\b.*\b{name}\.(named_)?parameters\(",
        rf"\b{name}\b.*requires_grad",
        rf"freeze.*\b{name}\b",
    )
    handed_on = src.matches(rf"\b{name}\.parameters\(", "parameters(")
    return handed_on and not src.matches("|".join(frozen), "parameters(", "requires_grad", "freeze")
