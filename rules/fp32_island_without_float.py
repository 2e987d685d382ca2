"""A part that is kept out of autocast is given half by the part that is not: it raises.

`autocast(enabled=False)` makes no float32 of what was computed before: that is still half, and the
weights are float32.

    h = self.encoder(x)                              # half, in the region of the trainer
    with torch.autocast("cuda", enabled=False):
        y = self.head(h)                             # RuntimeError: must have the same dtype

    with torch.autocast("cuda", enabled=False):
        y = self.head(h.float())

Fix safety: unsafe: casts the input to float32, which a layer that was made half elsewhere would
refuse.

Known limits: only layers of torch, not sequences of them, and functions whose operands are both
known are judged. Nothing is said where some file of the project casts models to half.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amplint import Change, Finding, Fix, Group, Object, Raises, Rule, Safety, Source
from amplint.dtypes import differ, dtype_places, made_by_autocast
from amplint.torch_ops import EQUAL_DTYPES, MODULES
from amplint.transfer import HALF
from amplint.values import only

rule = Rule(
    "AMP306",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    witness=Raises("must have the same dtype"),
    changes=frozenset({Change.DTYPE}),
    words=frozenset({"autocast"}),
    outranks=("AMP206",),
)
LAYERS = EQUAL_DTYPES & MODULES.keys()
# Weights that may not be float32: model.half(), model.to(torch.bfloat16), torch_dtype=...
HALF_WEIGHTS = (
    r"(model|net|module|\bself)\w*(\.cuda\(\))?\.(half|bfloat16)\(\)"
    r"|(model|net|module)\w*\.to\([^)]*(float16|half|dtype)"
    r"|torch_dtype=|set_default_dtype"
)
MADE_HALF = r"\b{}\(.*\)(\.\w+\(\))*\.(half|bfloat16)\(\)"  # of an instance of the class


@rule.on(cst.Call)
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    region = src.region(call)
    if region is None or region.enabled is not False or region.inherited or not call.args:
        return
    wrong = half_operand(call, src)
    tensor = src.tensor(wrong) if wrong is not None else None
    if wrong is None or tensor is None or not made_by_autocast(tensor):
        return
    made = MADE_HALF.format(src.scope(call).partition(".")[0])
    if src.matches(HALF_WEIGHTS) or src.matches(made):
        return
    message = f"`{src.brief(wrong)}` is {tensor.dtype}, and autocast is off here: this raises"
    fix = Fix("Cast it to float32", (src.append_call(wrong, "float()"),), Safety.UNSAFE)
    places = dtype_places(src, tensor)
    opened = (src.related(region.why),) if region.why is not None else ()
    yield src.finding(rule, wrong, message, fix, (*places, *opened))


def half_operand(call: cst.Call, src: Source) -> cst.BaseExpression | None:
    """What a layer in float32, or a function with an operand in float32, is given in half."""
    if call.args[0].star:
        return None
    called = only(src.value(call.func))
    if isinstance(called, Object):
        return call.args[0].value if is_float32_layer(called) else None
    if src.name(call.func) not in EQUAL_DTYPES or len(call.args) < 2:
        return None
    first, second = (arg.value for arg in call.args[:2])
    one, other = src.tensor(first), src.tensor(second)
    if one is None or other is None or not differ(one.dtype, other.dtype):
        return None
    return first if one.dtype in HALF else second


def is_float32_layer(module: Object) -> bool:
    """Whether a module takes no half as long as its weights are float32."""
    return module.kind == "module" and module.dtype is None and module.type in LAYERS
