"""Gradients are clipped while they are still multiplied by the scale of a GradScaler.

After `scaler.scale(loss).backward()` the norm of the gradients is 65536 times the true one.
Clipping them to a norm of 1.0 makes them so small that, after `scaler.step` has divided them by
65536, the model silently almost stops learning. The norm that the clipping returns, for example for
a log, is 65536 times too large as well.

    scaler.scale(loss).backward()
    clip_grad_norm_(model.parameters(), 1.0)         # the norm of scaled gradients
    scaler.step(optimizer)

    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)

Fix safety: unsafe, since the weights change: to the intended ones.

Known limits: reported only if every path from the backward pass to the clipping is wrong; an
unknown function that gets the optimizer or the scaler is assumed to unscale. If there are several
optimizers, any unscaled one is assumed to be the clipped one. No fix if there are several, or if
not every clipping is followed by a step. A framework's backward pass (`accelerator.backward(loss)`)
counts as scaled if its precision is a constant that means float16. A function that gets the scaler,
and that no call in sight runs, is taken to have scaled gradients where the project calls `unscale_`
nowhere, and it neither tests the scaler before nor passes it to anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Change, Differs, Finding, Fix, Group, Misuse, Rule, View, Violation, calls
from amplint import libcst as cst
from amplint.knowledge.libraries import CLIPPING
from amplint.knowledge.vocabulary import KNOWS_THE_SCALE, PRECISION

from .._shared.guards import tests_around, tests_before
from .._shared.scalers import scaler_at
from .._shared.steps import report, unsafe
from ._called import CalledInSight
from ._fixes import between, calls_around, loops_of, methods, new, other, scaler_of, tests_of

if TYPE_CHECKING:
    from amplint import Source

rule = Rule(
    "AMP404",
    __doc__,
    group=Group.CORRECTNESS,
    help="call `scaler.unscale_(optimizer)` before clipping",
    witness=Differs(1e-3),
    changes=frozenset({Change.TRAINING}),
    violation=Violation.CLIP_BEFORE_UNSCALE,
)


def unscaled(call: View, misuse: Misuse) -> Fix | None:
    """Ex) clip_grad_norm_(...) -> scaler.unscale_(optimizer); clip_grad_norm_(...)

    Once before all that is clipped before the step: a second `unscale_` raises.
    """
    src, backward = call.source, other(call, misuse)
    scaler = scaler_of(backward)
    if backward is None or scaler is None or methods(scaler.text, "unscale_", call):
        return None
    steps = [each.cst for each in methods(scaler.text, "step", call) if len(each.cst.args) == 1]
    optimizers = {src.text(step.args[0].value) for step in steps}
    line = line_above(clippings(call, misuse), src)
    step = next((each for each in steps if line and src.span(each) > src.span(line)), None)
    if len(optimizers) != 1 or line is None or step is None or not leads(line, step, call, misuse):
        return None
    # Where the scaler is used under a condition alone, it may be None without that.
    tests = new(tests_of(step, src), tests_of(line, src))
    used = (scaler.cst, step.args[0].value, *tests.values())
    if len(tests) > 1 or not tests.keys() <= tests_of(backward.cst, src).keys():
        return None
    if not all(src.variables.same_at(each, line) for each in used):
        return None
    header = "".join(f"if {src.text(test)}:" for test in tests.values())
    text = f"{scaler.text}.unscale_({optimizers.pop()})"
    edit = src.edits.insert_statement_before(line, text, header)
    return unsafe("Unscale the gradients first", edit)


def clippings(call: View, misuse: Misuse) -> list[cst.Call]:
    """The calls around a call, and itself, that clip what the same backward pass has left."""
    misuses = ((each.cst, each.misuse(rule.violation)) for each in calls_around(call))
    return [each for each, its in misuses if its and its.other.place == misuse.other.place]


def line_above(calls: list[cst.Call], src: Source) -> cst.BaseStatement | None:
    """The first statement with one of the calls in it, in the innermost block with all of them."""
    blocks = [{id(each) for each in src.ancestors(call)} for call in calls]
    for around in src.ancestors(calls[0]):
        block = src.parent(around)
        if not isinstance(around, cst.BaseStatement) or not isinstance(block, cst.IndentedBlock):
            continue
        if all(id(block) in ids for ids in blocks):
            return around
    return None


def leads(line: cst.BaseStatement, step: cst.Call, call: View, misuse: Misuse) -> bool:
    """Whether the step comes once for each time that the line does, with no other backward pass to
    be clipped in between."""
    src = call.source
    same_loops = loops_of(line, src) == loops_of(step, src)
    jumps = between(line, step, (cst.Break, cst.Continue, cst.Return), src)
    calls = between(line, step, (cst.Call,), src)
    misuses = (call.of(each).misuse(rule.violation) for each in calls)
    places = (its.other.place for its in misuses if its is not None)
    return same_loops and not jumps and all(place == misuse.other.place for place in places)


@rule.on(calls(".step"))
def check_given_scaler(step: View) -> Iterator[Finding]:
    """Ex) clip_grad_norm_(params, 1.0); scaler.step(optimizer), in a function that gets the scaler

    Who hands it one has scaled the loss. Where a call of the function is in sight, the protocol is
    checked there.
    """
    scaler = step.receiver
    if scaler is None or scaler.origin.op != "param" or scaler_at(scaler) is None:
        return
    if step.mentions("unscale_") or step.ask(CalledInSight):
        return
    function = step.source.function(step.cst)
    text = step.source.text(function) if function is not None else ""
    before = [each for each in step.operations("call") if each.span.start < step.span.start]
    if any(word in text for word in (*KNOWS_THE_SCALE, ".grad.")) or any(
        each.method in ("backward", "step") or hands_on(each, scaler) for each in before
    ):
        return
    for clip in (each for each in before if each.callee in CLIPPING):
        tests = (*tests_around(clip), *tests_around(step), *tests_before(step))
        if not any(PRECISION.search(each.text) or scaler.text in each.text for each in tests):
            message = f"`{clip.brief}` clips gradients that are still multiplied by the scale"
            yield clip.finding(message, [step.related("the scaler divides them here")])


def hands_on(call: View, scaler: View) -> bool:
    return any(argument.text == scaler.text for _, _, argument in call.arguments)


report(rule, "`{call}` clips gradients that are still multiplied by the scale", unscaled)
