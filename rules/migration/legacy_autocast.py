"""`torch.cuda.amp.autocast` and `torch.cpu.amp.autocast` are deprecated since torch 2.4.

Entering one warns (FutureWarning). The new function takes the device first, and its second
parameter is the dtype, not `enabled`: positional arguments have to become keywords.

    with torch.cuda.amp.autocast(use_amp):                    # warns
    with torch.amp.autocast("cuda", use_amp):                 # wrong: use_amp is the dtype

    with torch.amp.autocast("cuda", enabled=use_amp):

Fix safety: safe: positional arguments are mapped to the keywords of the same meaning. Unsafe if the
project tests `isinstance(region, torch.cuda.amp.autocast)`, since a region of the new class is not
an instance of the old one, or if it replaces the class (`torch.cuda.amp.autocast = Other`); with
`**arguments`, which may omit anything that is then inherited; and if the function, or its module,
is a parameter, and only the visible calls show that it is the old one. Without a dtype, the old API
always means float16 (bfloat16 on the CPU), while the new one inherits the dtype of an enclosing
region. Inside a region that is known to have another dtype, the fix is unsafe and uses the dtype of
that region: the old name switches back to float16 there, which is hardly ever intended. The same
holds if the `backward` of an autograd function repeats what its `forward` did in such a region:
there is no region to inherit from, so the fix writes out the dtype of that region. If the region
may be inside another one, the fix writes out `dtype=` as it was, unless the region is switched off
and nothing in the project reads its dtype. It also writes out `cache_enabled=True` inside a region
if the project has a region without a cache. Removing an unused import is unsafe: code outside the
project may import the name from this file.

Known limits: a name that may be the old or the new one (`try: ... except ImportError:`), and code
under a version test, are not reported. `autocast(*arguments)` and a bare decorator are reported
without a fix, and so is the class itself if it is passed on to be called elsewhere:
`partial(torch.cuda.amp.autocast, enabled=True)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import Change, Finding, Fix, Group, Region, Rule, Safety, View, Warns
from amplint import libcst as cst
from amplint.knowledge.libraries import AUTOCASTS, AutocastApi
from amplint.knowledge.since import SINCE

from .._shared.classes import AUTOGRAD_FUNCTION, method_beside
from .._shared.deprecated import (
    message,
    named_by,
    report_handed_on,
    report_unused_imports,
    using,
)
from .._shared.parameters import is_given
from .._shared.suspensions import suspensions

if TYPE_CHECKING:
    from amplint import Source

MEANT = "each argument has a known parameter"
CERTAIN = "no caller could pass another function"
NOT_ASKED = "nothing checks the class of a region"
INHERITS = "all that another region could change is written out"

SUCCESSORS = {
    name: f'torch.amp.autocast("{api.device}", ...)'
    for name, api in AUTOCASTS.items()
    if api.legacy is not None
}

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
    torch=SINCE["torch.amp.autocast"],
)


@rule.on(using(*SUCCESSORS))
def check(at: View) -> Iterator[Finding]:
    """Ex) torch.cuda.amp.autocast(use_amp); @torch.cuda.amp.autocast, without a call, is accepted,
    and the first call raises."""
    found = named_by(at, SUCCESSORS)
    if found is None:
        return
    function, name = found
    said = message(function, SUCCESSORS[name])
    if at.op != "call":
        yield at.finding(said)
        return
    api = AUTOCASTS[name]
    around = decided_around(at, api)
    because = [around.evidence] if around is not None else []
    yield at.finding(said, because, migrate(at, function, api, around))


report_handed_on(rule, SUCCESSORS)
report_unused_imports(rule, frozenset(SUCCESSORS))


def migrate(call: View, function: View, api: AutocastApi, around: Region | None) -> Fix | None:
    """Ex) autocast(use_amp, dtype=d) -> torch.amp.autocast("cuda", enabled=use_amp, dtype=d)

    Args:
        function: what is called.
        around: a region of another dtype, which is to decide.
    """
    given, edits = [*call.arguments], call.source.edits
    positional = [arg for _, keyword, arg in given if keyword is None]
    starred = any(arg.op == "starred" for arg in positional)
    if starred or len(positional) > len(api.parameters):
        return None
    spelled = call.source.imports.spell("torch.amp.autocast")
    dtype = dtype_of(around, call) if around is not None else explicit_dtype(call, api)
    explicit = (dtype, explicit_cache(call))
    opening = edits.insert_argument(call.cst, f'"{api.device}"', *filter(None, explicit))
    if spelled is None or opening is None:
        return None
    others = [
        edits.insert_before(arg.cst, f"{name}=")
        for arg, name in zip(positional, api.parameters, strict=False)
    ]
    rename = edits.replace(function.cst, spelled.text)
    made = (*spelled.edits, rename, opening, *others)
    title = "Use `torch.amp.autocast`"
    if around is not None:
        title += f", in the {around.dtype} of the region instead of {api.dtype}"
        return Fix(title, made, Safety.UNSAFE)
    if dtype:
        title += f", still in {api.dtype}"
    conditions = {
        MEANT: not call.has_star,
        CERTAIN: not is_given(function),
        NOT_ASKED: not call.matches(CHECKED_BY_CLASS, "autocast"),
        INHERITS: True,
    }
    fix = Fix.safe_if(title, made, conditions)
    return fix.demoted() if call.matches(REPLACED, "autocast") else fix


def decided_around(call: View, api: AutocastApi) -> Region | None:
    """The region around a call, or the one that is computed anew, if it is known to have another
    dtype than the old name goes back to."""
    if takes_dtype(call):
        return None
    region = (recomputed(call) or call).region
    if region is None or region.presumed or region.enabled is False:
        return None
    differs = region.device == api.device and region.dtype == OTHER[api.device or "cuda"]
    return region if differs else None


def recomputed(call: View) -> View | None:
    """The first call in the `forward` beside the `backward` of an autograd function that a call
    stands in. Nobody opens the region of the one again for the other."""
    if call.function.name != "backward" or AUTOGRAD_FUNCTION not in call.bases:
        return None
    src = call.source
    written = method_beside(call, "forward")
    forward = src.layout.node_for(written) if written is not None else None
    first = next(src.calls(forward), None) if forward is not None else None
    return call.of(first) if first is not None else None


def dtype_of(region: Region, call: View) -> str:
    """`dtype=torch.bfloat16` where there is no region to inherit it from."""
    return dtype_argument(region.dtype, call.source) if recomputed(call) is not None else ""


def takes_dtype(call: View) -> bool:
    """Whether the call names a dtype, or needs none."""
    return call.has_star or call.arg("dtype", 1) is not None or is_off(call)


def explicit_dtype(call: View, api: AutocastApi) -> str:
    """`dtype=torch.float16` where the new API might inherit another one."""
    region = call.region
    nested = region is not None and region.dtype != api.dtype
    elsewhere = (
        call.mentions("autocast", OTHER[api.device or "cuda"])
        or call.matches(BY_NAME[api.device or "cuda"], "bf16", "fp16", "float16")
        or any(call.mentions(word) for word in DTYPE_SETTERS)
    )
    if takes_dtype(call) or not (nested or elsewhere or may_be_inside(call)):
        return ""
    return dtype_argument(api.dtype, call.source)


def dtype_argument(dtype: str | None, src: Source) -> str:
    return f"dtype={src.imports.bound_as('torch') or 'torch'}.{dtype}"


def is_off(call: View) -> bool:
    """Whether the region is switched off, and nothing in the project could take its dtype over."""
    enabled = call.arg("enabled", 0)
    off = enabled is not None and enabled.text == "False"
    return off and not call.matches(TAKES_OVER, "autocast") and not call.mentions(*DTYPE_GETTERS)


def may_be_inside(call: View) -> bool:
    """Whether others may open the region inside another one: it is handed on, or open at a `yield`,
    as in the generator of a context manager."""
    src = call.source
    item = src.parent(call.cst)
    block = src.parent(item) if isinstance(item, cst.WithItem) else None
    if isinstance(block, cst.With):
        return any(isinstance(each, cst.Yield) for each in suspensions(block.body))
    return is_handed_on(call.cst, src)


def explicit_cache(call: View) -> str:
    """`cache_enabled=True` where the new API might inherit that there is none."""
    given = call.has_star or call.arg("cache_enabled", 2) is not None
    inside = call.region is not None or may_be_inside(call)
    without = inside and not given and call.matches(WITHOUT_CACHE, "autocast", "cache_enabled")
    return "cache_enabled=True" if without else ""


def is_handed_on(call: cst.Call, src: Source) -> bool:
    """Whether the region is returned, be it in one case of several: who gets it may open it inside
    another one."""
    around = src.parent(call)
    while isinstance(around, cst.IfExp):
        around = src.parent(around)
    return isinstance(around, cst.Return)


# Ex) cache_enabled=False, set_autocast_cache_enabled(False), autocast(True, torch.float16, False)
WITHOUT_CACHE = (
    r"cache_enabled(\s*=(?!\s*True)|\()|\bautocast\(([^(),=]*,){2,}(?!\s*True)[^(),=]*\)"
)
# Words that say that some region of the project has another dtype than the old API's default.
OTHER = {"cuda": "bfloat16", "cpu": "float16"}
# Libraries open regions for their users: `Trainer(precision="bf16-mixed")`.
BY_NAME = {"cuda": r"[\"']bf(loat)?16", "cpu": r"[\"'](fp|float)16"}
# Ex) autocast("cuda"), whose dtype is the one of the region around it; accelerate names it
TAKES_OVER = r"(?<!accelerator\.)\bautocast\((?!\s*False\b|[^)]*(dtype|enabled\s*=\s*False))"
DTYPE_GETTERS = ("get_autocast_dtype", "get_autocast_gpu_dtype", "get_autocast_cpu_dtype")
DTYPE_SETTERS = ("set_autocast_dtype", "set_autocast_gpu_dtype", "set_autocast_cpu_dtype")
