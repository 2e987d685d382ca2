"""A builtin of Python compares or tests the elements of tensors on the device.

`max(t)`, `min(t)`, `sorted(t)`, `any(t)`, `all(t)` and `map(float, t)` take one element after the
other and ask each for its value: as many waits for the device as there are elements. So do they
with a list of tensors, and `max(count, 1)` asks once.

    for x, y in loader:
        losses = criterion(model(x), y)   # one loss a sample
        worst = max(losses)               # waits once for every sample
        mean = losses.sum() / max(mask.sum(), 1)

    for x, y in loader:
        losses = criterion(model(x), y)
        worst = losses.max()              # compares on the device
        mean = losses.sum() / mask.sum().clamp(min=1)

`sum(t)`, `list(t)`, `len(t)`, `zip(t, u)` and a loop over `t` read nothing.

Fix safety: unsafe, since what is compared may differ: NaN compares otherwise on the device, the
gradient of equal elements is shared out instead of going to the first, and `max(t, 1)` may have
been a Python number. `any(t)` and `all(t)` become `bool(t.any())`, which waits once (AMP103). None
is offered for `sorted`, `map` and lists of tensors, for a number beyond the range of the dtype, nor
where only callers or fields say that there is a tensor: on another path it may be a Python float.

Known limits: as for AMP101. A loop over a tensor is reported where it reads the element (AMP101,
AMP103, AMP105). With `key=` the results of the key are compared, which may be numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    HOT,
    Cost,
    Finding,
    Fix,
    Function,
    Group,
    Host,
    Rule,
    Safety,
    Sequence,
    Spot,
    Syncs,
    Tensor,
    TensorCertainty,
    Value,
    calls,
    constant,
    only,
    reachable,
)
from amplint import libcst as cst
from amplint.knowledge.host_reads import ELEMENT_READS

from .._shared.parameters import holds_argument
from .._shared.reads import device_tensor, hot_evidence, tensor_of_training
from .._shared.tensors import surely_tensor, tensor_operands

if TYPE_CHECKING:
    from amplint import Source

CONVERSIONS = frozenset(f"builtins.{name}" for name in ("bool", "complex", "float", "int", "str"))
BOUNDS = {"max": "min", "min": "max"}  # max(t, 1) is t.clamp(min=1)
PAIRWISE = {"max": "maximum", "min": "minimum"}


def goes_through(at: Spot) -> bool:
    """Whether it may read a tensor on the device, or those of a list."""
    for number in at.arguments:
        atom = only(at.of(number))
        values = [at.of(number)]
        if isinstance(atom, Sequence):
            values = list(atom.items if atom.items is not None else (atom.element,))
        tensors = [device_tensor(value, certain=True, presumed=True) for value in values]
        if any(tensors) and at.surely_tensor(number):
            return True
    return False


rule = Rule(
    "AMP107",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="let the device compare: `t.max()`, `t.clamp(min=1)`, `torch.stack(ts).max()`",
    witness=Syncs(before=21, after=0),
    supersedes=("AMP103", "AMP113"),
    cost=Cost.ELEMENT,
    candidates=calls("builtins.map", *(f"builtins.{name}" for name in ELEMENT_READS))
    & goes_through
    & HOT,
)

HALF_MAX = 65504
LARGEST = {
    **dict.fromkeys(("int8", "uint8"), 127),
    **{f"int{bits}": 2 ** (bits - 1) - 1 for bits in (16, 32, 64)},
    **dict.fromkeys(("bfloat16", "float32", "float64"), 3.38e38),
}


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) max(losses), any(t.isnan() for t in losses), max(count, 1), map(float, norms)"""
    name = (src.name(call.func) or "").partition("builtins.")[2]
    operands = operands_read(name, call, src)
    alone = len(operands) == 1
    for operand in operands:
        tensor = iterated(operand, name, src) if alone else compared(operand, src)
        evidence = hot_evidence(call, tensor, src)
        if evidence is not None and src.ask(TensorCertainty, operand):
            what = "every element of" if alone else "the comparison with"
            message = f"`{name}` reads {what} `{src.brief(operand)}` in every iteration"
            yield src.finding(rule, call, message, on_device(name, call, operand, src), evidence)
            return


def operands_read(name: str, call: cst.Call, src: Source) -> list[cst.BaseExpression]:
    """The one thing that the builtin goes through; else the things that it compares."""
    if src.has_star(call) or src.keyword(call, "key") is not None:
        return []
    given = [arg.value for arg in call.args if arg.keyword is None]
    if name == "map":
        return given[1:] if len(given) == 2 and src.name(given[0]) in CONVERSIONS else []
    return given if name in ELEMENT_READS and (len(given) == 1 or name in BOUNDS) else []


def iterated(node: cst.BaseExpression, name: str, src: Source) -> Tensor | None:
    """The tensor with dimensions, or one of a list of them without, that a builtin goes through."""
    atom = only(src.value(node))
    if isinstance(atom, Sequence):
        if atom.items is not None and len(atom.items) < 2 and name in (*BOUNDS, "sorted"):
            return None  # one alone is compared with nothing
        inside = atom.items if atom.items is not None else (atom.element,)
        return next((t for value in inside if (t := without_dimensions(value)) is not None), None)
    tensor = tensor_of_training(node, src)
    return tensor if isinstance(tensor, Tensor) and tensor.rank != 0 else None


def compared(node: cst.BaseExpression, src: Source) -> Tensor | None:
    return without_dimensions(src.value(node))


def without_dimensions(value: Value) -> Tensor | None:
    """A tensor on the device that may be asked for its truth; one with dimensions would raise."""
    tensor = device_tensor(value, certain=True, presumed=True)
    return tensor if isinstance(tensor, Tensor) and tensor.rank != 1 else None


def on_device(name: str, call: cst.Call, operand: cst.BaseExpression, src: Source) -> Fix | None:
    """The method of the tensor that does the same."""
    text = None
    value = src.tensor(operand)
    if value is not None and is_tensor_on_every_path(operand, src):
        dtype = value.dtype
        given = [arg.value for arg in call.args if arg.keyword is None]
        others = [other for other in given if other is not operand]
        keywords = [arg for arg in call.args if arg.keyword is not None]
        tensor = src.edits.as_receiver(operand)
        if len(others) == 1 and not keywords and name in BOUNDS:
            text = with_other(name, tensor, dtype, others[0], src)
        elif not others and not keywords and name in BOUNDS:
            text = f"{tensor}.{name}()"
        elif not others and not keywords and name in ("any", "all"):
            text = f"bool({tensor}.{name}())"
    if text is None:
        return None
    return Fix("Let the device compare", (src.edits.replace(call, text),), Safety.UNSAFE)


def with_other(
    name: str, tensor: str, dtype: str | None, other: cst.BaseExpression, src: Source
) -> str | None:
    """Ex) max(count, 1) -> count.clamp(min=1), min(a, b) -> a.minimum(b)"""
    atom = only(src.value(other))
    if isinstance(atom, Host) and atom.kind in ("int", "float"):
        if not is_taken(constant(src.value(other)), dtype):
            return None
        return f"{tensor}.clamp({BOUNDS[name]}={src.text(other)})"
    if is_tensor_on_every_path(other, src):
        return f"{tensor}.{PAIRWISE[name]}({src.text(other)})"
    return None


def is_taken(number: object, dtype: str | None) -> bool:
    """Whether `clamp` takes a number for a tensor of a dtype; beyond its range, it raises."""
    if not isinstance(number, int | float) or number in (math.inf, -math.inf):
        return True
    return bool(abs(number) <= LARGEST.get(dtype or "float16", HALF_MAX))


def is_tensor_on_every_path(node: cst.BaseExpression, src: Source) -> bool:
    """Whether more than an argument or a field makes an expression a tensor: they may be Python
    numbers on another path, and these have no `clamp`."""
    if src.tensor(node) is None:
        return False
    parts = reachable([node], lambda part: operands(part, src))
    return surely_tensor(node, src) or any(
        not operands(part, src) and not holds_argument(part, src) and not is_number(part, src)
        for part in parts
    )


def operands(node: cst.BaseExpression, src: Source) -> tuple[cst.BaseExpression, ...]:
    """The operands that make an expression a tensor; a function of the project is known by
    its returns."""
    if isinstance(node, cst.Comparison):
        return (node.left, *(each.comparator for each in node.comparisons))
    if isinstance(node, cst.Call) and isinstance(only(src.value(node.func)), Function):
        return ()
    return tensor_operands(node, src)


def is_number(node: cst.BaseExpression, src: Source) -> bool:
    return isinstance(only(src.value(node)), Host)
