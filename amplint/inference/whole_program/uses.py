"""The evidence that functions and classes give about values by using them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from amplint.inference.whole_program import use_evidence
from amplint.inference.whole_program.class_hierarchy import ClassHierarchy
from amplint.inference.whole_program.definitions import Definitions
from amplint.ir import ops
from amplint.ir.model import Node
from amplint.util.walks import reachable


class UsesInProject:
    """The uses in the functions and classes of a project.

    Args:
        definitions: of the project.
        hierarchy: says which methods a call by name runs.
    """

    def __init__(self, definitions: Definitions, hierarchy: ClassHierarchy) -> None:
        self._definitions = definitions
        self._files = definitions.files
        self._functions = definitions.functions
        self._classes = definitions.classes
        self._hierarchy = hierarchy
        self._marks: dict[str, use_evidence.Marks] = {}
        self._given_for_losses: dict[str, frozenset[int]] = {}
        self._backpropagates: dict[str, tuple[str, ...]] = {}
        self._class_marks: dict[str, dict[str, str]] = {}
        self._class_numbers: dict[str, frozenset[str]] = {}

    def marks_of(self, function: str) -> use_evidence.Marks:
        """The evidence that uses in a function give about its nodes."""
        if function not in self._marks:
            facts = self._functions[function]
            graph = self._files[facts.path].graph(function)
            returns_loss = (
                facts.name in self._files.models.giving_losses or function in self._returning_losses
            )
            self._marks[function] = use_evidence.read(graph, facts.name, returns_loss)
        return self._marks[function]

    def backpropagates(self, function: str) -> tuple[str, ...]:
        """The parameters of a function of which it runs the backward pass, by what it says."""
        if function not in self._backpropagates:
            facts = self._functions[function]
            parameters: list[str] = []
            if "backward" in facts.words:
                marks = self.marks_of(function)
                nodes = marks.graph.nodes
                losses = [n for n in marks.backward if marks.nodes[n] in ("loss", "term")]
                parameters = [nodes[n].data for n in losses if nodes[n].op == ops.PARAM]
            self._backpropagates[function] = tuple(sorted(parameters))
        return self._backpropagates[function]

    @cached_property
    def _returning_losses(self) -> frozenset[str]:
        """The methods of which another one of their class runs the backward pass of the result."""
        # A graph that is built here adds the lambdas in it to the functions.
        return frozenset(
            method
            for facts in [*self._definitions.own_functions()]
            if facts.cls is not None
            for name in self.methods_giving_losses(facts.id)
            for cls in (facts.cls, *self._hierarchy.subclasses(facts.cls))
            for method in self._classes[cls].methods.get(name, ())
        )

    def methods_giving_losses(self, function: str) -> list[str]:
        """The names of the methods of `self` of which a method backpropagates the result.

        Ex) compute of `loss = self.compute(batch)`, before `loss.backward()`
        """
        facts = self._functions[function]
        if facts.cls is None or "backward" not in facts.words:
            return []
        graph = self._files[facts.path].graph(function)
        return sorted(use_evidence.methods_giving_losses(graph))

    def given_for_losses(self, function: str) -> frozenset[int]:
        """The nodes of a function that it hands to another one which runs the backward pass of what
        it is given, and the terms of such sums."""
        if function not in self._given_for_losses:
            marks = self.marks_of(function)
            calls = (node for node in marks.graph.nodes if node.op == ops.CALL)
            arguments = [n for call in calls for n in self._taken_for_losses(function, marks, call)]
            self._given_for_losses[function] = frozenset(reachable(arguments, marks.addends))
        return self._given_for_losses[function]

    def _taken_for_losses(
        self, function: str, marks: use_evidence.Marks, call: Node
    ) -> Iterator[int]:
        """The arguments that what is called, by its name, backpropagates."""
        cls = self._functions[function].cls
        callee = marks.graph.nodes[call.operands[0]]
        ids: list[str] = []
        if callee.op == ops.NAME:
            ids = self._hierarchy.functions_called(callee.data)
        elif cls is not None and marks.path(call.operands[0]) == f"self.{callee.data}":
            ids = self._hierarchy.methods(cls, callee.data)
        if not ids or call.data.stars:
            return
        for at, number in enumerate(call.positional):
            if all(self._positional(f, at) in self.backpropagates(f) for f in ids):
                yield number
        for keyword, number in call.named:
            if all(keyword in self.backpropagates(f) for f in ids):
                yield number

    def _positional(self, function: str, at: int) -> str | None:
        """The parameter of a function, or of a method that is bound, that is given by place."""
        names = self._functions[function].places
        return names[at] if at < len(names) else None

    def marks_of_class(self, cls: str) -> dict[str, str]:
        """The evidence that the methods of a class give about `self.<field>`, by field."""
        if cls not in self._class_marks:
            kinds: dict[str, str] = {}
            for ids in self._classes[cls].methods.values():
                for method in ids:
                    if self._functions[method].words & use_evidence.WORDS:
                        for path, kind in self.marks_of(method).paths.items():
                            if path.startswith("self."):
                                kinds[path[5:]] = kind
            self._class_marks[cls] = kinds
        return self._class_marks[cls]

    def numbers_of_class(self, cls: str) -> frozenset[str]:
        """The fields that methods of a class use as only numbers can be, by their paths."""
        if cls not in self._class_numbers:
            methods = [method for ids in self._classes[cls].methods.values() for method in ids]
            paths = (path for method in methods for path in self.marks_of(method).number_paths)
            self._class_numbers[cls] = frozenset(
                path[5:] for path in paths if path.startswith("self.")
            )
        return self._class_numbers[cls]

    def forget_bases(self) -> None:
        """Drop all conclusions from the bases of classes, after these have changed."""
        self._given_for_losses.clear()
