"""`torch.cuda.amp.GradScaler` and `torch.cpu.amp.GradScaler` are deprecated since torch 2.4.

Constructing one warns (FutureWarning) at every start. `torch.amp.GradScaler` takes the device as
its first parameter and is otherwise the same.

    scaler = torch.cuda.amp.GradScaler(enabled=use_amp)          # warns

    scaler = torch.amp.GradScaler("cuda", enabled=use_amp)

Fix safety: safe for torch 2.3 and later, which have the new name: the old class is a subclass of
the new one that only fills in the device. Unsafe where the project asks `isinstance(scaler,
torch.cuda.amp.GradScaler)`, for the new object is not one.

Known limits: a name that may be the old or the new one (`try: ... except ImportError:`), and code
under a test of the version, are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amplint import Edit, Finding, Fix, Group, Rule, Source, Warns
from amplint.guards import is_fallback
from amplint.libraries import SCALERS

NOT_ASKED = "nothing asks for the class of a scaler"

rule = Rule(
    "AMP702",
    __doc__,
    group=Group.MIGRATION,
    since="0.1",
    witness=Warns("GradScaler(args...)` is deprecated"),
    safe_if=(NOT_ASKED,),
    words=frozenset({"GradScaler"}) | frozenset({"amp", "grad_scaler"}),
    torch="2.3",
)

CHECKED_BY_CLASS = r"(isinstance|issubclass)\((?!.*torch\.amp\.GradScaler).*GradScaler"


@rule.on(cst.Call)
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    name = src.name(call.func)
    api = SCALERS.get(name) if name is not None else None
    if api is None or api.legacy is None or api.device is None or is_fallback(call, src):
        return
    message = (
        f'`{src.text(call.func)}` is deprecated: use `torch.amp.GradScaler("{api.device}", ...)`'
    )
    yield src.finding(rule, call, message, migrate(call, api.device, src))


def migrate(call: cst.Call, device: str, src: Source) -> Fix | None:
    """Ex) GradScaler(1024.) -> torch.amp.GradScaler("cuda", 1024.)"""
    spelled = src.spell("torch.amp.GradScaler")
    if spelled is None:
        return None
    rename: Edit = src.replace(call.func, spelled.text)
    first = src.insert_argument(call, f'"{device}"')
    if first is None:
        return None
    conditions = {NOT_ASKED: not src.matches(CHECKED_BY_CLASS)}
    return Fix.safe_if("Use `torch.amp.GradScaler`", (*spelled.edits, rename, first), conditions)
