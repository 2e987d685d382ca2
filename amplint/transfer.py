"""The one engine of inference: what an operation of a library gives, from what its operands are.

Everything here is a pure function of values. Functions and classes of the project are `infer`'s
business; here a call is one of torch, of the builtins or of another library that amplint knows.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from amplint import dims, libraries, torch_ops
from amplint.dims import Call
from amplint.libraries import ScalerApi
from amplint.torch_ops import Factory, Result
from amplint.values import (
    ACCELERATOR,
    BOTTOM,
    CPU,
    MAX_KEYS,
    NO_DEVICE,
    NONE,
    PERHAPS_CPU,
    UNKNOWN,
    Arguments,
    Atom,
    Autocast,
    Blob,
    Device,
    DType,
    Host,
    Instance,
    Mapping,
    Method,
    NoGrad,
    Object,
    Place,
    Region,
    Sequence,
    Symbol,
    Tensor,
    Unknown,
    Value,
    Why,
    constant,
    join,
    join_devices,
    join_tensors,
    moved,
    one,
    only,
    ordered,
)

HALF = frozenset({"float16", "bfloat16", "half"})
FLOATS = HALF | {"float32", "float64"}
# Device words as people write them in arguments of `.to(...)`: the API's own vocabulary.
DEVICE_HINTS = frozenset(
    {"device", "dev", "gpu", "gpu_id", "cuda", "local_rank", "rank", "_device"}
)
HOST_DEVICES = ("cpu", "meta")
INT = one(Host("int"))
FLOAT = one(Host("float"))
BOOL = one(Host("bool"))
STR = one(Host("str"))
NUMBER = one(Host("number"))
OBJECT = one(Host("object"))
NUMPY = one(Host("numpy"))
NOTHING = one(NONE)

# Names under which torch's own modules keep what they also export at the top.
PRIVATE_MODULES = {
    "torch.nn.modules.": "torch.nn.",
    "torch.functional.": "torch.",
    "torch.Tensor.": "Tensor.",
    "torch._tensor.Tensor": "torch.Tensor",
    "torch.optim.optimizer.": "torch.optim.",
    "torch.cuda.amp.autocast_mode.": "torch.cuda.amp.",
    "torch.cuda.amp.grad_scaler.": "torch.cuda.amp.",
}


@dataclass(frozen=True)
class Site:
    """Where an operation stands: the autocast region around it, and how to give it as a reason."""

    region: Region | None
    why: Callable[[str], Why]


# ---------------------------------------------------------------------------- names


def canonical(name: str) -> str:
    """The public name of what torch keeps in a private module."""
    for private, public in PRIVATE_MODULES.items():
        if name.startswith(private):
            tail = (
                name[len(private) :].rsplit(".", 1)[-1]
                if private.endswith("modules.")
                else name[len(private) :]
            )
            return public + tail
    return name


def symbol_attribute(name: str, attribute: str) -> Value:
    full = canonical(f"{name}.{attribute}")
    if full.startswith("torch.") and full.count(".") == 1 and attribute in DTYPES:
        return one(DType(DTYPES[attribute]))
    if full in MATH_CONSTANTS:
        return FLOAT
    if full.count(".") > 8:
        return UNKNOWN  # a chain that a loop keeps growing
    return one(Symbol(full))


MATH_CONSTANTS = frozenset(
    {f"{m}.{n}" for m in ("math", "numpy") for n in ("inf", "nan", "pi", "e")} | {"torch.inf"}
)
DTYPES = {
    **{n: n for n in ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32")},
    **{n: n for n in ("int64", "uint8", "bool", "complex64", "complex128")},
    "half": "float16", "float": "float32", "double": "float64", "short": "int16", "int": "int32",
    "long": "int64",
}  # fmt: skip


# ---------------------------------------------------------------------------- tensors


def tensors_in(values: Iterable[Value]) -> list[Tensor]:
    """The tensors among the values, those in sequences included; a blob counts as one.

    What a value is on one path and on another is one tensor of which less is known, not two.
    """
    found: list[Tensor] = []
    for value in values:
        ways: list[Tensor] = []
        for atom in ordered(value):
            if isinstance(atom, Tensor):
                ways.append(atom)
            elif isinstance(atom, Blob):
                ways.append(Tensor(device=atom.device))
            elif isinstance(atom, Sequence):
                inner = atom.items if atom.items is not None else (atom.element,)
                found.extend(tensors_in(inner))
        if ways:
            found.append(join_tensors(ways))
    return found


def common_device(operands: list[Tensor]) -> Device:
    """Where an operation on these runs: only a 0-dim CPU tensor may join tensors elsewhere."""
    known = [t for t in operands if t.device.kind == ACCELERATOR]
    if known:
        return min((t.device for t in known), key=lambda d: d.why or _LAST)
    hosts = [t for t in operands if t.device.kind == "cpu"]
    if hosts and (len(hosts) == len(operands) or any(t.rank == 1 for t in hosts)):
        return CPU  # in memory of its own, which is not pinned
    return NO_DEVICE


_LAST = Why(Place("\U0010ffff", 0, 0, 0, 0), "")


MAX_UNSURE = 3  # operands that may or may not be 0-dim, told apart in all combinations


def promote(
    operands: list[Tensor], float_result: bool = False, numbers: frozenset[str] = frozenset()
) -> str | None:
    """Native type promotion among tensors; Python numbers never widen a float.

    `numbers`: the kinds of the Python numbers among the operands; they lift integers and bools.

    Tensors with dimensions decide before 0-dim ones of the same category; where that is unknown of
    one, the result is known if it comes to the same.
    """
    unsure = [place for place, tensor in enumerate(operands) if tensor.rank is None]
    if unsure and len({t.dtype for t in operands}) > 1:
        if len(unsure) > MAX_UNSURE:
            return None
        results = {
            promote(ranked, float_result, numbers) for ranked in with_ranks(operands, unsure)
        }
        return results.pop() if len(results) == 1 else None
    dtypes = []
    for rank_group in ([t for t in operands if t.rank != 0], [t for t in operands if t.rank == 0]):
        group = [t.dtype for t in rank_group]
        if any(d is None for d in group):
            return None
        dtypes.append([d for d in group if d is not None])
    dimensioned, scalars = dtypes
    floats = [d for d in dimensioned if d in FLOATS] or (
        [d for d in scalars if d in FLOATS] if not any(d in FLOATS for d in dimensioned) else []
    )
    if floats:
        return widest(floats)
    if float_result:
        return "float32"
    candidates = set(dimensioned or scalars)
    if candidates == {"bool"}:  # any integer, with dimensions or not, is of a higher category
        candidates = set(scalars) - candidates or candidates
    if len(candidates) != 1:
        return None
    dtype = candidates.pop()
    if "float" in numbers:
        return "float32"
    if numbers - {"bool", "int"} or (dtype == "bool" and numbers):
        return "int64" if numbers == {"int"} else None
    return dtype


def with_ranks(operands: list[Tensor], unsure: list[int]) -> Iterator[list[Tensor]]:
    """The operands, with and without dimensions where that is unknown, in all combinations."""
    for ranks in itertools.product((0, 1), repeat=len(unsure)):
        known = dict(zip(unsure, ranks, strict=True))
        yield [replace(t, rank=known.get(n, t.rank)) for n, t in enumerate(operands)]


def number_kinds(values: Iterable[Value]) -> frozenset[str]:
    """The kinds of host values among the arguments that may be numbers; "?" for what may be any."""
    kinds: set[str] = set()
    for value in values:
        for atom in value:
            if isinstance(atom, Host) and atom.kind not in ("none", "str"):
                kinds.add(atom.kind)
            elif isinstance(atom, Unknown):
                kinds.add("?")
    return frozenset(kinds)


def widest(floats: Iterable[str]) -> str | None:
    kinds = set(floats)
    if "float64" in kinds:
        return "float64"
    if "float32" in kinds or {"float16", "bfloat16"} <= kinds:
        return "float32"
    return kinds.pop() if len(kinds) == 1 else "half"


def region_dtype(region: Region) -> str:
    """The 16-bit dtype of an enabled region, "half" where it is not known which."""
    if region.dtype is not None:
        return region.dtype
    return libraries.DEFAULT_DTYPES.get(region.device or "", "half")


def autocast_dtype(
    name: str, operands: list[Tensor], arguments: Arguments, site: Site
) -> tuple[str | None, Why | None] | None:
    """What autocast makes of the result's dtype; None where it does not touch the operation."""
    region = site.region
    if region is None or region.enabled is False:
        return None
    rule = torch_ops.policy(name, region.device)
    if rule is None or rule == "banned":
        return None
    if rule == "unknown":
        return (None, None)
    elsewhere = "cpu" if region.device not in (None, "cpu") else ACCELERATOR
    if region.device is not None and any(
        t.device.kind == elsewhere and t.rank != 0 for t in operands
    ):
        return None
    if any(t.dtype == "float64" for t in operands):
        return (None, None)
    if operands and all(t.dtype is not None and t.dtype not in FLOATS for t in operands):
        return None  # only floating tensors are eligible
    if rule == "half":
        return (region_dtype(region), region.why)
    if rule == "fp32" or (rule == "fp32-unless-dtype" and not arguments.has("dtype")):
        return ("float32", site.why("autocast runs this in float32"))
    if rule == "promote":
        dtypes = [t.dtype for t in operands]
        if all(d is not None for d in dtypes):
            return (widest([d for d in dtypes if d in FLOATS] or ["float32"]), region.why)
    return (None, None)


def tensor_result(
    name: str, result: Result, operands: list[Tensor], arguments: Arguments, site: Site
) -> Tensor:
    """The tensor that an operation of RESULTS gives."""
    first = operands[0] if operands else Tensor()
    # A view, and what is named by its sizes, stay where they are, wherever the sizes come from.
    stays = result.kind == "same" or result.rank == "sizes"
    device = CPU if result.device == "cpu" else common_device(operands[: 1 if stays else None])
    dtype: str | None
    why: Why | None = None
    word = division_dtype(arguments) or result.dtype
    if word in ("same", "float-of", "long-of"):
        dtype, why = first.dtype, first.settled_dtype
        if word == "float-of" and dtype is not None and dtype not in FLOATS:
            dtype = "float32"
        if word == "long-of" and dtype is not None and dtype not in FLOATS:
            dtype = "int64"
    elif word in ("promote", "promote-float"):
        # What is joined has the same number of dimensions.
        ranked = [replace(t, rank=1) for t in operands] if result.rank == "some" else operands
        dtype = promote(ranked, word == "promote-float", number_kinds(arguments.all))
        reasons = [t.settled_dtype for t in operands if t.dtype == dtype and t.settled_dtype]
        why = min(reasons) if reasons else None
    elif word in ("default",):
        dtype = "float32"
    elif word in ("arg", "unknown"):
        dtype = None
    else:
        dtype = word
        why = site.why(f"cast to {dtype} here") if name in torch_ops.CASTS else None
    if result.rank == "reduction" and len({t.dtype for t in operands}) > 1:
        dtype, why = None, None  # losses of mixed dtypes do not agree on what they do
    cast = autocast_dtype(name, operands, arguments, site)
    if cast is not None and word not in ("bool", "int64"):
        dtype, why = (None, None) if word == "unknown" else cast
    explicit = arguments.get("dtype")
    for given in arguments.positional if explicit is None else ():
        if isinstance(only(given), DType):  # `x.softmax(-1, torch.float32)`
            explicit = given
    if explicit is not None and explicit != NOTHING:
        dtype = dtype_of(explicit)
        why = site.why(f"made as {dtype} here") if dtype is not None else None
    rank = result_rank(result.rank, operands, arguments)
    made = Tensor(dtype, device, rank, result_grad(name, dtype, operands), why)
    of_method = name.startswith("Tensor.") and operands
    call = Call(one(first), arguments) if of_method else dims.of_function(arguments)
    return with_dims(made, dims.of_result(name, result.rank, call))


def division_dtype(arguments: Arguments) -> str | None:
    """The dtype word of a division that rounds: the quotient of integers is one."""
    given = arguments.keywords.get("rounding_mode", NOTHING)
    if given == NOTHING:
        return None
    return "promote" if isinstance(constant(given), str) else "unknown"


def result_rank(word: str, operands: list[Tensor], arguments: Arguments) -> int | None:
    """Whether the result has dimensions, where their number is unknown."""
    ranks = [t.rank for t in operands]
    if word == "same":
        return ranks[0] if ranks else None
    if word == "sizes":
        sizes = arguments.positional
        empty = any(isinstance(a, Sequence) and a.items == () for v in sizes[:1] for a in v)
        return 1 if sizes and not empty else None
    return 1 if word == "some" or (word == "broadcast" and 1 in ranks) else None


def with_dims(tensor: Tensor, number: int | None) -> Tensor:
    """The tensor with so many dimensions; as it is, where their number is unknown."""
    if number is None:
        return tensor
    return replace(tensor, rank=min(number, 1), dims=number or None)


def result_grad(name: str, dtype: str | None, operands: list[Tensor]) -> bool | None:
    if name in torch_ops.DETACHED:
        return False
    if dtype is not None and dtype not in FLOATS:
        return False
    if any(t.grad for t in operands):
        return True
    return False if operands and all(t.grad is False for t in operands) else None


def dtype_of(value: Value) -> str | None:
    """The dtype that a `dtype=` argument names."""
    atom = only(value)
    if isinstance(atom, DType):
        return atom.name
    if isinstance(atom, Symbol) and atom.name in (
        "builtins.float",
        "builtins.int",
        "builtins.bool",
    ):
        return {"float": "float64", "int": "int64", "bool": "bool"}[atom.name[9:]]
    return None


def device_of(value: Value, hint: str, site: Site) -> Device:
    """The device that an argument names: of `device=`, `.to(...)`, `torch.device(...)`.

    A choice between an accelerator and the CPU (`"cuda" if available else "cpu"`) is the
    accelerator: that is where it matters. What cannot be known is a device where the argument is
    called one.
    """
    kinds: set[str | None] = set()
    names: set[str] = set()
    reasons: set[Why] = set()
    for atom in value:
        device = device_of_atom(atom, site)
        kinds.add(device.kind)
        if device.name:
            names.add(device.name)
        if device.why is not None:
            reasons.add(device.why)
    reason = min(reasons) if reasons else site.why("moved to the device here")
    if ACCELERATOR in kinds:
        name = names.pop() if len(names) == 1 and kinds == {ACCELERATOR} else None
        return Device(ACCELERATOR, reason, name)
    if kinds == {"cpu"}:
        return CPU
    if hint in DEVICE_HINTS or hint.endswith(("device", "_gpu")):
        return Device(ACCELERATOR, reason)
    return NO_DEVICE


def device_of_atom(atom: Atom, site: Site) -> Device:
    if isinstance(atom, Device):
        return atom
    if isinstance(atom, Tensor | Blob):
        return atom.device
    if isinstance(atom, Host) and atom.known and isinstance(atom.const, str):
        kind = atom.const.partition(":")[0]
        if kind in HOST_DEVICES:
            return CPU
        return Device(ACCELERATOR, site.why(f"moved to `{atom.const}` here"), atom.const)
    if isinstance(atom, Host) and atom.kind == "int":
        name = f"cuda:{atom.const}" if atom.known else None
        return Device(ACCELERATOR, site.why("moved to the device here"), name)
    return NO_DEVICE


# ---------------------------------------------------------------------------- attributes


def attribute(atom: Atom, name: str, site: Site) -> Value:
    """`atom.name` for what is not of the project."""
    if isinstance(atom, Symbol):
        return symbol_attribute(atom.name, name)
    if isinstance(atom, Tensor):
        return tensor_attribute(atom, name, site)
    if isinstance(atom, Blob):
        return blob_attribute(atom, name)
    if isinstance(atom, Object):
        return object_attribute(atom, name)
    if isinstance(atom, Device) and name == "type":
        return one(Host("str", atom.name.partition(":")[0], True)) if atom.name else STR
    if isinstance(atom, Device) and name == "index":
        return INT
    if atom == NONE:
        return BOTTOM
    if isinstance(atom, Host):
        if atom.kind == "numpy":
            sizes = {"shape": one(Host("size")), "size": INT, "ndim": INT}
            return sizes.get(name) or one(Method(atom, name))
        return one(Method(atom, name))
    if isinstance(atom, Sequence) and atom.items is not None and name in atom.names:
        return atom.items[atom.names.index(name)]
    if isinstance(atom, Mapping) and name in dict(atom.items):
        return dict(atom.items)[name]  # a namespace, or a dict whose keys are its attributes
    if isinstance(atom, Sequence) and name not in SEQUENCE_ATTRIBUTES:
        return UNKNOWN  # what is asked for it is something else
    if isinstance(atom, Sequence | Mapping | Autocast | NoGrad):
        return one(Method(atom, name))
    return UNKNOWN


SEQUENCE_ATTRIBUTES = frozenset(name for kind in (list, tuple, set, deque) for name in dir(kind))


def tensor_attribute(tensor: Tensor, name: str, site: Site) -> Value:
    result = torch_ops.RESULTS.get(f"Tensor.{name}")
    if name == "device":
        return one(tensor.device) if tensor.device.kind else UNKNOWN
    if name == "dtype":
        return one(DType(tensor.dtype)) if tensor.dtype else UNKNOWN
    if name in ATTRIBUTES and result is not None:
        return from_result(f"Tensor.{name}", result, [tensor], Arguments(), site)
    return one(Method(tensor, name))


# Attributes of a tensor that are values, not methods.
ATTRIBUTES = frozenset(
    """
    shape ndim is_cuda is_cpu is_leaf is_meta is_mps is_xpu is_xla is_sparse is_quantized
    is_nested requires_grad retains_grad layout grad_fn grad data T H mT mH real imag itemsize
    nbytes output_nr
    """.split()
)


def blob_attribute(blob: Blob, name: str) -> Value:
    """A blob may be a tensor or a container: its methods are those of both."""
    if name == "device":
        return one(blob.device) if blob.device.kind else UNKNOWN
    if name in ATTRIBUTES:
        return tensor_attribute(Tensor(device=blob.device), name, _NOWHERE)
    if (
        name in CONTAINER_METHODS
        or f"Tensor.{name}" in torch_ops.RESULTS
        or f"Tensor.{name}" in torch_ops.FACTORIES
        or name in ("to", "pin_memory")
    ):
        return one(Method(blob, name))
    return one(blob)


CONTAINER_METHODS = frozenset({"items", "values", "keys", "get", "pop", "copy"})
_NOWHERE = Site(None, lambda text: Why(Place("", 0, 0, 0, 0), text))


MODULE_TENSORS = frozenset(
    {"weight", "bias", "running_mean", "running_var", "num_batches_tracked", "in_proj_weight"}
)
_ON_DEVICE = Device(ACCELERATOR)


def object_attribute(thing: Object, name: str) -> Value:
    if name == "device":
        return one(thing.device) if thing.device.kind else UNKNOWN
    if thing.kind == "module" and name == "module":
        return one(thing)
    if name in MODULE_TENSORS and thing.kind == "module" and is_layer(thing.type):
        device = thing.device if thing.device.kind else _ON_DEVICE
        rank = 0 if name == "num_batches_tracked" else 1
        return one(Tensor(None, device, rank, name in ("weight", "bias") or None))
    if thing.kind == "optimizer" and name == "param_groups":
        return PARAM_GROUPS
    if thing.kind == "limits":
        return INT if thing.type == "torch.iinfo" or name == "bits" else FLOAT
    return one(Method(thing, name))


def is_layer(type_name: str) -> bool:
    """A module whose `weight` is a tensor: one of torch's, or one that nobody knows, which was
    called like a module."""
    return type_name in torch_ops.MODULES or type_name == "?"


PARAM_GROUPS = one(
    Sequence(
        None,
        one(
            Mapping(
                UNKNOWN, (("params", one(Sequence(None, one(Tensor(None, _ON_DEVICE, 1, True))))),)
            )
        ),
    )
)


# ---------------------------------------------------------------------------- calls


def call(callee: Atom, arguments: Arguments, site: Site) -> Value:
    """What calling a library value gives."""
    if isinstance(callee, Symbol):
        return call_symbol(callee.name, arguments, site)
    if isinstance(callee, Method):
        return call_method(callee, arguments, site)
    if isinstance(callee, Object):
        return call_object(callee, arguments, site)
    if isinstance(callee, Autocast | NoGrad):
        return arguments.positional[0] if arguments.positional else UNKNOWN  # as a decorator
    if callee == NONE:
        return BOTTOM
    return UNKNOWN


def call_symbol(name: str, arguments: Arguments, site: Site) -> Value:
    name = canonical(name)
    if name in GRADIENT_NORMS:
        device = Device(ACCELERATOR, site.why("the norm of gradients on the device"))
        return one(Tensor("float32", device, 0, False))
    if name in PARAMETERS:
        return one(parameter(arguments, site))
    if name in libraries.AUTOCASTS:
        return one(autocast(name, arguments, site))
    if name in libraries.NO_GRAD:
        return one(NoGrad())
    if name in ("torch.finfo", "torch.iinfo"):
        return one(Object("limits", name))
    if name in torch_ops.FACTORIES:
        return factory(name, torch_ops.FACTORIES[name], arguments, site)
    if name == "torch.device":
        given = arguments.get("type", 0) or arguments.get("device") or UNKNOWN
        device = device_of(given, "device", site)
        return one(
            replace(device, why=site.why("the device is chosen here"))
            if device.kind == ACCELERATOR
            else device
        )
    if name in torch_ops.RESULTS:
        return from_result(
            name,
            torch_ops.RESULTS[name],
            tensors_in(arguments.positional or arguments.all),
            arguments,
            site,
        )
    if name in torch_ops.MODULES:
        return one(module(name, arguments))
    if name in libraries.MODULE_WRAPPERS:
        inner = arguments.get("module", 0)
        return inner if inner and inner != UNKNOWN else one(Object("module", "?"))
    kind = libraries.kind(name)
    if kind is not None:
        return one(library_object(kind, name, arguments, site))
    if name in libraries.PASS_THROUGH:
        return pass_through(libraries.PASS_THROUGH[name], arguments)
    if name in CONTAINERS:
        name = CONTAINERS[name]
    if name == "collections.defaultdict":
        made = [call(a, Arguments(), site) for v in arguments.positional[:1] for a in v]
        return one(Mapping(join(made)))
    if name == "collections.namedtuple":
        return named_tuple_type(arguments)
    if name.startswith("builtins."):
        return builtin(name[9:], arguments, site)
    if name in PARAMETER_CONTAINERS:
        return one(Object("module", name))
    if name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper():
        return one(Object("module", name))
    if name.startswith(MODULE_FACTORIES) and not name.endswith(("Config", "Tokenizer")):
        return one(Object("module", name))
    if name in libraries.COPIES and arguments.positional:
        return arguments.positional[0]
    if name in torch_ops.LEGACY_CONSTRUCTORS:
        return one(with_dims(legacy_tensor(name, site), dims.of_constructor(arguments)))
    if name.startswith("numpy."):
        return one(array(name, arguments))
    if name.startswith(("math.", "time.")):
        return FLOAT
    if name in HOST_FUNCTIONS:
        return OBJECT
    return UNKNOWN


# What behaves like a container of the builtins, as far as what is in it goes.
CONTAINERS = {
    "collections.OrderedDict": "builtins.dict",
    "collections.deque": "builtins.set",
    "types.SimpleNamespace": "builtins.dict",
    "argparse.Namespace": "builtins.dict",
}


def named_tuple_type(arguments: Arguments) -> Value:
    """Ex) namedtuple("Output", "loss logits"), namedtuple("Output", ["loss", "logits"])"""
    given = arguments.get("field_names", 1) or UNKNOWN
    names = constant(given)
    if isinstance(names, str):
        fields = names.replace(",", " ").split()
    else:
        atom = only(given)
        items = atom.items if isinstance(atom, Sequence) and atom.items is not None else ()
        fields = [str(constant(item)) for item in items]
    return one(Object("namedtuple", " ".join(fields))) if fields else UNKNOWN


def named_tuple(names: tuple[str, ...], arguments: Arguments) -> Value:
    if arguments.stars:
        return UNKNOWN
    values = [arguments.get(name, position) for position, name in enumerate(names)]
    items = tuple(UNKNOWN if value is None else value for value in values)
    return one(Sequence(items, BOTTOM, names=names))


def array(name: str, arguments: Arguments) -> Host:
    """What a function of numpy builds, its dtype where numpy's defaults or an argument tell it."""
    shape = arguments.positional[0] if arguments.positional else BOTTOM
    dimensioned = any(a != Sequence((), BOTTOM) for a in shape) and not arguments.stars
    if name in libraries.NUMPY_FLOAT64:
        position = libraries.NUMPY_FLOAT64[name]
        default: str | None = "float64"
    elif name in libraries.NUMPY_SIZED:
        sized = arguments.has("size", libraries.NUMPY_SIZED[name])
        return Host("numpy", dtype="float64", rank=1) if sized else Host("numpy")
    elif name in libraries.NUMPY_DATA:
        position = libraries.NUMPY_DATA[name]
        inferred = of_numbers([shape]) if is_python_numbers(shape) else None
        default = "float64" if inferred == "float32" else None
        dimensioned = isinstance(only(shape), Sequence)
    else:
        return Host("numpy")
    given = arguments.get("dtype", position)
    if arguments.stars:
        return Host("numpy")
    dtype = array_dtype_of(given) if given is not None else default
    return Host("numpy", dtype=dtype, rank=1 if dimensioned else None)


def is_python_numbers(value: Value) -> bool:
    """Whether the value is a number, or a nest of sequences of numbers, of Python's own."""
    return bool(value) and all(
        all(map(is_python_numbers, atom.items if atom.items is not None else (atom.element,)))
        if isinstance(atom, Sequence)
        else isinstance(atom, Host) and atom.kind in ("int", "float", "bool")
        for atom in value
    )


def array_dtype_of(value: Value) -> str | None:
    """The dtype that an argument of numpy names: np.float32, "float32", float."""
    atom = only(value)
    name = constant(value)
    if isinstance(atom, Symbol) and atom.name.startswith("numpy."):
        name = {"double": "float64", "single": "float32", "half": "float16"}.get(
            atom.name[6:], atom.name[6:]
        )
    if isinstance(name, str):
        return name if name in DTYPES.values() else None
    return dtype_of(value)


def legacy_tensor(name: str, site: Site) -> Tensor:
    """Ex) torch.cuda.FloatTensor(n), torch.LongTensor([1, 2])"""
    dtype, where = torch_ops.LEGACY_CONSTRUCTORS[name]
    device = CPU if where == "cpu" else Device(ACCELERATOR, site.why("built on the device here"))
    dtype = "float32" if dtype == "default" else dtype
    return Tensor(dtype, device, 1, False, site.why(f"made as {dtype} here"))


def legacy_type(value: Value | None) -> str | None:
    """The type that `x.type(torch.LongTensor)` or `x.type("torch.LongTensor")` names."""
    atom = only(value or UNKNOWN)
    name = canonical(atom.name) if isinstance(atom, Symbol) else constant(value)
    return name if isinstance(name, str) and name in torch_ops.LEGACY_CONSTRUCTORS else None


GRADIENT_NORMS = frozenset(
    f"torch.nn.utils.{home}{name}"
    for home in ("", "clip_grad.")
    for name in ("clip_grad_norm_", "clip_grad_norm", "get_total_norm")
)
PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})


def parameter(arguments: Arguments, site: Site) -> Tensor:
    """A parameter moves to the device with its module, wherever its data were made."""
    given = arguments.get("data", 0)
    data = tensors_in([given]) if given is not None else []
    device = Device(ACCELERATOR, site.why("the module's tensors live on the device"))
    first = data[0] if data else Tensor()
    grad = constant(arguments.get("requires_grad", 1)) is not False
    return replace(first, device=device, grad=grad, fresh=None)


# Libraries whose functions of these names build modules.
MODULE_FACTORIES = ("torchvision.models.", "timm.create_model", "timm.models.create_model")
HOST_FUNCTIONS = frozenset({"argparse.ArgumentParser", "logging.getLogger", "os.getenv"})


def autocast(name: str, arguments: Arguments, site: Site) -> Autocast:
    """The context that a call of one of autocast's names builds."""
    api = libraries.AUTOCASTS[name]
    given = {
        parameter: arguments.get(parameter, position)
        for position, parameter in enumerate(api.parameters)
    }
    device: str | None = api.device
    if given.get("device_type") is not None:
        kind = constant(given["device_type"])
        device = kind.partition(":")[0] if isinstance(kind, str) else None
    dtype = api.dtype
    if given.get("dtype") is not None:
        dtype = dtype_of(given["dtype"] or UNKNOWN) or "half"
    enabled = _switch(given.get("enabled"), True)
    cache = _switch(given.get("cache_enabled"), True)
    if arguments.stars:
        enabled = None if enabled else enabled
    return Autocast(device, dtype, enabled, cache, site.why("the autocast region is opened here"))


def _switch(value: Value | None, default: bool) -> bool | None:
    if value is None:
        return default
    given = constant(value)
    return bool(given) if isinstance(given, bool | int) else None


def factory(name: str, facts: Factory, arguments: Arguments, site: Site) -> Value:
    """What a factory builds: zeros, arange, rand_like, new_zeros ..."""
    like = tensors_in(arguments.positional[:1]) if facts.device == "like" else []
    dtype = factory_dtype(facts, like, arguments)
    device = like[0].device if like else (NO_DEVICE if facts.device == "like" else CPU)
    given = arguments.get("device")
    if given is None and name == "torch.as_tensor":
        given = arguments.get("device", 2)
    if given is not None:
        device = CPU if given == NOTHING else device_of(given, arguments.hint, site)
    elif arguments.more_keywords:
        device = NO_DEVICE
    elif facts.dtype == "data" and arguments.positional:
        device = device_of_data(arguments.positional[0], name)
    receiver = name.startswith("Tensor.")
    shaped = replace(arguments, positional=arguments.positional[receiver:])
    rank = factory_rank(facts, shaped)
    grad = constant(arguments.get("requires_grad")) is True
    inherits = bool(like) and arguments.get("dtype") is None
    why = like[0].settled_dtype if inherits else site.why(f"made as {dtype} here")
    made = Tensor(dtype, device, rank, grad, why if dtype is not None else None, fresh=name)
    return one(with_dims(made, dims.of_factory(name, facts, shaped)))


def device_of_data(data: Value, name: str) -> Device:
    """A list is made a tensor of the CPU, a tensor stays where it is."""
    data -= {NONE}
    tensors = tensors_in([data])
    if len(data) > 1 and not all(isinstance(atom, Tensor) for atom in data):
        return join_devices([CPU, *(tensor.device for tensor in tensors)])
    if not tensors and name != "torch.tensor" and data == UNKNOWN:
        return NO_DEVICE
    return tensors[0].device if tensors else CPU


def factory_dtype(facts: Factory, like: list[Tensor], arguments: Arguments) -> str | None:
    given = arguments.get("dtype")
    if given is not None:
        return dtype_of(given)
    if arguments.more_keywords:
        return None
    if facts.dtype == "default":
        return "float32"
    if facts.dtype == "like":
        return like[0].dtype if like else None
    if facts.dtype == "fill":
        return of_numbers(
            list(arguments.positional[1:2])
            + [v for k, v in arguments.keywords.items() if k == "fill_value"]
        )
    if facts.dtype == "numbers":
        return of_numbers(list(arguments.positional))
    if facts.dtype == "data":
        data = only(arguments.positional[0]) if arguments.positional else None
        if isinstance(data, Host) and data.kind == "numpy":
            return data.dtype
        return of_numbers(list(arguments.positional[:1]))
    return facts.dtype if facts.dtype in DTYPES.values() else None


def of_numbers(values: list[Value]) -> str | None:
    """The dtype torch infers from Python numbers; None where one is not certainly a number."""
    kinds: set[str] = set()
    for value in values:
        for atom in value:
            if isinstance(atom, Sequence):
                inner = of_numbers(list(atom.items) if atom.items is not None else [atom.element])
                if inner is None:
                    return None
                kinds.add({"int64": "int", "float32": "float", "bool": "bool"}.get(inner, inner))
            elif isinstance(atom, Host) and atom.kind in ("int", "float", "bool"):
                kinds.add(atom.kind)
            elif isinstance(atom, Tensor) and atom.dtype:
                kinds.add(atom.dtype)
            else:
                return None
    if not kinds:
        return None
    if "float" in kinds:
        return "float32"
    if kinds <= {"int", "bool"}:
        return "int64" if "int" in kinds else "bool"
    return kinds.pop() if len(kinds) == 1 else None


def factory_rank(facts: Factory, arguments: Arguments) -> int | None:
    """Whether what is built has dimensions, where their number is unknown."""
    if facts.rank not in ("like", "data", "sizes"):
        return None
    given = [only(value) for value in dims.shaping(facts, arguments)]
    if any(isinstance(a, Sequence) if facts.rank == "data" else is_shape(a) for a in given):
        return 1
    return next((a.rank for a in given if isinstance(a, Tensor | Host)), None)


def is_shape(atom: Atom | None) -> bool:
    """The shape of a tensor, taken for one with dimensions."""
    return isinstance(atom, Host) and atom.kind == "size"


def module(name: str, arguments: Arguments) -> Object:
    facts = torch_ops.MODULES[name]
    if facts.kind == "container":
        return Object("module", name, holds=join(held(v) for v in arguments.all))
    if facts.kind != "criterion":
        return Object("module", name, dtype=dtype_of(arguments.get("dtype") or BOTTOM))
    reduction = arguments.get("reduction")
    reduced = reduction is None or constant(reduction) in ("mean", "sum")
    return Object("criterion", name, rank=0 if reduced and not arguments.stars else None)


def held(value: Value) -> Value:
    """The modules in what a container is given: a module, or a list or dict of them."""
    found: list[Value] = []
    for atom in value:
        if isinstance(atom, Instance):
            found.append(one(atom))
        elif isinstance(atom, Sequence):
            found += [held(v) for v in (*(atom.items or ()), atom.element)]
        elif isinstance(atom, Mapping):
            found += [held(v) for v in (atom.element, *(v for _, v in atom.items))]
        elif isinstance(atom, Object) and atom.kind in ("module", "criterion"):
            found.append(one(SOME_MODULE))
    return join(found)


SOME_ACCELERATOR = Object("accelerator", "?", _ON_DEVICE)
SOME_MODULE = Object("module", "?")
CONTAINER_MODULES = frozenset(
    f"torch.nn.{name}" for name in ("ModuleList", "Sequential", "ModuleDict")
)
PARAMETER_CONTAINERS = frozenset({"torch.nn.ParameterList", "torch.nn.ParameterDict"})


def content(thing: Object) -> Value | None:
    """An element of a container of modules or parameters; None of other objects."""
    if thing.type in PARAMETER_CONTAINERS:
        device = thing.device if thing.device.kind else _ON_DEVICE
        return one(Tensor(None, device, None, True))
    if thing.type in CONTAINER_MODULES:
        return join(one(on_device_of(atom, thing)) for atom in thing.holds) or one(SOME_MODULE)
    return None


def on_device_of(atom: Atom, thing: Object) -> Atom:
    """A module in a container is where the container is."""
    if isinstance(atom, Object | Instance) and thing.device.kind is not None:
        return replace(atom, device=thing.device)
    return atom


def library_object(kind: str, name: str, arguments: Arguments, site: Site) -> Object:
    if kind == "scaler":
        enabled = _switch(arguments.get("enabled"), True)
        device = scaler_device(libraries.SCALERS[name], arguments, site)
        return Object(kind, name, device, enabled=None if arguments.stars else enabled)
    if kind == "accelerator":
        device = Device(ACCELERATOR, site.why("the device is chosen here"))
        return Object(kind, name, device)
    if name in libraries.LOADERS_ON_DEVICE:
        return Object(kind, name, Device(ACCELERATOR, site.why("its batches come on the device")))
    return Object(kind, name, host_memory(name, arguments, site) if kind == "loader" else NO_DEVICE)


def host_memory(name: str, arguments: Arguments, site: Site) -> Device:
    """Where the batches of a loader are: in pinned memory, if it is told to.

    What a function of the user's own collates need not be tensors, nor be pinned.
    """
    pins = constant(arguments.get("pin_memory", 7)) is True
    own = arguments.get("collate_fn", 6) or NOTHING
    if pins and own == NOTHING and name.startswith(libraries.PINNING_LOADERS):
        return Device("cpu", site.why("this loader pins its batches"), pinned=True)
    return CPU


def scaler_device(api: ScalerApi, arguments: Arguments, site: Site) -> Device:
    """The host, for a scaler that keeps its scale there; what else it is, nobody needs to know."""
    given = arguments.get("device", 0) if "device" in api.parameters[:1] else None
    host = api.device == "cpu" if given is None else device_of(given, "", site).kind == CPU.kind
    return CPU if host else NO_DEVICE


def pass_through(how: str, arguments: Arguments) -> Value:
    given = arguments.positional
    if not given:
        given = tuple(v for k, v in arguments.keywords.items() if k in ("iterable", "sequence"))
    if not given:
        return one(Sequence((), BOTTOM))
    if how == "elements":
        return join(one(a) if is_loader(a) else as_sequence(a) for a in given[0])
    batches = any(is_loader(atom) for value in given for atom in value)
    if how == "enumerate":
        pair = Sequence((INT, iterate(given[0])), UNKNOWN)
        return one(Sequence(None, one(pair), batches))
    if how == "zip":
        row = Sequence(tuple(iterate(value) for value in given), UNKNOWN)
        return one(Sequence(None, one(row), batches))
    return one(Sequence(None, join(iterate(value) for value in given), batches))


def is_loader(atom: Atom) -> bool:
    """Whether iterating the atom gives one batch after the other."""
    if isinstance(atom, Object):
        return atom.kind == "loader"
    return isinstance(atom, Sequence) and atom.batches


def as_sequence(atom: Atom) -> Value:
    if isinstance(atom, Unknown):
        return UNKNOWN
    if isinstance(atom, Sequence):
        return one(atom)
    if atom == NONE:
        return BOTTOM
    return one(Sequence(None, iterate(one(atom))))


def builtin(name: str, arguments: Arguments, site: Site) -> Value:
    given = arguments.positional
    kinds = {
        "float": FLOAT, "int": INT, "bool": BOOL, "str": STR, "len": INT, "id": INT, "repr": STR,
        "isinstance": BOOL, "issubclass": BOOL, "hasattr": BOOL, "callable": BOOL, "print": NOTHING,
        "format": STR, "hash": INT, "ord": INT, "chr": STR, "input": STR, "setattr": NOTHING,
        "any": BOOL, "all": BOOL, "divmod": UNKNOWN, "open": OBJECT,
    }  # fmt: skip
    if name in kinds:
        return kinds[name]
    if name == "range":
        return one(Sequence(None, INT))
    if name in ("dict",):
        if not given:
            named = {k: v for k, v in arguments.keywords.items() if k != "**"}
            element = join(arguments.keywords.values())
            return one(Mapping(element, tuple(sorted(named.items(), key=_first))))
        return join(as_mapping(a) for a in given[0])
    if name in ("set", "frozenset"):
        return join(as_sequence(a) for a in given[0]) if given else one(Sequence(None, BOTTOM))
    if name in ("max", "min", "sum") and given:
        if len(given) == 1 and name != "sum":
            return iterate(given[0])
        if name == "sum":
            element = iterate(given[0])
            start = given[1] if len(given) > 1 else one(Host("int", 0, True))
            return binary("Add", start, element, site) if element else start
        return join(given)
    if name == "abs" and given:
        return join(
            one(replace(a, fresh=None))
            if isinstance(a, Tensor)
            else one(Host("int" if a.kind == "bool" else a.kind))
            if isinstance(a, Host)
            else UNKNOWN
            for a in given[0]
        )
    if name == "round" and given:
        return INT if len(given) == 1 else NUMBER
    if name == "sorted" and given:
        return join(as_sequence(a) for a in given[0])
    if name == "next" and given:
        return iterate(given[0])
    if name in ("super", "getattr", "map", "filter", "type", "vars", "globals", "locals"):
        return UNKNOWN
    return UNKNOWN


def as_mapping(atom: Atom) -> Value:
    """`dict(x)` of a mapping, or of pairs."""
    if isinstance(atom, Mapping | Blob):
        return one(atom)
    if not isinstance(atom, Sequence):
        return UNKNOWN
    pairs = [p for v in (atom.items or (atom.element,)) for p in v]
    if not all(isinstance(p, Sequence) and p.items is not None for p in pairs):
        return UNKNOWN
    rows = [p.items for p in pairs if isinstance(p, Sequence) and p.items and len(p.items) == 2]
    keys = [constant(row[0]) for row in rows]
    items = {k: row[1] for k, row in zip(keys, rows, strict=True) if isinstance(k, str)}
    named = items if atom.items is not None and len(items) == len(rows) else {}
    return one(Mapping(join(row[1] for row in rows), tuple(sorted(named.items(), key=_first))))


def _first(pair: tuple[str, Value]) -> str:
    return pair[0]


def call_object(thing: Object, arguments: Arguments, site: Site) -> Value:
    if thing.kind == "criterion":
        operands = tensors_in(arguments.all)
        device = common_device(operands)
        if device.kind is None and not any(t.device.kind == "cpu" for t in operands):
            device = Device(ACCELERATOR, site.why("a criterion's output"))
        cast = autocast_dtype(thing.type, operands, arguments, site)
        dtype, why = cast if cast is not None else (promote(operands) if operands else None, None)
        return one(Tensor(dtype, device, thing.rank, True, why))
    if thing.kind == "module":
        return call_module(thing, arguments, site)
    if thing.kind == "namedtuple":
        return named_tuple(tuple(thing.type.split()), arguments)
    return UNKNOWN


def call_module(thing: Object, arguments: Arguments, site: Site) -> Value:
    """What a module gives: for torch's own a tensor, for others "a model's output"."""
    operands = tensors_in(arguments.all)
    device = output_device(operands, thing.device, site)
    facts = torch_ops.MODULES.get(thing.type)
    if facts is None or facts.kind == "container" or facts.returns == "any":
        return one(Blob(device, "output"))
    first = operands[0] if operands else Tensor()
    dtype, why = (
        (first.dtype, first.settled_dtype) if facts.dtype == "same" else (thing.dtype, None)
    )
    cast = autocast_dtype(thing.type, operands, arguments, site)
    if cast is not None:
        dtype, why = cast
    rank = {"some": 1, "same": first.rank}.get(facts.rank)
    made = Tensor(dtype, device, rank, True, why)
    tensor = with_dims(made, dims.of_layer(thing.type, facts, dims.of_function(arguments)))
    if facts.returns == "tensors":
        # The second is a state, which may be a pair itself, or weights.
        rest = one(Blob(device, "output"))
        return one(Sequence((one(tensor), rest), join([one(tensor), rest])))
    return one(tensor)


def output_device(operands: list[Tensor], own: Device, site: Site) -> Device:
    device = common_device(operands)
    if device.kind is None:
        device = own
    if device.kind is None and not any(t.device.kind == "cpu" for t in operands):
        device = Device(ACCELERATOR, site.why("a model's output"))
    return device


# ---------------------------------------------------------------------------- methods


def call_method(method: Method, arguments: Arguments, site: Site) -> Value:
    of, name = method.of, method.name
    if isinstance(of, Tensor):
        return call_tensor_method(of, name, arguments, site)
    if isinstance(of, Blob):
        return call_blob_method(of, name, arguments, site)
    if isinstance(of, Object):
        return call_object_method(of, name, arguments, site)
    if isinstance(of, Host):
        return call_host_method(of, name, arguments)
    if isinstance(of, Mapping):
        return call_mapping_method(of, name, arguments)
    if isinstance(of, Sequence):
        return (
            of.element
            if name == "pop"
            else NOTHING
            if name in ("append", "extend", "sort")
            else UNKNOWN
        )
    if isinstance(of, Instance):
        return call_module_method(of, name, arguments, site)
    return UNKNOWN


def call_tensor_method(tensor: Tensor, name: str, arguments: Arguments, site: Site) -> Value:
    full = f"Tensor.{name}"
    if name == "to":
        return to(tensor, arguments, site)
    if name in ("cuda", "xpu", "mtia"):
        given = arguments.get("device", 0)
        index = constant(given)
        label = "cuda" if given is None else f"cuda:{index}" if isinstance(index, int) else None
        return one(
            moved(tensor, Device(ACCELERATOR, site.why(f"moved by `.{name}()` here"), label))
        )
    if name == "cpu":
        return one(moved(tensor, CPU))
    if name == "type_as":
        other = tensors_in(arguments.positional)
        like = other[0] if other else Tensor()
        placed = replace(tensor, device=like.device)
        return one(as_dtype(placed, like.dtype, like.settled_dtype))
    if name == "type":
        given = arguments.get("dtype", 0)
        legacy = legacy_type(given)
        if legacy is not None:
            made = legacy_tensor(legacy, site)
            return one(replace(tensor, dtype=made.dtype, device=made.device, fresh=None))
        return one(cast_to(tensor, given or UNKNOWN, site)) if arguments.all else STR
    if name == "requires_grad_":
        return one(replace(tensor, grad=constant(arguments.get("requires_grad", 0)) is not False))
    if full in torch_ops.FACTORIES:
        shifted = replace(arguments, positional=(one(tensor), *arguments.positional))
        return (
            factory(full, torch_ops.FACTORIES[full], shifted, site)
            if name.startswith("new_") and name != "new_tensor"
            else (one(Tensor(tensor.dtype, tensor.device, None, False)))
        )
    if name == "item":
        kind = {"bool": "bool", "int64": "int"}.get(tensor.dtype or "", "number")
        return one(Host("float" if tensor.dtype in FLOATS else kind))
    result = torch_ops.RESULTS.get(full)
    if result is None:
        return UNKNOWN
    operands = [tensor, *tensors_in(arguments.all)]
    return from_result(full, result, operands, arguments, site)


def to(tensor: Tensor | Blob, arguments: Arguments, site: Site) -> Value:
    """`x.to(device)`, `x.to(dtype)`, `x.to(device, dtype)`, `x.to(other)` and their keywords."""
    result: Tensor | Blob = tensor
    target = arguments.get("device", 0)
    dtype = arguments.get("dtype")
    if target is not None:
        atom = only(target)
        if isinstance(atom, DType):
            dtype = target
            target = None
        elif isinstance(atom, Tensor | Blob):
            result = moved(result, atom.device)
            if isinstance(result, Tensor):
                like = atom if isinstance(atom, Tensor) else Tensor()
                result = as_dtype(result, like.dtype, like.settled_dtype)
            target = None
    if target is not None:
        device = device_of(target, arguments.hint, site)
        if device.kind is None and isinstance(result, Tensor):
            # A dtype or a device, nobody knows which.
            return one(
                replace(
                    result,
                    dtype=None,
                    device=NO_DEVICE if result.device.kind != ACCELERATOR else result.device,
                    fresh=None,
                )
            )
        if device.kind is not None:
            result = moved(result, device)
        if len(arguments.positional) > 1 and dtype is None:
            dtype = arguments.get("dtype", 1)
    if dtype is not None and isinstance(result, Tensor):
        result = cast_to(result, dtype, site)
    if isinstance(result, Tensor):
        result = replace(result, fresh=None)
    return one(replace(result, device=unpinned(result.device)) if dtype is not None else result)


def unpinned(device: Device) -> Device:
    """Where a copy of a tensor is."""
    return CPU if device.pinned else device


def cast_to(tensor: Tensor, dtype: Value, site: Site) -> Tensor:
    """The tensor in the dtype that an argument names."""
    name = dtype_of(dtype)
    return as_dtype(tensor, name, site.why(f"cast to {name} here") if name is not None else None)


def as_dtype(tensor: Tensor, dtype: str | None, why: Why | None) -> Tensor:
    return replace(tensor, dtype=dtype, settled_dtype=why, fresh=None)


def call_blob_method(blob: Blob, name: str, arguments: Arguments, site: Site) -> Value:
    if name in ("to", "cuda", "cpu"):
        if name == "to":
            return to(blob, arguments, site)
        device = (
            CPU if name == "cpu" else Device(ACCELERATOR, site.why(f"moved by `.{name}()` here"))
        )
        return one(moved(blob, device))
    if name == "items":
        return one(Sequence(None, one(Sequence((STR, one(blob)), UNKNOWN))))
    if name == "values":
        return one(Sequence(None, one(blob)))
    if name == "keys":
        return one(Sequence(None, STR))
    if name == "copy":
        return UNKNOWN  # tensors have no such method: an array, a table or a dict
    if name in ("get", "pop", "pin_memory"):
        return one(blob)
    return call_tensor_method(Tensor(device=blob.device), name, arguments, site)


def call_host_method(host: Host, name: str, arguments: Arguments) -> Value:
    if host.kind == "numpy":
        if name == "astype":
            return one(replace(host, dtype=array_dtype_of(arguments.get("dtype", 0) or UNKNOWN)))
        if name in libraries.NUMPY_KEEPS:
            return one(replace(host, rank=None if name in ("reshape", "squeeze") else host.rank))
        return NUMBER if name == "item" else NUMPY
    if host.kind == "str":
        return UNKNOWN if name in ("split", "partition", "encode") else STR
    if host.kind == "size" and name == "numel":
        return INT
    return UNKNOWN


def call_mapping_method(mapping: Mapping, name: str, arguments: Arguments) -> Value:
    if name in ("get", "pop"):
        key = constant(arguments.positional[0]) if arguments.positional else None
        return (
            dict(mapping.items).get(key, mapping.element)
            if isinstance(key, str)
            else mapping.element
        )
    if name == "setdefault":
        return mapping.element
    if name == "items":
        return one(Sequence(None, one(Sequence((STR, mapping.element), UNKNOWN))))
    if name == "values":
        return one(Sequence(None, mapping.element))
    if name == "keys":
        return one(Sequence(None, STR))
    return one(mapping) if name == "copy" else UNKNOWN


def call_object_method(thing: Object, name: str, arguments: Arguments, site: Site) -> Value:
    if thing.kind in ("module", "criterion"):
        return call_module_method(thing, name, arguments, site)
    if thing.kind == "optimizer":
        return NOTHING if name in ("step", "zero_grad") else UNKNOWN
    if thing.kind == "scaler":
        if name == "scale":
            return arguments.get("outputs", 0) or UNKNOWN
        return {"get_scale": FLOAT, "state_dict": OBJECT}.get(name, NOTHING)
    if thing.kind == "loader":
        return iterate(one(thing)) if name == "next" else UNKNOWN
    if thing.kind == "accelerator":
        return call_accelerator_method(thing, name, arguments, site)
    return UNKNOWN


def call_module_method(
    thing: Object | Instance, name: str, arguments: Arguments, site: Site
) -> Value:
    """Methods of nn.Module, which move in place and return the module."""
    if name in ("to", "cuda", "xpu"):
        device = Device(ACCELERATOR, site.why("the model is moved here"))
        given = arguments.get("device", 0)
        if name == "to" and given is not None:
            if isinstance(only(given), DType):
                return one(module_in(thing, dtype_of(given)))
            device = device_of(given, arguments.hint, site)
        dtype = arguments.get("dtype", 1) if name == "to" else None
        if dtype is not None:
            thing = module_in(thing, dtype_of(dtype))
            device = device if given is not None else NO_DEVICE
        return one(replace(thing, device=device) if device.kind else thing)
    if name == "cpu":
        return one(replace(thing, device=CPU))
    if f"Tensor.{name}" in torch_ops.CASTS:
        return one(module_in(thing, torch_ops.CASTS[f"Tensor.{name}"]))
    if name in ("train", "eval", "requires_grad_", "apply"):
        return one(thing)
    if name in ("forward", "__call__") and isinstance(thing, Object):
        return call_object(thing, arguments, site)
    inside = content(thing) if isinstance(thing, Object) else None
    if inside is not None and name in ("values", "children"):
        return one(Sequence(None, inside))
    if inside is not None and name == "items":
        return one(Sequence(None, one(Sequence((STR, inside), UNKNOWN))))
    if inside is not None and name == "keys":
        return one(Sequence(None, STR))
    if inside is not None and name in ("get", "pop"):
        return inside
    if name in ("parameters", "named_parameters", "buffers"):
        own = thing.device
        device = own if own.kind else Device(ACCELERATOR, site.why("parameters live on the device"))
        parameters = one(Object("parameters", "torch.nn.Parameter", device))
        if name != "named_parameters":
            return parameters
        return one(Sequence(None, one(Sequence((STR, iterate(parameters)), UNKNOWN))))
    if name == "state_dict":
        own = thing.device
        device = own if own.kind else Device(ACCELERATOR, site.why("the module's tensors"))
        return one(Mapping(one(Tensor(None, device, None, False))))
    return UNKNOWN


def module_in(thing: Object | Instance, dtype: str | None) -> Object | Instance:
    """The module with its parameters cast. Of a module of the project, its layers would have to be
    followed: nothing is said of it."""
    if isinstance(thing, Object) and thing.type != "?":
        return replace(thing, dtype=dtype)
    return thing


def call_accelerator_method(thing: Object, name: str, arguments: Arguments, site: Site) -> Value:
    if name in libraries.PREPARES:
        prepared = tuple(
            join(on_device(atom, thing.device) for atom in value) for value in arguments.positional
        )
        return prepared[0] if len(prepared) == 1 else one(Sequence(prepared, UNKNOWN))
    if name in ("gather", "gather_for_metrics", "reduce", "to_device", "all_gather", "all_reduce"):
        return (
            join(on_device(atom, thing.device) for atom in arguments.positional[0])
            if arguments.positional
            else UNKNOWN
        )
    if name == "backward":
        return NOTHING
    if name == "autocast":
        # Whether, and in which dtype, is up to how the accelerator was set up.
        why = site.why("the autocast region is opened here")
        return one(Autocast(None, "half", None, why=why))
    return UNKNOWN


def on_device(atom: Atom, device: Device) -> Value:
    if isinstance(atom, Tensor | Blob):
        return one(moved(atom, device))
    if isinstance(atom, Object | Instance):
        return one(replace(atom, device=device))
    return one(atom)


# ---------------------------------------------------------------------------- results


def from_result(
    name: str, result: Result, operands: list[Tensor], arguments: Arguments, site: Site
) -> Value:
    """What RESULTS says of a call with these tensor operands."""
    if result.alone is not None and len(arguments.all) == 1 - name.startswith("Tensor."):
        result = result.alone
    elif result.by_tensor is not None and tensor_for_dim(name, result, arguments):
        result = result.by_tensor
    dim_given = has_dim(name, result, arguments)
    if dim_given and result.by_dim is not None:
        result = result.by_dim
    if result.kind.startswith("host:"):
        return one(Host(result.kind[5:]))
    if result.kind == "none":
        return NOTHING
    if result.kind in ("device", "dtype"):
        return UNKNOWN
    tensor = tensor_result(name, result, operands, arguments, site)
    if result.kind in ("self", "same") and operands:
        kept = operands[0]
        tensor = replace(tensor, fresh=kept.fresh if result.kind == "self" else None)
        if result.kind == "self":
            tensor = replace(tensor, dtype=kept.dtype, device=kept.device)
    if result.kind == "tensors" or any(constant(arguments.get(k)) is True for k in result.tuple_if):
        if result.count is None:
            return one(Sequence(None, one(tensor)))
        dtypes = result.dtypes or ("same",) * result.count
        items = tuple(
            one(tensor if d == "same" else replace(tensor, dtype=d, grad=False)) for d in dtypes
        )
        return one(Sequence(items, one(tensor), names=result.names))
    return one(tensor)


def at_dim(name: str, result: Result, arguments: Arguments) -> Value | None:
    """The positional argument that stands where `dim` may."""
    if result.dim is None:
        return None
    position = result.dim + (0 if name.startswith("Tensor.") else 1)
    return arguments.positional[position] if position < len(arguments.positional) else None


def tensor_for_dim(name: str, result: Result, arguments: Arguments) -> bool:
    """Ex) torch.max(a, b), which is elementwise"""
    given = arguments.get("other") or at_dim(name, result, arguments)
    return given is not None and isinstance(only(given), Tensor | Blob)


def has_dim(name: str, result: Result, arguments: Arguments) -> bool:
    if arguments.has("dim") or arguments.has("axis") or arguments.stars:
        return True
    given = at_dim(name, result, arguments)
    atom = only(given) if given is not None else NONE
    return given is not None and not (isinstance(atom, Host) and atom.kind == "bool")


# ---------------------------------------------------------------------------- operators


def binary(operator: str, left: Value, right: Value, site: Site) -> Value:
    """`left <operator> right`."""
    return join(
        binary_atoms(operator, a, b, site) for a in left for b in right if NONE not in (a, b)
    )


def binary_atoms(operator: str, left: Atom, right: Atom, site: Site) -> Value:
    if isinstance(left, Host) and left.kind == "str" and operator == "Mod":
        return STR
    operands = tensors_in([one(left), one(right)])
    if isinstance(left, Tensor | Blob) or isinstance(right, Tensor | Blob):
        other = right if isinstance(left, Tensor | Blob) else left
        if isinstance(other, Unknown):
            operands.append(Tensor())
            if len(operands) == 2 and isinstance(right, Tensor | Blob):
                operands.reverse()
        elif isinstance(other, Sequence):
            return UNKNOWN
        reflected = not isinstance(left, Tensor | Blob)
        table = torch_ops.REFLECTED if reflected else torch_ops.OPERATORS
        name = f"Tensor.{table.get(operator, '__add__')}"
        result = torch_ops.RESULTS.get(name)
        if result is None:
            return UNKNOWN
        if isinstance(other, Unknown) and result.dtype.startswith("promote"):
            # An unknown operand may be a number, which changes nothing, or a tensor.
            known = (
                next(t for t in operands if t != Tensor())
                if operands != [Tensor()] * 2
                else Tensor()
            )
            made = tensor_result(name, result, [known, Tensor(rank=known.rank)], Arguments(), site)
            return one(replace(made, rank=1 if known.rank == 1 else None, dims=None))
        return from_result(name, result, operands, Arguments((one(other),)), site)
    if isinstance(left, Host) and isinstance(right, Host):
        return host_arithmetic(operator, left, right)
    if isinstance(left, Sequence) and isinstance(right, Sequence) and operator == "Add":
        return one(
            Sequence(
                None, join([left.element, right.element, *(left.items or ()), *(right.items or ())])
            )
        )
    if isinstance(left, Sequence) and operator == "Mult":
        return one(Sequence(None, join([left.element, *(left.items or ())])))
    return UNKNOWN


NUMBERS = ("int", "float", "bool", "number")


def host_arithmetic(operator: str, left: Host, right: Host) -> Value:
    kinds = {left.kind, right.kind}
    if "numpy" in kinds:
        arrays = [host for host in (left, right) if host.kind == "numpy"]
        dtypes = {array.dtype for array in arrays} if kinds <= {"numpy", *NUMBERS} else {None}
        kept = dtypes.pop() if len(dtypes) == 1 else None
        ranks = {array.rank for array in arrays}
        rank = 1 if 1 in ranks and operator != "MatMult" else None
        return one(Host("numpy", dtype=kept if kept in FLOATS else None, rank=rank))
    if kinds <= {"str"} or (left.kind == "str" and operator == "Mod"):
        return STR
    if operator == "Div":
        return FLOAT
    if kinds <= {"int", "bool"}:
        return INT
    return FLOAT if "float" in kinds and kinds <= {"int", "float", "bool", "number"} else NUMBER


def augmented(operator: str, target: Value, value: Value, site: Site) -> Value:
    """`target += value`: in place for tensors, which keep dtype, device and rank."""
    results = []
    for atom in target:
        if isinstance(atom, Tensor) and operator != "MatMult":
            others = tensors_in([value])
            grad = True if any(t.grad for t in [atom, *others]) else atom.grad
            results.append(one(replace(atom, grad=grad)))
        else:
            results.append(binary(operator, one(atom), value, site))
    return join(results)


def unary(operator: str, operand: Value, site: Site) -> Value:
    if operator == "Not":
        return BOOL
    results = []
    for atom in operand:
        if isinstance(atom, Host):
            if atom.known and operator == "USub" and isinstance(atom.const, int | float):
                results.append(one(replace(atom, const=-atom.const)))
            else:
                results.append(one(Host(atom.kind)))
        elif isinstance(atom, Tensor | Blob):
            name = f"Tensor.{torch_ops.OPERATORS.get(operator, '__neg__')}"
            results.append(
                from_result(
                    name, torch_ops.RESULTS[name], tensors_in([one(atom)]), Arguments(), site
                )
            )
        else:
            results.append(UNKNOWN)
    return join(results)


def compare(operators: tuple[str, ...], operands: list[Value], site: Site) -> Value:
    """A comparison of tensors is a tensor of bools; `is`, `in` and those of numbers are bools."""
    if len(operators) == 1 and operators[0] not in ("Is", "IsNot", "In", "NotIn"):
        left, right = operands
        if operators[0] in ORDERING:
            # Lists and dicts have no order with numbers: what has one is the tensor itself.
            left, right = without_nests(left), without_nests(right)
        if any(isinstance(a, Tensor) for a in (*left, *right)):
            return join(compare_atoms(operators[0], a, b, site) for a in left for b in right)
        if any(isinstance(a, Unknown | Instance | Object) for a in (*left, *right)):
            return UNKNOWN
        blobs = [a for a in (*left, *right) if isinstance(a, Blob)]
        if blobs:
            # A mask if it is a tensor that is compared, and one answer if it is anything else.
            numbers = all(isinstance(a, Blob) or _is_number(a) for a in (*left, *right))
            return one(Blob(join_devices([b.device for b in blobs]))) if numbers else UNKNOWN
        if any(isinstance(a, Host) and a.kind == "numpy" for a in (*left, *right)):
            return one(Host("numpy", dtype="bool"))
    return BOOL


ORDERING = frozenset({"Lt", "LtE", "Gt", "GtE"})


def without_nests(value: Value) -> Value:
    """The value, where it cannot be a nest of tensors: what may be one is a tensor."""
    return frozenset(Tensor(device=a.device) if isinstance(a, Blob) else a for a in value)


def _is_number(atom: Atom) -> bool:
    return isinstance(atom, Host) and atom.kind in ("int", "float", "number", "bool")


def compare_atoms(operator: str, left: Atom, right: Atom, site: Site) -> Value:
    if not isinstance(left, Tensor) and not isinstance(right, Tensor):
        return UNKNOWN if isinstance(left, Unknown) or isinstance(right, Unknown) else BOOL
    if NONE in (left, right) and operator not in ("Eq", "NotEq"):
        return BOTTOM  # it would raise
    if NONE in (left, right) or any(isinstance(a, Host) and a.kind == "str" for a in (left, right)):
        return BOOL
    operands = tensors_in([one(left), one(right)])
    alone = operands[0].device if len(operands) == 1 else None
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        operands.append(Tensor())
    name = f"Tensor.{torch_ops.OPERATORS[operator]}"
    other = right if isinstance(left, Tensor | Blob) else left
    given = Arguments((one(other),))
    value = from_result(name, torch_ops.RESULTS[name], operands, given, site)
    if alone == PERHAPS_CPU:  # as likely a size or a count that is compared on the host
        value = frozenset(
            replace(a, device=PERHAPS_CPU) if isinstance(a, Tensor) else a for a in value
        )
    return value


# ---------------------------------------------------------------------------- containers


KEYED = frozenset({"torch.nn.ModuleDict", "torch.nn.ParameterDict"})


def iterate(value: Value) -> Value:
    """One element of what is iterated."""
    return join(iterate_atom(atom) for atom in value)


def iterate_atom(atom: Atom) -> Value:
    if isinstance(atom, Sequence):
        return join(atom.items) if atom.items is not None else atom.element
    if isinstance(atom, Mapping):
        return STR
    if isinstance(atom, Object):
        if atom.kind == "loader":
            return one(Blob(atom.device))
        if atom.kind == "parameters":
            return one(Tensor(device=atom.device, rank=1, grad=True))
        if atom.type in KEYED:
            return STR
        return content(atom) or UNKNOWN
    if isinstance(atom, Tensor):
        return one(row(atom))
    if isinstance(atom, Blob):
        return one(atom)
    if isinstance(atom, Host):
        if atom.kind == "numpy":
            return one(replace(atom, rank=None))
        return {"size": INT, "str": STR, "list": UNKNOWN}.get(atom.kind, BOTTOM)
    return UNKNOWN


def row(tensor: Tensor) -> Tensor:
    """What iterating a tensor gives, or a number between brackets."""
    kept = replace(tensor, rank=None, dims=None, fresh=None)
    return kept if tensor.dims is None else with_dims(kept, tensor.dims - 1)


def unpack(value: Value, index: int, starred: bool) -> Value:
    """The `index`-th of the targets that the value is unpacked into."""
    results = []
    for atom in value:
        if isinstance(atom, Sequence) and atom.items is not None and not starred:
            results.append(atom.items[index] if index < len(atom.items) else BOTTOM)
        elif isinstance(atom, Sequence) and atom.items is not None:
            results.append(atom.items[index] if index == 0 and atom.items else join(atom.items))
        else:
            results.append(iterate_atom(atom))
    return join(results)


def subscript_tensor(tensor: Tensor, index: Value, keys: tuple[Value, ...]) -> Tensor:
    """What the index leaves of the tensor; `keys` are its elements, as far as they are known."""
    key = only(index)
    gathers = isinstance(key, Tensor) and (key.dtype == "bool" or key.rank == 1)
    # A slice and None leave a dimension, whatever else there is between the brackets.
    some = gathers or any(dims.is_slice(k) or k == NOTHING for k in keys)
    chosen = isinstance(key, Tensor | Blob)
    device = unpinned(tensor.device) if chosen else tensor.device
    left = replace(tensor, rank=1 if some else None, dims=None, device=device, fresh=None)
    return with_dims(left, dims.of_item(dims.count(one(tensor)), keys) if keys else None)


def subscript_atom(atom: Atom, index: Value, keys: tuple[Value, ...] = ()) -> Value:
    """`atom[index]`; `keys` are what stands between the brackets, where that is known."""
    if isinstance(atom, Tensor):
        return one(subscript_tensor(atom, index, keys))
    if isinstance(atom, Blob):
        chosen = isinstance(only(index), Tensor | Blob)
        return one(replace(atom, device=unpinned(atom.device)) if chosen else atom)
    if isinstance(atom, Sequence):
        position = constant(index)
        if atom.items is not None and isinstance(position, int) and not isinstance(position, bool):
            return (
                atom.items[position] if -len(atom.items) <= position < len(atom.items) else BOTTOM
            )
        element = join(atom.items) if atom.items is not None else atom.element
        return one(Sequence(None, element, atom.batches)) if dims.is_slice(index) else element
    if isinstance(atom, Mapping):
        key_text = constant(index)
        return (
            dict(atom.items).get(key_text, atom.element)
            if isinstance(key_text, str)
            else atom.element
        )
    if isinstance(atom, Host):
        if atom.kind == "numpy":
            return one(replace(atom, rank=None))
        if atom.kind == "size" and dims.is_slice(index):
            return one(atom)
        return {"size": INT, "str": STR}.get(atom.kind, UNKNOWN if atom != NONE else BOTTOM)
    if isinstance(atom, Object):
        return content(atom) or UNKNOWN
    return UNKNOWN


def put(container: Value, index: Value, value: Value) -> Value:
    """The container after `container[index] = value`."""
    results = []
    for atom in container:
        if isinstance(atom, Mapping):
            key = constant(index)
            items = dict(atom.items)
            if isinstance(key, str) and len(items) < MAX_KEYS:
                items[key] = value
                results.append(
                    one(
                        Mapping(
                            join([atom.element, value]),
                            tuple(sorted(items.items(), key=_first)),
                        )
                    )
                )
            else:
                crowded = atom.crowded or len(items) >= MAX_KEYS
                results.append(one(Mapping(join([atom.element, value]), (), crowded)))
        elif isinstance(atom, Blob):
            devices = {t.device.kind for t in tensors_in([value])}
            results.append(
                one(
                    moved(atom, tensors_in([value])[0].device) if devices == {ACCELERATOR} else atom
                )
            )
        elif isinstance(atom, Sequence):
            element = join([atom.element, *(atom.items or ()), value])
            results.append(one(Sequence(None, element, atom.batches)))
        else:
            results.append(one(atom))
    return join(results)


def add(container: Value, value: Value, method: str) -> Value:
    """The container after `container.append(value)` or the like."""
    results = []
    for atom in container:
        if isinstance(atom, Sequence):
            inside = iterate(value) if method in ("extend", "update") else value
            element = join([atom.element, *(atom.items or ()), inside])
            results.append(one(Sequence(None, element, atom.batches)))
        elif isinstance(atom, Object) and atom.type in CONTAINER_MODULES:
            results.append(one(replace(atom, holds=join([atom.holds, held(value)]))))
        elif isinstance(atom, Mapping) and method == "update":
            elements = [v.element for v in value if isinstance(v, Mapping)]
            results.append(one(Mapping(join([atom.element, *elements]), ())))
        else:
            results.append(one(atom))
    return join(results)
