"""The lattice of values: what covers several of them.

A `Value` is a set of alternatives. Its parts (the tensors, the strings, the classes ...) are kept
apart by `part`, and each part is a lattice of its own: some are merged into one alternative, others
have a top `Unknown(part)`, beside which the value is *open*: it holds `Unknown()`, for it may be
anything else of its part. A value of more than `MAX_ALTERNATIVES` is `TOP`, whatever comes later:
what flows together from all sides says nothing, and would only hide what the use of a value says.

Since a cap depends on the alternatives alone, and not on how many were joined before, `join` is
associative, commutative and idempotent (tests/unit/test_lattice.py), and every chain is finite: a
fixpoint over values ends, at the same values in whatever order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from amplint.values.atoms import (
    ACCELERATOR,
    BOTTOM,
    CPU,
    HOST_KINDS,
    NO_DEVICE,
    NONE,
    PERHAPS_CPU,
    PLAIN,
    UNKNOWN,
    Atom,
    Device,
    Function,
    Host,
    Instance,
    Object,
    Sequence,
    Tensor,
    TensorTree,
    Unknown,
    Value,
    evidence_text,
    first_of,
)
from amplint.values.atoms import Mapping as MappingValue
from amplint.values.dtypes import covering

MAX_ALTERNATIVES = 6  # of a value; a part that is merged, or of MAX_IN_TABLE, counts as one
MAX_IN_TABLE = {"Function": 48, "Instance": 12}  # a table of losses, of backends
MAX_MODULES = 6  # library modules that are kept apart; of more, all that is known is the kind
MAX_STRINGS = 3  # `"cuda" if torch.cuda.is_available() else "cpu"` keeps both
MAX_LENGTHS = 2  # of tuples that are kept apart
MAX_DEPTH = 3  # containers in each other
MAX_KEYS = 32  # constant keys of a dict that are kept apart
# The same of a dict, of one in it, and of one in that. A dict of losses that is updated with what
# was in it holds itself: with 32 keys on each of three levels, mmdet took more than 20 minutes.
MAX_NESTED_KEYS = (MAX_KEYS, 12, 0)
FEW = 6  # values in a container, which are sooner walked twice than compared

MODULE_CONTAINERS = frozenset(
    f"torch.nn.{name}" for name in ("ModuleList", "Sequential", "ModuleDict")
)
ANY_MODULE = "?"  # the type of a library module that is one of many
ANYTHING = Unknown("anything")
TOP: Value = frozenset({ANYTHING, Unknown()})  # it takes in whatever is joined to it
COUNTED_ONCE = frozenset({*MAX_IN_TABLE, "Unknown"})


Item = TypeVar("Item")


def agreed(items: Iterable[Item]) -> Item | None:
    """The one that all of these are; None where they differ, or there are none."""
    distinct = {*items}
    return distinct.pop() if len(distinct) == 1 else None


# ------------------------------------------------------------------------------ of one value


def is_open(value: Value) -> bool:
    """Whether it may be something that nothing is known of."""
    return value >= UNKNOWN


def is_unknown(value: Value) -> bool:
    """Whether nothing is known of it, though something was seen."""
    return bool(value) and all(isinstance(atom, Unknown) for atom in value)


def known(value: Value) -> Value:
    """The alternatives of which something is known."""
    return frozenset(atom for atom in value if not isinstance(atom, Unknown))


def only(value: Value) -> Atom | None:
    """The one alternative, leaving None aside; None where there are several or it is Unknown.

    Tensors that differ in what is known of them are joined into one, and tuples of two lengths too.
    """
    if len(value) == 1:  # as nearly all have
        (atom,) = value
        return None if atom == NONE or isinstance(atom, Unknown) else atom
    atoms = [atom for atom in value if atom != NONE]
    if not atoms:
        return None
    if all(isinstance(atom, Tensor) for atom in atoms):
        return join_tensors([atom for atom in atoms if isinstance(atom, Tensor)])
    if len(atoms) == 1 and not isinstance(atoms[0], Unknown):
        return atoms[0]
    if all(isinstance(atom, Sequence) for atom in atoms):
        return of_any_length([atom for atom in atoms if isinstance(atom, Sequence)])
    return None


# ------------------------------------------------------------------------------ join


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
    # Values of the fixpoint share what is equal in them: it is the evidence of others that differs.
    if len({id(atom) for value in values for atom in value}) == len(union):
        return union
    first: dict[Atom, Atom] = {}
    texts: dict[Atom, str] = {}  # of those that were compared
    for value in values:
        for atom in value:
            if type(atom) not in PLAIN:
                before = first.setdefault(atom, atom)
                if before is not atom:
                    text, text_before = evidence_text(atom), texts.get(atom)
                    if text_before is None:
                        text_before = evidence_text(before)
                    texts[atom] = min(text, text_before)
                    if text < text_before:
                        first[atom] = atom
    if not first:
        return union
    return frozenset([*first.values(), *(atom for atom in union if type(atom) in PLAIN)])


def normalise(atoms: Iterable[Atom]) -> Value:
    """The value of some alternatives: of a part with too many, its top."""
    atoms = frozenset(atoms)
    if len(set(map(type, atoms))) == len(atoms) <= MAX_ALTERNATIVES:
        return atoms  # one of each part
    parts: dict[str, list[Atom]] = {}
    for atom in atoms:
        parts.setdefault(part(atom), []).append(atom)
    tops = {atom.of for atom in atoms if isinstance(atom, Unknown)}
    if ANYTHING.of in tops:
        return TOP
    members: set[Atom] = set()
    alternatives = 0
    parts.update({"Instance": join_instances(parts["Instance"])} if "Instance" in parts else {})
    for name, alike in parts.items():
        apart = len(alike) if name not in MERGES and name not in COUNTED_ONCE else 1
        alternatives += apart
        if name in tops:
            continue  # the top is in the part of Unknown
        if len(alike) == 1 or name == "Unknown":
            members.update(alike)
        elif name in MERGES:
            members.update(MERGES[name](alike))
        elif len(alike) > MAX_IN_TABLE.get(name, len(alike)):
            members.update((Unknown(name), Unknown()))
        else:
            members.update(alike)
    return frozenset(members) if alternatives <= MAX_ALTERNATIVES else TOP


def part(atom: Atom) -> str:
    """The part of the lattice that an alternative belongs to."""
    kind = type(atom).__name__
    if isinstance(atom, Host):
        return f"Host {atom.kind}"
    if isinstance(atom, Object) and atom.kind == "module":
        container = bool(atom.holds) or atom.type in MODULE_CONTAINERS
        return "container module" if container else "module"
    if isinstance(atom, Function) and atom.bound is not None:
        return "Method of the project"
    return kind


def few_functions(value: Value) -> Value:
    """The value, of which more functions than there are alternatives of other parts are Unknown:
    of what a decorator is given, say, it does not matter which it is."""
    functions = [atom for atom in value if part(atom) == "Function"]
    if len(functions) <= MAX_ALTERNATIVES:
        return value
    return value.difference(functions) | {Unknown("Function"), Unknown()}


# ------------------------------------------------------------------------------ its parts


def join_devices(devices: list[Device]) -> Device:
    """The accelerator if something says so and nothing says the CPU; the CPU only if all agree.

    A value on the accelerator on one path, and of unknown device on the others, is read from the
    accelerator on that path: this is what a finding needs to know. What may be on the CPU stays so,
    whatever else is joined to it later: the order of joins must not matter. What is pinned is so
    on every path on which it is on the CPU.
    """
    kinds = {device.kind for device in devices}
    hosts = [each for each in devices if each.kind in (CPU.kind, PERHAPS_CPU.kind)]
    if hosts:
        where = CPU if kinds == {CPU.kind} else PERHAPS_CPU
        if not all(device.pinned or device.pinned_within for device in hosts):
            return where
        return replace(
            where,
            evidence=first_of(device.evidence for device in hosts),
            pinned=all(device.pinned for device in hosts),
            pinned_within=any(device.pinned_within for device in hosts),
        )
    if kinds == {None}:
        return NO_DEVICE
    reason = first_of(device.evidence for device in devices)
    others = frozenset(kind for device in devices for kind in device.others)
    return Device(ACCELERATOR, reason, agreed(device.name for device in devices), others=others)


def join_tensors(tensors: list[Tensor]) -> Tensor:
    """A tensor with the facts that hold for all the given ones."""
    if len(tensors) == 1:
        return tensors[0]
    dtype = covering({tensor.dtype for tensor in tensors})
    halves = {tensor.half_on_a_path for tensor in tensors} - {None}
    return Tensor(
        dtype=dtype,
        device=join_devices([tensor.device for tensor in tensors]),
        rank=agreed(tensor.rank for tensor in tensors),
        dims=agreed(tensor.dims for tensor in tensors),
        grad=agreed(tensor.grad for tensor in tensors),
        # Of what is half on one path, why it is half.
        dtype_evidence=first_of(
            tensor.dtype_evidence for tensor in tensors if tensor.half_on_a_path or not halves
        ),
        fresh=agreed(tensor.fresh for tensor in tensors),
        half=covering(halves) if halves and dtype is None else None,
    )


def join_trees(trees: list[TensorTree]) -> TensorTree:
    source = trees[0].source if len({tree.source for tree in trees}) == 1 else "batch"
    forms = frozenset[str]().union(*(tree.forms for tree in trees))
    return TensorTree(join_devices([tree.device for tree in trees]), source, forms)


def join_hosts(hosts: list[Host]) -> Iterable[Host]:
    """A value of one kind; of strings, some whose text is known may stand beside each other."""
    kind = hosts[0].kind
    if kind in MERGED_HOSTS:
        texts = kind == "str" and all(host.known for host in hosts)
        limit = MAX_STRINGS if texts else 1
    else:
        limit = MAX_ALTERNATIVES
    return hosts if len(hosts) <= limit and Host(kind) not in hosts else [Host(kind)]


def join_modules(modules: list[Object]) -> Iterable[Object]:
    """Library modules; many become one of which the kind alone is known."""
    if len(modules) <= MAX_MODULES and all(module.type != ANY_MODULE for module in modules):
        return modules
    return [Object("module", ANY_MODULE, join_devices([module.device for module in modules]))]


def join_instances(instances: list[Any]) -> list[Atom]:
    """Those of one class as one, of which is known what the constructors of all were given."""
    alike: dict[Instance, list[Instance]] = {}
    for instance in instances:
        alike.setdefault(replace(instance, inputs=()), []).append(instance)
    return [
        group[0] if len(group) == 1 else replace(one, inputs=given_to_all(group))
        for one, group in alike.items()
    ]


def given_to_all(instances: list[Instance]) -> tuple[tuple[str, Value], ...]:
    first, *others = (instance.inputs for instance in instances)
    return tuple(each for each in first if all(each in inputs for inputs in others))


def join_containers(containers: list[Object]) -> Iterable[Object]:
    """Containers of modules, those of one type as one: what was empty before it was filled."""
    alike: dict[str, list[Object]] = {}
    for container in containers:
        alike.setdefault(container.type, []).append(container)
    return [join_alike(group) for group in alike.values()]


def join_alike(containers: list[Object]) -> Object:
    return Object(
        "module",
        containers[0].type,
        join_devices([container.device for container in containers]),
        dtype=agreed(container.dtype for container in containers),
        holds=join(container.holds for container in containers),
        last=agreed(container.last for container in containers),
    )


def join_sequences(sequences: list[Sequence]) -> list[Sequence]:
    """Item by item those of one length; of few lengths, each for itself: what is unpacked into
    three is the tuple of three. Otherwise the items are elements like all others."""
    alike: dict[int | None, list[Sequence]] = {}
    for sequence in sequences:
        length = None if sequence.items is None else len(sequence.items)
        alike.setdefault(length, []).append(sequence)
    # To an empty list something is added, mostly.
    apart = len(alike) == 1 or 0 not in alike
    if apart and None not in alike and len(alike) <= MAX_LENGTHS:
        return [join_items(group) for group in alike.values()]
    return [of_any_length(sequences)]


def of_any_length(sequences: list[Sequence]) -> Sequence:
    """Sequences as one, of which the items are elements like all others."""
    elements = (value for s in sequences for value in (s.element, *(s.items or ())))
    return Sequence(None, join(elements), any(s.batches for s in sequences))


def join_items(sequences: list[Sequence]) -> Sequence:
    """Sequences of one length, item by item."""
    columns = zip(*(s.items or () for s in sequences), strict=True)
    return Sequence(
        items=tuple(join(column) for column in columns),
        element=join(s.element for s in sequences),
        batches=any(s.batches for s in sequences),
        names=agreed(s.names for s in sequences) or (),
    )


def join_mappings(mappings: list[MappingValue]) -> MappingValue:
    """Key by key; under a key that one of them lacks, it may have any of its other values."""
    keys = {key for mapping in mappings for key, _ in mapping.items}
    if len(keys) > MAX_KEYS or any(mapping.crowded for mapping in mappings):
        return MappingValue(join(map(any_value, mappings)), (), True)
    tables = [(dict(mapping.items), mapping.rest) for mapping in mappings]
    # Many keys have the same values: in nested dicts, each level would multiply the joins.
    joined: dict[tuple[int, ...], Value] = {}
    items = []
    for key in sorted(keys):
        values = [table.get(key, rest) for table, rest in tables]
        same = tuple(map(id, values))
        if same not in joined:
            joined[same] = join(values)
        items.append((key, joined[same]))
    return MappingValue(join(mapping.rest for mapping in mappings), tuple(items))


def any_value(mapping: MappingValue) -> Value:
    """The join of all values of a dict."""
    return join(inner(mapping))


def value_at(mapping: MappingValue, key: object) -> Value:
    """The value under a key, which is None where it is not known."""
    if isinstance(key, str):
        for name, value in mapping.items:
            if name == key:
                return value
        if mapping.rest:
            return mapping.rest
    return any_value(mapping)


MERGED_HOSTS = frozenset({"int", "float", "bool", "str", "number", "numpy"})
MERGES: Mapping[str, Callable[[list[Any]], Iterable[Atom]]] = {
    "Tensor": lambda tensors: [join_tensors(tensors)],
    "TensorTree": lambda trees: [join_trees(trees)],
    "module": join_modules,
    "container module": join_containers,
    "Sequence": join_sequences,
    "Mapping": lambda mappings: [join_mappings(mappings)],
    **{f"Host {kind}": join_hosts for kind in HOST_KINDS},
}


# ------------------------------------------------------------------------------ depth


NESTS = frozenset({Sequence, MappingValue, Object, Instance})  # kinds that may hold values


def shallow(value: Value) -> Value:
    """The value, with what nests deeper than `MAX_DEPTH` left unknown, and with no more keys kept
    apart in nested dicts than `MAX_NESTED_KEYS`: every chain is finite, and short."""
    for atom in value:
        if type(atom) in NESTS and is_deeper(value, MAX_DEPTH):
            return truncated(value, MAX_DEPTH)
    return value


def is_deeper(value: Value, levels: int, dicts: int = 0) -> bool:
    """Whether more than `levels` containers nest in each other, or a nested dict has too many keys.

    Args:
        dicts: around the value.
    """
    for atom in value:
        if type(atom) in NESTS:
            inside = inner(atom)
            if inside and levels == 0:
                return True
            around = dicts
            if isinstance(atom, MappingValue):
                if has_too_many_keys(atom, dicts):
                    return True
                around += 1
            if any(is_deeper(each, levels - 1, around) for each in inside):
                return True
    return False


def has_too_many_keys(mapping: MappingValue, dicts: int) -> bool:
    """Whether a dict inside of `dicts` others has more keys than are kept apart there."""
    limit = MAX_NESTED_KEYS[dicts] if dicts < len(MAX_NESTED_KEYS) else 0
    return len(mapping.items) > limit


def inner(atom: Atom) -> tuple[Value, ...]:
    """The values that lie in an alternative; none in one that is no container.

    Each object once: a dict of dicts may hold one value thousands of times, and who walks down
    would come to it as often.
    """
    if isinstance(atom, Sequence):
        return distinct((atom.element, *(atom.items or ())))
    if isinstance(atom, MappingValue):
        return distinct((atom.rest, *(value for _, value in atom.items)))
    if isinstance(atom, Instance):
        return tuple(value for _, value in atom.inputs)
    return (atom.holds,) if isinstance(atom, Object) and atom.holds else ()


def distinct(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """The values, without those that are the same object as one before, where there are many."""
    return values if len(values) < FEW else tuple({id(value): value for value in values}.values())


def truncated(value: Value, levels: int, dicts: int = 0) -> Value:
    """The value, with at most `levels` containers in each other, and with few keys in nested dicts.

    Args:
        dicts: around the value.
    """
    atoms: list[Atom] = []
    for atom in value:
        if not inner(atom):
            atoms.append(atom)
        elif isinstance(atom, Instance):
            inputs = (each for each in atom.inputs if levels and not is_deeper(each[1], levels - 1))
            atoms.append(replace(atom, inputs=tuple(inputs)))
        elif levels == 0:
            atoms += (Unknown(part(atom)), Unknown())
        elif isinstance(atom, MappingValue):
            crowded = has_too_many_keys(atom, dicts)
            table = MappingValue(any_value(atom), (), True) if crowded else atom
            atoms.append(with_inside(table, partial(truncated, levels=levels - 1, dicts=dicts + 1)))
        else:
            atoms.append(with_inside(atom, partial(truncated, levels=levels - 1, dicts=dicts)))
    return normalise(atoms)


def with_inside(atom: Atom, change: Callable[[Value], Value]) -> Atom:
    """The alternative, with the values that lie in it changed; itself, where it is no container.

    Args:
        change: called once for each object that lies in it.
    """
    changed = {id(value): change(value) for value in inner(atom)}
    if isinstance(atom, Sequence):
        items = atom.items and tuple(changed[id(item)] for item in atom.items)
        return replace(atom, items=items, element=changed[id(atom.element)])
    if isinstance(atom, MappingValue):
        pairs = tuple((key, changed[id(each)]) for key, each in atom.items)
        return replace(atom, items=pairs, rest=changed[id(atom.rest)])
    if isinstance(atom, Instance) and atom.inputs:
        return replace(atom, inputs=tuple((name, changed[id(each)]) for name, each in atom.inputs))
    if isinstance(atom, Object) and atom.holds:
        return replace(atom, holds=changed[id(atom.holds)])
    return atom
