"""A custom `autograd.Function` runs its forward again in `backward`, outside the region.

Autocast is a state of the running thread, and `backward` runs while no region is open. So the
results that `forward` computed in half are now computed in float32: the gradients belong to other
numbers, and cost the time and the memory that the region should save. If the input is already half,
the first layer raises "must have the same dtype".

    class Checkpoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx, run, x):
            ctx.run = run
            ctx.save_for_backward(x)
            with torch.no_grad():
                return run(x)                          # in the region

        @staticmethod
        def backward(ctx, grad):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                out = ctx.run(x)                       # in none
            torch.autograd.backward(out, grad)
            return None, x.grad

`torch.utils.checkpoint.checkpoint` remembers whether autocast was on, and its dtype, and opens the
same region for the second run. So do `torch.amp.custom_fwd(device_type="cuda")` on `forward` with
`torch.amp.custom_bwd(device_type="cuda")` on `backward`, and so does `torch.autocast("cuda",
enabled=ctx.enabled, dtype=ctx.dtype)` with the values that `forward` got from
`torch.is_autocast_enabled("cuda")` and `torch.get_autocast_dtype("cuda")`.

Fix safety: none is offered: the author has to choose one of the three.

Known limits: the rule looks for a function that `forward` gets as an argument, calls and keeps in a
field of `ctx`, and that `backward` calls where gradients are switched on. Silent if `forward`,
`backward`, the called function or a context around the second run mentions autocast, if such a
context or the called function is unknown, and if a method has another decorator. Functions passed
to `torch.utils.checkpoint`, including closures, are not affected: it restores the region.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from amplint import (
    WITHIN_REGION,
    CalledTexts,
    Finding,
    Group,
    Presumes,
    Raises,
    Rule,
    View,
    is_unknown,
    nodes,
)

from .._shared.classes import is_plain, passes_around

rule = Rule(
    "AMP317",
    __doc__,
    group=Group.CORRECTNESS,
    help="use `torch.utils.checkpoint`, or decorate with `torch.amp.custom_fwd` and `custom_bwd`",
    witness=Raises("must have the same dtype", backward=True),
    presumes=Presumes.ALWAYS,
    supersedes=("AMP309",),
)

GRADIENTS = frozenset({"torch.enable_grad", "torch.autograd.enable_grad"})
SWITCHES = frozenset({"torch.set_grad_enabled", "torch.autograd.set_grad_enabled"})
# Contexts of torch that open no region.
PLAIN_CONTEXTS = (
    GRADIENTS | SWITCHES | {"torch.random.fork_rng", "torch.cuda.device", "torch.cuda.stream"}
)


class ReadPath(NamedTuple):
    """A parameter, and the attributes of it that are read: `ctx`, `("module", "forward")`."""

    parameter: str
    fields: tuple[str, ...]


@rule.on(nodes("call") & WITHIN_REGION)
def check(call: View) -> Iterator[Finding]:
    """Ex) run(x) in `forward`, after `ctx.run = run`, and `ctx.run(x)` in `backward`"""
    methods = passes_around(call)
    run, region = ctx_fields(call) if methods is not None else None, call.enabled_region
    if methods is None or run is None or region is None or may_speak_of_autocast(call):
        return
    if next(each for each in call.operations("call") if ctx_fields(each) == run) != call:
        return
    src = call.source
    forward, backward = methods
    if any(not is_plain(each, src) or "autocast" in src.text(each) for each in methods):
        return
    for again in map(call.of, src.calls(backward)):
        path = path_of(again.called)
        if path is not None and path.fields == run and is_run_with_gradients(again):
            what = f"`backward` runs `{call.called.brief}` again"
            message = f"{what} outside the region: in float32, or it raises"
            because = (again.related("run again here"), region.evidence)
            yield call.finding(message, because, place=forward.name)
            return


def path_of(at: View) -> ReadPath | None:
    """Ex) ctx and ("run",) of `ctx.run`, and of `run` after `run = ctx.run`"""
    fields: list[str] = []
    at = at.origin
    while at.op == "attr":
        fields.append(at.method)
        at = at.operands[0].origin
    return ReadPath(at.operator, (*reversed(fields),)) if at.op == "param" else None


def ctx_fields(call: View) -> tuple[str, ...] | None:
    """The fields of `ctx` by which `backward` reaches what `forward` calls.

    Ex) ("module", "inner") of `module.inner(x)`, after `ctx.module = module`
    """
    path = path_of(call.called)
    for store in call.operations("store") if path is not None else ():
        holder, value = map(path_of, store.operands)
        if path is None or holder is None or value is None or holder.fields:
            continue
        if path.parameter == holder.parameter and path.fields[:1] == (store.operator,):
            return path.fields
        depth = len(value.fields)
        if path.parameter == value.parameter and path.fields[:depth] == value.fields:
            return store.operator, *path.fields[depth:]
    return None


def may_speak_of_autocast(call: View) -> bool:
    """Whether a function that a call may run opens a region, or asks for one; or nobody knows what
    it runs, be it what `functools.partial` has made of a module."""
    texts = call.ask(CalledTexts) or ()
    if not texts and is_unknown(call.called.value):
        return True
    return any("autocast" in text for text in texts)


def is_run_with_gradients(call: View) -> bool:
    """Whether a call stands under `torch.enable_grad()`, and in nothing that may open a region."""
    contexts = [*call.contexts_around]
    is_known = all(map(opens_no_region, contexts))
    return is_known and any(map(switches_gradients_on, contexts))


def switches_gradients_on(context: View) -> bool:
    """Ex) torch.enable_grad(), torch.set_grad_enabled(True)"""
    mode = context.arg("mode", 0) if context.callee in SWITCHES else None
    return context.callee in GRADIENTS or (mode is not None and mode.text == "True")


def opens_no_region(context: View) -> bool:
    """Ex) torch.enable_grad(), and a function of the project that does not speak of autocast"""
    if context.callee in PLAIN_CONTEXTS:
        return True
    texts = context.ask(CalledTexts) or ()
    return bool(texts) and not any("autocast" in text for text in texts)
