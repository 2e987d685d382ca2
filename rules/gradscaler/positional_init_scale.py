"""The first argument of `torch.amp.GradScaler` is the device, and it is given a number or a flag.

`torch.cuda.amp.GradScaler` began with `init_scale`; the new class begins with `device`, and takes
anything for one. `GradScaler(1024.)` begins at 65536, `GradScaler(False)` is on, without a word.

    scaler = torch.amp.GradScaler(1024.0)            # begins at 65536
    scaler = torch.amp.GradScaler(False)             # is enabled

    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    scaler = torch.amp.GradScaler("cuda", enabled=False)

Fix safety: unsafe: the scale becomes the one that is written there, and a scaler that was meant to
be switched off is.

Known limits: a number of which nothing says that it is one is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Change, Differs, Finding, Fix, Group, Host, Rule, Safety, Spot, calls, only
from amplint import libcst as cst
from amplint.knowledge.libraries import SCALERS

if TYPE_CHECKING:
    from amplint import Source


def is_given_number(at: Spot) -> bool:
    """Whether the first argument may be meant for another parameter than the device."""
    return isinstance(only(at.of(at.given("", 0))), Host)


rule = Rule(
    "AMP417",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help='name the arguments: `GradScaler("cuda", init_scale=..., enabled=...)`',
    witness=Differs(0.5),
    changes=frozenset({Change.TRAINING}),
    torch="2.3",
    candidates=calls(*SCALERS) & is_given_number,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
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
    message = f"`{src.brief(call.func)}` takes `{meant}` for the device"
    yield src.finding(rule, call, message, named(call, meant, src))


def named(call: cst.Call, meant: str, src: Source) -> Fix | None:
    """Ex) GradScaler(1024.) -> GradScaler("cuda", init_scale=1024.)"""
    positional = [arg for arg in call.args if arg.keyword is None]
    if len(positional) != 1 or src.has_star(call) or src.keyword(call, meant) is not None:
        return None
    value = call.args[0].value
    edit = src.edits.replace(value, f'"cuda", {meant}={src.text(value)}')
    return Fix(f"Name `{meant}`, and the device", (edit,), Safety.UNSAFE)
