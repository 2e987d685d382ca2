"""Positions or diffusion steps are counted in half, where neighbouring numbers become equal.

float16 represents the integers up to 2048, bfloat16 those up to 256. Beyond that, 257 becomes 256,
and a value computed from a position belongs to another position: a bias for a distance, or an angle
for a sine and a cosine. Under autocast this needs no explicit cast: `einsum` and `@` cast their
operands to half.

    with torch.autocast("cuda", dtype=torch.bfloat16):
        t = torch.arange(seq_len, device=x.device, dtype=torch.float32)
        angles = torch.einsum("i,j->ij", t, inv_freq)      # bfloat16, and so is t
        cos, sin = angles.cos(), angles.sin()

    angles = t[:, None] * inv_freq[None, :]                # float32: no region casts a product
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)

Reported are positions with numbers beyond the limit written in the code, positions that become
angles, and positions of which each is multiplied by each number of a table (`einsum("i,j->ij", t,
inv_freq)`).

Fix safety: there is no fix; the author has to decide where the numbers become half again.

Known limits: positions are results of `torch.arange`, and integers whose sine or cosine is taken; a
parameter counts if all visible calls pass positions. They have to become angles within one
function, except for such a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from amplint import (
    WITH_HALF,
    Differs,
    Finding,
    Group,
    Presumes,
    Reason,
    Related,
    Rule,
    View,
    constant,
    nodes,
    reachable,
)
from amplint.knowledge.casts import EQUAL_DTYPES
from amplint.knowledge.dtypes import half_on_a_path

from .._shared.dtypes import finding_on_dtype, operation
from ._counted_positions import CountedPositions

EXACT = {"float16": 2048, "bfloat16": 256, "half": 2048}  # integers up to here; half: at most
ANGLES = frozenset({"sin", "cos", "polar"})
POWERS = frozenset({"exp", "exp2", "pow"})
CASTING = frozenset({"half", "bfloat16", "to", "type", "type_as"})
ELEMENTWISE = frozenset(
    {"torch.outer", "torch.mul", "torch.multiply", "Tensor.outer", "Tensor.mul", "Tensor.multiply"}
)
MULTIPLYING = ELEMENTWISE.union(EQUAL_DTYPES)
COMPUTING = frozenset({"Add", "Sub", "Mult", "Div", "MatMult"})
# Functions without any of these neither count, nor take an angle, nor multiply by a table.
WORDS = ANGLES | {"arange", "einsum"}
READS = 100  # on the way from there to an angle


rule = Rule(
    "AMP805",
    __doc__,
    group=Group.PRECISION,
    help="multiply positions element by element in float32, and cast the result",
    witness=Differs(rtol=0.1),
    presumes=Presumes.ALWAYS,
)


@rule.on(nodes("call", "binop") & WITH_HALF)
def check(at: View) -> Iterator[Finding]:
    if at.function.words.isdisjoint(WORDS):
        return
    result = at.tensor
    dtype = half_on_a_path(result.dtype) if result is not None else None
    if result is None or dtype is None:
        return
    limit, is_table = EXACT[dtype], is_outer_product(at)
    for operand in made_half(at):
        counted = operand.ask(CountedPositions)
        if counted is None or (counted.last is not None and counted.last <= limit):
            continue
        angle = angle_of(at)
        if counted.last is None and angle is None and not is_table:
            continue
        verb = "counts in" if is_count(at) else "turns positions into"
        message = f"`{at.brief}` {verb} {dtype}, exact only up to {limit}"
        places: list[Reason | Related] = [] if is_count(at) else [counted.evidence]
        places += [angle.related("an angle here")] if angle is not None else []
        yield finding_on_dtype(at, result, message, because=places)
        return


def made_half(at: View) -> Iterator[View]:
    """The operands that an operation makes half, and that were not half before."""
    for operand in operands(at):
        tensor = operand.tensor
        if operand is at or tensor is None or half_on_a_path(tensor.dtype) is None:
            yield operand


def operands(at: View) -> Iterable[View]:
    if at.op == "binop":
        return at.operands if at.operator in COMPUTING else ()
    if is_count(at):
        return (at,)
    if at.receiver is not None and at.method in CASTING:
        return (at.receiver,)
    op = operation(at)
    return op.operands if op is not None and op.name in MULTIPLYING else ()


def is_outer_product(at: View) -> bool:
    """Ex) torch.einsum("i, j -> i j", t, inv_freq)"""
    argument = at.arg("equation", 0) if at.callee == "torch.einsum" else None
    equation = constant(argument.value) if argument is not None else None
    if not isinstance(equation, str):
        return False
    operands, _, result = equation.replace(" ", "").replace("...", "").partition("->")
    first, _, second = operands.partition(",")
    letters = first + second
    is_plain = letters.isalpha() and bool(second) and bool(first or "..." in equation)
    return is_plain and sorted(letters) == sorted(set(result))


def is_count(at: View) -> bool:
    return at.callee == "torch.arange"


def angle_of(at: View) -> View | None:
    """Where the sine or cosine of what is computed of an expression is taken."""
    results = islice(reachable([at], results_of), READS)
    return next((each for each in results if each.op == "call" and called(each) in ANGLES), None)


def results_of(at: View) -> Iterator[View]:
    """The expressions that the value of another takes part in, one step outwards.

    Ex) torch.cat([t, t]), for `t`; t.float, for `t`
    """
    return (use for use in at.uses if takes_part(at, use))


def takes_part(at: View, use: View) -> bool:
    """Whether the value of an expression takes part in that of an operation which is given it. (As
    an exponent it is no position: base ** (-torch.arange(0, dim, 2) / dim) are frequencies.)"""
    is_first = use.operands[0].is_same(at)
    if use.op == "binop" and use.operator == "Pow" and not is_first:
        return False
    if use.op in ("attr", "call") and called(use) in POWERS:
        return False
    if use.op == "call" and not is_first:
        done = operation(use)  # by torch; of what a layer learns, nothing is known
        return done is not None and done.module is None
    return use.op in ("attr", "call", "binop", "unary") or (use.op == "subscript" and is_first)


def called(at: View) -> str:
    """The last identifier of what is called, or of an attribute."""
    return at.method or (at.callee or "").rpartition(".")[2]
