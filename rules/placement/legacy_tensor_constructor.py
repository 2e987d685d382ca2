"""A tensor is built, or moved, by the name of its type.

`torch.cuda.FloatTensor` and its kin are from before torch 0.4. Called with ints they leave the
memory as it was, called with a sequence they copy it; the dtype and the device are part of the
name, so that neither follows the model or the input. `x.type(torch.cuda.FloatTensor)` moves as well
as casts, and `x.type(torch.LongTensor)` brings a tensor back to the CPU, which waits for the
device. `torch.set_default_tensor_type` is deprecated as of torch 2.1.

    mask = torch.cuda.FloatTensor(n)                # not initialised
    weight = torch.cuda.FloatTensor([0.5, 0.5])     # data

    mask = torch.empty(n, dtype=torch.float32, device="cuda")
    weight = torch.tensor([0.5, 0.5], dtype=torch.float32, device="cuda")

So it is with `x.new(...)`, which is `x.new_empty(...)` or `x.new_tensor(...)`. Constructors of the
CPU are reported by default where the tensor is moved at once, and for 16 bits; all others are old
but harmless, and a matter of the group "pedantic". `torch.Tensor(...)` is left alone.

Fix safety: safe where the arguments show whether they are sizes or data: the same values, dtype and
device. Unsafe where only the calls that were seen say so (`FloatTensor(n)` with a list for n, and
`x.new(i, v)`, which builds a sparse tensor of indices and values), for NumPy arrays and `tolist()`,
which may be numbers, for `FloatTensor(*x.shape)` where x may be 0-dim, for casts to a CUDA type,
which leave a tensor on another GPU where it is, for a type that a caller passes, for the default
type where it may have been one of CUDA, for `x.new(n)` where the project has tensors of a class of
their own, whose `new_empty` may be another one, and where the new tensor is still moved afterwards,
since what is done to it before may differ on the device. `fill_` of a number, `zero_` and the move
become one call: `torch.LongTensor(b, n).fill_(0).to(d)` is `torch.zeros((b, n), dtype=torch.int64,
device=d)`. Where a tensor of float32 meets one of floats that may have another dtype (it is added,
joined, written, or given to a kernel with it, or has its size), the fix is unsafe and follows that:
`x.new_zeros(...)`. Otherwise its title says that the dtype stays; what is added up should keep it.
No fix for a constructor given a tensor, whose memory it shares, for `x.new` where two first
arguments may be indices and values, for a name that stands for several types, nor for a default
type of CUDA, which has no exact equal.

Known limits: what runs only on an old torch (`except AttributeError:`) is left alone, and so is
`x.new(...)` where x is not known to be a tensor, or what it is given is not known. So are tensors
on a storage (`x.new(storage)`), which nothing else builds as shortly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amplint import (
    ACCELERATOR,
    FLOATS,
    Change,
    Edit,
    Finding,
    Fix,
    Group,
    Host,
    Related,
    Rule,
    Safety,
    Sequence,
    Symbol,
    Tensor,
    TensorTree,
    Value,
    Warns,
    calls,
    canonical,
    only,
)
from amplint import libcst as cst
from amplint.knowledge.factories import LEGACY_CONSTRUCTORS
from amplint.knowledge.vocabulary import ABOUT_STORAGE

from .._shared.cst_factories import changes_default_device
from .._shared.cst_local_values import has_kind, surely_int
from .._shared.cst_moves import bound_before, move_of, without_move
from .._shared.factories import SETS_OTHER_TYPE
from .._shared.guards import is_fallback
from .._shared.local_values import is_local, method_of, resolved, shaped
from .._shared.meetings import Met, readings, tensor_met
from .._shared.reads import device_places
from .._shared.tensors import has_own_classes, surely_shape, surely_tensor, surely_vector

if TYPE_CHECKING:
    from amplint import Source

DEFAULT_TYPE = "torch.set_default_tensor_type"
SIZES = "the arguments are sizes for every caller"
DATA = "the argument is data for every caller"
SAME_TYPE = "the type is the same for every caller"
TENSOR = "what has the method is a tensor for every caller"
PLAIN = "the project has no tensors of a class of their own"
TO_CPU = "the type is one of the CPU"
CERTAIN = "it is moved to what certainly is a device"
CPU_DEFAULT = "the default type is nowhere one of CUDA"
PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
NAMED_AFTER_DTYPE = LEGACY_CONSTRUCTORS.keys() - {"torch.Tensor"}


NUMBER = re.compile(r"-?\d+(\.\d*)?")
CONVERTIBLE = frozenset({"zeros", "ones", "empty"})


def names_type(value: Value) -> bool:
    """Whether a value may be a type that is named after a dtype, or its name."""
    return any(
        (canonical(atom.name) if isinstance(atom, Symbol) else atom.const) in NAMED_AFTER_DTYPE
        for atom in value
        if isinstance(atom, Symbol | Host)
    )


rule = Rule(
    "AMP504",
    __doc__,
    group=Group.MIGRATION,
    other_groups=(Group.PEDANTIC,),
    since="0.1",
    help="name the dtype and the device: `torch.tensor`, `torch.empty`, `x.to(...)`",
    witness=Warns("torch.set_default_tensor_type() is deprecated"),
    changes=frozenset({Change.DTYPE, Change.ROUNDING}),
    # What it is rewritten to may be another mistake.
    safe_if=(SIZES, DATA, SAME_TYPE, TENSOR, PLAIN, CERTAIN, TO_CPU, CPU_DEFAULT),
    supersedes=("AMP101", "AMP102", "AMP201", "AMP202", "AMP501", "AMP502", "AMP503", "AMP508"),
    candidates=calls(DEFAULT_TYPE, ".new", *NAMED_AFTER_DTYPE)
    | calls(".type") & (lambda at: any(names_type(at.of(each)) for each in at.arguments)),
)


@rule.check
def check(call: cst.Call, src: Source) -> Iterator[Finding]:
    if is_fallback(call, src):
        return
    if src.name(call.func) == DEFAULT_TYPE:
        message = f"`{src.brief(call.func)}` is deprecated as of torch 2.1"
        yield src.finding(rule, call.func, message, default_dtype(call, src))
    elif types := legacy_types(call.func, src):
        yield from constructor(call, types, src)
    elif isinstance(call.func, cst.Attribute):
        if call.func.attr.value == "new" and is_new_tensor(call, call.func, src):
            message = f"`{src.brief(call.func)}(...)` is a legacy constructor, of sizes or of data"
            yield src.finding(rule, call.func, message, new_of(call, call.func, src))
        elif call.func.attr.value == "type":
            yield from cast(call, call.func, src)


def is_new_tensor(call: cst.Call, function: cst.Attribute, src: Source) -> bool:
    """Whether `x.new(...)` builds a tensor anew; given a storage, it is one on that storage.

    Of a nest of containers, only tensors have a method `new`.
    """
    known = isinstance(only(src.value(function.value)), Tensor | TensorTree)
    return known and (arguments(call, src) is not None or is_tensor(call.args[0].value, src))


def is_tensor(node: cst.BaseExpression, src: Source) -> bool:
    return isinstance(only(src.value(node)), Tensor | TensorTree)


def legacy_types(node: cst.BaseExpression, src: Source) -> list[str]:
    """The types that an expression may be; none where it may be anything else."""
    names = []
    for atom in src.value(node):
        if isinstance(atom, Symbol):
            names.append(canonical(atom.name))
        elif isinstance(atom, Host) and isinstance(atom.const, str):
            names.append(atom.const)
        else:
            return []
    known = all(name in LEGACY_CONSTRUCTORS for name in names)
    return sorted(names) if known and NAMED_AFTER_DTYPE & set(names) else []


# ---------------------------------------------------------------------------- constructors


def constructor(call: cst.Call, types: list[str], src: Source) -> Iterator[Finding]:
    """Ex) torch.cuda.FloatTensor(n)"""
    if any(ABOUT_STORAGE.search(src.text(arg.value)) for arg in call.args):
        return  # not built anew
    dtypes, places = zip(*(LEGACY_CONSTRUCTORS[name] for name in types), strict=True)
    message = f"`{src.brief(call.func)}(...)` is a legacy constructor"
    group = Group.MIGRATION
    move = None if "cuda" in places else move_after(call, src)
    if "cuda" in places:
        message += ", always of the current GPU"
    elif move is not None:
        message += " on the CPU, and its result is then moved"
    elif not {"float16", "bfloat16"} & set(dtypes):
        group = Group.PEDANTIC
    related = [] if move is None else [src.related_node(move, "moved here")]
    parameter = parameter_of(call, src) if {*dtypes} == {"float16"} else None
    if parameter is not None:
        of_half = "builds a float16 parameter, whose gradients a GradScaler refuses"
        message = f"`{src.brief(call.func)}(...)` {of_half}"
        related.append(src.related_node(parameter, "made a parameter here"))
    fix, met = factory(call, types[0], move, src) if len(types) == 1 else (None, ())
    related += met
    yield src.finding(rule, call.func, message, fix, related, group)


def parameter_of(call: cst.Call, src: Source) -> cst.Call | None:
    """Ex) nn.Parameter(torch.cuda.HalfTensor(3))"""
    for read in readings(call, src):
        arg = src.parent(read)
        made = src.parent(arg) if isinstance(arg, cst.Arg) else None
        if isinstance(made, cst.Call) and src.name(made.func) in PARAMETERS:
            return made
    return None


def remark(met: Met, function: str, src: Source) -> Related:
    """A tensor that a new one of float32 meets, as a place to show."""
    written = src.brief(met.tensor)
    said = f"takes its size from `{written}`" if met.gives_size else f"meets `{written}` here"
    if met.is_float:
        said += ", which need not be float32"
    else:
        said += f": `{written}.new_{function}(...)` would follow it, if it is of floats"
    return src.related_node(met.place, said)


def move_after(call: cst.Call, src: Source) -> cst.Call | None:
    """The call that moves the tensor, in the same expression or where its variable is read."""
    for read in (call, *src.uses(call)):
        node: cst.CSTNode | None = src.parent(read)
        while isinstance(node, cst.Attribute | cst.Call):
            if isinstance(node, cst.Call) and move_of(node, src) is not None:
                return node
            node = src.parent(node)
    return None


def factory(
    call: cst.Call, name: str, move: cst.Call | None, src: Source
) -> tuple[Fix | None, tuple[Related, ...]]:
    """The fix, and where the new tensor meets one that may have another dtype.

    Ex) torch.cuda.FloatTensor(n) -> torch.empty(n, dtype=torch.float32, device="cuda")
    Ex) torch.LongTensor(n).fill_(0).to(d) -> torch.zeros(n, dtype=torch.int64, device=d)
    Ex) torch.cuda.FloatTensor(n) -> x.new_empty(n), where it is added to x
    """
    what = arguments(call, src)
    if what is None:
        return None, ()
    dtype, place = LEGACY_CONSTRUCTORS[name]
    plain = Filling(call, "empty" if what.sizes else "tensor")
    filled = (filling(call, dtype, src) if what.sizes else None) or plain
    moved = moving(filled.call, src) if place == "cpu" and move is not None else None
    if moved is not None and moved.dtype is not None and filled.function not in CONVERTIBLE:
        moved = None  # devices differ in what does not fit into the other dtype
    rest = behind(call, filled.call, moved, src)
    if rest is None:
        return None, ()
    result = filled.call if moved is None else moved.call
    takes_any = dtype == "float32" and (moved is None or moved.dtype is None)
    # `fill_(1e10)`, which is left as it is, is beyond the range of half.
    fits_half = filled is not plain or method_of(call_on(call, src)) != "fill_"
    met = tensor_met(call, result, src) if takes_any and fits_half else None
    if met is not None and met.dtype == dtype:
        met = None
    meeting = () if met is None else (remark(met, filled.function, src),)
    if met is not None and met.is_float:
        return like(call, met, filled, rest, src), meeting
    device = moved.device if moved is not None else f'"{place}"'
    written = moved is not None or place != "cpu" or changes_default_device(src)
    torch = src.imports.spell("torch")
    if torch is None:
        return None, meeting
    added = src.edits.add_argument(
        call,
        *filled.value,
        *(() if call.args else ("0",)),
        f"dtype={torch.text}.{dtype}",
        *((f"device={device}",) if written else ()),
    )
    if added is None:
        return None, meeting
    name_edit = src.edits.replace(call.func, f"{torch.text}.{filled.function}")
    edits = (name_edit, *filled.shape, added, *rest, *torch.edits)
    conditions = {**what.conditions, SAME_TYPE: is_local(call.func, src)}
    if moved is not None:
        conditions[CERTAIN] = moved.certain
    stays = ", still of float32" if takes_any else ""
    fix = Fix.safe_if(f"Call `torch.{filled.function}`{stays}", edits, conditions)
    # It would leave half of what the finding is about.
    if place == "cpu" and move is not None and moved is None:
        fix = fix.demoted()
    return fix, meeting


def like(
    call: cst.Call, met: Met, filled: Filling, rest: tuple[Edit, ...], src: Source
) -> Fix | None:
    """Ex) torch.cuda.FloatTensor(n).zero_() -> x.new_zeros(n)"""
    function = f"{src.text(met.tensor)}.new_{filled.function}"
    values = (*filled.value, *(() if call.args else ("0",)))
    added = src.edits.add_argument(call, *values) if values else None
    if values and added is None:
        return None
    edits = (
        src.edits.replace(call.func, function),
        *filled.shape,
        *((added,) if added is not None else ()),
        *rest,
    )
    return Fix(f"Call `{function}`, which follows its dtype and device", edits, Safety.UNSAFE)


@dataclass(frozen=True)
class Filling:
    """How a tensor of a new size gets its first values.

    Args:
        call: that of `fill_` or `zero_`, or else of the constructor.
        function: what builds a tensor of these values.
        value: the value as an argument of it, if it takes one.
        shape: the edits that make one argument of the sizes.
    """

    call: cst.Call
    function: str
    value: tuple[str, ...] = ()
    shape: tuple[Edit, ...] = ()


def filling(call: cst.Call, dtype: str, src: Source) -> Filling | None:
    """Ex) torch.LongTensor(n).fill_(0), torch.FloatTensor(n, 2).zero_()"""
    fill = call_on(call, src)
    if fill is None or not call.args:
        return None
    method, value = method_of(fill), "0"
    if method == "fill_" and len(fill.args) == 1 and not fill.args[0].star:
        value = src.text(fill.args[0].value)
    elif method != "zero_" or fill.args:
        return None
    number = number_of(value)
    if number in (0, 1):
        return Filling(fill, "ones" if number else "zeros", (), in_a_tuple(call, src) or ())
    shape = in_a_tuple(call, src)
    if number is None or shape is None or not fits(number, dtype):
        return None
    only_size = call.args[0].value
    if len(call.args) == 1 and not surely_shape(only_size, src):
        if not (surely_int(only_size, src) or has_kind(only_size, {"int"}, src)):
            return None  # a shape in the seen calls, around which `full` takes no brackets
        shape = (src.edits.insert_before(only_size, "("), src.edits.insert_after(only_size, ",)"))
    return Filling(fill, "full", (value,), shape)


def in_a_tuple(call: cst.Call, src: Source) -> tuple[Edit, ...] | None:
    """The edits that make one argument of several sizes, if they stand on one line."""
    first, last = call.args[0], call.args[-1]
    if any(arg.star for arg in call.args) or len(src.text(call).splitlines()) > 1:
        return None
    if first is last:
        return ()
    return src.edits.insert_before(first.value, "("), src.edits.insert_after(last.value, ")")


def number_of(text: str) -> float | None:
    """The number that a literal is. `-0.0` is not 0: it is filled in as it is."""
    number = float(text) if NUMBER.fullmatch(text) else None
    return None if number == 0 and text.startswith("-") else number


def fits(number: float, dtype: str) -> bool:
    """Whether a dtype holds a number, so that filling it in, now or later, is the same."""
    if dtype in FLOATS:
        return abs(number) < 60_000
    return dtype not in ("bool", "uint8") and number.is_integer() and abs(number) < 128


@dataclass(frozen=True)
class Moving:
    """The only thing that is done to a new tensor: it is moved.

    Args:
        call: the call that moves it.
        receiver: the tensor, in that call.
        device: where to, as it is written.
        dtype: the argument for a dtype that is given along with it.
        certain: whether that is a device for every caller.
    """

    call: cst.Call
    receiver: cst.BaseExpression
    device: str
    dtype: cst.Arg | None
    certain: bool


def moving(made: cst.Call, src: Source) -> Moving | None:
    """Ex) the move of `made.to(d)`, and of `m = made`, `m = m.to(d)`"""
    receiver: cst.BaseExpression = made
    call = call_on(made, src)
    if call is None:
        (receiver,) = uses if len(uses := src.uses(made)) == 1 else (made,)
        call = call_on(receiver, src)
        if (
            call is None
            or not isinstance(receiver, cst.Name)
            or bound_before(receiver, src) is not made
            or src.function(call) is None
            or not src.variables.same_meaning(call, made)
        ):
            return None
    move = move_of(call, src)
    if move is None or move.device is None:
        return None
    dtype = src.argument(call, "dtype", 1) if move.dtype is not None else None
    return Moving(call, receiver, move.device, dtype, move.certain)


def behind(
    call: cst.Call, made: cst.Call, moved: Moving | None, src: Source
) -> tuple[Edit, ...] | None:
    """The edits that remove what has become of no use behind a constructor: what fills the tensor,
    and what moves it; a dtype of the move stays."""
    nested = moved is not None and moved.receiver is made
    if moved is not None and nested and moved.dtype is None:
        return (src.edits.remove_between(call, moved.call),)
    edits = () if made is call else (src.edits.remove_between(call, made),)
    if moved is None:
        return edits
    if moved.dtype is not None:
        others = [arg for arg in moved.call.args if arg is not moved.dtype]
        return (*edits, *src.edits.remove_arguments(moved.call, others))
    removal = without_move(moved.call, moved.receiver, src)
    return (*edits, removal) if removal is not None else None


def call_on(node: cst.CSTNode, src: Source) -> cst.Call | None:
    """The call of a method of an expression."""
    attribute = src.parent(node)
    if not isinstance(attribute, cst.Attribute) or attribute.value is not node:
        return None
    call = src.parent(attribute)
    return call if isinstance(call, cst.Call) and call.func is attribute else None


def new_of(call: cst.Call, function: cst.Attribute, src: Source) -> Fix | None:
    """Ex) x.new(2, 3) -> x.new_empty(2, 3)"""
    what = arguments(call, src)
    # Of indices and values, a sparse tensor builds another one.
    if what is None or (len(call.args) > 1 and not any(is_size(a, src) for a in call.args[:2])):
        return None
    name = "new_empty" if what.sizes else "new_tensor"
    added = () if call.args else (src.edits.add_argument(call, "0"),)
    edits = (src.edits.replace(function.attr, name), *(edit for edit in added if edit is not None))
    conditions = {**what.conditions, TENSOR: surely_tensor(function.value, src)}
    if what.sizes:
        conditions[PLAIN] = not has_own_classes(src)  # a DTensor's `new` makes a plain tensor
    return Fix.safe_if(f"Call `{name}`", edits, conditions)


@dataclass(frozen=True)
class Arguments:
    """The arguments of a legacy constructor: sizes, or else data; if so for every caller,
    not only in the calls that were seen."""

    sizes: bool
    certain: bool

    @property
    def conditions(self) -> dict[str, bool]:
        return {SIZES if self.sizes else DATA: self.certain}


def arguments(call: cst.Call, src: Source) -> Arguments | None:
    """The kind of the arguments; None where they may be tensors, whose memory would be shared."""
    if any(arg.keyword is not None or arg.star == "**" for arg in call.args):
        return None
    if len(call.args) == 1 and not call.args[0].star:
        return of_one(call.args[0].value, src)
    starred = [arg.value for arg in call.args if arg.star]
    several = len(call.args) > 1 and not call.args[0].star
    shapes = all(shaped(each, src) is not None for each in starred)
    # Of `*()` alone, the old constructor makes an empty tensor, and the new function nothing.
    filled = len(starred) < len(call.args) or any(rank_of(each, src) == 1 for each in starred)
    known = several or not call.args or (shapes and filled)
    if not known and not all(has_sizes(each, src) for each in starred):
        return None
    return Arguments(True, surely_sizes(call, src))


def surely_sizes(call: cst.Call, src: Source) -> bool:
    """Whether several arguments, or none, are sizes for every caller."""
    given = [arg.value for arg in call.args if not arg.star]
    starred = [arg.value for arg in call.args if arg.star]
    if not call.args or (len(given) > 1 and not may_be_sparse(call)):
        return True  # of several, anything but sizes raises
    return (
        all(surely_int(each, src) for each in given)
        and all(shaped(each, src) is not None for each in starred)
        and (bool(given) or any(rank_of(each, src, certain=True) == 1 for each in starred))
    )


def may_be_sparse(call: cst.Call) -> bool:
    """Whether indices and values may build a sparse tensor: of `x.new`, where x is sparse."""
    return method_of(call) == "new"


def is_size(arg: cst.Arg, src: Source) -> bool:
    """Whether an argument is a size, or several, in the calls that are seen."""
    if arg.star:
        return shaped(arg.value, src) is not None or has_sizes(arg.value, src)
    return surely_int(arg.value, src) or has_kind(arg.value, {"int"}, src)


def of_one(given: cst.BaseExpression, src: Source) -> Arguments | None:
    """The kind of the only argument."""
    atom = only(src.value(given))
    if isinstance(given, (cst.List, cst.Tuple, cst.ListComp)):
        return Arguments(False, True)
    if isinstance(atom, Host) and atom.kind in ("int", "size"):
        return Arguments(True, surely_int(given, src) or surely_shape(given, src))
    if isinstance(atom, Sequence) or (isinstance(atom, Host) and atom.kind in ("numpy", "list")):
        return Arguments(False, surely_list(resolved(given, src), src))
    return None


def surely_list(made: cst.BaseExpression, src: Source) -> bool:
    """Ex) [2.0, 3.0], x.tolist() where x has a dimension, and does not give a number"""
    if isinstance(made, cst.Call) and isinstance(made.func, cst.Attribute):
        return made.func.attr.value == "tolist" and surely_vector(made.func.value, src)
    return isinstance(made, (cst.List, cst.Tuple, cst.ListComp))


def has_sizes(node: cst.BaseExpression, src: Source) -> bool:
    atom = only(src.value(node))
    if isinstance(atom, Sequence):
        items = atom.items if atom.items is not None else (atom.element,)
        return all(isinstance(each := only(v), Host) and each.kind == "int" for v in items)
    return isinstance(atom, Host) and atom.kind == "size"


def rank_of(shape: cst.BaseExpression, src: Source, certain: bool = False) -> int | None:
    """The rank of the tensor that has a shape: 1 if that is not empty.

    Args:
        certain: for every caller, not only in the calls that are seen.
    """
    made = resolved(shape, src)
    receiver = None if isinstance(made, cst.Subscript) else shaped(made, src)
    tensor = src.tensor(receiver) if receiver is not None else None
    if tensor is None or receiver is None or (certain and not is_local(receiver, src)):
        return None
    return tensor.rank


# ---------------------------------------------------------------------------- casts and defaults


def cast(call: cst.Call, function: cst.Attribute, src: Source) -> Iterator[Finding]:
    """Ex) x.type(torch.cuda.FloatTensor)"""
    given = src.argument(call, "dtype", 0)
    types = legacy_types(given.value, src) if given is not None else []
    if given is None or not types:
        return
    tensor = src.tensor(function.value)
    on_device = tensor is not None and tensor.device.kind == ACCELERATOR
    places = {LEGACY_CONSTRUCTORS[name][1] for name in types}
    group = Group.MIGRATION
    related: tuple[Related, ...] = ()
    if places == {"cpu"}:
        message = "casts, and moves to the CPU"
        group = Group.MIGRATION if on_device else Group.PEDANTIC
        related = device_places(tensor, src) if tensor is not None and on_device else ()
    else:
        message = (
            "casts, and moves to the current GPU" if len(places) == 1 else "decides the device"
        )
    message = f"`.type({src.brief(given.value)})` {message}"
    fix = None
    if tensor is not None and len(types) == 1 and given.keyword is None:
        fix = conversion(function, given.value, types[0], on_device, src)
    yield src.finding(rule, given.value, message, fix, related, group)


def conversion(
    function: cst.Attribute, given: cst.BaseExpression, name: str, on_device: bool, src: Source
) -> Fix | None:
    """Ex) x.type(torch.LongTensor) -> x.to("cpu", torch.int64)"""
    dtype, place = LEGACY_CONSTRUCTORS[name]
    torch = src.imports.spell("torch")
    if torch is None:
        return None
    # A tensor on a GPU stays on that GPU; `.to("cuda")` would move it to the current one.
    device = "" if place == "cuda" and on_device else f'"{place}", '
    conditions = {
        TO_CPU: place == "cpu",
        TENSOR: surely_tensor(function.value, src),
        SAME_TYPE: is_local(given, src),
    }
    edits = (
        src.edits.replace(function.attr, "to"),
        src.edits.replace(given, f"{device}{torch.text}.{dtype}"),
        *torch.edits,
    )
    return Fix.safe_if("Name the device and the dtype", edits, conditions)


def default_dtype(call: cst.Call, src: Source) -> Fix | None:
    """Ex) torch.set_default_tensor_type(torch.DoubleTensor)"""
    torch = src.imports.spell("torch")
    types = legacy_types(call.args[0].value, src) if len(call.args) == 1 else []
    if torch is None or len(types) != 1 or call.args[0].keyword is not None:
        return None
    dtype, place = LEGACY_CONSTRUCTORS[types[0]]
    if place != "cpu" or dtype not in FLOATS:
        return None
    edits = (
        src.edits.replace(call.func, f"{torch.text}.set_default_dtype"),
        src.edits.replace(call.args[0].value, f"{torch.text}.{dtype}"),
        *torch.edits,
    )
    # It also makes the CPU the default device; where another one was, that is undone.
    conditions = {
        CPU_DEFAULT: not src.matches(SETS_OTHER_TYPE, "set_default_tensor_type"),
        SAME_TYPE: is_local(call.args[0].value, src),
    }
    return Fix.safe_if("Set the default dtype", edits, conditions)
