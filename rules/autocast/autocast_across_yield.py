"""A generator holds a region open while its caller runs.

The autocast state belongs to the thread, not to the function. At a `yield` in a region, the caller
continues inside the region: its products are half, although it opened no region. If the caller
stops iterating, the region stays open until the generator is garbage-collected, at an unpredictable
time.

    def predict(model, loader):
        for x in loader:
            with torch.autocast("cuda"):
                yield model(x)                        # the caller computes in the region

    def predict(model, loader):
        for x in loader:
            with torch.autocast("cuda"):
                output = model(x)
            yield output

The same holds for `await`: other tasks run in the region meanwhile. Conversely, a decorator has no
effect on a generator or a coroutine, whose body runs after the region has ended.

Fix safety: there is no fix; the author has to decide what belongs in the region.

Known limits: functions with unknown decorators may be context managers, and are not reported.
Regions that an `ExitStack` opens, and generators that all callers iterate in a region, are not
reported either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from amplint import Dtype, Finding, Group, Rule, View, nodes
from amplint import libcst as cst

from ._regions import MAY_BE_REGION, opens_region
from ._suspensions import suspensions

# Decorators that leave a generator what it is.
PLAIN = ("torch.", "builtins.", "functools.", "typing.")

rule = Rule(
    "AMP311",
    __doc__,
    group=Group.PRECISION,
    help="open the region inside the body, and close it before each `yield` or `await`",
    witness=Dtype(bad="bfloat16", good="float32"),
)


@rule.on(nodes("context") & MAY_BE_REGION)
def check_with(context: View) -> Iterator[Finding]:
    if not (context.is_generator or context.function.is_async) or not opens_region(context):
        return
    block = context.source.parent(context.source.parent(context.cst))
    place = next(suspensions(block.body), None) if isinstance(block, cst.With) else None
    if place is None or any(map(opens_region, context.contexts_around)):
        return
    waits = not isinstance(place, cst.Yield)
    if not waits and (context.enabled_region is not None or makes_context(context)):
        return
    others = "another task runs" if waits else "the caller runs"
    message = f"`{context.brief}` is open while {others}: products there are half"
    opened = context.related("the autocast region is opened here")
    yield context.finding(message, [opened], place=place)


@rule.on(nodes("def"))
def check_decorators(definition: View) -> Iterator[Finding]:
    if not any(opens_region(each) for each in definition.operands):
        return
    function = definition.cst
    generator = any(isinstance(each, cst.Yield) for each in suspensions(function.body))
    if not generator and function.asynchronous is None:
        return
    what = "generator" if generator else "coroutine"
    decorators = decorators_of(function, definition)
    for decorator in decorators if all(map(is_plain, decorators)) else ():
        if opens_region(decorator):
            message = f"`@{decorator.brief}` ends before the {what} runs, which computes in float32"
            yield decorator.finding(message)


def makes_context(context: View) -> bool:
    """Whether the function around a node may be the generator of a context manager."""
    function = context.source.function(context.cst)
    assert isinstance(function, cst.FunctionDef)  # a `with` stands in no lambda
    if not all(map(is_plain, decorators_of(function, context))):
        return True
    name = rf"(\w+\.)*{function.name.value}\b"
    delegates = rf"contextmanager\s+(async\s+)?def\b((?!\bdef\b)[\s\S])*?\byield from {name}"
    return context.source.says(re.compile(delegates)) or context.matches(
        rf"contextmanager\(\s*{name}", "contextmanager("
    )


def decorators_of(function: cst.FunctionDef, at: View) -> list[View]:
    return [at.of(each.decorator) for each in function.decorators]


def is_plain(decorator: View) -> bool:
    """Whether a decorator is known to leave a generator what it is."""
    name = decorator.callee if decorator.op == "call" else decorator.name
    return opens_region(decorator) or (name is not None and name.startswith(PLAIN))
