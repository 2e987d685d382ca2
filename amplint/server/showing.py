"""The outcome of a run as an editor shows it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from amplint.findings.finding import Finding, Fix, Group, Related, Safety
from amplint.fix.applying import SAFE, UNSAFE
from amplint.fix.single_round import fix_round
from amplint.output import rule_page
from amplint.project.notebooks import Notebook
from amplint.project.reading import text_of
from amplint.rule import registry
from amplint.run.request import Outcome, Request
from amplint.server.addresses import uri_of
from amplint.server.messages import Elsewhere, Item, JudgedText, Page, Repair, Repaired, TextEdit
from amplint.server.protocol_positions import Encoding, Range, range_between, range_of
from amplint.util.escaping import without_controls
from amplint.util.line_diff import changes
from amplint.util.positions import Position, Span
from amplint.util.text import Text, UndecodableError


@dataclass(frozen=True)
class Showing:
    """An outcome, and all that is needed to show it.

    Args:
        number: of the look.
        outcome: with places as amplint counts them.
        request: the run that has led to it.
        uris: how the editor calls the open texts, by root-relative path.
        cells: how it calls the cells, of the notebooks that are open cell by cell.
        encoding: by which the editor counts places.
    """

    number: int
    outcome: Outcome
    request: Request
    uris: Mapping[str, str]
    cells: Mapping[str, Sequence[str]]
    encoding: Encoding

    def judged(self, path: str) -> JudgedText:
        """The findings in one file, with the pages of their rules."""
        findings = self._findings(path)
        pages = {finding.code: page_of(finding.code) for finding in findings}
        return JudgedText(
            self.number, self.uris[path], [self._item(one) for one in findings], pages
        )

    def repaired(self, path: str) -> Repaired:
        """The fixes of the findings in one file."""
        repairs: dict[int, Repair] = {}
        findings = self._findings(path)
        for number, finding in enumerate(findings):
            edits = self._edits([finding], path, UNSAFE)
            if edits and finding.fix is not None:
                title = without_controls(finding.fix.title)
                repairs[number] = Repair(title, finding.fix.safety.value, edits)
        all_safe = {self.uris[path]: self._edits(findings, path, SAFE)}
        for cell in self.cells.get(path, ()):
            own = [findings[number] for number, each in repairs.items() if is_within(each, cell)]
            edits = self._edits(own, path, SAFE)
            if all(edit.uri == cell for edit in edits):
                all_safe[cell] = edits
        return Repaired(self.number, self.uris[path], repairs, all_safe)

    def _findings(self, path: str) -> list[Finding]:
        return [finding for finding in self.outcome.findings if finding.path == path]

    def _item(self, finding: Finding) -> Item:
        text = self.outcome.texts.get(finding.path, Text(""))
        fix = finding.fix
        uri, range_ = self._location(finding.path, text, finding.span)
        return Item(
            finding.code,
            finding.name,
            finding.group.value,
            without_controls(finding.message),
            uri,
            range_,
            is_error=finding.severity == "error",
            is_deprecated=finding.group is Group.MIGRATION,
            advice=without_controls(finding.help if fix is None else suggested(fix)),
            related=[self._elsewhere(related) for related in finding.related],
        )

    def _elsewhere(self, related: Related) -> Elsewhere:
        text = self.outcome.texts.get(related.path) or self._other(related.path)
        uri, range_ = self._location(related.path, text, related.span)
        return Elsewhere(uri, range_, without_controls(related.message))

    def _location(self, path: str, text: Text, span: Span) -> tuple[str, Range]:
        """The text in which the editor shows a place, and the place in it: of a notebook, in the
        cell or in the JSON, whichever is open."""
        cells = self.cells.get(path)
        if cells and isinstance(text, Notebook):
            part = text.part(span.start.row)
            start, end = map(part.place, span)
            in_cell = Span(Position(max(start.row, 1), start.column), end)  # no marker has a place
            return cells[(part.cell or 1) - 1], range_of(part.text, in_cell, self.encoding)
        file = Text(text.document) if isinstance(text, Notebook) else text
        return self._uri(path), range_of(file, Span(*map(text.in_file, span)), self.encoding)

    def _other(self, path: str) -> Text:
        try:
            return text_of(path, self.outcome.root, self.request.overlays)
        except (OSError, UndecodableError):
            return Text("")

    def _uri(self, path: str) -> str:
        uri = self.uris.get(path)
        return uri if uri is not None else uri_of(self.outcome.root / path)

    def _edits(
        self, findings: Sequence[Finding], path: str, allow: frozenset[Safety]
    ) -> list[TextEdit]:
        """The edits of those fixes that may be applied, and that do not clash."""
        fixable = tuple(one for one in findings if one.fix is not None and one.fix.safety in allow)
        if not fixable:
            return []
        changes = fix_round(replace(self.outcome, findings=fixable), self.request, allow)
        if path not in changes.fixed:
            return []
        return [
            TextEdit(uri, range_between(file, start, end, self.encoding), text)
            for uri, file, edits in self._changes(path, changes.fixed[path].text)
            for start, end, text in edits
        ]

    def _changes(
        self, path: str, after: str
    ) -> Iterator[tuple[str, Text, Iterable[tuple[int, int, str]]]]:
        """The texts of the editor that a new text of a file changes, and the replacements."""
        before, uri, cells = self.outcome.texts[path], self.uris[path], self.cells.get(path)
        if not isinstance(before, Notebook):
            yield uri, before, differences(before, Text(after))
        elif cells is None:
            yield uri, Text(before.document), before.replacements(after)
        else:
            for cell, source in before.rewritten(after):
                old = Text(cell.source)
                yield cells[cell.number - 1], old, differences(old, Text(source))


def is_within(repair: Repair, cell: str) -> bool:
    """Whether a fix changes nothing but this cell."""
    return all(edit.uri == cell for edit in repair.edits)


def suggested(fix: Fix) -> str:
    """The title of a fix that only the user can make."""
    return fix.title if fix.safety is Safety.SUGGEST else ""


def differences(before: Text, after: Text) -> Iterator[tuple[int, int, str]]:
    """The lines in which two texts differ: start, end and new text, by offsets before."""
    old, new = lines_of(before), lines_of(after)
    for i, j, k, m in changes(old, new):
        yield before.start(i + 1), before.start(j + 1), "".join(new[k:m])


def lines_of(text: Text) -> list[str]:
    """The lines of a text, with their ends."""
    starts = [text.start(row) for row in range(1, text.rows + 2)]
    return [text.text[start:end] for start, end in itertools.pairwise(starts)]


@cache
def page_of(code: str) -> Page:
    """The page of a rule."""
    rule = registry.find(code)
    return Page(f"## {rule_page.heading(rule)}\n\n{rule_page.body(rule)}", rule_page.address(rule))
