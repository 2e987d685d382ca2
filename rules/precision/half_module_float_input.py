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

Fix safety: unsafe. Perhaps the module should have stayed float32, or the input half.

Known limits: a module counts only with a cast in sight: one that creates the value that is called,
or one that comes before the call in the same function, without a condition. Of a module of the
project, the method that is called has to pass its first argument unchanged to a layer, and nothing
that it runs may cast. Inside modules, where a caller may open a region, amplint is silent if the
project has a region anywhere.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from amplint import (
    HALF,
    READ,
    WITH_HALF,
    CalledTexts,
    Change,
    Class,
    Classes,
    Finding,
    Fix,
    Function,
    Group,
    Instance,
    Object,
    Presumes,
    ProjectText,
    Raises,
    Reason,
    Related,
    Rule,
    Safety,
    Sequence,
    Tensor,
    TensorTree,
    Value,
    View,
    calls_of,
    is_unknown,
    nodes,
    only,
)
from amplint.knowledge.vocabulary import ASKS_DEVICE

from .._shared.classes import constructor_around
from .._shared.dtypes import differ, dtype_of_cast, is_receiver_of, taken_by
from .._shared.guards import tests_around, tests_before
from .._shared.moves import move_of
from ._operands import dtype_evidence
from ._own_layers import GivenToLayer

CAST_IN_TEXT = re.compile(r"\b(to|type|type_as|half|bfloat16|float|dtype|autocast)\b")
# A cast of a field, or a call that is given it and may cast it.
FIELD_CAST = r"{0}(\.| =).*(half|float|double|dtype|type\(|apply\()|[(,] ?{0}[,)]"
CASTING = frozenset({"to", "type", "half", "bfloat16", "float", "double", "apply"})
MOVING = frozenset({"eval", "train", "cuda", "cpu"})
METHODS = {"float16": "half", "bfloat16": "bfloat16", "float32": "float", "float64": "double"}
RECURRENT = ("torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN")

rule = Rule(
    "AMP206",
    __doc__,
    group=Group.CORRECTNESS,
    help="cast inputs and states to the dtype of the parameters",
    witness=Raises("must have the same dtype", on_gpu="are not the same dtype"),
    changes=frozenset({Change.DTYPE}),
    presumes=Presumes.NEVER,
)


class KnownDtype(NamedTuple):
    """The dtype of a module's parameters, or of what the module is given, and why."""

    dtype: str | None = None
    because: Iterable[Reason | Related | None] = ()


@rule.on(calls_of(Function, Instance, Object) & WITH_HALF)
def check(call: View) -> Iterator[Finding]:
    module, arguments = module_of(call), [argument for _, _, argument in call.arguments]
    if module is None or not arguments or may_be_in_region(call, module):
        return
    first, thing = dtype_given(arguments[0], call), only(module.value)
    dtype, reasons = parameters_of(call, module) if first.dtype is not None else KnownDtype()
    if dtype in METHODS and differ(dtype, first.dtype):
        message = f"`{module.brief}` is {dtype} and its input is {first.dtype}: this raises"
        edit = call.source.edits.append_call(arguments[0].cst, f"{METHODS[dtype]}()")
        fix = Fix(f"Cast the input to {dtype}", (edit,), Safety.UNSAFE)
        alone = len(arguments) == 1  # else others would have to be cast, too
        yield arguments[0].finding(message, (*reasons, *first.because), fix if alone else None)
    elif isinstance(thing, Object) and thing.type.startswith(RECURRENT) and len(arguments) == 2:
        yield from state_of_another_dtype(*arguments)


def state_of_another_dtype(argument: View, state: View) -> Iterator[Finding]:
    """Ex) lstm(x.half(), (h0, c0)), where `h0` is float32, be it on one path"""
    into = argument.tensor
    for part in state.operands if state.op == "tuple" else (state,):
        for tensor in tensors_in(part.value):
            if into is not None and differ(into.dtype, tensor.dtype):
                where = "" if part.tensor is not None else " on one path"
                dtypes = f"{tensor.dtype}{where} and the input is {into.dtype}"
                because = dtype_evidence(tensor, into)
                yield part.finding(f"`{part.brief}` is {dtypes}: this raises", because)
                return


def tensors_in(value: Value) -> Iterator[Tensor]:
    """The tensors that a value may be, or a tuple of them holds."""
    for atom in value:
        parts = atom.items or () if isinstance(atom, Sequence) else [{atom}]
        yield from (each for part in parts for each in part if isinstance(each, Tensor))


@rule.on(nodes("call") & WITH_HALF)
def check_by_device(call: View) -> Iterator[Finding]:
    """Ex) self.model(x.half()), where the constructor casts the model on CUDA alone"""
    module, arguments = call.called, [argument for _, _, argument in call.arguments]
    if module.op != "attr" or not arguments or may_be_in_region(call, module):
        return
    cast = last_cast(arguments[0].origin)
    if cast is None or dtype_of_cast(cast) not in HALF or bool(call.ask(CalledTexts)):
        return
    asks = half_by_device(module)
    tests = chain(tests_around(call), tests_before(call))
    if asks is not None and not any(ASKS_DEVICE.search(test.text) for test in tests):
        test = ast.unparse(asks.test)
        message = f"`{module.brief}` is half only if `{test}`, but its input always is: this raises"
        yield arguments[0].finding(message, (cast.related("half here, on any device"),))


def half_by_device(module: View) -> ast.If | None:
    """The `if` that asks for the device and holds the only cast of a module, to half, where that is
    a field of an object.

    Ex) if self.device == "cuda": self.model = self.model.half()
    """
    cls, constructor = module.source.class_around(module.cst), constructor_around(module)
    if cls is None or module.fact(ProjectText).is_stored_from_outside(module.method):
        return None
    field = FIELD_CAST.format(re.escape(module.text))
    casts = [line.strip() for line in ast.unparse(cls).splitlines() if re.search(field, line)]
    if len(casts) != 1 or not casts[0].endswith(".half()"):
        return None
    needs_it = re.search(r"\b(raise|assert)\b", "\n".join(map(ast.unparse, constructor)))
    tests = (each for each in constructor if isinstance(each, ast.If) and not each.orelse)
    asking = (each for each in tests if ASKS_DEVICE.search(ast.unparse(each.test)))
    holding = (each for each in asking if casts[0] in map(ast.unparse, each.body))
    return next(holding, None) if needs_it is None else None


def last_cast(at: View) -> View | None:
    """The cast that an expression ends with, behind moves.

    Ex) x.half() of `x.half().to(self.device)`
    """
    while at.receiver is not None and dtype_of_cast(at) is None:
        move = move_of(at)
        if at.method not in MOVING and (move is None or move.dtype is not None):
            return None
        at = at.receiver.origin
    return at if dtype_of_cast(at) is not None else None


def dtype_given(argument: View, call: View) -> KnownDtype:
    """The dtype of what a module is given first.

    What a layer is given is a tensor, so that a cast shows its dtype, whatever was cast.
    """
    if argument.tensor is not None:
        return KnownDtype(argument.tensor.dtype, dtype_evidence(argument.tensor))
    may_be_tensor = is_unknown(argument.value) or isinstance(only(argument.value), TensorTree)
    dtype = dtype_of_cast(argument.origin) if may_be_tensor and call.ask(GivenToLayer) else None
    if dtype is None:
        return KnownDtype()
    return KnownDtype(dtype, (argument.origin.related(f"cast to {dtype} here"),))


def module_of(call: View) -> View | None:
    """The module that a call runs, be it by a method that its class has, if that hands its input to
    a layer: a layer, a model of torchvision, or a module of the project."""
    is_method = isinstance(only(call.called.value), Function)
    module = call.receiver if is_method else call.called
    if module is None or (is_method and module.origin.op != "call"):
        return None
    thing = only(module.value)
    if isinstance(thing, Object) and thing.type.startswith("torchvision.models."):
        return module  # its first layer takes images
    is_layer = isinstance(thing, Object) and not bool(call.ask(CalledTexts))
    bases = call.fact(Classes).bases_of(module.value)
    is_own = isinstance(thing, Instance) and any(base.startswith("torch.nn.") for base in bases)
    return module if (is_layer or is_own) and call.ask(GivenToLayer) else None


def may_be_in_region(call: View, module: View) -> bool:
    """Whether a region around the call, opened here or by a caller nobody sees, may cast."""
    if call.region is not None:
        return call.enabled_region is not None
    if not all((each.callee or "").startswith("torch.") for each in call.contexts_around):
        return True
    root = module
    while root.op == "attr":
        root = root.operands[0]
    inside = isinstance(only(root.value), Instance) and root != module
    return inside and call.mentions("autocast")


def parameters_of(call: View, module: View) -> KnownDtype:
    """The dtype that the parameters certainly have where the module is called."""
    casts, thing = casts_of(call, module), only(module.value)
    origin = module.origin if module.op == READ and module.origin.op == "call" else None
    if casts is None or len(casts) > 1:
        return KnownDtype()
    if isinstance(thing, Object) and thing.dtype is not None and not casts:
        because = () if origin is None else (origin.related(f"{thing.dtype} from here on"),)
        return KnownDtype(thing.dtype, because)
    cast = casts[0] if casts else cast_where_made(origin)
    if cast is None or (isinstance(thing, Instance) and may_take_any(call, cast)):
        return KnownDtype()
    dtype = dtype_of_cast(cast)
    return KnownDtype(dtype, (cast.related(f"{dtype} from here on"),))


def may_take_any(call: View, cast: View) -> bool:
    """Whether a module may cast its input, or has a cast of its own."""
    texts = call.ask(CalledTexts) or ()
    return not texts or any(map(CAST_IN_TEXT.search, texts)) or bool(cast.ask(CalledTexts))


def casts_of(call: View, module: View) -> list[View] | None:
    """The statements above the call that cast the module; None where not all of them always do."""
    src, around = call.source, [*call.source.ancestors(call.cst)]
    takers = taken_by(module) if module.op == READ else ()
    above = [each for each in takers if each.span.start <= call.span.start]
    casts = [each for each in above if is_receiver_of(module, each) and dtype_of_cast(each)]
    blocks = [src.parent(src.statement(each.cst)) for each in casts]
    always = all(any(each is block for each in around) for block in blocks)
    return casts if always and not any(src.layout.value_used(each.cst) for each in casts) else None


def cast_where_made(origin: View | None) -> View | None:
    """The last cast of a module of the project in the expression that makes it, if nothing that is
    done with it may cast it again, or a part of it.

    Ex) Net().to("cuda", torch.float16).eval()
    """
    cast = built = last_cast(origin) if origin is not None else None
    while built is not None and built.receiver is not None:
        built = built.receiver.origin
    if origin is None or built is None or built.op != "call" or origin.is_merged:
        return None
    is_own = isinstance(only(built.called.value), Class)
    return cast if is_own and all(leaves_alone(use, origin) for use in origin.uses) else None


def leaves_alone(use: View, module: View) -> bool:
    """Ex) net(x), net.encode(x), net.scale, `return net`; not net.half(), net.body, convert(net)"""
    if use.op == "attr":
        return use.method not in CASTING and not isinstance(only(use.value), Object | Instance)
    is_callee = use.op == "call" and use.called.is_same(module)
    return use.op == "return" or (is_callee and not any(map(module.is_same, use.operands[1:])))
