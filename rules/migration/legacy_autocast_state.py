"""Functions that read or set the autocast state of one device type are deprecated since torch 2.4.

`torch.get_autocast_gpu_dtype` and similar functions warn (DeprecationWarning). Their replacements
take the device type.

    dtype = torch.get_autocast_gpu_dtype()                # warns
    torch.set_autocast_cpu_enabled(True)                  # warns

    dtype = torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cpu", True)

Fix safety: safe: the old function equals the new one for that device type. Unsafe for
`is_autocast_cpu_enabled` if the project mentions `torch.jit`: TorchScript knows this function, but
the new one only without an argument.

Known limits: `torch.is_autocast_enabled()` and `torch.set_autocast_enabled(flag)`, which are for
CUDA only, are not deprecated. Code under a version test is not reported; neither is a function that
is passed on and not called.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Finding, Fix, Group, Rule, View, Warns, calls
from amplint.knowledge.libraries import LEGACY_STATE
from amplint.knowledge.since import SINCE

from .._shared.deprecated import message, named_by

SAME = "the old function equals the new one for this device type"

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
    torch=SINCE["torch.get_autocast_dtype"],
)


@rule.on(calls(*LEGACY_STATE))
def check(call: View) -> Iterator[Finding]:
    found = named_by(call, LEGACY_STATE)
    if found is None:
        return
    function, name = found
    new, device = LEGACY_STATE[name]
    given = f'"{device}", ...' if any(call.arguments) else f'"{device}"'
    yield call.finding(message(function, f"{new}({given})"), fix=migrate(call, function, name))


def migrate(call: View, function: View, name: str) -> Fix | None:
    """Ex) torch.set_autocast_cpu_enabled(flag) -> torch.set_autocast_enabled("cpu", flag)"""
    new, device = LEGACY_STATE[name]
    spelled = call.source.imports.spell(new)
    edit = call.source.edits.insert_argument(call.cst, f'"{device}"')
    if spelled is None or edit is None:
        return None
    rename = call.source.edits.replace(function.cst, spelled.text)
    fix = Fix.safe_if(f"Use `{new}`", (*spelled.edits, rename, edit), {SAME: True})
    return fix.demoted() if name == SCRIPTED and call.mentions("jit") else fix
