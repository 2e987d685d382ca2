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
is offered for `sorted`, `map` and lists of tensors.

Known limits: as for AMP101. A loop over a tensor is told where it reads the element (AMP101,
AMP103, AMP105). With `key=` the results of the key are compared, which may be numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amplint import (
    HOT,
    Finding,
    Fix,
    Group,
    Host,
    Rule,
    Safety,
    Sequence,
    Source,
    Spot,
    Syncs,
    Tensor,
    TensorCertainty,
    Value,
    calls,
    only,
)
from amplint.knowledge.host_reads import ELEMENT_READS

from .._shared.reads import device_tensor, hot_evidence, tensor_of_training

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
    witness=Syncs(before=21, after=0),
    outranks=("AMP103",),
    candidates=calls("builtins.map", *(f"builtins.{name}" for name in ELEMENT_READS))
    & goes_through
    & HOT,
)


@rule.on(cst.Call)
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
    """What the builtin goes through, if it is one thing; else what it compares."""
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
    if isinstance(only(src.value(operand)), Tensor):
        given = [arg.value for arg in call.args if arg.keyword is None]
        others = [other for other in given if other is not operand]
        keywords = [arg for arg in call.args if arg.keyword is not None]
        tensor = src.edits.as_receiver(operand)
        if len(others) == 1 and not keywords and name in BOUNDS:
            text = with_other(name, tensor, others[0], src)
        elif not others and not keywords and name in BOUNDS:
            text = f"{tensor}.{name}()"
        elif not others and not keywords and name in ("any", "all"):
            text = f"bool({tensor}.{name}())"
    if text is None:
        return None
    return Fix("Let the device compare", (src.edits.replace(call, text),), Safety.UNSAFE)


def with_other(name: str, tensor: str, other: cst.BaseExpression, src: Source) -> str | None:
    """Ex) max(count, 1) -> count.clamp(min=1), min(a, b) -> a.minimum(b)"""
    atom = only(src.value(other))
    if isinstance(atom, Host) and atom.kind in ("int", "float"):
        return f"{tensor}.clamp({BOUNDS[name]}={src.text(other)})"
    if isinstance(atom, Tensor) and src.ask(TensorCertainty, other):
        return f"{tensor}.{PAIRWISE[name]}({src.text(other)})"
    return None
