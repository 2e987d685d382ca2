"""The known findings of a project, in a file: `check` reports those that are not among them.

An entry is what a fingerprint rests on, in clear: the path, the code, the line and the definition
around it, and how many such findings there are. So an entry survives lines that move, one more
finding of the same kind is a new one, and a diff of the file can be read. (Digests were tempting:
nobody could tell from a diff which finding had come or gone.)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec

from amplint.core import files
from amplint.core.errors import Failure
from amplint.core.finding import Finding
from amplint.core.paths import seen_from
from amplint.core.registry import UNPARSABLE, letters_of
from amplint.core.replacing import replace_file
from amplint.output.fingerprint import Identity, identities
from amplint.project.config import COMMAND_LINE
from amplint.run.request import Outcome, Request

NAME = ".amplint-baseline.json"
FORMAT = 1
MOST_BYTES = 64_000_000  # a hundred times what thousands of findings need
WIDEST = 200  # of a line as it is written down; of a longer one the rest is a digest


class BaselineError(Failure):
    """A baseline that cannot be used; the text names the file."""


class Header(msgspec.Struct):
    """The part of a baseline that every version of the format has."""

    version: int = msgspec.field(name="amplint-baseline")


class Entry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Findings that are equal but for their places."""

    path: str
    code: str
    scope: str
    line: str
    count: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] = 1


class Document(msgspec.Struct):
    """The content of the file."""

    findings: list[Entry]


@dataclass(frozen=True)
class Baseline:
    """Known findings.

    Args:
        file: where they are written down; the paths of the identities are relative to its
            directory, for the root of a run depends on the paths that it was given.
        known: how many there are of each identity.
    """

    file: Path
    known: Mapping[Identity, int]

    @property
    def total(self) -> int:
        return sum(self.known.values())


def file_of(request: Request) -> Path:
    """The baseline of a run: the one that the settings name, else the one beside the configuration,
    or at the root of a project without one. Raises BaselineError."""
    settings = request.settings
    directory = request.project.root if settings.config is None else settings.config.parent
    file = settings.baseline or directory.absolute() / NAME
    # The configuration may be a stranger's, and `amplint baseline` writes.
    if dict(settings.origins).get("baseline") != COMMAND_LINE and all(
        files.leads_out(file, top) for top in (directory, settings.root)
    ):
        raise BaselineError(f"{shown(file)}: lies outside of the project; --baseline may name it")
    return file


def read(file: Path) -> Baseline:
    """Read a baseline. Raises BaselineError."""
    content = _content(file)
    try:
        version = msgspec.json.decode(content, type=Header).version
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BaselineError(f"{shown(file)}: is not a baseline of amplint: {error}") from None
    if version != FORMAT:
        raise BaselineError(
            f"{shown(file)}: its format is {version}, and this amplint reads format {FORMAT}"
            + "; a newer amplint wrote it" * (version > FORMAT)
        )
    try:
        entries = msgspec.json.decode(content, type=Document).findings
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BaselineError(f"{shown(file)}: is damaged: {error}") from None
    known: Counter[Identity] = Counter()
    for entry in entries:
        identity = Identity(entry.path, entry.code, entry.line, entry.scope)
        # A merge may leave an entry twice. The greater count is right for both sides.
        known[identity] = max(known[identity], entry.count)
    return Baseline(file, known)


def _content(file: Path) -> bytes:
    if not os.path.lexists(file):
        raise BaselineError(f"{shown(file)}: is not there; `amplint baseline` writes it")
    if not file.is_file():
        raise BaselineError(f"{shown(file)}: is not a file")
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise BaselineError(f"{shown(file)}: cannot be read: {error.strerror or error}") from error
    if len(content) > MOST_BYTES:
        raise BaselineError(f"{shown(file)}: is not a baseline of amplint: it is too large")
    return content


def write(baseline: Baseline) -> None:
    """Write a baseline, all at once. Raises BaselineError."""
    target = Path(os.path.realpath(baseline.file))
    try:
        replace_file(target, document(baseline.known).encode())
    except OSError as error:
        reason = error.strerror or str(error)
        raise BaselineError(f"{shown(baseline.file)}: cannot be written: {reason}") from error


def document(known: Mapping[Identity, int]) -> str:
    """The text of the file: an entry a line, sorted, so that diffs are short."""
    entries = (
        json.dumps(msgspec.to_builtins(Entry(one.path, one.code, one.scope, one.line, count)))
        for one, count in sorted(known.items())
    )
    lines = ",\n".join(f"    {entry}" for entry in entries)
    listed = f"[\n{lines}\n  ]" if lines else "[]"
    return f'{{\n  "amplint-baseline": {FORMAT},\n  "findings": {listed}\n}}\n'


# ------------------------------------------------------------------------------------- a run


def found(outcome: Outcome, file: Path) -> Counter[Identity]:
    """The findings of a run as a baseline counts them.

    A file that cannot be parsed is none of them: it would pass for one that was looked at.
    """
    findings = [finding for finding in outcome.findings if finding.code != UNPARSABLE.code]
    return Counter(_identities(findings, outcome, file))


def without_known(outcome: Outcome, baseline: Baseline) -> Outcome:
    """The outcome with its new findings alone; of equal ones, the first are the known ones."""
    left = Counter(baseline.known)
    new: list[Finding] = []
    pairs = zip(
        outcome.findings, _identities(outcome.findings, outcome, baseline.file), strict=True
    )
    for finding, identity in pairs:
        if finding.code != UNPARSABLE.code and left[identity] > 0:
            left[identity] -= 1
        else:
            new.append(finding)
    count = len(outcome.findings) - len(new)
    if not count:
        return outcome
    phrase = f"{count} known finding{'s' * (count != 1)}"
    return replace(outcome, findings=tuple(new), left_out=(*outcome.left_out, phrase))


def fixed(outcome: Outcome, baseline: Baseline, request: Request) -> Counter[Identity]:
    """The known findings that are no longer reported: they are fixed, or the code or the settings
    ignore them now.

    Nothing is said of a file that was not looked at, unless it is gone, nor of a rule that is
    switched off, unless there is no such rule any more. That no rule has the letters of its code
    may be because the package that brings it is not installed here.
    """
    gone = Counter(baseline.known) - found(outcome, baseline.file)
    if not gone:  # spares the import of all rules
        return gone
    unparsable = {f.path for f in outcome.findings if f.code == UNPARSABLE.code}
    looked_at = {
        _relative(outcome.root / path, baseline.file)
        for path in outcome.files
        if path not in unparsable
    }
    off = {rule.code for rule in request.rules if not request.settings.may_report(rule)}
    letters = {letters_of(rule.code) for rule in request.rules}

    def is_fixed(identity: Identity) -> bool:
        file = baseline.file.parent / identity.path
        can_be_found = identity.code not in off and letters_of(identity.code) in letters
        return can_be_found and (identity.path in looked_at or not os.path.lexists(file))

    return Counter({identity: count for identity, count in gone.items() if is_fixed(identity)})


def _identities(findings: Iterable[Finding], outcome: Outcome, file: Path) -> Iterator[Identity]:
    paths: dict[str, str] = {}
    for identity in identities(findings, outcome.texts):
        path = identity.path
        if path not in paths:
            paths[path] = printable(_relative(outcome.root / path, file))
        yield identity._replace(
            path=paths[path], line=_shortened(identity.line), scope=printable(identity.scope)
        )


def _relative(path: Path, file: Path) -> str:
    return seen_from(file.parent, path)


def _shortened(line: str) -> str:
    line = printable(line)
    if len(line) <= WIDEST:
        return line
    digest = hashlib.sha256(line.encode()).hexdigest()[:16]
    return f"{line[:WIDEST]}… {digest}"


def printable(text: str) -> str:
    """The text without lone surrogates, which JSON cannot carry: names of files may hold them."""
    return text.encode("utf-8", "backslashreplace").decode()


def shown(file: Path) -> str:
    """The file as the user would write it."""
    return seen_from(".", file)
