"""Calls of what is not of the project: of torch, of the builtins, of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from amplint.frameworks.models import UNSURE, ChosenPrecision, Models, written
from amplint.frameworks.schema import Maker, Setting
from amplint.inference.transfer import distributions, ranks
from amplint.inference.transfer.arguments import device_of, device_type_of, dtype_of, switch
from amplint.inference.transfer.arithmetic import binary
from amplint.inference.transfer.containers import (
    ON_DEVICE,
    PARAMETER_CONTAINERS,
    as_mapping,
    as_sequence,
    first_of,
    is_loader,
    iterate,
    rows,
)
from amplint.inference.transfer.factories import (
    PARAMETERS,
    array,
    factory,
    legacy_tensor,
    parameter,
)
from amplint.inference.transfer.kinds import BOOL, FLOAT, INT, NOTHING, NUMBER, OBJECT, STR, Site
from amplint.inference.transfer.methods import call_method
from amplint.inference.transfer.modules import call_object, module
from amplint.inference.transfer.promotion import tensors_in
from amplint.inference.transfer.results import from_result, with_dims
from amplint.inference.transfer.symbols import canonical
from amplint.knowledge import libraries
from amplint.knowledge.distributions import DIVERGENCES, distribution
from amplint.knowledge.dtypes import half_on_a_path
from amplint.knowledge.factories import FACTORIES, LEGACY_CONSTRUCTORS
from amplint.knowledge.libraries import ScalerApi
from amplint.knowledge.modules import MODULES
from amplint.knowledge.operations import RESULTS
from amplint.values.atoms import (
    ACCELERATOR,
    BOTTOM,
    CPU,
    NO_DEVICE,
    NONE,
    UNKNOWN,
    Arguments,
    Atom,
    Autocast,
    Device,
    DType,
    Host,
    Mapping,
    Method,
    NoGrad,
    Object,
    Sequence,
    Shows,
    Symbol,
    Tensor,
    TensorTree,
    Value,
    constant,
    one,
    surely,
)
from amplint.values.lattice import is_unknown, join, only


def call(callee: Atom, arguments: Arguments, site: Site) -> Value:
    """The result of calling a value of a library."""
    if isinstance(callee, Symbol):
        return call_symbol(callee.name, arguments, site)
    if isinstance(callee, Method):
        return call_method(callee, arguments, site)
    if isinstance(callee, Object):
        return call_object(callee, arguments, site)
    if isinstance(callee, Autocast) and not arguments.stars and is_option(arguments.positional):
        # Ex) ac() of ac = functools.partial(torch.autocast, "cuda"), which stands for what it makes
        return one(with_options(callee, options_of(arguments), arguments.unsure))
    if isinstance(callee, Autocast | NoGrad):
        return handed_on(arguments)  # as a decorator
    return BOTTOM if callee == NONE else UNKNOWN


def call_symbol(name: str, arguments: Arguments, site: Site) -> Value:
    name = canonical(name)
    if name in OF_TORCH:
        return OF_TORCH[name](name, arguments, site)
    value = of_framework(name, arguments, site)
    if value is not None:
        return value
    function = BY_NAME.get(name)
    return function(name, arguments, site) if function is not None else by_home(name, arguments)


def of_framework(name: str, arguments: Arguments, site: Site) -> Value | None:
    """The result of a call that a model of a framework has a row for; None without one."""
    maker = site.models.maker(name)
    if maker is None:
        is_metric = any(row.kind == "metric" for row in site.models.classes([name]))
        return one(Object("module", name)) if is_metric else None
    if maker.builds == "same":
        return handed_on(arguments)
    if maker.builds == "like":
        return of_another_shape(arguments)
    return one(made_by_framework(maker, name, arguments, site))


def by_home(name: str, arguments: Arguments) -> Value:
    """The result of a call of which all that is known is where its callee is defined."""
    if distribution(name) is not None:
        return one(distributions.distribution(name, arguments))
    if name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper():
        return one(Object("module", name))
    if name.startswith(MODELS) and not name.endswith(("Config", "Tokenizer")):
        return one(Object("module", name))
    if name.startswith("numpy."):
        return one(array(name, arguments))
    return FLOAT if name.startswith(("math.", "time.")) else UNKNOWN


def gradient_norm(site: Site) -> Value:
    evidence = site.evidence("the norm of gradients on the device", Shows.CONVENTION)
    return one(Tensor("float32", Device(ACCELERATOR, evidence), 0, False))


def chosen_device(arguments: Arguments, site: Site) -> Value:
    """Ex) torch.device("cuda")"""
    device = device_of(
        arguments.get("type", 0) or arguments.get("device") or UNKNOWN, "device", site
    )
    if device.kind == ACCELERATOR:
        evidence = site.evidence("the device is chosen here", Shows.PLACEMENT)
        device = replace(device, evidence=evidence)
    return one(device)


def operation(name: str, arguments: Arguments, site: Site) -> Value:
    """The result of a function of RESULTS."""
    operands = tensors_in(arguments.positional or arguments.all)
    return from_result(name, RESULTS[name], operands, arguments, site)


def wrapped(arguments: Arguments) -> Value:
    """Ex) DataParallel(model), which is the model for all that is known of it"""
    inside = arguments.get("module", 0)
    return inside if inside and not is_unknown(inside) else one(Object("module", "?"))


def default_dict(arguments: Arguments, site: Site) -> Value:
    """Ex) defaultdict(list)"""
    defaults = [call(a, Arguments(), site) for v in arguments.positional[:1] for a in v]
    return one(Mapping(join(defaults)))


def variable(arguments: Arguments) -> Value:
    """Ex) Variable(x, requires_grad=True), which is x since torch 0.4"""
    has_grad = constant(arguments.get("requires_grad", 1)) is True
    tensors: list[Value] = []
    for atom in arguments.get("data", 0) or BOTTOM:
        device = atom.device if isinstance(atom, TensorTree) else NO_DEVICE
        tensor = atom if isinstance(atom, Tensor) else Tensor(device=device)
        tensors.append(one(replace(tensor, grad=True) if has_grad else tensor))
    return join(tensors)


def legacy(name: str, arguments: Arguments, site: Site) -> Value:
    """Ex) torch.FloatTensor(2, 3)"""
    return one(with_dims(legacy_tensor(name, site), ranks.of_constructor(arguments)))


def named_tuple_type(arguments: Arguments) -> Value:
    """Ex) namedtuple("Output", "loss logits"), namedtuple("Output", ["loss", "logits"])"""
    field_names = arguments.get("field_names", 1) or UNKNOWN
    names = constant(field_names)
    if isinstance(names, str):
        fields = names.replace(",", " ").split()
    else:
        atom = only(field_names)
        items = atom.items if isinstance(atom, Sequence) and atom.items is not None else ()
        fields = [str(constant(item)) for item in items]
    return one(Object("namedtuple", " ".join(fields))) if fields else UNKNOWN


MODELS = "torchvision.models."  # the home of functions that build modules


HOST_FUNCTIONS = frozenset({"logging.getLogger", "os.getenv"})


# What behaves like a dict, as far as what is in it goes.
LIKE_DICT = frozenset({"collections.OrderedDict", "types.SimpleNamespace", "argparse.Namespace"})


ZERO = one(Host("int", 0, True))


def autocast(name: str, arguments: Arguments, site: Site) -> Autocast:
    """The context that a call of one of autocast's names builds."""
    api = libraries.AUTOCASTS[name]
    options = {
        parameter: value
        for position, parameter in enumerate(api.parameters)
        if (value := arguments.get(parameter, position)) is not None
    }
    reason = site.evidence("the autocast region is opened here", Shows.AUTOCAST)
    return with_options(Autocast(api.device, api.dtype, evidence=reason), options, arguments.unsure)


def switched_on(arguments: Arguments, site: Site) -> Autocast:
    """The region that `torch.set_autocast_enabled` switches: its dtype may be set apart."""
    evidence = site.evidence("autocast is switched on here", Shows.AUTOCAST)
    region = Autocast("cuda", "half", evidence=evidence)
    return with_options(region, options_of(arguments), arguments.unsure)


def is_option(values: tuple[Value, ...]) -> bool:
    """Whether what a call is given by place may be options of a context; no function to wrap."""
    return all(surely(value, Host | DType) for value in values)


def options_of(arguments: Arguments) -> dict[str, Value]:
    """The options of a context that a call passes, by parameter: those by place, which depends on
    what `functools.partial` was given, by their types."""
    kinds = {"str": "device_type", "bool": "enabled"}
    by_type = {
        kinds.get(atom.kind, "") if isinstance(atom, Host) else "dtype": value
        for value in arguments.positional
        for atom in value
    }
    return by_type | arguments.named


def with_options(region: Autocast, options: dict[str, Value], unsure: bool) -> Autocast:
    """A context with the options that a call passes.

    Args:
        region: as it is without them.
        options: by parameter.
        unsure: whether the call may give more.
    """
    device, dtype = region.device, region.dtype
    if "device_type" in options:
        device = device_type_of(options["device_type"])
    if "dtype" in options:
        named = dtype_of(options["dtype"] or UNKNOWN)
        dtype = half_on_a_path(named) or named or "half"
    enabled = switch(options.get("enabled"), region.enabled)
    cache = switch(options.get("cache_enabled"), region.cache)
    if unsure:
        enabled = None if enabled else enabled
    return Autocast(device, dtype, enabled, cache, region.evidence)


SOME_ACCELERATOR = Object("accelerator", "?", ON_DEVICE)


def library_object(name: str, arguments: Arguments, site: Site) -> Object:
    """The object that a call of a name of KINDS builds."""
    kind = libraries.KINDS[name]
    if kind == "scaler":
        enabled = switch(arguments.get("enabled"), True)
        api = libraries.SCALERS.get(name)
        device = scaler_device(api, arguments, site) if api is not None else NO_DEVICE
        return Object(kind, name, device, enabled=None if arguments.unsure else enabled)
    return Object(kind, name, host_memory(name, arguments, site) if kind == "loader" else NO_DEVICE)


def made_by_framework(maker: Maker, name: str, arguments: Arguments, site: Site) -> Object:
    """The object that a function or a class of a framework builds."""
    if maker.builds == "accelerator":
        device = site.device("the device is chosen here")
        precision = precision_asked(name, arguments, site.models)
        opens = precision is None or precision.dtype is not None
        return Object("accelerator", name, device, precision and precision.dtype, enabled=opens)
    if maker.on_device:
        return Object(maker.builds, name, site.device("its batches come on the device"))
    if maker.builds == "loader":
        return Object("loader", name, host_memory(name, arguments, site))
    return Object(maker.builds, name)


def of_another_shape(arguments: Arguments) -> Value:
    """A tensor with the dtype and the device of the first one that is given, if one is."""
    tensors = tensors_in(arguments.all)
    return one(Tensor(tensors[0].dtype, tensors[0].device)) if tensors else UNKNOWN


def precision_asked(name: str, arguments: Arguments, models: Models) -> ChosenPrecision | None:
    """The precision that a call of this dotted name asks a framework for; None if it says none, or
    nobody knows which."""

    def option(argument: str, position: int | None) -> object:
        value = arguments.get(argument, position)
        if value is None or value == NOTHING:
            return None
        setting = constant(value)
        return UNSURE if setting is None else setting

    precision = models.precision(name, option) or in_dictionaries(name, arguments, models)
    return precision if precision is not None and precision.sure else None


def in_dictionaries(name: str, arguments: Arguments, models: Models) -> ChosenPrecision | None:
    """The precision in a dictionary that a call is given, as configuration files have it."""
    for row in models.dictionaries(name):
        for config in filter(None, map(arguments.get, row.arguments)):
            dtype = dtype_of_setting(row, at_key(config, row.key))
            rest = row.also.items()
            if dtype is not None and all(written_at(config, key) == value for key, value in rest):
                return ChosenPrecision(models.framework_of(row), dtype or None)
    return None


def written_at(value: Value, key: str) -> str:
    return written(constant(at_key(value, key)))


def dtype_of_setting(row: Setting, value: Value) -> str | None:
    """The dtype of the region that a value opens, "" for a cast; None where the row has it not."""
    text = written(constant(value))
    return row.values.get(text, "" if text in row.casts else None)


def at_key(value: Value, key: str) -> Value:
    """The value that a dictionary of dictionaries has at `a.b`."""
    for part in key.split("."):
        atom = only(value)
        value = dict(atom.items).get(part, BOTTOM) if isinstance(atom, Mapping) else BOTTOM
    return value


def handed_on(arguments: Arguments) -> Value:
    """The first argument of a call that returns it, or something like it."""
    return arguments.positional[0] if arguments.positional and not arguments.stars else UNKNOWN


def host_memory(name: str, arguments: Arguments, site: Site) -> Device:
    """Where the batches of a loader are: in pinned memory, if it is asked to, or an option may say
    so (`torch.cuda.is_available()`).

    What a function of the user's own collates need be no tensor: only what is taken out of it is
    pinned, of the lists, tuples and dicts that torch goes through (`torch/utils/data/_utils/
    pin_memory.py`).
    """
    pin_memory = arguments.get("pin_memory", 7) or NOTHING
    pins = pin_memory != NOTHING and not any(
        isinstance(a, Host) and a.known and not a.const for a in pin_memory
    )
    own = arguments.get("collate_fn", 6) or NOTHING
    maker = site.models.maker(name)
    if pins and (name in libraries.LOADERS or (maker is not None and maker.pins)):
        evidence = site.evidence("this loader pins its batches", Shows.LOADER)
        collated = own != NOTHING
        return Device("cpu", evidence, pinned=not collated, pinned_within=collated)
    return CPU


def scaler_device(api: ScalerApi, arguments: Arguments, site: Site) -> Device:
    """The host, for a scaler that keeps its scale there; what else it is, nobody needs to know."""
    place = arguments.get("device", 0) if "device" in api.parameters[:1] else None
    host = api.device == "cpu" if place is None else device_of(place, "", site).kind == CPU.kind
    return CPU if host else NO_DEVICE


def initialized(parameters: tuple[str, ...], arguments: Arguments) -> Value:
    """Ex) model, optimizer = amp.initialize(model, optimizer); model = amp.initialize(model)"""
    operands = [arguments.get(name, position) for position, name in enumerate(parameters)]
    values = tuple(value for value in operands if value is not None and value != NOTHING)
    if arguments.unsure or not values:
        return UNKNOWN
    return values[0] if len(values) == 1 else one(Sequence(values, BOTTOM))


def pass_through(how: str, arguments: Arguments) -> Value:
    iterables = arguments.positional
    if not iterables:
        iterables = tuple(v for k, v in arguments.keywords.items() if k in ("iterable", "sequence"))
    if not iterables:
        return one(Sequence((), BOTTOM))
    if how == "second":
        iterables = iterables[1:] or (UNKNOWN,)
    if how in ("elements", "second"):
        return join(one(a) if is_loader(a) else as_sequence(a) for a in iterables[0])
    batches = any(is_loader(atom) for value in iterables for atom in value)
    if how == "enumerate":
        pair = Sequence((INT, iterate(iterables[0])), UNKNOWN)
        return one(Sequence(None, one(pair), batches))
    if how == "zip":
        columns = tuple(map(rows, iterables))
        # Of `zip(*batches)`, nobody knows how many there are.
        row = Sequence(None, join(columns)) if arguments.stars else Sequence(columns, UNKNOWN)
        return one(Sequence(None, one(row), batches))
    return one(Sequence(None, join(iterate(value) for value in iterables), batches))


def dictionary(arguments: Arguments) -> Value:
    """Ex) dict(pairs), dict(x=1, **rest), argparse.Namespace(x=1)"""
    if arguments.positional:
        return join(as_mapping(a) for a in arguments.positional[0])
    rest = arguments.keywords.get("**", BOTTOM)
    return one(Mapping(rest, tuple(sorted(arguments.named.items(), key=first_of))))


def collection(arguments: Arguments) -> Value:
    """Ex) set(items), deque()"""
    return ordering(arguments) if arguments.positional else one(Sequence(None, BOTTOM))


def ordering(arguments: Arguments) -> Value:
    """Ex) sorted(items)"""
    return join(as_sequence(a) for a in arguments.positional[0])


def next_element(arguments: Arguments) -> Value:
    """Ex) next(batches)"""
    return iterate(arguments.positional[0])


def extreme(arguments: Arguments) -> Value:
    """Ex) max(losses), min(a, b)"""
    operands = arguments.positional
    return iterate(operands[0]) if len(operands) == 1 else join(operands)


def total(arguments: Arguments, site: Site) -> Value:
    """Ex) sum(losses)"""
    element = iterate(arguments.positional[0])
    start = arguments.positional[1] if len(arguments.positional) > 1 else ZERO
    return binary("Add", start, element, site) if element else start


def absolute(arguments: Arguments) -> Value:
    """Ex) abs(x)"""
    return join(
        one(replace(a, fresh=None))
        if isinstance(a, Tensor)
        else one(Host("int" if a.kind == "bool" else a.kind))
        if isinstance(a, Host)
        else UNKNOWN
        for a in arguments.positional[0]
    )


def rounded(arguments: Arguments) -> Value:
    """Ex) round(x), round(x, 2)"""
    return INT if len(arguments.positional) == 1 else NUMBER


# What a call of a dotted name returns.
Call = Callable[[str, Arguments, Site], Value]


def by_name(*rows: tuple[Iterable[str], Call]) -> dict[str, Call]:
    """The rows by each of their names; of several rows of one name, the first one holds."""
    return {name: function for names, function in reversed(rows) for name in names}


def always(value: Value) -> Call:
    return lambda *_: value


def of(function: Callable[[Arguments], Value]) -> Call:
    """A function of the arguments alone."""
    return lambda _, arguments, __: function(arguments)


def at(function: Callable[[Arguments, Site], Value]) -> Call:
    """A function of the arguments and the place."""
    return lambda _, arguments, site: function(arguments, site)


def if_given(call: Call) -> Call:
    """A function of the name, the arguments and the place; nothing is known of the result where no
    argument is positional."""
    return lambda name, args, site: call(name, args, site) if args.positional else UNKNOWN


def builtins(*names: str) -> list[str]:
    return [f"builtins.{name}" for name in names]


OF_TORCH = by_name(
    (libraries.GRADIENT_NORMS, lambda _, __, site: gradient_norm(site)),
    (PARAMETERS, at(lambda args, site: one(parameter(args, site)))),
    (libraries.AUTOCASTS, lambda name, args, site: one(autocast(name, args, site))),
    ((libraries.SWITCH,), lambda _, args, site: one(switched_on(args, site))),
    (libraries.NO_GRAD, always(one(NoGrad()))),
    (("torch.finfo", "torch.iinfo"), lambda name, *_: one(Object("limits", name))),
    (FACTORIES, lambda name, args, site: factory(name, FACTORIES[name], args, site)),
    (("torch.device",), at(chosen_device)),
    (RESULTS, operation),
    (MODULES, lambda name, args, _: one(module(name, args))),
    (DIVERGENCES, of(distributions.divergence)),
    (libraries.MODULE_WRAPPERS, of(wrapped)),
    (libraries.PARSERS, lambda name, *_: one(Object("parser", name))),
)
"""What no model of a framework says anything else of."""

BY_NAME = by_name(
    (libraries.KINDS, lambda name, args, site: one(library_object(name, args, site))),
    (
        libraries.INITIALIZERS,
        lambda name, args, _: initialized(libraries.INITIALIZERS[name], args),
    ),
    (
        libraries.PASS_THROUGH,
        lambda name, args, _: pass_through(libraries.PASS_THROUGH[name], args),
    ),
    (("collections.defaultdict",), at(default_dict)),
    (("collections.namedtuple",), of(named_tuple_type)),
    (PARAMETER_CONTAINERS, lambda name, *_: one(Object("module", name))),
    (libraries.VARIABLES, of(variable)),
    (libraries.COPIES, of(handed_on)),
    (libraries.TYPE_VARIABLES, of(lambda args: args.get("bound") or UNKNOWN)),
    (LEGACY_CONSTRUCTORS, legacy),
    (HOST_FUNCTIONS, always(OBJECT)),
    (builtins("float"), always(FLOAT)),
    (builtins("int", "len", "id", "hash", "ord"), always(INT)),
    (
        builtins("bool", "isinstance", "issubclass", "hasattr", "callable", "any", "all"),
        always(BOOL),
    ),
    (builtins("str", "repr", "format", "chr", "input"), always(STR)),
    (builtins("print", "setattr"), always(NOTHING)),
    (builtins("open"), always(OBJECT)),
    # What is entered through it is in it, as in a list: see `amplint.ir.ssa.ADDERS`.
    (libraries.CONTEXT_STACKS, always(one(Sequence((), BOTTOM)))),
    (builtins("range"), always(one(Sequence(None, INT)))),
    ((*builtins("dict"), *LIKE_DICT), of(dictionary)),
    ((*builtins("set", "frozenset"), "collections.deque"), of(collection)),
    (builtins("sorted"), if_given(of(ordering))),
    (builtins("next"), if_given(of(next_element))),
    (builtins("max", "min"), if_given(of(extreme))),
    (builtins("sum"), if_given(at(total))),
    (builtins("abs"), if_given(of(absolute))),
    (builtins("round"), if_given(of(rounded))),
)
