"""A tensor is built, or moved, by the name of its type.

`torch.cuda.FloatTensor` and similar constructors are from before torch 0.4. With ints they return
uninitialised memory, with a sequence they copy it. The dtype and the device are part of the name,
so neither follows the model or the input. `x.type(torch.cuda.FloatTensor)` moves as well as casts,
and `x.type(torch.LongTensor)` brings a tensor back to the CPU, which waits for the device.
`torch.set_default_tensor_type` is deprecated as of torch 2.1.

    mask = torch.cuda.FloatTensor(n)                # not initialised
    weight = torch.cuda.FloatTensor([0.5, 0.5])     # data

    mask = torch.empty(n, dtype=torch.float32, device="cuda")
    weight = torch.tensor([0.5, 0.5], dtype=torch.float32, device="cuda")

The same holds for `x.new(...)`, which means `x.new_empty(...)` or `x.new_tensor(...)`. CPU
constructors are reported by default if the tensor is moved directly, and for 16 bits; all others
are old but harmless, and are in the group "pedantic". `torch.Tensor(...)` is not reported.

Fix safety: safe if the arguments show whether they are sizes or data: the same values, dtype and
device. Unsafe if only the visible calls show it (`n` in `FloatTensor(n)` may be a list, and
`x.new(i, v)` builds a sparse tensor from indices and values), for NumPy arrays and `tolist()`,
which may be numbers, for `FloatTensor(*x.shape)`, for casts to a CUDA type, which leave a tensor on
another GPU where it is, for a type that a caller passes, for the default type if it may have been a
CUDA type, and for `x.new(n)` if the project has tensor subclasses, whose `new_empty` may differ.
The dtype and the device stay as they were, and so does what is done to the new tensor:
`torch.FloatTensor(n).zero_().to(d)` becomes `torch.empty(n, dtype=torch.float32).zero_().to(d)`,
which AMP501 then finds. No fix for a constructor that gets a tensor, whose memory it shares, for
`x.new` if its first two arguments may be indices and values, for a name that means several types,
or for a CUDA default type, which has no exact replacement.

Known limits: code that runs only on an old torch (`except AttributeError:`) is not reported;
neither is `x.new(...)` if x is not known to be a tensor, or if its arguments are not known. Tensors
on a storage (`x.new(storage)`), which have no equally short replacement, are not reported either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amplint import (
    ACCELERATOR,
    FLOATS,
    Edit,
    Finding,
    Fix,
    Group,
    Host,
    Rule,
    Sequence,
    Symbol,
    Tensor,
    TensorTree,
    Value,
    View,
    Warns,
    calls,
    canonical,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.factories import LEGACY_CONSTRUCTORS
from amplint.knowledge.vocabulary import ABOUT_STORAGE

from .._shared.default_device import SETS_OTHER_TYPE, changes_default_device
from .._shared.guards import is_fallback
from .._shared.local_values import is_local, is_surely_int, resolved, shaped
from .._shared.moves import move_of
from .._shared.tensors import has_own_classes, is_surely_tensor

if TYPE_CHECKING:
    from amplint import Reason

DEFAULT_TYPE = "torch.set_default_tensor_type"
SIZES = "the arguments are sizes for every caller"
DATA = "the argument is data for every caller"
SAME_TYPE = "the type is the same for every caller"
TENSOR = "the receiver is a tensor for every caller"
PLAIN = "the project has no tensor subclasses"
TO_CPU = "the type is a CPU type"
CPU_DEFAULT = "the default type is never a CUDA type"
NAMED_AFTER_DTYPE = LEGACY_CONSTRUCTORS.keys() - {"torch.Tensor"}

rule = Rule(
    "AMP504",
    __doc__,
    group=Group.MIGRATION,
    other_groups=(Group.PEDANTIC,),
    help="name the dtype and the device: `torch.tensor`, `torch.empty`, `x.to(...)`",
    witness=Warns("torch.set_default_tensor_type() is deprecated"),
    # What it is rewritten to may be another mistake.
    safe_if=(SIZES, DATA, SAME_TYPE, TENSOR, PLAIN, TO_CPU, CPU_DEFAULT),
    supersedes=("AMP101", "AMP102", "AMP201", "AMP202", "AMP501", "AMP502", "AMP503", "AMP508"),
)


@rule.on(calls(DEFAULT_TYPE))
def check_default(call: View) -> Iterator[Finding]:
    if call.callee != DEFAULT_TYPE or is_fallback(call):
        return
    message = f"`{call.called.brief}` is deprecated as of torch 2.1"
    yield call.finding(message, fix=default_dtype(call), place=call.cst.func)


@rule.on(calls(*NAMED_AFTER_DTYPE))
def check_constructor(call: View) -> Iterator[Finding]:
    """Ex) torch.cuda.FloatTensor(n)"""
    types = legacy_types(call.called)
    if not types or is_fallback(call):
        return
    if any(ABOUT_STORAGE.search(call.source.text(argument)) for argument in call.cst.args):
        return  # not built anew
    dtypes, places = zip(*(LEGACY_CONSTRUCTORS[name] for name in types), strict=True)
    message = f"`{call.called.brief}(...)` is a legacy constructor"
    group = Group.MIGRATION
    move = None if "cuda" in places else move_after(call)
    if "cuda" in places:
        message += ", always on the current GPU"
    elif move is not None:
        message += " on the CPU, and its result is then moved"
    elif not {"float16", "bfloat16"} & set(dtypes):
        group = Group.PEDANTIC
    related = () if move is None else (move.related("moved here"),)
    fix = factory(call, types[0]) if len(types) == 1 else None
    yield call.finding(message, related, fix, group=group, place=call.cst.func)


@rule.on(calls(".new"))
def check_new(call: View) -> Iterator[Finding]:
    """Ex) x.new(2, 3)"""
    if call.receiver is None or not builds_anew(call, call.receiver) or is_fallback(call):
        return
    message = f"`{call.called.brief}(...)` is a legacy constructor: it takes sizes or data"
    yield call.finding(message, fix=new_of(call, call.receiver), place=call.cst.func)


@rule.on(calls(".type"))
def check_cast(call: View) -> Iterator[Finding]:
    """Ex) x.type(torch.cuda.FloatTensor)"""
    argument, receiver = call.arg("dtype", 0), call.receiver
    types = legacy_types(argument) if argument is not None else []
    if argument is None or receiver is None or not types or is_fallback(call):
        return
    tensor = receiver.tensor
    on_device = tensor is not None and tensor.device.kind == ACCELERATOR
    places = {LEGACY_CONSTRUCTORS[name][1] for name in types}
    to_host = places == {"cpu"}
    because: tuple[Reason | None, ...] = ()
    if tensor is not None and on_device and to_host:
        because = (tensor.device.evidence,)
    fix = None
    if tensor is not None and len(types) == 1 and call.cst.args[0].keyword is None:
        fix = conversion(call, receiver, argument, types[0])
    does = "decides the device"
    if len(places) == 1:
        does = f"casts, and moves to the {'CPU' if to_host else 'current GPU'}"
    group = Group.PEDANTIC if to_host and not on_device else Group.MIGRATION
    yield argument.finding(f"`.type({argument.brief})` {does}", because, fix, group=group)


def legacy_types(at: View) -> list[str]:
    """The types that an expression may be; none where it may be anything else."""
    names = []
    for atom in at.value:
        if isinstance(atom, Symbol):
            names.append(canonical(atom.name))
        elif isinstance(atom, Host) and isinstance(atom.const, str):
            names.append(atom.const)
        else:
            return []
    are_legacy = all(name in LEGACY_CONSTRUCTORS for name in names)
    return sorted(names) if are_legacy and NAMED_AFTER_DTYPE & set(names) else []


# ---------------------------------------------------------------------------- constructors


def move_after(call: View) -> View | None:
    """The call that moves the tensor, in the same expression or where its variable is read."""
    src = call.source
    for read in (call.cst, *src.variables.uses(call.cst)):
        node = src.parent(read)
        while isinstance(node, cst.Attribute | cst.Call):
            if isinstance(node, cst.Call) and move_of(call.of(node)) is not None:
                return call.of(node)
            node = src.parent(node)
    return None


def factory(call: View, name: str) -> Fix | None:
    """Ex) torch.cuda.FloatTensor(n) -> torch.empty(n, dtype=torch.float32, device="cuda")"""
    what, source = kind_of_arguments(call), call.source
    torch, (dtype, place) = source.imports.spell("torch"), LEGACY_CONSTRUCTORS[name]
    if what is None:
        return None
    function = "empty" if what.sizes else "tensor"
    is_placed = place != "cpu" or changes_default_device(call)
    device = (f'device="{place}"',) if is_placed else ()
    size = () if call.cst.args else ("0",)
    added = source.edits.add_argument(call.cst, *size, f"dtype={torch.text}.{dtype}", *device)
    conditions = {**what.conditions, SAME_TYPE: is_local(call.called)}
    renamed = source.edits.replace(call.cst.func, f"{torch.text}.{function}")
    return Fix.safe_if(f"Call `torch.{function}`", (renamed, added, *torch.edits), conditions)


# ---------------------------------------------------------------------------- x.new


def builds_anew(call: View, receiver: View) -> bool:
    """Whether `x.new(...)` builds a tensor anew; given a storage, it is one on that storage.

    Of a nest of containers, only tensors have a method `new`.
    """
    if not isinstance(only(receiver.value), Tensor | TensorTree):
        return False
    arguments = given_to(call)
    if len(arguments) > 1 or kind_of_arguments(call) is not None:
        return True
    first = arguments[0].operands[0] if arguments[0].op == "starred" else arguments[0]
    return isinstance(only(first.value), Tensor | TensorTree)


def new_of(call: View, receiver: View) -> Fix | None:
    """Ex) x.new(2, 3) -> x.new_empty(2, 3)"""
    what, arguments = kind_of_arguments(call), given_to(call)
    # Of indices and values, a sparse tensor builds another one.
    if what is None or (len(arguments) > 1 and not any(map(is_size, arguments[:2]))):
        return None
    edits = call.source.edits
    name = "new_empty" if what.sizes else "new_tensor"
    last = () if arguments else (edits.add_argument(call.cst, "0"),)
    conditions = {**what.conditions, TENSOR: is_surely_tensor(receiver)}
    if what.sizes:
        conditions[PLAIN] = not has_own_classes(call)  # a DTensor's `new` makes a plain tensor
    renamed = edits.replace(call.cst.func.attr, name)
    return Fix.safe_if(f"Call `{name}`", (renamed, *last), conditions)


# ---------------------------------------------------------------------------- sizes, or data


@dataclass(frozen=True)
class ConstructorArguments:
    """The arguments of a legacy constructor: sizes, or else data; if so for every caller,
    not only in the calls that were seen."""

    sizes: bool
    certain: bool

    @property
    def conditions(self) -> dict[str, bool]:
        return {SIZES if self.sizes else DATA: self.certain}


def kind_of_arguments(call: View) -> ConstructorArguments | None:
    """The kind of the arguments; None where they may be tensors, whose memory would be shared."""
    arguments = given_to(call)
    if any(keyword is not None for _, keyword, _ in call.arguments):
        return None
    starred = any(each.op == "starred" for each in arguments)
    if len(arguments) == 1 and not starred:
        return kind_of_one(arguments[0])
    if starred and not all(map(is_size, arguments)):
        return None
    if starred:
        # Of `*()`, the old constructor makes an empty tensor, and the new function a number.
        return ConstructorArguments(True, False)
    # Of several, anything but sizes raises, or is indices and values: of `x.new`, x being sparse.
    certain = not arguments or call.method != "new" or all(map(is_surely_int, arguments))
    return ConstructorArguments(True, certain)


def is_size(at: View) -> bool:
    """Whether an argument is a size, or several, in the calls that are seen."""
    if at.op != "starred":
        return is_surely_int(at) or are_ints(at.value)
    sizes = at.operands[0]
    atom = only(sizes.value)
    if isinstance(atom, Sequence):
        return all(map(are_ints, atom.items if atom.items is not None else (atom.element,)))
    is_shape = isinstance(atom, Host) and atom.kind == "size"
    return is_shape or shaped(sizes) is not None


def are_ints(value: Value) -> bool:
    return bool(value) and all(isinstance(each, Host) and each.kind == "int" for each in value)


def kind_of_one(argument: View) -> ConstructorArguments | None:
    """The kind of the only argument."""
    atom = only(argument.value)
    if is_written_list(argument):
        return ConstructorArguments(False, True)
    if isinstance(atom, Host) and atom.kind in ("int", "size"):
        return ConstructorArguments(True, is_surely_int(argument) or is_surely_shape(argument))
    if isinstance(atom, Sequence) or (isinstance(atom, Host) and atom.kind in ("numpy", "list")):
        origin = resolved(argument)
        listed = origin.op == "call" and origin.method == "tolist" and origin.receiver is not None
        vector = listed and origin.receiver is not None and is_surely_vector(origin.receiver)
        return ConstructorArguments(False, vector or is_written_list(origin))
    return None


def is_written_list(at: View) -> bool:
    return isinstance(at.cst, cst.List | cst.Tuple | cst.ListComp)


# ---------------------------------------------------------------------------- casts and defaults


def conversion(call: View, receiver: View, argument: View, name: str) -> Fix:
    """Ex) x.type(torch.LongTensor) -> x.to("cpu", torch.int64)"""
    _, place = LEGACY_CONSTRUCTORS[name]
    tensor = receiver.tensor
    # A tensor on a GPU stays on that GPU; `.to("cuda")` would move it to the current one.
    stays = place == "cuda" and tensor is not None and tensor.device.kind == ACCELERATOR
    edits = with_dtype(argument, name, "" if stays else f'"{place}", ')
    conditions = {
        TO_CPU: place == "cpu",
        TENSOR: is_surely_tensor(receiver),
        SAME_TYPE: is_local(argument),
    }
    renamed = call.source.edits.replace(call.cst.func.attr, "to")
    return Fix.safe_if("Name the device and the dtype", (renamed, *edits), conditions)


def default_dtype(call: View) -> Fix | None:
    """Ex) torch.set_default_tensor_type(torch.DoubleTensor)"""
    argument, source = call.arg("t", 0), call.source
    types = legacy_types(argument) if argument is not None else []
    if argument is None or len(types) != 1 or call.cst.args[0].keyword is not None:
        return None
    dtype, place = LEGACY_CONSTRUCTORS[types[0]]
    torch, edits = source.imports.spell("torch"), with_dtype(argument, types[0])
    if place != "cpu" or dtype not in FLOATS:
        return None
    # It also makes the CPU the default device; where another one was, that is undone.
    conditions = {
        CPU_DEFAULT: not call.matches(SETS_OTHER_TYPE, "set_default_tensor_type"),
        SAME_TYPE: is_local(argument),
    }
    renamed = source.edits.replace(call.cst.func, f"{torch.text}.set_default_dtype")
    return Fix.safe_if("Set the default dtype", (renamed, *edits), conditions)


def with_dtype(argument: View, name: str, before: str = "") -> tuple[Edit, ...]:
    """The edits that put a dtype in the place of a type."""
    torch, (dtype, _) = argument.source.imports.spell("torch"), LEGACY_CONSTRUCTORS[name]
    replaced = argument.source.edits.replace(argument.cst, f"{before}{torch.text}.{dtype}")
    return replaced, *torch.edits


def given_to(call: View) -> list[View]:
    """The arguments of a call, in whatever way they are given."""
    return [argument for _, _, argument in call.arguments]


def is_surely_shape(at: View) -> bool:
    """Whether the expression is a `torch.Size`; the shape of an array is a tuple.

    Ex) x.shape, x.size(), x.shape[1:] of a tensor; a variable that holds it
    """
    receiver = shaped(at)
    return receiver is not None and is_surely_tensor(receiver)


def is_surely_vector(at: View) -> bool:
    """Whether an expression is a tensor with at least one dimension."""
    tensor = at.tensor
    return tensor is not None and tensor.rank == 1 and is_local(at)
