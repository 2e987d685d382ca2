"""A module in half is given float32, or a module in float32 is given half.

Outside of an autocast region nothing is cast: the input of a layer, and the initial state of a
recurrent one, must have the dtype of its parameters. `model.half()` casts the parameters, not what
is put in.

    model.half()
    out = model(torch.zeros(1, 3, 640, 640, device="cuda"))               # raises

    out = model(torch.zeros(1, 3, 640, 640, device="cuda").half())

    y, _ = lstm(x.half(), (torch.zeros(1, n, d), torch.zeros(1, n, d)))   # raises

    h0 = c0 = x.new_zeros(1, n, d)                                        # in the dtype of x

Fix safety: casting the state to the dtype of the input is safe, since the line could only raise;
unsafe where the error is caught. Casting the input to the dtype of the parameters is unsafe:
perhaps the module was to stay float32.

Known limits: a cast of a module is seen where it makes the value that is called, or stands above
the call in the same function, without a condition. A module of the project is judged only where
nothing that it runs casts. Inside of modules, where a caller may open a region, amplint is silent
as soon as the project has a region anywhere. That a module is float32 is known only of a layer that
is built in the same function and handed to nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from amplint import (
    FLOATS,
    HALF,
    READ,
    WITH_HALF,
    CalledTexts,
    Change,
    Classes,
    Finding,
    Fix,
    Frameworks,
    Group,
    Host,
    Instance,
    Object,
    Presumes,
    Raises,
    Rule,
    Safety,
    Sequence,
    Tensor,
    View,
    nodes,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.casts import EQUAL_DTYPES
from amplint.knowledge.modules import MODULES

from .._shared.dtypes import (
    differ,
    dtype_evidence,
    dtype_of_cast,
    is_called_on,
    may_default_to_half,
    taken_by,
)
from .._shared.guards import is_caught
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
CAST_IN_TEXT = re.compile(r"\b(to|type|type_as|half|bfloat16|float|dtype|autocast)\b")
# What may be done with a layer without casting it.
HARMLESS = frozenset({"eval", "train", "cuda", "parameters", "state_dict", "load_state_dict"})
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
class Parameters:
    """The dtype of a module's parameters, and what gave it to them."""

    dtype: str
    made: View | None


@rule.on(nodes("call") & WITH_HALF)
def check(call: View) -> Iterator[Finding]:
    module = module_of(call)
    if module is None:
        return
    given = [argument for _, _, argument in call.arguments]
    tensor = given[0].tensor if given else None
    if tensor is None or tensor.dtype not in FLOATS or may_be_cast(call):
        return
    recurrent = isinstance(module, Object) and module.type in RECURRENT and len(given) == 2
    parameters = parameters_of(call, module)
    if parameters is not None and differ(parameters.dtype, tensor.dtype):
        yield input_of_another_dtype(call, parameters, tensor, given)
    elif recurrent:
        yield from state_of_another_dtype(call, given[0], tensor, given[1])


def input_of_another_dtype(
    call: View, parameters: Parameters, tensor: Tensor, given: list[View]
) -> Finding:
    """Ex) linear.half(); linear(torch.zeros(2, 8))"""
    dtype, made = parameters.dtype, parameters.made
    name = call.operands[0].brief
    message = f"`{name}` is in {dtype} and its input is {tensor.dtype}: this raises"
    here = None if made is None else made.related(f"in {dtype} since here")
    edit = call.source.edits.append_call(given[0].cst, f"{METHODS[dtype]}()")
    alone = len(given) == 1  # else others would have to be cast, too
    fix = Fix(f"Cast the input to {dtype}", (edit,), Safety.UNSAFE) if alone else None
    return given[0].finding(message, (here, *dtype_evidence(tensor)), fix)


def module_of(call: View) -> Object | Instance | None:
    """The callee, if it is a layer, a model of a library, or a module of the project."""
    value = call.operands[0].value
    called = only(value)
    if isinstance(called, Instance):
        bases = call.fact(Classes).bases_of(value)
        return called if any(base.startswith("torch.nn.") for base in bases) else None
    if not isinstance(called, Object) or called.kind != "module":
        return None
    known = called.type in LAYERS or called.type.startswith(MODELS)
    return called if known or call.fact(Frameworks).builds_module(called.type) else None


def may_be_cast(call: View) -> bool:
    """Whether a region around the call, opened here or by a caller nobody sees, may cast."""
    if call.region is not None:
        return call.enabled_region is not None
    root = function = call.operands[0]
    while root.op == "attr":
        root = root.operands[0]
    inside = isinstance(only(root.value), Instance) and root != function
    return inside and call.mentions("autocast")


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


def parameters_of(call: View, module: Object | Instance) -> Parameters | None:
    """The dtype that the parameters certainly have where the module is called."""
    casts, function = casts_of(call), call.operands[0]
    if casts is None:
        return None
    made = function.origin if function.op == READ and function.origin.op == "call" else None
    if isinstance(module, Object) and module.dtype is not None:
        return Parameters(module.dtype, made) if not casts and module.dtype in METHODS else None
    if len(casts) == 1:
        dtype = dtype_of_cast(casts[0])
        if dtype not in HALF or (isinstance(module, Instance) and is_its_own(casts[0], call)):
            return None
        assert dtype is not None
        return Parameters(dtype, casts[0])
    if not casts and made is not None and isinstance(module, Object) and is_plain_layer(made):
        return Parameters("float32", made)
    return None


def casts_of(call: View) -> list[View] | None:
    """The statements above the call that cast the module; None where not all of them always do."""
    function = call.operands[0]
    found = []
    for cast in taken_by(function) if function.op == READ else ():
        if not is_called_on(function, cast) or dtype_of_cast(cast) is None:
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


def is_its_own(cast: View, call: View) -> bool:
    """Whether a module of the project has a `half` of its own, or may cast its input itself, which
    it may where nothing is known of its code."""
    texts = call.ask(CalledTexts) or ()
    inside = not texts or any(CAST_IN_TEXT.search(text) for text in texts)
    return inside or bool(cast.ask(CalledTexts))


def is_plain_layer(made: View) -> bool:
    """Whether it is a layer that is built here, in float32, and handed to nobody."""
    layer = made
    while layer.callee not in LAYERS and layer.receiver is not None and is_move(layer):
        layer = layer.receiver
    if layer.callee not in LAYERS or layer.has_star or layer.arg("dtype") is not None:
        return False
    harmless = all(is_harmless(use, made) for use in made.uses)
    return harmless and not made.is_merged and not may_default_to_half(made)


def is_move(call: View) -> bool:
    """Ex) .cuda(), .to("cuda"), .eval()"""
    if call.method != "to":
        return call.method in HARMLESS
    atoms = [only(argument.value) for _, _, argument in call.arguments]
    return all(isinstance(atom, Host) and atom.kind == "str" for atom in atoms)


def is_harmless(use: View, layer: View) -> bool:
    if use.op == "call":
        return use.operands[0].is_same(layer)
    return use.op == "attr" and use.method in HARMLESS
