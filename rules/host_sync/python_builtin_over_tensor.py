"""A builtin of Python compares or tests the elements of tensors on the device.

`max(t)`, `min(t)`, `sorted(t)`, `any(t)`, `all(t)` and `map(float, t)` take one element after the
other and read its value: the host waits once for each element. The same holds for a list of
tensors; `max(count, 1)` waits once.

    for x, y in loader:
        losses = criterion(model(x), y)   # one loss a sample
        worst = max(losses)               # waits once for every sample
        mean = losses.sum() / max(mask.sum(), 1)

    for x, y in loader:
        losses = criterion(model(x), y)
        worst = losses.max()              # compares on the device
        mean = losses.sum() / mask.sum().clamp(min=1)

`sum(t)`, `list(t)`, `len(t)`, `zip(t, u)` and a loop over `t` read nothing.

Fix safety: unsafe, since the result may differ: NaN compares differently on the device, the
gradient of equal elements is shared among them instead of going to the first, and `max(t, 1)` may
have been a Python number. `any(t)` and `all(t)` become `bool(t.any())`, which waits once (AMP103).
No fix is offered for `sorted`, `map` and lists of tensors, for a number beyond 127, or where only
callers or fields show that the value is a tensor: on another path it may be a Python float.

Known limits: as for AMP101. A loop over a tensor is reported where it reads the element (AMP101,
AMP103, AMP105). With `key=`, the results of the key are compared, and these may be numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    HOT,
    Cost,
    Finding,
    Fix,
    Group,
    Host,
    Rule,
    Safety,
    Sequence,
    Syncs,
    Tensor,
    TensorCertainty,
    Value,
    View,
    calls,
    constant,
    only,
)
from amplint.knowledge.host_reads import ELEMENT_READS

from .._shared.reads import device_tensor, hot_tensor, read_of_batches
from .._shared.tensors import is_surely_tensor

CONVERSIONS = frozenset(f"builtins.{name}" for name in ("bool", "complex", "float", "int", "str"))
BOUNDS = {"max": "min", "min": "max"}  # max(t, 1) is t.clamp(min=1)
PAIRWISE = {"max": "maximum", "min": "minimum"}
# What else than comparing a builtin does.
DOES = {"all": "tests", "any": "tests", "map": "reads"}


rule = Rule(
    "AMP107",
    __doc__,
    group=Group.PERFORMANCE,
    help="let the device compare: `t.max()`, `t.clamp(min=1)`, `torch.stack(ts).max()`",
    witness=Syncs(before=21, after=0),
    supersedes=("AMP103", "AMP113"),
    cost=Cost.ELEMENT,
)

IN_EACH_DTYPE = 127  # the largest number that `clamp` takes for a tensor of any dtype


@rule.on(calls("builtins.map", *(f"builtins.{name}" for name in ELEMENT_READS)) & HOT)
def check(call: View) -> Iterator[Finding]:
    """Ex) max(losses), any(t.isnan() for t in losses), max(count, 1), map(float, norms)"""
    name = (call.callee or "").partition("builtins.")[2]
    operands = operands_read(name, call)
    alone = len(operands) == 1
    for operand in operands:
        tensor = iterated(operand, name) if alone else without_dimensions(operand.value)
        reasons = read_of_batches(call, tensor)
        if reasons is not None and operand.ask(TensorCertainty):
            yield call.finding(
                message(name, operand, alone), reasons, tensor_method_fix(name, call, operand)
            )
            return


def message(name: str, operand: View, alone: bool) -> str:
    if not alone:
        return f"the `{name}` of Python compares `{operand.brief}`: one wait in every iteration"
    many = isinstance(only(operand.value), Sequence)
    what = "device tensors" if many else "the elements of a device tensor"
    return f"the `{name}` of Python {DOES.get(name, 'compares')} {what}: one wait for each"


def operands_read(name: str, call: View) -> list[View]:
    """The one thing that the builtin goes through; else the things that it compares."""
    if call.has_star or call.arg("key") is not None:
        return []
    arguments = [argument for _, keyword, argument in call.arguments if keyword is None]
    if name == "map":
        return arguments[1:] if len(arguments) == 2 and arguments[0].name in CONVERSIONS else []
    return arguments if name in ELEMENT_READS and (len(arguments) == 1 or name in BOUNDS) else []


def iterated(at: View, name: str) -> Tensor | None:
    """The tensor with dimensions, or one of a list of them without, that a builtin goes through."""
    atom = only(at.value)
    if isinstance(atom, Sequence):
        if atom.items is not None and len(atom.items) < 2 and name in (*BOUNDS, "sorted"):
            return None  # one alone is compared with nothing
        inside = atom.items if atom.items is not None else (atom.element,)
        return next((t for value in inside if (t := without_dimensions(value)) is not None), None)
    tensor = hot_tensor(at)
    return tensor if isinstance(tensor, Tensor) and tensor.rank != 0 else None


def without_dimensions(value: Value) -> Tensor | None:
    """A tensor on the device that may be asked for its truth; one with dimensions would raise."""
    tensor = device_tensor(value, certain=True, presumed=True)
    return tensor if isinstance(tensor, Tensor) and tensor.rank != 1 else None


def tensor_method_fix(name: str, call: View, operand: View) -> Fix | None:
    """The method of the tensor that does the same."""
    arguments = list(call.arguments)
    named = any(keyword is not None for _, keyword, _ in arguments)
    if named or not is_surely_tensor(operand, called=True):
        return None
    edits, text = call.source.edits, None
    tensor = edits.as_receiver(operand.cst)
    others = [other for _, _, other in arguments if other.span != operand.span]
    if name in BOUNDS and len(others) == 1:
        text = with_other(name, tensor, others[0])
    elif name in BOUNDS and not others:
        text = f"{tensor}.{name}()"
    elif name in ("any", "all"):
        text = f"bool({tensor}.{name}())"
    if text is None:
        return None
    return Fix("Let the device compare", (edits.replace(call.cst, text),), Safety.UNSAFE)


def with_other(name: str, tensor: str, other: View) -> str | None:
    """Ex) max(count, 1) -> count.clamp(min=1), min(a, b) -> a.minimum(b)"""
    atom, number = only(other.value), constant(other.value)
    if isinstance(atom, Host) and atom.kind in ("int", "float"):
        if isinstance(number, int | float) and not abs(number) <= IN_EACH_DTYPE:
            return None
        return f"{tensor}.clamp({BOUNDS[name]}={other.text})"
    is_tensor = is_surely_tensor(other, called=True)
    return f"{tensor}.{PAIRWISE[name]}({other.text})" if is_tensor else None
