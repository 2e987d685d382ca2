"""The findings in single files, kept with what they rest on.

Link finds out what an edit changes; who is to be judged again shows when the rules' questions about
a file are asked again: see `facts/recorded_questions.py`. Files with the same answers are not
parsed, and not shown to the rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from amplint.facts.recorded_questions import Asked
from amplint.findings.finding import Finding
from amplint.rule.rule import Rule
from amplint.rule.search import Rows
from amplint.run.cache import key_of
from amplint.run.indexing import IndexStore, environment_digest


class Judgement(msgspec.Struct, array_like=True):
    """The findings in one file.

    Args:
        digest: of the file.
        rows: its candidates.
        questions: all that the rules have asked about the project.
        findings, notices: as in `FileResult`.
    """

    digest: str
    rows: Rows
    questions: list[Asked]
    findings: tuple[Finding, ...]
    notices: tuple[str, ...]


class KeptJudgements(msgspec.Struct, array_like=True):
    """The judgements of some rules, by path."""

    environment: str
    judgements: dict[str, Judgement]


@dataclass
class Judgements:
    """The judgements of rules in the cache.

    Args:
        store: the cache, and the digests of files.
        rules: all that judge.
        project: the directory of the project, as seen from where the cache is.
        with_observations: whether it is the analysis with those: what the other one keeps stays.
    """

    store: IndexStore
    rules: Sequence[Rule]
    project: str
    with_observations: bool = False

    @property
    def are_kept(self) -> bool:
        """Whether what is found now is kept: not of texts that are on no disk."""
        return not self.store.is_read_only

    def recall(self, path: str, rows: Rows) -> Judgement | None:
        """The findings in a file, if it has not changed, and neither have its candidates."""
        entry = self._judgements.get(path)
        if entry is None or entry.digest != self.store.digest_of(path) or entry.rows != rows:
            return None
        return entry

    def keep(self, new: Mapping[str, Judgement], existing: Collection[str]) -> None:
        """Keep what was found, beside what is known of the other files of the project."""
        if not self.are_kept or not new:
            return
        judgements = {path: one for path, one in self._judgements.items() if path in existing}
        self.store.cache.put_packed(
            {self.key_of("judge"): KeptJudgements(environment_digest(), {**judgements, **new})}
        )

    def key_of(self, *kind: str) -> str:
        """The key of what is kept of these rules, of a kind."""
        codes = sorted(rule.code for rule in self.rules)
        return key_of(*kind, self.project, codes, self.with_observations)

    @cached_property
    def _judgements(self) -> dict[str, Judgement]:
        entry = self.store.cache.get_packed(self.key_of("judge"), KeptJudgements)
        if entry is None or entry.environment != environment_digest():
            return {}
        return entry.judgements


def judgements_of(
    store: IndexStore | None, rules: Sequence[Rule], project: str, with_observations: bool
) -> Judgements | None:
    """Where findings are kept; None where that is not possible. Rules that other packages bring may
    rest on what they do not ask amplint for."""
    if store is None or any(rule.package for rule in rules):
        return None
    return Judgements(store, rules, project, with_observations)
