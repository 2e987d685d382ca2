"""`value.name` for what is not of the project."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from amplint.inference.transfer import distributions
from amplint.inference.transfer.containers import ON_DEVICE, module_at
from amplint.inference.transfer.kinds import FLOAT, INT, STR, Site
from amplint.inference.transfer.results import from_result
from amplint.inference.transfer.symbols import symbol_attribute
from amplint.knowledge.factories import FACTORIES
from amplint.knowledge.modules import MODULES
from amplint.knowledge.operations import RESULTS
from amplint.util.positions import Place
from amplint.values.atoms import (
    ACCELERATOR,
    BOTTOM,
    CPU,
    NONE,
    UNKNOWN,
    Arguments,
    Atom,
    Autocast,
    Device,
    DType,
    Evidence,
    Host,
    Mapping,
    Method,
    NoGrad,
    Object,
    Sequence,
    Symbol,
    Tensor,
    TensorTree,
    Value,
    branch,
    one,
)


def attribute(atom: Atom, name: str, site: Site) -> Value:
    """`atom.name` for what is not of the project."""
    if isinstance(atom, Symbol):
        return symbol_attribute(atom.name, name)
    if isinstance(atom, Tensor):
        return tensor_attribute(atom, name, site)
    if isinstance(atom, TensorTree):
        return tensor_tree_attribute(atom, name)
    if isinstance(atom, Object):
        return object_attribute(atom, name)
    if isinstance(atom, Device) and name == "type":
        if atom.name:
            return one(Host("str", atom.name.partition(":")[0], True))
        return one(SOME_TYPE) if atom.kind == ACCELERATOR else STR
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


# The type of an accelerator that nobody has named: what it is for most.
SOME_TYPE = Host("str", "cuda")


def having(value: Value, name: str) -> Value:
    """The alternatives that have an attribute, if any may have it: a number has no `any`, and a
    tensor no `logits`. Where a named tuple has it, another tuple that lacks it is of another path.
    """
    rest = frozenset(atom for atom in value if not lacks(atom, name))
    value = rest if rest - {NONE} else value
    if not any(isinstance(a, Sequence) and name in a.names for a in value):
        return value
    return frozenset(
        a for a in value if not isinstance(a, Sequence) or name in {*a.names, *SEQUENCE_ATTRIBUTES}
    )


BUILTINS = {kind.__name__: kind for kind in (bool, float, int, str)}


def lacks(atom: Atom, name: str) -> bool:
    """Whether an atom is of a type of Python that has no such attribute, or a tensor."""
    if isinstance(atom, Tensor):
        return not is_of_tensors(name)
    kind = BUILTINS.get(atom.kind) if isinstance(atom, Host) else None
    return kind is not None and not hasattr(kind, name)


def is_of_tensors(name: str) -> bool:
    """Whether tensors have an attribute of this name."""
    return name in ATTRIBUTES or f"Tensor.{name}" in RESULTS or f"Tensor.{name}" in FACTORIES


SEQUENCE_ATTRIBUTES = frozenset(name for kind in (list, tuple, set, deque) for name in dir(kind))


def tensor_attribute(tensor: Tensor, name: str, site: Site) -> Value:
    result = RESULTS.get(f"Tensor.{name}")
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


COUNTING = "num_"  # Ex) num_graphs, num_nodes of a batch of graphs


def tensor_tree_attribute(blob: TensorTree, name: str) -> Value:
    """A nest may be a tensor or a container: its methods are those of both."""
    if name == "device":
        return one(blob.device) if blob.device.kind else UNKNOWN
    if name in ATTRIBUTES:
        return tensor_attribute(Tensor(device=blob.device), name, _NOWHERE)
    if name in CONTAINER_METHODS or is_of_tensors(name) or name in ("to", "pin_memory"):
        return one(Method(blob, name))
    if name.startswith(COUNTING):
        return INT
    # torch pins what is in lists, tuples and dicts, and no field of any other object.
    device = CPU if blob.device.pinned_within else blob.device
    return one(branch(replace(blob, device=device)))


CONTAINER_METHODS = frozenset({"items", "values", "keys", "get", "pop", "copy"})


_NOWHERE = Site(None, lambda text, kind: Evidence(Place("", 0, 0, 0, 0), text, kind))


MODULE_TENSORS = frozenset(
    {"weight", "bias", "running_mean", "running_var", "num_batches_tracked", "in_proj_weight"}
)


def object_attribute(thing: Object, name: str) -> Value:
    if name == "device":
        return one(thing.device) if thing.device.kind else UNKNOWN
    if thing.kind == "module" and (inside := module_at(thing, name)):
        return inside
    if thing.kind == "module" and name == "module":
        return one(thing)
    if name in MODULE_TENSORS and thing.kind == "module" and is_layer(thing.type):
        device = thing.device if thing.device.kind else ON_DEVICE
        rank = 0 if name == "num_batches_tracked" else 1
        return one(Tensor(None, device, rank, name in ("weight", "bias") or None))
    if thing.kind == "optimizer" and name == "param_groups":
        return PARAM_GROUPS
    if thing.kind == distributions.KIND:
        return distributions.attribute(thing, name) or one(Method(thing, name))
    if thing.kind == "limits":
        return INT if thing.type == "torch.iinfo" or name == "bits" else FLOAT
    return one(Method(thing, name))


def is_layer(type_name: str) -> bool:
    """A module whose `weight` is a tensor: one of torch's, or one that nobody knows, which was
    called like a module."""
    return type_name in MODULES or type_name == "?"


# What an optimizer is given for `lr` is a number by default, and a tensor only for `capturable`.
GROUP = {
    "lr": FLOAT,
    "params": one(Sequence(None, one(Tensor(None, ON_DEVICE, 1, True)))),
    "weight_decay": FLOAT,
}
PARAM_GROUPS = one(Sequence(None, one(Mapping(UNKNOWN, tuple(GROUP.items())))))
