"""Values narrowed by a test: `isinstance`, `is None`, `torch.is_tensor`, `.is_cuda`."""

from __future__ import annotations

from amplint.core.lattice import is_unknown, join
from amplint.core.values import (
    ACCELERATOR,
    BOTTOM,
    NONE,
    UNKNOWN,
    Atom,
    Device,
    Host,
    Sequence,
    Tensor,
    TensorTree,
    Value,
    one,
)
from amplint.inference.annotations import annotated


def narrow(value: Value, kind: str, classes: Value) -> Value:
    """The alternatives of a value that a test leaves."""
    if kind == "none":
        return one(NONE)
    if kind in ("not none", "true"):
        return frozenset(a for a in value if a != NONE)
    if kind == "tensor":
        kept = frozenset(a for a in value if isinstance(a, Tensor | TensorTree))
        return kept or (BOTTOM if is_of_host(value) else one(Tensor()))
    if kind == "not tensor":
        return frozenset(a for a in value if not isinstance(a, Tensor)) or UNKNOWN
    if kind in ("on cuda", "on cpu"):
        elsewhere = "cpu" if kind == "on cuda" else ACCELERATOR
        # Where the device is known to be the other one, the branch is not taken.
        return frozenset(
            a for a in value if not (isinstance(a, Tensor) and a.device.kind == elsewhere)
        )
    if kind == "isinstance":
        return narrow_to(value, classes)
    if kind == "not isinstance":
        return narrow_out(value, classes)
    return value


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


def narrow_to(value: Value, classes: Value) -> Value:
    made = [annotated(one(a), Device(None)) for a in class_atoms(classes)]
    if not made or any(map(is_unknown, made)):
        return frozenset(a for a in value if a != NONE) or UNKNOWN
    target = join(made)
    kinds = {type(a) for a in target}
    kept = frozenset(a for a in value if type(a) in kinds and not _other_host(a, target))
    if TensorTree in {type(a) for a in value} and Tensor in kinds:
        kept |= {Tensor(device=a.device) for a in value if isinstance(a, TensorTree)}
    if not kept and Tensor in kinds and is_of_host(value):
        return BOTTOM  # the branch is not taken
    return kept or target


def is_of_host(value: Value) -> bool:
    """Whether the value is known to be a number or a text, whichever way was taken."""
    return bool(value) and all(isinstance(a, Host) and a.kind in PLAIN for a in value)


def narrow_out(value: Value, classes: Value) -> Value:
    target = join(annotated(one(a), Device(None)) for a in class_atoms(classes))
    tensor = any(isinstance(a, Tensor) for a in target)
    hosts = {a.kind for a in target if isinstance(a, Host)}
    return (
        frozenset(
            a
            for a in value
            if not (tensor and isinstance(a, Tensor))
            and not (isinstance(a, Host) and a.kind in hosts)
        )
        or UNKNOWN
    )


def _other_host(atom: Atom, target: Value) -> bool:
    return isinstance(atom, Host) and atom.kind not in {
        a.kind for a in target if isinstance(a, Host)
    }
