"""Values narrowed by a test: `isinstance`, `is None`, `torch.is_tensor`, `.is_cuda`,
`.dtype`."""

from __future__ import annotations

from dataclasses import replace

from amplint.frameworks.models import Models
from amplint.inference.function.annotations import annotated
from amplint.values.atoms import (
    ACCELERATOR,
    BOTTOM,
    NONE,
    TREE_FORMS,
    UNKNOWN,
    Atom,
    Device,
    DType,
    Host,
    Sequence,
    Symbol,
    Tensor,
    TensorTree,
    Value,
    is_host,
    one,
)
from amplint.values.dtypes import alternatives, covering
from amplint.values.lattice import is_unknown, join, only


def narrow(value: Value, kind: str, classes: Value, models: Models) -> Value:
    """The alternatives of a value that a test leaves."""
    if kind == "none":
        return one(NONE)
    if kind in ("not none", "true"):
        return frozenset(a for a in value if a != NONE)
    if kind == "tensor":
        tensors = frozenset(a for a in value if isinstance(a, Tensor | TensorTree))
        return tensors or (BOTTOM if is_host(value, PLAIN) else one(Tensor()))
    if kind == "not tensor":
        others = frozenset(a for a in value if not isinstance(a, Tensor))
        return with_forms(others, TREE_FORMS - {"tensor"}) or UNKNOWN
    if kind in ("on cuda", "on cpu"):
        elsewhere = "cpu" if kind == "on cuda" else ACCELERATOR
        # Where the device is known to be the other one, the branch is not taken.
        return frozenset(
            a for a in value if not (isinstance(a, Tensor) and a.device.kind == elsewhere)
        )
    if kind in ("dtype", "not dtype"):
        return narrow_dtype(value, classes, kind == "dtype")
    if kind == "isinstance":
        return narrow_to(value, classes, models)
    if kind == "not isinstance":
        return narrow_out(value, classes, models)
    return value


def narrow_dtype(value: Value, dtypes: Value, holds: bool) -> Value:
    """The alternatives that a comparison of a tensor's dtype leaves, where it is known with what.

    Ex) float32, of "float16 or float32" where `x.dtype == torch.float16` does not hold
    """
    named = [alternatives_of(each) for each in compared(dtypes)]
    # What is one of several is not excluded: it may be the other.
    if not all(len(each) == 1 or (holds and each) for each in named):
        return value
    those = frozenset[str]().union(*named)
    return frozenset(
        part
        for atom in value
        if (part := with_dtypes(atom, those, holds) if isinstance(atom, Tensor) else atom)
    )


def compared(dtypes: Value) -> list[Value]:
    """Ex) a and b of `x.dtype in (a, b)`; a of `x.dtype == a`"""
    atom = only(dtypes)
    if not isinstance(atom, Sequence):
        return [dtypes]
    return [*atom.items] if atom.items is not None else [one(each) for each in atom.element]


def alternatives_of(dtype: Value) -> frozenset[str]:
    """The dtypes of torch that something may be; none where nobody knows."""
    names = [alternatives(atom.name) for atom in dtype if isinstance(atom, DType)]
    return frozenset[str]().union(*names) if len(names) == len(dtype) else frozenset()


def with_dtypes(tensor: Tensor, those: frozenset[str], among: bool) -> Tensor | None:
    """The tensor with a dtype that is among some, or is not; None where it has none that is left.
    Of a tensor that may have any dtype, a test says that of the path on which it is known."""

    def remaining(dtype: str | None) -> str | None:
        old = alternatives(dtype) if dtype is not None else frozenset[str]()
        new = old & those if among else old - those
        return dtype if new == old else covering(new) if new else None

    dtype = remaining(tensor.dtype)
    if tensor.dtype is not None and dtype is None:
        return None
    return replace(tensor, dtype=dtype, half=remaining(tensor.half))


PLAIN = frozenset({"int", "float", "bool", "number", "str"})


def class_atoms(classes: Value) -> list[Atom]:
    atoms: list[Atom] = []
    for atom in classes:
        if isinstance(atom, Sequence):
            inner = atom.items if atom.items is not None else (atom.element,)
            atoms.extend(a for v in inner for a in v)
        else:
            atoms.append(atom)
    return atoms


# By the last part of a class's name: the forms of a nest of tensors that its instances have.
FORMS = {
    **dict.fromkeys(("dict", "Dict", "Mapping", "MutableMapping"), ("mapping",)),
    **dict.fromkeys(("list", "List", "MutableSequence"), ("list",)),
    **dict.fromkeys(("tuple", "Tuple"), ("tuple",)),
    "Sequence": ("list", "tuple"),
    "Tensor": ("tensor",),
}


def forms_of(classes: Value) -> frozenset[str]:
    """The forms of a nest of tensors that instances of some classes have."""
    names = [atom.name for atom in class_atoms(classes) if isinstance(atom, Symbol)]
    return frozenset(form for name in names for form in FORMS.get(name.rpartition(".")[2], ()))


def with_forms(value: Value, forms: frozenset[str]) -> Value:
    """The value, of which nests of tensors have only these forms."""
    return frozenset(
        replace(atom, forms=atom.forms & forms) if isinstance(atom, TensorTree) else atom
        for atom in value
        if not isinstance(atom, TensorTree) or atom.forms & forms
    )


def narrow_to(value: Value, classes: Value, models: Models) -> Value:
    """The alternatives that are instances of one of some classes; arguments as in `narrow_out`."""
    instances = [annotated(one(a), Device(None), models) for a in class_atoms(classes)]
    if not instances or any(map(is_unknown, instances)):
        forms = forms_of(classes) or TREE_FORMS
        return with_forms(frozenset(a for a in value if a != NONE), forms) or UNKNOWN
    target = join(instances)
    kinds = {type(a) for a in target}
    matches = frozenset(a for a in value if type(a) in kinds and not _other_host(a, target))
    if TensorTree in {type(a) for a in value} and Tensor in kinds:
        matches |= {Tensor(device=a.device) for a in value if isinstance(a, TensorTree)}
    if not matches and Tensor in kinds and is_host(value, PLAIN):
        return BOTTOM  # the branch is not taken
    return matches or target


def narrow_out(value: Value, classes: Value, models: Models) -> Value:
    """The alternatives that are instances of none of some classes.

    Ex) a number, of what may be that or a tensor, after `if isinstance(x, torch.Tensor): return`

    Args:
        value: what was asked.
        classes: a class, or a tuple of classes: what is an instance of any of them is gone.
        models: of the frameworks that the project uses.
    """
    # Each class of a tuple is excluded, whatever stands beside it. (A join of many is unknown.)
    instances = [a for c in class_atoms(classes) for a in annotated(one(c), Device(None), models)]
    tensor = any(isinstance(a, Tensor) for a in instances)
    hosts = {a.kind for a in instances if isinstance(a, Host)}
    others = frozenset(
        a
        for a in value
        if not (tensor and isinstance(a, Tensor)) and not (isinstance(a, Host) and a.kind in hosts)
    )
    return with_forms(others, TREE_FORMS - forms_of(classes)) or UNKNOWN


def _other_host(atom: Atom, target: Value) -> bool:
    return isinstance(atom, Host) and atom.kind not in {
        a.kind for a in target if isinstance(a, Host)
    }
