"""Which calls may run a function."""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection

from amplint.facts.fact import Fact
from amplint.inference import Inference, SiteId
from amplint.inference.incremental.continuation import FixpointEdit


class Callers(Fact):
    """The calls of each function, in the order of their places in the call graph.

    `sites`: by the id of a function, the calls that may run it.
    """

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        self.sites: dict[str, list[SiteId]] = {}
        self._called: dict[str, set[str]] = {}  # by function: those that its calls may run
        for site, callees in sorted(inference.calls.edges.items()):
            self._called.setdefault(site[0], set()).update(callees)
            for callee in sorted(callees):
                self.sites.setdefault(callee, []).append(site)

    def follow(self, inference: Inference, edit: FixpointEdit) -> bool:
        self.inference = inference
        self._forget(edit.functions)
        for function in edit.functions & inference.states.keys():
            self._note(function)
        return True

    def _forget(self, functions: Collection[str]) -> None:
        """Forget the calls in some functions."""
        callees = {callee for function in functions for callee in self._called.pop(function, ())}
        for callee in callees:
            remaining = [site for site in self.sites[callee] if site[0] not in functions]
            if remaining:
                self.sites[callee] = remaining
            else:
                del self.sites[callee]

    def _note(self, function: str) -> None:
        """Note the calls in a function."""
        for number in range(len(self.inference.states[function].graph.nodes)):
            for callee in self.inference.calls.edges.get((function, number), ()):
                insort(self.sites.setdefault(callee, []), (function, number))
                self._called.setdefault(function, set()).add(callee)
