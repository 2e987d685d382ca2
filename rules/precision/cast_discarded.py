"""A tensor is cast or moved in a statement of its own, and the result is discarded.

`to`, `half`, `float`, `type` and `cuda` of a tensor return a new one; those of a module change it.
The statement does nothing, and what follows works with the old tensor.

    logits = self.gate(x)
    logits.to(torch.float32)              # the softmax stays in half
    weights = logits.softmax(dim=-1)

    logits = logits.to(torch.float32)
    weights = logits.softmax(dim=-1)

Fix safety: assigns the result. Unsafe, since what follows then has another dtype or device. Only
shown for an attribute, which may be a parameter of a module: that takes no tensor.

Known limits: a variable has to be surely a tensor, and to be read later: a last copy may be there
to wait for the device. Tests, notebooks, statements whose errors are caught, and moves beside a
clock are not reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    READ,
    Dtype,
    Finding,
    Fix,
    Group,
    Rule,
    Safety,
    Tensor,
    TensorCertainty,
    View,
    calls,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.casts import DTYPE_OF_CAST, MOVES
from amplint.knowledge.vocabulary import MEASURES, TEST_PATH

from .._shared.dtypes import dtype_of_cast
from .._shared.guards import is_caught
from .._shared.waits import CLOCKS

rule = Rule(
    "AMP212",
    __doc__,
    group=Group.CORRECTNESS,
    help="assign the result: `x = x.to(...)`",
    witness=Dtype(bad="float16", good="float32"),
    preview=True,
)


@rule.on(calls(*DTYPE_OF_CAST, *MOVES))
def check(call: View) -> Iterator[Finding]:
    """Ex) logits.to(torch.float32), alone in a line"""
    at = call.receiver
    if at is None or any(True for _ in call.uses) or not isinstance(only(at.value), Tensor):
        return
    is_variable = at.op == READ
    if not (is_variable or at.op == "attr") or not at.ask(TensorCertainty):
        return
    if call.method in ("to", "type") and not any(True for _ in call.arguments):
        return
    src = call.source
    if not isinstance(src.parent(call.cst), cst.Expr) or TEST_PATH.search(src.path):
        return
    if src.path.endswith(".ipynb") or is_caught(call):
        return
    if is_variable and not any(use.span.start > call.span.start for use in at.uses):
        return
    if dtype_of_cast(call) is None and is_measured(call):
        return
    assignment = src.edits.insert_before(call.cst, f"{at.text} = ")
    fix = Fix("Assign the result", (assignment,), Safety.UNSAFE if is_variable else Safety.SUGGEST)
    yield call.finding(f"`{call.brief}` does nothing: a tensor is not changed in place", fix=fix)


def is_measured(call: View) -> bool:
    """Whether a copy may be made for the time that it takes."""
    clocks = any(each.callee in CLOCKS for each in call.operations("call"))
    return clocks or MEASURES.search(call.source.path) is not None
