"""Modules and criterions: how they are built, called, moved and cast."""

from __future__ import annotations

from dataclasses import replace

from amplint.inference.transfer import ranks
from amplint.inference.transfer.arguments import device_of, dtype_of, names_dtype
from amplint.inference.transfer.containers import content, iterate, modules_of, of_keys, under_keys
from amplint.inference.transfer.kinds import STR, Site
from amplint.inference.transfer.promotion import autocast_dtype, common_device, promote, tensors_in
from amplint.inference.transfer.results import with_dims
from amplint.knowledge.casts import DTYPE_OF_CAST, policy
from amplint.knowledge.modules import MODULES
from amplint.values.atoms import (
    ACCELERATOR,
    BOTTOM,
    CPU,
    NO_DEVICE,
    UNKNOWN,
    Arguments,
    Atom,
    Device,
    Instance,
    Mapping,
    Object,
    Sequence,
    Tensor,
    TensorTree,
    Value,
    constant,
    moved,
    one,
)
from amplint.values.lattice import join


def named_tuple(names: tuple[str, ...], arguments: Arguments) -> Value:
    if arguments.unsure:
        return UNKNOWN
    values = [arguments.get(name, position) for position, name in enumerate(names)]
    items = tuple(UNKNOWN if value is None else value for value in values)
    return one(Sequence(items, BOTTOM, names=names))


def module(name: str, arguments: Arguments) -> Object:
    facts = MODULES[name]
    if facts.kind == "container":
        inside = join(modules_of(v) for v in arguments.all)
        if name == "torch.nn.ModuleDict":
            inside = join([inside, under_keys(arguments.get("modules", 0) or BOTTOM)])
        return Object("module", name, holds=inside, last=last_layer(name, arguments))
    if facts.kind != "criterion":
        return Object("module", name, dtype=dtype_of(arguments.get("dtype") or BOTTOM))
    reduction = arguments.get("reduction")
    reduced = reduction is None or constant(reduction) in ("mean", "sum")
    return Object("criterion", name, rank=0 if reduced and not arguments.unsure else None)


def last_layer(container: str, arguments: Arguments) -> str | None:
    """The layer of a Sequential whose dtype in a region those after it keep.

    Of layers in an unknown order (`Sequential(*layers)`), all that decide have to decide the same.
    """
    if container != "torch.nn.Sequential" or arguments.keywords or arguments.more_keywords:
        return None
    rows = [join(arguments.positional)] if arguments.stars else arguments.positional[::-1]
    for value in rows:
        names = {deciding(atom) for atom in value}
        decided = sorted(name for name in names if name)
        if None in names or (KEEPS in names and decided and not arguments.stars):
            return None
        if decided:
            policies = {tuple(policy(name, d) for d in ("cuda", "cpu")) for name in decided}
            return decided[0] if len(policies) == 1 else None
    return None


KEEPS = ""


def deciding(layer: Atom) -> str | None:
    """The name by which autocast decides the dtype that a layer returns; `KEEPS` for one that keeps
    that of its input, None where it is not known."""
    if not isinstance(layer, Object) or layer.kind != "module":
        return None
    if layer.last is not None:
        return layer.last
    facts = MODULES.get(layer.type)
    if facts is None or facts.returns != "tensor" or facts.dtype != "same":
        return None
    decides = any(policy(layer.type, device) is not None for device in ("cuda", "cpu"))
    return layer.type if decides else KEEPS


def call_object(thing: Object, arguments: Arguments, site: Site) -> Value:
    if thing.kind == "criterion":
        operands = tensors_in(arguments.all)
        device = common_device(operands)
        if device.kind is None and not any(t.device.kind == "cpu" for t in operands):
            device = site.usual("a criterion's output")
        cast = autocast_dtype(thing.type, operands, arguments, site)
        dtype, evidence = cast or (promote(operands) if operands else None, None)
        return one(Tensor(dtype, device, thing.rank, True, evidence))
    if thing.kind == "module":
        return call_module(thing, arguments, site)
    if thing.kind == "namedtuple":
        return named_tuple(tuple(thing.type.split()), arguments)
    return UNKNOWN


def call_module(thing: Object, arguments: Arguments, site: Site) -> Value:
    """The result of a module: a tensor for torch's own, "a model's output" for others."""
    operands = tensors_in(arguments.all)
    device = output_device(operands, thing.device, site)
    facts = MODULES.get(thing.type)
    if facts is None or facts.kind == "container" or facts.returns == "any":
        cast = autocast_dtype(thing.last, operands, arguments, site) if thing.last else None
        if cast is not None and cast[0] is not None:
            rank = 1 if MODULES[thing.last or ""].rank == "some" else None
            return one(Tensor(cast[0], device, rank, True, cast[1]))
        return one(TensorTree(device, "output"))
    first = operands[0] if operands else Tensor()
    dtype, evidence = (
        (first.dtype, first.dtype_evidence) if facts.dtype == "same" else (thing.dtype, None)
    )
    cast = autocast_dtype(thing.type, operands, arguments, site)
    half = first.half if facts.dtype == "same" and cast is None else None
    if cast is not None:
        dtype, evidence = cast
    rank = {"some": 1, "same": first.rank}.get(facts.rank)
    output = Tensor(dtype, device, rank, True, evidence, half=half)
    tensor = with_dims(output, ranks.of_layer(thing.type, facts, ranks.of_function(arguments)))
    if facts.returns == "tensors":
        # The second is a state, which may be a pair itself, or weights.
        rest = one(TensorTree(device, "output"))
        return one(Sequence((one(tensor), rest), join([one(tensor), rest])))
    return one(tensor)


def output_device(operands: list[Tensor], own: Device, site: Site) -> Device:
    """Where a module's output is. One on the device that is given a batch of the host moves it."""
    device = common_device(operands)
    if device.kind is None or (device.kind == CPU.kind and own.kind == ACCELERATOR):
        device = own
    if device.kind is None and not any(t.device.kind == "cpu" for t in operands):
        device = site.usual("a model's output")
    return device


def call_module_method(
    thing: Object | Instance, name: str, arguments: Arguments, site: Site
) -> Value:
    """Methods of nn.Module, which move in place and return the module."""
    if name in ("to", "cuda", "xpu"):
        device = site.device("the model is moved here")
        argument = arguments.get("device", 0)
        if name == "to" and argument is not None:
            if names_dtype(argument):
                return one(module_in(thing, dtype_of(argument)))
            device = device_of(argument, arguments.hint, site)
        dtype = arguments.get("dtype", 1) if name == "to" else None
        if dtype is not None:
            thing = module_in(thing, dtype_of(dtype))
            device = device if argument is not None else NO_DEVICE
        return one(replace(thing, device=device) if device.kind else thing)
    if name == "cpu":
        return one(replace(thing, device=CPU))
    if f"Tensor.{name}" in DTYPE_OF_CAST:
        return one(module_in(thing, DTYPE_OF_CAST[f"Tensor.{name}"]))
    if name in ("train", "eval", "requires_grad_", "apply"):
        return one(thing)
    if name in ("forward", "__call__") and isinstance(thing, Object):
        return call_object(thing, arguments, site)
    inside = content(thing) if isinstance(thing, Object) else None
    modules = (
        of_keys("values" if name == "children" else name, inside) if inside is not None else None
    )
    if modules is not None:
        return modules
    if name in ("parameters", "named_parameters", "buffers"):
        own = thing.device
        device = own if own.kind else site.usual("parameters live on the device")
        parameters = one(Object("parameters", "torch.nn.Parameter", device))
        if name != "named_parameters":
            return parameters
        return one(Sequence(None, one(Sequence((STR, iterate(parameters)), UNKNOWN))))
    if name == "state_dict":
        own = thing.device
        device = own if own.kind else site.usual("the module's tensors")
        return one(Mapping(one(Tensor(None, device, None, False))))
    return UNKNOWN


def module_in(thing: Object | Instance, dtype: str | None) -> Object | Instance:
    """The module with its parameters cast. Of a module of the project, its layers would have to be
    followed: nothing is said of it."""
    if isinstance(thing, Object) and thing.type != "?":
        return replace(thing, dtype=dtype)
    return thing


def on_device(atom: Atom, device: Device) -> Value:
    if isinstance(atom, Tensor | TensorTree):
        return one(moved(atom, device))
    if isinstance(atom, Object | Instance):
        return one(replace(atom, device=device))
    return one(atom)
