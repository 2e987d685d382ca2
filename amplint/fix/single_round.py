"""One round of fixes: the texts that the fixes of a run leave, in the style of their files."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from posixpath import basename

from amplint.findings.finding import Finding, Safety, edited
from amplint.fix.applying import (
    Fixed,
    apply_fixes,
    fixable,
    objection,
    overlap_within,
    parsed,
    quiet,
)
from amplint.fix.import_style import in_style
from amplint.fix.quotes import in_quotes
from amplint.fix.unused_imports import (
    exported,
    lists_its_names,
    orphans,
    starred,
    stem,
    uses,
    without,
)
from amplint.run.request import Outcome, Request
from amplint.util.text import Text

INIT = "__init__.py"


@dataclass(frozen=True)
class RoundOfFixes:
    """One round of fixes: the files that it changes, and the fixes that could not be made."""

    fixed: Mapping[str, Fixed]
    problems: Sequence[str]


@quiet()
def fix_round(outcome: Outcome, request: Request, allow: frozenset[Safety]) -> RoundOfFixes:
    """Apply the allowed fixes of the findings that do not clash."""
    by_path: dict[str, list[Finding]] = defaultdict(list)
    for finding in fixable(outcome.findings, allow):
        if finding.path in outcome.texts:
            by_path[finding.path].append(finding)
    fixed: dict[str, Fixed] = {}
    problems: list[str] = []
    for path, findings in by_path.items():
        text = outcome.texts[path]
        result = _in_quotes(text, _fix_text(text, findings, allow, problems))
        if result.applied and result.text != text.text:
            files = RoundFiles(request, outcome.all_texts)
            new = _in_style(path, text, result, files)
            fixed[path] = replace(result, text=without_orphans(path, text, new, files))
    return RoundOfFixes(fixed, problems)


def _fix_text(
    text: Text, findings: Sequence[Finding], allow: frozenset[Safety], problems: list[str]
) -> Fixed:
    """Apply what can be applied; if the result is no program in the file's encoding, one by one."""
    result = apply_fixes(text.text, findings, allow)
    if not result.applied or objection(text, result.text) is None:
        return result
    good: list[Finding] = []
    for finding in result.applied:
        why = objection(text, apply_fixes(text.text, [*good, finding], allow).text)
        if why is None:
            good.append(finding)
        else:
            problems.append(f"{place_of(finding, text)}: {finding.code} not fixed: {why}")
    return apply_fixes(text.text, good, allow)


@dataclass(frozen=True)
class RoundFiles:
    """The files of a project as they are in one round."""

    request: Request
    texts: Mapping[str, Text]

    def beside(self, path: str) -> Iterator[tuple[str, str]]:
        """The other files that are analysed as one project with this one, and their texts."""
        for other in self.request.project_of(path).files:
            if other != path and other in self.texts:
                yield other, self.texts[other].text


def _in_quotes(before: Text, fixed: Fixed) -> Fixed:
    """The fixes with the quotes that the file has."""
    edits = in_quotes(before, fixed.edits)
    if edits == fixed.edits:
        return fixed
    new = edited(before.text, edits)
    return fixed if objection(before, new) else replace(fixed, text=new, edits=edits)


def _in_style(path: str, before: Text, fixed: Fixed, files: RoundFiles) -> str:
    """The new text with the short names that the file has for what the fixes write, where they
    leave no other use of these names."""
    edits = in_style(before, fixed.edits, lambda name: _is_for_others(path, before, {name}, files))
    if edits is None or overlap_within(sorted(edits)):
        return fixed.text
    styled = edited(before.text, edits)
    return fixed.text if objection(before, styled) else styled


def without_orphans(path: str, before: Text, new: str, files: RoundFiles) -> str:
    """The new text without the imports that the fixes have left unused."""
    leftovers = [
        orphan
        for orphan in orphans(parsed(before.text), parsed(new))
        if not (orphan.at_top and _is_for_others(path, before, orphan.names, files))
    ]
    if not leftovers:
        return new
    text = replace(before, text=new)
    pruned = without(text, leftovers)
    return new if objection(text, pruned) else pruned


def _is_for_others(path: str, text: Text, names: Iterable[str], files: RoundFiles) -> bool:
    """Whether others may take one of these names from a file: a package's `__init__.py` may
    import for them, any file may have a name taken from it, and so may the rest of a notebook."""
    return (
        basename(path) == INIT
        or _names_one_of(text.left_out, names)
        or any(_is_taken(path, name, files) for name in sorted(names))
    )


def _names_one_of(text: str, names: Iterable[str]) -> bool:
    return bool(text) and any(re.search(rf"\b{re.escape(name)}\b", text) for name in names)


def _is_taken(path: str, name: str, files: RoundFiles, trail: frozenset[str] = frozenset()) -> bool:
    """Whether another file of the project may take the name from the file at `path`, by itself or
    by a star, to use it or to hand it on."""
    word, by_name, by_star = stem(path), exported(path, name), starred(path)
    for other, text in files.beside(path):
        if other in trail or word not in text:
            continue
        try:
            if by_name.search(text):
                return True
            if by_star.search(text):
                module = ast.parse(text)
                for_others = basename(other) == INIT and not lists_its_names(module)
                if for_others or uses(module, name):
                    return True
        except Exception:  # what cannot be read imports nothing
            continue
        if by_star.search(text) and _is_taken(other, name, files, trail | {path}):
            return True
    return False


def place_of(finding: Finding, text: Text) -> str:
    """Ex) train.py:12"""
    part, start = text.part(finding.span.start.row), finding.span.start
    return f"{part.of(finding.path)}:{part.place(start).row}"
