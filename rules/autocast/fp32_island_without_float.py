"""Code with autocast disabled gets half results from the region around it, and raises.

`autocast(enabled=False)` does not convert earlier results to float32: they are still half, while
the weights are float32.

    h = self.encoder(x)                              # half, in the region of the trainer
    with torch.autocast("cuda", enabled=False):
        y = self.head(h)                             # RuntimeError: must have the same dtype

    with torch.autocast("cuda", enabled=False):
        y = self.head(h.float())

Fix safety: unsafe: casts the input to float32, which a layer that was cast to half elsewhere would
refuse.

Known limits: only layers of torch (no sequences of layers), and products whose operands are both
known, are checked. The rule is silent if any file of the project casts models to half.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    HALF,
    WITHIN_REGION,
    Change,
    Finding,
    Fix,
    Group,
    Object,
    Presumes,
    Raises,
    Rule,
    Safety,
    View,
    calls,
    nodes,
)
from amplint.knowledge.casts import EQUAL_DTYPES
from amplint.knowledge.modules import MODULES

from .._shared.dtypes import differ, product
from ._regions import made_by_autocast

LAYERS = EQUAL_DTYPES & MODULES.keys()
# Weights that may not be float32: model.half(), model.to(torch.bfloat16), torch_dtype=...
HALF_WEIGHTS = (
    r"(model|net|module|\bself)\w*(\.cuda\(\))?\.(half|bfloat16)\(\)"
    r"|(model|net|module)\w*\.to\([^)]*(float16|half|dtype)"
    r"|torch_dtype=|set_default_dtype"
)
HALF_WORDS = ("half", "float16", "dtype")
MADE_HALF = r"\b{}\(.*\)(\.\w+\(\))*\.(half|bfloat16)\(\)"  # of an instance of the class


rule = Rule(
    "AMP306",
    __doc__,
    group=Group.CORRECTNESS,
    help="cast the results of the region with `.float()` before the float32 part uses them",
    witness=Raises("must have the same dtype"),
    changes=frozenset({Change.DTYPE}),
    supersedes=("AMP206",),
    presumes=Presumes.ALWAYS,
)


@rule.on((calls(*EQUAL_DTYPES) | nodes("binop")) & WITHIN_REGION)
def check(at: View) -> Iterator[Finding]:
    region = at.region
    if region is None or region.enabled is not False or region.inherited:
        return
    wrong = half_operand(at)
    tensor = wrong.tensor if wrong is not None else None
    if wrong is None or tensor is None or not made_by_autocast(tensor):
        return
    pattern = MADE_HALF.format(at.function.qualname.partition(".")[0])
    if at.matches(HALF_WEIGHTS, *HALF_WORDS) or at.matches(pattern, *HALF_WORDS):
        return
    message = f"`{wrong.brief}` is {tensor.dtype}, and autocast is off here: this raises"
    edit = at.source.edits.append_call(wrong.cst, "float()")
    fix = Fix("Cast it to float32", (edit,), Safety.UNSAFE)
    yield wrong.finding(message, (tensor.dtype_evidence, region.evidence), fix)


def half_operand(at: View) -> View | None:
    """The half operand of a layer in float32, or of a product with an operand in float32."""
    op = product(at)
    if op is None or not op.operands or at.has_star:
        return None
    if op.module is not None:
        return op.operands[0] if is_float32_layer(op.module) else None
    dtypes = [each.tensor.dtype if each.tensor is not None else None for each in op.operands[:2]]
    if len(dtypes) < 2 or not differ(*dtypes):
        return None
    return op.operands[0 if dtypes[0] in HALF else 1]


def is_float32_layer(module: Object) -> bool:
    """Whether a module takes no half as long as its weights are float32."""
    return module.kind == "module" and module.dtype is None and module.type in LAYERS
