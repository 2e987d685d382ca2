"""`torch.cuda.amp.custom_fwd` and `custom_bwd` are deprecated since torch 2.4.

Using one as a decorator warns (FutureWarning) when the module is imported. The functions of
`torch.amp` require the keyword `device_type`, so a bare decorator becomes a call.

    @staticmethod
    @torch.cuda.amp.custom_fwd                                  # warns
    def forward(ctx, x): ...

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x): ...

Fix safety: safe: the old function calls the new one with this very device type. Removing an unused
import is unsafe: code outside the project may import the name from this file.

Known limits: a name that may be the old or the new one (`try: ... except ImportError:`), and code
under a version test, are not reported; neither is a function that is passed on without a call
(`functools.partial(custom_fwd, cast_inputs=...)`).
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Finding, Fix, Group, Rule, View, Warns
from amplint.knowledge.libraries import LEGACY_CUSTOM
from amplint.knowledge.since import SINCE

from .._shared.deprecated import message, named_by, report_unused_imports, using

SAME = "the old function calls the new one with this device type"

DEVICE = 'device_type="cuda"'

rule = Rule(
    "AMP703",
    __doc__,
    group=Group.MIGRATION,
    since="0.1",
    help="use `torch.amp.custom_fwd(device_type=...)` and `torch.amp.custom_bwd(device_type=...)`",
    witness=Warns("torch.cuda.amp.custom_fwd(args...)` is deprecated"),
    safe_if=(SAME,),
    torch=SINCE["torch.amp.custom_fwd"],
)


@rule.on(using(*LEGACY_CUSTOM))
def check(at: View) -> Iterator[Finding]:
    """Ex) @custom_fwd(cast_inputs=torch.float32), custom_bwd(function), @custom_fwd"""
    found = named_by(at, LEGACY_CUSTOM)
    if found is not None:
        function, name = found
        new = LEGACY_CUSTOM[name]
        fix = migrate(at, function, new)
        yield at.finding(message(function, f"{new}({DEVICE})"), fix=fix, place=function.cst)


def migrate(at: View, function: View, new: str) -> Fix | None:
    """Ex) @custom_fwd -> @torch.amp.custom_fwd(device_type="cuda")"""
    edits, spelled = at.source.edits, at.source.imports.spell(new)
    if spelled is None:
        return None
    title, to_new = f"Use `{new}`", (*spelled.edits, edits.replace(function.cst, spelled.text))
    if at.op != "call":
        called = edits.replace(function.cst, f"{spelled.text}({DEVICE})")
        return Fix.safe_if(title, (*spelled.edits, called), {SAME: True})
    device = edits.add_argument(at.cst, DEVICE)
    return Fix.safe_if(title, (*to_new, device), {SAME: True}) if device is not None else None


report_unused_imports(rule, frozenset(LEGACY_CUSTOM))
