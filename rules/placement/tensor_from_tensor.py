"""A tensor is built from a tensor by `torch.tensor` or `new_tensor`.

These functions are for data on the host. They copy a tensor and silently detach it from the
autograd graph, and torch warns at run time: "To copy construct from a tensor, it is recommended to
use sourceTensor.detach().clone() ...".

    target = torch.tensor(value)                    # copied, detached, and a warning

    target = value.detach().clone()                 # says so
    target = torch.as_tensor(value)                 # if neither was meant

Given a list of tensors on the device, `torch.tensor` reads them back one by one, and the host waits
for each; `torch.stack` reads nothing.

    losses = torch.tensor([main, extra])            # waits twice

    losses = torch.stack([main, extra]).detach()    # does not wait

Fix safety: safe, because torch does the same inside: the same values, dtype, device and layout, and
also a leaf (`new_tensor` also uses the dtype and device of its tensor, which the fix writes out).
Unsafe if only an annotation or the visible calls show that it is a tensor (a list would have no
`detach()`), if the project has tensor subclasses, which `torch.tensor` drops, and if it sets
another default device, which `torch.tensor` moves to. No fix for lists, whose result is on the
host, or with `pin_memory=`.

Known limits: a value that is a tensor in some calls and a list in others is not reported; neither
is a parameter that is known to be a tensor only by its annotation. Lists are reported if they are
built for every batch of training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amplint import (
    ACCELERATOR,
    NONE,
    READ,
    Device,
    DType,
    Finding,
    Fix,
    Group,
    Host,
    Rule,
    Sequence,
    Tensor,
    TensorCertainty,
    View,
    Warns,
    calls,
    only,
)

from .._shared.factories import changes_default_device
from .._shared.guards import asks_type
from .._shared.local_values import has_kind, is_dotted, is_local, resolved
from .._shared.reads import read_of_training
from .._shared.tensors import has_own_classes, is_surely_tensor

TENSOR = "the argument is a tensor for every caller"
PLAIN = "the project has no tensor subclasses"
SAME_DEFAULT = "the project sets no other default device"
LIKE = "the receiver is a tensor for every caller"
GIVEN = "dtype, device and requires_grad are known for every caller"
CALLED = "the function is `torch.tensor` for every caller"


PLACEMENT: tuple[str, ...] = ("device", "dtype")
# What reads the tensors of a list one by one, as `torch.tensor` does.
OF_LISTS = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray", "torch.Tensor"})
KEYWORDS = frozenset({"data", "requires_grad", *PLACEMENT})

rule = Rule(
    "AMP503",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="use `x.detach().clone()` for a tensor, `torch.stack` for a list of tensors",
    witness=Warns("To copy construct from a tensor"),
    safe_if=(TENSOR, PLAIN, SAME_DEFAULT, LIKE, GIVEN, CALLED),
)


@rule.on(calls(".new_tensor", *OF_LISTS))
def check(call: View) -> Iterator[Finding]:
    like, name = receiver(call), call.callee
    data = call.arg("data", 0)
    if data is None or (like is None and name not in OF_LISTS) or not data.ask(TensorCertainty):
        return
    copies = like is not None or name == "torch.tensor"
    if copies and data.tensor is not None and not asks_type(data):
        message = f"`{call.brief}` copies the tensor, drops its graph, and warns each time"
        is_made = data.op == READ and data.origin.is_written
        made = data.origin.related("a tensor from here on") if is_made else None
        yield call.finding(message, (made,), copied(call, data, like))
    elif like is None and (element := on_device(data)) is not None:
        reasons = read_of_training(call, element)
        if reasons is not None:
            message = f"`{call.brief}` waits for each tensor in the list"
            yield call.finding(message, reasons)


def receiver(call: View) -> View | None:
    """Ex) x of x.new_tensor(y)"""
    like = call.receiver if call.method == "new_tensor" else None
    return like if like is not None and like.tensor is not None else None


def on_device(at: View) -> Tensor | None:
    """The elements of a list, if they are tensors on the device."""
    atom = only(at.value)
    if not isinstance(atom, Sequence):
        return None
    items = atom.items if atom.items is not None else (atom.element,)
    tensors = [only(item) for item in items]
    for tensor in tensors:
        if not isinstance(tensor, Tensor) or tensor.device.kind != ACCELERATOR or tensor.rank == 1:
            return None
    first = tensors[0] if tensors else None
    return first if isinstance(first, Tensor) else None


def copied(call: View, data: View, like: View | None) -> Fix | None:
    """Ex) torch.tensor(x, dtype=d) -> x.detach().to(dtype=d, copy=True)"""
    given = {keyword: value for _, keyword, value in call.arguments if keyword is not None}
    if call.has_star or not given.keys() <= KEYWORDS:
        return None
    copy = copying(given, like)
    if copy is None:
        return None
    written = data.source.edits.as_receiver(data.cst)
    if copy == "clone()" and called_on(called_on(data, "clone"), "detach") is not None:
        pass  # a copy already
    elif called_on(data, "detach") is not None:
        written += f".{copy}"
    else:
        written += f".detach().{copy}"
    wanted = given.get("requires_grad")
    edit = call.source.edits.replace(call.cst, written + wanting_grad(wanted))
    conditions = {
        TENSOR: is_surely_tensor(data, annotated=False),
        PLAIN: not has_own_classes(call),
        GIVEN: wanted is None or is_surely_flag(wanted),
    }
    if like is None:
        conditions[CALLED] = is_local(call.called)
    if like is None and "device" not in given:
        conditions[SAME_DEFAULT] = not changes_default_device(call)
    if like is not None:
        conditions[LIKE] = is_surely_tensor(like)
        placed = [given[name] for name in PLACEMENT if name in given]
        conditions[GIVEN] &= all(map(is_surely_something, placed))
    return Fix.safe_if("Detach and copy the tensor", (edit,), conditions)


def copying(given: Mapping[str, View], like: View | None) -> str | None:
    """The call that copies: "clone()", or `to` with what the copy is converted to."""
    to = {name: given[name].text for name in PLACEMENT if name in given}
    if like is None:
        return f"to({keywords(to)}, copy=True)" if to else "clone()"
    # Without them, or with None, `new_tensor` takes those of x, which is evaluated first.
    if not is_dotted(like.cst) or not all(is_something(given[name]) for name in to):
        return None
    other = like.text
    if not to:
        return f"to({other}, copy=True)"
    to = {name: to.get(name, f"{other}.{name}") for name in PLACEMENT}
    return f"to({keywords(to)}, copy=True)"


def is_something(at: View) -> bool:
    """Whether a dtype or device is certainly not None."""
    if at.op == "attr" and at.method in ("dtype", "device"):
        return True
    atoms = at.value
    return all(isinstance(a, DType | Device) or (isinstance(a, Host) and a != NONE) for a in atoms)


def keywords(arguments: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={text}" for name, text in arguments.items())


def is_surely_something(at: View) -> bool:
    """The same for every caller; `self.dtype` may well be None."""
    made = resolved(at)
    if made.op == "attr" and made.method in ("dtype", "device"):
        return is_surely_tensor(made.operands[0])
    return is_something(made) and is_local(made)


def wanting_grad(wanted: View | None) -> str:
    flag = wanted.text if wanted is not None else "False"
    return {"False": "", "True": ".requires_grad_()"}.get(flag, f".requires_grad_({flag})")


def is_surely_flag(at: View) -> bool:
    """Whether the expression is True or False for every caller."""
    made = resolved(at)
    if made.op == "attr" and made.method == "requires_grad":
        return is_surely_tensor(made.operands[0])
    return has_kind(made, {"bool"}) and is_local(made)


def called_on(at: View | None, method: str) -> View | None:
    """Ex) x of x.detach()"""
    is_call = at is not None and at.op == "call" and at.method == method
    return at.receiver if at is not None and is_call else None
