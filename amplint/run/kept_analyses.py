"""The analyses of parts in the cache. Each holds until something changes that it depends on, except
that code moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from amplint.facts.limits import Limited
from amplint.inference.incremental.moves import rows_moved
from amplint.ir.file_set import QUESTIONS
from amplint.project import observations
from amplint.project.reading import Reading
from amplint.run import cache as caching
from amplint.run.analysis import Analysed, Task
from amplint.run.carrying import MovedText, NotCarriedError, carried, carried_rows
from amplint.run.file_result import FileResult
from amplint.run.public_functions import Offered
from amplint.run.request import Request
from amplint.util.text import Text


@dataclass(frozen=True)
class TextQuestion:
    """A question that an analysis asked of the texts of other files: see `file_set.QUESTIONS`.

    Args:
        kind: the question.
        about: the word or the pattern in it.
        yes, no: those files, by their numbers among all others, for which it is so, or is not.
    """

    kind: str
    about: str
    yes: tuple[int, ...]
    no: tuple[int, ...]


@dataclass(frozen=True)
class KeptAnalysis:
    """The analysis of one part, as it is kept.

    Args:
        texts: of the files of the part.
        digests: of these, and of those that it has used.
        others: of all files besides, by path, in their order.
        questions: what was asked of these.
        seen: what was said of the part's files.
        unread: those of them that could not be read.
        limited: their functions that reached a limit.
        offered: their functions that users are assumed to call under a mode.
    """

    texts: dict[str, str]
    digests: dict[str, str]
    others: dict[str, str]
    questions: tuple[TextQuestion, ...]
    seen: dict[str, FileResult]
    unread: frozenset[str]
    limited: Limited
    offered: Offered


@dataclass
class KeptAnalyses:
    """The analyses of parts in the cache."""

    task: Task
    request: Request
    reading: Reading
    valid: dict[tuple[str, ...], KeptAnalysis] = field(default_factory=dict)

    def key(self, part: tuple[str, ...]) -> str:
        codes = [rule.code for rule in self.task.rules]
        settings = self.task.project.settings
        rules = [
            codes,
            caching.outside_rules(),
            settings.presumes(self.task.is_second),
            settings.texts_of_models,
        ]
        digest = observations.digest_of(self.task.observed)
        return caching.key_of(
            "part",
            caching.environment(),
            rules,
            self.task.stated,
            digest,
            part,
            list(self.task.texts),
        )

    def recall(self, part: tuple[str, ...]) -> Analysed | None:
        cache = self.request.cache
        entry = cache.get_packed(self.key(part), KeptAnalysis) if cache is not None else None
        try:
            analysis = self.now(entry) if entry is not None else None
        except NotCarriedError:
            return None
        if analysis is None:
            return None
        self.valid[part] = analysis
        if not analysis.seen.keys() | analysis.unread >= self.task.project.reported & set(part):
            return None
        return Analysed(
            analysis.seen,
            unread=analysis.unread,
            limited=analysis.limited,
            offered=analysis.offered,
        )

    def now(self, analysis: KeptAnalysis) -> KeptAnalysis | None:
        """The analysis with code where it stands now; None where more has changed that it depends
        on. Raises NotCarriedError."""
        changed = [p for p, digest in analysis.digests.items() if self.reading.digest(p) != digest]
        texts = {path: self.task.texts[path] for path in changed if path in analysis.texts}
        if len(texts) < len(changed) or not self.answers_alike(analysis):
            return None
        moved = {
            path: MovedText(Text(analysis.texts[path]), now, rows)
            for path, now in texts.items()
            for rows in [rows_moved(analysis.texts[path], now.text)]
            if rows is not None and Text(analysis.texts[path]).newline == now.newline
        }
        if len(moved) < len(changed) or (moved and self.task.observed):
            return None  # a run has observed the function with its comments
        seen = {path: carried(result, moved) for path, result in analysis.seen.items()}
        return replace(analysis, seen=seen, offered=carried_rows(analysis.offered, moved))

    def answers_alike(self, analysis: KeptAnalysis) -> bool:
        """Whether the texts of all other files have the answers that they had."""
        others = list(analysis.others)
        changed = {path for path in others if self.reading.digest(path) != analysis.others[path]}
        return all(
            QUESTIONS[question.kind](self.task.texts[others[number]].text, question.about) is answer
            for question in analysis.questions if changed
            for answer, numbers in ((True, question.yes), (False, question.no))
            for number in numbers
            if others[number] in changed
        )  # fmt: skip

    def keep(self, part: tuple[str, ...], result: Analysed) -> None:
        request = self.request
        # A text that is on no disk is not seen again, unless it is to be written.
        cache = request.cache if request.lasting or not request.overlays else None
        if cache is None or result.problems or any(one.problems for one in result.results.values()):
            return
        before = self.valid[part].seen if part in self.valid else {}
        used = {*part, *result.used}
        others = [path for path in self.task.texts if path not in used]
        numbers = {path: number for number, path in enumerate(others)}
        questions = [
            TextQuestion(kind, about, *numbered(answers, numbers))
            for (kind, about), answers in result.answers.items()
        ]
        texts = self.task.texts
        analysis = KeptAnalysis(
            {path: texts[path].text for path in part},
            {path: self.reading.digest(path) for path in sorted(used)},
            {path: self.reading.digest(path) for path in others},
            tuple(questions),
            {**before, **result.results},
            result.unread,
            result.limited,
            result.offered,
        )
        cache.put_packed({self.key(part): analysis})


def numbered(
    answers: Mapping[str, bool], numbers: Mapping[str, int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The files for which it is so, and those for which it is not, by their numbers."""
    by_answer: dict[bool, list[int]] = {True: [], False: []}
    for path, answer in answers.items():
        if path in numbers:
            by_answer[answer].append(numbers[path])
    return tuple(by_answer[True]), tuple(by_answer[False])
