"""`torch.cuda.amp.custom_fwd` and `custom_bwd` are deprecated since torch 2.4.

Using one as a decorator warns (FutureWarning) when the module is imported. The functions of
`torch.amp` require the keyword `device_type`, so a bare decorator becomes a call.

    @staticmethod
    @torch.cuda.amp.custom_fwd                                  # warns
    def forward(ctx, x): ...

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x): ...

Fix safety: safe: the old function calls the new one with this very device type.

Known limits: a name that may be the old or the new one (`try: ... except ImportError:`), and code
under a version test, are not reported; neither is a function that is passed on without a call
(`functools.partial(custom_fwd, cast_inputs=...)`).
"""

from __future__ import annotations

from amplint import Fix, Group, Rule, View, Warns
from amplint.knowledge.libraries import LEGACY_CUSTOM
from amplint.knowledge.since import SINCE

from ._deprecated import renamed, report

SAME = "the old function calls the new one with this device type"
DEVICE = 'device_type="cuda"'
SUCCESSORS = {name: f"{new}({DEVICE})" for name, new in LEGACY_CUSTOM.items()}

rule = Rule(
    "AMP703",
    __doc__,
    group=Group.MIGRATION,
    help="use `torch.amp.custom_fwd(device_type=...)` and `torch.amp.custom_bwd(device_type=...)`",
    witness=Warns("torch.cuda.amp.custom_fwd(args...)` is deprecated"),
    safe_if=(SAME,),
    torch=SINCE["torch.amp.custom_fwd"],
)


def migrate(at: View, function: View, name: str) -> Fix | None:
    """Ex) @custom_fwd -> @torch.amp.custom_fwd(device_type="cuda")"""
    edits = at.source.edits
    is_call = at.op == "call"
    device = (
        edits.add_argument(at.cst, DEVICE) if is_call else edits.insert_after(at.cst, f"({DEVICE})")
    )
    return renamed(function, LEGACY_CUSTOM[name], [device], {SAME: True})


report(rule, SUCCESSORS, migrate, at_name=True)
