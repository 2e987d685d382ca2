"""A sum or an average over batches is kept in half.

float16 has 11 bits for a number, bfloat16 has 8. A sum to which ones are added stalls at 2048, or
at 256; an average with a decay of 0.999 takes no notice of most of what it is given. Nothing warns,
the numbers are only wrong.

    total = torch.zeros(1, dtype=torch.float16, device=device)
    for x, y in loader:
        total += criterion(model(x), y).detach()

    total = torch.zeros(1, device=device)                    # float32; half may be added to it

A sum that begins with a Python number has the dtype of the first tensor that is added: half, where
that is the mean of what a model gives in a region.

Fix safety: there is no fix; where the sum begins, and what reads it, may be elsewhere.

Known limits: sums over layers, experts or steps within one batch are left alone, as are those that
begin anew within the loop over the batches. Averages of weights are not seen, since the dtype of
parameters is rarely known, nor are sums whose tensor is handed in by a caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amplint import Differs, Finding, Group, Host, Rule, Source, Tensor
from amplint.dtypes import dtype_places
from amplint.reads import heat_places
from amplint.transfer import HALF
from amplint.values import Value

rule = Rule(
    "AMP209",
    __doc__,
    group=Group.PRECISION,
    since="0.1",
    witness=Differs(rtol=0.1),
    words=frozenset({"half", "float16", "bfloat16", "autocast", "add_", "update"}),
)

LIMITS = {"float16": 2048, "bfloat16": 256, "half": 2048}
ADDING = frozenset({"add_", "sub_"})
NUMBERS = frozenset({"int", "float", "number"})
# Where what lives as long as the object is made.
LASTING = ("def __init__", "def reset", "def setup", "def build")


@dataclass(frozen=True)
class Growth:
    """A statement that adds to what was there before: the variable, and whether it decays."""

    variable: cst.BaseExpression
    decays: bool = False


@rule.on(cst.AugAssign, cst.Assign, cst.Call)
def check(node: cst.AugAssign | cst.Assign | cst.Call, src: Source) -> Iterator[Finding]:
    growth = growth_of(node, src)
    if growth is None:
        return
    tensor = half_of(src.value(growth.variable))
    heat = src.heat(growth.variable) if tensor is not None else None
    if tensor is None or heat is None or not over_batches(node, growth.variable, tensor, src):
        return
    name, dtype = src.brief(growth.variable), tensor.dtype
    assert dtype is not None
    if growth.decays:
        message = f"`{name}` averages batches in {dtype}: small changes are rounded away"
    else:
        message = f"`{name}` adds up batches in {dtype}: ones stop counting at {LIMITS[dtype]}"
    related = (*dtype_places(src, tensor), *heat_places(heat, src))
    yield src.finding(rule, growth.variable, message, related=related)


def growth_of(node: cst.CSTNode, src: Source) -> Growth | None:
    """Ex) t += x, t = t + x, t = 0.9 * t + x, t.add_(x), t.mul_(0.9).add_(x), t.lerp_(x, 0.1)"""
    if isinstance(node, cst.AugAssign):
        adds = isinstance(node.operator, cst.AddAssign | cst.SubtractAssign)
        return Growth(node.target) if adds else None
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        return grown_by(node.value, src.text(node.targets[0].target), src)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.args:
        method, receiver = node.func.attr.value, node.func.value
        if method == "lerp_":
            return Growth(receiver, decays=True)
        if method not in ADDING:
            return None
        decayed = is_method(receiver, "mul_")
        return Growth(decayed or receiver, decays=decayed is not None)
    return None


def grown_by(value: cst.BaseExpression, name: str, src: Source) -> Growth | None:
    """What the new value has of the old one: itself, or a share of it."""
    if not isinstance(value, cst.BinaryOperation):
        return None
    if not isinstance(value.operator, cst.Add | cst.Subtract):
        return None
    sides = [value.left]
    if isinstance(value.operator, cst.Add):
        sides.append(value.right)
    for side in sides:
        if src.text(side) == name:
            return Growth(side)
        if isinstance(side, cst.BinaryOperation) and isinstance(side.operator, cst.Multiply):
            for factor in (side.left, side.right):
                if src.text(factor) == name:
                    return Growth(factor, decays=True)
    return None


def is_method(node: cst.BaseExpression, name: str) -> cst.BaseExpression | None:
    """Ex) average, of average.mul_(0.9)"""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.value if node.func.attr.value == name else None
    return None


def half_of(value: Value) -> Tensor | None:
    """The half tensor that a value is, perhaps after a Python number that it began with."""
    tensors = [atom for atom in value if isinstance(atom, Tensor)]
    numbers = [atom for atom in value if isinstance(atom, Host) and atom.kind in NUMBERS]
    if len(tensors) != 1 or len(tensors) + len(numbers) != len(value):
        return None
    return tensors[0] if tensors[0].dtype in HALF else None


def over_batches(
    node: cst.CSTNode, variable: cst.BaseExpression, tensor: Tensor, src: Source
) -> bool:
    """Whether the variable lives longer than a batch."""
    if isinstance(variable, cst.Name):
        block: cst.CSTNode | None = loop_over_batches(node, src)
    elif isinstance(variable, cst.Attribute) and tensor.settled_dtype is not None:
        made_in = src.text_around(tensor.settled_dtype)
        block = src.function(node) if made_in.lstrip().startswith(LASTING) else None
    else:
        return False
    name = src.text(variable)
    if block is None or begins_anew(name, block, src):
        return False
    return next(growths(name, block, src), None) is node  # what follows is the same sum


def loop_over_batches(node: cst.CSTNode, src: Source) -> cst.For | cst.While | None:
    """The loop around a hot place that is itself entered in a cold one."""
    for around in src.ancestors(node):
        if isinstance(around, cst.FunctionDef | cst.Lambda):
            return None
        if isinstance(around, cst.For | cst.While):
            header = around.iter if isinstance(around, cst.For) else around
            if src.heat(header) is None:
                return around
    return None


def growths(name: str, block: cst.CSTNode, src: Source) -> Iterator[cst.CSTNode]:
    """The places where the variable grows, in the order of the text."""
    growth = growth_of(block, src)
    if growth is not None and src.text(growth.variable) == name:
        yield block
    for child in block.children:
        yield from growths(name, child, src)


def begins_anew(name: str, block: cst.CSTNode, src: Source) -> bool:
    """Whether the variable is given another value within the block than one that grew."""
    targets: list[cst.BaseExpression] = []
    if isinstance(block, cst.Assign):
        if grown_by(block.value, name, src) is None:
            targets = [target.target for target in block.targets]
    elif isinstance(block, cst.AnnAssign | cst.For | cst.CompFor | cst.NamedExpr):
        targets = [block.target]
    if any(name in names_in(target, src) for target in targets):
        return True
    return any(begins_anew(name, child, src) for child in block.children)


def names_in(target: cst.BaseExpression, src: Source) -> Iterator[str]:
    """Ex) a, b of `a, b = ...`"""
    if isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from names_in(element.value, src)
    else:
        yield src.text(target)
