"""Which expressions are tensors in other calls of their function than those that make it hot.

def log(loss):
    print(loss.item())        # hot by the first call, a tensor by the second

for x in loader:
    step(model, x)
    log(progress.now())
log(loss)
"""

from __future__ import annotations

from amplint.analyses.hotness import Hotness
from amplint.facts.fact import NodeFact, Required
from amplint.facts.unknown_in_calls import is_unknown_in
from amplint.ir.ast_cache import NodePlace


class UnknownWhenHot(NodeFact[bool]):
    """Whether an expression is computed from parameters alone for which no call that makes the
    place hot passes anything known: that they are tensors is known from other calls.

    A finding rests on one real chain, and these are two.
    """

    sentence = "the calls that run once per batch pass nothing that is known for {it}"

    _hotness = Required(Hotness)

    def of(self, at: NodePlace) -> bool:
        calls = self._hotness.calls_behind(at)
        return bool(calls) and is_unknown_in(self.inference, calls, at.function, at.node)
