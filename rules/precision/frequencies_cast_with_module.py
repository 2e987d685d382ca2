"""Frequencies are a buffer of a module that is cast to half as a whole: far angles are wrong.

`model.half()` and `model.to(torch.bfloat16)` cast buffers too. bfloat16 keeps two or three digits
of a frequency, so that its product with a position of 1000 is off by a radian or more: a rotary
embedding then turns by angles that belong to other positions, in training and in inference. That
the angles are computed in float32 later does not help.

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

Or compute the frequencies anew where they are used: they take no time.

A buffer of complex numbers loses more: `to(torch.bfloat16)` discards their imaginary part, so that
a rotation by `torch.polar(ones, angles)` becomes a scaling. `half()` and `bfloat16()` leave them as
they are.

Fix safety: there is no fix; where they are to be made is for the author.

Known limits: frequencies are powers of what `torch.arange` or `torch.linspace` counts, or
`torch.logspace`, in a buffer that only the constructor sets, made there or by a function that it
calls. Tables of sines and cosines and filter banks are left alone: they lose no more than what is
multiplied by them. So are frequencies that are counted alone, as `torch.linspace(1, 10, n)`, for
positions between -1 and 1. The cast has to be seen to be one of a module of the project that holds
this one, to a dtype that is written out. `from_pretrained(torch_dtype=...)` is none: it loads
parameters in that dtype, and a buffer that is not loaded stays float32. Nothing is said where a
class on the way has a `to`, `half` or `_apply` of its own, or where the module of the buffer is
cast by itself elsewhere.
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
