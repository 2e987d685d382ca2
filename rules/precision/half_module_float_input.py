"""A half module gets float32 input, or a float32 module gets half input.

Outside of an autocast region nothing is cast: the input of a layer, and the initial state of a
recurrent one, must have the dtype of its parameters. `model.half()` casts the parameters, not the
input.

    model.half()
    out = model(torch.zeros(1, 3, 640, 640, device="cuda"))               # raises

    out = model(torch.zeros(1, 3, 640, 640, device="cuda").half())

    y, _ = lstm(x.half(), (torch.zeros(1, n, d), torch.zeros(1, n, d)))   # raises

    h0 = c0 = x.new_zeros(1, n, d)                                        # in the dtype of x

This happens only on the CPU if a constructor casts the model only on CUDA, but the input is half on
both.

    if self.device == "cuda":
        self.model = self.model.half()

    return self.model(pixels.half().to(self.device))                      # raises on the CPU

Fix safety: casting the state to the dtype of the input is safe, since the line could only raise;
unsafe if the error is caught. Casting the input to the dtype of the parameters is unsafe: perhaps
the module should have stayed float32.

Known limits: a cast of a module is seen if it creates the value that is called, or comes before the
call in the same function, without a condition. A module of the project is checked only if nothing
that it runs casts; its other methods, and half input to a float32 module, only if the method passes
its first argument unchanged to a layer. Inside modules, where a caller may open a region, amplint
is silent if the project has a region anywhere. A module is known to be float32 only if it is cast
to float32, or if it is built in the same function and neither cast nor passed on: a layer, a
`Sequential` that begins with a layer, a torchvision model, or a module of the project whose code
does not mention dtypes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from amplint import (
    FLOATS,
    HALF,
    OUTSIDE_REGION,
    READ,
    WITH_HALF,
    CalledTexts,
    Change,
    Class,
    Classes,
    Finding,
    Fix,
    Frameworks,
    Function,
    GivenToLayer,
    Group,
    Host,
    Instance,
    Object,
    Presumes,
    Raises,
    Reason,
    Related,
    ReturnedByLayer,
    Rule,
    Safety,
    Sequence,
    Tensor,
    TensorTree,
    View,
    calls_of,
    is_unknown,
    nodes,
    only,
    reachable,
)
from amplint import libcst as cst
from amplint.knowledge.casts import EQUAL_DTYPES
from amplint.knowledge.modules import MODULES
from amplint.knowledge.vocabulary import ASKS_DEVICE

from .._shared.dtypes import (
    differ,
    dtype_evidence,
    dtype_of_cast,
    is_called_on,
    may_default_to_half,
    taken_by,
)
from .._shared.guards import is_caught, tests_around, tests_before
from .._shared.half_by_device import half_by_device
from .._shared.moves import move_of
from .._shared.tensors import is_surely_tensor

RECURRENT = frozenset(
    f"torch.nn.{name}{cell}" for name in ("LSTM", "GRU", "RNN") for cell in ("", "Cell")
)

RAISES = "the dtypes of the input and the state are known to differ: the line can only raise"
TENSOR = "the state is a tensor for every caller"
UNCAUGHT = "nothing around it catches the error"


LAYERS = EQUAL_DTYPES & MODULES.keys()
# Models whose first layer takes images.
MODELS = "torchvision.models."
SEQUENTIAL = "torch.nn.Sequential"
CAST_IN_TEXT = re.compile(r"\b(to|type|type_as|half|bfloat16|float|dtype|autocast)\b")
# What may be done with a layer without casting it.
HARMLESS = frozenset(
    {"eval", "train", "cuda", "cpu", "parameters", "state_dict", "load_state_dict"}
    | {"zero_grad", "requires_grad_"}
)
CASTING = frozenset({"to", "type", "half", "bfloat16", "float", "double", "apply"})
# What takes a module, and can neither cast it nor hand it on.
KEEPING = frozenset({"attr", "subscript", "compare", "return"})
METHODS = {"float16": "half", "bfloat16": "bfloat16", "float32": "float", "float64": "double"}

rule = Rule(
    "AMP206",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="cast inputs and states to the dtype of the parameters",
    witness=Raises("must have the same dtype", on_gpu="are not the same dtype"),
    safe_if=(RAISES, TENSOR, UNCAUGHT),
    changes=frozenset({Change.DTYPE}),
    presumes=Presumes.NEVER,
)


@dataclass(frozen=True)
class KnownDtype:
    """A dtype that is known of a module's parameters, or of what the module is given, and why."""

    dtype: str
    because: Iterable[Reason | Related | None]


@rule.on(calls_of(Function, Instance, Object) & WITH_HALF & OUTSIDE_REGION)
def check(call: View) -> Iterator[Finding]:
    module = module_of(call)
    if module is None:
        return
    given = [argument for _, _, argument in call.arguments]
    tensor = dtype_given(given[0], call) if given else None
    if tensor is None or may_be_cast(call, module):
        return
    parameters = parameters_of(call, module)
    if parameters is not None and differ(parameters.dtype, tensor.dtype):
        yield input_of_another_dtype(module, parameters, tensor, given)
    elif given[0].tensor is not None and is_recurrent(module) and len(given) == 2:
        yield from state_of_another_dtype(call, given[0], given[0].tensor, given[1])


@rule.on(nodes("call") & WITH_HALF & OUTSIDE_REGION)
def check_by_device(call: View) -> Iterator[Finding]:
    """Ex) self.model(x.half()), where the constructor casts the model on CUDA alone"""
    module, given = call.called, [argument for _, _, argument in call.arguments]
    if module.op != "attr" or not given or may_be_cast(call, module):
        return
    cast = half_cast_of(given[0])
    if cast is None:
        return
    tests = (*tests_around(call), *tests_before(call))
    if any(ASKS_DEVICE.search(test.text) for test in tests):
        return
    if any(CAST_IN_TEXT.search(text) for text in call.ask(CalledTexts) or ()):
        return
    asks = half_by_device(module)
    if asks is not None:
        test = ast.unparse(asks.test)
        message = f"`{module.brief}` is half only if `{test}`, but its input always is: this raises"
        place = call.source.layout.node_for(asks.test)
        there = call.of(place).related("else it stays float32") if place is not None else None
        yield given[0].finding(message, (cast.related("half here, on any device"), there))


def half_cast_of(given: View) -> View | None:
    """The last cast of an argument, if that is to half.

    Ex) x.half() of `x.half().to(self.device)`
    """
    at = given.origin
    while at.receiver is not None and dtype_of_cast(at) is None and move_of(at) is not None:
        at = at.receiver.origin
    return at if dtype_of_cast(at) in HALF else None


def input_of_another_dtype(
    module: View, parameters: KnownDtype, tensor: KnownDtype, given: list[View]
) -> Finding:
    """Ex) linear.half(); linear(torch.zeros(2, 8))"""
    dtype = parameters.dtype
    message = f"`{module.brief}` is {dtype} and its input is {tensor.dtype}: this raises"
    edit = module.source.edits.append_call(given[0].cst, f"{METHODS[dtype]}()")
    alone = len(given) == 1  # else others would have to be cast, too
    fix = Fix(f"Cast the input to {dtype}", (edit,), Safety.UNSAFE) if alone else None
    return given[0].finding(message, (*parameters.because, *tensor.because), fix)


def dtype_given(given: View, call: View) -> KnownDtype | None:
    """The float dtype of what a module is given first.

    What a layer is given is a tensor, so that a cast shows its dtype, whatever was cast.
    """
    tensor, made = given.tensor, given.origin
    if tensor is not None and tensor.dtype is not None:
        is_float = tensor.dtype in FLOATS
        return KnownDtype(tensor.dtype, dtype_evidence(tensor)) if is_float else None
    dtype = dtype_of_cast(made)
    if dtype is None or tensor is not None:
        return dtype_returned(made)
    if dtype not in FLOATS or not may_be_tensor(given):
        return None
    if not begins_with_layer(call.called) and not call.ask(GivenToLayer):
        return None
    return KnownDtype(dtype, (made.related(f"cast to {dtype} here"),))


def dtype_returned(made: View) -> KnownDtype | None:
    """The dtype of what a layer returns at the end of a module of the project that is cast in
    sight.

    Ex) z of `z = vae.encode(x)`, after `vae = VAE().to("cuda", torch.float32)`
    """
    module = module_of(made) if made.op == "call" else None
    if module is None or may_be_cast(made, module) or not made.ask(ReturnedByLayer):
        return None
    parameters = parameters_of(made, module)
    if parameters is None:
        return None
    given = made.related(f"{parameters.dtype} by this module")
    return KnownDtype(parameters.dtype, (given, *parameters.because))


def may_be_tensor(given: View) -> bool:
    return is_unknown(given.value) or isinstance(only(given.value), TensorTree)


def module_of(call: View) -> View | None:
    """The module that a call runs, be it by a method that its class has: a layer, a model of a
    library, or a module of the project."""
    function = call.called
    owner = call.receiver
    if isinstance(only(function.value), Function) and owner is not None:
        return owner if owner.origin.op == "call" and is_own_module(owner) else None
    called = only(function.value)
    if isinstance(called, Instance):
        return function if is_own_module(function) else None
    if not isinstance(called, Object) or called.kind != "module":
        return None
    return (
        function
        if begins_with_layer(function) or call.fact(Frameworks).builds_module(called.type)
        else None
    )


def begins_with_layer(module: View) -> bool:
    """Whether a module hands what it is given to a layer, as it is: it is one, a `Sequential` that
    begins with one, or a model of images."""
    thing = only(module.value)
    if not isinstance(thing, Object):
        return False
    is_one = thing.type in LAYERS or thing.type.startswith(MODELS)
    return is_one or (thing.type == SEQUENTIAL and built_layers(built_by(module.origin)) != ())


def built_by(made: View) -> View:
    """The call that builds a module which is moved then. Ex) Net() of `Net().cuda().eval()`"""
    while made.op == "call" and made.receiver is not None and is_move(made):
        made = made.receiver.origin
    return made


def built_layers(built: View) -> tuple[View, ...]:
    """The layers of torch that a call builds: itself, or those in a `Sequential` that begins with
    one that needs the dtype of its parameters; none where it is another call.

    Ex) nn.Linear(8, 8) and nn.ReLU(), of `nn.Sequential(nn.Linear(8, 8), nn.ReLU())`
    """
    if built.op != "call" or built.has_star:
        return ()
    if built.callee in LAYERS:
        return (built,)
    if built.callee != SEQUENTIAL:
        return ()
    parts = (*(argument.origin for _, _, argument in built.arguments),)
    are_built = all(each.op == "call" and each.callee in MODULES for each in parts)
    return parts if parts and are_built and parts[0].callee in LAYERS else ()


def is_own_module(at: View) -> bool:
    """Whether it is an instance of a module of the project."""
    bases = at.fact(Classes).bases_of(at.value)
    is_one = isinstance(only(at.value), Instance)
    return is_one and any(base.startswith("torch.nn.") for base in bases)


def is_recurrent(module: View) -> bool:
    thing = only(module.value)
    return isinstance(thing, Object) and thing.type in RECURRENT


def may_be_cast(call: View, module: View) -> bool:
    """Whether a region around the call, opened here or by a caller nobody sees, may cast."""
    if call.region is not None:
        return call.enabled_region is not None
    if any(map(may_open_region, call.contexts_around)):
        return True
    root = module
    while root.op == "attr":
        root = root.operands[0]
    inside = isinstance(only(root.value), Instance) and root != module
    return inside and call.mentions("autocast")


def may_open_region(context: View) -> bool:
    """Whether a context may be a region, for all that is known. Ex) fabric.autocast()"""
    if (context.callee or "").partition(".")[0] in ("torch", "contextlib", "builtins"):
        return False
    texts = context.ask(CalledTexts) or ()
    return not texts or any("autocast" in text for text in texts)


def state_of_another_dtype(
    call: View, given: View, tensor: Tensor, state: View
) -> Iterator[Finding]:
    """Ex) lstm(x.half(), (h0, c0))"""
    parts = state.operands if state.op == "tuple" else (state,)
    wrong = [part for part in parts if differ(tensor.dtype, state_dtype(part))]
    if not wrong:
        return
    dtype = state_dtype(wrong[0])
    message = f"`{wrong[0].brief}` is {dtype} and the input is {tensor.dtype}: this raises"
    fix = None
    if isinstance(given.cst, cst.Name | cst.Attribute):
        cast = f"to({given.text}.dtype)"
    else:
        cast = f"{METHODS[tensor.dtype]}()" if tensor.dtype in METHODS else ""
    if cast and all(part.tensor is not None for part in wrong):
        edits = tuple(call.source.edits.append_call(part.cst, cast) for part in wrong)
        conditions = {
            RAISES: True,
            TENSOR: all(map(is_surely_tensor, wrong)),
            UNCAUGHT: not is_caught(call),
        }
        fix = Fix.safe_if("Cast the state to the dtype of the input", edits, conditions)
    yield wrong[0].finding(message, dtype_evidence(wrong[0].tensor, tensor), fix)


def state_dtype(part: View) -> str | None:
    """The dtype of a tensor, or of the tensors in a tuple."""
    atom = only(part.value)
    if isinstance(atom, Sequence) and atom.items:
        atom = only(atom.items[0])
    return atom.dtype if isinstance(atom, Tensor) else None


def parameters_of(call: View, module: View) -> KnownDtype | None:
    """The dtype that the parameters certainly have where the module is called."""
    casts, thing = casts_of(call, module), only(module.value)
    if casts is None:
        return None
    made = module.origin if module.op == READ and module.origin.op == "call" else None
    if isinstance(thing, Object) and thing.dtype is not None:
        return known_since(made, thing.dtype) if not casts and thing.dtype in METHODS else None
    cast = casts[0] if len(casts) == 1 else None
    if not casts and made is not None and isinstance(thing, Instance):
        cast = cast_where_made(made)
    if cast is not None:
        dtype = dtype_of_cast(cast)
        is_own = isinstance(thing, Instance) and may_keep_input(cast, call, module)
        return known_since(cast, dtype) if dtype in METHODS and not is_own else None
    if casts or made is None or not is_left_alone(module, made, call):
        return None
    is_own = isinstance(thing, Instance)
    is_plain = is_plain_module(made, call) if is_own else is_plain_layer(built_by(made))
    return known_since(made, "float32") if is_plain else None


def known_since(made: View | None, dtype: str) -> KnownDtype:
    return KnownDtype(dtype, () if made is None else (made.related(f"{dtype} from here on"),))


def casts_of(call: View, module: View) -> list[View] | None:
    """The statements above the call that cast the module; None where not all of them always do."""
    found = []
    for cast in taken_by(module) if module.op == READ else ():
        if not is_called_on(module, cast) or dtype_of_cast(cast) is None:
            continue
        if cast.span.start > call.span.start:
            continue
        src = call.source
        block = src.parent(src.statement(cast.cst))
        is_around = any(around is block for around in src.ancestors(call.cst))
        if src.layout.value_used(cast.cst) or not is_around:
            return None
        found.append(cast)
    return found


def cast_where_made(made: View) -> View | None:
    """The last cast of a module of the project in the expression that makes it, if nothing that is
    done with it may cast it again.

    Ex) Net().to("cuda", torch.float16).eval()
    """
    cast, at = None, made
    while at.receiver is not None and (at.method in HARMLESS or at.method in CASTING):
        if dtype_of_cast(at) is not None:
            cast = cast or at
        elif cast is None and not is_move(at):
            return None  # to what may be a dtype
        at = at.receiver
    is_made_here = at.op == "call" and isinstance(only(at.called.value), Class)
    return cast if is_made_here and not may_cast_later(made) else None


def may_cast_later(made: View) -> bool:
    """Whether something that is done with a module may cast it, or a part of it."""

    def parts(at: View) -> Iterator[View]:
        return (use for use in at.uses if use.op in ("attr", "subscript"))

    return made.is_merged or any(is_cast_or_given(part) for part in reachable([made], parts))


def is_cast_or_given(part: View) -> bool:
    """Ex) net of net.half() and convert(net); not of net(x), net.config.scale and `return net`"""
    if part.op == "attr" and part.method in CASTING:
        return not all(is_move(use) for use in part.uses)
    if not isinstance(only(part.value), Object | Instance):
        return False
    return any(use.op not in KEEPING and not is_called(part, use) for use in part.uses)


def is_called(thing: View, use: View) -> bool:
    """Whether something is called, and not given to that call as well."""
    given = use.operands[1:]
    is_callee = use.op == "call" and use.called.is_same(thing)
    return is_callee and not any(each.is_same(thing) for each in given)


def may_keep_input(cast: View, call: View, module: View) -> bool:
    """Whether a module of the project may take an input of another dtype than it was cast to.

    It has a `half` of its own, or casts its input itself, which it may where nothing is known of
    its code. A half input times a parameter in float32 becomes float32, and other methods than
    `forward` may keep what they are given: there it has to meet a layer as it is.
    """
    texts = call.ask(CalledTexts) or ()
    inside = not texts or any(CAST_IN_TEXT.search(text) for text in texts)
    is_forward = module == call.called and dtype_of_cast(cast) in HALF
    meets_layer = is_forward or bool(call.ask(GivenToLayer))
    return inside or bool(cast.ask(CalledTexts)) or not meets_layer


def is_left_alone(module: View, made: View, call: View) -> bool:
    """Whether nobody casts a module that is built here, as far as can be seen."""
    built, steps = built_by(made), [made]
    while steps[-1] != built and steps[-1].receiver is not None:
        steps.append(steps[-1].receiver.origin)
    names = {module.text, *(call.source.assigned_name(each.cst) for each in steps)}
    if made.is_merged or may_default_to_half(made) or is_handed_on(call, names):
        return False
    return all(is_harmless(use, each, call) for each in steps for use in each.uses)


def is_handed_on(call: View, names: Collection[str | None]) -> bool:
    """Whether variables of the function are used for anything but to call what they hold, or one of
    its methods, or in a function within.

    Ex) net of `nets = [net]`, `convert(net)` and `lambda: net.half()`
    """
    src = call.source
    around = src.function(call.cst) or [*src.ancestors(call.cst)][-1]
    for name in src.layout.names(around):
        used = src.parent(name)
        is_called = isinstance(used, cst.Call) and used.func is name
        is_plain = is_called or isinstance(used, cst.Attribute | cst.AssignTarget | cst.Return)
        is_here = is_plain and (src.function(name) or around) is around
        if name.value in names and not is_here:
            return True
    return False


def is_harmless(use: View, module: View, call: View) -> bool:
    """Ex) net(x), net.eval(), net.to("cuda"), net.encode(x), `return net`"""
    if use.op == "call":
        return is_called(module, use)
    if use.op != "attr":
        return use.op == "return"
    if use.method in ("load_state_dict", "parameters"):
        return not any(map(may_replace, use.uses))
    if use.method in HARMLESS or use.is_same(call.called):
        return True
    if use.method == "to":
        return all(map(is_move, use.uses))
    runs = [each for each in use.uses if is_called(use, each)]
    return isinstance(only(use.value), Function) and not any(map(speaks_of_casts, runs))


def may_replace(call: View) -> bool:
    """Whether a call may lead to parameters of another dtype.

    Ex) net.load_state_dict(state, assign=True), for p in net.parameters(): p.data = p.data.half()
    """
    around = call.source.parent(call.cst)
    return call.arg("assign") is not None or isinstance(around, cst.For | cst.CompFor)


def speaks_of_casts(call: View) -> bool:
    """Whether the functions that a call runs speak of dtypes, or nobody knows which these are."""
    texts = call.ask(CalledTexts) or ()
    return not texts or any(map(CAST_IN_TEXT.search, texts))


def is_plain_layer(built: View) -> bool:
    """Whether a call builds a model of images, or layers that are in float32."""
    if f"{(built.callee or '').rpartition('.')[0]}." == MODELS:
        return True
    layers = built_layers(built)
    return bool(layers) and not any(each.has_star or each.arg("dtype") for each in layers)


def is_plain_module(made: View, call: View) -> bool:
    """Whether a call runs a module of the project that is built of layers in float32, as far as its
    code says, and hands its input to one of them."""
    built = built_by(made)
    if not isinstance(only(built.called.value) if built.op == "call" else None, Class):
        return False
    bases = built.fact(Classes).bases_of(made.value)
    if bases != {"torch.nn.Module"} or not call.ask(GivenToLayer) or is_caught(call):
        return False
    return not speaks_of_casts(built) and not speaks_of_casts(call)


def is_move(call: View) -> bool:
    """Ex) .cuda(), .to("cuda"), .eval()"""
    if call.method != "to":
        return call.method in HARMLESS
    atoms = [only(argument.value) for _, _, argument in call.arguments]
    return all(isinstance(atom, Host) and atom.kind == "str" for atom in atoms)
