"""A region has no dtype, although an option of the program names one, which the scaler follows.

`torch.autocast("cuda")` is float16 whatever the option says: who asks for bfloat16, for its range,
trains in float16.

    parser.add_argument("--dtype", default="bfloat16")
    scaler = torch.amp.GradScaler("cuda", enabled=args.dtype in ("float16", "bfloat16"))
    with torch.autocast("cuda"):                                   # float16
        loss = model(x)

    with torch.autocast("cuda", dtype=getattr(torch, args.dtype)):
        loss = model(x)

A scaler that is on for float16 alone is off then, which AMP308 reports.

Fix safety: none is offered: the option may be a name that torch does not have, as bf16.

Known limits: the scaler has to be made in the function of the region, by a comparison with both
dtypes that is written in the call, and no region there has a dtype, or a test that may ask for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import Dtype, Finding, Group, Rule, View, calls
from amplint.knowledge.libraries import SCALERS

from ._dtype_options import regions_beside

rule = Rule(
    "AMP319",
    __doc__,
    group=Group.PRECISION,
    help="pass the dtype of the option: `dtype=...`",
    witness=Dtype(bad="float16", good="bfloat16"),
    preview=True,
)


@rule.on(calls(*SCALERS))
def check(scaler: View) -> Iterator[Finding]:
    """Ex) torch.autocast("cuda"), beside GradScaler(enabled=dtype in ["float16", "bfloat16"])"""
    for region in regions_beside(scaler, "In"):
        message = f"`{region.brief}` is float16, though the scaler follows an option for the dtype"
        yield region.finding(message, [scaler.related("this is on for bfloat16 as well")])
