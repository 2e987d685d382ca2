"""Which calls may run a function."""

from __future__ import annotations

from amplint.analyses.fact import Fact
from amplint.inference import Inference, SiteId


class Callers(Fact):
    """The calls of each function, in the order of their places in the call graph.

    `sites`: by the id of a function, the calls that may run it.
    """

    is_movable = True

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        self.sites: dict[str, list[SiteId]] = {}
        for site, callees in sorted(inference.edges.items()):
            for callee in sorted(callees):
                self.sites.setdefault(callee, []).append(site)
