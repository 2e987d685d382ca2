"""A module keeps a tensor as a plain attribute and moves it in every `forward`.

`model.to(device)` moves parameters and buffers. A tensor that is only an attribute stays on the
CPU, and each call copies it to the device anew, from memory that is not pinned: the host waits.

    self.mask = torch.ones(n)                                              # in __init__
    mask = self.mask.to(x.device)                                          # a copy in every forward

    self.register_buffer("mask", torch.ones(n), persistent=False)          # moves with the module

`persistent=False` keeps it out of the state_dict, as it is now. A buffer of floating point also
follows `model.half()` and `model.double()`.

Fix safety: shown, never applied: the tensor is then elsewhere for all that read it. The `.to()` in
`forward` may stay; it copies nothing any more.

A table in a plain dict or list is copied likewise; each can be a buffer under a name of its own, or
the dict a module that registers them.

Known limits: a tensor is left alone whose class, or anybody else who was seen, moves it for good
(`self.mask = self.mask.to(x.device)`, `_apply`), and one that is moved by a function that it is
given to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint import (
    ACCELERATOR,
    CPU,
    HOT,
    TRAINING,
    Classes,
    Finding,
    Fix,
    Group,
    Mapping,
    Rule,
    Safety,
    Same,
    Sequence,
    Spot,
    Tensor,
    TensorTree,
    calls,
    only,
)
from amplint import libcst as cst

from .._shared.classes import constructor_around
from .._shared.cst_factories import operand_alone, taken_from
from .._shared.cst_moves import bound_before
from .._shared.factories import MAX_STEPS
from .._shared.reads import heat_places

if TYPE_CHECKING:
    from amplint import Source

MOVES = frozenset({"to", "cuda", "type_as"})


def moves_kept(at: Spot) -> bool:
    """Whether a tensor on the CPU, in a field of an object, is moved to the device."""
    there = only(at.value)
    if not isinstance(there, Tensor | TensorTree) or there.device.kind != ACCELERATOR:
        return False
    return any(is_kept(at, each) for each in taken_from(at, at.receiver))


def is_kept(at: Spot, number: int) -> bool:
    node, tensor = at.graph.nodes[number], at.tensor(number)
    return (
        node.op in ("attr", "subscript") and tensor is not None and tensor.device.kind == CPU.kind
    )


rule = Rule(
    "AMP509",
    __doc__,
    group=Group.PERFORMANCE,
    since="0.1",
    help="register it: `self.register_buffer(name, tensor, persistent=False)`",
    witness=Same(),
    supersedes=("AMP508", "AMP613"),
    candidates=calls(*(f".{name}" for name in MOVES)) & moves_kept & HOT,
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    function = call.func
    if not isinstance(function, cst.Attribute) or function.attr.value not in MOVES:
        return
    kept = kept_tensor(function.value, src)
    there = only(src.value(call))
    if kept is None or not stays_on_host(kept, src) or not isinstance(there, Tensor | TensorTree):
        return
    heat = src.heat(call)
    if there.device.kind != ACCELERATOR or heat is None or heat.temperature != TRAINING:
        return
    message = f"`{src.brief(kept)}` is no buffer: it is copied to the device every time"
    field = kept if isinstance(kept, cst.Attribute) else None
    made = assigned_in_constructor(field, src) if field is not None else None
    built = () if made is None else (src.related_node(made, "a plain attribute of the module"),)
    fix = (
        registered(made, field.attr.value, src) if field is not None and made is not None else None
    )
    yield src.finding(rule, call, message, fix, (*built, *heat_places(heat, src)))


def kept_tensor(
    node: cst.BaseExpression, src: Source, steps: int = MAX_STEPS
) -> cst.Attribute | cst.Subscript | None:
    """The tensor in a field of a module that a value comes from by operations on it alone.

    Ex) self.mask of `mask[None]` after `mask = self.mask.clone()`; self.tables[name]
    """
    if isinstance(node, cst.Attribute) and is_module(node.value, src):
        return node
    if isinstance(node, cst.Subscript) and isinstance(node.value, cst.Attribute):
        container = only(src.value(node.value))
        if is_module(node.value.value, src) and isinstance(container, Mapping | Sequence):
            return node
    if steps == 0:
        return None
    if isinstance(node, cst.Name):
        before = bound_before(node, src)
        return kept_tensor(before, src, steps - 1) if before is not None else None
    step = operand_alone(node, src)
    return kept_tensor(step.operand, src, steps - 1) if step is not None else None


def is_module(node: cst.BaseExpression, src: Source) -> bool:
    """Whether it is `self`, in a module of the project or in what is mixed into one."""
    return (
        isinstance(node, cst.Name)
        and src.parameter(node) is not None
        and src.fact(Classes).is_module(src.value(node))
    )


def stays_on_host(kept: cst.BaseExpression, src: Source) -> bool:
    """Whether the tensor is on the CPU, wherever it was assigned, and is not trained."""
    tensor = src.tensor(kept)
    if tensor is None or tensor.device.kind != "cpu" or tensor.grad:
        return False
    return not src.mentions("set_default_device")


def assigned_in_constructor(
    attribute: cst.Attribute, src: Source
) -> cst.Assign | cst.AnnAssign | None:
    """Ex) self.mask = torch.ones(n), in `__init__`"""
    for statement in constructor_around(attribute, src):
        match statement:
            case (
                ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)])
                | ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name))
            ) if name == attribute.attr.value:
                node = src.layout.node_for(statement)
                return node if isinstance(node, cst.Assign | cst.AnnAssign) else None
            case _:
                pass
    return None


def registered(made: cst.Assign | cst.AnnAssign, name: str, src: Source) -> Fix | None:
    """Ex) self.mask = m -> self.register_buffer("mask", m, persistent=False)"""
    if made.value is None:
        return None
    call = f'self.register_buffer("{name}", {src.text(made.value)}, persistent=False)'
    return Fix("Register the tensor as a buffer", (src.edits.replace(made, call),), Safety.SUGGEST)
