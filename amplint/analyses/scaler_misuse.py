"""What is wrong between a scaler and its optimizers, by call."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from amplint.analyses.fact import CallFact
from amplint.core.violations import Violation
from amplint.gradscaler.checker import Misuse, Misuses
from amplint.inference import Inference
from amplint.ir.ast_cache import Standing


class ScalerMisuse(CallFact[Sequence[Misuse]]):
    """What is wrong with a call on the paths of a training step with a scaler."""

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        self._misuses = Misuses(inference)

    def of(self, at: Standing) -> Sequence[Misuse]:
        return self._misuses.at(at.function, at.node)

    def in_file(self, path: str) -> Mapping[Violation, Collection[int]]:
        """By violation, the rows of the calls in a file that commit it."""
        return self._rows.get(path, {})

    @cached_property
    def _rows(self) -> Mapping[str, Mapping[Violation, Collection[int]]]:
        rows: dict[str, dict[Violation, set[int]]] = {}
        for violation, function, number in self._misuses.sites():
            path = self.inference.functions[function].path
            row = self.inference.states[function].graph.nodes[number].location[0]
            rows.setdefault(path, {}).setdefault(violation, set()).add(row)
        return rows
