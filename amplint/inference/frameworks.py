"""The attributes and calls in one function, as models of frameworks know them."""

from __future__ import annotations

from amplint.core.values import (
    BOTTOM,
    Arguments,
    Function,
    Host,
    Instance,
    Method,
    Tensor,
    Value,
    one,
    ordered,
)
from amplint.inference import transfer
from amplint.inference.frame import Frame
from amplint.inference.state import Key
from amplint.ir import ops
from amplint.ir.model import Node
from amplint.knowledge import libraries


class OfFrameworks(Frame):
    """The values that frameworks give to one function, and what its calls tell them."""

    def attribute_of_framework(self, instance: Instance, name: str, node: Node) -> Value | None:
        """The value of an attribute that a framework sets, or a method of it that users call."""
        classes = self.inference.models_of(instance.cls)
        role = next((row.attributes[name] for row in classes if name in row.attributes), None)
        if role is not None:
            return self.of_role(role, node, f"`{name}` of a framework")
        method = self.models.method(classes, name)
        is_called = method is not None and method.gives is not None
        return one(Method(instance, name)) if is_called else None

    def given_by_framework(self, method: Method, node: Node) -> Value | None:
        """The value that a method of a framework gives to the code that calls it."""
        assert isinstance(method.of, Instance)
        row = self.models.method(self.inference.models_of(method.of.cls), method.name)
        gives = row.gives if row is not None else None
        return self.of_role(gives, node, f"`{method.name}` gives this") if gives else None

    def note_precision(self, name: str, arguments: Arguments) -> None:
        """`Trainer(precision="16-mixed")`: the region that a framework opens around methods."""
        chosen = transfer.precision_asked(name, arguments, self.models)
        if chosen is not None:
            dtype = Host("str", chosen.dtype or "", True)
            site = (self.facts.id, self.number)
            self.inference.write(Key("precision", chosen.framework), site, one(dtype))

    def note_runner(self, name: str, arguments: Arguments) -> None:
        """`Trainer(model, ...)`: a framework runs the `forward` of a module that it is given."""
        site = (self.facts.id, self.number)
        for row in self.models.wrappers(name):
            framework = one(Host("str", self.models.framework_of(row), True))
            for atom in ordered(arguments.get(row.argument, row.position) or BOTTOM):
                if isinstance(atom, Instance) and self.inference.is_module(atom.cls):
                    for each in self.inference.methods(atom.cls, "forward", overridden=False):
                        self.inference.write(Key("runner", each), site, framework)

    def note_made(self, cls: str, arguments: Arguments) -> None:
        """The same where the constructor of a class is called that derives from one of these."""
        for name in sorted(self.inference.library_bases(cls)):
            self.note_precision(name, arguments)
            self.note_runner(name, arguments)

    def note_hook(self, node: Node, arguments: Arguments) -> None:
        """`layer.register_forward_hook(f)`: torch runs f in each forward pass. What a function
        registers and removes again is there for the few passes between: to calibrate, to count."""
        callee = self.graph.nodes[node.operands[0]]
        if callee.op != ops.ATTR or callee.data not in libraries.HOOKS:
            return
        if "remove" in self.facts.words:
            return
        owner = self.of(callee.operands[0])
        if callee.data in libraries.HOOKS_OF_TENSORS and not any(
            isinstance(atom, Tensor) for atom in owner
        ):
            return
        site = (self.facts.id, self.number)
        for atom in ordered(arguments.get("hook", 0) or BOTTOM):
            if isinstance(atom, Function) and not atom.given:
                self.inference.write(
                    Key("hook", atom.id), site, one(Host("str", callee.data, True))
                )
                self.inference.need(atom.id)
