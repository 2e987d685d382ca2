"""The arguments of a call, and the parameters of the function that it runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from amplint.inference import transfer
from amplint.inference.function.frame import FramePart
from amplint.inference.state import Key
from amplint.ir import ops
from amplint.ir.model import CallShape, Graph, Node, Param
from amplint.values.atoms import (
    BOTTOM,
    NONE,
    Arguments,
    Atom,
    Function,
    Host,
    Instance,
    Sequence,
    TensorTree,
    Value,
    one,
    ordered,
)
from amplint.values.atoms import Mapping as MappingValue
from amplint.values.lattice import MAX_KEYS, any_value, is_unknown, join, only

MAX_IDENTIFIED = 16  # parameters of a constructor by whose arguments instances are kept apart


class ArgumentBinding(FramePart):
    """The arguments of calls, and the functions that are entered with them: the call edge, the
    region, and the parameters that the arguments are bound to."""

    def default_of(self, function: str, parameter: Param) -> Value:
        """The value of a parameter in a call that leaves it out."""
        if parameter.constant_default or not parameter.has_default:
            return self.constant_default(parameter)
        return self.access.read(Key("default", function, parameter.name))

    def constant_default(self, parameter: Param) -> Value:
        default = parameter.default
        if not parameter.constant_default:
            return BOTTOM
        if default is None:
            return one(NONE)
        if isinstance(default, bool | int | float | str):
            return one(Host(type(default).__name__, default, True))
        return BOTTOM

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
        names = filled | arguments.keywords.keys()
        missing = any(not p.has_default and p.name not in names for p in by_name)
        strange = not arguments.keywords.keys() <= {p.name for p in by_name}
        return not missing and not (strange and "starstar" not in kinds)

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
        values = self.by_parameter(Function(makers[0], Instance(str(facts.cls))), arguments)
        return tuple(
            (p.name, values[p.name])
            for p in facts.params
            if p.name in values
            and tells_apart(values[p.name])
            and not (p.annotated and is_unknown(values[p.name]))  # the annotation knows more
        )

    def by_parameter(self, function: Function, arguments: Arguments) -> dict[str, Value]:
        """The parameters of a function as a call fills them, constant defaults included."""
        facts = self.inference.functions[function.id]
        filled = {p.name: self.constant_default(p) for p in facts.params if p.constant_default}
        if not arguments.stars:
            names = [p.name for p in self.open_places(function)]
            filled |= dict(zip(names, arguments.positional, strict=False))
        return filled | arguments.named

    def enter(
        self, identity: str, node: Node, arguments: Arguments | None, bound: Atom | None
    ) -> None:
        """Record that the call may run the function, and under which autocast state."""
        self.access.calls.edges.setdefault(self.frame.here, set()).add(identity)
        self.access.write_region(
            identity, self.frame.here, self.frame.regions.of_call(node, identity)
        )
        self.access.need(identity)
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
        names = filled | arguments.keywords.keys() | function.given_names
        left_out = [p for p in params if p.has_default and p.name not in names]
        contributed += ((p.name, self.default_of(facts.id, p)) for p in left_out)
        for name, value in contributed:
            self.access.write(Key("param", facts.id, name), self.frame.here, value)

    def is_bound(self, function: Function) -> bool:
        """Whether a function is a method that has its receiver."""
        return function.bound is not None and self.inference.functions[function.id].takes_receiver

    def open_places(self, function: Function) -> tuple[Param, ...]:
        """The parameters that a call can give by place: without the receiver that a method has, and
        what `functools.partial` has given."""
        positional = self.inference.functions[function.id].positional
        return positional[self.is_bound(function) + function.first :]

    def fill_fields(self, cls: str, arguments: Arguments) -> None:
        """A dataclass or NamedTuple: its fields are what the call passes, in order."""
        site = self.frame.here
        for name, value in self.fields_given(cls, arguments).items():
            self.access.write(Key("field", cls, name), site, value)
            self.access.write(Key("kept", cls, name), site, one(Host("str", name, True)))

    def fields_given(self, cls: str, arguments: Arguments) -> dict[str, Value]:
        """The values that a call passes for the fields of a dataclass or NamedTuple."""
        infer = self.inference
        if not infer.hierarchy.is_dataclass(cls):
            return {}
        by_place = zip(infer.hierarchy.fields(cls), arguments.positional, strict=False)
        return dict(by_place) | arguments.named

    def identified_by_fields(self, cls: str, arguments: Arguments) -> tuple[tuple[str, Value], ...]:
        """The value that `identified` has for a dataclass or NamedTuple."""
        values = self.fields_given(cls, arguments)
        if arguments.unsure or len(values) > MAX_IDENTIFIED:
            return ()
        distinct = {name: value for name, value in values.items() if tells_apart(value)}
        # Of what is given and not known, the annotation may say more.
        return tuple(
            (name, join([value, self.declared_field(cls, name)]) if is_unknown(value) else value)
            for name, value in distinct.items()
        )

    def declared_field(self, cls: str, name: str) -> Value:
        """The value that the annotation of a field of a dataclass says, or its default."""
        infer = self.inference
        declaring = (
            each
            for each in infer.hierarchy.mro(cls)
            if name in infer.files[infer.classes[each].path].graph(each).bindings
        )
        return join(self.access.read(Key("name", each, name)) for each in declaring)


def by_place(
    params: Iterable[Param], positional: tuple[Param, ...], arguments: Arguments
) -> Iterator[tuple[str, Value]]:
    """The values that a call contributes by place to parameters, by their names.

    Args:
        positional: those of the parameters that can be given so.
    """
    values = arguments.positional
    yield from zip((p.name for p in positional), values, strict=False)
    rest = values[len(positional) :]
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


def tells_apart(value: Value) -> bool:
    """Whether an instance is distinguished by having been given this: numbers and texts would
    distinguish what is alike."""
    return not any(isinstance(atom, Host) for atom in value)


def is_named(atom: Atom) -> bool:
    """Whether this is a dict all of whose items are known by their names."""
    return isinstance(atom, MappingValue) and not atom.rest and not atom.crowded
