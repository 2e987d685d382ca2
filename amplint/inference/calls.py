"""Calls: what is called, what it is given, and what comes of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial

from amplint.inference import custom_ops, transfer
from amplint.inference.frame import opened_by, origins
from amplint.inference.frameworks import OfFrameworks
from amplint.inference.hierarchy import AUTOGRAD_FUNCTION, MAX_BY_NAME
from amplint.inference.state import Key, State
from amplint.inference.transfer import Site, options
from amplint.ir import ops
from amplint.ir.model import CallShape, Graph, Node, Param
from amplint.ir.operations import Op
from amplint.ir.ssa import ENTERING, STACKING
from amplint.knowledge import casts, libraries
from amplint.knowledge.factories import LEGACY_CONSTRUCTORS
from amplint.knowledge.modules import MODULES
from amplint.knowledge.operations import MEASURED, MEASURES
from amplint.util.walks import reachable
from amplint.values.atoms import (
    ACCELERATOR,
    BOTTOM,
    CPU,
    NONE,
    UNKNOWN,
    Arguments,
    Atom,
    Autocast,
    Class,
    Device,
    Function,
    Host,
    Instance,
    Method,
    Module,
    NoGrad,
    Object,
    Sequence,
    Shows,
    Super,
    Symbol,
    Tensor,
    TensorTree,
    Unknown,
    Value,
    constant,
    entered,
    first_of,
    one,
    ordered,
)
from amplint.values.atoms import Mapping as MappingValue
from amplint.values.atoms import moved as moved_to
from amplint.values.lattice import (
    MAX_ALTERNATIVES,
    MAX_KEYS,
    any_value,
    inner,
    is_open,
    is_unknown,
    join,
    only,
)

MAX_SUBCLASSES = 24  # subclasses whose fields are taken for those of an instance of the base
MAX_IDENTIFIED = 16  # parameters of a constructor by whose arguments instances are kept apart
MAX_EVENTS = 24  # names of methods that calls give for one parameter
MAX_BY_PREFIX = 6  # methods that a computed name may mean
CONTEXT_MAKERS = frozenset({"contextmanager", "asynccontextmanager"})
# Where nothing is known of what is asked for such a method, it returns what theirs returns.
LIKELY_OWNERS: dict[str, Atom] = {
    **dict.fromkeys(MEASURES, Tensor()),
    **dict.fromkeys(libraries.PARSES, Object("parser", "?")),
}
OPTIMIZER_STATE = one(MappingValue(one(MappingValue(BOTTOM))))
SAVED = "saved_tensors"  # of the context of an autograd.Function
SAVES = "save_for_backward"
REGISTRIES = frozenset({"_buffers", "_parameters"})  # of a module
LEGACY_NAMES = frozenset(name.rpartition(".")[2] for name in LEGACY_CONSTRUCTORS)
# Methods of a module that change it in place and return it.
MODULE_CONVERSIONS = frozenset({"to", "half", "bfloat16", "float", "double", "cuda", "xpu"})
MOVES = frozenset({"to", "cuda", "xpu"})
DICTS = frozenset({"builtins.dict", "collections.OrderedDict"})
ANY_MODULE: tuple[Atom, ...] = (Unknown(), Object("module", "?"))
CALLS_ITS_ARGUMENT = frozenset(
    {"builtins.map", "torch.utils.checkpoint.checkpoint", "torch.compile.__call__"}
)
MODULE_METHODS = frozenset(
    """
    to cuda cpu xpu train eval requires_grad_ apply float half bfloat16 double parameters
    named_parameters buffers state_dict load_state_dict zero_grad modules named_modules
    children manual_backward log log_dict forward __call__ register_buffer
    """.split()
)


class Calls(OfFrameworks):
    """Attributes and calls in one function."""

    def default_of(self, function: str, parameter: Param) -> Value:
        """The value of a parameter in a call that leaves it out."""
        if parameter.constant_default or not parameter.has_default:
            return self.constant_default(parameter)
        return self.exchange.read(Key("default", function, parameter.name))

    def constant_default(self, parameter: Param) -> Value:
        default = parameter.default
        if not parameter.constant_default:
            return BOTTOM
        if default is None:
            return one(NONE)
        if isinstance(default, bool | int | float | str):
            return one(Host(type(default).__name__, default, True))
        return BOTTOM

    def attribute(self, atom: Atom, name: str, node: Node) -> Value:
        infer = self.inference
        if isinstance(atom, Instance):
            return self.instance_attribute(atom, name, node)
        if isinstance(atom, Super):
            bases = infer.hierarchy.mro(atom.cls)[1:]
            for base in bases:
                ids = infer.classes[base].methods.get(name)
                if ids:
                    return frozenset(Function(i, Instance(atom.of)) for i in ids)
            return one(Method(Instance(atom.of), name))
        if isinstance(atom, Class):
            for current in infer.hierarchy.mro(atom.id):
                ids = infer.classes[current].methods.get(name)
                if ids:
                    bound = atom if "classmethod" in infer.functions[ids[0]].decorated else None
                    return frozenset(Function(i, bound) for i in ids)
                if name in infer.files[infer.classes[current].path].graph(current).bindings:
                    return self.exchange.read(Key("name", current, name))
            if name == "apply" and infer.hierarchy.is_autograd_function(atom.id):
                return one(Method(atom, name))
            return UNKNOWN
        if isinstance(atom, Module):
            found = infer.names.module_name(atom.path, name)
            return UNKNOWN if found is None else found
        if isinstance(atom, Object) and atom.kind == "options":
            # Others may have set it to something else: `args.world_size = ...`.
            return join([self.exchange.read(Key("option", "", name)), UNKNOWN])
        if isinstance(atom, Unknown) and name == SAVED:
            return self.saved(node)
        if isinstance(atom, Unknown):
            if name in MEASURED:
                return join([UNKNOWN, self.applied(transfer.attribute, node, Tensor(), name)])
            known = name in (MODULE_CONVERSIONS | LEGACY_NAMES) or infer.hierarchy.module_methods(
                name
            )
            return one(Method(Unknown(), name)) if known else UNKNOWN
        if isinstance(atom, Symbol):
            dotted = f"{atom.name}.{name}"
            path = infer.names.modules.absolute(dotted, self.facts.path)
            return one(Module(path)) if path else self.applied(transfer.attribute, node, atom, name)
        return self.applied(transfer.attribute, node, atom, name)

    def saved(self, node: Node) -> Value:
        """`ctx.saved_tensors`: on the device, except what `forward` is seen to save of the CPU."""
        device = Device(
            ACCELERATOR,
            self.evidence(node, "saved by `forward` for `backward`", Shows.CONVENTION),
        )
        presumed = one(Tensor(device=device))
        key = Key("field", self.facts.cls or "", SAVED)
        seen = only(self.exchange.read(key)) if self.facts.cls is not None else None
        if not isinstance(seen, Sequence) or seen.items is None:
            return one(Sequence(None, presumed))
        items = tuple(item if is_of_cpu(item) else presumed for item in seen.items)
        return one(Sequence(items, BOTTOM))

    def note_saved(self, arguments: Arguments, node: Node) -> None:
        """`ctx.save_for_backward(x, scale)`, of which `backward` has `ctx.saved_tensors`."""
        callee = self.graph.nodes[node.operands[0]]
        saves = callee.op == ops.ATTR and callee.data == SAVES
        if saves and self.facts.cls is not None and not arguments.stars:
            site = (self.facts.id, self.number)
            key = Key("field", self.facts.cls, SAVED)
            self.exchange.write(key, site, one(Sequence(arguments.positional, BOTTOM)))

    def instance_attribute(self, instance: Instance, name: str, node: Node) -> Value:
        infer = self.inference
        ids = infer.hierarchy.methods(instance.cls, name)
        if ids:
            instance = replace(
                instance, given=()
            )  # a method knows nothing of what `self` was given
            results: list[Value] = []
            for identity in ids:
                decorated = infer.functions[identity].decorated
                if "property" in decorated or "cached_property" in decorated:
                    self.enter(identity, node, Arguments(), instance)
                    results.append(self.exchange.read(Key("return", identity)))
                elif "setter" in decorated or "deleter" in decorated:
                    continue  # a read of the property runs its getter alone
                elif "staticmethod" in decorated:
                    results.append(one(Function(identity)))
                else:
                    results.append(self.decorated_method(identity, instance))
            return join(results)
        identified = self.identified_field(instance, name)
        if identified:
            return identified
        below = infer.hierarchy.subclasses(instance.cls)
        # What that many subclasses store has nothing in common.
        related = [
            *infer.hierarchy.mro(instance.cls),
            *(below if len(below) <= MAX_SUBCLASSES else ()),
        ]
        stored = join(self.exchange.read(Key("field", cls, name)) for cls in related)
        # `weight: Tensor` says less than what is stored; that of a dataclass is for its users, too.
        is_told = any(atom != NONE for atom in stored) and not any(map(is_vague, stored))
        bound = [c for c in related if infer.hierarchy.binds(c, name, is_told)]
        value = join([stored, *(self.exchange.read(Key("name", c, name)) for c in bound)])
        if value:
            if is_open(value):
                for cls in related:
                    if infer.uses.marks_of_class(cls).get(name):
                        return self.mark_value(infer.uses.marks_of_class(cls)[name]) or value
            return value
        if name == "param_groups" and infer.hierarchy.is_optimizer(instance.cls):
            return transfer.PARAM_GROUPS
        if name == "state" and infer.hierarchy.is_optimizer(instance.cls):
            return OPTIMIZER_STATE
        if name == "device" and infer.hierarchy.is_module(instance.cls):
            return one(
                Device(ACCELERATOR, self.evidence(node, "the module's device", Shows.CONVENTION))
            )
        if name in REGISTRIES and infer.hierarchy.is_module(instance.cls):
            device = Device(
                ACCELERATOR,
                self.evidence(node, "parameters and buffers of a module", Shows.CONVENTION),
            )
            return one(MappingValue(one(Tensor(device=device))))
        bases = infer.hierarchy.library_bases(instance.cls)
        if not bases:
            return UNKNOWN
        of_framework = self.attribute_of_framework(instance, name, node)
        if of_framework is not None:
            return of_framework
        if name in MODULE_METHODS:
            return one(Method(instance, name))
        # What torch's own layer stores, its subclasses have.
        layers = [Object("module", base) for base in sorted(bases) if base in MODULES]
        return transfer.object_attribute(layers[0], name) if len(layers) == 1 else UNKNOWN

    def identified_field(self, instance: Instance, name: str) -> Value:
        """The value of a field in an instance that one call is known to have made, where the
        constructor stores a parameter in it: that, and what is stored in it elsewhere."""
        infer = self.inference
        makers = (
            infer.hierarchy.methods(instance.cls, "__init__", overridden=False)
            if instance.given
            else []
        )
        if not instance.given or len(makers) > 1:
            return BOTTOM
        # Of a dataclass, the constructor is generated.
        key = Key("kept", str(infer.functions[makers[0]].cls if makers else instance.cls), name)
        parameter = constant(self.exchange.read(key))
        given = next((value for p, value in instance.given if p == parameter), None)
        if given is None:
            return BOTTOM
        constructors = self.exchange.sites_of(key).keys()
        stored = [
            self.exchange.read_without(Key("field", cls, name), constructors)
            for cls in infer.hierarchy.mro(instance.cls)
        ]
        return join([given, *stored])

    def decorated_method(self, identity: str, instance: Instance) -> Value:
        """The method bound to the instance, through decorators of the project."""
        infer = self.inference
        facts = infer.functions[identity]
        if set(facts.decorated) <= libraries.TRANSPARENT_DECORATORS or facts.cls is None:
            return one(Function(identity, instance))
        value = self.exchange.read(Key("name", facts.cls, facts.name))
        functions = [a for a in value if isinstance(a, Function)]
        if not functions:
            return one(Function(identity, instance))
        return frozenset(replace(a, bound=instance) for a in functions)

    def op_call(self, node: Node) -> Value:
        values = self.operands(node)
        arguments = self.arguments_of(self.graph, node, values[1:])
        results: list[Value] = []
        self.exchange.calls.edges[(self.facts.id, self.number)] = set()
        self.note_option(node, arguments)
        self.note_hook(node, arguments)
        self.note_method(node)
        self.note_saved(arguments, node)
        callees = values[0]
        if several(callees):
            callees = frozenset(a for a in callees if self.takes(a, arguments))
            arguments = by_name(arguments)
        for atom in ordered(callees):
            cast = self.cast_of_unknown(atom, arguments, node)
            if cast is not None:
                results.append(cast)
            elif (
                isinstance(atom, Method)
                and atom.of in ANY_MODULE
                and (methods := self.inference.hierarchy.module_methods(atom.name))
            ):
                results.append(self.call_by_name(methods, arguments, node))
            elif isinstance(atom, Unknown) and self.graph.nodes[node.operands[0]].op == ops.ATTR:
                results.append(self.call_overridden(arguments, node))
            else:
                results.append(self.call(atom, arguments, node))
        made = join(results)
        self.note_move(node, made)
        return made

    def note_move(self, node: Node, moved: Value) -> None:
        """`self.model.to(device)` moves the module that the field holds, in place."""
        callee = self.graph.nodes[node.operands[0]]
        if callee.op != ops.ATTR or callee.data not in MOVES:
            return
        field = self.graph.nodes[self.graph.narrowed(callee.operands[0])]
        if field.op != ops.ATTR:
            return
        modules = frozenset(a for a in moved if is_module_on_device(a))
        for owner in self.of(field.operands[0]):
            if isinstance(owner, Instance) and modules:
                site = (self.facts.id, self.number)
                self.exchange.write(Key("field", owner.cls, field.data), site, modules)

    def takes(self, atom: Atom, arguments: Arguments) -> bool:
        """Whether a function can be called so: of a table, only such a one can be meant."""
        if not isinstance(atom, Function) or arguments.stars:
            return True
        facts = self.inference.functions[atom.id]
        kinds = {p.kind for p in facts.params}
        positional = self.open_places(atom)
        filled = {p.name for p in positional[: len(arguments.positional)]} | atom.given_names
        if len(arguments.positional) > len(positional) and "star" not in kinds:
            return False
        if arguments.more_keywords:
            return True
        by_name = (*positional, *(p for p in facts.params if p.kind == "keyword"))
        given = filled | arguments.keywords.keys()
        missing = any(not p.has_default and p.name not in given for p in by_name)
        strange = not arguments.keywords.keys() <= {p.name for p in by_name}
        return not missing and not (strange and "starstar" not in kinds)

    def call_overridden(self, arguments: Arguments, node: Node) -> Value:
        """`callback.on_step(...)`, which more classes override than a value can name; and what is
        unknown, but returns a number by the name of the method: `key.size(-1)`."""
        callee = self.graph.nodes[node.operands[0]]
        owner = self.of(callee.operands[0])
        for identity, instance in self.many_methods(owner, callee.data):
            self.call_function(Function(identity, instance), arguments, node)
        for identity in (
            self.inference.hierarchy.large_family(callee.data) if Unknown() in owner else ()
        ):
            self.enter(identity, node, None, None)
        made = self.call(Unknown(), arguments, node)
        likely = LIKELY_OWNERS.get(callee.data)
        return (
            join([made, self.called(Method(likely, callee.data), arguments, node)])
            if likely
            else made
        )

    def cast_of_unknown(self, atom: Atom, arguments: Arguments, node: Node) -> Value | None:
        """`q.half()` of a parameter that nobody knows, `x.to(torch.half)` of a batch: a tensor, if
        it is then used as one; and `x.to(device)` of what a loop draws: a tensor or a nest of them.
        """
        if not isinstance(atom, Method):
            return None
        is_tensor = self.number in self.marks.tensors or self.number in self.marks.joined
        if isinstance(atom.of, TensorTree) and atom.name == "to":
            is_cast = is_tensor and any(map(transfer.names_dtype, arguments.all))
            whole = replace(atom, of=Tensor(device=atom.of.device))
            return self.called(whole, arguments, node) if is_cast else None
        if not isinstance(atom.of, Unknown):
            return None
        made = LEGACY_CONSTRUCTORS.get(f"torch.{atom.name}")
        if made is not None:  # `get_accelerator().FloatTensor([norm])`
            return one(Tensor(made[0]))
        if atom.name not in MODULE_CONVERSIONS:
            return None
        if atom.name in MOVES and self.is_moved_tensor(node):
            moved = self.called(replace(atom, of=TensorTree()), arguments, node)
            if all(isinstance(a, TensorTree) and a.device.kind for a in moved):
                return moved
        if atom.name in ("cuda", "xpu"):
            return UNKNOWN
        if atom.name == "to":
            target = arguments.get("dtype", 0) or UNKNOWN
            dtype = transfer.dtype_of(target) if transfer.names_dtype(target) else None
        else:
            dtype = casts.DTYPE_OF_CAST.get(f"Tensor.{atom.name}")
        return one(Tensor(dtype)) if dtype is not None and is_tensor else UNKNOWN

    def is_moved_tensor(self, call: Node) -> bool:
        """Whether what is moved is a tensor or a nest of them: what a loop draws from an iterable,
        or a part of it, or what is then used as a tensor; and is not called, as a module is."""
        method = self.graph.nodes[call.operands[0]]
        if method.op != ops.ATTR:
            return False  # one that was handed on
        number = method.operands[0]
        if self.marks.nodes.get(number) == "module" or self.number in self.marks.called:
            return False
        if self.number in self.marks.tensors:
            return True
        for _ in range(6):
            node = self.graph.nodes[number]
            if node.op == ops.ITER or (node.op == ops.PARAM and self.facts.kind == "lambda"):
                return True
            if node.op == ops.CALL:
                callee = self.values[node.operands[0]]
                return any(isinstance(a, Symbol) and a.name == "builtins.next" for a in callee)
            if node.op not in (ops.UNPACK, ops.SUBSCRIPT, ops.NARROW, ops.PHI) or not node.operands:
                return False
            number = node.operands[0]
        return False

    def note_option(self, node: Node, arguments: Arguments) -> None:
        """`add_argument("--workers", type=int, default=4)`: an option of the command line."""
        callee = self.graph.nodes[node.operands[0]]
        if callee.op != ops.ATTR or callee.data != "add_argument":
            return
        option = options.declared(arguments)
        if option is not None:
            site = (self.facts.id, self.number)
            self.exchange.write(Key("option", "", option.name), site, option.value)
            if option.is_off:
                self.exchange.calls.off_flags[site] = option.name

    def call_by_name(self, methods: Iterable[str], arguments: Arguments, node: Node) -> Value:
        """`model.calculate_loss(batch)`, the model unknown: the methods of that name."""
        results: list[Value] = []
        for identity in methods:
            cls = self.inference.functions[identity].cls
            assert cls is not None
            results.append(self.call_function(Function(identity, Instance(cls)), arguments, node))
        return join([*results, UNKNOWN])

    def arguments_of(self, graph: Graph, node: Node, values: list[Value]) -> Arguments:
        """How a call is given the values of its operands."""
        shape: CallShape = node.data
        if not shape.stars:  # as in most calls
            named = zip(shape.keywords, values[shape.positional :], strict=True)
            return Arguments(tuple(values[: shape.positional]), dict(named), hint=shape.hint)
        positional: list[Value] = []
        counted = True
        for number, value in zip(node.positional, values, strict=False):
            if graph.nodes[number].op == ops.STARRED:
                atom = only(value)
                if isinstance(atom, Sequence) and atom.items is not None:
                    positional.extend(atom.items)
                else:
                    positional.append(transfer.iterate(value) if value else value)
                    counted = False
            else:
                positional.append(value)
        keywords: dict[str, Value] = {}
        for (name, _), value in zip(node.named, values[shape.positional :], strict=True):
            if name == "**":
                for atom in ordered(value):
                    if isinstance(atom, MappingValue):
                        keywords.update(dict(atom.items))
                        keywords.setdefault("**", atom.rest)
                    elif isinstance(atom, TensorTree):
                        keywords.setdefault("**", one(atom))
            else:
                keywords[name] = value
        unsure = any(
            name == "**" and not all(map(is_named, value))
            for (name, _), value in zip(node.named, values[shape.positional :], strict=True)
        )
        return Arguments(tuple(positional), keywords, not counted, unsure, shape.hint)

    def call(self, atom: Atom, arguments: Arguments, node: Node) -> Value:
        infer = self.inference
        if isinstance(atom, Function):
            return self.call_function(atom, arguments, node)
        if isinstance(atom, Class):
            makers = infer.hierarchy.methods(atom.id, "__init__", overridden=False)
            for identity in makers:
                self.enter(identity, node, arguments, Instance(atom.id))
            if not makers:
                self.note_made(atom.id, arguments, node)
                if infer.hierarchy.library_bases(atom.id) & DICTS:
                    return self.called(Symbol("builtins.dict"), arguments, node)
                self.fill_fields(atom.id, arguments)
            given = self.identified(atom.id, makers, arguments)
            contexts = self.contexts_of(atom.id, makers, arguments, node)
            if contexts:
                return join([one(Instance(atom.id, given=given)), contexts])
            if infer.hierarchy.is_loader(atom.id) and self.hands_on(makers):
                device = transfer.host_memory(
                    "torch.utils.data.DataLoader", arguments, self.site(node)
                )
                if makers and device.pinned:  # a constructor may hand on a `collate_fn` of its own
                    device = replace(device, pinned=False, pinned_within=True)
                return one(Instance(atom.id, device, given))
            return one(Instance(atom.id, given=given))
        if isinstance(atom, Instance):
            return self.call_instance(atom, arguments, node)
        if isinstance(atom, Method) and isinstance(atom.of, Instance):
            if atom.name in ("__call__", "forward"):
                return self.call_instance(atom.of, arguments, node)
            if atom.name in ("register_buffer", "register_parameter"):
                self.register(atom.of, arguments, node)
            if atom.name == "__init__":  # of a base in a library
                self.note_made(atom.of.cls, arguments, node)
                opened = self.opened_by_base(atom.of.cls, arguments, node)
                if opened:
                    self.exchange.write(
                        Key("context", self.facts.id), (self.facts.id, self.number), opened
                    )
            known = self.given_by_framework(atom, node)
            return known if known is not None else self.called(atom, arguments, node)
        if isinstance(atom, Method) and is_executor(atom.of) and atom.name in libraries.EXECUTES:
            self.execute(atom.name, arguments)
        if isinstance(atom, Object) and atom.holds:
            self.enter_held(atom.holds, node)
        if isinstance(atom, Autocast) and arguments.positional:
            self.wrap(atom, arguments.positional[0])
        if isinstance(atom, Method) and isinstance(atom.of, Class):
            return self.apply_function(atom.of, arguments, node)
        if isinstance(atom, Unknown) or (isinstance(atom, Method) and atom.name == "step"):
            self.run_closure(arguments, node)
        if isinstance(atom, Symbol):
            self.note_precision(atom.name, arguments)
            self.note_runner(atom.name, arguments, node)
            special = self.call_special(atom.name, arguments, node)
            if special is not None:
                return special
            if atom.name.startswith(custom_ops.MODULES):
                of_operator = self.call_operators(atom.name, arguments, node)
                if of_operator is not None:
                    return of_operator
            if infer.hierarchy.kind_of(atom.name) == "loader":
                own = arguments.get("collate_fn", 6) or BOTTOM
                return self.collated(self.called(atom, arguments, node), own)
        return self.called(atom, arguments, node)

    def contexts_of(self, cls: str, makers: list[str], arguments: Arguments, node: Node) -> Value:
        """The contexts that an instance enters where a `with` is given it: a subclass of autocast
        is one, and an `__enter__` may enter others.

        Args:
            makers: the constructors of the class.
            arguments: those of the call that makes the instance.
        """
        infer = self.inference
        entering = infer.hierarchy.methods(cls, "__enter__")
        if infer.hierarchy.library_bases(cls) & libraries.AUTOCASTS.keys():
            if not makers:
                return self.opened_by_base(cls, arguments, node)
            entering = makers
        contexts = join(self.exchange.read(Key("context", each)) for each in entering)
        if not contexts or len(makers) != 1:
            return contexts
        # All instances of a class have one value there. Where that does not say whether the region
        # is on, what this one is given does.
        given = self.given(Function(makers[0], Instance(cls)), arguments)
        told = {k: v for k, v in given.items() if k == "enabled" and constant(v) is not None}
        return frozenset(
            transfer.with_options(a, told, unsure=False)
            if isinstance(a, Autocast) and a.enabled is None
            else a
            for a in contexts
        )

    def opened_by_base(self, cls: str, arguments: Arguments, node: Node) -> Value:
        """The region of a subclass of autocast whose base is given these arguments."""
        names = sorted(libraries.AUTOCASTS.keys() & self.inference.hierarchy.library_bases(cls))
        return join(one(transfer.autocast(name, arguments, self.site(node))) for name in names)

    def wrap(self, context: Autocast, wrapped: Value) -> None:
        """`torch.autocast("cuda")(f)`: a call of that runs `f` in the region."""
        site = (self.facts.id, self.number)
        for atom in ordered(wrapped):
            runs = self.run_by(atom)
            if isinstance(atom, Instance) and self.inference.hierarchy.is_module(atom.cls):
                runs = runs or self.inference.hierarchy.methods(atom.cls, "forward")
            for identity in runs:
                self.exchange.write(Key("wrapped", identity), site, one(context))

    def identified(
        self, cls: str, makers: list[str], arguments: Arguments
    ) -> tuple[tuple[str, Value], ...]:
        """The arguments of a constructor by which its instance is distinguished: objects and
        tensors, known or not.

        Args:
            makers: the constructors of the class that the project has; none of a dataclass, whose
                fields are distinguished in the same way.
        """
        if not makers:
            return self.identified_by_fields(cls, arguments)
        if len(makers) != 1 or arguments.unsure:
            return ()
        facts = self.inference.functions[makers[0]]
        if len(facts.params) > MAX_IDENTIFIED:
            return ()
        given = self.given(Function(makers[0], Instance(str(facts.cls))), arguments)
        return tuple(
            (p.name, given[p.name])
            for p in facts.params
            if p.name in given
            and tells_apart(given[p.name])
            and not (p.annotated and is_unknown(given[p.name]))  # the annotation knows more
        )

    def collated(self, loader: Value, collate: Value) -> Value:
        """A loader, whose batches are on the device if its `collate_fn` moves all tensors there."""
        returned = [
            self.exchange.read(Key("return", identity))
            for function in ordered(collate)
            for identity in self.run_by(function)
        ]
        parts = reachable((a for v in returned for a in ordered(v)), held)
        devices = [part.device for part in parts if isinstance(part, Tensor | TensorTree)]
        if not devices or any(device.kind != ACCELERATOR for device in devices):
            return loader
        device = Device(ACCELERATOR, first_of(each.evidence for each in devices))
        return frozenset(
            replace(a, device=device) if isinstance(a, Object) and a.kind == "loader" else a
            for a in loader
        )

    def run_by(self, function: Atom) -> list[str]:
        """The functions of the project that a call of this runs."""
        if isinstance(function, Instance):
            return self.inference.hierarchy.methods(function.cls, "__call__")
        return [function.id] if isinstance(function, Function) else []

    def enter_held(self, held: Value, node: Node) -> None:
        """Calling a Sequential calls what it holds; what each is given is not followed."""
        for atom in ordered(held):
            if isinstance(atom, Instance):
                for identity in self.inference.hierarchy.methods(atom.cls, "forward"):
                    self.enter(identity, node, None, None)

    def apply_function(self, function: Class, arguments: Arguments, node: Node) -> Value:
        """`Function.apply(x)`: its `forward`, with a context in front."""
        context = one(Object("context", AUTOGRAD_FUNCTION))
        given = replace(arguments, positional=(context, *arguments.positional))
        ids = self.inference.hierarchy.methods(function.id, "forward", overridden=False)
        return join(self.call_function(Function(i), given, node) for i in ids) or UNKNOWN

    def run_closure(self, arguments: Arguments, node: Node) -> None:
        """`optimizer.step(closure)` calls the closure, whatever the optimizer is."""
        callee = self.graph.nodes[node.operands[0]]
        if callee.op != ops.ATTR or callee.data != "step":
            return
        for value in arguments.positional[:1]:
            for atom in ordered(value):
                if isinstance(atom, Function):
                    self.call_function(atom, Arguments(), node)

    def register(self, module: Instance, arguments: Arguments, node: Node) -> None:
        """A buffer or parameter is a field of the module, and moves with it."""
        name = constant(arguments.get("name", 0))
        value = arguments.get("tensor", 1) or arguments.get("param", 1) or UNKNOWN
        if isinstance(name, str):
            device = Device(
                ACCELERATOR,
                self.evidence(node, "the module's tensors live on the device", Shows.CONVENTION),
            )
            moved = join(
                one(moved_to(a, device)) if isinstance(a, Tensor | TensorTree) else one(a)
                for a in value
            )
            site = (self.facts.id, self.number)
            self.exchange.write(Key("field", module.cls, name), site, moved)

    def call_special(self, name: str, arguments: Arguments, node: Node) -> Value | None:
        """Calls of libraries that call something of the project in turn."""
        if name == "builtins.super":
            if self.facts.cls is None:
                return UNKNOWN
            return one(Super(self.facts.cls, self.facts.cls))
        if name == "functools.partial" and arguments.positional:
            return self.partial(arguments, node)
        if name in libraries.THREADS:
            self.start_thread(name, arguments)
        if name in CALLS_ITS_ARGUMENT and arguments.positional:
            inner = replace(arguments, positional=arguments.positional[1:])
            if name == "builtins.map":
                inner = Arguments(tuple(transfer.iterate(v) for v in arguments.positional[1:]))
                result = join(self.call(a, inner, node) for a in ordered(arguments.positional[0]))
                return one(Sequence(None, result))
            return join(self.call(a, inner, node) for a in ordered(arguments.positional[0]))
        maker = self.models.maker(name)
        if maker is not None and maker.builds == "lists":
            return self.called_with_each(arguments, node)
        if name == "functools.reduce" and len(arguments.positional) >= 2:
            drawn = transfer.iterate(arguments.positional[1])
            start = join([drawn, *arguments.positional[2:3]])
            pair = Arguments((start, drawn))
            return join(self.call(a, pair, node) for a in ordered(arguments.positional[0]))
        if name == "builtins.getattr" and len(arguments.positional) >= 2:
            owner, given = arguments.positional[:2]
            attribute = constant(given)
            if isinstance(attribute, str):
                found = [self.attribute(a, attribute, node) for a in ordered(owner)]
                return join([*found, *arguments.positional[2:3]])
            written = self.name_written(node)
            chosen, names = self.names_chosen(written), self.names_given(written)
            if chosen:
                return join(
                    self.attribute(a, each, node) for a in ordered(owner) for each in chosen
                )
            if names:
                self.dispatch(owner, names, self.graph.nodes[written].data)
                return UNKNOWN
            return self.attribute_by_prefix(owner, self.prefix(written), node)
        if (
            name in ("builtins.iter", "builtins.next", "builtins.enumerate", "tqdm.tqdm")
            or name in libraries.PASS_THROUGH
        ):
            return self.called(Symbol(name), self.loaders(arguments), node)
        return None

    def called_with_each(self, arguments: Arguments, node: Node) -> Value:
        """A list for each result of the first argument, called with the elements of the others."""
        given = tuple(transfer.iterate(value) for value in arguments.positional[1:])
        inner = replace(arguments, positional=given)
        work = arguments.positional[0] if arguments.positional else BOTTOM
        results = join(self.call(atom, inner, node) for atom in ordered(work))
        rows = [a.items for a in results if isinstance(a, Sequence) and a.items is not None]
        if len(rows) != len(results) or len(set(map(len, rows))) != 1:
            return UNKNOWN
        columns = (join(column) for column in zip(*rows, strict=True))
        return one(Sequence(tuple(one(Sequence(None, each)) for each in columns), BOTTOM))

    def start_thread(self, name: str, arguments: Arguments) -> None:
        """Ex) Thread(target=work, args=(x,)), asyncio.to_thread(work, x)"""
        keyword, position, packed = libraries.THREADS[name]
        work = arguments.get(keyword, position) or BOTTOM
        if packed is None:
            self.hand_over(work, replace(arguments, positional=arguments.positional[1:]))
            return
        self.hand_over(work, unpacked(arguments.get("args", packed)))

    def execute(self, method: str, arguments: Arguments) -> None:
        """Ex) executor.submit(work, x), pool.map(work, xs)"""
        work, rest = arguments.positional[:1], arguments.positional[1:]
        if method == "submit":
            given = replace(arguments, positional=rest)
        elif method in ("map", "imap", "imap_unordered", "map_async"):
            given = Arguments(tuple(transfer.iterate(value) for value in rest))
        else:
            packed = rest[0] if rest else BOTTOM
            given = unpacked(transfer.iterate(packed) if method.startswith("star") else packed)
        self.hand_over(join(work), given)

    def hand_over(self, work: Value, arguments: Arguments) -> None:
        """Another thread runs this, in no region, and nobody need wait for it: it is not called."""
        site = (self.facts.id, self.number)
        self.exchange.calls.threads[site] = set(work)
        self.exchange.regions_may_change()
        for atom in ordered(work):
            if isinstance(atom, Function):
                self.exchange.write_region(atom.id, site, None)
                self.exchange.need(atom.id)
                self.bind(atom, arguments)

    def call_operators(self, name: str, arguments: Arguments, node: Node) -> Value | None:
        """A call of an operator, or one that registers a function for it."""
        registrar = custom_ops.registrar(name)
        if registrar is not None:
            return self.register_operator(*registrar, arguments)
        if name == f"{custom_ops.LIBRARY}.Library":
            namespace = constant(arguments.get("ns", 0))
            return (
                one(Symbol(custom_ops.PREFIX + namespace)) if isinstance(namespace, str) else None
            )
        operator = name.removesuffix(".default")
        kernels = self.exchange.read(Key("operator", operator, "forward"))
        called = [a for a in ordered(kernels) if isinstance(a, Function)]
        return join(self.call_function(f, arguments, node) for f in called) if called else None

    def register_operator(self, owner: str, how: str, arguments: Arguments) -> Value | None:
        """Note the functions that are registered; without one, the call returns a decorator."""
        operator, rest = custom_ops.registration(owner, arguments)
        if operator is None:
            return None
        how = custom_ops.on_device(how, rest)
        role, functions = custom_ops.REGISTRARS[how], custom_ops.functions_in(rest)
        if not functions:
            return one(Symbol(f"{operator}.{how}"))
        site = (self.facts.id, self.number)
        if role:
            self.exchange.write(Key("operator", operator, role), site, frozenset(functions))
            for function in functions:
                self.exchange.write(Key("role", function.id), site, one(Host("str", role, True)))
                self.exchange.need(function.id)
        return one(Symbol(operator)) if how in custom_ops.DEFINES else frozenset(functions)

    def name_written(self, call: Node) -> int:
        """The node of the second argument of a `getattr`, behind tests of it; -1 where it is not
        seen: behind a star, or where something else is called, which calls `getattr` in turn."""
        callees = self.of(call.operands[0])
        number = call.argument(1) if Symbol("builtins.getattr") in callees else -1
        return self.graph.narrowed(number) if number >= 0 else -1

    def dispatch(self, owner: Value, names: list[str], parameter: str) -> None:
        """`getattr(callback, event)`: which methods are meant is up to what each call passes, so
        it is at those calls that the methods are entered. Of an unknown object, it may be that of
        any class: a list of callbacks holds more classes than a value can name."""
        for name in names:
            ids = {identity for identity, _ in self.many_methods(owner, name, 0)}
            if is_open(owner):
                ids.update(self.inference.hierarchy.methods_called(name))
            case = (self.number, parameter, name)
            self.exchange.write_dispatch(self.facts.id, case, frozenset(ids))

    def dispatched(self, function: Function, arguments: Arguments, node: Node) -> None:
        """Enter the methods that a function finds by the constants of this call."""
        cases = self.exchange.dispatches(function.id)
        given = self.given(function, arguments) if cases else {}
        for (_, parameter, name), methods in cases.items():
            if constant(given.get(parameter)) == name:
                for identity in sorted(methods):
                    self.enter(identity, node, None, None)
                    self.exchange.calls.drawn.setdefault((self.facts.id, self.number), set()).add(
                        identity
                    )

    def many_methods(
        self, owner: Value, name: str, few: int = MAX_ALTERNATIVES
    ) -> list[tuple[str, Instance]]:
        """The methods of that name that instances may have, where they are more than a few."""
        return [
            (identity, atom)
            for atom in ordered(owner)
            if isinstance(atom, Instance)
            for ids in [self.inference.hierarchy.methods(atom.cls, name)]
            if few < len(ids) <= MAX_BY_NAME
            for identity in ids
        ]

    def names_given(self, number: int) -> list[str]:
        """The constants that calls give for a parameter: the events that a trainer fires."""
        if number < 0 or self.graph.nodes[number].op != ops.PARAM:
            return []
        given = self.exchange.given_strings(self.facts.id, self.graph.nodes[number].data)
        return given if len(given) <= MAX_EVENTS else []

    def names_chosen(self, number: int) -> list[str]:
        """The constants of which a branch has chosen one; none where it may be something else."""
        sources = origins(self.graph, number) if number >= 0 else []
        constants = [constant(self.of(each)) for each in sources]
        names = sorted({each for each in constants if isinstance(each, str)})
        return names if len(constants) > 1 and all(isinstance(c, str) for c in constants) else []

    def prefix(self, number: int) -> str:
        """The constant that a computed name starts with: "loss_" of `f"loss_{name}"`."""
        node = self.graph.nodes[number] if number >= 0 else None
        if node is None or node.op not in (ops.FSTRING, ops.BINOP):
            return ""
        if node.op == ops.BINOP:
            first = constant(self.of(node.operands[0]))
        else:
            first = node.data[0] if node.data else ""
        return first if isinstance(first, str) else ""

    def attribute_by_prefix(self, owner: Value, prefix: str, node: Node) -> Value:
        """`getattr(self, f"loss_{name}")`: any method of the class whose name starts so."""
        found: list[Value] = []
        for atom in ordered(owner):
            if isinstance(atom, Instance) and prefix:
                names = {
                    n for c in self.inference.hierarchy.mro(atom.cls) for n in self.names_in(c)
                }
                chosen = sorted(n for n in names if n.startswith(prefix))[:MAX_BY_PREFIX]
                found += [self.instance_attribute(atom, name, node) for name in chosen]
        return join(found) or UNKNOWN

    def hands_on(self, makers: Iterable[str]) -> bool:
        """Whether all constructors take any keywords, to hand them on to that of the base."""
        functions = self.inference.functions
        return all(any(p.kind == "starstar" for p in functions[m].params) for m in makers)

    def names_in(self, cls: str) -> Iterable[str]:
        return self.inference.classes[cls].methods

    def loaders(self, arguments: Arguments) -> Arguments:
        """The arguments, instances of the project's own loader classes as loaders."""
        return replace(
            arguments,
            positional=tuple(join(self.as_loader(a) for a in v) for v in arguments.positional),
        )

    def as_loader(self, atom: Atom) -> Value:
        if isinstance(atom, Instance) and self.inference.hierarchy.is_loader(atom.cls):
            return one(Object("loader", atom.cls, atom.device if atom.device.kind else CPU))
        return one(atom)

    def partial(self, arguments: Arguments, node: Node) -> Value:
        results: list[Value] = []
        given = arguments.positional[1:]
        for atom in ordered(arguments.positional[0]):
            if isinstance(atom, Function):
                self.bind(atom, replace(arguments, positional=given))
                names = atom.given_names | frozenset(arguments.keywords)
                results.append(one(replace(atom, given=atom.given + len(given), given_names=names)))
            elif isinstance(atom, Symbol) and atom.name in libraries.AUTOCASTS:
                inner = replace(arguments, positional=given)
                results.append(
                    one(transfer.autocast(transfer.canonical(atom.name), inner, self.site(node)))
                )
            elif isinstance(atom, Symbol) and transfer.canonical(atom.name) in libraries.CLIPPING:
                results.append(one(atom))  # whatever it is given first, it clips
            else:
                results.append(UNKNOWN)
        return join(results)

    def call_function(self, function: Function, arguments: Arguments, node: Node) -> Value:
        infer = self.inference
        facts = infer.functions[function.id]
        self.enter(function.id, node, None, None)
        self.bind(function, arguments)
        self.dispatched(function, arguments, node)
        graph = infer.files[facts.path].graph(function.id)
        if set(facts.decorated) & CONTEXT_MAKERS:
            opened = self.exchange.read(Key("context", function.id))
            entering = contexts_at(graph, ops.YIELD)
            if entering:  # else those of what it delegates to
                opened = self.specialised(function, arguments, opened, entering)
            return contexts_in(opened) or UNKNOWN
        if graph.yields:
            result = one(Sequence(None, self.exchange.read(Key("yield", function.id))))
        else:
            result = self.exchange.read(Key("return", function.id))
            result = self.specialised(function, arguments, result, graph.given_back)
        return self.as_given_here(function.id, result, node)

    def as_given_here(self, function: str, result: Value, node: Node) -> Value:
        """The result of a call. Where it runs in no region, and another call of the same function
        does, or a framework runs it in one, half is what the function returns to that one."""
        of_unknown_dtype = transfer.without_half(result)
        if of_unknown_dtype is result or of_unknown_dtype == result:
            return result  # whatever the region: nobody has to hear of it
        region = self.region_of_call(node, function)
        if region is not None and region.enabled is not False:
            return result
        infer = self.inference
        facts = infer.functions[function]
        if (
            facts.decorated
            and opened_by(self.exchange.read(Key("decorators", function))) is not None
        ):
            return result  # the region is its own, wherever it is called
        elsewhere = self.exchange.inherited_region(function) or infer.hierarchy.dtype_of_framework(
            facts, self.exchange.read
        )
        return of_unknown_dtype if elsewhere else result

    def specialised(
        self, function: Function, arguments: Arguments, result: Value, sources: Iterable[int]
    ) -> Value:
        """The result of a helper, with this call's arguments put for its parameters: a region, or
        an instance that is distinguished from others by what its constructor was given.

        Args:
            sources: the nodes of the helper that the result is of.
        """
        if not any(map(is_made_of_arguments, result)):
            return result
        state = self.inference.states.get(function.id)
        if state is None:
            return result
        given = self.given(function, arguments)
        made: list[Value] = []
        for each in reachable(sources, lambda n: joined(state.graph, n)):
            if not joined(state.graph, each):
                special = self.specialised_call(function.id, state, each, given)
                made.append(state.values[each] if special is None else special)
        return join(made)

    def specialised_call(
        self, function: str, state: State, number: int, given: dict[str, Value]
    ) -> Value | None:
        """The region or the instance that a call in a helper makes, with these arguments of the
        helper."""
        node = state.graph.nodes[number]
        if node.op != ops.CALL or not any(map(is_made_of_arguments, state.values[number])):
            return None
        values = [self.substituted(state, n, given) for n in node.arguments]
        arguments = self.arguments_of(state.graph, node, values)
        made = only(state.values[number])
        if isinstance(made, Instance):
            makers = self.inference.hierarchy.methods(made.cls, "__init__", overridden=False)
            return one(replace(made, given=self.identified(made.cls, makers, arguments)))
        callees = [a for a in state.values[node.operands[0]] if makes_context(a)]
        if len(callees) != 1:
            return None
        site = Site(None, partial(self.evidence_in, function, node), self.models)
        return transfer.call(callees[0], arguments, site)

    def substituted(self, state: State, number: int, given: dict[str, Value]) -> Value:
        """The value of a node in a helper; where it is a parameter of it, or one that it may have
        wrapped, that with these arguments of the helper."""
        nodes = state.graph.nodes
        if nodes[number].op not in (ops.PARAM, ops.PHI):
            return state.values[number]
        sources = reachable([number], lambda n: passed_on(state, n))
        leaves = [n for n in sources if not passed_on(state, n)]
        if any(nodes[n].op != ops.PARAM or nodes[n].data not in given for n in leaves):
            return state.values[number]
        return join(given[nodes[n].data] for n in leaves)

    def given(self, function: Function, arguments: Arguments) -> dict[str, Value]:
        """The parameters of a function as a call fills them, constant defaults included."""
        facts = self.inference.functions[function.id]
        filled = {p.name: self.constant_default(p) for p in facts.params if p.constant_default}
        if not arguments.stars:
            names = [p.name for p in self.open_places(function)]
            filled |= dict(zip(names, arguments.positional, strict=False))
        return filled | arguments.named

    def call_instance(self, instance: Instance, arguments: Arguments, node: Node) -> Value:
        infer = self.inference
        name = "__call__"
        ids = infer.hierarchy.methods(instance.cls, name)
        module = infer.hierarchy.is_module(instance.cls)
        if not ids and module:
            ids = infer.hierarchy.methods(instance.cls, "forward")
        results = [
            self.call_function(Function(identity, instance), arguments, node) for identity in ids
        ]
        value = join(results)
        if instance.wrapped is not None and not instance.keeps:
            value = transfer.as_float32(value)
        operands = transfer.tensors_in(arguments.all)
        if (module and (not ids or is_unknown(value))) or (not ids and operands):
            # A class that cannot be called is mixed into one that can: a module, given tensors.
            site = self.site(node)
            return one(
                TensorTree(transfer.output_device(operands, instance.device, site), "output")
            )
        return value if ids else UNKNOWN

    def enter(
        self, identity: str, node: Node, arguments: Arguments | None, bound: Atom | None
    ) -> None:
        """Record that the call may run the function, and under which autocast state."""
        self.exchange.calls.edges.setdefault((self.facts.id, self.number), set()).add(identity)
        self.exchange.write_region(
            identity, (self.facts.id, self.number), self.region_of_call(node, identity)
        )
        self.exchange.need(identity)
        if arguments is not None:
            self.bind(Function(identity, bound), arguments)

    def bind(self, function: Function, arguments: Arguments) -> None:
        """Contribute the arguments of a call to the parameters of what is called."""
        facts = self.inference.functions[function.id]
        params = facts.params[self.is_bound(function) and bool(facts.positional) :]
        positional = self.open_places(function)
        filled = {p.name for p in positional[: len(arguments.positional)]}
        contributed = [
            *by_place(params, positional, arguments),
            *by_keyword(params, filled, arguments),
        ]
        # What a call leaves out is what the default says; elsewhere the default is not what it is.
        given = filled | arguments.keywords.keys() | function.given_names
        left_out = [p for p in params if p.has_default and p.name not in given]
        contributed += ((p.name, self.default_of(facts.id, p)) for p in left_out)
        for name, value in contributed:
            self.exchange.write(Key("param", facts.id, name), (self.facts.id, self.number), value)

    def is_bound(self, function: Function) -> bool:
        """Whether a function is a method that has its receiver."""
        return function.bound is not None and self.inference.functions[function.id].takes_receiver

    def open_places(self, function: Function) -> tuple[Param, ...]:
        """The parameters that a call can give by place: without the receiver that a method has, and
        what `functools.partial` has given."""
        positional = self.inference.functions[function.id].positional
        return positional[self.is_bound(function) + function.given :]

    def fill_fields(self, cls: str, arguments: Arguments) -> None:
        """A dataclass or NamedTuple: its fields are what the call passes, in order."""
        site = (self.facts.id, self.number)
        for name, value in self.fields_given(cls, arguments).items():
            self.exchange.write(Key("field", cls, name), site, value)
            self.exchange.write(Key("kept", cls, name), site, one(Host("str", name, True)))

    def fields_given(self, cls: str, arguments: Arguments) -> dict[str, Value]:
        """The values that a call passes for the fields of a dataclass or NamedTuple."""
        infer = self.inference
        if not infer.hierarchy.is_dataclass(cls):
            return {}
        by_place = zip(infer.hierarchy.fields(cls), arguments.positional, strict=False)
        return dict(by_place) | arguments.named

    def identified_by_fields(self, cls: str, arguments: Arguments) -> tuple[tuple[str, Value], ...]:
        """The value that `identified` has for a dataclass or NamedTuple."""
        given = self.fields_given(cls, arguments)
        if arguments.unsure or len(given) > MAX_IDENTIFIED:
            return ()
        told = {name: value for name, value in given.items() if tells_apart(value)}
        # Of what is given and not known, the annotation may say more.
        return tuple(
            (name, join([value, self.declared_field(cls, name)]) if is_unknown(value) else value)
            for name, value in told.items()
        )

    def declared_field(self, cls: str, name: str) -> Value:
        """The value that the annotation of a field of a dataclass says, or its default."""
        infer = self.inference
        declaring = (
            each
            for each in infer.hierarchy.mro(cls)
            if name in infer.files[infer.classes[each].path].graph(each).bindings
        )
        return join(self.exchange.read(Key("name", each, name)) for each in declaring)


def by_place(
    params: Iterable[Param], positional: tuple[Param, ...], arguments: Arguments
) -> Iterator[tuple[str, Value]]:
    """The values that a call contributes by place to parameters, by their names.

    Args:
        positional: those of the parameters that can be given so.
    """
    given = arguments.positional
    yield from zip((p.name for p in positional), given, strict=False)
    rest = given[len(positional) :]
    for p in params if rest else ():
        if p.kind == "star":
            # Each at its place, so that `f(*args)` passes each parameter its own.
            yield (
                p.name,
                one(Sequence(None, join(rest)) if arguments.stars else Sequence(rest, BOTTOM)),
            )


def by_keyword(
    params: Iterable[Param], filled: Collection[str], arguments: Arguments
) -> Iterator[tuple[str, Value]]:
    """The values that a call contributes by keyword to parameters, by their names.

    Args:
        filled: the parameters that are given by place.
    """
    if not arguments.keywords:  # as in most calls
        return
    named = {p.name: p for p in params if p.kind in ("positional", "keyword")}
    rest = arguments.named
    for name in [name for name in rest if name in named]:
        yield name, rest.pop(name)
    further = arguments.keywords.get("**", BOTTOM)
    for name, p in named.items() if further else ():
        if not p.has_default and name not in filled and name not in arguments.keywords:
            yield name, further
    for p in params if rest or further else ():
        if p.kind == "starstar":
            mapping = MappingValue(further, tuple(sorted(rest.items())))
            yield (
                p.name,
                one(
                    mapping if len(rest) <= MAX_KEYS else MappingValue(any_value(mapping), (), True)
                ),
            )


def contexts_in(value: Value) -> Value:
    """The contexts of torch that a `with` may enter."""
    return frozenset(a for a in entered(value) if isinstance(a, Autocast | NoGrad))


def contexts_at(graph: Graph, end: Op) -> set[int]:
    """The contexts that are open where a `@contextmanager` yields, or where an `__enter__` returns.

    Args:
        end: the operation that does.
    """
    blocks = {node.block for node in graph.nodes if node.op == end}
    around = reachable(blocks, lambda n: (graph.blocks[n].parent,) if n else ())
    contexts = {graph.blocks[n].node for n in around if graph.blocks[n].kind == "with"}
    # What a `with` has entered is left where it returns.
    return contexts & entered_by_calls(graph) if end == ops.RETURN else contexts


def entered_by_calls(graph: Graph) -> set[int]:
    """The contexts that calls enter, instead of `with` statements."""
    methods = ((n, graph.nodes[n.operands[0]]) for n in graph.nodes if n.op == ops.CALL)
    return {
        node.argument(0) if method.data in STACKING else method.operands[0]
        for node, method in methods
        if method.op == ops.ATTR and method.data in STACKING | ENTERING
    }


def tells_apart(value: Value) -> bool:
    """Whether an instance is distinguished by having been given this: numbers and texts would
    distinguish what is alike."""
    return not any(isinstance(atom, Host) for atom in value)


def held(atom: Atom) -> Iterator[Atom]:
    """The values that lie in a container."""
    return (each for value in inner(atom) for each in ordered(value))


def joined(graph: Graph, number: int) -> tuple[int, ...]:
    """The nodes that a node is one of; none, where it is no join."""
    node = graph.nodes[number]
    return node.operands if node.op == ops.PHI else ()


def passed_on(state: State, number: int) -> tuple[int, ...]:
    """The nodes of which a node is one, be it in a wrapper. Ex) `model` of DataParallel(model)"""
    node = state.graph.nodes[number]
    if node.op == ops.NARROW:
        return node.operands[:1]
    if node.op == ops.CALL and node.argument(0) >= 0:
        callees = state.values[node.operands[0]]
        names = [transfer.canonical(a.name) for a in callees if isinstance(a, Symbol)]
        return (node.argument(0),) if any(n in libraries.MODULE_WRAPPERS for n in names) else ()
    return joined(state.graph, number)


def is_vague(atom: Atom) -> bool:
    """Whether this is unknown, or a container of what is."""
    if isinstance(atom, Sequence):
        return is_open(atom.element)
    if isinstance(atom, MappingValue):
        return any(map(is_open, inner(atom)))
    return isinstance(atom, Unknown)


def is_named(atom: Atom) -> bool:
    """Whether this is a dict all of whose items are known by their names."""
    return isinstance(atom, MappingValue) and not atom.rest and not atom.crowded


def makes_context(atom: Atom) -> bool:
    """Whether this is autocast by one of its names, or what `functools.partial` has made of it."""
    if isinstance(atom, Symbol):
        return transfer.canonical(atom.name) in libraries.AUTOCASTS
    return isinstance(atom, Autocast)


def is_made_of_arguments(atom: Atom) -> bool:
    """Whether a function that returns this may give another one to each call of it."""
    return isinstance(atom, Autocast) or (isinstance(atom, Instance) and bool(atom.given))


def is_executor(atom: Atom) -> bool:
    return isinstance(atom, Object) and atom.kind == "executor"


def unpacked(value: Value | None) -> Arguments:
    """The arguments that a tuple holds."""
    given = only(value or BOTTOM)
    items = given.items if isinstance(given, Sequence) else None
    return Arguments(items or (), stars=items is None)


def is_module_on_device(atom: Atom) -> bool:
    return isinstance(atom, Object) and atom.kind == "module" and atom.device.kind == ACCELERATOR


def is_of_cpu(value: Value) -> bool:
    """Whether a value is a tensor that is on the CPU."""
    atom = only(value)
    return isinstance(atom, Tensor) and atom.device.kind == "cpu"


def several(callees: Value) -> bool:
    """Whether a call has more callees than a value keeps apart: those of a table."""
    return sum(isinstance(a, Function) and a.bound is None for a in callees) > MAX_ALTERNATIVES


def by_name(arguments: Arguments) -> Arguments:
    """The arguments of a call that may mean any function of a table: a name says which parameter is
    meant, whatever the function; what is given by position is for one of the functions alone."""
    unsaid = (BOTTOM,) * len(arguments.positional)
    return replace(arguments, positional=unsaid, keywords=arguments.named)
