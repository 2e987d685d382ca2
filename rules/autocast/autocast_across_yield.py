"""A generator holds a region open while its caller runs.

The state of autocast belongs to the thread, not to the function. At a `yield` in a region the
caller goes on in it: its products are half, although it opened no region. If it stops iterating,
the region stays open until the generator is collected, and is then closed wherever that is.

    def predict(model, loader):
        for x in loader:
            with torch.autocast("cuda"):
                yield model(x)                        # the caller computes in the region

    def predict(model, loader):
        for x in loader:
            with torch.autocast("cuda"):
                output = model(x)
            yield output

The same holds for `await`: other tasks run in the region meanwhile. And the other way round, a
decorator does nothing for a generator or a coroutine, whose body runs after the region has ended.

Fix safety: there is no fix; what belongs into the region is for the author.

Known limits: functions with decorators that are not known may be made into context managers, and
are left alone. So are regions that an `ExitStack` opens, and generators that all callers iterate in
a region.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Autocast, Dtype, Finding, Group, Rule, Spot, nodes
from amplint import libcst as cst

from .._shared.dtypes import enabled_region
from .._shared.suspensions import suspensions

if TYPE_CHECKING:
    from amplint import Source

# Decorators that leave a generator what it is.
PLAIN = ("torch.", "builtins.", "functools.", "typing.")


def suspends_in_region(at: Spot) -> bool:
    """Whether a generator or coroutine opens a region, or is decorated with one."""
    if not at.facts.is_async and not at.graph.yields:
        return False
    return (
        any(isinstance(a, Autocast) for a in at.decorators) or next(at.contexts, None) is not None
    )


rule = Rule(
    "AMP311",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="open the region inside the body, and close it before each `yield` or `await`",
    witness=Dtype(bad="bfloat16", good="float32"),
    candidates=nodes("function") & suspends_in_region,
)


@rule.check
def check_with(block: cst.With, src: Source) -> Iterator[Finding]:
    context = region_of(block, src)
    place = next(suspensions(block.body), None) if context is not None else None
    if (
        context is None
        or place is None
        or any(region_of(b, src) for b in blocks_around(block, src))
    ):
        return
    waits = isinstance(place, cst.Await | cst.For)
    if not waits and (makes_context(block, src) or enabled_region(context, src) is not None):
        return
    others = "another task runs" if waits else "the caller runs"
    message = f"`{src.brief(context)}` is open while {others}: products there are half"
    at = place.iter if isinstance(place, cst.For) else place
    related = (src.related_node(context, "the autocast region is opened here"),)
    yield src.finding(rule, at, message, related=related)


@rule.check
def check_decorators(function: cst.FunctionDef, src: Source) -> Iterator[Finding]:
    generator = any(isinstance(each, cst.Yield) for each in suspensions(function.body))
    if not generator and function.asynchronous is None:
        return
    what = "generator" if generator else "coroutine"
    for decorator in function.decorators:
        if opens_region(decorator.decorator, src) and is_plain(function, src):
            opened = src.brief(decorator.decorator)
            message = f"`@{opened}` ends before the {what} runs: it computes in float32"
            yield src.finding(rule, decorator.decorator, message)


def region_of(block: cst.With, src: Source) -> cst.BaseExpression | None:
    """The autocast context that a `with` enters."""
    return next((i.item for i in block.items if opens_region(i.item, src)), None)


def opens_region(context: cst.BaseExpression, src: Source) -> bool:
    return any(isinstance(atom, Autocast) for atom in src.value(context))


def blocks_around(block: cst.With, src: Source) -> Iterator[cst.With]:
    """The `with`s around one in the same function."""
    for around in src.ancestors(block):
        if isinstance(around, cst.FunctionDef | cst.Lambda):
            return
        if isinstance(around, cst.With):
            yield around


def makes_context(node: cst.CSTNode, src: Source) -> bool:
    """Whether the function around a node may be the generator of a context manager."""
    function = src.function(node)
    if not isinstance(function, cst.FunctionDef) or not is_plain(function, src):
        return True
    made = rf"contextmanager\(\s*(\w+\.)*{function.name.value}\b"
    return src.matches(made, "contextmanager(")


def is_plain(function: cst.FunctionDef, src: Source) -> bool:
    """Whether all decorators of a function are known to leave a generator what it is."""
    return all(is_known(each.decorator, src) for each in function.decorators)


def is_known(decorator: cst.BaseExpression, src: Source) -> bool:
    called = decorator.func if isinstance(decorator, cst.Call) else decorator
    name = src.name(called)
    return opens_region(decorator, src) or (name is not None and name.startswith(PLAIN))
