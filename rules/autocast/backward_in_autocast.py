"""`backward()` runs inside an autocast region.

Autocast is for the forward pass and the loss. The backward pass takes the dtypes of the forward
operations by itself; left inside the region, its own matmuls are cast once more. Where part of the
forward pass ran in float32 on purpose (an `autocast(enabled=False)` island, work done before the
region, `linalg`), its gradients are then computed in 16 bits after all, without a word.

    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
        scaler.scale(loss).backward()     # in the region

    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()         # after it

Also found when the `backward()` is in a function that the region calls: the finding stands at that
call.

Fix safety: ends the region before the statement, or before the `if` around it. Safe only where the
whole forward pass is seen to consist of ordinary operations inside the region, and nothing but the
backward pass leaves it: then the gradients are bit-identical. Unsafe where something may be hidden,
or an island makes the gradients differ (to the right ones), and where a custom `autograd.Function`
without `custom_fwd`/`custom_bwd` may be in the graph, for such a one can run inside and raise
outside. Not offered where the `with` opens something else too.

Known limits: a `backward` that a library runs is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    IN_REGION,
    BackwardSupport,
    Change,
    Differs,
    Finding,
    Fix,
    Group,
    Presumes,
    Rule,
    Support,
    View,
    nodes,
    tensors_in,
)
from amplint import libcst as cst

from .._shared.forward import belongs_after, lines_to_leave

if TYPE_CHECKING:
    from amplint import Source

ALONE = "nothing else leaves the region"
KNOWN = "all of the forward pass is seen to run in the region"
NO_ISLAND = "none of it is kept out of autocast"
NO_LINALG = "none of it runs wider than the region"
NO_FUNCTION = "it holds no custom autograd.Function"

rule = Rule(
    "AMP301",
    __doc__,
    group=Group.CORRECTNESS,
    other_groups=(Group.PRECISION,),
    since="0.1",
    help="end the region after the loss, and call `backward()` behind it",
    witness=Differs(rtol=1e-3),
    safe_if=(ALONE, KNOWN, NO_ISLAND, NO_LINALG, NO_FUNCTION),
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
    widened = support.island or support.linalg
    group = Group.CORRECTNESS if widened else Group.PRECISION
    because = (*chain, region.evidence, support.island, support.linalg, support.function)
    rounded = "float32 gradients are rounded" if widened else "gradients may be rounded"
    message = f"`{call.brief}` runs backward in autocast: {rounded}"
    yield call.finding(message, because, leave(call, support), group=group)


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
    edits = src.edits.dedent(moved) if moved else ()
    if not edits:
        return None
    conditions = {
        ALONE: moved == [own] and not src.layout.value_used(call.cst),
        KNOWN: support.complete,
        NO_ISLAND: support.island is None,
        NO_LINALG: support.linalg is None,
        NO_FUNCTION: support.function is None,
    }
    return Fix.safe_if("End the autocast region before the backward pass", tuple(edits), conditions)


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
