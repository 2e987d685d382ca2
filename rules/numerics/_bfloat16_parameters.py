"""Parameters of modules that are cast to bfloat16."""

from __future__ import annotations

from amplint.analyses.provenance import Origins
from amplint.facts.fact import NodeFact, Required
from amplint.ir.ast_cache import NodePlace
from amplint.values.atoms import Evidence


class BFloat16Parameters(NodeFact[Evidence]):
    """Where the module whose parameters a loop goes through is cast to bfloat16, by the parameter
    that an expression is."""

    sentence = "{it} is a bfloat16 parameter"

    _origins = Required(Origins)

    def of(self, at: NodePlace) -> Evidence | None:
        return self._origins.in_bfloat16(at.function, at.node)
