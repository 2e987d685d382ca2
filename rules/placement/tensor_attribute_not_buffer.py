"""A module keeps a tensor as a plain attribute and moves it in every `forward`.

`model.to(device)` moves parameters and buffers. A tensor that is only an attribute stays on the
CPU, and each call copies it to the device again, from memory that is not pinned: the host waits.

    self.mask = torch.ones(n)                                              # in __init__
    mask = self.mask.to(x.device)                                          # a copy in every forward

    self.register_buffer("mask", torch.ones(n), persistent=False)          # moves with the module

`persistent=False` keeps it out of the state_dict, as before. A floating-point buffer is also cast
by `model.half()` and `model.double()`.

Fix safety: shown, never applied: for all code that reads the tensor, it is then on another device.
The `.to()` in `forward` may stay; it no longer copies anything.

Tensors in a plain dict or list are copied in the same way; each can be a buffer with its own name,
or the dict can be a module that registers them. A list of tensors that are also registered
(`self.grids.append(self.grid)`) keeps the old tensors: `to` replaces buffers with new tensors, and
code that reads the list raises, or copies.

Known limits: a tensor is not reported if its class, or other visible code, moves it permanently
(`self.mask = self.mask.to(x.device)`, `_apply`), or if it is passed to a function that moves it.
Lists of buffers are found if the constructor itself fills them, by `append`, and other methods only
read them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amplint import (
    ACCELERATOR,
    CPU,
    HOT,
    READ,
    Classes,
    Finding,
    Fix,
    Group,
    Mapping,
    Object,
    ProjectText,
    Rule,
    Safety,
    Same,
    Sequence,
    Tensor,
    TensorTree,
    View,
    calls,
    constant,
    only,
)

from .._shared.classes import constructor_around
from .._shared.factories import MAX_STEPS, operand_alone
from .._shared.host_copies import MOVES
from .._shared.moves import is_sole_reader
from .._shared.reads import heat_of_training

REGISTERS = "register_buffer"
DEVICES = frozenset({"device", "cuda"})
READ_BUFFERS = "read the buffer by its name where it is used: `getattr(self, name)`"

rule = Rule(
    "AMP509",
    __doc__,
    group=Group.PERFORMANCE,
    help="register it: `self.register_buffer(name, tensor, persistent=False)`",
    witness=Same(),
    supersedes=("AMP508", "AMP613"),
)


@rule.on(calls(*(f".{name}" for name in MOVES)) & HOT)
def check(call: View) -> Iterator[Finding]:
    there = only(call.value)
    if not isinstance(there, Tensor | TensorTree) or there.device.kind != ACCELERATOR:
        return
    field = kept_tensor(call.receiver) if call.receiver is not None else None
    heat = heat_of_training(call)
    if field is None or heat is None or not stays_on_host(field):
        return
    message = f"`{field.brief}` is not a buffer: it is copied to the device every time"
    assignment = assigned_in_constructor(field) if field.op == "attr" else None
    built = None if assignment is None else assignment.related("a plain attribute of the module")
    fix = None if assignment is None else registered(assignment, field.method)
    yield call.finding(message, (built, *heat.chain), fix)


@rule.on(calls(".append"))
def check_appended(call: View) -> Iterator[Finding]:
    """Ex) self.grids.append(getattr(self, name)), after `self.register_buffer(name, grid)`"""
    container, element, cls = call.receiver, call.arg("object", 0), call.cls
    if container is None or element is None or cls is None or container.op != "attr":
        return
    if call.function.name != "__init__" or not is_module(container.operands[0]):
        return
    buffer = registered_besides(element)
    # Where the constructor speaks of a device, the tensor may be built there.
    if buffer is None or not DEVICES.isdisjoint(call.function.words):
        return
    field = container.method
    if call.fact(ProjectText).is_stored_from_outside(field) or call.mentions("set_default_device"):
        return
    if call.fact(Classes).only_reads(cls, field):
        stays = "keeps the tensor of a buffer: it stays behind when the module moves"
        because = [buffer.related("the buffer that moves")]
        yield call.finding(f"`self.{field}` {stays}", because, help=READ_BUFFERS)


def registered_besides(element: View) -> View | None:
    """The call in the same function that registers a tensor as a buffer."""
    origin = element.origin
    attribute = origin.arg("name", 1) if origin.callee == "builtins.getattr" else None
    field = origin.method if origin.op == "attr" and is_module(origin.operands[0]) else None
    for call in element.operations("call"):
        name, tensor = call.arg("name", 0), call.arg("tensor", 1)
        if call.method != REGISTERS or name is None or tensor is None:
            continue
        if tensor.tensor is not None and tensor.tensor.device.kind == ACCELERATOR:
            continue
        is_named = attribute is not None and attribute.text == name.text
        if element.is_same(tensor) or is_named or (field and constant(name.value) == field):
            return call
    return None


def kept_tensor(at: View, steps: int = MAX_STEPS) -> View | None:
    """The tensor in a field of a module that a value comes from by operations on it alone.

    Ex) self.mask of `mask[None]` after `mask = self.mask.clone()`; self.tables[name]
    """
    if at.op == "attr" and is_module(at.operands[0]):
        return at
    if at.op == "subscript" and at.operands[0].op == "attr":
        table = at.operands[0]
        if is_module(table.operands[0]) and isinstance(only(table.value), Mapping | Sequence):
            return at
    if steps == 0:
        return None
    if at.op == READ:
        field = kept_tensor(at.origin, steps - 1)
        return field if field is not None and is_sole_reader(at, at.origin) else None
    step = operand_alone(at)
    return kept_tensor(step.operand, steps - 1) if step is not None else None


def is_module(at: View) -> bool:
    """Whether it is `self`, in a module of the project or in what is mixed into one."""
    is_own = not any(isinstance(atom, Object) for atom in at.value)
    return is_own and at.origin.op == "param" and at.is_module


def stays_on_host(field: View) -> bool:
    """Whether the tensor is on the CPU, wherever it was assigned, and is not trained."""
    tensor = field.tensor
    if tensor is None or tensor.device.kind != CPU.kind or tensor.grad:
        return False
    return not field.mentions("set_default_device")


def assigned_in_constructor(field: View) -> View | None:
    """Ex) self.mask = torch.ones(n), in `__init__`"""
    for statement in constructor_around(field):
        match statement:
            case (
                ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)])
                | ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name))
            ) if name == field.method:
                node = field.source.layout.node_for(statement)
                return field.of(node) if node is not None else None
            case _:
                pass
    return None


def registered(assignment: View, name: str) -> Fix | None:
    """Ex) self.mask = m -> self.register_buffer("mask", m, persistent=False)"""
    source, statement = assignment.source, assignment.cst
    if statement.value is None:
        return None
    call = f'self.register_buffer("{name}", {source.text(statement.value)}, persistent=False)'
    edit = source.edits.replace(statement, call)
    return Fix("Register the tensor as a buffer", (edit,), Safety.SUGGEST)
