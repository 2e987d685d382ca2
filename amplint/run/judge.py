"""Judging one file: each segment with candidates is shown to the rules that have one in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, get_args, get_type_hints

import libcst as cst

from amplint.analyses.program import FileView
from amplint.core.errors import describe
from amplint.core.finding import Finding
from amplint.core.rule import Check, Rule
from amplint.core.text import Text, span_in
from amplint.cst.navigation import Layout
from amplint.cst.segments import RefusedUnitError, Unit, Units
from amplint.source import Source, Spans

if TYPE_CHECKING:
    from amplint.run.timing import Watch

# By row of a file: the codes of the rules that have a candidate there.
CandidateRows = Mapping[int, Collection[str]]


@dataclass(frozen=True)
class JudgedFile:
    """The findings of the rules in a file, and their faults.

    Args:
        findings: by the order in which the file was walked.
        problems: the codes of rules that raised, and what.
        notices: what was not looked at.
        faults: where amplint could not show the file to the rules, and why.
    """

    findings: tuple[Finding, ...]
    problems: tuple[tuple[str, str], ...]
    notices: tuple[str, ...]
    faults: tuple[str, ...] = ()


def judge(
    path: str,
    text: Text,
    facts: FileView,
    rows: CandidateRows,
    rules: Sequence[Rule],
    spans: Spans = lambda place: span_in(None, place),
    watch: Watch | None = None,
) -> JudgedFile:
    """Show a file to the rules: each unit with candidates, once, to the rules that have them.

    A rule that raises is a problem of its own; what it and the others have found stays.
    """
    source = Source(Layout(path, text, facts.module), facts, spans)
    units = source.layout.units
    shown = with_candidates(units, rows, rules)
    return show(source, shown if watch is None else watch.over(shown, units))


def with_candidates(
    units: Units, rows: CandidateRows, rules: Sequence[Rule]
) -> Iterator[tuple[Unit, Sequence[Rule]]]:
    """The units that hold candidates, in order, each with the rules that have one in it."""
    found: dict[int, tuple[Unit, set[str]]] = {}
    for row, codes in rows.items():
        unit = units.at(row)
        found.setdefault(unit.start, (unit, set()))[1].update(codes)
    for _, (unit, codes) in sorted(found.items(), key=lambda item: item[0]):
        yield unit, [rule for rule in rules if rule.code in codes]


def show(source: Source, shown: Iterable[tuple[Unit, Sequence[Rule]]]) -> JudgedFile:
    """Show units of a file to rules: every node of theirs to the checks for its kind."""
    findings: list[Finding] = []
    problems: list[tuple[str, str]] = []
    notices: list[str] = []
    faults: list[str] = []
    for unit, rules in shown:
        try:
            tree = source.layout.open(unit)
        except RefusedUnitError as refused:
            part = source.layout.content.part(refused.row)
            at = f"line {refused.row - part.above} ff." + f" of cell {part.cell}" * bool(part.cell)
            notices.append(f"{at} not checked: {refused.reason}")
            continue
        except Exception as error:
            faults.append(f"line {unit.row} to {unit.last_row}: {describe(error)}")
            continue
        checks = Checks(rules)
        problems += checks.problems
        for node in tree.nodes:
            for rule, check in checks.of(type(node)):
                try:
                    found = own(rule, check(node, source))
                    findings += (
                        f
                        for f in found
                        if rule.presumes is not False or not source.presumes(f)
                        if not source.never_runs(f, node)
                    )
                except Exception as error:
                    problems.append((rule.code, _describe(error, node, unit, source)))
    return JudgedFile(tuple(findings), tuple(problems), tuple(notices), tuple(faults))


def own(rule: Rule, findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings of a check. Raises TypeError for what is none of its rule."""
    for finding in findings:
        if not isinstance(finding, Finding) or finding.code != rule.code:
            raise TypeError(f"{finding!r} is no finding of {rule.code}")
        yield finding


class Checks:
    """The checks of some rules, by the kind of node that they are registered for.

    `problems` are those of checks whose annotation names no kind of node.
    """

    def __init__(self, rules: Collection[Rule]) -> None:
        self._registered: list[tuple[Rule, tuple[type[cst.CSTNode], ...], Check]] = []
        self.problems: list[tuple[str, str]] = []
        for rule in rules:
            for check in rule.checks:
                try:
                    self._registered.append((rule, kinds_of(check), check))
                except Exception as error:
                    self.problems.append((rule.code, describe(error)))
        self._by_kind: dict[type[cst.CSTNode], list[tuple[Rule, Check]]] = {}

    def of(self, kind: type[cst.CSTNode]) -> list[tuple[Rule, Check]]:
        found = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = [
                (rule, check) for rule, kinds, check in self._registered if issubclass(kind, kinds)
            ]
        return found


@cache
def kinds_of(check: Check) -> tuple[type[cst.CSTNode], ...]:
    """The kinds of nodes that a check is for: those that its first parameter is annotated with.

    Raises NameError for an annotation that names nothing, TypeError for one of something else.
    """
    kinds = next(iter(get_type_hints(check, localns={"Source": Source}).values()))
    found: tuple[type[cst.CSTNode], ...] = get_args(kinds) or (kinds,)
    for kind in found:
        if not (isinstance(kind, type) and issubclass(kind, cst.CSTNode)):
            raise TypeError(f"{kind!r} is no kind of node")
    return found


def _describe(error: Exception, node: cst.CSTNode, unit: Unit, source: Source) -> str:
    try:
        row = source.span(node).start.row
    except Exception:  # whatever troubled the rule may trouble us
        row = unit.row
    return f"line {row}: {describe(error)}"
