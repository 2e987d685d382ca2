"""A tensor is built from a tensor by `torch.tensor` or `new_tensor`.

They are made for data of the host. Given a tensor, they copy it and cut it off from the autograd
graph without a word about that, and torch warns at run time: "To copy construct from a tensor, it
is recommended to use sourceTensor.detach().clone() ...".

    target = torch.tensor(value)                    # copied, detached, and a warning

    target = value.detach().clone()                 # says so
    target = torch.as_tensor(value)                 # if neither was meant

Given a list of tensors on the device, `torch.tensor` reads them back one by one, and the host waits
for each; `torch.stack` reads nothing.

    losses = torch.tensor([main, extra])            # waits twice

    losses = torch.stack([main, extra]).detach()    # does not wait

Fix safety: safe, it is what torch does inside: the same values, dtype, device and layout, the same
leaf (`new_tensor` also takes over dtype and device, which the fix writes out). Unsafe where only
an annotation or the calls that were seen say that it is a tensor (a list would have no `detach()`),
where the project has tensors of a class of their own, which `torch.tensor` drops, and where it sets
another default device, which `torch.tensor` moves to. No fix for lists, whose result is on the
host, nor with `pin_memory=`.

Known limits: what is a tensor in some calls and a list in others is left alone, and so is a
parameter of which nothing but its annotation says that it is one. Lists are reported
where they are built for every batch of training.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    ACCELERATOR,
    NONE,
    Device,
    DType,
    Finding,
    Fix,
    Group,
    Host,
    Rule,
    Sequence,
    Spot,
    Tensor,
    TensorCertainty,
    Warns,
    calls,
    only,
)
from amplint import libcst as cst

from .._shared.cst_factories import changes_default_device
from .._shared.cst_local_values import has_kind
from .._shared.guards import asks_type
from .._shared.local_values import is_local, resolved
from .._shared.reads import hot_evidence
from .._shared.tensors import has_own_classes, surely_tensor

if TYPE_CHECKING:
    from amplint import Source

TENSOR = "what is copied is a tensor for every caller"
PLAIN = "the project has no tensors of a class of their own"
SAME_DEFAULT = "the project sets no other default device"
LIKE = "what is asked for a new tensor is one for every caller"
GIVEN = "dtype, device and requires_grad are known to be such for every caller"
CALLED = "what is called is `torch.tensor` for every caller"


PLACEMENT: tuple[str, ...] = ("device", "dtype")
# What reads the tensors of a list one by one, as `torch.tensor` does.
OF_LISTS = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray", "torch.Tensor"})
KEYWORDS = frozenset({"data", "requires_grad", *PLACEMENT})


def copies_tensor(at: Spot) -> bool:
    return at.surely_tensor(at.given("data", 0))


rule = Rule(
    "AMP503",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="use `x.detach().clone()` for a tensor, `torch.stack` for a list of tensors",
    witness=Warns("To copy construct from a tensor"),
    safe_if=(TENSOR, PLAIN, SAME_DEFAULT, LIKE, GIVEN, CALLED),
    candidates=calls("torch.tensor", ".new_tensor", *OF_LISTS) & copies_tensor,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    like, name = receiver(call, src), src.name(call.func)
    if like is None and name not in OF_LISTS:
        return
    data = src.argument(call, "data", 0)
    if data is None or not src.ask(TensorCertainty, data.value):
        return
    copies = like is not None or name == "torch.tensor"
    if copies and src.tensor(data.value) is not None and not asks_type(data.value, src):
        message = f"`{src.brief(call)}` copies the tensor, drops its graph, and warns each time"
        made = src.origin(data.value) if isinstance(data.value, cst.Name) else None
        related = () if made is None else (src.related_node(made, "a tensor since here"),)
        yield src.finding(rule, call, message, copied(call, data.value, like, src), related)
    elif like is None and (element := on_device(data.value, src)) is not None:
        evidence = hot_evidence(call, element, src)
        if evidence is not None:
            message = f"`{src.brief(call)}` waits for each tensor in the list"
            yield src.finding(rule, call, message, related=evidence)


def receiver(call: cst.Call, src: Source) -> cst.BaseExpression | None:
    """Ex) x of x.new_tensor(y)"""
    function = call.func
    if isinstance(function, cst.Attribute) and function.attr.value == "new_tensor":
        return function.value if src.tensor(function.value) is not None else None
    return None


def on_device(node: cst.BaseExpression, src: Source) -> Tensor | None:
    """The elements of a list, if they are tensors on the device."""
    atom = only(src.value(node))
    if not isinstance(atom, Sequence):
        return None
    items = atom.items if atom.items is not None else (atom.element,)
    tensors = [only(item) for item in items]
    for tensor in tensors:
        if not isinstance(tensor, Tensor) or tensor.device.kind != ACCELERATOR or tensor.rank == 1:
            return None
    first = tensors[0] if tensors else None
    return first if isinstance(first, Tensor) else None


def copied(
    call: cst.Call, data: cst.BaseExpression, like: cst.BaseExpression | None, src: Source
) -> Fix | None:
    """Ex) torch.tensor(x, dtype=d) -> x.detach().to(dtype=d, copy=True)"""
    given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    if src.has_star(call) or not given.keys() <= KEYWORDS:
        return None
    copy = copying(given, like, src)
    if copy is None:
        return None
    if copy == "clone()" and receives(receives(data, "clone"), "detach") is not None:
        written = src.edits.as_receiver(data)  # a copy already
    elif receives(data, "detach") is not None:
        written = f"{src.edits.as_receiver(data)}.{copy}"
    else:
        written = f"{src.edits.as_receiver(data)}.detach().{copy}"
    wanted = given.get("requires_grad")
    edit = src.edits.replace(call, written + wanting_grad(wanted, src))
    conditions = {
        TENSOR: surely_tensor(data, src, annotated=False),
        PLAIN: not has_own_classes(src),
        GIVEN: wanted is None or surely_flag(wanted, src),
    }
    if like is None:
        conditions[CALLED] = is_local(call.func, src)
    if like is None and "device" not in given:
        conditions[SAME_DEFAULT] = not changes_default_device(src)
    if like is not None:
        conditions[LIKE] = surely_tensor(like, src)
        placed = [given[name] for name in PLACEMENT if name in given]
        conditions[GIVEN] &= all(surely_something(each, src) for each in placed)
    return Fix.safe_if("Detach and copy the tensor", (edit,), conditions)


def copying(
    given: dict[str, cst.BaseExpression], like: cst.BaseExpression | None, src: Source
) -> str | None:
    """The call that copies: "clone()", or `to` with what the copy is converted to."""
    to = {name: src.text(given[name]) for name in PLACEMENT if name in given}
    if like is None:
        return f"to({keywords(to)}, copy=True)" if to else "clone()"
    # Without them, or with None, `new_tensor` takes those of x, which is evaluated first.
    if not is_plain(like) or not all(is_something(given[name], src) for name in to):
        return None
    other = src.text(like)
    if not to:
        return f"to({other}, copy=True)"
    to = {name: to.get(name, f"{other}.{name}") for name in PLACEMENT}
    return f"to({keywords(to)}, copy=True)"


def is_something(node: cst.BaseExpression, src: Source) -> bool:
    """Whether a dtype or device is certainly not None."""
    if isinstance(node, cst.Attribute) and node.attr.value in ("dtype", "device"):
        return True
    atoms = src.value(node)
    return all(isinstance(a, DType | Device) or (isinstance(a, Host) and a != NONE) for a in atoms)


def keywords(arguments: dict[str, str]) -> str:
    return ", ".join(f"{name}={text}" for name, text in arguments.items())


def surely_something(node: cst.BaseExpression, src: Source) -> bool:
    """The same for every caller; `self.dtype` may well be None."""
    made = resolved(node, src)
    if isinstance(made, cst.Attribute) and made.attr.value in ("dtype", "device"):
        return surely_tensor(made.value, src)
    return is_something(made, src) and is_local(made, src)


def wanting_grad(wanted: cst.BaseExpression | None, src: Source) -> str:
    flag = src.text(wanted) if wanted is not None else "False"
    return {"False": "", "True": ".requires_grad_()"}.get(flag, f".requires_grad_({flag})")


def surely_flag(node: cst.BaseExpression, src: Source) -> bool:
    """Whether the expression is True or False for every caller."""
    made = resolved(node, src)
    if isinstance(made, cst.Attribute) and made.attr.value == "requires_grad":
        return surely_tensor(made.value, src)
    return has_kind(made, {"bool"}, src) and is_local(made, src)


def receives(node: cst.BaseExpression | None, method: str) -> cst.BaseExpression | None:
    """Ex) x of x.detach()"""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.value if node.func.attr.value == method else None
    return None


def is_plain(node: cst.BaseExpression) -> bool:
    """Ex) x, self.weight"""
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)
