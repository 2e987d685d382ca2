"""Values of parameters and results, by their annotations."""

from __future__ import annotations

from amplint.frameworks.models import Models
from amplint.inference import transfer
from amplint.knowledge import libraries
from amplint.knowledge.modules import MODULES
from amplint.values.atoms import (
    CPU,
    NONE,
    UNKNOWN,
    Atom,
    Class,
    Device,
    Host,
    Instance,
    Object,
    Sequence,
    Symbol,
    Tensor,
    Value,
    one,
    ordered,
)
from amplint.values.atoms import Mapping as MappingValue
from amplint.values.lattice import join


def annotated(annotation: Value, device: Device, models: Models) -> Value:
    """The value of a parameter with this annotation; Unknown for one that says nothing."""
    results: list[Value] = []
    for atom in annotation:
        if atom == NONE:
            results.append(one(NONE))
        elif isinstance(atom, Class):
            results.append(one(Instance(atom.id)))
        elif isinstance(atom, Symbol):
            results.append(annotated_symbol(transfer.canonical(atom.name), device, models))
        elif isinstance(atom, Sequence | MappingValue):
            results.append(one(atom))
        else:
            return UNKNOWN
    return join(results) if results else UNKNOWN


ANNOTATIONS: dict[str, Atom] = {
    "torch.nn.Module": Object("module", "?"),
    "torch.utils.data.DataLoader": Object("loader", "torch.utils.data.DataLoader", CPU),
    "torch.optim.Optimizer": Object("optimizer", "?"),
    "torch.device": Device(None),
    "numpy.ndarray": Host("numpy"),
    "builtins.int": Host("int"),
    "builtins.float": Host("float"),
    "builtins.bool": Host("bool"),
    "builtins.str": Host("str"),
}


TENSOR_TYPES = {
    "torch.Tensor": None, "torch.LongTensor": "int64", "torch.FloatTensor": "float32",
    "torch.BoolTensor": "bool", "torch.IntTensor": "int32", "torch.HalfTensor": "float16",
}  # fmt: skip


def annotated_symbol(name: str, device: Device, models: Models) -> Value:
    if name in TENSOR_TYPES:
        # A parameter that is a tensor has dimensions, except for the rarest.
        return one(Tensor(TENSOR_TYPES[name], device, 1))
    if name in ANNOTATIONS:
        return one(ANNOTATIONS[name])
    maker = models.maker(name)
    builds = maker.builds if maker is not None and maker.builds not in ("lists", "same") else None
    kind = builds or libraries.KINDS.get(name)
    if kind is not None:
        return one(Object(kind, name, CPU if kind == "loader" else Device(None)))
    if name in MODULES:
        return one(Object("module", name))
    return UNKNOWN


MAPPING_ANNOTATIONS = frozenset(
    {"Dict", "dict", "Mapping", "MutableMapping", "OrderedDict", "DefaultDict", "defaultdict"}
)


def annotation_subscript(symbol: Symbol, index: Value, models: Models) -> Value:
    """`Optional[Tensor]`, `List[Tensor]`, `Dict[str, Tensor]` as annotations."""
    name = symbol.name.rpartition(".")[2]
    inner = [index]
    for atom in ordered(index):
        if isinstance(atom, Sequence) and atom.items is not None:
            inner = list(atom.items)
    if name == "Optional":
        return join([index, one(NONE)])
    if not inner:
        return UNKNOWN  # `list[()]`
    if name == "Union":
        return join(inner)
    if name in ("List", "list", "Sequence", "Iterable", "Iterator", "Set", "set"):
        return one(Sequence(None, annotated(inner[0], Device(None), models)))
    if name in ("Tuple", "tuple"):
        return one(Sequence(None, join(annotated(v, Device(None), models) for v in inner)))
    if name in MAPPING_ANNOTATIONS and len(inner) == 2:
        return one(MappingValue(annotated(inner[1], Device(None), models)))
    maker = models.maker(symbol.name)
    if symbol.name in libraries.LOADERS or (maker is not None and maker.builds == "loader"):
        return one(symbol)  # `DataLoader[T]`
    return UNKNOWN
