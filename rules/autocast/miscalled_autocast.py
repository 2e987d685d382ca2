"""autocast is called with the wrong arguments, not called at all, or never entered.

`torch.autocast(device_type, dtype, enabled, cache_enabled)` takes the name of a device type first,
and its second parameter is the dtype; that of `torch.cuda.amp.autocast` was the dtype as well, but
its first one was `enabled`.

    torch.autocast("cuda", use_amp)       # TypeError at the `with`: a flag is no dtype
    torch.autocast(x.device)              # ValueError: a torch.device is no name
    torch.autocast("gpu")                 # RuntimeError: no such device type
    torch.autocast(use_amp)               # ValueError: which device?
    torch.autocast("cuda", dtype="float16")         # TypeError
    with torch.autocast: ...              # TypeError: a class is no context
    @torch.autocast                       # ValueError: the function is taken for the device type
    @torch.cuda.amp.autocast              # the first call of the function raises
    torch.autocast("cuda")                # alone in a line: has no effect
    with torch.autocast("cuda") and torch.no_grad(): ...    # enters no_grad alone

    torch.autocast("cuda", enabled=use_amp)
    torch.autocast(x.device.type)

Fix safety: names the argument that is in the wrong place, and asks a device for its type: safe, for
the old line could only raise. Unsafe where something around it catches the error, where only the
calls that were seen say what the argument is, and where a device type or a dtype has to be guessed.
Unsafe as well for `and` between two contexts, where a comma is meant: what never ran under autocast
then does. Not offered for a region that is in a line of its own.

Known limits: a device that is one by annotation alone may be a name after all, and is left alone;
likewise a flag of the command line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amplint import (
    Device,
    DType,
    Edit,
    Finding,
    Fix,
    Group,
    Host,
    Object,
    Raises,
    Rule,
    Safety,
    Spot,
    Tensor,
    TensorTree,
    Value,
    calls,
    constant,
    nodes,
    only,
    symbol,
)
from amplint import libcst as cst
from amplint.knowledge.libraries import AUTOCASTS, DEFAULT_DTYPES, AutocastApi

from .._shared.guards import is_caught
from .._shared.tensors import surely_tensor

if TYPE_CHECKING:
    from amplint import Source

RAISES = "the line can only raise, and what is meant is known"
KIND = "the argument is of that kind for every caller"
UNCAUGHT = "nothing around it catches the error"


# What to do there, where it is something else than the help of the rule.
ENTER = "enter it by `with`, around the forward pass and the loss, or remove the line"
GIVE_TYPE = "give the type of the device, a string: `device.type`"
GIVE_DTYPE = "give a dtype: `torch.bfloat16`, or `getattr(torch, name)` of a name"

NO_TYPES = {"gpu": "cuda", "cuda_gpu": "cuda", "nvidia": "cuda"}  # what is written for a type
DTYPES = frozenset({"float16", "bfloat16", "float32"})


def is_miscalled(at: Spot) -> bool:
    """Whether an argument may be of the wrong kind, or nothing enters what is made."""
    if not at.is_used or any(at.graph.nodes[user].op == "bool" for user in at.users):
        return True
    device, dtype = at.given("device_type", 0), at.given("dtype", 1)
    named = constant(at.of(device))
    wrong = (
        device < 0
        or isinstance(only(at.of(device)), Device)
        or is_flag(at.of(device))
        or (isinstance(named, str) and meant_type(named) is not None)
        or is_flag(at.of(dtype))
        or isinstance(constant(at.of(dtype)), str)
    )
    return wrong and any(name in AUTOCASTS and AUTOCASTS[name].device is None for name in at.names)


rule = Rule(
    "AMP307",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help='write `with torch.autocast("cuda", dtype=..., enabled=...):`',
    witness=Raises("Expected `device_type` of type `str`"),
    supersedes=("AMP701",),
    safe_if=(RAISES, KIND, UNCAUGHT),
    candidates=calls(*AUTOCASTS) & is_miscalled
    | nodes("context") & (lambda at: symbol(at.value) in AUTOCASTS),
)


@rule.check
def check_call(call: cst.Call, src: Source) -> Iterator[Finding]:
    api = api_of(call.func, src)
    if api is None or any(arg.star for arg in call.args):
        return
    if api.device is None:  # the new signature, where the caller names the device
        yield from check_device(call, src)
        yield from check_dtype(call, src)
    if isinstance(src.parent(call), cst.Expr):
        message = f"`{src.brief(call)}` opens no region: nothing enters it"
        yield replace(src.finding(rule, call, message), help=ENTER)
    yield from not_entered(call, src)


def not_entered(call: cst.Call, src: Source) -> Iterator[Finding]:
    """Ex) with torch.autocast("cuda") and torch.no_grad(): -> a comma"""
    both = src.parent(call)
    if not isinstance(both, cst.BooleanOperation) or both.left is not call:
        return
    if not isinstance(both.operator, cst.And) or not isinstance(src.parent(both), cst.WithItem):
        return
    fix = None
    if not both.lpar:
        edit = src.edits.replace(both, f"{src.text(both.left)}, {src.text(both.right)}")
        fix = Fix("Enter both contexts", (edit,), Safety.UNSAFE)
    message = f"`{src.brief(call)}` is not entered: `and` yields only its right side"
    # At the operator: a deprecated call on its left is another mistake, and AMP701 speaks there.
    yield src.finding(rule, both.operator, message, fix)


@rule.check
def check_decorator(decorator: cst.Decorator, src: Source) -> Iterator[Finding]:
    api = api_of(decorator.decorator, src)
    raises = (
        "raises ValueError" if api and api.device is None else "the first call raises TypeError"
    )
    yield from not_called(decorator.decorator, raises, src)


@rule.check
def check_with(item: cst.WithItem, src: Source) -> Iterator[Finding]:
    yield from not_called(item.item, "a class is no context, and raises", src)


def not_called(context: cst.BaseExpression, raises: str, src: Source) -> Iterator[Finding]:
    """Ex) @torch.autocast -> @torch.autocast("cuda")"""
    api = api_of(context, src)
    if api is not None:
        # Which device the new API is to be called with has to be guessed.
        given = "" if api.device else '"cuda"'
        edit = src.edits.insert_after(context, f"({given})")
        fix = Fix.safe_if("Call autocast", (edit,), raising(context, src, api.device is not None))
        yield src.finding(rule, context, f"`{src.text(context)}` is not called: {raises}", fix)


def raising(node: cst.BaseExpression, src: Source, raises: bool = True) -> dict[str, bool]:
    return {RAISES: raises, UNCAUGHT: not is_caught(node, src)}


def api_of(node: cst.BaseExpression, src: Source) -> AutocastApi | None:
    name = src.name(node)
    return AUTOCASTS.get(name) if name is not None else None


def check_device(call: cst.Call, src: Source) -> Iterator[Finding]:
    given = src.argument(call, "device_type", 0)
    if given is None:
        opening = src.edits.insert_argument(call, '"cuda"')
        fix = Fix("Name the device type", (opening,), Safety.UNSAFE) if opening else None
        message = f"`{src.brief(call)}` names no device type: raises TypeError"
        yield src.finding(rule, call, message, fix)
        return
    name = constant(src.value(given.value))
    if is_device(given.value, src):
        edit = src.edits.append_call(given.value, "type")
        conditions = {**raising(call, src), KIND: is_surely_device(given.value, src)}
        fix = Fix.safe_if("Give the type of the device", (edit,), conditions)
        message = f"`{src.brief(given.value)}` is a torch.device, not a type: raises ValueError"
        yield replace(src.finding(rule, call, message, fix), help=GIVE_TYPE)
    elif is_flag(src.value(given.value)):
        message = f"`{src.brief(given.value)}` is taken for the device type: raises ValueError"
        yield src.finding(rule, call, message, name_flag(call, given, src))
    elif isinstance(name, str) and (meant := meant_type(name)) is not None:
        literal = isinstance(given.value, cst.SimpleString)
        edit = src.edits.replace(given.value, f'"{meant}"')
        fix = Fix("Name the device type", (edit,), Safety.UNSAFE) if literal else None
        yield src.finding(rule, call, f'"{name}" is no device type: raises RuntimeError', fix)


def is_device(node: cst.BaseExpression, src: Source) -> bool:
    """Whether an expression is a torch.device, by more than an annotation."""
    atom = only(src.value(node))
    if not isinstance(atom, Device):
        return False
    if isinstance(node, cst.Attribute) and node.attr.value == "device":
        owner = only(src.value(node.value))
        return isinstance(owner, Tensor | TensorTree | Object)
    made = src.origin(node) if isinstance(node, cst.Name) else node
    called = isinstance(made, cst.Call) and src.name(made.func) == "torch.device"
    return called or atom.kind is not None


def is_surely_device(node: cst.BaseExpression, src: Source) -> bool:
    """Ex) x.device of what torch has computed, torch.device("cuda"), a variable that holds it"""
    if isinstance(node, cst.Attribute):
        return node.attr.value == "device" and surely_tensor(node.value, src)
    made = src.origin(node) if isinstance(node, cst.Name) else node
    return isinstance(made, cst.Call) and src.name(made.func) == "torch.device"


def is_surely_flag(node: cst.BaseExpression, src: Source) -> bool:
    """Whether a flag is none of a parameter that may be given a dtype."""
    param = src.parameter(node) if isinstance(node, cst.Name) else None
    if param is None:
        return True
    return param.annotation is not None and src.text(param.annotation.annotation) == "bool"


def is_flag(value: Value) -> bool:
    return bool(value) and all(isinstance(atom, Host) and atom.kind == "bool" for atom in value)


def name_flag(call: cst.Call, given: cst.Arg, src: Source) -> Fix | None:
    """Ex) torch.autocast(use_amp) -> torch.autocast("cuda", enabled=use_amp)"""
    if given.keyword is not None or len([arg for arg in call.args if arg.keyword is None]) > 1:
        return None
    edit = src.edits.insert_before(given.value, '"cuda", enabled=')
    return Fix("Name the device type", (edit,), Safety.UNSAFE)


def meant_type(name: str) -> str | None:
    """The device type that is meant by a name that is none."""
    plain = name.partition(":")[0]
    meant = NO_TYPES.get(plain.lower(), plain.lower())
    return meant if plain != meant and meant in DEFAULT_DTYPES else None


def check_dtype(call: cst.Call, src: Source) -> Iterator[Finding]:
    given = src.argument(call, "dtype", 1)
    if given is None:
        return
    if is_flag(src.value(given.value)):
        message = f"`{src.brief(given.value)}` is taken for the dtype: raises TypeError"
        yield src.finding(rule, call, message, name_flags(call, given, src))
        return
    name = constant(src.value(given.value))
    if isinstance(name, str):
        torch = src.imports.bound_as("torch")
        known = name in DTYPES and torch is not None and isinstance(given.value, cst.SimpleString)
        edit = src.edits.replace(given.value, f"{torch}.{name}")
        fix = Fix("Give the dtype", (edit,), Safety.UNSAFE) if known else None
        message = f'"{name}" is a string, not a dtype: raises TypeError'
        yield replace(src.finding(rule, call, message, fix), help=GIVE_DTYPE)


def name_flags(call: cst.Call, given: cst.Arg, src: Source) -> Fix | None:
    """Ex) torch.autocast("cuda", False) -> torch.autocast("cuda", enabled=False)"""
    positional = [arg for arg in call.args if arg.keyword is None]
    others = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    if given.keyword is not None or len(positional) > 3 or "enabled" in others:
        return None
    edits: list[Edit] = [src.edits.insert_before(given.value, "enabled=")]
    if len(positional) == 3:  # `("cuda", True, torch.float16)`, as in the old signature
        if not isinstance(only(src.value(positional[2].value)), DType):
            return None
        edits.append(src.edits.insert_before(positional[2].value, "dtype="))
    conditions = {**raising(call, src), KIND: is_surely_flag(given.value, src)}
    return Fix.safe_if("Name the argument", tuple(edits), conditions)
