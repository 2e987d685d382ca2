"""Positions, or the steps of a diffusion, are counted in half, where neighbours become equal.

float16 holds the integers up to 2048, bfloat16 those up to 256. Beyond, 257 is 256, and whatever is
computed of a position is that of another one: a bias over distances, or an angle whose sine and
cosine are taken. Under autocast that needs no cast in the text: `einsum` and `@` make half of what
they are given.

    with torch.autocast("cuda", dtype=torch.bfloat16):
        t = torch.arange(seq_len, device=x.device, dtype=torch.float32)
        angles = torch.einsum("i,j->ij", t, inv_freq)      # bfloat16, and so is t
        cos, sin = angles.cos(), angles.sin()

    angles = t[:, None] * inv_freq[None, :]                # float32: no region casts a product
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)

A finding says either that numbers beyond the limit are in the text, or that the result becomes an
angle.

Fix safety: there is no fix; where the numbers become half again is for the author.

Known limits: positions are what `torch.arange` counts, and integers whose sine or cosine is taken;
how they become angles has to be seen in one function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from amplint import WITH_HALF, Differs, Finding, Group, Rule, Spot, least, nodes
from amplint import libcst as cst
from amplint.knowledge.dtypes import CHOICES, INTEGERS_BEYOND_HALF, half_on_a_path

from .._shared.constants import number_of
from .._shared.dtypes import SAME_DTYPE, dtype_places, operation, product

if TYPE_CHECKING:
    from amplint import Source

    Ask = Callable[[cst.BaseExpression], cst.BaseExpression | None]

EXACT = {"float16": 2048, "bfloat16": 256, "half": 2048}  # integers up to here; half: at most
ANGLES = frozenset({"sin", "cos", "polar"})
CASTING = frozenset({"half", "bfloat16", "to", "type", "type_as"})
SAME_COUNT = SAME_DTYPE | CASTING | {"float", "double", "long", "int"}
ELEMENTWISE = frozenset(
    {"torch.outer", "torch.mul", "torch.multiply", "Tensor.outer", "Tensor.mul", "Tensor.multiply"}
)
NAMES = ("start", "end", "step")
READS = 100  # on the way from there to an angle


def gives_half(at: Spot) -> bool:
    tensor = at.tensor(at.number)
    return tensor is not None and half_on_a_path(tensor.dtype) is not None


def counts(at: Spot) -> bool:
    """Whether the operands may come from integers."""

    def is_count(number: int) -> bool:
        tensor = at.tensor(number)
        if tensor is not None and tensor.dtype in INTEGERS_BEYOND_HALF:
            return True
        return at.graph.nodes[number].op == "call" and at.name_of(number) == "torch.arange"

    return at.may_come_from(at.number, is_count)


def tells_of_positions(at: Spot) -> bool:
    """Whether its function counts, or takes an angle: most indices are neither."""
    return not at.facts.words.isdisjoint(ANGLES | {"arange"})


rule = Rule(
    "AMP805",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    help="multiply positions element by element in float32, and cast the result",
    witness=Differs(rtol=0.1),
    presumes=True,
    candidates=nodes("call", "binop") & tells_of_positions & gives_half & counts & WITH_HALF,
)


@rule.check
def check(node: cst.Call | cst.BinaryOperation, src: Source) -> Iterator[Finding]:
    result = src.tensor(node)
    dtype = half_on_a_path(result.dtype) if result is not None else None
    if result is None or dtype is None:
        return
    limit = EXACT[dtype]
    for operand in operands(node, src):
        counted = count(operand, src)
        if counted is None:
            continue
        highest = last_number(counted, src)
        if highest is not None and highest <= limit:
            continue
        angle = angle_of(node, src)
        if highest is None and angle is None:
            continue
        itself = counted is node
        verb = "counts in" if itself else "turns positions into"
        message = f"`{src.brief(node)}` {verb} {dtype}, exact only up to {limit}"
        places = [] if itself else [src.related_node(counted, "counted here")]
        places += [src.related_node(angle, "an angle here")] if angle is not None else []
        places += dtype_places(src, result)
        yield src.finding(rule, node, message, None, places, anywhere=result.dtype in CHOICES)
        return


def operands(node: cst.Call | cst.BinaryOperation, src: Source) -> Iterator[cst.BaseExpression]:
    """The operand that an expression makes half, and that was not half before."""
    found: tuple[cst.BaseExpression, ...] = ()
    if isinstance(node, cst.BinaryOperation):
        if isinstance(
            node.operator, (cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.MatrixMultiply)
        ):
            found = (node.left, node.right)
    elif is_count(node, src):
        found = (node,)
    elif isinstance(node.func, cst.Attribute) and node.func.attr.value in CASTING:
        found = (node.func.value,)
    else:
        done = product(node, src)
        same = operation(node, src) if done is None else None
        done = same if same is not None and same.name in ELEMENTWISE else done
        found = done.operands if done is not None else ()
    for operand in found:
        tensor = src.tensor(operand)
        if operand is node or tensor is None or half_on_a_path(tensor.dtype) is None:
            yield operand


def is_count(node: cst.BaseExpression, src: Source) -> bool:
    return isinstance(node, cst.Call) and src.name(node.func) == "torch.arange"


def count(node: cst.BaseExpression, src: Source) -> cst.BaseExpression | None:
    """Where the numbers of an expression are counted, or where they are known to be integers.

    Ex) torch.arange(n), for t[:, None] + offset
    """

    def counted(part: cst.BaseExpression, ask: Ask) -> cst.BaseExpression | None:
        if is_count(part, src):
            return part
        before = [found for each in made_of(part, src) if (found := ask(each)) is not None]
        if before:
            return before[0]
        tensor = src.tensor(part)
        return part if tensor is not None and tensor.dtype in INTEGERS_BEYOND_HALF else None

    return least(node, counted, None)


def made_of(node: cst.BaseExpression, src: Source) -> Sequence[cst.BaseExpression]:
    """The parts of an expression that are counted where it is."""
    if isinstance(node, cst.Name):
        return [made] if (made := src.origin(node)) is not None else []
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return [node.func.value] if node.func.attr.value in SAME_COUNT else []
    if isinstance(node, cst.Subscript):
        return [node.value]
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Add | cst.Subtract | cst.Multiply):
            return [node.left, node.right]
        return [node.left] if isinstance(node.operator, cst.Divide) else []
    return []


def last_number(node: cst.BaseExpression, src: Source) -> float | None:
    """How far `torch.arange` counts, in steps that half has as long as it has their number."""
    if not isinstance(node, cst.Call) or not is_count(node, src) or src.has_star(node):
        return None
    given = [arg.value for arg in node.args if arg.keyword is None]
    named = {arg.keyword.value: arg.value for arg in node.args if arg.keyword is not None}
    names = ("end",) if len(given) == 1 else NAMES
    named |= dict(zip(names, given, strict=False))
    numbers = {name: number_of(named[name], src) for name in named.keys() & set(NAMES)}
    if "end" not in numbers or None in numbers.values():
        return None
    known = {name: number for name, number in numbers.items() if number is not None}
    highest = max(abs(known.get("start", 0.0)), abs(known["end"]) - 1)
    step = known.get("step", 1.0)
    return highest / step if math.frexp(step)[0] == 0.5 and not known.get("start") else highest


def angle_of(node: cst.BaseExpression, src: Source) -> cst.Call | None:
    """Where the sine or cosine of what is computed of an expression is taken."""
    stack, seen = [node, *src.uses(node)], set[int]()
    while stack and len(seen) < READS:
        use = stack.pop()
        if id(use) in seen:
            continue
        seen.add(id(use))
        around = value_around(use, src)
        if around is None:
            continue
        if isinstance(around, cst.Call) and called(around) in ANGLES:
            return around
        stack += [around, *src.uses(around)]
    return None


def value_around(node: cst.BaseExpression, src: Source) -> cst.BaseExpression | None:
    """The expression that the value of another takes part in, one step outwards.

    Ex) torch.cat([t, t]), for `t`; t.float(), for `t`
    """
    around = src.parent(node)
    while isinstance(around, cst.Arg | cst.Element | cst.List | cst.Tuple):
        around = src.parent(around)
    if isinstance(around, cst.Attribute):
        outer = src.parent(around)
        return outer if isinstance(outer, cst.Call) and outer.func is around else around
    if isinstance(around, cst.Subscript):
        return around if around.value is node else None
    if isinstance(around, cst.Call):
        done = operation(around, src)  # by torch; of what a layer learns, nothing is known
        return around if done is not None and done.module is None else None
    return around if isinstance(around, cst.BinaryOperation | cst.UnaryOperation) else None


def called(call: cst.Call) -> str:
    """The last identifier of what is called."""
    function = call.func
    if isinstance(function, cst.Attribute):
        return function.attr.value
    return function.value if isinstance(function, cst.Name) else ""
