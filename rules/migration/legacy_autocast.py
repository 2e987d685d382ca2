"""`torch.cuda.amp.autocast` and `torch.cpu.amp.autocast` are deprecated since torch 2.4.

Entering one warns (FutureWarning). The new function takes the device first, and its second
parameter is the dtype, not `enabled`: positional arguments have to become keywords.

    with torch.cuda.amp.autocast(use_amp):                    # warns
    with torch.amp.autocast("cuda", use_amp):                 # wrong: use_amp is taken for a dtype

    with torch.amp.autocast("cuda", enabled=use_amp):

Fix safety: safe: positional arguments are mapped to the keywords of the same meaning. Unsafe where
the project asks `isinstance(region, torch.cuda.amp.autocast)`, since a region of the new class is
no instance of the old one, or puts another class there (`torch.cuda.amp.autocast = Other`); with
`**arguments`, which may leave anything to be inherited; and where the function, or
its module, is a parameter's, and only the seen calls say that it is the old one. The old API always
means float16 (bfloat16 on the CPU) where none is given, the new one inherits the dtype of an
enclosing region. Inside a region that is known to have another dtype, the fix is unsafe and lets
that decide: the old name goes back to float16 there, which hardly anybody wants. So it is where the
`backward` of an autograd function computes anew what its `forward` did in such a region, of which
nothing is left to inherit: its dtype is written out. Where the region may be inside another one,
`dtype=` is written out as it was, unless it is switched off and nothing in the project asks for its
dtype. So is `cache_enabled=True` inside
of a region where the project has one without a cache. It is unsafe to remove an
import that nobody uses: who is out of sight may take the name from the file.

Known limits: a name that may be the old or the new one (`try: ... except ImportError:`), and code
under a test of the version, are left alone. `autocast(*arguments)` and a bare decorator are
reported without a fix, and so is the class itself where it is handed on, for somebody else to call:
`partial(torch.cuda.amp.autocast, enabled=True)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    Change,
    Finding,
    Fix,
    Group,
    Region,
    Rule,
    Safety,
    Warns,
    calls,
    nodes,
    symbol,
)
from amplint import libcst as cst
from amplint.knowledge.libraries import AUTOCASTS, AutocastApi

from .._shared.classes import in_backward_of_function, method_beside
from .._shared.guards import is_fallback
from .._shared.handed_on import handed_on, handing_on
from .._shared.parameters import is_given
from .._shared.suspensions import suspensions
from .._shared.unused_imports import importing, unused_imports

if TYPE_CHECKING:
    from amplint import Source

MEANT = "each argument is known by its place or its name"
CERTAIN = "no caller could pass another function"
NOT_ASKED = "nothing asks for the class of a region"
INHERITS = "what another region could change is written out"

LEGACY = frozenset(name for name, api in AUTOCASTS.items() if api.legacy is not None)


CHECKED_BY_CLASS = (
    r"(isinstance|issubclass)\((?!.*torch\.amp\.autocast).*\bautocast\b"
    r"|\bcase\s(?!.*torch\.amp\.autocast).*\bautocast\b\s*\("
)
# Ex) torch.cuda.amp.autocast = Other: a library for another device puts its own class there.
REPLACED = r"\bamp\.autocast\s*=(?!=)|\bsetattr\(.*\bamp\b.*\bautocast\b"


rule = Rule(
    "AMP701",
    __doc__,
    group=Group.MIGRATION,
    since="0.1",
    help="use `torch.amp.autocast(device_type, ...)`",
    witness=Warns("autocast(args...)` is deprecated"),
    safe_if=(MEANT, CERTAIN, NOT_ASKED, INHERITS),
    changes=frozenset({Change.DTYPE, Change.ROUNDING}),
    torch="1.12",
    candidates=calls(*LEGACY)
    | nodes("context") & (lambda at: symbol(at.value) in LEGACY)
    | handing_on(LEGACY)
    | importing(LEGACY),
)


@rule.check
def check_call(call: cst.Call, src: Source) -> Iterator[Finding]:
    api = legacy(call.func, src)
    if api is not None and not is_fallback(call, src):
        around = decided_around(call, api, src)
        related = src.reasons(around.evidence) if around is not None else ()
        fix = migrate(call, api, around, src)
        yield src.finding(rule, call, message(call.func, api, src), fix, related)


@rule.check
def check_decorator(decorator: cst.Decorator, src: Source) -> Iterator[Finding]:
    """Ex) @torch.cuda.amp.autocast, without a call: it is accepted, and the first call raises."""
    api = legacy(decorator.decorator, src)
    if api is not None:
        yield src.finding(rule, decorator.decorator, message(decorator.decorator, api, src))


@rule.check
def check_handed_on(
    node: cst.Arg | cst.Return | cst.Element | cst.DictElement | cst.Assign, src: Source
) -> Iterator[Finding]:
    """Ex) partial(torch.cuda.amp.autocast, enabled=True)"""
    for named, name in handed_on(node, LEGACY, src):
        if not is_fallback(named, src):
            yield src.finding(rule, named, message(named, AUTOCASTS[name], src))


def legacy(node: cst.BaseExpression, src: Source) -> AutocastApi | None:
    name = src.name(node)
    api = AUTOCASTS.get(name) if name is not None else None
    return api if api is not None and api.legacy is not None else None


def message(node: cst.BaseExpression, api: AutocastApi, src: Source) -> str:
    return f'`{src.text(node)}` is deprecated: use `torch.amp.autocast("{api.device}", ...)`'


def migrate(call: cst.Call, api: AutocastApi, around: Region | None, src: Source) -> Fix | None:
    """Ex) autocast(use_amp, dtype=d) -> torch.amp.autocast("cuda", enabled=use_amp, dtype=d)

    Args:
        around: a region of another dtype, which is to decide.
    """
    positional = [arg for arg in call.args if arg.keyword is None and not arg.star]
    if any(arg.star == "*" for arg in call.args) or len(positional) > len(api.parameters):
        return None
    spelled = src.imports.spell("torch.amp.autocast")
    dtype = dtype_of(around, call, src) if around is not None else explicit_dtype(call, api, src)
    explicit = (dtype, explicit_cache(call, src))
    opening = src.edits.insert_argument(call, f'"{api.device}"', *filter(None, explicit))
    if spelled is None or opening is None:
        return None
    others = [
        src.edits.insert_before(arg.value, f"{name}=")
        for arg, name in zip(positional, api.parameters, strict=False)
    ]
    edits = (*spelled.edits, src.edits.replace(call.func, spelled.text), opening, *others)
    title = "Use `torch.amp.autocast`"
    if around is not None:
        title += f", in the {around.dtype} of the region, and no longer in {api.dtype}"
        return Fix(title, edits, Safety.UNSAFE)
    if dtype:
        title += f", still in {api.dtype}"
    conditions = {
        MEANT: not src.has_star(call),
        CERTAIN: not is_given(call.func, src),
        NOT_ASKED: not src.matches(CHECKED_BY_CLASS, "autocast"),
        INHERITS: True,
    }
    fix = Fix.safe_if(title, edits, conditions)
    return fix.demoted() if src.matches(REPLACED, "autocast") else fix


def decided_around(call: cst.Call, api: AutocastApi, src: Source) -> Region | None:
    """The region around a call, or the one that is computed anew, if it is known to have another
    dtype than the old name goes back to."""
    if takes_dtype(call, src):
        return None
    region = src.region(recomputed(call, src) or call)
    if region is None or region.presumed or region.enabled is False:
        return None
    differs = region.device == api.device and region.dtype == OTHER[api.device or "cuda"]
    return region if differs else None


def recomputed(call: cst.Call, src: Source) -> cst.Call | None:
    """The first call in the `forward` beside the `backward` of an autograd function that a call
    stands in. Nobody opens the region of the one again for the other."""
    if not in_backward_of_function(call, src):
        return None
    written = method_beside(call, "forward", src)
    forward = src.layout.node_for(written) if written is not None else None
    return next(src.calls(forward), None) if forward is not None else None


def dtype_of(region: Region, call: cst.Call, src: Source) -> str:
    """`dtype=torch.bfloat16` where there is no region to inherit it from."""
    return dtype_argument(region.dtype, src) if recomputed(call, src) is not None else ""


def takes_dtype(call: cst.Call, src: Source) -> bool:
    """Whether the call names a dtype, or needs none."""
    given = src.keyword(call, "dtype") is not None or any(arg.star for arg in call.args)
    return given or len([a for a in call.args if a.keyword is None]) > 1 or is_off(call, src)


def explicit_dtype(call: cst.Call, api: AutocastApi, src: Source) -> str:
    """`dtype=torch.float16` where the new API might inherit another one."""
    region = src.region(call)
    nested = region is not None and region.dtype != api.dtype
    elsewhere = (
        src.mentions("autocast", OTHER[api.device or "cuda"])
        or src.matches(BY_NAME[api.device or "cuda"], "bf", "16")
        or any(src.mentions(word) for word in DTYPE_SETTERS)
    )
    if takes_dtype(call, src) or not (nested or elsewhere or may_be_inside(call, src)):
        return ""
    return dtype_argument(api.dtype, src)


def dtype_argument(dtype: str | None, src: Source) -> str:
    return f"dtype={src.imports.bound_as('torch') or 'torch'}.{dtype}"


def is_off(call: cst.Call, src: Source) -> bool:
    """Whether the region is switched off, and nothing in the project could take its dtype over."""
    enabled = src.argument(call, "enabled", 0)
    off = enabled is not None and src.text(enabled.value) == "False"
    return off and not src.matches(TAKES_OVER, "autocast") and not src.mentions(*DTYPE_GETTERS)


def may_be_inside(call: cst.Call, src: Source) -> bool:
    """Whether others may open the region inside another one: it is handed on, or open at a `yield`,
    as in the generator of a context manager."""
    item = src.parent(call)
    block = src.parent(item) if isinstance(item, cst.WithItem) else None
    if isinstance(block, cst.With):
        return any(isinstance(each, cst.Yield) for each in suspensions(block.body))
    return is_handed_on(call, src)


def explicit_cache(call: cst.Call, src: Source) -> str:
    """`cache_enabled=True` where the new API might inherit that there is none."""
    given = src.argument(call, "cache_enabled", 2) is not None or src.has_star(call)
    inside = src.region(call) is not None or may_be_inside(call, src)
    without = inside and not given and src.matches(WITHOUT_CACHE, "autocast", "cache_enabled")
    return "cache_enabled=True" if without else ""


def is_handed_on(call: cst.Call, src: Source) -> bool:
    """Whether the region is returned, be it in one case of several: who gets it may open it inside
    another one."""
    around = src.parent(call)
    while isinstance(around, cst.IfExp):
        around = src.parent(around)
    return isinstance(around, cst.Return)


# Ex) cache_enabled=False, set_autocast_cache_enabled(False), autocast(True, torch.float16, False)
WITHOUT_CACHE = r"cache_enabled(=(?!True)|\()|\bautocast\(([^(),=]*,){2,}(?!\s*True)[^(),=]*\)"
# Words that say that some region of the project has another dtype than the old API's default.
OTHER = {"cuda": "bfloat16", "cpu": "float16"}
# Libraries open regions for their users: `Trainer(precision="bf16-mixed")`.
BY_NAME = {"cuda": r"[\"']bf(loat)?16", "cpu": r"[\"'](fp|float)16"}
# Ex) autocast("cuda"), whose dtype is the one of the region around it; accelerate names it
TAKES_OVER = r"(?<!accelerator\.)\bautocast\((?!\s*False\b|[^)]*(dtype|enabled\s*=\s*False))"
DTYPE_GETTERS = ("get_autocast_dtype", "get_autocast_gpu_dtype", "get_autocast_cpu_dtype")
DTYPE_SETTERS = ("set_autocast_dtype", "set_autocast_gpu_dtype", "set_autocast_cpu_dtype")


@rule.check
def check_import(statement: cst.ImportFrom, src: Source) -> Iterator[Finding]:
    """Ex) from torch.cuda.amp import autocast, and nothing that uses it"""
    yield from unused_imports(rule, statement, LEGACY, src)
