"""The evidence that functions and classes give about values by using them."""

from __future__ import annotations

from amplint.inference.project import use_evidence
from amplint.inference.project.definitions import Definitions


class UsesInProject:
    """The uses in the functions and classes of a project.

    Args:
        definitions: of the project.
    """

    def __init__(self, definitions: Definitions) -> None:
        self._files = definitions.files
        self._functions = definitions.functions
        self._classes = definitions.classes
        self._marks: dict[str, use_evidence.Marks] = {}
        self._class_marks: dict[str, dict[str, str]] = {}
        self._class_numbers: dict[str, frozenset[str]] = {}

    def marks_of(self, function: str) -> use_evidence.Marks:
        """The evidence that uses in a function give about its nodes."""
        if function not in self._marks:
            facts = self._functions[function]
            graph = self._files[facts.path].graph(function)
            returns_loss = facts.name in self._files.models.giving_losses
            self._marks[function] = use_evidence.read(graph, facts.name, returns_loss)
        return self._marks[function]

    def marks_of_class(self, cls: str) -> dict[str, str]:
        """The evidence that the methods of a class give about `self.<field>`, by field."""
        if cls not in self._class_marks:
            found: dict[str, str] = {}
            for ids in self._classes[cls].methods.values():
                for method in ids:
                    if self._functions[method].words & use_evidence.WORDS:
                        for path, kind in self.marks_of(method).paths.items():
                            if path.startswith("self."):
                                found[path[5:]] = kind
            self._class_marks[cls] = found
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
