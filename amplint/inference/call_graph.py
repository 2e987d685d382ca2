"""The call graph: which functions each call may run."""

from __future__ import annotations

from amplint.inference.state import SiteId
from amplint.values.atoms import Atom


class CallGraph:
    """All that is known of each call, by its site.

    Attributes:
        edges: the functions that it runs.
        choices: the functions of which it may mean any one.
        threads: what it hands to another thread.
        off_flags: the flag that it declares, where that is off by default.
    """

    def __init__(self) -> None:
        self.edges: dict[SiteId, set[str]] = {}
        self.choices: dict[SiteId, set[str]] = {}
        self.threads: dict[SiteId, set[Atom]] = {}
        self.off_flags: dict[SiteId, str] = {}

    def forget(self, site: SiteId) -> bool:
        """Forget what is known of a call; returns whether it has handed something to a thread."""
        self.edges.pop(site, None)
        self.choices.pop(site, None)
        self.off_flags.pop(site, None)
        return bool(self.threads.pop(site, None))

    def forget_all_of(self, function: str) -> None:
        """Forget what is known of the calls in a function."""
        for site in {*self.edges, *self.choices, *self.threads, *self.off_flags}:
            if site[0] == function:
                self.forget(site)

    def sort(self) -> None:
        """Have a walk over all calls go in the same order, whatever the order of evaluation was."""
        edges = sorted(self.edges.items())
        self.edges.clear()
        self.edges.update(edges)
