"""A scale or a flag is passed as the device of a GradScaler, or a device as its scale.

`torch.cuda.amp.GradScaler` began with `init_scale`; the first parameter of the new class is
`device`, and it accepts anything. `GradScaler(1024.)` silently starts at 65536, and
`GradScaler(False)` is enabled.

    scaler = torch.amp.GradScaler(1024.0)            # begins at 65536
    scaler = torch.amp.GradScaler(False)             # is enabled

    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    scaler = torch.amp.GradScaler("cuda", enabled=False)

Conversely, the old class takes a device as the scale, and the first `scaler.scale(loss)` raises;
with the keyword `device=`, the constructor raises.

    scaler = torch.cuda.amp.GradScaler("cuda")       # TypeError at the first `scaler.scale(loss)`

    scaler = torch.amp.GradScaler("cuda")            # torch 2.3 and later
    scaler = torch.cuda.amp.GradScaler()             # any torch

Fix safety: unsafe: the written scale takes effect, a scaler that should be switched off is, and
code that raised now trains. The fix uses the new class if the project requires torch 2.3 or later,
and otherwise removes the device. No fix if the device does not fit the class
(`torch.cuda.amp.GradScaler("cpu")`).

Known limits: a value that is not known to be a number is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    Change,
    Differs,
    Finding,
    Fix,
    Group,
    Host,
    Rule,
    Safety,
    View,
    calls,
    constant,
    only,
)
from amplint.knowledge.libraries import SCALERS
from amplint.knowledge.since import SINCE

from .._shared.guards import is_fallback
from .._shared.scalers import misplaced_device
from .._shared.steps import unsafe

NEW = "torch.amp.GradScaler"
# By the kind of a value in the place of the device: the parameter that it is meant for.
MEANT = {"int": "init_scale", "float": "init_scale", "bool": "enabled"}

rule = Rule(
    "AMP417",
    __doc__,
    group=Group.CORRECTNESS,
    help='use `torch.amp.GradScaler("cuda", init_scale=..., enabled=...)`',
    witness=Differs(0.5),
    changes=frozenset({Change.TRAINING}),
    supersedes=("AMP702",),
    fixes_torch=SINCE[NEW],
)


@rule.on(calls(*SCALERS))
def check_number(call: View) -> Iterator[Finding]:
    """Ex) torch.amp.GradScaler(1024.)"""
    api, first = SCALERS.get(call.callee or ""), call.arg("", 0)
    if api is None or api.parameters[0] != "device" or first is None:
        return
    atom = only(first.value)
    parameter = MEANT.get(atom.kind) if isinstance(atom, Host) else None
    if parameter is not None:
        function = call.source.brief(call.cst.func)
        message = f"`{function}` takes `{parameter}` as the device, and ignores it"
        yield call.finding(message, fix=named(call, first, parameter))


def named(call: View, first: View, parameter: str) -> Fix | None:
    """Ex) GradScaler(1024.) -> GradScaler("cuda", init_scale=1024.)"""
    positional = [each for _, keyword, each in call.arguments if keyword is None]
    if len(positional) != 1 or call.has_star or call.arg(parameter) is not None:
        return None
    edit = call.source.edits.replace(first.cst, f'"cuda", {parameter}={first.text}')
    return unsafe(f"Name `{parameter}`, and the device", edit)


@rule.on(calls(*SCALERS))
def check_device(call: View) -> Iterator[Finding]:
    """Ex) torch.cuda.amp.GradScaler("cuda")"""
    device = misplaced_device(call)
    if device is None:
        return
    function = call.source.brief(call.cst.func)
    message = f"`{function}` takes the device as `init_scale`: `scale(loss)` raises"
    if call.arg("device") is not None:
        message = f"`{function}` is the old class, without `device`: raises TypeError"
    yield call.finding(message, fix=placed(call, device))


def placed(call: View, operand: View) -> Fix | None:
    """Ex) torch.cuda.amp.GradScaler("cuda") -> torch.cuda.amp.GradScaler(), or with the new class
    torch.amp.GradScaler("cuda")"""
    src = call.source
    device, named = SCALERS[call.callee or ""].device, constant(operand.value)
    if isinstance(named, str) and named.partition(":")[0] != device:
        return None
    newer = None
    if not is_fallback(call):
        spelled = src.imports.spell(NEW)
        # The old class was for one kind of device, whichever the variable holds.
        value = () if named == device else (src.edits.replace(operand.cst, f'"{device}"'),)
        edits = (*spelled.edits, src.edits.replace(call.cst.func, spelled.text), *value)
        newer = Fix(f"Use `{NEW}`", edits, Safety.UNSAFE)
    argument = next(each for each in call.cst.args if each.value is operand.cst)
    removal = src.edits.remove_argument(call.cst, argument)
    return Fix("Remove the device", (removal,), Safety.UNSAFE, newer=newer)
