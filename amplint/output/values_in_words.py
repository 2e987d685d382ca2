"""The value of an expression as inference knows it, in words, and where that is seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from amplint.values.atoms import (
    ACCELERATOR,
    Atom,
    Autocast,
    Class,
    Device,
    DType,
    Evidence,
    Function,
    Host,
    Instance,
    Mapping,
    Method,
    Module,
    NoGrad,
    Object,
    Reason,
    Sequence,
    Super,
    Symbol,
    Tensor,
    TensorTree,
    Value,
    evidence_of,
    ordered,
)

DEVICES = {
    ACCELERATOR: "on the accelerator",
    "cpu": "on the CPU",
    "cpu or not": "on the CPU or elsewhere",
    None: "of unknown device",
}
# The same of a device itself.
PLACES = {
    ACCELERATOR: "that is an accelerator",
    "cpu": "that is the CPU",
    "cpu or not": "that may be the CPU",
    None: "of which nothing is known",
}
HOSTS = {"none": "None", "numpy": "a NumPy array", "object": "an object of the host"}
LONGEST = 160  # of a value in words
DEEPEST = 3  # levels of containers that are shown

Where: TypeAlias = Callable[[str, int], str]  # a path and a row as the reader would write them


def placed(evidence: Evidence, where: Where) -> str:
    """Ex) train.py:12: `loader` is a loader"""
    return f"{where(evidence.place.path, evidence.place.row)}: {evidence.text}"


def reasons_of(value: Value, where: Where) -> Iterator[str]:
    """The evidence for devices and dtypes, each once."""
    places: dict[str, None] = {}
    for atom in ordered(value):
        for reason in (
            getattr(getattr(atom, "device", None), "evidence", None),
            dtype_reason(atom),
        ):
            evidence = evidence_of(reason)
            if evidence is not None:
                places[placed(evidence, where)] = None
    yield from places


def dtype_reason(atom: Atom) -> Reason | None:
    return atom.dtype_evidence if isinstance(atom, Tensor) else None


def value_in_words(value: Value, depth: int = 0) -> str:
    """Ex) a float32 tensor on the accelerator, 0-dim, with a graph; or None"""
    if not value:
        return "never reached"
    words = [atom_in_words(atom, depth) for atom in ordered(value)]
    return shortened("; or ".join(dict.fromkeys(words)), LONGEST)


def atom_in_words(atom: Atom, depth: int = 0) -> str:
    """One alternative of a value."""
    if isinstance(atom, Tensor):
        return tensor_in_words(atom)
    if isinstance(atom, TensorTree):
        forms = (
            "a nest of tensors"
            if len(atom.forms) > 1
            else f"{with_article(min(atom.forms))} of tensors"
        )
        return f"{forms} {DEVICES[atom.device.kind]} ({atom.source})"
    if isinstance(atom, Host):
        return host_in_words(atom)
    if isinstance(atom, Sequence):
        return sequence_in_words(atom, depth)
    if isinstance(atom, Mapping):
        return mapping_in_words(atom, depth)
    if isinstance(atom, Method):
        return f"the method `{atom.name}` of {atom_in_words(atom.of, depth)}"
    if isinstance(atom, Autocast):
        return (
            f"an autocast context ({atom.device or 'any device'}, {atom.dtype or 'default dtype'})"
        )
    if isinstance(atom, Object):
        return f"`{atom.type}` ({atom.kind}) {DEVICES[atom.device.kind]}"
    if isinstance(atom, Instance):
        return f"an instance of `{atom.cls.rpartition('::')[2]}`"
    if isinstance(atom, Device):
        return f"the device {atom.name}" if atom.name else f"a device {PLACES[atom.kind]}"
    return description_of(atom)


def description_of(atom: Atom) -> str:
    """Ex) the function `step`, of which there is nothing else to say."""
    if isinstance(atom, Symbol):
        return f"`{atom.name}`"
    if isinstance(atom, DType):
        return f"the dtype {atom.name}"
    if isinstance(atom, Function):
        return f"the function `{atom.id.rpartition('::')[2]}`"
    if isinstance(atom, Class):
        return f"the class `{atom.id.rpartition('::')[2]}`"
    if isinstance(atom, Super):
        return "super()"
    if isinstance(atom, Module):
        return f"the module {atom.path}"
    return "a context without gradients" if isinstance(atom, NoGrad) else "unknown"


def tensor_in_words(tensor: Tensor) -> str:
    dtype = f"{with_article(tensor.dtype)} tensor" if tensor.dtype else "a tensor of unknown dtype"
    if tensor.half is not None:
        dtype = f"a tensor that is {tensor.half} on one path"
    parts = [f"{dtype} {DEVICES[tensor.device.kind]}"]
    if tensor.rank == 0:
        parts.append("0-dim")
    elif tensor.dims is not None:
        parts.append(f"{tensor.dims} dimension{'s' * (tensor.dims != 1)}")
    elif tensor.rank is not None:
        parts.append("at least one dimension")
    if tensor.grad is not None:
        parts.append("with a graph" if tensor.grad else "without a graph")
    return ", ".join(parts)


def host_in_words(host: Host) -> str:
    if host.known and host.const is not None:
        return f"the constant {host.const!r}"
    return HOSTS.get(host.kind, f"{with_article(host.kind)} of the host")


def sequence_in_words(sequence: Sequence, depth: int) -> str:
    what = "a batch of a loader: " if sequence.batches else "a sequence of "
    if depth >= DEEPEST:
        return what + "..."
    if sequence.items is None:
        return what + value_in_words(sequence.element, depth + 1)
    return f"({', '.join(value_in_words(item, depth + 1) for item in sequence.items)})"


def mapping_in_words(mapping: Mapping, depth: int) -> str:
    if depth >= DEEPEST:
        return "a dict"
    items = [f"{key!r}: {value_in_words(value, depth + 1)}" for key, value in mapping.items]
    rest = [f"other keys: {value_in_words(mapping.rest, depth + 1)}"] if mapping.rest else []
    return f"a dict {{{', '.join(items + rest)}}}"


def shortened(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def with_article(word: str) -> str:
    """Ex) an int64, a uint8, a float32"""
    return f"an {word}" if word[0] in "aeio" else f"a {word}"
