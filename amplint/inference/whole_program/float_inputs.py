"""The parameters of a project's functions that take floating-point numbers, by what these do with
them and whom they hand them on to.

A public function mostly hands its inputs on. Whom it calls is looked up by name alone, among all
functions of modules, since it is asked before values are known; those of a name have to agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from amplint.inference.function.activations import floats_taken
from amplint.ir.file_set import Files
from amplint.ir.model import FunctionFacts


class FloatInputs:
    """The parameters of the functions of some files that take floating-point numbers.

    Args:
        files: of the project.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._by_function: dict[str, frozenset[str]] = {}

    def of(self, function: FunctionFacts) -> frozenset[str]:
        """The names of those parameters of a function."""
        if function.id not in self._by_function:
            self._by_function[function.id] = frozenset()  # of functions that call each other
            graph = self._files[function.path].graph(function.id)
            names = (graph.nodes[number].data for number in floats_taken(graph, self._take))
            self._by_function[function.id] = frozenset(names)
        return self._by_function[function.id]

    @cached_property
    def _by_name(self) -> dict[str, list[FunctionFacts]]:
        """The functions of modules by name."""
        by_name: dict[str, list[FunctionFacts]] = {}
        for function in self._of_modules():
            by_name.setdefault(function.name, []).append(function)
        return by_name

    def _of_modules(self) -> Iterable[FunctionFacts]:
        for path in sorted(self._files.own):
            facts = self._files.own[path].facts
            yield from (f for f in facts.functions.values() if f.parent == facts.module)

    def _take(self, name: str, place: int | str) -> bool:
        """Whether the functions of a name take floating-point numbers by a place, or keyword."""
        functions = self._by_name.get(name, ())
        return bool(functions) and all(takes(self, function, place) for function in functions)


def takes(inputs: FloatInputs, function: FunctionFacts, place: int | str) -> bool:
    if isinstance(place, int):
        place = function.places[place] if place < len(function.places) else ""
    return place in inputs.of(function)
