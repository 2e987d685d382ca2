"""autocast is called with the wrong arguments, not called at all, or never entered.

`torch.autocast(device_type, dtype, enabled, cache_enabled)` takes the name of a device type first,
then the dtype. The first parameter of `torch.cuda.amp.autocast` was `enabled`, the second was the
dtype.

    torch.autocast("cuda", use_amp)       # TypeError at the `with`: a flag is not a dtype
    torch.autocast("cuda", use_amp, dtype=torch.float16)  # TypeError: the dtype is given twice
    torch.autocast(x.device)              # ValueError: a torch.device is not a name
    torch.autocast("gpu")                 # RuntimeError: no such device type
    torch.autocast(use_amp)               # ValueError: which device?
    torch.autocast("cuda", dtype="float16")         # TypeError
    with torch.autocast: ...              # TypeError: a class is not a context
    torch.cuda.amp.autocast(torch.bfloat16)         # TypeError: a dtype is not a flag
    @torch.autocast                       # ValueError: the function is passed as the device type
    @torch.cuda.amp.autocast              # the first call of the function raises
    torch.autocast("cuda")                # alone in a line: has no effect
    self.region()                         # a method that returns one: likewise
    region = torch.autocast("cuda")       # and nothing reads it: likewise
    yield torch.autocast("cuda")          # in a @contextmanager: `with` enters the generator alone
    with torch.autocast("cuda") and torch.no_grad(): ...    # enters no_grad alone
    with model.no_sync() and torch.autocast("cuda"): ...    # enters the region alone

    torch.autocast("cuda", enabled=use_amp)
    torch.autocast(x.device.type)

Fix safety: adds the name of the misplaced argument, and passes the type of a device: safe, because
the old line could only raise. Unsafe if something around it catches the error, if only the visible
calls show what the argument is, or if a device type or a dtype has to be guessed. Also unsafe for
`and` between two contexts, where a comma is meant: code that never ran under autocast then does.
Not offered for a call that is a statement of its own.

Known limits: a value that is a device only by its annotation may still be a name, and is not
reported; neither is a flag of the command line or of a configuration, unless the same name is
passed to `enabled=` elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from amplint import (
    MAY_BE_REGION,
    CalledTexts,
    Class,
    Device,
    DType,
    Edit,
    Finding,
    Fix,
    Function,
    Group,
    Host,
    Instance,
    Object,
    Raises,
    Rule,
    Safety,
    Tensor,
    TensorTree,
    Unknown,
    Value,
    View,
    calls,
    calls_of,
    constant,
    in_functions_with,
    is_autocast,
    nodes,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.libraries import AUTOCASTS, DEFAULT_DTYPES

from .._shared.guards import is_caught
from .._shared.tensors import is_surely_tensor

RAISES = "the line can only raise, and its intent is known"
KIND = "the argument is of that kind for every caller"
UNCAUGHT = "nothing around it catches the error"


WITHOUT_EFFECT = "has no effect: nothing enters it"
ENTERS = re.compile(r"\benter_context\b|\b__enter__\b")

# What to do there, where it is something else than the help of the rule.
ENTER_AROUND_YIELD = "enter it with `with`, around the `yield`"
ENTER = "enter it with `with`, around the forward pass and the loss, or remove the line"
GIVE_TYPE = "pass the type of the device, a string: `device.type`"
GIVE_DTYPE = "pass a dtype: `torch.bfloat16`, or `getattr(torch, name)` for a name"
NAME_DTYPE = "name it: `dtype=torch.bfloat16`"

NO_TYPES = {"gpu": "cuda", "cuda_gpu": "cuda", "nvidia": "cuda"}  # what is written for a type
DTYPES = frozenset({"float16", "bfloat16", "float32"})


rule = Rule(
    "AMP307",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help='write `with torch.autocast("cuda", dtype=..., enabled=...):`',
    witness=Raises("Expected `device_type` of type `str`"),
    supersedes=("AMP701",),
    safe_if=(RAISES, KIND, UNCAUGHT),
)


@rule.on(calls(*AUTOCASTS))
def check_call(call: View) -> Iterator[Finding]:
    api = AUTOCASTS.get(call.callee or "")
    if api is None or call.has_star:
        return
    if api.device is None:  # the new signature, where the caller names the device
        found = [*check_twice(call, api.parameters)] or [*check_device(call), *check_dtype(call)]
        yield from found or check_enabled(call, 2)
    else:
        yield from check_enabled(call, 0)
    uses = list(call.uses)
    if not uses and not is_entered(call) and (is_alone(call) or is_never_read(call)):
        yield call.finding(f"`{call.brief}` {WITHOUT_EFFECT}", help=ENTER)
    if any(use.op == "bool" for use in uses):
        yield from not_entered(call)
    if any(use.op == "yield" for use in uses) and not is_entered(call):
        yield from yielded(call)


@rule.on(calls_of(Function, Class, Instance) & MAY_BE_REGION)
def check_made(call: View) -> Iterator[Finding]:
    """Ex) self.autocast(), which returns a region, alone in a line"""
    if not is_autocast(call.value) or any(call.uses) or is_entered(call):
        return
    texts = call.ask(CalledTexts) or ()
    if not texts or any(ENTERS.search(text) for text in texts):
        return  # it may have entered the region itself
    if is_alone(call):
        yield call.finding(f"`{call.brief}` {WITHOUT_EFFECT}", help=ENTER)


def is_entered(call: View) -> bool:
    return any(map(call.is_same, call.contexts))


def is_alone(call: View) -> bool:
    return isinstance(call.source.parent(call.cst), cst.Expr)


def is_never_read(call: View) -> bool:
    """Whether a region is kept in a variable of a function that nothing reads."""
    around, function = call.source.parent(call.cst), call.source.function(call.cst)
    match around:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))]) if function is not None:
            return len(re.findall(rf"\b{name}\b", call.source.text(function))) == 1
    return False


def yielded(call: View) -> Iterator[Finding]:
    """Ex) `yield torch.autocast("cuda")` in a context manager, where nobody asks what it yields"""
    function, decorated = call.function.name, call.function.decorated
    if "contextmanager" not in decorated:
        return
    if call.matches(rf"\b{re.escape(function)}\(.*\)\s+as\b", function):
        return
    message = f"`{call.brief}` has no effect: it is yielded, not entered"
    yield call.finding(message, help=ENTER_AROUND_YIELD)


def not_entered(call: View) -> Iterator[Finding]:
    """Ex) with torch.autocast("cuda") and torch.no_grad(): -> a comma"""
    src = call.source
    both = src.parent(call.cst)
    if not isinstance(both, cst.BooleanOperation) or not isinstance(both.operator, cst.And):
        return
    if not isinstance(src.parent(both), cst.WithItem):
        return
    left = call.of(both.left)
    if both.left is not call.cst and not may_be_context(left):
        return
    fix = None
    if not both.lpar:
        edit = src.edits.replace(both, f"{src.text(both.left)}, {src.text(both.right)}")
        fix = Fix("Enter both contexts", (edit,), Safety.UNSAFE)
    message = f"`{left.brief}` is not entered: `and` yields only its right side"
    # At the operator: a deprecated call on its left is another mistake, and AMP701 speaks there.
    yield call.finding(message, fix=fix, place=both.operator)


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
    given = "" if api.device else '"cuda"'
    edit = context.source.edits.insert_after(context.cst, f"({given})")
    conditions = raising(context, is_known=api.device is not None)
    fix = Fix.safe_if("Call autocast", (edit,), conditions)
    yield context.finding(f"`{context.text}` is not called: {raises}", fix=fix)


def raising(at: View, is_known: bool = True) -> dict[str, bool]:
    return {RAISES: is_known, UNCAUGHT: not is_caught(at)}


def check_twice(call: View, parameters: Sequence[str]) -> Iterator[Finding]:
    """Ex) torch.autocast("cuda", use_amp, dtype=torch.float16)"""
    given = {keyword for _, keyword, _ in call.arguments}
    by_position = (argument for _, keyword, argument in call.arguments if keyword is None)
    for name, argument in zip(parameters, by_position, strict=False):
        if name in given:
            message = f"`{argument.brief}` is passed as `{name}`, which is given twice"
            is_named = name == "dtype" and (is_flag(argument.value) or is_switch(argument))
            fix = name_flags(call, argument) if is_named else None
            yield call.finding(f"{message}: raises TypeError", fix=fix)


# ------------------------------------------------------------------------------ the device type


def check_device(call: View) -> Iterator[Finding]:
    given = call.arg("device_type", 0)
    if given is None:
        message = f"`{call.brief}` names no device type: raises TypeError"
        opening = call.source.edits.insert_argument(call.cst, '"cuda"')
        yield call.finding(message, fix=guess_type(opening) if opening else None)
        return
    name = constant(given.value)
    meant = meant_type(name) if isinstance(name, str) else None
    if is_device(given):
        message = f"`{given.brief}` is a torch.device, not a type: raises ValueError"
        yield call.finding(message, fix=take_type(call, given), help=GIVE_TYPE)
    elif is_flag(given.value):
        message = f"`{given.brief}` is passed as the device type: raises ValueError"
        yield call.finding(message, fix=name_first(call, given, "enabled"))
    elif isinstance(only(given.value), DType):
        message = f"`{given.brief}` is passed as the device type: raises ValueError"
        yield call.finding(message, fix=name_first(call, given, "dtype"))
    elif meant is not None:
        edit = call.source.edits.replace(given.cst, f'"{meant}"')
        fix = guess_type(edit) if isinstance(given.cst, cst.SimpleString) else None
        yield call.finding(f'"{name}" is not a device type: raises RuntimeError', fix=fix)


def meant_type(name: str) -> str | None:
    """The device type that is meant by a name that is none."""
    plain = name.partition(":")[0]
    meant = NO_TYPES.get(plain.lower(), plain.lower())
    return meant if plain != meant and meant in DEFAULT_DTYPES else None


def is_device(at: View) -> bool:
    """Whether an expression is a torch.device, by more than an annotation."""
    atom = only(at.value)
    if not isinstance(atom, Device):
        return False
    if at.op == "attr" and isinstance(only(at.operands[0].value), Tensor | TensorTree | Object):
        return at.method == "device"
    return atom.kind is not None or at.origin.callee == "torch.device"


def is_surely_device(at: View) -> bool:
    """Ex) x.device of what torch has computed, torch.device("cuda"), a variable that holds it"""
    if at.op == "attr":
        return at.method == "device" and is_surely_tensor(at.operands[0])
    return at.origin.callee == "torch.device"


def take_type(call: View, device: View) -> Fix:
    edit = call.source.edits.append_call(device.cst, "type")
    conditions = {**raising(call), KIND: is_surely_device(device)}
    return Fix.safe_if("Pass the type of the device", (edit,), conditions)


def name_first(call: View, given: View, keyword: str) -> Fix | None:
    """Ex) torch.autocast(use_amp) -> torch.autocast("cuda", enabled=use_amp)"""
    if not is_only_positional(call, given) or call.arg(keyword) is not None:
        return None
    return guess_type(call.source.edits.insert_before(given.cst, f'"cuda", {keyword}='))


def is_only_positional(call: View, given: View) -> bool:
    return [argument for _, keyword, argument in call.arguments if keyword is None] == [given]


def guess_type(edit: Edit) -> Fix:
    return Fix("Name the device type", (edit,), Safety.UNSAFE)


# ------------------------------------------------------------------------------------- the dtype


def check_dtype(call: View) -> Iterator[Finding]:
    given = call.arg("dtype", 1)
    name = constant(given.value) if given is not None else None
    if given is None:
        return
    if is_flag(given.value) or is_switch(given):
        message = f"`{given.brief}` is passed as the dtype: raises TypeError"
        yield call.finding(message, fix=name_flags(call, given))
    elif isinstance(name, str):
        message = f'"{name}" is a string, not a dtype: raises TypeError'
        yield call.finding(message, fix=give_dtype(given, name), help=GIVE_DTYPE)


def check_enabled(call: View, position: int) -> Iterator[Finding]:
    """Ex) torch.cuda.amp.autocast(torch.bfloat16)"""
    given = call.arg("enabled", position)
    if given is None or not isinstance(only(given.value), DType):
        return
    message = f"`{given.brief}` is passed as the flag `enabled`: raises TypeError"
    fix = None
    if position == 0 and is_only_positional(call, given) and call.arg("dtype") is None:
        edit = call.source.edits.insert_before(given.cst, "dtype=")
        conditions = {**raising(call), KIND: is_surely_dtype(given)}
        fix = Fix.safe_if("Name the argument", (edit,), conditions)
    yield call.finding(message, fix=fix, help=NAME_DTYPE)


def is_surely_dtype(at: View) -> bool:
    """Whether a dtype is none of a parameter that may be given a flag."""
    return at.origin.op != "param"


def is_flag(value: Value) -> bool:
    return bool(value) and all(isinstance(atom, Host) and atom.kind == "bool" for atom in value)


def is_switch(at: View) -> bool:
    """Whether what is not known is a flag all the same: the same name is given to `enabled=`
    elsewhere, that of a variable in the same function.

    Ex) self.use_amp, where the scaler is `GradScaler(enabled=self.use_amp)`
    """
    if not all(isinstance(atom, Unknown) for atom in at.value):
        return False
    given = re.compile(rf"\benabled ?= ?{re.escape(at.text)} ?[,)]")
    if isinstance(at.cst, cst.Attribute):
        return at.source.says(given)
    function = at.source.function(at.cst) if isinstance(at.cst, cst.Name) else None
    return function is not None and given.search(at.source.text(function)) is not None


def is_surely_flag(at: View) -> bool:
    """Whether a flag is none of a parameter that may be given a dtype."""
    param = at.origin
    if not is_flag(at.value):
        return False
    return param.op != "param" or any(each.name == "builtins.bool" for each in param.operands)


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
    conditions = {**raising(call), KIND: is_surely_flag(flag)}
    return Fix.safe_if("Name the argument", tuple(edits), conditions)


def give_dtype(given: View, name: str) -> Fix | None:
    """Ex) "float16" -> torch.float16"""
    torch = given.source.imports.bound_as("torch")
    if name not in DTYPES or torch is None or not isinstance(given.cst, cst.SimpleString):
        return None
    edit = given.source.edits.replace(given.cst, f"{torch}.{name}")
    return Fix("Pass the dtype", (edit,), Safety.UNSAFE)
