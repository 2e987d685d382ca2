"""Attributes: what `x.a` is, of instances, classes, modules and objects of libraries."""

from __future__ import annotations

from dataclasses import replace

from amplint.inference import transfer
from amplint.inference.function.binding import ArgumentBinding
from amplint.inference.function.frame import Frame, FramePart
from amplint.inference.function.frameworks import FrameworkCalls
from amplint.inference.state import Key
from amplint.ir.flow import method_called
from amplint.ir.model import Node
from amplint.knowledge import libraries
from amplint.knowledge.factories import LEGACY_CONSTRUCTORS
from amplint.knowledge.modules import MODULES
from amplint.knowledge.operations import MEASURED
from amplint.values.atoms import (
    BOTTOM,
    NONE,
    UNKNOWN,
    Arguments,
    Atom,
    Class,
    Function,
    Instance,
    Method,
    Module,
    Object,
    Sequence,
    Shows,
    Super,
    Symbol,
    Tensor,
    Unknown,
    Value,
    constant,
    one,
)
from amplint.values.atoms import Mapping as MappingValue
from amplint.values.lattice import inner, is_open, join, only

MAX_SUBCLASSES = 24  # subclasses whose fields are taken for those of an instance of the base
OPTIMIZER_STATE = one(MappingValue(one(MappingValue(BOTTOM))))
SAVED = "saved_tensors"  # of the context of an autograd.Function
SAVES = "save_for_backward"
REGISTRIES = frozenset({"_buffers", "_parameters"})  # of a module
LEGACY_NAMES = frozenset(name.rpartition(".")[2] for name in LEGACY_CONSTRUCTORS)
# Methods of a module that change it in place and return it.
MODULE_CONVERSIONS = frozenset({"to", "half", "bfloat16", "float", "double", "cuda", "xpu"})
MODULE_METHODS = frozenset(
    """
    to cuda cpu xpu train eval requires_grad_ apply float half bfloat16 double parameters
    named_parameters buffers state_dict load_state_dict zero_grad modules named_modules
    children manual_backward log log_dict forward __call__ register_buffer
    """.split()
)


class AttributeReads(FramePart):
    """The attributes that one function reads.

    Args:
        binding: notes that the getters of properties run.
        frameworks: know the attributes that they set.
    """

    def __init__(self, frame: Frame, binding: ArgumentBinding, frameworks: FrameworkCalls) -> None:
        super().__init__(frame)
        self.binding = binding
        self.frameworks = frameworks

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
                    return self.access.read(Key("name", current, name))
            if name == "apply" and infer.hierarchy.is_autograd_function(atom.id):
                return one(Method(atom, name))
            return UNKNOWN
        if isinstance(atom, Module):
            value = infer.names.module_name(atom.path, name)
            return UNKNOWN if value is None else value
        if isinstance(atom, Object) and atom.kind == "options":
            # Others may have set it to something else: `args.world_size = ...`.
            return join([self.access.read(Key("option", "", name)), UNKNOWN])
        if isinstance(atom, Object):
            of_framework = self.frameworks.attribute_of_object(atom, name, node)
            if of_framework is not None:
                return of_framework
        if isinstance(atom, Unknown) and name == SAVED:
            return self.saved(node)
        if isinstance(atom, Unknown):
            if name in MEASURED:
                return join([UNKNOWN, self.frame.applied(transfer.attribute, node, Tensor(), name)])
            has_method = name in (
                MODULE_CONVERSIONS | LEGACY_NAMES
            ) or infer.hierarchy.module_methods(name)
            return one(Method(Unknown(), name)) if has_method else UNKNOWN
        if isinstance(atom, Symbol):
            dotted = f"{atom.name}.{name}"
            path = infer.names.modules.absolute(dotted, self.facts.path)
            return (
                one(Module(path))
                if path
                else self.frame.applied(transfer.attribute, node, atom, name)
            )
        return self.frame.applied(transfer.attribute, node, atom, name)

    def saved(self, node: Node) -> Value:
        """`ctx.saved_tensors`: on the device, except what `forward` is seen to save of the CPU."""
        device = self.frame.usual_device(node, "saved by `forward` for `backward`")
        presumed = one(Tensor(device=device))
        key = Key("field", self.facts.cls or "", SAVED)
        atom = only(self.access.read(key)) if self.facts.cls is not None else None
        if not isinstance(atom, Sequence) or atom.items is None:
            return one(Sequence(None, presumed))
        items = tuple(item if is_of_cpu(item) else presumed for item in atom.items)
        return one(Sequence(items, BOTTOM))

    def note_saved(self, arguments: Arguments, node: Node) -> None:
        """`ctx.save_for_backward(x, scale)`, of which `backward` has `ctx.saved_tensors`."""
        saves = method_called(self.graph, node)[0] == SAVES
        if saves and self.facts.cls is not None and not arguments.stars:
            site = self.frame.here
            key = Key("field", self.facts.cls, SAVED)
            self.access.write(key, site, one(Sequence(arguments.positional, BOTTOM)))

    def instance_attribute(self, instance: Instance, name: str, node: Node) -> Value:
        infer = self.inference
        ids = infer.hierarchy.methods(instance.cls, name)
        if ids:
            instance = replace(
                instance, inputs=()
            )  # a method knows nothing of what `self` was given
            results: list[Value] = []
            for identity in ids:
                decorated = infer.functions[identity].decorated
                if "property" in decorated or "cached_property" in decorated:
                    self.binding.enter(identity, node, Arguments(), instance)
                    results.append(self.access.read(Key("return", identity)))
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
        stored = join(self.access.read(Key("field", cls, name)) for cls in related)
        # `weight: Tensor` says less than what is stored; that of a dataclass is for its users, too.
        is_told = any(atom != NONE for atom in stored) and not any(map(is_vague, stored))
        bound = [c for c in related if infer.hierarchy.binds(c, name, is_told)]
        value = join([stored, *(self.access.read(Key("name", c, name)) for c in bound)])
        if value:
            if is_open(value):
                for cls in related:
                    if infer.uses.marks_of_class(cls).get(name):
                        return self.frame.mark_value(infer.uses.marks_of_class(cls)[name]) or value
            return self.cast_with_module(value, node)
        if name == "param_groups" and infer.hierarchy.is_optimizer(instance.cls):
            return transfer.PARAM_GROUPS
        if name == "state" and infer.hierarchy.is_optimizer(instance.cls):
            return OPTIMIZER_STATE
        if name == "device" and infer.hierarchy.is_module(instance.cls):
            return one(self.frame.usual_device(node, "the module's device"))
        if name in REGISTRIES and infer.hierarchy.is_module(instance.cls):
            device = self.frame.usual_device(node, "parameters and buffers of a module")
            return one(MappingValue(one(Tensor(device=device))))
        bases = infer.hierarchy.library_bases(instance.cls)
        if not bases:
            return UNKNOWN
        of_framework = self.frameworks.attribute(instance, name, node)
        if of_framework is not None:
            return of_framework
        if name in MODULE_METHODS:
            return one(Method(instance, name))
        # What torch's own layer stores, its subclasses have.
        layers = [Object("module", base) for base in sorted(bases) if base in MODULES]
        return transfer.object_attribute(layers[0], name) if len(layers) == 1 else UNKNOWN

    def cast_with_module(self, value: Value, node: Node) -> Value:
        """The value of a field; of a parameter, or a layer, in the dtype that callers have cast the
        module to, where the settings assume that."""
        dtype = self.inference.unseen.presumption.dtype_of_modules
        if dtype is None:
            return value
        evidence = self.frame.evidence(node, f"the module is {dtype} here", Shows.ACTIVATION)

        def cast(atom: Atom) -> Value:
            if isinstance(atom, Object) and atom.kind == "module":
                return one(replace(atom, dtype=atom.dtype or dtype))
            # A parameter of unknown dtype, as `torch.empty(n, **factory)`, is a floating one.
            if isinstance(atom, Tensor) and atom.grad and atom.dtype in ("float32", None):
                return one(replace(atom, dtype=dtype, dtype_evidence=evidence))
            return one(atom)

        return join(map(cast, value))

    def identified_field(self, instance: Instance, name: str) -> Value:
        """The value of a field in an instance that one call is known to have made, where the
        constructor stores a parameter in it: that, and what is stored in it elsewhere."""
        infer = self.inference
        makers = (
            infer.hierarchy.methods(instance.cls, "__init__", overridden=False)
            if instance.inputs
            else []
        )
        if not instance.inputs or len(makers) > 1:
            return BOTTOM
        # Of a dataclass, the constructor is generated.
        key = Key("kept", str(infer.functions[makers[0]].cls if makers else instance.cls), name)
        parameter = constant(self.access.read(key))
        argument = next((value for p, value in instance.inputs if p == parameter), None)
        if argument is None:
            return BOTTOM
        constructors = self.access.sites_of(key).keys()
        stored = [
            self.access.read_without(Key("field", cls, name), constructors)
            for cls in infer.hierarchy.mro(instance.cls)
        ]
        return join([argument, *stored])

    def decorated_method(self, identity: str, instance: Instance) -> Value:
        """The method bound to the instance, through decorators of the project."""
        infer = self.inference
        facts = infer.functions[identity]
        if set(facts.decorated) <= libraries.TRANSPARENT_DECORATORS or facts.cls is None:
            return one(Function(identity, instance))
        value = self.access.read(Key("name", facts.cls, facts.name))
        functions = [a for a in value if isinstance(a, Function)]
        if not functions:
            return one(Function(identity, instance))
        return frozenset(replace(a, bound=instance) for a in functions)


def is_vague(atom: Atom) -> bool:
    """Whether this is unknown, or a container of what is."""
    if isinstance(atom, Sequence):
        return is_open(atom.element)
    if isinstance(atom, MappingValue):
        return any(map(is_open, inner(atom)))
    return isinstance(atom, Unknown)


def is_of_cpu(value: Value) -> bool:
    """Whether a value is a tensor that is on the CPU."""
    atom = only(value)
    return isinstance(atom, Tensor) and atom.device.kind == "cpu"
