"""Which values are terms of losses that are backpropagated.

A term is what a loss is the sum of, in the function that backpropagates it, or in one that returns
it to where that is done. A factor is none: a loss is weighted with what has no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amplint.analyses.callers import Callers
from amplint.analyses.fact import Fact, NodeFact, Required
from amplint.core.values import Evidence, Place, Shows
from amplint.core.walks import Solver
from amplint.inference import Inference
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace

JOINING = frozenset({ops.NARROW, ops.PHI, ops.RETURN})
SUMS = frozenset({"Add", "Sub"})
Question = tuple[str, int, bool]  # a function, a node of it, and whether that is a sum by now


class LossTerms(NodeFact[Evidence]):
    """Where the loss is backpropagated that a node is a term of."""

    _callers = Required(Callers)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._why: Solver[Question, Evidence | None] = Solver(self._find_why, None)

    def of(self, at: NodePlace) -> Evidence | None:
        return self._why((at.function, at.node, False))

    def _find_why(
        self, question: Question, ask: Callable[[Question], Evidence | None]
    ) -> Evidence | None:
        function, number, is_sum = question
        marks = self.inference.marks_of(function)
        kind = marks.nodes.get(number)
        if number in marks.backward and (kind == "term" or (kind == "loss" and is_sum)):
            node = marks.graph.nodes[marks.backward[number]]
            path = self.inference.functions[function].path
            return Evidence(Place(path, *node.location), "backpropagated here", Shows.BACKWARD)
        found = [ask(each) for each in self._results(question)]
        return next((each for each in found if each is not None), None)

    def _results(self, question: Question) -> Iterator[Question]:
        """The nodes that have the value of a node, or a sum with it; in the callers as well."""
        function, number, is_sum = question
        state = self.inference.states.get(function)
        if state is None:
            return
        for user in state.users[number]:
            node = state.graph.nodes[user]
            adds = node.op in (ops.BINOP, ops.AUG) and node.data in SUMS
            if adds or node.op in JOINING:
                yield function, user, is_sum or adds
        if number in state.graph.returns:
            yield from ((*site, is_sum) for site in self._callers.sites.get(function, ()))
