"""Which calls may run a function."""

from __future__ import annotations

from amplint.analyses.fact import Fact
from amplint.inference import Inference, SiteId
from amplint.inference.continuation import Edit


class Callers(Fact):
    """The calls of each function, in the order of their places in the call graph.

    `sites`: by the id of a function, the calls that may run it.
    """

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        self.sites: dict[str, list[SiteId]] = {}
        self._find()

    def follow(self, inference: Inference, edit: Edit) -> bool:
        self.inference = inference
        if edit.functions:
            self.sites.clear()
            self._find()
        return True

    def _find(self) -> None:
        for site, callees in sorted(self.inference.edges.items()):
            for callee in sorted(callees):
                self.sites.setdefault(callee, []).append(site)
