"""Inspection of one line: what is known of it, and why the rules that are silent there say nothing.

The project is linked as for `check`, from nothing, and the file is shown to the rules once more;
what they ask about the nodes of the line, and the answers, are taken down. A rule stops at the
first answer that is not as its claim needs it: the last question of a rule that found nothing is
the condition that was lacking.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from amplint.analyses.hotness import Hotness
from amplint.facts.fact import Answer_co, Fact, Facts, Known, NodeFact
from amplint.facts.inference_results import Regions, Values
from amplint.facts.program import FileView, Link, Program
from amplint.findings.finding import Finding
from amplint.ir.ast_cache import NodePlace
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.project.reading import Reading
from amplint.rule.rule import Rule
from amplint.rule.search import Candidate, CandidateSearch, FileCandidates
from amplint.run import observation_findings
from amplint.run.analysis import deeply, index_part
from amplint.run.file_result import FileResult
from amplint.run.filtering import Filter
from amplint.run.judge import judge, lacking, source_of, views_of
from amplint.run.request import Request
from amplint.run.session import linker_of, part_with, without_collector
from amplint.util.errors import describe
from amplint.util.positions import Place, Span
from amplint.util.text import Text, span_in
from amplint.values.atoms import UNKNOWN, Heat, Region, Value
from amplint.view.view import FileCode


@dataclass(frozen=True)
class Expression:
    """An expression of the line.

    Args:
        text: as Python writes it.
        value: what is known of it.
        heat: the reason that it runs for every batch; None where it is cold, or nothing says that
            it is hot.
        region: the autocast region around it.
    """

    text: str
    value: Value
    heat: Heat | None
    region: Region | None


@dataclass(frozen=True)
class AskedQuestion:
    """A question of a rule, and its answer.

    Args:
        fact: what was asked for.
        about: the code that it was asked about; empty for the whole project.
        answer: None where nothing is known.
    """

    fact: type[Fact]
    about: str
    answer: object


@dataclass(frozen=True)
class RuleVerdict:
    """The verdict of a rule on the line.

    Args:
        rule: the rule.
        reported: its findings there, as the user is shown them.
        hidden: those that are not reported, each with the reason.
        about: where it found nothing: the node about which it asked most, as it is written.
        answers: those it got about that node, with the questions, in order, each once.
        lacking: in words, the conditions that keep it from looking at the line, or from reporting
            what it found.
        problem: why it failed.
        is_named: whether it is about calls of a name in the line, and not about calls of any.
    """

    rule: Rule
    reported: tuple[Finding, ...] = ()
    hidden: tuple[tuple[Finding, str], ...] = ()
    about: str = ""
    answers: tuple[AskedQuestion, ...] = ()
    lacking: tuple[str, ...] = ()
    problem: str = ""
    is_named: bool = False

    @property
    def is_silent(self) -> bool:
        """Whether it says nothing of the line."""
        return not (self.reported or self.hidden or self.problem)

    @property
    def says_something(self) -> bool:
        """Whether it reports, or there is a reason why not."""
        return bool(self.answers or self.lacking) or not self.is_silent


@dataclass(frozen=True)
class Inspection:
    """The knowledge about one line of a file.

    Args:
        path, row: which.
        line: its text.
        expressions: those that begin in it, from the left, the longer ones first.
        verdicts: of the rules that speak of what stands in the line, or were asked for.
        notices: what could not be looked at.
    """

    path: str
    row: int
    line: str
    expressions: tuple[Expression, ...] = ()
    verdicts: tuple[RuleVerdict, ...] = ()
    notices: tuple[str, ...] = ()


def inspect(
    request: Request, reading: Reading, path: str, row: int, rules: Sequence[Rule] = ()
) -> Inspection:
    """Say what is known of a line.

    Args:
        request: of the project that the file is in. What the cache has of earlier runs is used, and
            stays as it is; what runs of the program have shown is used as well.
        path: the file, as the project names it.
        row: the line in its text; of a notebook, in the text of all its cells.
        rules: those to explain; none for all that look at the line.

    Raises KeyError for a file without a text.
    """
    runs = observation_findings.observations_of(request)
    if runs.functions:
        request = observation_findings.with_observations(request, runs)
    mode = request.settings_of(path).mode
    if mode is not None and not mode.is_region:
        request = replace(request, is_second=True)  # the first analysis assumes nothing
    with without_collector():
        part, task = part_with(path, request, reading, request.rules)
        if task.store is not None:
            task = replace(task, store=replace(task.store, is_left=True))
        indexed = index_part(part, task)
        if path in indexed.unread:
            result = indexed.unread[path]
            notices = (*(finding.message for finding in result.findings), *result.problems)
            return Inspection(path, row, line_of(task.texts[path], row), notices=notices)
        reported = Filter(request, task.project, task.texts, task.rules)
        linker = linker_of(task) if len(part) == len(task.texts) else None
        link = linker.link if linker is not None else None
        return deeply(
            lambda: InspectedLine(path, row, indexed.files, reported, link).inspected(rules)
        )


def row_in(text: Text, *numbers: int) -> int | None:
    """The row of a text: of the file, or of a cell; None where there is none."""
    *cell, row = numbers
    if not cell:
        return row if 1 <= row <= text.rows else None
    for each in range(1, text.rows + 1):
        part = text.part(each)
        if part.cell == cell[0] and each - part.above == row:
            return each
    return None


def line_of(text: Text, row: int) -> str:
    """A line as it is written, where a notebook's magics are what they are in their cell."""
    part = text.part(row)
    return part.text.line(row - part.above)


class InspectedLine:
    """One line of a linked project.

    Args:
        path, row: which.
        files: the files of the project.
        project_filter: decides what is reported; knows the texts and all rules.
        link: returns the values of all functions; None to compute them.
    """

    def __init__(
        self, path: str, row: int, files: Files, project_filter: Filter, link: Link | None = None
    ) -> None:
        self.path = path
        self.row = row
        self._filter = project_filter
        self._rules = [rule for rule in project_filter.rules if rule.checks]
        self._text = project_filter.texts[path]
        self._file = files.own[path]
        self._program = Program(files, link=link)
        self._search = CandidateSearch(files, self._program.facts, self._rules)

    def inspected(self, rules: Sequence[Rule]) -> Inspection:
        """Say what is known of the line, and what these rules, else all, say of it."""
        verdicts = [self.verdict(rule, rule in rules) for rule in rules or self._rules]
        relevant = [each for each in verdicts if rules or each.says_something]
        view = self._program.about(self.path)
        return Inspection(
            self.path,
            self.row,
            line_of(self._text, self.row).strip(),
            tuple(expressions(view, self.row)),
            tuple(relevant),
            tuple(self._program.failures),
        )

    def verdict(self, rule: Rule, is_wanted: bool) -> RuleVerdict:
        """The verdict of a rule on the line. One that was asked for is shown the line even where
        it has no candidate."""
        findings = self._findings_of(rule)
        if findings:
            visible = [each for each in self._reported if each in findings]
            hidden = (each for each in findings if each not in visible)
            return RuleVerdict(
                rule, tuple(visible), tuple((each, self._hider(each)) for each in hidden)
            )
        looks = any(True for _ in self._candidates_of(rule))
        lacking = [] if looks else self._search.lacking(self.path, self.row, rule, is_wanted)
        conditions = tuple(dict.fromkeys(lacking))
        ways = (way for _, way, _ in self._search.about(self.path, self.row, rule))
        is_named = any(way.names is not None for way in ways)
        if not looks and not is_wanted:
            return RuleVerdict(rule, lacking=conditions, is_named=is_named)
        try:
            about, answers, withheld = self._farthest(rule)
        except Exception as error:
            return RuleVerdict(rule, problem=describe(error))
        reasons = (*conditions, *withheld)
        return RuleVerdict(rule, about=about, answers=answers, lacking=reasons, is_named=is_named)

    @cached_property
    def _candidates(self) -> FileCandidates:
        return self._search.of(self.path)

    def _candidates_of(self, rule: Rule) -> Iterator[Candidate]:
        """The nodes in the line that its checks are shown: all that meet the condition, whether or
        not anything may be found there."""
        for each in self._candidates.nodes:
            if each.code == rule.code and each.here.location[0] == self.row:
                yield each

    def _about(self, rule: Rule) -> Sequence[Candidate]:
        """The nodes in the line that its checks are about, whether or not these are shown them, in
        the order of the text."""
        about = (each for each, _, _ in self._search.about(self.path, self.row, rule))
        return sorted(about, key=lambda each: each.here.location[:2])

    @cached_property
    def _judged(self) -> tuple[Finding, ...]:
        """All findings in the file, whether they are reported or not."""
        facts, text = self._program.about(self.path), self._text
        judged = judge(self.path, text, facts, self._candidates, self._rules, self._span)
        return judged.findings

    @cached_property
    def _reported(self) -> Sequence[Finding]:
        """The findings in the file that the user is shown, as the rules have made them."""
        findings = self._filter.findings(self.path, FileResult(self._judged))
        places = {(each.code, each.span) for each in findings}
        return [each for each in self._judged if (each.code, each.span) in places]

    def _hider(self, finding: Finding) -> str:
        return self._filter.hider(self.path, finding, FileResult(self._judged))

    def _findings_of(self, rule: Rule) -> tuple[Finding, ...]:
        return tuple(
            finding
            for finding in self._judged
            if finding.code == rule.code and finding.span.start.row == self.row
        )

    def _farthest(self, rule: Rule) -> tuple[str, tuple[AskedQuestion, ...], Sequence[str]]:
        """The node of the line about which a rule asks most, and what: it stops at the first
        answer that does not do, so that it has come farthest there. And where it comes to a finding
        nevertheless: the condition without which that is not reported."""
        view = TracedView(self._file, self._program.facts)
        source = source_of(self.path, self._text, view, self._span)
        farthest: tuple[str, tuple[AskedQuestion, ...], Sequence[str]] = ("", (), ())
        for at, judges in views_of(self._about(rule), {rule.code: rule}, FileCode(source, view)):
            view.answers = {}
            withheld = [condition for finding in judges(at) if (condition := lacking(finding, at))]
            if view.answers and len(view.answers) >= len(farthest[1]):  # of two, what is inside
                farthest = at.brief, tuple(view.answers.values()), withheld[:1]
        return farthest

    def _span(self, place: Place) -> Span:
        return span_in(self._filter.texts.get(place.path), place)


class TracedView(FileView):
    """The facts about one file, with what is asked of them, in order.

    Attributes:
        answers: with the questions, each once, by the fact and what it was asked about.
    """

    def __init__(self, file: File, facts: Facts) -> None:
        super().__init__(file, facts)
        self.answers: dict[tuple[type[Fact], str], AskedQuestion] = {}

    def note(self, kind: type[Fact], about: str, answer: object) -> None:
        """Take down a question: one that is asked again is the last once more."""
        self.answers.pop((kind, about), None)
        self.answers[kind, about] = AskedQuestion(kind, about, answer)

    def fact(self, kind: type[Known]) -> Known:
        """A fact of the project, whose questions are taken down."""
        return cast(Known, TracedFact(self, kind, super().fact(kind)))

    def ask(self, kind: type[NodeFact[Answer_co]], node: ast.AST | NodePlace) -> Answer_co | None:
        """The answer of a fact about a node; None where nothing is known of it."""
        answer = super().ask(kind, node)
        self.note(kind, ast.unparse(node) if isinstance(node, ast.expr) else "", answer)
        return answer


class TracedFact:
    """A fact of the project whose questions are taken down."""

    def __init__(self, view: TracedView, kind: type[Fact], fact: Fact) -> None:
        self._view = view
        self._kind = kind
        self._of = fact

    def __getattr__(self, name: str) -> Any:
        answer = getattr(self._of, name)
        if not callable(answer):
            return answer

        def ask(*arguments: Any, **named: Any) -> Any:
            reply = answer(*arguments, **named)
            about = ", ".join(each for each in arguments if isinstance(each, str))
            self._view.note(self._kind, about, reply)
            return reply

        return ask


def expressions(view: FileView, row: int) -> Iterator[Expression]:
    """The expressions that begin in a line, each text once. A constant, or a name that is bound,
    says nothing."""
    here = [
        node
        for node in ast.walk(view.module)
        if isinstance(node, ast.expr) and node.lineno == row and not isinstance(node, ast.Constant)
        if not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
    ]
    texts: set[str] = set()
    for node in sorted(here, key=lambda node: (node.col_offset, -(node.end_col_offset or 0))):
        text = ast.unparse(node)
        if text not in texts and view.at(node) is not None:
            texts.add(text)
            value = view.ask(Values, node) or UNKNOWN
            yield Expression(text, value, view.ask(Hotness, node), view.ask(Regions, node))
