"""`backward()` runs inside an autocast region.

Autocast is for the forward pass and the loss. The backward pass uses the dtypes of the forward
operations by itself; inside the region, its own matmuls are cast once more. If part of the forward
pass ran in float32 on purpose (in a nested `autocast(enabled=False)` region, before the region, in
`linalg`), its gradients are then silently computed in 16 bits.

    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
        scaler.scale(loss).backward()     # in the region

    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()         # after it

Also found if `backward()` is in a function that the region calls: the finding is at that call.

`torch.autograd.grad` in the forward pass of a float16 region, for a penalty or for forces, is
reported too: it differentiates an unscaled value, so that small gradients become 0. With
`create_graph=True` it is not the backward pass of the training, and belongs in a nested float32
region.

    with torch.autocast("cuda"):
        energy = model(positions).sum()
        (forces,) = torch.autograd.grad(energy, positions, create_graph=True)

Fix safety: ends the region before the statement, or before the `if` around it. Safe only if the
whole forward pass is known to consist of ordinary operations inside the region, and only the
backward pass leaves it: then the gradients are bit-identical. Unsafe if something may be hidden, if
a nested float32 region makes the gradients differ (they become right), or if the graph may contain
a custom `autograd.Function` without `custom_fwd`/`custom_bwd`, which may run inside and raise
outside. Not offered if the `with` also opens another context.

Known limits: a `backward` that a library runs is not seen. If a function mentions a scale, amplint
assumes that it scales what it differentiates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    IN_REGION,
    Change,
    Differs,
    Finding,
    Fix,
    Group,
    Presumes,
    Rule,
    View,
    calls,
    nodes,
    region_dtype,
    tensors_in,
)
from amplint import libcst as cst
from amplint.knowledge.vocabulary import SCALES_BY_HAND

from .._shared.forward import belongs_after
from ._backward_support import BackwardSupport, Support
from ._regions import lines_to_leave

if TYPE_CHECKING:
    from amplint import Source

ALONE = "nothing else leaves the region"
KNOWN = "all of the forward pass is seen to be ordinary work in the region"
NOT_WIDER = "none of it runs in a wider dtype than the region"

ISLAND = "differentiate in float32, in an `autocast(enabled=False)` island"

rule = Rule(
    "AMP301",
    __doc__,
    group=Group.CORRECTNESS,
    other_groups=(Group.PRECISION,),
    help="end the region after the loss, and call `backward()` after it",
    witness=Differs(rtol=1e-3),
    safe_if=(ALONE, KNOWN, NOT_WIDER),
    changes=frozenset({Change.ROUNDING}),
    presumes=Presumes.AUDITED,
)


@rule.on(nodes("call") & IN_REGION)
def check(call: View) -> Iterator[Finding]:
    chain = call.backward
    region = call.enabled_region if chain is not None else None
    if chain is None or region is None or region.inherited or within_reported(call):
        return
    support = call.ask(BackwardSupport)
    assert support is not None  # as there is a chain
    group = Group.CORRECTNESS if support.wide else Group.PRECISION
    because = (*chain, region.evidence, support.wide)
    rounded = "float32 gradients are rounded" if support.wide else "gradients may be rounded"
    message = f"`{call.brief}` runs backward in autocast: {rounded}"
    yield call.finding(message, because, leave(call, support), group=group)


@rule.on(calls("torch.autograd.grad") & IN_REGION)
def check_gradient(call: View) -> Iterator[Finding]:
    region = call.enabled_region
    if region is None or region.presumed or region_dtype(region) != "float16":
        return
    is_backward = call.backward is not None and not region.inherited
    if is_backward or any(map(SCALES_BY_HAND.search, call.function.words)):
        return
    message = f"`{call.brief}` is not scaled: small gradients become 0 in float16"
    yield call.finding(message, [region.evidence], help=ISLAND, group=Group.PRECISION)


def within_reported(call: View) -> bool:
    """Ex) `run(loss.backward())` is one mistake, not two."""
    for around in call.source.ancestors(call.cst):
        if isinstance(around, cst.BaseSmallStatement):
            return False
        if isinstance(around, cst.Call) and call.of(around).backward is not None:
            return True
    return False


def leave(call: View, support: Support) -> Fix | None:
    """End the region just before the statement that holds the call, or the `if` around it."""
    src = call.source
    own = src.statement(call.cst)
    moved = lines_to_leave(outermost(own, src), call)
    if not ends_forward(call) or not all(holds_no_forward(line, call) for line in moved):
        return None
    conditions = {
        ALONE: moved == [own] and not src.layout.value_used(call.cst),
        KNOWN: support.complete,
        NOT_WIDER: support.wide is None,
    }
    return Fix.safe_if(
        "End the autocast region before the backward pass", src.edits.dedent(moved), conditions
    )


def outermost(statement: cst.BaseStatement | None, src: Source) -> cst.BaseStatement | None:
    """The statement, or the outermost `if` that holds it with nothing else in between."""
    around: cst.CSTNode | None = statement
    while isinstance(around, cst.BaseStatement):
        statement = around
        block = src.parent(statement)
        around = src.parent(block) if isinstance(block, cst.IndentedBlock) else None
        if isinstance(around, cst.Else):
            around = src.parent(around)
        while isinstance(around, cst.If) and isinstance(src.parent(around), cst.If):
            around = src.parent(around)  # an `elif`
        if not isinstance(around, cst.If):
            break
    return statement


def ends_forward(call: View) -> bool:
    """Whether the call is a backward pass, or is handed a loss that has been computed.

    A helper that runs forward work too has to stay in the region.
    """
    return not call.backward or any(tensors_in([each.value for _, _, each in call.arguments]))


def holds_no_forward(statement: cst.BaseStatement, call: View) -> bool:
    """Whether nothing that autocast is meant for leaves the region with the statement."""
    if multiplies_matrices(statement):
        return False
    node, src = call.cst, call.source
    return all(
        inner is node
        or inner is node.func
        or src.parent(inner) is node
        or belongs_after(call.of(inner))
        for inner in src.calls(statement)
    )


def multiplies_matrices(node: cst.CSTNode) -> bool:
    """Ex) a @ b, a @= b"""
    kinds = (cst.MatrixMultiply, cst.MatrixMultiplyAssign)
    return isinstance(node, kinds) or any(multiplies_matrices(each) for each in node.children)
