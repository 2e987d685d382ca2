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
that region: the old name switches back to float16 there, which is hardly ever intended. If the
region may be inside another one, the fix writes out `dtype=` as it was, unless the region is
switched off and nothing in the project reads its dtype. It also writes out `cache_enabled=True` if
it may be inside a region without a cache.

Known limits: a name that may be the old or the new one (`try: ... except ImportError:`), and code
under a version test, are not reported. `autocast(*arguments)` and a bare decorator are reported
without a fix, and so is the class itself if it is passed on to be called elsewhere, or chosen by a
test: `partial(torch.cuda.amp.autocast, enabled=True)`, `autocast if use_amp else nullcontext`.
"""

from __future__ import annotations

from amplint import Change, Fix, Group, Rule, View, Warns
from amplint import libcst as cst
from amplint.knowledge.libraries import AUTOCASTS, AutocastApi
from amplint.knowledge.since import SINCE

from ._deprecated import OF_CLASS, of_class, renamed, report, report_handed_on

NEW = "torch.amp.autocast"
MEANT = "each argument has a known parameter"
INHERITS = "all that another region could change is written out"

SUCCESSORS = {
    name: f'{NEW}("{api.device}", ...)' for name, api in AUTOCASTS.items() if api.legacy is not None
}
# Words that say that some region of the project has another dtype than the old API's default.
OTHER = {"cuda": "bfloat16", "cpu": "float16"}
# Ex) `Trainer(precision="bf16-mixed")`, which opens regions for its users; set_autocast_dtype(d)
BY_NAME = {
    "cuda": r"[\"']bf(loat)?16|\bset_autocast_\w*dtype",
    "cpu": r"[\"'](fp|float)16|\bset_autocast_\w*dtype",
}
# Ex) autocast("cuda"), whose dtype is the one of the region around it; accelerate names it
TAKES_OVER = (
    r"(?<!accelerator\.)\bautocast\((?!\s*False\b|[^)]*(dtype|enabled\s*=\s*False))"
    r"|\bget_autocast_\w*dtype\b"
)
# Ex) cache_enabled=False, set_autocast_cache_enabled(False), autocast(True, torch.float16, False)
WITHOUT_CACHE = (
    r"cache_enabled(\s*=(?!\s*True)|\()|\bautocast\(([^(),=]*,){2,}(?!\s*True)[^(),=]*\)"
)

rule = Rule(
    "AMP701",
    __doc__,
    group=Group.MIGRATION,
    help="use `torch.amp.autocast(device_type, ...)`",
    witness=Warns("autocast(args...)` is deprecated"),
    safe_if=(MEANT, *OF_CLASS, INHERITS),
    changes=frozenset({Change.DTYPE, Change.ROUNDING}),
    torch=SINCE[NEW],
)


def migrate(call: View, function: View, name: str) -> Fix | None:
    """Ex) autocast(use_amp, dtype=d) -> torch.amp.autocast("cuda", enabled=use_amp, dtype=d)"""
    api, edits = AUTOCASTS[name], call.source.edits
    positional = [arg for _, keyword, arg in call.arguments if keyword is None]
    starred = any(arg.op == "starred" for arg in positional)
    if call.op != "call" or starred or len(positional) > len(api.parameters):
        return None
    also, explicit = "", []
    is_decided = is_decided_around(call, api)
    if is_decided:
        also = f", in the {OTHER[api.device or '']} of the region instead of {api.dtype}"
    elif may_inherit(call, api):
        also = f", still in {api.dtype}"
        explicit = [f"dtype={call.source.imports.bound_as('torch') or 'torch'}.{api.dtype}"]
    if may_lose_cache(call):
        explicit.append("cache_enabled=True")
    changes = [
        edits.insert_argument(call.cst, f'"{api.device}"', *explicit),
        *(
            edits.insert_before(arg.cst, f"{parameter}=")
            for arg, parameter in zip(positional, api.parameters, strict=False)
        ),
    ]
    conditions = {MEANT: not call.has_star, INHERITS: not is_decided}
    conditions |= of_class(function, "autocast")
    return renamed(function, NEW, changes, conditions, also)


def names_dtype(call: View) -> bool:
    """Whether the call names a dtype, or opens no region whose dtype anything could take over."""
    enabled = call.arg("enabled", 0)
    is_off = enabled is not None and enabled.text == "False"
    has_dtype = call.has_star or call.arg("dtype", 1) is not None
    return has_dtype or (is_off and not call.matches(TAKES_OVER, "autocast"))


def is_decided_around(call: View, api: AutocastApi) -> bool:
    """Whether the region around a call is known to have another dtype than the old name goes back
    to, which is hardly ever intended."""
    region = call.region
    if region is None or region.presumed or region.enabled is False or names_dtype(call):
        return False
    return region.device == api.device and region.dtype == OTHER[api.device or ""]


def may_inherit(call: View, api: AutocastApi) -> bool:
    """Whether the new API might inherit another dtype than the old one has."""
    device, region = api.device or "", call.region
    return not names_dtype(call) and (
        (region is not None and region.dtype != api.dtype)
        or is_handed_on(call)
        or call.mentions("autocast", OTHER[device])
        or call.matches(BY_NAME[device], "bf16", "fp16", "float16", "set_autocast")
    )


def may_lose_cache(call: View) -> bool:
    """Whether the new API might inherit that there is no cache."""
    sets_cache = call.has_star or call.arg("cache_enabled", 2) is not None
    is_inside = call.region is not None or is_handed_on(call)
    return is_inside and not sets_cache and call.matches(WITHOUT_CACHE, "autocast", "cache_enabled")


def is_handed_on(call: View) -> bool:
    """Whether others may open the region inside another one: it is returned, or in a generator, as
    that of a context manager."""
    return call.is_generator or any(
        isinstance(around, cst.Return) for around in call.source.ancestors(call.cst)
    )


report(rule, SUCCESSORS, migrate)
report_handed_on(rule, SUCCESSORS)
