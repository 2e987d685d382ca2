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
also a leaf. Unsafe if only an annotation or the visible calls show that it is a tensor (a list
would have no `detach()`), if the project has tensor subclasses, which `torch.tensor` drops, and if
it sets another default device, which `torch.tensor` moves to. No fix for `new_tensor`, for lists,
whose result is on the host, with `pin_memory=`, or if `requires_grad=` is neither True nor False.

Known limits: a value that is a tensor in some calls and a list in others is not reported; neither
is a parameter that is known to be a tensor only by its annotation. Lists are reported if they are
built for every batch of training.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    ACCELERATOR,
    READ,
    Finding,
    Fix,
    Group,
    Rule,
    Sequence,
    Tensor,
    TensorCertainty,
    View,
    Warns,
    calls,
    only,
)

from .._shared.default_device import changes_default_device
from .._shared.guards import asks_type
from .._shared.local_values import is_local
from .._shared.reads import read_of_batches
from .._shared.tensors import has_own_classes, is_surely_tensor

TENSOR = "the argument is a tensor for every caller"
PLAIN = "the project has no tensor subclasses"
SAME_DEFAULT = "the project sets no other default device"
CALLED = "the function is `torch.tensor` for every caller"

PLACEMENT: tuple[str, ...] = ("device", "dtype")
# What reads the tensors of a list one by one, as `torch.tensor` does.
OF_LISTS = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray", "torch.Tensor"})
KEYWORDS = frozenset({"data", "requires_grad", *PLACEMENT})
COPIES = (".detach().clone()", ".clone().detach()")
FLAGS = {"False": "", "True": ".requires_grad_()"}

rule = Rule(
    "AMP503",
    __doc__,
    group=Group.PERFORMANCE,
    help="use `x.detach().clone()` for a tensor, `torch.stack` for a list of tensors",
    witness=Warns("To copy construct from a tensor"),
    safe_if=(TENSOR, PLAIN, SAME_DEFAULT, CALLED),
)


@rule.on(calls(".new_tensor", *OF_LISTS))
def check(call: View) -> Iterator[Finding]:
    is_method, data = call.method == "new_tensor", call.arg("data", 0)
    if is_method and (call.receiver is None or call.receiver.tensor is None):
        return
    if data is None or not (is_method or call.callee in OF_LISTS) or not data.ask(TensorCertainty):
        return
    copies = is_method or call.callee == "torch.tensor"
    if copies and data.tensor is not None and not asks_type(data):
        message = f"`{call.brief}` copies the tensor, drops its graph, and warns each time"
        is_made = data.op == READ and data.origin.is_written
        origin = data.origin.related("a tensor from here on") if is_made else None
        yield call.finding(message, (origin,), None if is_method else copied(call, data))
    elif not is_method and (element := on_device(data)) is not None:
        reasons = read_of_batches(call, element)
        if reasons is not None:
            message = f"`{call.brief}` waits for each tensor in the list"
            yield call.finding(message, reasons)


def on_device(at: View) -> Tensor | None:
    """The elements of a list, if they are tensors on the device."""
    atom = only(at.value)
    if not isinstance(atom, Sequence):
        return None
    items = atom.items if atom.items is not None else (atom.element,)
    tensors = [
        tensor
        for tensor in map(only, items)
        if isinstance(tensor, Tensor) and tensor.device.kind == ACCELERATOR and tensor.rank != 1
    ]
    return tensors[0] if tensors and len(tensors) == len(items) else None


def copied(call: View, data: View) -> Fix | None:
    """Ex) torch.tensor(x, dtype=d) -> x.detach().to(dtype=d, copy=True)"""
    options = {keyword: value.text for _, keyword, value in call.arguments if keyword is not None}
    flag = FLAGS.get(options.get("requires_grad", "False"))
    if call.has_star or flag is None or not options.keys() <= KEYWORDS:
        return None
    to = [f"{name}={options[name]}, " for name in PLACEMENT if name in options]
    copy = f"to({''.join(to)}copy=True)" if to else "clone()"
    detach = "" if data.op == "call" and data.method == "detach" else ".detach()"
    written = data.source.edits.as_receiver(data.cst)
    if to or not written.endswith(COPIES):
        written += f"{detach}.{copy}"
    conditions = {
        TENSOR: is_surely_tensor(data, annotated=False),
        PLAIN: not has_own_classes(call),
        CALLED: is_local(call.called),
        SAME_DEFAULT: "device" in options or not changes_default_device(call),
    }
    edit = call.source.edits.replace(call.cst, written + flag)
    return Fix.safe_if("Detach and copy the tensor", (edit,), conditions)
