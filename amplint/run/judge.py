"""Judging one file: the candidates in it are shown to the checks of rules, with the code at hand.

Each segment with a candidate goes through LibCST first, for what cannot be read is reported as
such.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from amplint.analyses.never_given import NeverGiven
from amplint.facts.program import FileView
from amplint.findings.declaration import Declaration, Presumes
from amplint.findings.finding import Finding, Group
from amplint.rule.rule import Judge, Rule
from amplint.rule.search import Candidate, FileCandidates
from amplint.source.navigation import Layout
from amplint.source.segments import RefusedUnitError, Unit, Units
from amplint.source.source import Source, Spans
from amplint.util.errors import describe
from amplint.util.text import Text, span_in
from amplint.view.view import FileCode, View


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
    candidates: FileCandidates,
    rules: Sequence[Rule],
    spans: Spans = lambda place: span_in(None, place),
) -> JudgedFile:
    """Show the candidates in a file to the rules whose candidates they are.

    A rule that raises is a problem of its own; what it and the others have found stays.
    """
    source = source_of(path, text, facts, spans)
    return show(FileCode(source, facts), candidates.nodes, rules)


def source_of(path: str, text: Text, facts: FileView, spans: Spans) -> Source:
    """A file as the rules see it."""
    return Source(Layout(path, text, facts.module), facts, spans)


def show(code: FileCode, candidates: Iterable[Candidate], rules: Sequence[Rule]) -> JudgedFile:
    """Show candidates of rules in one file to their checks."""
    source = code.source
    findings: list[Finding] = []
    problems: list[tuple[str, str]] = []
    notices: list[str] = []
    faults: list[str] = []
    by_code = {rule.code: rule for rule in rules}
    for unit, inside in by_unit(candidates, source.layout.units):
        try:
            source.layout.open(unit)
        except RefusedUnitError as refused:
            part = source.layout.content.part(refused.row)
            at = f"line {refused.row - part.above} ff." + f" of cell {part.cell}" * bool(part.cell)
            notices.append(f"{at} not checked: {refused.reason}")
            continue
        except Exception as error:
            faults.append(f"line {unit.row} to {unit.last_row}: {describe(error)}")
            continue
        for view, check in views_of(inside, by_code, code):
            try:
                findings += (
                    finding for finding in own(view.rule, check(view)) if not lacking(finding, view)
                )
            except Exception as error:
                problems.append((view.rule.code, _describe(error, view, unit)))
    return JudgedFile(tuple(findings), tuple(problems), tuple(notices), tuple(faults))


def lacking(finding: Finding, at: View) -> str:
    """The condition without which a finding of a check is not reported; "" where it holds."""
    if finding.presumed and not speaks(at):
        return "that this runs in an autocast region is presumed, and not certain"
    claims_effect = finding.group is Group.CORRECTNESS
    if claims_effect and at.source.ask(NeverGiven, at.cst) is not None:
        return "no visible call runs this"
    return ""


def speaks(at: View) -> bool:
    """Whether the rule speaks of what is presumed in this project: regions, or that callers cast
    the module, where no region helps, so that each rule speaks."""
    mode = at.source.mode
    if mode is not None and not mode.is_region:
        return True
    return at.rule.presumes is Presumes.ALWAYS or (
        at.rule.presumes is Presumes.AUDITED and mode is not None
    )


def by_unit(
    candidates: Iterable[Candidate], units: Units
) -> Iterator[tuple[Unit, Sequence[Candidate]]]:
    """The units that hold candidates, in order, each with these."""
    by_start: dict[int, tuple[Unit, list[Candidate]]] = {}
    for each in candidates:
        unit = units.at(each.row)
        by_start.setdefault(unit.start, (unit, []))[1].append(each)
    for _, inside in sorted(by_start.items(), key=lambda item: item[0]):
        yield inside


def views_of(
    candidates: Iterable[Candidate], rules: Mapping[str, Rule], code: FileCode
) -> Iterator[tuple[View, Judge]]:
    """The candidates of rules as Views with the code at hand, each with the check that it is for.

    Args:
        rules: by code.

    Some nodes have no expression of their own: `x[0]` of `x[0] += 1` is read and written.
    """
    keys: set[tuple[str, int, int, int]] = set()
    for each in candidates:
        rule = rules.get(each.code)
        view = code.view(rule, each.here) if rule is not None else None
        if rule is None or view is None or not view.is_written:
            continue
        # The test of `if x: ... else: ...` decides about two blocks.
        key = (each.code, each.check, each.here.number, id(view.cst))
        if key not in keys:
            keys.add(key)
            yield view, rule.checks[each.check].judge


def own(rule: Declaration, findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings of a check. Raises TypeError for what is none of its rule."""
    for finding in findings:
        if not isinstance(finding, Finding) or finding.code != rule.code:
            raise TypeError(f"{finding!r} is not a finding of {rule.code}")
        yield finding


def _describe(error: Exception, view: View, unit: Unit) -> str:
    try:
        row = view.span.start.row
    except Exception:  # whatever troubled the rule may trouble us
        row = unit.row
    return f"line {row}: {describe(error)}"
