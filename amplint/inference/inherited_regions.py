"""The autocast regions that functions inherit: those that some call of them stands in.

A call stands in the region that the function around it opens there, or else in the one that this
function inherits. So regions are the least solution of equations over the calls: a function that
only calls itself is in no region.

That every call had to stand in a region was tried first: one evaluation without autocast then
silenced what was found of a model that is trained with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amplint.inference.calls_in_regions import RegionsOfCallee
from amplint.inference.function.regions import opened_by, region_around, regions_of
from amplint.inference.inference import Inference
from amplint.inference.state import SiteId, State
from amplint.inference.training import run_outside
from amplint.values.atoms import Function, Region


def inherited(inference: Inference) -> Mapping[str, Region | None]:
    """The region that each function inherits, by the calls that are known now."""
    return Solution(inference).regions


class Solution:
    """The solution, found along the calls."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self.regions: dict[str, Region | None] = {}  # of those functions that are in one
        self._callees: dict[str, RegionsOfCallee] = {}  # by function: the calls in regions
        self._solve()

    def _solve(self) -> None:
        """Begin with no function in a region, except those of which one is presumed, and go from
        callers to callees until nothing changes. A function that is in no region, and opens none,
        puts none around what it calls."""
        by_function = self._inference.regions.of_functions
        outside = run_outside(self._inference)
        waiting: dict[str, None] = {}
        for function, state in self._inference.states.items():
            first = self._inference.unseen.region_in(function, None, function in outside)
            if first is not None:
                self.regions[function] = first
            if first is not None or self._opens(function, state):
                waiting[function] = None
        for calls in by_function.values():
            wrapping = (s for s, region in calls.sites.items() if region and region.wrapped)
            waiting.update((caller, None) for caller, _ in wrapping)
        while waiting:
            caller, _ = waiting.popitem()
            changed = {
                function
                for function, site, region in self._around_calls(caller)
                if self._callees.setdefault(function, RegionsOfCallee()).put(site, region)
            }
            for function in changed:
                around = self._callees[function].joined()
                joined = self._inference.unseen.region_in(function, around, function in outside)
                if self.regions.get(function) != joined:
                    self.regions[function] = joined
                    waiting[function] = None

    def _opens(self, function: str, state: State) -> bool:
        """Whether a function opens a region, around a part of its body or around all of it."""
        if any(opened_by(state.values[node]) is not None for node in state.graph.contexts):
            return True
        return self._around(function) is not None

    def _around(self, function: str) -> Region | None:
        """The region that decorators or a framework put around a function."""
        infer = self._inference
        return region_around(infer, infer.functions[function], infer.store.joined)

    def _around_calls(self, caller: str) -> Iterator[tuple[str, SiteId, Region | None]]:
        """The calls in a function: what is called, where, and in which region."""
        inference = self._inference
        state = inference.states.get(caller)
        if state is None:
            return
        regions = regions_of(inference, inference.functions[caller], state)
        regions.around = self._around(caller) or self.regions.get(caller)
        by_function = inference.regions.of_functions
        for number, node in enumerate(state.graph.nodes):
            site = caller, number
            for function in inference.calls.edges.get(site, ()):
                if function not in by_function or site not in by_function[function].sites:
                    continue  # a test, which says nothing of other code
                region = regions.of_call(node, function)
                # A thread begins in no region.
                handed_over = inference.calls.threads.get(site, ())
                threaded = any(isinstance(a, Function) and a.id == function for a in handed_over)
                yield function, site, None if threaded else region
