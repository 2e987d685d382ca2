"""Frameworks that scale losses, and parameters whose gradients need it: of FSDP in float16."""

from __future__ import annotations

from amplint.analyses.provenance import Origins
from amplint.facts.fact import Fact, NodeFact, Required
from amplint.ir.ast_cache import NodePlace
from amplint.values.atoms import Evidence


class ShardedInFloat16(NodeFact[Evidence]):
    """Where FSDP is asked to compute in float16, of the parameters of the optimizer that an
    expression is."""

    sentence = "{it} holds parameters that FSDP has in float16"

    _origins = Required(Origins)

    def of(self, at: NodePlace) -> Evidence | None:
        return self._origins.sharded_in_float16(at.function, at.node)


class Frameworks(Fact):
    """The libraries of which there are models."""

    sentence = "a framework does this"

    def scaling(self) -> tuple[str, ...]:
        """The names by which those are imported that scale losses, if they are asked to."""
        return tuple(
            package
            for model in self.inference.files.models.models
            if any(row.scaled for row in (*model.precision, *model.settings))
            for package in model.packages
        )
