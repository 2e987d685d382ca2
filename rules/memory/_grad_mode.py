"""Whether gradients may be switched off where a node runs: by a context, a decorator, or a caller.

What is not known may switch them off: a context manager or a decorator of somebody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import cached_property

from amplint.facts.callers import Callers
from amplint.facts.fact import PlaceFact, Required
from amplint.ir.ast_cache import NodePlace
from amplint.util.walks import reachable
from amplint.values.atoms import Autocast

LEAVING = frozenset({"staticmethod", "classmethod", "property", "override", "abstractmethod"})


class GradSurelyOn(PlaceFact[bool]):
    """Whether gradients are on where a node runs, by what is around it and around its callers.

    The places where they may be off are found by one walk along the calls from there.
    """

    sentence = "gradients are on here"

    _callers = Required(Callers)

    def of(self, at: NodePlace) -> bool:
        return at.function not in self._off and not self._switches(at.function, at.block)

    @cached_property
    def _off(self) -> Set[str]:
        """The functions of which a call may run without gradients, and what they call."""
        called: dict[str, list[str]] = {}
        off = dict.fromkeys(self._without_gradients())
        for callee, sites in self._callers.sites.items():
            for caller, number in sites:
                called.setdefault(caller, []).append(callee)
                state = self.inference.states.get(caller)
                if state is None or self._switches(caller, state.graph.nodes[number].block):
                    off[callee] = None
        return set(reachable(off, lambda function: called.get(function, ())))

    def _without_gradients(self) -> Iterator[str]:
        """The methods that a framework calls without gradients."""
        for function in self.inference.states:
            method = self.inference.hierarchy.model_of_method(self.inference.functions[function])
            if method is not None and not method.gradients:
                yield function

    def _switches(self, function: str, block: int) -> bool:
        """Whether something may switch them off within a function, or around it as a decorator."""
        if not LEAVING.issuperset(self.inference.functions[function].decorated):
            return True
        state = self.inference.states[function]
        while block >= 0:
            facts = state.graph.blocks[block]
            if facts.kind == "with":
                context = state.values[facts.node]
                if not context or not all(isinstance(atom, Autocast) for atom in context):
                    return True
            block = facts.parent
        return False
