"""The attributes and calls in one function, as models of frameworks know them."""

from __future__ import annotations

from amplint.frameworks.models import UNSURE, ChosenPrecision
from amplint.frameworks.schema import Wrapper
from amplint.inference import transfer
from amplint.inference.function.frame import FramePart
from amplint.inference.state import Key
from amplint.inference.whole_program.class_hierarchy import NOT_ASKED, NOT_SEEN
from amplint.ir import ops
from amplint.ir.flow import method_called
from amplint.ir.model import CallShape, Node
from amplint.knowledge import libraries
from amplint.values.atoms import (
    BOTTOM,
    Arguments,
    Class,
    Function,
    Host,
    Instance,
    Method,
    Object,
    Symbol,
    Tensor,
    Value,
    one,
    ordered,
)
from amplint.values.lattice import join


class FrameworkCalls(FramePart):
    """The values that frameworks pass to one function, and what its calls ask of them."""

    def attribute(self, instance: Instance, name: str, node: Node) -> Value | None:
        """The value of an attribute that a framework sets, or a method of it that users call."""
        classes = self.inference.hierarchy.models_of(instance.cls)
        role = next((row.attributes[name] for row in classes if name in row.attributes), None)
        if role is not None:
            return self.frame.of_role(role, node, f"`{name}` of a framework")
        method = self.frame.models.method(classes, name)
        is_called = method is not None and method.gives is not None
        return one(Method(instance, name)) if is_called else None

    def attribute_of_object(self, thing: Object, name: str, node: Node) -> Value | None:
        """The value of an attribute of an object that a framework's own call built."""
        role = self.frame.models.attribute_of_object(thing.kind, thing.type, name)
        if role is None or (role == "device" and thing.device.kind is not None):
            return None
        return self.frame.of_role(role, node, f"`{name}` of a framework")

    def given_by(self, method: Method, node: Node) -> Value | None:
        """The value that a method of a framework returns to the code that calls it."""
        assert isinstance(method.of, Instance)
        row = self.frame.models.method(
            self.inference.hierarchy.models_of(method.of.cls), method.name
        )
        gives = row.gives if row is not None else None
        return self.frame.of_role(gives, node, f"`{method.name}` returns this") if gives else None

    def note_precision(self, name: str, arguments: Arguments) -> None:
        """`Trainer(precision="16-mixed")`: the region that a framework opens around methods."""
        precision = transfer.precision_asked(name, arguments, self.frame.models)
        if precision is not None:
            self.ask_framework(precision.framework, precision.dtype)

    def ask_framework(self, framework: str, dtype: str | None) -> None:
        site = self.frame.here
        self.access.write(Key("precision", framework), site, text(dtype or ""))

    def note_runner(self, name: str, arguments: Arguments, node: Node) -> None:
        """`Trainer(model, ...)`: a framework runs the `forward` of a module that it is given."""
        for row in self.frame.models.wrappers(name):
            if row.method is not None:
                continue
            argument = arguments.get(row.argument, row.position) or BOTTOM
            if row.told_by is None:
                precision = transfer.precision_asked(name, arguments, self.frame.models)
            else:
                named = node.argument(None, row.told_by)
                several = map(self.told_by, node.positional if named < 0 else [named])
                precision = next(filter(None, several), None)
            self.note_run(self.modules_from(argument) if row.made else argument, row, precision)

    def note_run(self, modules: Value, row: Wrapper, precision: ChosenPrecision | None) -> None:
        """A framework is given modules to run, and a precision for them."""
        framework = self.frame.models.framework_of(row)
        for atom in ordered(modules):
            if isinstance(atom, Instance) and self.inference.hierarchy.is_module(atom.cls):
                forward = self.inference.hierarchy.methods(atom.cls, "forward", overridden=False)
                site = self.frame.here
                for each in forward if row.method is None else ():
                    self.access.write(Key("runner", each), site, text(framework))
                for each in {
                    *forward,
                    *self.inference.hierarchy.run_in_region(atom.cls, framework),
                }:
                    self.access.write(Key("trainer", each), site, text(precision_of(precision)))

    def modules_from(self, makers: Value) -> Value:
        """The modules that functions make, or classes that are called in their place."""
        modules: list[Value] = []
        for atom in ordered(makers):
            if isinstance(atom, Function):
                self.access.need(atom.id)
                modules.append(self.access.read(Key("return", atom.id)))
            elif isinstance(atom, Class):
                modules.append(one(Instance(atom.id)))
        return join(modules)

    def note_method(self, node: Node) -> None:
        """`Trainer(precision="16-mixed").fit(model)`, `Learner(data, model).to_fp16()`: what is
        asked of a framework by a method of what a call in this function has built."""
        method, receiver = method_called(self.graph, node)
        if method not in self.frame.models.telling:
            return
        number = self.built_by(receiver)
        while number >= 0:
            built = self.graph.nodes[number]
            for name in self.names_called(built):
                self.note_asked(name, method, built)
                for row in self.frame.models.wrappers(name):
                    if row.method == method:
                        at = node.argument(row.position, row.argument)
                        precision = self.told_by(number)
                        self.note_run(self.frame.of(at) if at >= 0 else BOTTOM, row, precision)
            # `Learner(data, model).to_fp16().to_bf16()` asks the learner.
            name, owner = method_called(self.graph, built)
            number = self.built_by(owner) if name in self.frame.models.asking else -1

    def note_asked(self, name: str, method: str, built: Node) -> None:
        """A method that asks a framework for a precision, of what a call of a name has built."""
        row = self.frame.models.method(self.frame.models.classes([name]), method)
        if row is None or row.asks is None:
            return
        framework = self.frame.models.framework_of(row)
        self.ask_framework(framework, row.asks)
        for wrapper in self.frame.models.wrappers(name):
            module = built.argument(wrapper.position, wrapper.argument)
            if module >= 0:
                self.note_run(self.frame.of(module), wrapper, ChosenPrecision(framework, row.asks))

    def built_by(self, number: int) -> int:
        """The call in this function that has built what a node holds; -1 where none is seen."""
        number = self.graph.narrowed(number)
        return number if self.graph.nodes[number].op == ops.CALL else -1

    def names_called(self, call: Node) -> list[str]:
        """The names of libraries that a call may mean, those of a class of the project included."""
        names: list[str] = []
        for atom in ordered(self.frame.of(call.operands[0])):
            if isinstance(atom, Symbol):
                names.append(atom.name)
            elif isinstance(atom, Class):
                names += sorted(self.inference.hierarchy.library_bases(atom.id))
        return names

    def told_by(self, number: int) -> ChosenPrecision | None:
        """The precision that a call in this function asks for, of which a node holds the result;
        None where it is not seen.

        Only what is written in the call counts, which no other function can change.
        """
        number = self.built_by(number)
        if number < 0:
            return None
        call = self.graph.nodes[number]

        def option(argument: str, position: int | None) -> object:
            at = call.argument(position, argument)
            if at < 0:
                return None
            return constant_of(self.graph.nodes[at])

        shape: CallShape = call.data
        names = self.names_called(call)
        if len(names) != 1 or shape.leading < shape.positional or "**" in shape.keywords:
            return None
        precision = self.frame.models.precision(names[0], option)
        if precision is None and self.frame.models.takes_precision(names[0]):
            return ChosenPrecision("", NOT_ASKED)
        return precision if precision is not None and precision.sure else None

    def note_made(self, cls: str, arguments: Arguments, node: Node) -> None:
        """An instance of a class is made: where the class derives from one of a framework, the
        precision and the modules that its constructor takes are noted."""
        for name in sorted(self.inference.hierarchy.library_bases(cls)):
            self.note_precision(name, arguments)
            self.note_runner(name, arguments, node)

    def note_hook(self, node: Node, arguments: Arguments) -> None:
        """`layer.register_forward_hook(f)`: torch runs f in each forward pass. What a function
        registers and removes again is there for the few passes between: to calibrate, to count."""
        method, receiver = method_called(self.graph, node)
        if method not in libraries.HOOKS:
            return
        if "remove" in self.facts.words:
            return
        owner = self.frame.of(receiver)
        if method in libraries.HOOKS_OF_TENSORS and not any(
            isinstance(atom, Tensor) for atom in owner
        ):
            return
        site = self.frame.here
        for atom in ordered(arguments.get("hook", 0) or BOTTOM):
            if isinstance(atom, Function) and not atom.first:
                self.access.write(Key("hook", atom.id), site, one(Host("str", method, True)))
                self.access.need(atom.id)


def text(constant: str) -> Value:
    return one(Host("str", constant, True))


def precision_of(precision: ChosenPrecision | None) -> str:
    """The precision of one trainer, as it is kept."""
    return NOT_SEEN if precision is None else precision.dtype or ""


def constant_of(node: Node) -> object:
    """The constant that a node is; None for None, and UNSURE for what is none."""
    return node.data if node.op == ops.CONST else UNSURE
