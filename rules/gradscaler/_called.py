"""Whether a call in sight may run the function of a place."""

from __future__ import annotations

from amplint.facts.callers import Callers
from amplint.facts.fact import PlaceFact, Required
from amplint.ir.ast_cache import NodePlace


class CalledInSight(PlaceFact[bool]):
    """Whether some call of the project may run the function of a place."""

    sentence = "a call in sight runs this"

    _callers = Required(Callers)

    def of(self, at: NodePlace) -> bool | None:
        return bool(self._callers.sites.get(at.function)) or None
