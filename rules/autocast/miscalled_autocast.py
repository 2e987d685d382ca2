"""autocast is called with the wrong arguments, not called at all, never entered, or never left.

`torch.autocast(device_type, dtype, enabled, cache_enabled)` takes the name of a device type first,
then the dtype. The first parameter of `torch.cuda.amp.autocast` was `enabled`, the second was the
dtype.

    torch.autocast("cuda", use_amp)       # TypeError at the `with`: a flag is not a dtype
    torch.autocast(x.device)              # ValueError: a torch.device is not a name
    torch.autocast("gpu")                 # RuntimeError: no such device type
    torch.autocast(use_amp)               # ValueError: which device?
    torch.autocast("cuda", dtype="float16")         # TypeError
    with torch.autocast: ...              # TypeError: a class is not a context
    torch.cuda.amp.autocast(torch.bfloat16)         # TypeError: a dtype is not a flag
    @torch.autocast                       # ValueError: the function is passed as the device type
    @torch.cuda.amp.autocast              # the first call of the function raises
    torch.autocast("cuda")                # alone in a line: has no effect
    nullcontext() if use_amp else torch.autocast("cuda")    # a region where AMP is off
    torch.autocast("cuda").__enter__()    # nothing can leave it: all later code runs in the region
    with torch.autocast("cuda") and torch.no_grad(): ...    # enters no_grad alone
    with model.no_sync() and torch.autocast("cuda"): ...    # enters the region alone

    torch.autocast("cuda", enabled=use_amp)
    torch.autocast(x.device.type)

Fix safety: adds the name of the misplaced argument, and passes the type of a device. Unsafe, since
callers may pass something else, and a device type may be guessed. Also unsafe for `and` between two
contexts, where a comma is meant: code that never ran under autocast then does. Not offered for a
call that is a statement of its own, for swapped branches, nor for a region that is never left.

Known limits: a value that is a device only by its annotation may still be a name, and is not
reported; neither is a flag of the command line or of a configuration, unless the same field is
given to `enabled=` elsewhere in the file. A region that is never left is reported
only where it has no name, by which other code might leave it, and in a file that others import: in
a script all code may be meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from amplint import (
    Autocast,
    Device,
    DType,
    Finding,
    Fix,
    Function,
    Group,
    Host,
    Object,
    Raises,
    Rule,
    Tensor,
    TensorTree,
    Unknown,
    Value,
    View,
    calls,
    constant,
    in_functions_with,
    nodes,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.libraries import AUTOCASTS, DEFAULT_DTYPES
from amplint.knowledge.vocabulary import SWITCHES_AMP_ON

from .._shared.steps import unsafe

# What to do there, where it is something else than the help of the rule.
ENTER = "enter it with `with`, around the forward pass and the loss, or remove the line"
SWAP = "swap the two branches"
LEAVE = "enter it with `with`, around what is to run in it"
GIVE_TYPE = "pass the type of the device, a string: `device.type`"
GIVE_DTYPE = "pass a dtype: `torch.bfloat16`, or `getattr(torch, name)` for a name"
NAME_DTYPE = "name it: `dtype=torch.bfloat16`"

NAME_TYPE = "Name the device type"
NAME_ARGUMENT = "Name the argument"
NO_TYPES = {"gpu": "cuda", "cuda_gpu": "cuda", "nvidia": "cuda"}  # what is written for a type

rule = Rule(
    "AMP307",
    __doc__,
    group=Group.CORRECTNESS,
    help='write `with torch.autocast("cuda", dtype=..., enabled=...):`',
    witness=Raises("Expected `device_type` of type `str`"),
    supersedes=("AMP701",),
)


@rule.on(calls(*AUTOCASTS))
def check_call(call: View) -> Iterator[Finding]:
    api = AUTOCASTS.get(call.callee or "")
    if api is None or call.has_star:
        return
    if api.device is None:  # the new signature, where the caller names the device
        findings = [*check_device(call), *check_dtype(call)]
        yield from findings or check_enabled(call, 2)
    else:
        yield from check_enabled(call, 0)
    uses = list(call.uses)
    is_entered = any(map(call.is_same, call.contexts))
    if not uses and not is_entered and isinstance(call.source.parent(call.cst), cst.Expr):
        yield call.finding(f"`{call.brief}` has no effect: nothing enters it", help=ENTER)
    if any(use.op == "bool" for use in uses):
        yield from not_entered(call)
    yield from never_left(call, uses)
    yield from swapped(call)


def not_entered(call: View) -> Iterator[Finding]:
    """Ex) with torch.autocast("cuda") and torch.no_grad(): -> a comma"""
    src = call.source
    both = src.parent(call.cst)
    if not isinstance(both, cst.BooleanOperation) or not isinstance(both.operator, cst.And):
        return
    if not isinstance(src.parent(both), cst.WithItem):
        return
    context = call.of(both.left)
    if both.left is not call.cst and not may_be_context(context):
        return
    fix = None
    if not both.lpar:
        edit = src.edits.replace(both, f"{src.text(both.left)}, {src.text(both.right)}")
        fix = unsafe("Enter both contexts", edit)
    message = f"`{context.brief}` is not entered: `and` yields only its right side"
    # At the operator: a deprecated call on its left is another mistake, and AMP701 speaks there.
    yield call.finding(message, fix=fix, place=both.operator)


def never_left(call: View, uses: list[View]) -> Iterator[Finding]:
    """Ex) torch.autocast("cuda").__enter__(), since nothing holds what has the `__exit__`"""
    stem = call.source.path.rpartition("/")[2].removesuffix(".py")
    if is_off(call) or not call.matches(rf"^\s*(from|import)\b.*\b{re.escape(stem)}\b", stem):
        return  # in a script or a notebook, all code may be meant
    for entering in (each for use in uses if use.method == "__enter__" for each in use.uses):
        if entering.op != "call" or entering.cst.func.value is not call.cst:
            continue
        if isinstance(call.source.parent(entering.cst), cst.Expr):
            message = f"`{call.brief}` is never left: all later code runs in the region"
            yield entering.finding(message, help=LEAVE)


def is_off(region: View) -> bool:
    opened = only(region.value)
    return isinstance(opened, Autocast) and opened.enabled is False


def swapped(call: View) -> Iterator[Finding]:
    """Ex) nullcontext() if self.amp else torch.autocast("cuda")"""
    choice = call.source.parent(call.cst)
    if not isinstance(choice, cst.IfExp) or choice.orelse is not call.cst or is_off(call):
        return
    flag = call.source.text(choice.test)
    if SWITCHES_AMP_ON.search(flag) and call.of(choice.body).callee == "contextlib.nullcontext":
        message = f"the region is entered where `{flag}` is false: the branches are swapped"
        yield call.finding(message, help=SWAP)


def may_be_context(at: View) -> bool:
    """Whether an expression before `and` is made to be entered, as no condition is.

    Ex) model.no_sync()
    """
    return at.op == "call" and not any(
        isinstance(atom, Host | Function) for atom in (*at.value, *at.called.value)
    )


@rule.on(nodes("context") & in_functions_with(frozenset(AUTOCASTS)))
def check_context(context: View) -> Iterator[Finding]:
    """Ex) @torch.autocast -> @torch.autocast("cuda")"""
    api = AUTOCASTS.get(context.name or "")
    if api is None:
        return
    raises = "a class is not a context manager, and raises"
    if isinstance(context.source.parent(context.cst), cst.Decorator):
        raises = "the first call raises TypeError" if api.device else "raises ValueError"
    # Which device the new API is to be called with has to be guessed.
    edit = context.source.edits.insert_after(context.cst, "()" if api.device else '("cuda")')
    fix = unsafe("Call autocast", edit)
    yield context.finding(f"`{context.text}` is not called: {raises}", fix=fix)


# ------------------------------------------------------------------------------ the device type


def check_device(call: View) -> Iterator[Finding]:
    argument = call.arg("device_type", 0)
    if argument is None:
        message = f"`{call.brief}` names no device type: raises TypeError"
        opening = call.source.edits.insert_argument(call.cst, '"cuda"')
        yield call.finding(message, fix=unsafe(NAME_TYPE, opening))
        return
    name = constant(argument.value)
    device_type = meant_type(name) if isinstance(name, str) else None
    if is_device(argument):
        message = f"`{argument.brief}` is a torch.device, not a type: raises ValueError"
        edit = call.source.edits.append_call(argument.cst, "type")
        yield call.finding(message, fix=unsafe("Pass the type of the device", edit), help=GIVE_TYPE)
    elif is_flag(argument.value):
        message = f"`{argument.brief}` is passed as the device type: raises ValueError"
        yield call.finding(message, fix=name_first(call, argument, "enabled"))
    elif isinstance(only(argument.value), DType):
        message = f"`{argument.brief}` is passed as the device type: raises ValueError"
        yield call.finding(message, fix=name_first(call, argument, "dtype"))
    elif device_type is not None:
        edit = call.source.edits.replace(argument.cst, f'"{device_type}"')
        fix = unsafe(NAME_TYPE, edit) if isinstance(argument.cst, cst.SimpleString) else None
        yield call.finding(f'"{name}" is not a device type: raises RuntimeError', fix=fix)


def meant_type(name: str) -> str | None:
    """The device type that is meant by a name that is none."""
    plain = name.partition(":")[0]
    device_type = NO_TYPES.get(plain.lower(), plain.lower())
    return device_type if plain != device_type and device_type in DEFAULT_DTYPES else None


def is_device(at: View) -> bool:
    """Whether an expression is a torch.device, by more than an annotation."""
    atom = only(at.value)
    if not isinstance(atom, Device):
        return False
    if at.op == "attr" and isinstance(only(at.operands[0].value), Tensor | TensorTree | Object):
        return at.method == "device"
    return atom.kind is not None or at.origin.callee == "torch.device"


def name_first(call: View, argument: View, keyword: str) -> Fix | None:
    """Ex) torch.autocast(use_amp) -> torch.autocast("cuda", enabled=use_amp)"""
    if not is_only_positional(call, argument) or call.arg(keyword) is not None:
        return None
    return unsafe(NAME_TYPE, call.source.edits.insert_before(argument.cst, f'"cuda", {keyword}='))


def is_only_positional(call: View, expression: View) -> bool:
    return [argument for _, keyword, argument in call.arguments if keyword is None] == [expression]


# ------------------------------------------------------------------------------------- the dtype


def check_dtype(call: View) -> Iterator[Finding]:
    second = next((each for at, name, each in call.arguments if at == 1 and name is None), None)
    named = next((each for _, name, each in call.arguments if name == "dtype"), None)
    argument = second or named
    if argument is None:
        return
    name = constant(argument.value)
    is_switched = is_flag(argument.value) or is_switch(argument)
    if second is not None and named is not None:
        message = f"`{argument.brief}` is passed as `dtype`, which is given twice: raises TypeError"
        yield call.finding(message, fix=name_flags(call, argument) if is_switched else None)
    elif is_switched:
        message = f"`{argument.brief}` is passed as the dtype: raises TypeError"
        yield call.finding(message, fix=name_flags(call, argument))
    elif isinstance(name, str):
        message = f'"{name}" is a string, not a dtype: raises TypeError'
        yield call.finding(message, help=GIVE_DTYPE)


def check_enabled(call: View, position: int) -> Iterator[Finding]:
    """Ex) torch.cuda.amp.autocast(torch.bfloat16)"""
    argument = call.arg("enabled", position)
    if argument is None or not isinstance(only(argument.value), DType):
        return
    message = f"`{argument.brief}` is passed as the flag `enabled`: raises TypeError"
    fix = None
    if position == 0 and is_only_positional(call, argument) and call.arg("dtype") is None:
        fix = unsafe(NAME_ARGUMENT, call.source.edits.insert_before(argument.cst, "dtype="))
    yield call.finding(message, fix=fix, help=NAME_DTYPE)


def is_flag(value: Value) -> bool:
    return bool(value) and all(isinstance(atom, Host) and atom.kind == "bool" for atom in value)


def is_switch(at: View) -> bool:
    """Whether what is not known is a flag all the same: the file passes the field to `enabled=`.

    Ex) self.use_amp, where the scaler is `GradScaler(enabled=self.use_amp)`
    """
    is_unknown = all(isinstance(atom, Unknown) for atom in at.value)
    if not isinstance(at.cst, cst.Attribute) or not is_unknown:
        return False
    return at.source.says(re.compile(rf"\benabled ?= ?{re.escape(at.text)} ?[,)]"))


def name_flags(call: View, flag: View) -> Fix | None:
    """Ex) torch.autocast("cuda", False) -> torch.autocast("cuda", enabled=False)"""
    positional = [argument for _, keyword, argument in call.arguments if keyword is None]
    if flag not in positional or len(positional) > 3 or call.arg("enabled") is not None:
        return None
    insert_before = call.source.edits.insert_before
    edits = [insert_before(flag.cst, "enabled=")]
    if len(positional) == 3:  # `("cuda", True, torch.float16)`, as in the old signature
        if not isinstance(only(positional[2].value), DType):
            return None
        edits.append(insert_before(positional[2].cst, "dtype="))
    return unsafe(NAME_ARGUMENT, *edits)
