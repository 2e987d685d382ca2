"""Whether gradients may be switched off where a node runs: by a context, a decorator, or a caller.

What cannot be told may switch them off: a context manager or a decorator that nobody knows.
"""

from __future__ import annotations

from amplint.analyses.hotness import HeatMap
from amplint.core.values import Autocast

MAX_CALLERS = 100  # that are looked at for one place
LEAVING = frozenset({"staticmethod", "classmethod", "property", "override", "abstractmethod"})


class GradMode:
    """Looked up for one place after the other."""

    def __init__(self, heat: HeatMap) -> None:
        self._inference = heat.inference
        self._callers = heat.callers

    def may_be_off(self, function: str, block: int) -> bool:
        """Whether gradients may be off in a block of a function, however it is reached."""
        if self._switches(function, block):
            return True
        queue, seen = [function], {function}
        while queue:
            for caller, number in self._callers.get(queue.pop(), ()):
                state = self._inference.states.get(caller)
                if state is None or self._switches(caller, state.graph.nodes[number].block):
                    return True
                if caller not in seen:
                    seen.add(caller)
                    queue.append(caller)
            if len(seen) > MAX_CALLERS:
                return True
        return False

    def _switches(self, function: str, block: int) -> bool:
        """Whether something does within a function, or around it as a decorator."""
        if not LEAVING.issuperset(self._inference.functions[function].decorated):
            return True
        state = self._inference.states[function]
        while block >= 0:
            facts = state.graph.blocks[block]
            context = state.values[facts.node] if facts.kind == "with" else frozenset()
            known = bool(context) and all(isinstance(atom, Autocast) for atom in context)
            if facts.kind == "with" and not known:
                return True
            block = facts.parent
        return False
