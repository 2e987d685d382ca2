"""Rules: a claim about training code, and the checks that find where it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amplint.findings.declaration import Declaration
from amplint.findings.finding import Finding
from amplint.rule.conditions import Candidates

if TYPE_CHECKING:  # a run from the cache imports rules, and no analysis
    from amplint.view.view import View

Judge = Callable[["View"], Iterator[Finding]]


@dataclass(frozen=True)
class Check:
    """A check: the nodes of the value graph that it is about, and what it says of each."""

    condition: Candidates
    judge: Judge


@dataclass(frozen=True)
class Rule(Declaration):
    """A claim with its checks.

    Args:
        checks: filled in by `on`.
    """

    checks: list[Check] = field(default_factory=list, compare=False, repr=False)

    def on(self, condition: Candidates) -> Callable[[Judge], Judge]:
        """Register a check of the nodes that meet a condition: `check(at: View)`.

        The check is a generator of findings. It holds no state between nodes, prints nothing and
        changes nothing. It is run on the value graph first, and again with the code of the file
        where it came to a finding, or asked how something is written (`amplint.view.view`).
        """

        def register(judge: Judge) -> Judge:
            self.checks.append(Check(condition, judge))
            return judge

        return register
