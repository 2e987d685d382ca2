"""Values of inference: a small union of kinds, with Unknown as a kind of its own.

A `Value` is a frozenset of alternatives ("a tensor or None"). The empty set is bottom: nothing has
been seen yet. Joins are unions, capped: a value that could be too many things is Unknown.

`Evidence` never takes part in comparison, so that a fixpoint over values does not depend on which
chain of reasons was found first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple, Union

MAX_ALTERNATIVES = 6
MAX_FUNCTIONS = 48  # together they are one alternative: a table of losses, of backends
MAX_MODULES = 2  # library modules that are told apart; of more, all that is known is the kind
MAX_DEPTH = 3
MAX_KEYS = 32  # constant keys of a dict that are told apart
MAX_STRINGS = 3  # `"cuda" if torch.cuda.is_available() else "cpu"` keeps both


class Place(NamedTuple):
    """A node's place in a file, as `ast` counts: rows from 1, columns in UTF-8 bytes from 0."""

    path: str
    row: int
    column: int
    end_row: int
    end_column: int


class Shows(str, Enum):
    """The kind of evidence: what it shows."""

    PLACEMENT = "code that chooses the device of a value"
    CONVENTION = "a value whose device is that of most values in its role"
    LOADER = "a loader"
    DTYPE = "code that chooses the dtype of a value"
    AUTOCAST = "an autocast region, or what it decides"
    LOOP = "a loop over batches"
    FORWARD = "the `forward` of a module or a Function"
    STEP = "another function that something out of sight runs for every batch"
    CALL = "a call on the way from one place to another"
    BACKWARD = "a backward pass"
    OPERATION = "an operation that is computed"
    WEIGHTS = "weights that change or are used"
    SCALER = "a step in the protocol of a GradScaler"


class Evidence(NamedTuple):
    """One reason for a belief, to be shown as a related place. Nothing is decided by its text."""

    place: Place
    text: str
    kind: Shows


@dataclass(frozen=True, slots=True)
class Device:
    """Where a tensor lives: `accelerator` (cuda, xpu, mps ...), `cpu`, or unknown (None).

    `pinned`: in page-locked memory of the host, from where a copy need not be waited for.
    """

    kind: str | None
    evidence: Evidence | None = field(default=None, compare=False)
    name: str | None = None  # "cuda", "cuda:1" where the text says so
    pinned: bool = False


NO_DEVICE = Device(None)
CPU = Device("cpu")
PERHAPS_CPU = Device("cpu or not")  # the CPU on one path; on another elsewhere, or unknown
ACCELERATOR = "accelerator"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A torch.Tensor.

    Args:
        dtype: "float32", "float16", "bfloat16", "float64", "int64", "bool" ...; "half" for
            float16 or bfloat16, whichever the region gives; None where it is unknown.
        device: where it lives.
        rank: 0 for a 0-dim tensor, 1 for at least one dimension, None where it is unknown.
        grad: whether it carries an autograd graph; None where it is unknown.
        dtype_evidence: why the dtype is what it is ("half by the autocast region at ...").
        fresh: the factory that built it a moment ago ("torch.zeros"), and nothing else since.
        dims: the number of dimensions, where it has some and it is known how many (`dims.py`).
    """

    dtype: str | None = None
    device: Device = NO_DEVICE
    rank: int | None = None
    grad: bool | None = None
    dtype_evidence: Evidence | None = field(default=None, compare=False)
    fresh: str | None = None
    dims: int | None = None


@dataclass(frozen=True, slots=True)
class TensorTree:
    """A tensor, or a nest of containers of tensors: a batch, the output of a model.

    Its elements, attributes and items are blobs on the same device.
    """

    device: Device = NO_DEVICE
    source: str = "batch"  # or "output"


@dataclass(frozen=True, slots=True)
class Host:
    """A value of the host: kind is int, float, bool, str, number, numpy, none, size or object."""

    kind: str
    const: int | float | bool | str | None = None
    known: bool = False  # whether `const` is the value
    dtype: str | None = None  # of an array, where it is known
    rank: int | None = None  # of an array: 1 for at least one dimension


@dataclass(frozen=True, slots=True)
class Symbol:
    """Something imported from outside the project, by its dotted name: `torch.zeros`."""

    name: str


@dataclass(frozen=True, slots=True)
class Module:
    """A module (file) of the project, by its path."""

    path: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function, method or lambda of the project, perhaps bound to a receiver."""

    id: str
    bound: Atom | None = None
    given: int = 0  # positional arguments already given by functools.partial
    given_names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the project."""

    id: str


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of a class of the project."""

    cls: str
    device: Device = NO_DEVICE


@dataclass(frozen=True, slots=True)
class Super:
    """`super()` inside a method of a class of the project."""

    cls: str
    of: str  # the class of `self`


BOTTOM: frozenset[Atom] = frozenset()


@dataclass(frozen=True, slots=True)
class Object:
    """An instance of a library class that amplint knows.

    kind: module, criterion, optimizer, scheduler, scaler, loader, dataset, parameters,
    accelerator, profiler, summary ...; `type` is the dotted name of the class.
    """

    kind: str
    type: str
    device: Device = NO_DEVICE
    dtype: str | None = None
    rank: int | None = None  # of what a criterion returns: 0 unless reduction="none"
    enabled: bool | None = True  # a scaler that may be switched off
    holds: Value = BOTTOM  # of a ModuleList and its kin: the join of the modules in it
    last: str | None = None  # of a Sequential: the layer that settles the dtype of what it gives


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list, tuple, set or iterator; `items` where the length is known, else `element` for all.

    `batches`: iterating it draws from a loader (`enumerate(loader)`).
    `names`: those of the items, where it is a named tuple.
    """

    items: tuple[Value, ...] | None
    element: Value
    batches: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mapping:
    """A dict: the join of its values, and those of constant keys.

    `crowded`: it may have more keys than are told apart, and is known only as a whole.
    """

    element: Value
    items: tuple[tuple[str, Value], ...] = ()
    crowded: bool = False


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a library value: `x.item`, `loader.__iter__`, `scaler.scale`."""

    of: Atom
    name: str


@dataclass(frozen=True, slots=True)
class Autocast:
    """An autocast context: what `torch.autocast(...)` and its kin return.

    dtype None means the default of the device type. `enabled` is None where it is not constant.
    """

    device: str | None
    dtype: str | None = None
    enabled: bool | None = True
    cache: bool | None = True
    evidence: Evidence | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class NoGrad:
    """A torch.no_grad() or torch.inference_mode() context or decorator."""


@dataclass(frozen=True, slots=True)
class DType:
    """A torch.dtype."""

    name: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Anything at all."""


Atom = Union[  # noqa: UP007 - a forward reference in `X | Y` fails on Python 3.10
    Tensor, TensorTree, Host, Symbol, Module, Function, Class, Instance, Super, Object, Sequence,
    Mapping, Method, Autocast, NoGrad, Device, DType, Unknown,
]  # fmt: skip
Value = frozenset[Atom]

# Kinds of `Host`. "number" is an int or a float.
NUMBER_KINDS = frozenset({"int", "float", "number"})
NUMBER_OR_BOOL_KINDS = NUMBER_KINDS | {"bool"}
INTEGER_KINDS = frozenset({"int", "number"})

UNKNOWN: Value = frozenset({Unknown()})
NONE = Host("none", None, True)


def one(atom: Atom) -> Value:
    """The value that is exactly this kind of thing."""
    return frozenset({atom})


def only(value: Value) -> Atom | None:
    """The one alternative, leaving None aside; None where there are several or it is Unknown.

    Tensors that differ in what is known of them are joined into one.
    """
    atoms = [atom for atom in value if atom != NONE]
    if not atoms:
        return None
    if all(isinstance(atom, Tensor) for atom in atoms):
        return join_tensors([atom for atom in atoms if isinstance(atom, Tensor)])
    if len(atoms) == 1 and not isinstance(atoms[0], Unknown):
        return atoms[0]
    return None


def constant(value: Value | None) -> object:
    """The constant that the value certainly is, or None (also for None itself)."""
    atoms = list(value or ())
    if len(atoms) == 1 and isinstance(atoms[0], Host) and atoms[0].known:
        return atoms[0].const
    return None


def is_autocast(value: Value) -> bool:
    """Whether a value is an autocast context, and nothing else."""
    return bool(value) and all(isinstance(atom, Autocast) for atom in value)


def ordered(value: Value) -> list[Atom]:
    """The alternatives in an order that does not depend on hashing: what is evaluated first decides
    which of several equal reasons is shown."""
    if len(value) < 2:
        return list(value)
    return sorted(value, key=_order)


# By position and not by name, so that no report changes with the name of a class. A tensor tree
# comes before a tensor: where both become one tensor, the evidence of the tree is shown.
KINDS = (
    Autocast, TensorTree, Class, DType, Device, Function, Host, Instance, Mapping, Method, Module,
    NoGrad, Object, Sequence, Super, Symbol, Tensor, Unknown,
)  # fmt: skip
POSITION = {kind: f"{position:02}" for position, kind in enumerate(KINDS)}


def _order(atom: Atom) -> tuple[str, ...]:
    position = POSITION[type(atom)]
    if isinstance(atom, Function):
        given = f"{atom.given} {sorted(atom.given_names)}"
        bound = ("",) if atom.bound is None else _order(atom.bound)
        return (position, atom.id, given, *bound)
    if isinstance(atom, Method):
        return (position, atom.name, *_order(atom.of))
    parts = ("id", "cls", "name", "type", "kind", "path", "const", "dtype")
    return (position, *(str(getattr(atom, part, "")) for part in parts))


def join(values: Iterable[Value]) -> Value:
    """The least value that covers all the given ones."""
    rest = iter(values)
    joined = BOTTOM
    for value in rest:
        if not joined:
            joined = value
        elif value and value is not joined:
            return normalise(united([joined, value, *rest]))
    return joined if len(joined) <= 1 else normalise(joined)


def united(values: list[Value]) -> Value:
    """The alternatives of all. Of those that are equal, the one whose evidence comes first: which
    one a set would keep depends on its order, and so on the hashes of this process."""
    union = BOTTOM.union(*values)
    if len(union) == sum(map(len, values)):
        return union
    first: dict[Atom, Atom] = {}
    for value in values:
        for atom in value:
            if type(atom) not in PLAIN:
                known = first.setdefault(atom, atom)
                if known is not atom and evidence_text(atom) < evidence_text(known):
                    first[atom] = atom
    if not first:
        return union
    return frozenset([*first.values(), *(atom for atom in union if type(atom) in PLAIN)])


PLAIN = frozenset({Host, Symbol, Module, Class, Super, NoGrad, DType, Unknown})  # no evidence


def evidence_text(thing: object) -> str:
    """The evidence of a value, or of a part of it, as text: comparison ignores it."""
    if isinstance(thing, Device):
        return repr(thing.evidence)
    if isinstance(thing, Tensor):
        return f"{thing.device.evidence} {thing.dtype_evidence}"
    if isinstance(thing, TensorTree | Instance):
        return repr(thing.device.evidence)
    if isinstance(thing, Object):
        return f"{thing.device.evidence} {evidence_text(thing.holds)}"
    if isinstance(thing, Autocast):
        return repr(thing.evidence)
    if isinstance(thing, Sequence):
        return f"{evidence_text(thing.items)} {evidence_text(thing.element)}"
    if isinstance(thing, Mapping):
        return f"{evidence_text(thing.element)} {evidence_text(tuple(v for _, v in thing.items))}"
    if isinstance(thing, Method):
        return evidence_text(thing.of)
    if isinstance(thing, Function):
        return evidence_text(thing.bound)
    if isinstance(thing, frozenset):
        return " ".join(sorted(map(evidence_text, thing)))
    if isinstance(thing, tuple):
        return " ".join(map(evidence_text, thing))
    return ""


def normalise(atoms: Iterable[Atom]) -> Value:
    """Merge alternatives of the same kind; a union that grows too large is Unknown."""
    atoms = frozenset(atoms)
    if len(atoms) <= 1:
        return atoms
    if len(set(map(type, atoms))) == len(atoms) <= MAX_ALTERNATIVES:
        return atoms
    by_type: dict[type, list[Atom]] = {}
    for atom in atoms:
        by_type.setdefault(type(atom), []).append(atom)
    merged: set[Atom] = set()
    for kind, alike in by_type.items():
        merge = MERGES.get(kind)
        merged.update(merge(alike) if merge is not None and len(alike) > 1 else alike)
    functions = sum(isinstance(atom, Function) and atom.bound is None for atom in merged)
    others = len(merged) - functions
    if functions > MAX_FUNCTIONS or others + min(functions, 1) > MAX_ALTERNATIVES:
        return UNKNOWN
    return frozenset(merged)


def join_devices(devices: list[Device]) -> Device:
    """The accelerator if something says so and nothing says the CPU; the CPU only if all agree.

    A value on the accelerator on one path, and of unknown device on the others, is read from the
    accelerator on that path: this is what a finding needs to know. What may be on the CPU stays so,
    whatever else is joined to it later: the order of joins must not matter.
    """
    kinds = {device.kind for device in devices}
    reasons = sorted(device.evidence for device in devices if device.evidence is not None)
    if kinds == {CPU.kind}:
        pinned = all(device.pinned for device in devices)
        return Device("cpu", reasons[0] if reasons else None, pinned=True) if pinned else CPU
    if kinds & {CPU.kind, PERHAPS_CPU.kind}:
        return PERHAPS_CPU
    if kinds == {None}:
        return NO_DEVICE
    names = {device.name for device in devices}
    name = names.pop() if len(names) == 1 else None
    return Device(ACCELERATOR, reasons[0] if reasons else None, name)


def join_tensors(tensors: list[Tensor]) -> Tensor:
    """A tensor with the facts that hold for all the given ones."""
    if len(tensors) == 1:
        return tensors[0]
    dtypes = {tensor.dtype for tensor in tensors}
    ranks = {tensor.rank for tensor in tensors}
    dims = {tensor.dims for tensor in tensors}
    grads = {tensor.grad for tensor in tensors}
    fresh = {tensor.fresh for tensor in tensors}
    reasons = sorted(t.dtype_evidence for t in tensors if t.dtype_evidence is not None)
    return Tensor(
        dtype=dtypes.pop() if len(dtypes) == 1 else None,
        device=join_devices([tensor.device for tensor in tensors]),
        rank=ranks.pop() if len(ranks) == 1 else None,
        dims=dims.pop() if len(dims) == 1 else None,
        grad=grads.pop() if len(grads) == 1 else None,
        dtype_evidence=reasons[0] if reasons else None,
        fresh=fresh.pop() if len(fresh) == 1 else None,
    )


def join_blobs(blobs: list[TensorTree]) -> TensorTree:
    source = blobs[0].source if len({blob.source for blob in blobs}) == 1 else "batch"
    return TensorTree(join_devices([blob.device for blob in blobs]), source)


def join_hosts(hosts: list[Host]) -> Iterator[Host]:
    """A value of each kind; of strings, some whose text is known may stand beside each other."""
    for kind in dict.fromkeys(host.kind for host in hosts):
        alike = [host for host in hosts if host.kind == kind]
        known = kind == "str" and all(host.known for host in alike)
        if kind in MERGED_HOSTS and len(alike) > (MAX_STRINGS if known else 1):
            yield Host(kind)
        else:
            yield from alike


def join_objects(objects: list[Object]) -> Iterator[Object]:
    """The objects; many modules that hold nothing become one."""
    modules = [each for each in objects if each.kind == "module" and not each.holds]
    if len(modules) > MAX_MODULES:
        yield Object("module", "?", join_devices([module.device for module in modules]))
        yield from set(objects).difference(modules)
    else:
        yield from objects


def join_sequences(sequences: list[Sequence]) -> Sequence:
    lengths = {None if s.items is None else len(s.items) for s in sequences}
    names = {s.names for s in sequences}
    element = join(s.element for s in sequences)
    batches = any(s.batches for s in sequences)
    if len(lengths) == 1 and None not in lengths:
        columns = zip(*(s.items for s in sequences if s.items is not None), strict=True)
        items = tuple(join(column) for column in columns)
        return Sequence(items, element, batches, names.pop() if len(names) == 1 else ())
    return Sequence(None, element, batches)


def join_mappings(mappings: list[Mapping]) -> Mapping:
    keys = {key for mapping in mappings for key, _ in mapping.items}
    if len(keys) > MAX_KEYS or any(mapping.crowded for mapping in mappings):
        return Mapping(join(m.element for m in mappings), (), True)
    items = tuple(
        (key, join(dict(m.items).get(key, m.element) for m in mappings)) for key in sorted(keys)
    )
    return Mapping(join(m.element for m in mappings), items)


MERGED_HOSTS = frozenset({"int", "float", "bool", "str", "number", "numpy"})
MERGES: dict[type, Callable[[list[Any]], Iterable[Atom]]] = {
    Tensor: lambda tensors: [join_tensors(tensors)],
    TensorTree: lambda blobs: [join_blobs(blobs)],
    Host: join_hosts,
    Object: join_objects,
    Sequence: lambda sequences: [join_sequences(sequences)],
    Mapping: lambda mappings: [join_mappings(mappings)],
}


CONTAINERS = frozenset({Sequence, Mapping})


def depth(value: Value, limit: int = MAX_DEPTH + 1) -> int:
    """How deep containers nest in the value, counted up to `limit`."""
    if limit == 0:
        return 0
    deepest = 0
    for atom in value:
        if isinstance(atom, Sequence):
            inner = atom.items if atom.items is not None else ()
            deepest = max(
                deepest, 1 + max((depth(v, limit - 1) for v in (*inner, atom.element)), default=0)
            )
        elif isinstance(atom, Mapping):
            inner_values = (atom.element, *(v for _, v in atom.items))
            deepest = max(deepest, 1 + max(depth(v, limit - 1) for v in inner_values))
    return deepest


def shallow(value: Value) -> Value:
    """The value, or Unknown where containers nest so deep that a fixpoint might not end."""
    for atom in value:
        if type(atom) in CONTAINERS:
            return UNKNOWN if depth(value) > MAX_DEPTH else value
    return value


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call. `stars`: `*args` or `**kwargs` is among them: positions are unsure.

    `more_keywords`: `**kwargs` is, so that any keyword may be given.
    `hint` is the last identifier of the device or first argument, as written.
    """

    positional: tuple[Value, ...] = ()
    keywords: dict[str, Value] = field(default_factory=dict)
    stars: bool = False
    more_keywords: bool = False
    hint: str = ""

    def get(self, name: str, position: int | None = None) -> Value | None:
        """The argument of that name or position, or None where it is not given."""
        if name in self.keywords:
            return self.keywords[name]
        if position is not None and position < len(self.positional) and not self.stars:
            return self.positional[position]
        return None

    def has(self, name: str, position: int | None = None) -> bool:
        return self.get(name, position) is not None

    @property
    def all(self) -> tuple[Value, ...]:
        return (*self.positional, *self.keywords.values())


def moved(atom: Tensor | TensorTree, device: Device) -> Tensor | TensorTree:
    """The same tensor, or nest of tensors, on another device."""
    if isinstance(atom, Tensor):
        return replace(atom, device=device, fresh=None)
    return replace(atom, device=device)


@dataclass(frozen=True, slots=True)
class Region:
    """The autocast state around a node: the innermost context that decides.

    `device` and `dtype` are those of the region ("cuda", "float16"); `enabled` is None where it
    is not constant. `why` is the place that opens it.
    `inherited`: the region is opened by a caller, not in the function itself.
    """

    device: str | None
    dtype: str | None
    enabled: bool | None
    evidence: Evidence | None = field(default=None, compare=False)
    inherited: bool = False


@dataclass(frozen=True, slots=True)
class Heat:
    """Why a node runs for every batch: `training` or `evaluation`, and the chain of reasons."""

    temperature: str
    chain: tuple[Evidence, ...] = field(default=(), compare=False)
