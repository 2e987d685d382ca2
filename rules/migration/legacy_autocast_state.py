"""Functions that read or set the autocast state of one device type are deprecated since torch 2.4.

`torch.get_autocast_gpu_dtype` and its kin warn (DeprecationWarning). Those that replace them
take the device type.

    dtype = torch.get_autocast_gpu_dtype()                # warns
    torch.set_autocast_cpu_enabled(True)                  # warns

    dtype = torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cpu", True)

Fix safety: safe: the old function is the new one for that device type. Unsafe for
`is_autocast_cpu_enabled` where the project mentions `torch.jit`: TorchScript knows this function,
and the new one only without an argument.

Known limits: `torch.is_autocast_enabled()` and `torch.set_autocast_enabled(flag)`, which mean CUDA
and say nothing of other devices, are not deprecated. Code under a test of the version is left
alone, and so is a function that is handed on and not called.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Finding, Fix, Group, Rule, Warns, calls
from amplint import libcst as cst
from amplint.knowledge.libraries import LEGACY_STATE

from .._shared.guards import is_fallback

if TYPE_CHECKING:
    from amplint import Source

SAME = "the old function is the new one for this device type"

# Of all these functions, TorchScript compiles the old one, and the call of the new one not.
SCRIPTED = "torch.is_autocast_cpu_enabled"

rule = Rule(
    "AMP704",
    __doc__,
    group=Group.MIGRATION,
    since="0.1",
    help='use the function that takes the device type: `torch.get_autocast_dtype("cuda")`',
    witness=Warns("get_autocast_cpu_dtype() is deprecated"),
    safe_if=(SAME,),
    torch="2.4",
    candidates=calls(*LEGACY_STATE),
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    name = src.name(call.func)
    found = LEGACY_STATE.get(name) if name is not None else None
    if found is None or is_fallback(call, src):
        return
    new, device = found
    given = f'"{device}", ...' if call.args else f'"{device}"'
    message = f"`{src.text(call.func)}` is deprecated: use `{new}({given})`"
    yield src.finding(rule, call, message, migrate(call, new, device, src))


def migrate(call: cst.Call, new: str, device: str, src: Source) -> Fix | None:
    """Ex) torch.set_autocast_cpu_enabled(flag) -> torch.set_autocast_enabled("cpu", flag)"""
    spelled, edit = src.imports.spell(new), src.edits.insert_argument(call, f'"{device}"')
    if spelled is None or edit is None:
        return None
    edits = (*spelled.edits, src.edits.replace(call.func, spelled.text), edit)
    fix = Fix.safe_if(f"Use `{new}`", edits, {SAME: True})
    return fix.demoted() if src.name(call.func) == SCRIPTED and src.mentions("jit") else fix
