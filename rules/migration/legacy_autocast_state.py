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

from amplint import Fix, Group, Rule, View, Warns
from amplint.knowledge.libraries import LEGACY_STATE
from amplint.knowledge.since import SINCE

from ._deprecated import renamed, report

SAME = "the old function equals the new one for this device type"
UNSCRIPTED = "TorchScript does not compile the call"

# Of all these functions, TorchScript compiles the old one, and the call of the new one not.
SCRIPTED = "torch.is_autocast_cpu_enabled"
SUCCESSORS = {
    name: f'{new}("{device}"{", ..." if ".set_" in name else ""})'
    for name, (new, device) in LEGACY_STATE.items()
}

rule = Rule(
    "AMP704",
    __doc__,
    group=Group.MIGRATION,
    help='use the function that takes the device type: `torch.get_autocast_dtype("cuda")`',
    witness=Warns("get_autocast_cpu_dtype() is deprecated"),
    safe_if=(SAME, UNSCRIPTED),
    torch=SINCE["torch.get_autocast_dtype"],
)


def migrate(call: View, function: View, name: str) -> Fix | None:
    """Ex) torch.set_autocast_cpu_enabled(flag) -> torch.set_autocast_enabled("cpu", flag)"""
    new, device = LEGACY_STATE[name]
    edit = call.source.edits.insert_argument(call.cst, f'"{device}"')
    unscripted = name != SCRIPTED or not call.mentions("jit")
    return renamed(function, new, [edit], {SAME: True, UNSCRIPTED: unscripted})


report(rule, SUCCESSORS, migrate)
