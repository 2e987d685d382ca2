"""Findings in the words of the protocol: diagnostics, code actions, hovers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lsprotocol import types

from amplint.server.messages import Item, Page, Repair, TextEdit
from amplint.server.protocol_positions import EditorPlace, Range
from amplint.util.text import Text

SOURCE = "amplint"
FIX_ALL = "source.fixAll.amplint"  # of a text, or of a cell
NOTEBOOK_FIX_ALL = f"notebook.{FIX_ALL}"  # VS Code asks for `notebook.source` of all cells at once
EXPLAIN_LINE = "source.explainLine.amplint"  # of no finding: no editor is to point at it by itself
EXPLAIN = "amplint.explainLine"  # the command that it runs
QUICK_FIX = types.CodeActionKind.QuickFix.value
SAFETY = {"safe": "safe", "unsafe": "unsafe: results may change"}


@dataclass(frozen=True)
class KnownText:
    """All that is known of a text of one version, or of a notebook that is open in cells.

    Args:
        uri, version: of the text, or of the notebook.
        versions: those of the texts in which it is shown: of itself, or of the cells.
        items: the findings.
        pages: of their rules.
        repairs: by number of a finding; empty while they are being computed.
        all_safe: the edits of all safe fixes, by the text or the cell, or the notebook.
        is_complete: whether the fixes are known.
    """

    uri: str
    version: int
    versions: Mapping[str, int]
    items: Sequence[Item]
    pages: Mapping[str, Page]
    repairs: Mapping[int, Repair] = field(default_factory=dict)
    all_safe: Mapping[str, Sequence[TextEdit]] = field(default_factory=dict)
    is_complete: bool = False


def diagnostics(facts: KnownText, uri: str) -> list[types.Diagnostic]:
    """The findings in one text as diagnostics."""
    return [diagnostic(item, facts.pages.get(item.code)) for item in facts.items if item.uri == uri]


def diagnostic(item: Item, page: Page | None) -> types.Diagnostic:
    """A finding as a diagnostic."""
    has_address = page is not None and page.address
    return types.Diagnostic(
        range=lsp_range(item.range),
        message=f"{item.message} ({item.name})",
        severity=(
            types.DiagnosticSeverity.Error if item.is_error else types.DiagnosticSeverity.Warning
        ),
        code=item.code,
        code_description=types.CodeDescription(page.address) if page and has_address else None,
        source=SOURCE,
        tags=[types.DiagnosticTag.Deprecated] if item.is_deprecated else None,
        related_information=[
            types.DiagnosticRelatedInformation(
                types.Location(other.uri, lsp_range(other.range)), other.message
            )
            for other in item.related
        ],
    )


def actions(
    facts: KnownText, uri: str, at: Range, only: Sequence[str] | None
) -> list[types.CodeAction]:
    """The actions for the findings in a range, and for all of the text.

    Args:
        facts: of the text as it is now.
        uri: of the text, or of the cell.
        at: the range.
        only: the kinds of actions that are asked for; None for all.
    """
    offered = [*quick_fixes(facts, uri, at), *fix_all(facts, uri)]
    return [action for action in offered if is_asked_for(str(action.kind), only)]


def quick_fixes(facts: KnownText, uri: str, at: Range) -> Iterator[types.CodeAction]:
    """The fixes of the findings in a range: each says whether it is safe."""
    for number, repair in facts.repairs.items():
        item = facts.items[number]
        if item.uri == uri and overlap(item.range, at):
            yield types.CodeAction(
                title=f"{repair.title} ({item.code}, {SAFETY[repair.safety]})",
                kind=QUICK_FIX,
                diagnostics=[diagnostic(item, facts.pages.get(item.code))],
                is_preferred=repair.safety == "safe",
                edit=workspace_edit(facts, repair.edits),
            )


def fix_all(facts: KnownText, uri: str) -> Iterator[types.CodeAction]:
    """The actions that apply all safe fixes of a text; or of a cell, and of its notebook."""
    title = "Fix all safe amplint problems"
    if uri == facts.uri:
        offered = [(title, FIX_ALL, uri)]
    else:
        offered = [
            (f"{title} of the cell", FIX_ALL, uri),
            (f"{title} of the notebook", NOTEBOOK_FIX_ALL, facts.uri),
        ]
    for title, kind, about in offered:
        edits = facts.all_safe.get(about)
        if edits:
            yield types.CodeAction(title=title, kind=kind, edit=workspace_edit(facts, edits))


def explanations(
    text: Text | None, uri: str, at: Range, only: Sequence[str] | None
) -> Iterator[types.CodeAction]:
    """The action that explains a line of a text, where a range lies in one that has something."""
    line = at.start.line
    is_there = text is not None and line < text.rows and text.line(line + 1).strip()
    if at.end.line == line and is_there and is_asked_for(EXPLAIN_LINE, only):
        title = f"Explain line {line + 1}: what amplint knows about it, and why it is silent"
        command = types.Command(title=title, command=EXPLAIN, arguments=[uri, line])
        yield types.CodeAction(title=title, kind=EXPLAIN_LINE, command=command)


def is_asked_for(kind: str, only: Iterable[str] | None) -> bool:
    """Whether a kind of action is one of those asked for, or below one."""
    return only is None or any(f"{kind}.".startswith(f"{each}.") for each in only)


def workspace_edit(facts: KnownText, edits: Iterable[TextEdit]) -> types.WorkspaceEdit:
    """Edits of texts, for the versions that they were made for alone."""
    by_text: dict[str, list[types.TextEdit]] = {}
    for edit in edits:
        by_text.setdefault(edit.uri, []).append(types.TextEdit(lsp_range(edit.range), edit.text))
    return types.WorkspaceEdit(
        document_changes=[
            types.TextDocumentEdit(
                types.OptionalVersionedTextDocumentIdentifier(uri, facts.versions[uri]), changes
            )
            for uri, changes in by_text.items()
        ]
    )


def hover(facts: KnownText, uri: str, at: EditorPlace) -> types.Hover | None:
    """The pages of the rules of the findings at a place of a text, and what to consider there.

    Without the messages: an editor that shows diagnostics on hover would show them twice.
    """
    here = [item for item in facts.items if item.uri == uri and overlap(item.range, Range(at, at))]
    if not here:
        return None
    advice = [f"**{item.code}** Consider: {item.advice}." for item in here if item.advice]
    pages = [facts.pages[item.code].text for item in here if item.code in facts.pages]
    value = "\n\n---\n\n".join(dict.fromkeys([*advice, *pages]))
    return types.Hover(
        types.MarkupContent(types.MarkupKind.Markdown, value), lsp_range(here[0].range)
    )


def overlap(one: Range, other: Range) -> bool:
    """Whether two ranges overlap, or touch."""
    return one.start <= other.end and other.start <= one.end


def lsp_range(range_: Range) -> types.Range:
    return types.Range(types.Position(*range_.start), types.Position(*range_.end))


def own_place(position: types.Position) -> EditorPlace:
    return EditorPlace(position.line, position.character)


def own_range(range_: types.Range) -> Range:
    return Range(own_place(range_.start), own_place(range_.end))
