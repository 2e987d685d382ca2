"""Judging one file: each segment with candidates is shown to the rules that have one in it.

A check of LibCST nodes is shown all nodes of such a segment that are of its kinds, a check of Views
(`amplint.view`) the candidates themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, get_args, get_type_hints

import libcst as cst

from amplint.analyses.candidates import Candidate, FileCandidates
from amplint.analyses.program import FileView
from amplint.core.errors import describe
from amplint.core.finding import Finding
from amplint.core.rule import Check, Rule, ViewCheck
from amplint.core.text import Text, span_in
from amplint.cst.navigation import Layout
from amplint.cst.segments import RefusedUnitError, Unit, Units
from amplint.source import Source, Spans
from amplint.view.view import Code, View

if TYPE_CHECKING:
    from amplint.run.timing import Watch

# A check of a rule that is to be run on a node.
Waiting = tuple[Rule, cst.CSTNode, Callable[[], Iterator[Finding]]]


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
    found: FileCandidates,
    rules: Sequence[Rule],
    spans: Spans = lambda place: span_in(None, place),
    watch: Watch | None = None,
) -> JudgedFile:
    """Show a file to the rules: each unit with candidates, once, to the rules that have them.

    `found`: the candidates in the file.

    A rule that raises is a problem of its own; what it and the others have found stays.
    """
    source = Source(Layout(path, text, facts.module), facts, spans)
    units = source.layout.units
    shown = with_candidates(units, found.rows, rules)
    code = Code(source, facts)
    return show(code, shown if watch is None else watch.over(shown, units), found.shown)


def with_candidates(
    units: Units, rows: Mapping[int, Collection[str]], rules: Sequence[Rule]
) -> Iterator[tuple[Unit, Sequence[Rule]]]:
    """The units that hold candidates, in order, each with the rules that have one in it."""
    found: dict[int, tuple[Unit, set[str]]] = {}
    for row, codes in rows.items():
        unit = units.at(row)
        found.setdefault(unit.start, (unit, set()))[1].update(codes)
    for _, (unit, codes) in sorted(found.items(), key=lambda item: item[0]):
        yield unit, [rule for rule in rules if rule.code in codes]


def show(
    code: Code,
    shown: Iterable[tuple[Unit, Sequence[Rule]]],
    candidates: Iterable[Candidate] = (),
) -> JudgedFile:
    """Show units of a file to rules: every node of theirs to the checks for its kind, and the
    candidates in them to the checks of Views."""
    source = code.source
    views = by_unit(candidates, source.layout.units)
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
        on_nodes = (
            (rule, node, partial(check, node, source))
            for node in tree.nodes
            for rule, check in checks.of(type(node))
        )
        on_views = (
            (view.rule, view.cst, partial(check, view))
            for view, check in views_of(views.get(unit.start, ()), rules, code)
        )
        for rule, node, check in itertools.chain[Waiting](on_nodes, on_views):
            try:
                findings += (
                    f
                    for f in own(rule, check())
                    if rule.presumes is not False or not source.presumes(f)
                    if not source.never_runs(f, node)
                )
            except Exception as error:
                problems.append((rule.code, _describe(error, node, unit, source)))
    return JudgedFile(tuple(findings), tuple(problems), tuple(notices), tuple(faults))


def by_unit(candidates: Iterable[Candidate], units: Units) -> Mapping[int, Sequence[Candidate]]:
    """Candidates by where the unit begins that they are in."""
    found: dict[int, list[Candidate]] = {}
    for each in candidates:
        found.setdefault(units.at(each.row).start, []).append(each)
    return found


def views_of(
    candidates: Iterable[Candidate], rules: Iterable[Rule], code: Code
) -> Iterator[tuple[View, ViewCheck]]:
    """The candidates of rules as Views with the code at hand, each with the check that it is for.

    Some nodes have no expression of their own: `x[0]` of `x[0] += 1` is read and written.
    """
    by_code = {rule.code: rule for rule in rules}
    seen: set[tuple[str, int, int, int]] = set()
    for each in candidates:
        rule = by_code.get(each.code)
        view = code.view(rule, each.spot) if rule is not None else None
        if rule is None or view is None or not view.is_written:
            continue
        # The test of `if x: ... else: ...` decides about two blocks.
        key = (each.code, each.look, each.spot.number, id(view.cst))
        if key not in seen:
            seen.add(key)
            yield view, rule.looks[each.look].check


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
