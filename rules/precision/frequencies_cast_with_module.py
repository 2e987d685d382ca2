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

Fix safety: there is no fix; where they are to be made is for the author.

Known limits: frequencies are powers of what `torch.arange` or `torch.linspace` counts, in a buffer
that only the constructor sets. Tables of sines and cosines are left alone: they lose no more than
what is multiplied by them. The cast has to be seen to be one of a module of the project that holds
this one, to a dtype that is written out. Nothing is said where a class on the way has a `to`,
`half` or `_apply` of its own, or where the module of the buffer is cast by itself elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

from amplint import (
    CastModules,
    Classes,
    Differs,
    Finding,
    Group,
    Rule,
    View,
    calls,
    constant,
    reachable,
)

from .._shared.constants import number_of

COUNTING = frozenset({"torch.arange", "torch.linspace"})
POWERS = frozenset({"exp", "pow"})
# What only a table of sines, or what is computed in another dtype, has on the way.
OTHERS = frozenset({"sin", "cos", "polar", "half", "bfloat16", "to", "type", "type_as"})
USES = ("sin", "cos", "polar", "einsum", "outer")  # of frequencies, in some method of the class
MOST = 100  # expressions, in what the buffer is made of

rule = Rule(
    "AMP210",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="keep it float32 by an `_apply` of the module, or compute it where it is used",
    witness=Differs(rtol=0.1),
    preview=True,
)


@rule.on(calls(".register_buffer"))
def check(call: View) -> Iterator[Finding]:
    named, given, cls = call.arg("name", 0), call.arg("tensor", 1), call.cls
    name = constant(named.value) if named is not None else None
    if given is None or cls is None or not isinstance(name, str) or call.has_star:
        return
    tensor, modules = given.tensor, call.fact(CastModules)
    cast = modules.of_class(cls)
    if cast is None or tensor is None or tensor.dtype not in ("float32", "float64"):
        return
    if not are_frequencies(given) or modules.is_set_elsewhere(cls, name):
        return
    if not any(call.fact(Classes).family_mentions(cls, word) for word in USES):
        return
    dtype, evidence = cast
    message = f"`{name}` is rounded to {dtype} with its module: angles of far positions are wrong"
    yield given.finding(message, (evidence,))


def are_frequencies(at: View) -> bool:
    """Whether an expression is a power, or a function of one, whose exponent is counted."""
    made = [*islice(reachable([at.origin], parts), MOST)]
    if any(called(each) in OTHERS for each in made):
        return False
    exponents = [each for power in made for each in exponents_of(power)]
    found = reachable((each.origin for each in exponents), parts)
    return any(each.callee in COUNTING for each in islice(found, MOST))


def exponents_of(power: View) -> list[View]:
    """Ex) t of base**t, torch.exp(t), t.exp() and torch.pow(base, t)

    Powers of 2 lose nothing, and their exponents are none.
    """
    if power.op == "binop":
        operands = [*power.operands] if power.operator == "Pow" else []
    elif called(power) in POWERS:
        receiver = power.receiver
        own = [receiver] if receiver is not None and receiver.tensor is not None else []
        operands = [*own, *(argument for _, _, argument in power.arguments)]
    else:
        operands = []
    base = number_of(operands[0]) if len(operands) > 1 else None
    is_exact = base is not None and base != 0 and abs(math.frexp(base)[0]) == 0.5
    return [] if is_exact else operands[-1:]


def parts(at: View) -> list[View]:
    """The tensors that an expression is computed from."""
    if at.op == "call":
        own = [at.receiver] if at.receiver is not None else []
        found = [*own, *(argument for _, _, argument in at.arguments)]
    elif at.op in ("binop", "unary", "aug"):
        found = [*at.operands]
    else:
        found = [*at.operands[:1]] if at.op == "subscript" else []
    return [each.origin for each in found]


def called(at: View) -> str:
    """The last identifier of what is called."""
    return at.method or (at.callee or "").rpartition(".")[2] if at.op == "call" else ""
