"""Frequencies are a buffer of a module that is cast to half as a whole: far angles are wrong.

`model.half()` and `model.to(torch.bfloat16)` cast buffers too. bfloat16 keeps two or three digits
of a frequency, so that its product with a position of 1000 is off by a radian or more: a rotary
embedding then rotates by the angles of other positions, in training and in inference. Computing the
angles in float32 later does not help.

    class Rotary(nn.Module):
        def __init__(self, dim):
            super().__init__()
            inv_freq = 1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim))
            self.register_buffer("inv_freq", inv_freq)          # bfloat16 after the next line

    model = Model().to(torch.bfloat16)

    def _apply(self, function, recurse=True):                   # of Rotary: what moves it casts it
        inv_freq = self.inv_freq
        super()._apply(function, recurse)
        self.inv_freq = inv_freq.to(self.inv_freq.device)       # moved, and as it was
        return self

Or recompute the frequencies where they are used: this takes next to no time.

Fix safety: there is no fix; the author has to decide where to compute them.

Known limits: frequencies are powers of `torch.arange` or `torch.linspace` that one expression
computes, in a buffer that only the constructor sets. Tables of
sines and cosines and filter banks are not reported: they lose no more than the values that they are
multiplied by. Plain `torch.linspace(1, 10, n)`, for positions between -1 and 1, is not reported
either. The cast has to be visible: of a module of the project that holds this one, to a dtype that
is written out. `from_pretrained(torch_dtype=...)` is not such a cast: it loads parameters in that
dtype, and a buffer that is not loaded stays float32. The rule is silent if a class on the way
defines `to`, `half` or `_apply`, or if the module of the buffer is cast separately elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from amplint import (
    Classes,
    Differs,
    Finding,
    Group,
    Rule,
    View,
    calls,
    constant,
)
from amplint.knowledge.dtypes import WIDE_FLOATS

from ._cast_modules import CastModules

USES = ("sin", "cos", "polar", "einsum", "outer")  # of frequencies, in some method of the class
POWER = re.compile(r"\*\*|\b(exp|pow)\(")
COUNTED = re.compile(r"\b(arange|linspace)\(")
# Powers of 2, which lose nothing; tables of sines; what may be half already.
OTHERS = re.compile(r"\b2(\.0*)? ?\*\*|\bpow\(2|\b(sin|cos|polar|half|b?float16|to|type)\(")

rule = Rule(
    "AMP210",
    __doc__,
    group=Group.PRECISION,
    help="keep it in float32 with an `_apply` of the module, or compute it where it is used",
    witness=Differs(rtol=0.1),
)


@rule.on(calls(".register_buffer"))
def check(call: View) -> Iterator[Finding]:
    named, buffer, cls = call.arg("name", 0), call.arg("tensor", 1), call.cls
    name = constant(named.value) if named is not None else None
    if buffer is None or cls is None or not isinstance(name, str) or not is_frequencies(buffer):
        return
    uses = any(call.fact(Classes).family_mentions(cls, word) for word in USES)
    modules = call.fact(CastModules)
    cast = modules.of_class(cls) if uses and not modules.is_set_elsewhere(cls, name) else None
    if cast is not None:
        dtype, evidence = cast
        harm = f"is rounded to {dtype} with its module: angles of far positions are wrong"
        yield buffer.finding(f"`{name}` {harm}", (evidence,))


def is_frequencies(buffer: View) -> bool:
    """Ex) 10000 ** (-torch.arange(0, dim, 2) / dim)"""
    origin, tensor = buffer.origin, buffer.tensor
    text = origin.text if origin.is_written else ""
    is_wide = tensor is not None and tensor.dtype in WIDE_FLOATS
    is_power = POWER.search(text) is not None and COUNTED.search(text) is not None
    return is_wide and is_power and OTHERS.search(text) is None
