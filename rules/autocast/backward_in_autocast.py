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
    Rule,
    Support,
    is_autocast,
    nodes,
    tensors_in,
)
from amplint import libcst as cst

from .._shared.forward import belongs_after

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
    presumes=False,
    candidates=nodes("call") & IN_REGION & (lambda at: at.runs_backward(at.number) is not None),
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    region = src.region(call)
    if region is None or region.inherited or region.enabled is False:
        return
    chain = src.backward(call)
    if chain is None or within_reported(call, src):
        return
    support = src.ask(BackwardSupport, call)
    assert support is not None  # as there is a chain
    widened = support.island or support.linalg
    group = Group.CORRECTNESS if widened else Group.PRECISION
    shown = (support.island, support.linalg, support.function)
    related = src.reasons(*chain, region.evidence, *shown)
    rounded = "float32 gradients are rounded" if widened else "gradients may be rounded"
    message = f"`{src.brief(call)}` runs backward in autocast: {rounded}"
    yield src.finding(rule, call, message, leave(call, support, src), related, group)


def within_reported(call: cst.Call, src: Source) -> bool:
    """Ex) `run(loss.backward())` is one mistake, not two."""
    parent = src.parent(call)
    while parent is not None and not isinstance(parent, cst.BaseSmallStatement):
        if isinstance(parent, cst.Call) and src.backward(parent) is not None:
            return True
        parent = src.parent(parent)
    return False


def leave(call: cst.Call, support: Support, src: Source) -> Fix | None:
    """End the region just before the statement that holds the call, or the `if` around it."""
    statement = outermost(src.statement(call), src)
    block = src.parent(statement)
    region = src.parent(block) if block is not None else None
    if not isinstance(block, cst.IndentedBlock) or not isinstance(region, cst.With):
        return None
    if not all(is_autocast(src.value(item.item)) for item in region.items):
        return None
    at = next((i for i, line in enumerate(block.body) if line is statement), 0)
    if at == 0:  # nothing would stay
        return None
    moved = list(block.body[at:])
    if not (chain_ends_forward(call, src) and all(no_forward(line, call, src) for line in moved)):
        return None
    edits = src.edits.dedent(moved)
    if not edits:
        return None
    conditions = {
        ALONE: moved == [src.statement(call)] and not src.layout.value_used(call),
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


def chain_ends_forward(call: cst.Call, src: Source) -> bool:
    """Whether the call is a backward pass, or is handed a loss that has been computed.

    A helper that runs forward work too has to stay in the region.
    """
    if not src.backward(call):
        return True
    return any(tensors_in([src.value(arg.value)]) for arg in call.args)


def no_forward(statement: cst.BaseStatement, call: cst.Call, src: Source) -> bool:
    """Whether nothing that autocast is meant for leaves the region with the statement."""
    if multiplies_matrices(statement):
        return False
    return all(
        inner is call
        or inner is call.func
        or src.parent(inner) is call
        or belongs_after(inner, src)
        for inner in src.calls(statement)
    )


def multiplies_matrices(node: cst.CSTNode) -> bool:
    """Ex) a @ b, a @= b"""
    kinds = (cst.MatrixMultiply, cst.MatrixMultiplyAssign)
    return isinstance(node, kinds) or any(multiplies_matrices(each) for each in node.children)
