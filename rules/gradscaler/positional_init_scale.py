"""A scale or a flag in the place of a GradScaler's device, or a device in that of its scale.

`torch.cuda.amp.GradScaler` began with `init_scale`; the new class begins with `device`, and takes
anything for one. `GradScaler(1024.)` begins at 65536, `GradScaler(False)` is on, without a word.

    scaler = torch.amp.GradScaler(1024.0)            # begins at 65536
    scaler = torch.amp.GradScaler(False)             # is enabled

    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    scaler = torch.amp.GradScaler("cuda", enabled=False)

The other way round, the old class takes a device for the scale, and the first `scaler.scale(loss)`
raises; by the name of `device`, building it does.

    scaler = torch.cuda.amp.GradScaler("cuda")       # TypeError at the first `scaler.scale(loss)`

    scaler = torch.amp.GradScaler("cuda")            # torch 2.3 and later
    scaler = torch.cuda.amp.GradScaler()             # any torch

Fix safety: unsafe: the scale becomes the one that is written there, and a scaler that was meant to
be switched off is; what raised trains. The fix names the new class where the project requires torch
2.3 or later, and else leaves out the device. No fix for the device of another kind than the class
is for (`torch.cuda.amp.GradScaler("cpu")`).

Known limits: a number of which nothing says that it is one is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    Change,
    Differs,
    Finding,
    Fix,
    Group,
    Host,
    Rule,
    Safety,
    Spot,
    calls,
    constant,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.libraries import SCALERS

from .._shared.guards import is_fallback
from .._shared.scalers import device_out_of_place, may_be_given_device

if TYPE_CHECKING:
    from amplint import Source

NEW = "torch.amp.GradScaler"


def is_given_number(at: Spot) -> bool:
    """Whether the first argument may be meant for another parameter than the device."""
    return isinstance(only(at.of(at.given("", 0))), Host)


rule = Rule(
    "AMP417",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help='use `torch.amp.GradScaler("cuda", init_scale=..., enabled=...)`',
    witness=Differs(0.5),
    changes=frozenset({Change.TRAINING}),
    supersedes=("AMP702",),
    fixes_torch="2.3",
    candidates=calls(*SCALERS) & is_given_number | calls(*SCALERS) & may_be_given_device,
)


@rule.check
def check_number(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) torch.amp.GradScaler(1024.)"""
    api = SCALERS.get(src.name(call.func) or "")
    if api is None or api.parameters[:1] != ("device",) or not call.args:
        return
    first = call.args[0]
    given = only(src.value(first.value))
    if first.keyword is not None or first.star or not isinstance(given, Host):
        return
    meant = {"int": "init_scale", "float": "init_scale", "bool": "enabled"}.get(given.kind)
    if meant is None:
        return
    message = f"`{src.brief(call.func)}` takes `{meant}` for the device, and ignores it"
    yield src.finding(rule, call, message, named(call, meant, src))


def named(call: cst.Call, meant: str, src: Source) -> Fix | None:
    """Ex) GradScaler(1024.) -> GradScaler("cuda", init_scale=1024.)"""
    positional = [arg for arg in call.args if arg.keyword is None]
    if len(positional) != 1 or src.has_star(call) or src.keyword(call, meant) is not None:
        return None
    value = call.args[0].value
    edit = src.edits.replace(value, f'"cuda", {meant}={src.text(value)}')
    return Fix(f"Name `{meant}`, and the device", (edit,), Safety.UNSAFE)


@rule.check
def check_device(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) torch.cuda.amp.GradScaler("cuda")"""
    given = device_out_of_place(call, src)
    if given is None:
        return
    message = f"`{src.brief(call.func)}` takes the device for `init_scale`: `scale(loss)` raises"
    if given.keyword is not None:
        message = f"`{src.brief(call.func)}` is the old class, without `device`: raises TypeError"
    yield src.finding(rule, call, message, placed(call, given, src))


def placed(call: cst.Call, given: cst.Arg, src: Source) -> Fix | None:
    """Ex) torch.cuda.amp.GradScaler("cuda") -> torch.cuda.amp.GradScaler(), or with the new class
    torch.amp.GradScaler("cuda")"""
    device, named = SCALERS[src.name(call.func) or ""].device, constant(src.value(given.value))
    if isinstance(named, str) and named.partition(":")[0] != device:
        return None
    spelled = src.imports.spell(NEW)
    newer = None
    if spelled is not None and not is_fallback(call, src):
        # The old class was for one kind of device, whichever the variable holds.
        value = () if named == device else (src.edits.replace(given.value, f'"{device}"'),)
        edits = (*spelled.edits, src.edits.replace(call.func, spelled.text), *value)
        newer = Fix(f"Use `{NEW}`", edits, Safety.UNSAFE)
    removal = src.edits.remove_argument(call, given)
    return Fix("Leave out the device", (removal,), Safety.UNSAFE, newer=newer)
