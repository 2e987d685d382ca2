"""Methods of what is not of the project."""

from __future__ import annotations

from dataclasses import replace

from amplint.frameworks.schema import Given, Role
from amplint.inference.transfer import distributions
from amplint.inference.transfer.arguments import (
    array_dtype_of,
    device_of,
    dtype_of,
    legacy_type,
    names_dtype,
    text_begun,
)
from amplint.inference.transfer.containers import iterate, of_keys, unpinned
from amplint.inference.transfer.factories import factory, legacy_tensor
from amplint.inference.transfer.kinds import FLOAT, INT, NOTHING, NUMBER, NUMPY, OBJECT, STR, Site
from amplint.inference.transfer.modules import call_module_method, on_device
from amplint.inference.transfer.promotion import tensors_in
from amplint.inference.transfer.results import from_result
from amplint.knowledge import libraries
from amplint.knowledge.dtypes import FLOATS, OF_DATASETS
from amplint.knowledge.factories import FACTORIES
from amplint.knowledge.operations import RESULTS
from amplint.knowledge.vocabulary import OTHER_ACCELERATORS
from amplint.values.atoms import (
    ACCELERATOR,
    BOTTOM,
    CPU,
    NO_DEVICE,
    UNKNOWN,
    Arguments,
    Atom,
    Autocast,
    Host,
    Instance,
    Mapping,
    Method,
    Object,
    Reason,
    Sequence,
    Shows,
    Tensor,
    TensorTree,
    Value,
    branch,
    constant,
    moved,
    one,
)
from amplint.values.lattice import any_value, join, only, value_at


def call_method(method: Method, arguments: Arguments, site: Site) -> Value:
    of, name = method.of, method.name
    if isinstance(of, Tensor):
        return call_tensor_method(of, name, arguments, site)
    if isinstance(of, TensorTree):
        return call_blob_method(of, name, arguments, site)
    if isinstance(of, Object):
        return call_object_method(of, name, arguments, site)
    if isinstance(of, Host):
        return call_host_method(of, name, arguments, site)
    if isinstance(of, Mapping):
        return call_mapping_method(of, name, arguments)
    if isinstance(of, Sequence):
        if name == "pop":
            return of.element
        return NOTHING if name in ("append", "extend", "sort") else UNKNOWN
    if isinstance(of, Instance):
        return call_module_method(of, name, arguments, site)
    return UNKNOWN


def call_tensor_method(tensor: Tensor, name: str, arguments: Arguments, site: Site) -> Value:
    full = f"Tensor.{name}"
    if name == "to":
        return to(tensor, arguments, site)
    if name in ("cuda", "xpu", "mtia"):
        argument = arguments.get("device", 0)
        index = constant(argument)
        label = "cuda" if argument is None else f"cuda:{index}" if isinstance(index, int) else None
        device, others = site.device(f"moved by `.{name}()` here"), {name} & OTHER_ACCELERATORS
        return one(moved(tensor, replace(device, name=label, others=frozenset(others))))
    if name == "cpu":
        return one(moved(tensor, CPU))
    if name == "type_as":
        other = tensors_in(arguments.positional)
        like = other[0] if other else Tensor()
        return one(replace(in_dtype_of(tensor, like), device=like.device))
    if name == "type":
        argument = arguments.get("dtype", 0)
        legacy = legacy_type(argument)
        if legacy is not None:
            template = legacy_tensor(legacy, site)
            return one(replace(as_dtype(tensor, template.dtype, None), device=template.device))
        if not arguments.all:
            return STR
        if argument == STR:  # a type on any device: `x.type(y.type())`
            tensor = replace(tensor, device=NO_DEVICE)
        return one(cast_to(tensor, argument or UNKNOWN, site))
    if name == "requires_grad_":
        return one(replace(tensor, grad=constant(arguments.get("requires_grad", 0)) is not False))
    if full in FACTORIES:
        if name in ("new", "new_tensor"):
            return one(Tensor(tensor.dtype, tensor.device, None, False))
        shifted = replace(arguments, positional=(one(tensor), *arguments.positional))
        return factory(full, FACTORIES[full], shifted, site)
    if name == "item":
        kind = {"bool": "bool", "int64": "int"}.get(tensor.dtype or "", "number")
        return one(Host("float" if tensor.dtype in FLOATS else kind))
    result = RESULTS.get(full)
    if result is None:
        return UNKNOWN
    operands = [tensor, *tensors_in(arguments.all)]
    value = from_result(full, result, operands, arguments, site)
    same = tensor.device.kind == CPU.kind and is_no_cast(tensor.dtype, CASTS.get(name))
    if tensor.device.pinned and (name in VIEWS or same):
        return frozenset(replace(a, device=tensor.device) for a in value if isinstance(a, Tensor))
    return value


# What these give always is in the memory of the tensor, pinned as that is.
VIEWS = frozenset({"squeeze", "unsqueeze", "view"})
CASTS = {"float": "float32", "long": "int64"}


def is_no_cast(before: str | None, after: str | None) -> bool:
    """Whether a cast returns the same tensor, so that what is pinned stays so: see OF_DATASETS."""
    return after in (OF_DATASETS if before is None else {before})


def to(tensor: Tensor | TensorTree, arguments: Arguments, site: Site) -> Value:
    """`x.to(device)`, `x.to(dtype)`, `x.to(device, dtype)`, `x.to(other)` and their keywords."""
    result: Tensor | TensorTree = tensor
    target = arguments.get("device", 0)
    dtype = arguments.get("dtype")
    if target is not None:
        atom = only(target)
        if names_dtype(target):
            dtype = target
            target = None
        elif isinstance(atom, Tensor | TensorTree):
            result = moved(result, atom.device)
            if isinstance(result, Tensor):
                result = in_dtype_of(result, atom)
            target = None
    if target is not None:
        device = device_of(target, arguments.hint, site)
        if device.kind is None and isinstance(result, Tensor):
            # A dtype or a device, nobody knows which.
            device = NO_DEVICE if result.device.kind != ACCELERATOR else result.device
            return one(replace(result, dtype=None, half=None, device=device, fresh=None))
        if device.kind is not None:
            result = moved(result, device)
        if len(arguments.positional) > 1 and dtype is None:
            dtype = arguments.get("dtype", 1)
    before = tensor.dtype if isinstance(tensor, Tensor) else None
    if dtype is not None and not is_no_cast(before, dtype_of(dtype)):
        result = replace(result, device=unpinned(result.device))
    if isinstance(result, Tensor):
        result = replace(cast_to(result, dtype, site) if dtype is not None else result, fresh=None)
    return one(result)


def cast_to(tensor: Tensor, dtype: Value, site: Site) -> Tensor:
    """The tensor in the dtype that an argument names."""
    name = dtype_of(dtype)
    evidence = site.evidence(f"cast to {name} here", Shows.DTYPE) if name is not None else None
    return as_dtype(tensor, name, evidence)


def as_dtype(tensor: Tensor, dtype: str | None, evidence: Reason | None) -> Tensor:
    return replace(tensor, dtype=dtype, dtype_evidence=evidence, fresh=None, half=None)


def in_dtype_of(tensor: Tensor, like: Tensor | TensorTree) -> Tensor:
    """The tensor in the dtype of another one."""
    if not isinstance(like, Tensor):
        return as_dtype(tensor, None, None)
    return replace(as_dtype(tensor, like.dtype, like.dtype_evidence), half=like.half)


def call_blob_method(blob: TensorTree, name: str, arguments: Arguments, site: Site) -> Value:
    if name in ("to", "cuda", "cpu"):
        # Lists and tuples have no such method.
        blob = replace(blob, forms=blob.forms - {"list", "tuple"} or blob.forms)
        if name == "to":
            return to(blob, arguments, site)
        return one(moved(blob, CPU if name == "cpu" else site.device(f"moved by `.{name}()` here")))
    if name == "copy":
        return UNKNOWN  # tensors have no such method: an array, a table or a dict
    if name == "pin_memory":
        return one(blob)
    entries = of_keys(name, one(branch(blob)))
    return entries or call_tensor_method(Tensor(device=blob.device), name, arguments, site)


def call_host_method(host: Host, name: str, arguments: Arguments, site: Site) -> Value:
    if host.kind == "numpy":
        if name == "astype":
            return one(replace(host, dtype=array_dtype_of(arguments.get("dtype", 0) or UNKNOWN)))
        if name in libraries.NUMPY_KEEPS:
            return one(replace(host, rank=None if name in ("reshape", "squeeze") else host.rank))
        return NUMBER if name == "item" else NUMPY
    if host.kind == "str":
        if name == "format":
            return text_begun(host.const, site)
        return UNKNOWN if name in ("split", "partition", "encode") else STR
    if host.kind == "size" and name == "numel":
        return INT
    return UNKNOWN


def call_mapping_method(mapping: Mapping, name: str, arguments: Arguments) -> Value:
    if name in ("get", "pop"):
        key = constant(arguments.positional[0]) if arguments.positional else None
        return value_at(mapping, key)
    if name == "setdefault":
        return any_value(mapping)
    if name == "copy":
        return one(mapping)
    return of_keys(name, any_value(mapping)) or UNKNOWN


def call_object_method(thing: Object, name: str, arguments: Arguments, site: Site) -> Value:
    if thing.kind in ("module", "criterion"):
        method = site.models.method_of_object("module", thing.type, name)
        if method is not None and method.gives is not None:
            return given_by_object(method.gives, thing)
        return call_module_method(thing, name, arguments, site)
    if thing.kind == "optimizer":
        return NOTHING if name in ("step", "zero_grad") else UNKNOWN
    if thing.kind == "scaler":
        if name == "scale":
            return arguments.get("outputs", 0) or UNKNOWN
        return {"get_scale": FLOAT, "state_dict": OBJECT}.get(name, NOTHING)
    if thing.kind == "loader":
        return iterate(one(thing)) if name == "next" else UNKNOWN
    if thing.kind == "parser" and name in libraries.PARSES:
        parsed = one(Object("options", "argparse.Namespace"))
        rest = one(Sequence(None, STR))
        return one(Sequence((parsed, rest), BOTTOM)) if libraries.PARSES[name] else parsed
    if thing.kind == "accelerator":
        return call_accelerator_method(thing, name, arguments, site)
    if thing.kind == distributions.KIND:
        return distributions.method(thing, name) or UNKNOWN
    return UNKNOWN


def given_by_object(gives: Role | Given, thing: Object) -> Value:
    """The result of a method of a framework's object, which is where the object is."""
    if gives == "nothing":
        return NOTHING
    if thing.device.kind is None:
        return UNKNOWN
    if gives == "batch":
        return one(TensorTree(thing.device))
    return one(Tensor(device=thing.device)) if gives == "tensor" else UNKNOWN


def call_accelerator_method(thing: Object, name: str, arguments: Arguments, site: Site) -> Value:
    method = site.models.method_of_object("accelerator", thing.type, name)
    if method is None:
        return UNKNOWN
    if method.gives == "given":
        wraps = thing.dtype if method.wraps else None
        keeps = wraps is not None and site.models.keeps_outputs(thing.type)
        values = tuple(
            join(
                wrapped(atom, wraps, keeps)
                for source in value
                for atom in on_device(source, thing.device)
            )
            for value in arguments.positional
        )
        return values[0] if len(values) == 1 else one(Sequence(values, UNKNOWN))
    if method.gives == "region":
        evidence = site.evidence("the autocast region is opened here", Shows.AUTOCAST)
        # Where the call that sets it up is not in sight: whether, and in which dtype, is unknown.
        if not thing.enabled:
            return one(Autocast(None, None, False, evidence=evidence))
        if thing.dtype is None:
            return one(Autocast(None, "half", None, evidence=evidence))
        return one(Autocast("cuda", thing.dtype, True, evidence=evidence))
    return given_by_object(method.gives, thing) if method.gives is not None else UNKNOWN


def wrapped(atom: Atom, dtype: str | None, keeps: bool) -> Value:
    """A module whose `forward` a framework runs in a region; None where it is not known to.

    Args:
        keeps: whether it leaves what that returns as it is.
    """
    if isinstance(atom, Instance) and dtype is not None:
        return one(replace(atom, wrapped=dtype, keeps=keeps))
    return one(atom)
