"""The parameters of a project's functions that take floating-point numbers, by what these do with
them and whom they hand them on to.

A public function mostly hands its inputs on. Whom it calls is looked up by name alone, among all
functions of modules, since it is asked before values are known; those of a name have to agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

from amplint.inference.function.activations import floats_taken
from amplint.ir.file_set import Files
from amplint.ir.model import FunctionFacts
from amplint.util.walks import Solver

Names = frozenset[str]  # of parameters


class FloatInputs:
    """The parameters of the functions of some files that take floating-point numbers.

    Args:
        files: of the project.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._names: Solver[str, Names] = Solver(self._solve, frozenset())

    def of(self, function: FunctionFacts) -> Names:
        """The names of those parameters of a function."""
        return self._names(function.id)

    def table(self) -> Iterator[tuple[str, ...]]:
        """All functions of the files, each with those of its parameters. An edit that changes it
        changes values in functions that read nothing of what was edited."""
        for function in self._functions():
            yield function.id, *sorted(self.of(function))

    def _functions(self) -> Iterator[FunctionFacts]:
        for path in sorted(self._files.own):
            # A graph adds the lambdas in it to the functions of the file.
            for function in list(self._files.own[path].facts.functions.values()):
                if function.kind == "function":
                    yield function

    @cached_property
    def _by_name(self) -> dict[str, list[FunctionFacts]]:
        """The functions of modules by name."""
        by_name: dict[str, list[FunctionFacts]] = {}
        for function in self._functions():
            if function.parent == self._files.own[function.path].facts.module:
                by_name.setdefault(function.name, []).append(function)
        return by_name

    def _solve(self, identity: str, ask: Callable[[str], Names]) -> Names:
        def take(name: str, place: int | str) -> bool:
            functions = self._by_name.get(name, ())
            answers = [parameter_at(each, place) in ask(each.id) for each in functions]
            return bool(answers) and all(answers)

        graph = self._files[identity.partition("::")[0]].graph(identity)
        return frozenset(graph.nodes[number].data for number in floats_taken(graph, take))


def parameter_at(function: FunctionFacts, place: int | str) -> str:
    """The parameter that a call fills by a place, or keyword; "" where there is none."""
    if isinstance(place, str):
        return place
    return function.places[place] if place < len(function.places) else ""
