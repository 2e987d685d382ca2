"""`torch.cuda.amp.custom_fwd` and `custom_bwd` are deprecated since torch 2.4.

Decorating with one warns (FutureWarning), when the module is imported. Those of `torch.amp`
require the device type, a keyword: a bare decorator becomes a call.

    @staticmethod
    @torch.cuda.amp.custom_fwd                                  # warns
    def forward(ctx, x): ...

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x): ...

Fix safety: safe: the old function calls the new one with this very device type. It is unsafe to
remove an import that nobody uses: who is out of sight may take the name from the file.

Known limits: a name that may be the old or the new one (`try: ... except ImportError:`), and code
under a test of the version, are left alone, and so is what is handed on without a call
(`functools.partial(custom_fwd, cast_inputs=...)`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Edit, Finding, Fix, Group, Rule, Warns, calls, nodes, symbol
from amplint import libcst as cst
from amplint.knowledge.libraries import LEGACY_CUSTOM

from .._shared.guards import is_fallback
from .._shared.unused_imports import importing, unused_imports

if TYPE_CHECKING:
    from amplint import Source

SAME = "the old function calls the new one with this device type"

DEVICE = 'device_type="cuda"'
IMPORTED = frozenset(LEGACY_CUSTOM)


rule = Rule(
    "AMP703",
    __doc__,
    group=Group.MIGRATION,
    since="0.1",
    help="use `torch.amp.custom_fwd(device_type=...)` and `torch.amp.custom_bwd(device_type=...)`",
    witness=Warns("torch.cuda.amp.custom_fwd(args...)` is deprecated"),
    safe_if=(SAME,),
    torch="2.4",
    candidates=calls(*LEGACY_CUSTOM)
    | nodes("context") & (lambda at: symbol(at.value) in LEGACY_CUSTOM)
    | importing(IMPORTED),
)


@rule.check
def check_call(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) @custom_fwd(cast_inputs=torch.float32), custom_bwd(function)"""
    edit = src.edits.add_argument(call, DEVICE)
    yield from check(call.func, edit, src)


@rule.check
def check_decorator(decorator: cst.Decorator, src: Source) -> Iterator[Finding]:
    """Ex) @custom_fwd, without a call"""
    yield from check(decorator.decorator, None, src)


def check(function: cst.BaseExpression, device: Edit | None, src: Source) -> Iterator[Finding]:
    name = src.name(function)
    new = LEGACY_CUSTOM.get(name) if name is not None else None
    if new is None or is_fallback(function, src):
        return
    message = f"`{src.text(function)}` is deprecated: use `{new}({DEVICE})`"
    called = isinstance(src.parent(function), cst.Call)
    yield src.finding(rule, function, message, migrate(function, new, device, called, src))


def migrate(
    function: cst.BaseExpression, new: str, device: Edit | None, called: bool, src: Source
) -> Fix | None:
    spelled = src.imports.spell(new)
    if spelled is None or (called and device is None):
        return None
    text = spelled.text if called else f"{spelled.text}({DEVICE})"
    edits = (*spelled.edits, src.edits.replace(function, text), *([device] if device else []))
    return Fix.safe_if(f"Use `{new}`", edits, {SAME: True})


@rule.check
def check_import(statement: cst.ImportFrom, src: Source) -> Iterator[Finding]:
    """Ex) from torch.cuda.amp import custom_fwd, and nothing that uses it"""
    yield from unused_imports(rule, statement, IMPORTED, src)
