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

The rule is pedantic, since the wait may be worth it if the mask removes most of a tensor. `x[mask]
= 0.0` fills in place and waits for nothing.

Fix safety: none is offered. A sum over the mask adds in another order and has another result for an
empty mask, and the masked-out values must be finite; only the author knows a number of classes.

Known limits: as for AMP101. `repeat_interleave` and `one_hot`, which one argument fixes, are AMP115
if preview rules are on. An index counts as a mask only if it is known to be a tensor of bools or
bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import HOT, Finding, Group, Rule, Syncs, View, calls, nodes
from amplint import libcst as cst
from amplint.knowledge.host_reads import DATA_DEPENDENT

from .._shared.reads import device_tensor, read_of_batches
from ._counts import counted, mask_of

rule = Rule(
    "AMP106",
    __doc__,
    group=Group.PEDANTIC,
    help="keep the shape (`torch.where`, a product with the mask), or pass the size as an argument",
    witness=Syncs(before=6, after=0),
)


@rule.on((nodes("subscript", "put") | calls(*DATA_DEPENDENT)) & HOT)
def check(at: View) -> Iterator[Finding]:
    """Ex) losses[y != ignored], mask.nonzero(), F.one_hot(y), x.repeat_interleave(counts, 0)"""
    mask = mask_of(at) if at.op != "call" else None
    tensor = device_tensor(mask.value, certain=True) if mask is not None else counted(at)
    reasons = read_of_batches(at, tensor)
    if reasons is None or (at.op == "put" and is_filled(at)):
        return
    message = f"the shape of `{at.brief}` is read from the device in every iteration"
    yield at.finding(message, reasons)


def is_filled(put: View) -> bool:
    """Ex) x[mask] = 0.0, which asks for no shape; x[mask] = y does, and so does x[mask] += 1"""
    assigned = put.source.parent(put.source.parent(put.cst))
    is_plain = isinstance(assigned, cst.Assign)
    return is_plain and device_tensor(put.operands[2].value, certain=True) is None
