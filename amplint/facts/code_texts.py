"""Code of the project as text: all of it, one function, the functions that a call runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence, Set
from functools import cached_property

from amplint.facts.fact import CallFact, Fact, Required
from amplint.inference import Inference
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import FunctionFacts
from amplint.util.positions import Place

CALLS_DEEP = 3  # how far the texts of what a call runs are followed


class ProjectText(Fact):
    """The text of some file of the project."""

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        self._mentioned: dict[tuple[str, ...], bool] = {}

    def mentions(self, *words: str) -> bool:
        """Whether some file holds all these identifiers."""
        if words not in self._mentioned:
            self._mentioned[words] = any(self.inference.files.holding(*words))
        return self._mentioned[words]

    def matches(self, pattern: str, *words: str) -> bool:
        """Whether the regular expression matches a line of some file.

        Args:
            words: one of these stands in each line that matches, which is then found sooner.
        """
        return self.inference.texts.matches(pattern, *words)

    def is_called(self, *names: str) -> bool:
        """Whether code that is no test calls a function of one of these names."""
        return self.inference.texts.is_called(frozenset(names))

    def is_stored_from_outside(self, attribute: str) -> bool:
        """Whether some file assigns an attribute of that name to something other than `self`."""
        return self.inference.texts.is_stored_from_outside(attribute)


class FunctionTexts(Fact):
    """The functions around places, and their texts."""

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        self._functions: dict[str, list[FunctionFacts]] = {}  # by file, in their order

    def around(self, place: Place) -> str:
        """The text of the innermost function around a place, in whatever file."""
        return self.of(self.function(place))

    def function(self, place: Place) -> FunctionFacts:
        """The innermost function around a place, in whatever file."""
        functions = self.inference.files[place.path].facts.functions
        facts = self._last_before(place)
        while facts.parent is not None and facts.location[2] < place.row:
            facts = functions[facts.parent]
        return facts

    def _last_before(self, place: Place) -> FunctionFacts:
        """The last function of a file that begins no later than on the row of a place."""
        if place.path not in self._functions:
            facts = self.inference.files[place.path].facts
            inner = [each for each in facts.functions.values() if each.kind != "module"]
            ordered = sorted(inner, key=lambda each: each.location)
            self._functions[place.path] = [facts.functions[facts.module], *ordered]
        functions = self._functions[place.path]
        after = bisect_right(functions, place.row, lo=1, key=lambda each: each.location[0])
        return functions[after - 1]

    def of(self, facts: FunctionFacts) -> str:
        lines = self.inference.files[facts.path].lines
        if facts.kind == "module":
            return "\n".join(lines)
        return "\n".join(lines[facts.location[0] - 1 : facts.location[2]])


class CalledTexts(CallFact[Sequence[str]]):
    """The texts of the functions of the project that a call runs, a few calls deep, with the names
    of their decorators."""

    _texts = Required(FunctionTexts)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._by_callees: dict[tuple[str, ...], Sequence[str]] = {}

    def of(self, at: NodePlace) -> Sequence[str]:
        called = tuple(sorted(self.inference.calls.edges.get((at.function, at.node), ())))
        if called not in self._by_callees:
            self._by_callees[called] = [self._text(function) for function in self._reached(called)]
        return self._by_callees[called]

    def _reached(self, called: Sequence[str]) -> Sequence[str]:
        """Functions, and those that they call, a few calls deep."""
        reached = dict.fromkeys(called)
        new = list(called)
        for _ in range(CALLS_DEEP):
            deeper = {callee for caller in new for callee in self._callees.get(caller, ())}
            new = sorted(deeper - reached.keys())
            reached.update(dict.fromkeys(new))
        return list(reached)

    @cached_property
    def _callees(self) -> Mapping[str, Set[str]]:
        by_caller: dict[str, set[str]] = {}
        for (caller, _), callees in self.inference.calls.edges.items():
            if caller in self.inference.states:
                by_caller.setdefault(caller, set()).update(callees)
        return by_caller

    def _text(self, function: str) -> str:
        facts = self.inference.functions[function]
        return "\n".join([*facts.decorated, self._texts.of(facts)])
