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

A complex buffer loses more: `to(torch.bfloat16)` discards their imaginary part, so that a rotation
by `torch.polar(ones, angles)` becomes a scaling. `half()` and `bfloat16()` leave them as they are.

Fix safety: there is no fix; the author has to decide where to compute them.

Known limits: frequencies are powers of `torch.arange` or `torch.linspace`, or `torch.logspace`, in
a buffer that only the constructor sets, directly or through a function that it calls. Tables of
sines and cosines and filter banks are not reported: they lose no more than the values that they are
multiplied by. Plain `torch.linspace(1, 10, n)`, for positions between -1 and 1, is not reported
either. The cast has to be visible: of a module of the project that holds this one, to a dtype that
is written out. `from_pretrained(torch_dtype=...)` is not such a cast: it loads parameters in that
dtype, and a buffer that is not loaded stays float32. The rule is silent if a class on the way
defines `to`, `half` or `_apply`, or if the module of the buffer is cast separately elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    CastModules,
    Classes,
    ComplexNumbers,
    Differs,
    Evidence,
    Finding,
    Frequencies,
    Group,
    Rule,
    View,
    calls,
    constant,
)
from amplint.knowledge.dtypes import WIDE_FLOATS

USES = ("sin", "cos", "polar", "einsum", "outer")  # of frequencies, in some method of the class

rule = Rule(
    "AMP210",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="keep it in float32 with an `_apply` of the module, or compute it where it is used",
    witness=Differs(rtol=0.1),
)


@rule.on(calls(".register_buffer"))
def check(call: View) -> Iterator[Finding]:
    named, given, cls = call.arg("name", 0), call.arg("tensor", 1), call.cls
    name = constant(named.value) if named is not None else None
    if given is None or cls is None or not isinstance(name, str) or call.has_star:
        return
    modules = call.fact(CastModules)
    told = complex_lost(given, cls, modules) or frequencies_rounded(given, cls, modules)
    if told is not None and not modules.is_set_elsewhere(cls, name):
        harm, evidence = told
        yield given.finding(f"`{name}` {harm}", (evidence,))


def complex_lost(given: View, cls: str, modules: CastModules) -> tuple[str, Evidence] | None:
    """The harm that a cast does to complex numbers, and where.

    Ex) torch.polar(torch.ones_like(angles), angles), in a module that `to(torch.bfloat16)` casts
    """
    cast = modules.complex_of_class(cls)
    if cast is None or not given.ask(ComplexNumbers):
        return None
    dtype, evidence = cast
    return f"is cast to {dtype} with its module and loses its imaginary part", evidence


def frequencies_rounded(given: View, cls: str, modules: CastModules) -> tuple[str, Evidence] | None:
    """The harm that a cast does to frequencies, and where.

    Ex) 10000 ** (-torch.arange(0, dim, 2) / dim), in a module that `half()` casts
    """
    cast, tensor = modules.of_class(cls), given.tensor
    if cast is None or tensor is None or tensor.dtype not in WIDE_FLOATS:
        return None
    uses = any(given.fact(Classes).family_mentions(cls, word) for word in USES)
    if not uses or not given.ask(Frequencies):
        return None
    dtype, evidence = cast
    return f"is rounded to {dtype} with its module: angles of far positions are wrong", evidence
