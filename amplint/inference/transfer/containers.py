"""Contents of containers: iterated, unpacked, subscripted, put and added."""

from __future__ import annotations

from dataclasses import replace

from amplint.inference.transfer import ranks
from amplint.inference.transfer.kinds import INT, NOTHING, STR
from amplint.inference.transfer.promotion import tensors_in
from amplint.inference.transfer.results import with_dims
from amplint.values.atoms import (
    ACCELERATOR,
    BOTTOM,
    NONE,
    UNKNOWN,
    Atom,
    Device,
    Host,
    Instance,
    Mapping,
    Object,
    Sequence,
    Tensor,
    TensorTree,
    Unknown,
    Value,
    branch,
    constant,
    moved,
    one,
)
from amplint.values.lattice import MAX_KEYS, MODULE_CONTAINERS, any_value, join, only, value_at

ON_DEVICE = Device(ACCELERATOR)


def modules_of(value: Value) -> Value:
    """The modules in what a container is given: a module, or a list or dict of them."""
    modules: list[Value] = []
    for atom in value:
        if isinstance(atom, Instance):
            modules.append(one(atom))
        elif isinstance(atom, Sequence):
            modules += [modules_of(v) for v in (*(atom.items or ()), atom.element)]
        elif isinstance(atom, Mapping):
            modules += [modules_of(v) for v in (atom.rest, *(v for _, v in atom.items))]
        elif isinstance(atom, Object) and atom.kind == "module":
            modules.append(one(replace(atom, holds=BOTTOM)))  # not nested: it would have no end
        elif isinstance(atom, Object) and atom.kind == "criterion":
            modules.append(one(atom))
    return join(modules)


def under_keys(value: Value) -> Value:
    """The modules in the dict that a ModuleDict is given, by their keys, with those that they hold;
    what these hold is not followed: it would have no end."""
    mappings: list[Value] = []
    for atom in value:
        if isinstance(atom, Mapping) and atom.items and not atom.rest:
            pairs = tuple((key, frozenset(map(without_keys, each))) for key, each in atom.items)
            mappings.append(one(Mapping(BOTTOM, pairs)))
    return join(mappings)


def without_keys(atom: Atom) -> Atom:
    """A ModuleDict of which only the modules are known that it holds under any key."""
    return replace(atom, holds=modules_in(atom)) if isinstance(atom, Object) else atom


def modules_in(thing: Object) -> Value:
    """The modules that a container holds, under any key."""
    return frozenset(atom for atom in thing.holds if not isinstance(atom, Mapping))


def module_at(thing: Object, key: object) -> Value:
    """The module that a ModuleDict has under a key; nothing where that is not known."""
    named = [
        value for a in thing.holds if isinstance(a, Mapping) for k, value in a.items if k == key
    ]
    return join(one(on_device_of(atom, thing)) for value in named for atom in value)


SOME_MODULE = Object("module", "?")


PARAMETER_CONTAINERS = frozenset({"torch.nn.ParameterList", "torch.nn.ParameterDict"})


def content(thing: Object) -> Value | None:
    """An element of a container of modules or parameters; None of other objects."""
    if thing.type in PARAMETER_CONTAINERS:
        device = thing.device if thing.device.kind else ON_DEVICE
        return one(Tensor(None, device, None, True))
    if thing.type in MODULE_CONTAINERS:
        inside = (one(on_device_of(atom, thing)) for atom in modules_in(thing))
        return join(inside) or one(SOME_MODULE)
    return None


def on_device_of(atom: Atom, thing: Object) -> Atom:
    """A module in a container is where the container is."""
    if isinstance(atom, Object | Instance) and thing.device.kind is not None:
        return replace(atom, device=thing.device)
    return atom


def is_loader(atom: Atom) -> bool:
    """Whether iterating the atom yields one batch after the other."""
    if isinstance(atom, Object):
        return atom.kind == "loader"
    return isinstance(atom, Sequence) and atom.batches


def collating(loader: Value) -> Value:
    """A loader that is given a `collate_fn`: what that returns need be no tensor, of all that is
    pinned."""
    return frozenset(
        replace(a, device=replace(a.device, pinned=False, pinned_within=True))
        if isinstance(a, Object) and a.kind == "loader" and a.device.pinned
        else a
        for a in loader
    )


def as_sequence(atom: Atom) -> Value:
    if isinstance(atom, Unknown):
        return UNKNOWN
    if isinstance(atom, Sequence):
        return one(atom)
    if atom == NONE:
        return BOTTOM
    return one(Sequence(None, iterate(one(atom))))


def as_mapping(atom: Atom) -> Value:
    """`dict(x)` of a mapping, or of pairs."""
    if isinstance(atom, Mapping | TensorTree):
        return one(atom)
    if not isinstance(atom, Sequence):
        return UNKNOWN
    pairs = [p for v in (atom.items or (atom.element,)) for p in v]
    if not all(isinstance(p, Sequence) and p.items is not None for p in pairs):
        return UNKNOWN
    rows = [p.items for p in pairs if isinstance(p, Sequence) and p.items and len(p.items) == 2]
    keys = [constant(row[0]) for row in rows]
    items = {k: row[1] for k, row in zip(keys, rows, strict=True) if isinstance(k, str)}
    if atom.items is None or len(items) < len(rows):
        return one(Mapping(join(row[1] for row in rows)))
    return one(Mapping(BOTTOM, tuple(sorted(items.items(), key=first_of))))


def first_of(pair: tuple[str, Value]) -> str:
    return pair[0]


def unpinned(device: Device) -> Device:
    """Where a copy of a tensor is."""
    pins = device.pinned or device.pinned_within
    return replace(device, evidence=None, pinned=False, pinned_within=False) if pins else device


def of_keys(method: str, value: Value) -> Value | None:
    """The result of a method of what has values under keys; None where it is another method.

    Args:
        value: under any key.
    """
    if method == "items":
        return one(Sequence(None, one(Sequence((STR, value), UNKNOWN))))
    if method in ("get", "pop"):
        return value
    return {"keys": one(Sequence(None, STR)), "values": one(Sequence(None, value))}.get(method)


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
            return one(TensorTree(atom.device))
        if atom.kind == "parameters":
            return one(Tensor(device=atom.device, rank=1, grad=True))
        if atom.type in KEYED:
            return STR
        return content(atom) or UNKNOWN
    if isinstance(atom, Tensor):
        return one(row(atom))
    if isinstance(atom, TensorTree):
        return one(branch(atom)) if atom.forms != {"mapping"} else STR
    if isinstance(atom, Host):
        if atom.kind == "numpy":
            return one(replace(atom, rank=None))
        return {"size": INT, "str": STR, "list": UNKNOWN}.get(atom.kind, BOTTOM)
    return UNKNOWN


def rows(value: Value) -> Value:
    """One element of what is gone through beside something else: nobody does so with names."""
    return iterate(
        frozenset(
            Tensor(device=atom.device) if isinstance(atom, TensorTree) and atom.has_rows else atom
            for atom in value
        )
    )


def row(tensor: Tensor) -> Tensor:
    """The value of one element of a tensor: of an iteration, or of a number between brackets."""
    element = replace(tensor, rank=None, dims=None, fresh=None)
    return element if tensor.dims is None else with_dims(element, tensor.dims - 1)


def unpack(value: Value, index: int, targets: int, starred: bool) -> Value:
    """The `index`-th of the `targets` that the value is unpacked into.

    Where a tuple may have several lengths, that is the one that fits: others are of other paths.
    """
    lengths = {len(a.items) for a in value if isinstance(a, Sequence) and a.items is not None}
    results = []
    for atom in value:
        if not isinstance(atom, Sequence) or atom.items is None:
            results.append(iterate_atom(atom))
        elif starred:
            results.append(atom.items[index] if index == 0 and atom.items else join(atom.items))
        elif len(atom.items) == targets or targets not in lengths:
            results.append(atom.items[index] if index < len(atom.items) else BOTTOM)
    return join(results)


def subscript_tensor(tensor: Tensor, index: Value, keys: tuple[Value, ...]) -> Tensor:
    """The tensor that an index selects; `keys` are its elements, as far as they are known."""
    key = only(index)
    gathers = isinstance(key, Tensor) and (key.dtype == "bool" or key.rank == 1)
    # A slice and None leave a dimension, whatever else there is between the brackets.
    some = gathers or any(ranks.is_slice(k) or k == NOTHING for k in keys)
    by_tensor = isinstance(key, Tensor | TensorTree)
    device = unpinned(tensor.device) if by_tensor else tensor.device
    selection = replace(tensor, rank=1 if some else None, dims=None, device=device, fresh=None)
    return with_dims(selection, ranks.of_item(ranks.count(one(tensor)), keys) if keys else None)


def subscript_atom(atom: Atom, index: Value, keys: tuple[Value, ...] = ()) -> Value:
    """`atom[index]`; `keys` are what stands between the brackets, where that is known."""
    if isinstance(atom, Tensor):
        return one(subscript_tensor(atom, index, keys))
    if isinstance(atom, TensorTree):
        by_tensor = isinstance(only(index), Tensor | TensorTree)
        device = unpinned(atom.device) if by_tensor else atom.device
        several = len(keys) > 1 and not any(isinstance(constant(key), str) for key in keys)
        if several or (atom.has_rows and is_position(index)):  # no nest has several
            return one(subscript_tensor(Tensor(device=device), index, keys))
        return one(branch(replace(atom, device=device)))
    if isinstance(atom, Sequence):
        position = constant(index)
        if atom.items is not None and isinstance(position, int) and not isinstance(position, bool):
            return (
                atom.items[position] if -len(atom.items) <= position < len(atom.items) else BOTTOM
            )
        element = join(atom.items) if atom.items is not None else atom.element
        return one(Sequence(None, element, atom.batches)) if ranks.is_slice(index) else element
    if isinstance(atom, Mapping):
        return value_at(atom, constant(index))
    if isinstance(atom, Host):
        if atom.kind == "numpy":
            return one(replace(atom, rank=None))
        if atom.kind == "size" and ranks.is_slice(index):
            return one(atom)
        return {"size": INT, "str": STR}.get(atom.kind, UNKNOWN if atom != NONE else BOTTOM)
    if isinstance(atom, Object):
        if atom.type in MODULE_CONTAINERS and ranks.is_slice(index):
            return one(replace(atom, last=None))
        return module_at(atom, constant(index)) or item(atom, index) or UNKNOWN
    return UNKNOWN


def is_position(index: Value) -> bool:
    """Ex) x[i], x[:n]"""
    atom = only(index)
    return ranks.is_slice(index) or (isinstance(atom, Host) and atom.kind == "int")


def item(thing: Object, index: Value) -> Value | None:
    """An item of a container of modules of which the keys are not known. Which of several losses is
    under a constant key or index is not known either; a key that is computed may mean each."""
    modules = content(thing)
    if modules is None or constant(index) is None or len(modules) == 1:
        return modules
    return frozenset(
        SOME_MODULE if isinstance(atom, Object) and atom.kind == "criterion" else atom
        for atom in modules
    )


def put(container: Value, index: Value, value: Value) -> Value:
    """The container after `container[index] = value`."""
    results = []
    for atom in container:
        if isinstance(atom, Mapping):
            key = constant(index)
            items = dict(atom.items)
            if isinstance(key, str) and len(items) < MAX_KEYS:
                items[key] = value
                named = tuple(sorted(items.items(), key=first_of))
                results.append(one(replace(atom, items=named)))
            else:
                crowded = atom.crowded or len(items) >= MAX_KEYS
                results.append(one(Mapping(join([any_value(atom), value]), (), crowded)))
        elif isinstance(atom, TensorTree):
            devices = {t.device.kind for t in tensors_in([value])}
            results.append(
                one(
                    moved(atom, tensors_in([value])[0].device) if devices == {ACCELERATOR} else atom
                )
            )
        elif isinstance(atom, Sequence):
            element = join([atom.element, *(atom.items or ()), value])
            results.append(one(Sequence(None, element, atom.batches)))
        elif isinstance(atom, Object):
            results.append(one(replace(atom, holds=modules_in(atom), last=None)))
        else:
            results.append(one(atom))
    return join(results)


def updated(mapping: Mapping, others: list[Mapping]) -> Mapping:
    """The dict after `mapping.update(other)`, the other being one of several."""
    if len(others) == 1 and not others[0].rest and not others[0].crowded:
        items = dict(mapping.items) | dict(others[0].items)
        if len(items) <= MAX_KEYS:
            return replace(mapping, items=tuple(sorted(items.items(), key=first_of)))
    return Mapping(join(any_value(each) for each in (mapping, *others)))


def add(container: Value, value: Value, method: str) -> Value:
    """The container after `container.append(value)` or the like."""
    results = []
    for atom in container:
        if isinstance(atom, Sequence):
            inside = iterate(value) if method in ("extend", "update") else value
            element = join([atom.element, *(atom.items or ()), inside])
            results.append(one(Sequence(None, element, atom.batches)))
        elif isinstance(atom, Object) and atom.type in MODULE_CONTAINERS:
            results.append(
                one(replace(atom, holds=join([modules_in(atom), modules_of(value)]), last=None))
            )
        elif isinstance(atom, Mapping) and method == "update":
            results.append(one(updated(atom, [v for v in value if isinstance(v, Mapping)])))
        else:
            results.append(one(atom))
    return join(results)
