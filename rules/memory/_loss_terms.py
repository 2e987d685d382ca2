"""Which values are terms of losses that are backpropagated, and which have a part in one.

A term is what a loss is the sum of, in the function that backpropagates it, or in one that returns
it to where that is done. A factor is none: a loss is weighted with what has no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amplint.analyses.backward_reach import Backpropagations
from amplint.facts.callers import Callers
from amplint.facts.fact import Fact, NodeFact, Required
from amplint.inference import Inference
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.flow import JOINS, SUMS
from amplint.knowledge.operations import OF_IT_ALONE
from amplint.util.positions import Place
from amplint.util.walks import Solver
from amplint.values.atoms import Evidence, Shows, Tensor

# A function, a node of it, and whether that is a tensor by now: a number cannot be backpropagated.
Question = tuple[str, int, bool]


class LossTerms(NodeFact[Evidence]):
    """Where the loss is backpropagated that a node is a term of."""

    sentence = "{it} is a part of a loss"

    _callers = Required(Callers)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._why: Solver[Question, Evidence | None] = Solver(self._find_why, None)

    def of(self, at: NodePlace) -> Evidence | None:
        state = self.inference.states.get(at.function)
        value = state.values[at.node] if state is not None else None
        is_tensor = any(isinstance(atom, Tensor) for atom in value or ())
        return self._why((at.function, at.node, is_tensor))

    def _find_why(
        self, question: Question, ask: Callable[[Question], Evidence | None]
    ) -> Evidence | None:
        function, number, is_tensor = question
        marks = self.inference.uses.marks_of(function)
        kind = marks.nodes.get(number)
        if number in marks.backward and (kind == "term" or (kind == "loss" and is_tensor)):
            node = marks.graph.nodes[marks.backward[number]]
            path = self.inference.functions[function].path
            return Evidence(Place(path, *node.location), "backpropagated here", Shows.BACKWARD)
        reasons = [ask(each) for each in self._results(question)]
        return next((each for each in reasons if each is not None), None)

    def _results(self, question: Question) -> Iterator[Question]:
        """The nodes that have the value of a node, a sum with it, or what a method makes of it
        alone, such as its average; in the callers as well."""
        function, number, is_tensor = question
        state = self.inference.states.get(function)
        if state is None:
            return
        for user in state.users[number]:
            node = state.graph.nodes[user]
            adds = node.operator in SUMS
            if adds or node.op in JOINS or node.op == ops.RETURN:
                yield function, user, is_tensor or adds
            elif node.op == ops.ATTR and node.data in OF_IT_ALONE:
                yield from ((function, each, True) for each in state.users[user])
        if number in state.graph.returns:
            yield from ((*site, is_tensor) for site in self._callers.sites.get(function, ()))


class BackpropagatedValues(NodeFact[Evidence]):
    """Where what an expression holds, or is computed of, goes through a backward pass, here or in
    the function that has returned it: its graph is still there."""

    sentence = "{it} goes through a backward pass"

    _backpropagations = Required(Backpropagations)

    def of(self, at: NodePlace) -> Evidence | None:
        return self._backpropagations.evidence(at.function, at.node)
