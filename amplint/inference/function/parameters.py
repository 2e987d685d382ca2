"""The values of parameters: what calls give, and what is known where none is seen."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from amplint.frameworks.schema import Role
from amplint.inference import transfer
from amplint.inference.function.activations import layers_given
from amplint.inference.function.annotations import annotated
from amplint.inference.function.binding import ArgumentBinding
from amplint.inference.function.frame import Frame, FramePart
from amplint.inference.state import Key
from amplint.ir.model import Node, Param
from amplint.knowledge import libraries
from amplint.knowledge.operations import INDEX_ARGUMENTS
from amplint.knowledge.vocabulary import PLACES_OF_BATCHES, TRAINING_METHODS, TRAINING_STEPS
from amplint.project.modes import IS_FLOAT32, IS_HALF
from amplint.values.atoms import (
    BOTTOM,
    NONE,
    NUMBER_KINDS,
    UNKNOWN,
    Atom,
    Class,
    Device,
    Host,
    Instance,
    Object,
    Sequence,
    Shows,
    Tensor,
    TensorTree,
    Unknown,
    Value,
    constant,
    one,
    ordered,
)
from amplint.values.atoms import Mapping as MappingValue
from amplint.values.lattice import is_unknown, join, known, only

FLOAT = one(Host("float"))
MOVING = frozenset({"to", "cuda"})


class ParameterValues(FramePart):
    """The parameters of one function.

    Args:
        binding: knows the defaults of parameters.
    """

    def __init__(self, frame: Frame, binding: ArgumentBinding) -> None:
        super().__init__(frame)
        self.binding = binding

    def value(self, node: Node) -> Value:
        """The value of a parameter: that of its calls, or what is known where none is seen; of the
        dtype that the settings assume of inputs, where nothing else is known of it."""
        return self.with_assumed_dtype(node, self.seen_value(node))

    def seen_value(self, node: Node) -> Value:
        """The value of a parameter without what the settings assume."""
        facts, name = self.facts, node.data
        annotation = self.frame.of(node.operands[0]) if node.operands else UNKNOWN
        if facts.kind == "class":
            return annotated(annotation, Device(None), self.frame.models)
        parameter = facts.param(name)
        assert parameter is not None
        first = parameter is facts.params[0]
        if first and facts.cls is not None and facts.takes_receiver:
            is_class = "classmethod" in facts.decorated or facts.name == "__new__"
            return one(Class(facts.cls) if is_class else Instance(facts.cls))
        if parameter.kind == "star":
            argument = self.access.read(Key("param", facts.id, name))
            return argument or one(Sequence(None, self.gradients(node) or UNKNOWN))
        if parameter.kind == "starstar":
            return self.access.read(Key("param", facts.id, name)) or one(MappingValue(UNKNOWN))
        # A call that leaves it out has the default among what is given. Where each passes something
        # else, no call in sight runs with the default.
        argument = self.access.read(Key("param", facts.id, name))
        if not argument and parameter.has_default and not parameter.constant_default:
            argument = self.binding.default_of(facts.id, parameter)
        default = self.binding.constant_default(parameter)
        value = argument or default
        atoms = known(value)
        # Callers that nobody sees may pass anything; what is seen is what a finding rests on.
        declared = (
            UNKNOWN
            if self.frame.number in self.frame.marks.copied
            else annotated(annotation, Device(None), self.frame.models)
        )
        if any(a != NONE and a not in default for a in atoms):
            atoms = self.as_declared(declared, atoms)
            return (
                transfer.used_as_tensor(atoms)
                if self.frame.number in self.frame.marks.with_attributes
                else atoms
            )
        hot = self.hot_parameter(node, parameter.has_default, declared)
        if hot is not None:
            return join([hot, one(NONE)]) if NONE in default else hot
        rest = default if default <= value else BOTTOM
        if declared == FLOAT and isinstance(usual := only(rest), Host) and usual.kind == "float":
            return one(replace(usual, known=False))
        if not is_unknown(declared):
            return join([declared, rest])
        is_told = argument or any(isinstance(a, Host) and a.kind in NUMBER_KINDS for a in default)
        return join([UNKNOWN, rest]) if is_told else UNKNOWN

    def hot_parameter(self, node: Node, has_default: bool, declared: Value) -> Value | None:
        """A `forward` parameter that is used as a tensor is one, on the accelerator."""
        facts = self.facts
        role = self.inference.hierarchy.autograd_role(facts.id)
        if role is not None:
            return self.function_parameter(node, role)
        hook = constant(self.access.read(Key("hook", facts.id)))
        if isinstance(hook, str):
            return self.hook_parameter(node, hook)
        if facts.cls is None:
            return None
        model = self.inference.hierarchy.model_of_method(facts)
        if model is not None and model.parameters:
            place = [p.name for p in facts.params].index(node.data) - 1
            role = model.role(node.data, place)
            what = f"`{node.data}` is a parameter of `{facts.name}`"
            value = self.frame.of_role(role, node, what) if role is not None else None
            return self.as_declared(declared, value) if value is not None else None
        step = facts.name == "training_step" or (
            # Of another engine: one that moves nothing is given what has been moved.
            facts.name in TRAINING_STEPS and node.data == "batch" and not facts.words & MOVING
        )
        if not step and not (
            facts.name in TRAINING_METHODS and self.inference.hierarchy.is_module(facts.cls)
        ):
            return None
        text = f"`{node.data}` is a parameter of `{facts.name}`"
        device = self.frame.usual_device(node, text)
        if step:
            is_data = node.data == "batch" or (
                not has_default and node.data not in PLACES_OF_BATCHES
            )
            return one(TensorTree(device)) if is_data else None
        if any(isinstance(a, Tensor) for a in declared):
            return join(
                one(replace(a, device=device)) if isinstance(a, Tensor) else one(a)
                for a in declared
            )
        if not is_unknown(declared) or self.frame.number in self.frame.marks.lengths:
            return None
        if has_number(next(p for p in facts.params if p.name == node.data)):
            return None
        if self.frame.number in self.frame.marks.tensors:
            return one(Tensor(device=device, rank=1))
        return one(TensorTree(device))

    def with_assumed_dtype(self, node: Node, value: Value) -> Value:
        """The value of a parameter that takes floating-point numbers of callers out of sight, with
        the dtype that the settings assume of these.

        Args:
            value: what is known of it in any case. A `FloatTensor` is one of any width.
        """
        parameter = self.facts.param(node.data)
        is_number = parameter is None or has_number(parameter)
        unseen = self.inference.unseen
        dtype = None if is_number else unseen.dtype_of_input(self.facts.id, node.data)
        (atom, *others) = [a for a in ordered(value) if a != NONE] or [Unknown()]
        if dtype is None or others:
            return value
        if any(map(self.takes_indices, layers_given(self.graph, self.frame.number))):
            return value
        if isinstance(atom, TensorTree | Unknown):
            device = atom.device if isinstance(atom, TensorTree) else Device(None)
            atom = Tensor(device=device, rank=1)
        if not isinstance(atom, Tensor) or atom.dtype not in (None, "float32"):
            return value
        is_made = atom.grad is False  # as a test makes its inputs
        if atom.dtype and not is_made and self.access.read(Key("param", self.facts.id, node.data)):
            return value  # all who are seen to call it cast to float32, as people mend it
        region = unseen.presumption.region
        half = IS_HALF if region is not None else f"is {dtype} here, as the module is"
        kind = IS_FLOAT32 if dtype == "float32" else half
        evidence = self.frame.evidence(node, f"`{node.data}` {kind}", Shows.ACTIVATION)
        return one(replace(atom, dtype=dtype, dtype_evidence=evidence)) | (value & {NONE})

    def takes_indices(self, field: str) -> bool:
        """Whether a field of `self` is a table that is read by indices. Ex) nn.Embedding"""
        cls = self.facts.cls
        modules = self.access.read(Key("field", cls, field)) if cls is not None else BOTTOM
        return any(isinstance(atom, Object) and atom.type in INDEX_ARGUMENTS for atom in modules)

    def as_declared(self, declared: Value, value: Value) -> Value:
        """The value that is passed; of a nest, or a module of unknown class, what the annotation
        says that it is."""
        tensors = [a for a in declared if isinstance(a, Tensor)]
        instances = [a for a in declared if isinstance(a, Instance)]
        atoms: set[Atom] = set()
        for atom in value:
            if isinstance(atom, TensorTree) and tensors:
                atoms.update(replace(a, device=atom.device) for a in tensors)
            elif is_some_module(atom) and instances:
                atoms.update(instances)
            else:
                atoms.add(atom)
        return frozenset(atoms)

    def hook_parameter(self, node: Node, hook: str) -> Value | None:
        """The value that torch passes to a function that is registered as a hook."""
        roles = dict(zip(self.facts.places, libraries.HOOKS[hook], strict=False))
        if node.data not in roles:
            return None
        return self.frame.of_role(
            cast(Role, roles[node.data]), node, f"`{hook}` makes torch pass this"
        )

    def function_parameter(self, node: Node, role: str) -> Value | None:
        """The value that autograd passes to a forward or a backward pass, if used as a tensor."""
        facts = self.facts
        # `forward` is given numbers as well, and gradients are all that `backward` is given.
        used = {"forward": self.frame.marks.surely_tensors, "backward": self.frame.marks.tensors}
        is_context = facts.cls is not None and node.data == facts.params[0].name
        if is_context or self.frame.number not in used.get(role, ()):
            return None
        owner = "a Function's" if facts.cls is not None else "an operator's"
        text = f"`{node.data}` is a parameter of {owner} `{role}`"
        return one(Tensor(device=self.frame.usual_device(node, text), rank=1))

    def gradients(self, node: Node) -> Value | None:
        """The `*gradients` of a backward pass."""
        if self.inference.hierarchy.autograd_role(self.facts.id) != "backward":
            return None
        return self.function_parameter(node, "backward")


def has_number(parameter: Param) -> bool:
    """Whether a parameter is a number, by its default: that of a tensor is None."""
    is_none = parameter.constant_default and parameter.default is None
    return parameter.has_default and not is_none


def is_some_module(atom: Atom) -> bool:
    """Ex) what `.to(device)` is called on, and nothing else is known of"""
    return isinstance(atom, Object) and (atom.kind, atom.type) == ("module", "?")
