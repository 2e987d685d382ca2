"""Facts about classes of the project, by their ids or by the values that they make."""

from __future__ import annotations

from amplint.analyses.fact import Fact
from amplint.values.atoms import Class, Instance, Super, Value


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
        """Whether a value is a torch module of the project, or what is mixed into one."""
        infer = self.inference
        classes = {atom.cls for atom in value if isinstance(atom, Instance)}
        return bool(classes) and all(
            infer.hierarchy.is_module(cls)
            or any(map(infer.hierarchy.is_module, infer.hierarchy.subclasses(cls)))
            for cls in classes
        )

    def family_mentions(self, cls: str, word: str) -> bool:
        """Whether a class, one of the project that it derives from, or one that derives from it,
        holds an identifier."""
        family = (*self.inference.hierarchy.mro(cls), *self.inference.hierarchy.subclasses(cls))
        return any(word in self.inference.functions[each].words for each in family)
