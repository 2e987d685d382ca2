"""Calls that build a tensor or an array: zeros, rand_like, new_zeros, legacy and numpy's."""

from __future__ import annotations

from dataclasses import replace

from amplint.inference.transfer import ranks
from amplint.inference.transfer.arguments import array_dtype_of, device_of, dtype_of
from amplint.inference.transfer.containers import unpinned
from amplint.inference.transfer.kinds import NOTHING, Site
from amplint.inference.transfer.promotion import common_device, tensors_in
from amplint.inference.transfer.results import with_dims
from amplint.inference.transfer.symbols import DTYPES
from amplint.knowledge import libraries
from amplint.knowledge.factories import LEGACY_CONSTRUCTORS, Factory
from amplint.values.atoms import (
    BOTTOM,
    CPU,
    NO_DEVICE,
    NONE,
    Arguments,
    Atom,
    Device,
    Host,
    Sequence,
    Shows,
    Tensor,
    Value,
    constant,
    one,
)
from amplint.values.lattice import agreed, is_unknown, join_devices, only


def array(name: str, arguments: Arguments) -> Host:
    """The array that a function of numpy builds; a default or an argument may say its dtype."""
    shape = arguments.positional[0] if arguments.positional else BOTTOM
    dimensioned = any(a != Sequence((), BOTTOM) for a in shape) and not arguments.unsure
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
    argument = arguments.get("dtype", position)
    if arguments.unsure:
        return Host("numpy")
    dtype = array_dtype_of(argument) if argument is not None else default
    return Host("numpy", dtype=dtype, rank=1 if dimensioned else None)


def is_python_numbers(value: Value) -> bool:
    """Whether the value is a number, or a nest of sequences of numbers, of Python's own."""
    return bool(value) and all(
        all(map(is_python_numbers, atom.items if atom.items is not None else (atom.element,)))
        if isinstance(atom, Sequence)
        else isinstance(atom, Host) and atom.kind in ("int", "float", "bool")
        for atom in value
    )


def legacy_tensor(name: str, site: Site) -> Tensor:
    """Ex) torch.cuda.FloatTensor(n), torch.LongTensor([1, 2])"""
    dtype, where = LEGACY_CONSTRUCTORS[name]
    device = CPU if where == "cpu" else site.device("built on the device here")
    dtype = "float32" if dtype == "default" else dtype
    return Tensor(dtype, device, 1, False, site.evidence(f"made as {dtype} here", Shows.DTYPE))


PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})


def parameter(arguments: Arguments, site: Site) -> Tensor:
    """A parameter moves to the device with its module, wherever its data were made."""
    argument = arguments.get("data", 0)
    data = tensors_in([argument]) if argument is not None else []
    device = site.usual("the module's tensors live on the device")
    first = data[0] if data else Tensor()
    grad = constant(arguments.get("requires_grad", 1)) is not False
    return replace(first, device=device, grad=grad, fresh=None)


def factory(name: str, facts: Factory, arguments: Arguments, site: Site) -> Value:
    """The tensor that a factory builds: zeros, arange, rand_like, new_zeros ..."""
    like = tensors_in(arguments.positional[:1]) if facts.device == "like" else []
    dtype = factory_dtype(facts, like, arguments)
    device = like[0].device if like else (NO_DEVICE if facts.device == "like" else CPU)
    argument = arguments.get("device")
    if argument is None and name == "torch.as_tensor":
        argument = arguments.get("device", 2)
    if argument is not None:
        device = CPU if argument == NOTHING else device_of(argument, arguments.hint, site)
    elif arguments.more_keywords:
        device = NO_DEVICE
    elif name == "torch.normal":
        device = device_of_moments(arguments)
    elif facts.dtype == "data" and facts.device != "cpu" and arguments.positional:
        device = device_of_data(arguments.positional[0], name)
    receiver = name.startswith("Tensor.")
    shaped = replace(arguments, positional=arguments.positional[receiver:])
    rank = factory_rank(facts, shaped)
    grad = constant(arguments.get("requires_grad")) is True
    inherits = bool(like) and arguments.get("dtype") is None
    evidence = (
        like[0].dtype_evidence if inherits else site.evidence(f"made as {dtype} here", Shows.DTYPE)
    )
    half = like[0].half if inherits and dtype is None else None
    reason = evidence if dtype is not None or half is not None else None
    tensor = Tensor(dtype, device, rank, grad, reason, fresh=name, half=half)
    return one(with_dims(tensor, ranks.of_factory(name, facts, shaped)))


def device_of_moments(arguments: Arguments) -> Device:
    """`torch.normal(mean, std)` draws where these are; of two numbers, on the CPU."""
    moments = (arguments.get("mean", 0), arguments.get("std", 1))
    values = [value for value in moments if value is not None]
    tensors = tensors_in(values)
    if tensors:
        return common_device(tensors)
    return CPU if all(isinstance(a, Host) for value in values for a in value) else NO_DEVICE


def device_of_data(data: Value, name: str) -> Device:
    """A list is made a tensor of the CPU, a tensor stays where it is; `torch.tensor` copies it."""
    data -= {NONE}
    # Of a list of tensors, each is read, wherever it is.
    tensors = tensors_in([frozenset(a for a in data if not isinstance(a, Sequence))])
    if name == "torch.tensor":
        tensors = [replace(tensor, device=unpinned(tensor.device)) for tensor in tensors]
    if len(data) > 1 and not all(isinstance(atom, Tensor) for atom in data):
        return join_devices([CPU, *(tensor.device for tensor in tensors)])
    if not tensors and name != "torch.tensor" and is_unknown(data):
        return NO_DEVICE
    return tensors[0].device if tensors else CPU


def factory_dtype(facts: Factory, like: list[Tensor], arguments: Arguments) -> str | None:
    argument = arguments.get("dtype")
    if argument is not None:
        return dtype_of(argument)
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
    return agreed(kinds)


def factory_rank(facts: Factory, arguments: Arguments) -> int | None:
    """Whether what is built has dimensions, where their number is unknown."""
    if facts.rank not in ("like", "data", "sizes"):
        return None
    atoms = [only(value) for value in ranks.shape_arguments(facts, arguments)]
    if any(isinstance(a, Sequence) if facts.rank == "data" else is_shape(a) for a in atoms):
        return 1
    return next((a.rank for a in atoms if isinstance(a, Tensor | Host)), None)


def is_shape(atom: Atom | None) -> bool:
    """The shape of a tensor, taken for one with dimensions."""
    return isinstance(atom, Host) and atom.kind == "size"
