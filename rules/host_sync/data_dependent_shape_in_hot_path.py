"""The shape of a result depends on values on the device, in every iteration of a training loop.

`x[mask]`, `nonzero`, `torch.where(mask)`, `masked_select`, `unique`, `bincount`, `one_hot` without
`num_classes` and `repeat_interleave` of a tensor without `output_size` have to know how many
elements the result has before torch can allocate memory for it: the host waits for the device.

    for x, y in loader:
        losses = criterion(model(x), y)
        loss = losses[y != ignored].mean()                      # waits at every step

    for x, y in loader:
        losses = criterion(model(x), y)
        kept = y != ignored
        loss = (losses * kept).sum() / kept.sum().clamp(min=1)  # the shape stays

    F.one_hot(y, num_classes=10)                                # nothing is read
    x.repeat_interleave(counts, dim=0, output_size=total)

The rule is pedantic, since the wait may be worth its price where most of a tensor is left out.
`x[mask] = 0.0` fills in place and waits for nothing.

Fix safety: none is offered. A sum over the mask has another order and another result for an empty
mask, and what is masked out must not be infinite; a number of classes is the author's to know.

Known limits: as for AMP101. Of an index, only what is known to be a tensor of bools or of bytes is
a mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    HOT,
    Finding,
    Group,
    Method,
    Rule,
    Spot,
    Syncs,
    Tensor,
    TensorTree,
    calls,
    constant,
    nodes,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.host_reads import DATA_DEPENDENT

from .._shared.reads import device_tensor, hot_evidence

if TYPE_CHECKING:
    from amplint import Source

MASKS = frozenset({"bool", "uint8"})


def is_masked(at: Spot) -> bool:
    """Ex) losses[y != ignored]"""
    container, index = at.node.operands[:2]
    inner = at.graph.nodes[index]
    elements = inner.operands if inner.op == "tuple" else (index,)
    return isinstance(only(at.of(container)), Tensor | TensorTree) and any(
        isinstance(mask := device_tensor(at.of(each), certain=True), Tensor) and mask.dtype in MASKS
        for each in elements
    )


def counts(at: Spot) -> bool:
    """Ex) mask.nonzero(), torch.where(mask)"""
    operands = [*at.arguments, *([at.receiver] if at.name is None else [])]
    if any(name.endswith(".where") for name in at.names) and len(operands) > 1:
        return False
    return any(device_tensor(at.of(each)) is not None for each in operands)


rule = Rule(
    "AMP106",
    __doc__,
    group=Group.PEDANTIC,
    since="0.1",
    help="keep the shape (`torch.where`, a product with the mask), or give the size by an argument",
    witness=Syncs(before=6, after=0),
    candidates=(nodes("subscript", "put") & is_masked | calls(*DATA_DEPENDENT) & counts) & HOT,
)


@rule.check
def check_mask(node: cst.Subscript, src: Source) -> Iterator[Finding]:
    """Ex) losses[y != ignored], x[mask, 0], total[mask] += part"""
    if not isinstance(only(src.value(node.value)), Tensor | TensorTree) or is_filled(node, src):
        return
    for element in node.slice:
        if isinstance(element.slice, cst.Index):
            mask = device_tensor(src.value(element.slice.value), certain=True)
            if isinstance(mask, Tensor) and mask.dtype in MASKS:
                yield from reading(node, mask, src)
                return


@rule.check
def check_call(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) mask.nonzero(), torch.where(mask), F.one_hot(y), x.repeat_interleave(counts, 0)"""
    yield from reading(call, counted(call, src), src)


def reading(
    node: cst.BaseExpression, tensor: Tensor | TensorTree | None, src: Source
) -> Iterator[Finding]:
    evidence = hot_evidence(node, tensor, src)
    if evidence is not None:
        message = f"the shape of `{src.brief(node)}` is read from the device in every iteration"
        yield src.finding(rule, node, message, None, evidence)


def is_filled(node: cst.Subscript, src: Source) -> bool:
    """Ex) x[mask] = 0.0, which asks for no shape; x[mask] = y does, and so does x[mask] += 1"""
    target = src.parent(node)
    statement = src.parent(target)
    if not isinstance(target, cst.AssignTarget) or not isinstance(statement, cst.Assign):
        return False
    return device_tensor(src.value(statement.value), certain=True) is None


def counted(call: cst.Call, src: Source) -> Tensor | TensorTree | None:
    """The tensor on the device whose values decide the shape of what the call returns."""
    name = src.name(call.func)
    operands = [arg.value for arg in call.args if not arg.star]
    method = only(src.value(call.func)) if isinstance(call.func, cst.Attribute) else None
    if isinstance(call.func, cst.Attribute) and isinstance(method, Method):
        name = f"Tensor.{method.name}" if isinstance(method.of, Tensor | TensorTree) else None
        operands.insert(0, call.func.value)
    if name not in DATA_DEPENDENT or src.has_star(call) or not operands:
        return None
    if name == "torch.combinations" or is_spared(name, call, len(operands), src):
        return None  # combinations wait no more since torch 2.14
    # The counts decide of `repeat_interleave`, where they are a tensor, and else the tensor itself.
    several = name.endswith("repeat_interleave") and len(operands) > 1
    counts = src.keyword(call, "repeats")
    decides = operands[1 if several else 0] if counts is None else counts.value
    return device_tensor(src.value(decides), certain=several or counts is not None)


def is_spared(name: str, call: cst.Call, operands: int, src: Source) -> bool:
    """Whether an argument says what would be read: `num_classes`, `output_size`."""
    spares = DATA_DEPENDENT[name]
    if name.endswith(".where"):
        return operands > 1
    given = src.keyword(call, spares) if spares else None
    if name.endswith(".one_hot"):
        given = src.argument(call, spares, 1)
        return given is not None and constant(src.value(given.value)) != -1
    return given is not None
