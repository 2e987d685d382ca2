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
from typing import TYPE_CHECKING

from amplint import (
    FLOATS,
    HALF,
    WITH_HALF,
    Change,
    Classes,
    Edit,
    Finding,
    Fix,
    Frameworks,
    Group,
    Host,
    Instance,
    Object,
    Raises,
    Rule,
    Safety,
    Sequence,
    Spot,
    Tensor,
    nodes,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.casts import EQUAL_DTYPES
from amplint.knowledge.modules import MODULES

from .._shared.code_texts import called_texts
from .._shared.dtypes import (
    cast_dtype,
    default_may_be_half,
    differ,
    dtype_places,
    enabled_region,
)
from .._shared.guards import is_caught
from .._shared.tensors import surely_tensor

if TYPE_CHECKING:
    from amplint import Source

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


def is_given_floats(at: Spot) -> bool:
    """Whether a module outside of a region is given a tensor whose dtype is known."""
    called = only(at.of(at.node.operands[0]))
    module = isinstance(called, Instance) or (
        isinstance(called, Object) and called.kind == "module"
    )
    if not module or not at.arguments or at.enabled_region is not None:
        return False
    tensor = at.tensor(at.arguments[0])
    return tensor is not None and tensor.dtype in FLOATS


rule = Rule(
    "AMP206",
    __doc__,
    group=Group.CORRECTNESS,
    since="0.1",
    help="cast inputs and states to the dtype of the parameters",
    witness=Raises("must have the same dtype", on_gpu="are not the same dtype"),
    safe_if=(RAISES, TENSOR, UNCAUGHT),
    changes=frozenset({Change.DTYPE}),
    presumes=False,
    candidates=nodes("call") & is_given_floats & WITH_HALF,
)


@dataclass(frozen=True)
class Parameters:
    """The dtype of a module's parameters, and what gave it to them."""

    dtype: str
    made: cst.CSTNode | None


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    module = module_of(call, src)
    if module is None or not call.args or may_be_cast(call, src):
        return
    given = call.args[0].value
    tensor = src.tensor(given)
    if tensor is None or tensor.dtype not in FLOATS:
        return
    recurrent = isinstance(module, Object) and module.type in RECURRENT and len(call.args) == 2
    parameters = parameters_of(call, module, src)
    if parameters is not None and differ(parameters.dtype, tensor.dtype):
        yield input_of_another_dtype(call, parameters, tensor, src)
    elif recurrent:
        yield from state_of_another_dtype(call, given, tensor, src)


def input_of_another_dtype(
    call: cst.Call, parameters: Parameters, tensor: Tensor, src: Source
) -> Finding:
    """Ex) linear.half(); linear(torch.zeros(2, 8))"""
    given, dtype = call.args[0].value, parameters.dtype
    name = src.brief(call.func)
    message = f"`{name}` is in {dtype} and its input is {tensor.dtype}: this raises"
    made = parameters.made
    related = () if made is None else (src.related_node(made, f"in {dtype} since here"),)
    edit = src.edits.append_call(given, f"{METHODS[dtype]}()")
    alone = len(call.args) == 1  # else others would have to be cast, too
    fix = Fix(f"Cast the input to {dtype}", (edit,), Safety.UNSAFE) if alone else None
    return src.finding(rule, given, message, fix, (*related, *dtype_places(src, tensor)))


def module_of(call: cst.Call, src: Source) -> Object | Instance | None:
    """The callee, if it is a layer, a model of a library, or a module of the project."""
    called = only(src.value(call.func))
    if isinstance(called, Instance):
        bases = src.fact(Classes).bases_of(src.value(call.func))
        return called if any(base.startswith("torch.nn.") for base in bases) else None
    if isinstance(called, Object) and called.kind == "module":
        is_of_library = called.type.startswith(MODELS) or src.fact(Frameworks).builds_module(
            called.type
        )
        return called if called.type in LAYERS or is_of_library else None
    return None


def may_be_cast(call: cst.Call, src: Source) -> bool:
    """Whether a region around the call, opened here or by a caller nobody sees, may cast."""
    if src.region(call) is not None:
        return enabled_region(call, src) is not None
    root: cst.BaseExpression = call.func
    while isinstance(root, cst.Attribute):
        root = root.value
    inside = isinstance(only(src.value(root)), Instance) and root is not call.func
    return inside and src.mentions("autocast")


def state_of_another_dtype(
    call: cst.Call, given: cst.BaseExpression, tensor: Tensor, src: Source
) -> Iterator[Finding]:
    """Ex) lstm(x.half(), (h0, c0))"""
    state = call.args[1].value
    parts = [e.value for e in state.elements] if isinstance(state, cst.Tuple) else [state]
    wrong = [part for part in parts if differ(tensor.dtype, state_dtype(part, src))]
    if not wrong:
        return
    first = wrong[0]
    dtype = state_dtype(first, src)
    message = f"`{src.brief(first)}` is {dtype} and the input is {tensor.dtype}: this raises"
    fix = None
    if isinstance(given, cst.Name | cst.Attribute):
        cast = f"to({src.text(given)}.dtype)"
    else:
        cast = f"{METHODS[tensor.dtype]}()" if tensor.dtype in METHODS else ""
    if cast and all(src.tensor(part) is not None for part in wrong):
        edits: tuple[Edit, ...] = tuple(src.edits.append_call(part, cast) for part in wrong)
        conditions = {
            RAISES: True,
            TENSOR: all(surely_tensor(part, src) for part in wrong),
            UNCAUGHT: not is_caught(call, src),
        }
        fix = Fix.safe_if("Cast the state to the dtype of the input", edits, conditions)
    related = dtype_places(src, src.tensor(first), tensor)
    yield src.finding(rule, first, message, fix, related)


def state_dtype(part: cst.BaseExpression, src: Source) -> str | None:
    """The dtype of a tensor, or of the tensors in a tuple."""
    atom = only(src.value(part))
    if isinstance(atom, Sequence) and atom.items:
        atom = only(atom.items[0])
    return atom.dtype if isinstance(atom, Tensor) else None


def parameters_of(call: cst.Call, module: Object | Instance, src: Source) -> Parameters | None:
    """The dtype that the parameters certainly have where the module is called."""
    casts = casts_of(call, src)
    if casts is None:
        return None
    if isinstance(module, Object) and module.dtype is not None:
        made = src.origin(call.func) if isinstance(call.func, cst.Name) else None
        return Parameters(module.dtype, made) if not casts and module.dtype in METHODS else None
    if len(casts) == 1:
        dtype = cast_dtype(casts[0], src)
        if dtype not in HALF:
            return None
        if isinstance(module, Instance) and (
            called_texts(casts[0], src) or casts_inside(call, src)
        ):
            return None  # a `half` of its own, or a `forward` that casts
        assert dtype is not None
        return Parameters(dtype, casts[0])
    if not casts and isinstance(module, Object) and is_plain_layer(call.func, src):
        assert isinstance(call.func, cst.Name)
        return Parameters("float32", src.origin(call.func))
    return None


def casts_of(call: cst.Call, src: Source) -> list[cst.Call] | None:
    """The statements above the call that cast the module; None where not all of them always do."""
    if not isinstance(call.func, cst.Name):
        return []
    found = []
    for use in src.uses(call.func):
        cast = src.parent(src.parent(use))
        if not isinstance(cast, cst.Call) or cast.func is not src.parent(use):
            continue
        if cast_dtype(cast, src) is None or src.span(cast).start > src.span(call).start:
            continue
        block = src.parent(src.statement(cast))
        if src.layout.value_used(cast) or not any(
            around is block for around in src.ancestors(call)
        ):
            return None
        found.append(cast)
    return found


def casts_inside(call: cst.Call, src: Source) -> bool:
    """Whether the module's own code may cast its input, or nothing is known of that code."""
    texts = called_texts(call, src)
    return not texts or any(CAST_IN_TEXT.search(text) for text in texts)


def is_plain_layer(name: cst.BaseExpression, src: Source) -> bool:
    """Whether the variable holds a layer that is built here, in float32, and handed to nobody."""
    made = src.origin(name) if isinstance(name, cst.Name) else None
    if made is None or src.joined(made) or default_may_be_half(src):
        return False
    uses = src.uses(made)
    while isinstance(made, cst.Call) and isinstance(made.func, cst.Attribute):
        if src.name(made.func) in LAYERS:
            break
        if not is_move(made, src):
            return False
        made = made.func.value
    if not isinstance(made, cst.Call) or src.name(made.func) not in LAYERS or src.has_star(made):
        return False
    return all(is_harmless(use, src) for use in uses) and src.keyword(made, "dtype") is None


def is_move(call: cst.Call, src: Source) -> bool:
    """Ex) .cuda(), .to("cuda"), .eval()"""
    assert isinstance(call.func, cst.Attribute)
    if call.func.attr.value != "to":
        return call.func.attr.value in HARMLESS
    atoms = [only(src.value(arg.value)) for arg in call.args]
    return all(isinstance(atom, Host) and atom.kind == "str" for atom in atoms)


def is_harmless(use: cst.BaseExpression, src: Source) -> bool:
    parent = src.parent(use)
    if isinstance(parent, cst.Call):
        return parent.func is use
    return isinstance(parent, cst.Attribute) and parent.attr.value in HARMLESS
