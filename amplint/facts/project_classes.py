"""Facts about classes of the project, by their ids or by the values that they make."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.facts.fact import Fact
from amplint.inference import State
from amplint.ir import flow, ops
from amplint.values.atoms import (
    MODULE_KINDS,
    NONE,
    Atom,
    Class,
    Instance,
    Object,
    Super,
    Symbol,
    Value,
    one,
)

ELEMENTS = frozenset({"items", "values", "get"})
MOVING = frozenset({"_apply", "to", "cuda", "cpu"})


class Classes(Fact):
    """The bases of classes and what they make a class be."""

    def library_bases(self, cls: str) -> frozenset[str]:
        """The library classes that a class derives from."""
        return frozenset(self.inference.hierarchy.library_bases(cls))

    def around(self, function: str) -> str | None:
        """The id of the innermost class around the code of a function, by its id."""
        functions = self.inference.functions
        facts = functions.get(function)
        while facts is not None and facts.kind != "class":
            facts = functions.get(facts.parent) if facts.parent is not None else None
        return facts.id if facts is not None else None

    def bases_of(self, value: Value) -> frozenset[str]:
        """The library classes that the classes and instances in a value derive from."""
        return frozenset(
            name
            for atom in value
            if isinstance(atom, Class | Instance)
            for name in self.inference.hierarchy.library_bases(
                atom.id if isinstance(atom, Class) else atom.cls
            )
        )

    def inherited(self, value: Value, method: str) -> frozenset[str]:
        """The library classes that the instances in a value, or what `super()` stands for, may have
        a method from: all that a class of the project derives from which does not define it, nor
        does a base of the project."""
        return frozenset(
            name
            for atom in value
            if isinstance(atom, Instance | Super) and not self._defines(atom, method)
            for name in self.inference.hierarchy.library_bases(atom.cls)
        )

    def _defines(self, of: Instance | Super, method: str) -> bool:
        """Whether a class of the project does; of `super()`, one above its own."""
        above = self.inference.hierarchy.mro(of.cls)[isinstance(of, Super) :]
        return any(method in self.inference.classes[each].methods for each in above)

    def is_module(self, value: Value) -> bool:
        """Whether a value, None aside, is a module of torch: one of a library, or an instance of a
        class of the project that derives from one, or that is mixed into one."""
        atoms = value - {NONE}
        return bool(atoms) and all(map(self._is_module, atoms))

    def _is_module(self, atom: Atom) -> bool:
        if not isinstance(atom, Instance):
            return isinstance(atom, Object) and atom.kind in MODULE_KINDS
        hierarchy = self.inference.hierarchy
        return any(map(hierarchy.is_module, (atom.cls, *hierarchy.subclasses(atom.cls))))

    def family_mentions(self, cls: str, word: str) -> bool:
        """Whether a class, one of the project that it derives from, or one that derives from it,
        holds an identifier."""
        family = (*self.inference.hierarchy.mro(cls), *self.inference.hierarchy.subclasses(cls))
        return any(word in self.inference.functions[each].words for each in family)

    def only_reads(self, cls: str, field: str) -> bool:
        """Whether methods of a class read what is in a collection that its constructor keeps, and
        none changes the collection, or says how the object is moved.

        Methods of the project's classes above and below it count.
        """
        family = (*self.inference.hierarchy.mro(cls), *self.inference.hierarchy.subclasses(cls))
        if any(MOVING & self.inference.classes[each].methods.keys() for each in family):
            return False
        uses = [use for each in family for use in self._uses(each, field)]
        return bool(uses) and all(uses)

    def _uses(self, cls: str, field: str) -> Iterator[bool]:
        """Of the uses of a collection in the methods of a class but its constructor: whether each
        only takes from it. How many are in it is no use."""
        methods = self.inference.classes[cls].methods
        for function in (f for name in methods if name != "__init__" for f in methods[name]):
            if field not in self.inference.functions[function].words:
                continue
            state = self.inference.states.get(function)
            if state is None or field in state.graph.stores:
                yield False
                continue
            for number, node in enumerate(state.graph.nodes):
                if node.op == ops.ATTR and node.data == field:
                    users = (user for user in state.users[number] if not counts(state, user))
                    yield from (takes(state, number, user) for user in users)


def takes(state: State, number: int, user: int) -> bool:
    """Whether a use of a collection takes something out of it, and leaves it as it is."""
    node = state.graph.nodes[user]
    if node.op == ops.ATTR:
        return node.data in ELEMENTS
    is_given = node.op == ops.CALL and number in node.arguments
    return is_given or node.op in flow.ELEMENTS or node.op in (ops.STARRED, ops.RETURN)


def counts(state: State, user: int) -> bool:
    """Ex) len(self.grids)"""
    node = state.graph.nodes[user]
    return node.op == ops.CALL and state.values[node.operands[0]] == one(Symbol("builtins.len"))
