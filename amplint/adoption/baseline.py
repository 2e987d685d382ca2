"""The known findings of a project, in a file: `check` reports those that are not among them.

Each file has the baseline of its own settings, so that a run over several projects has several.

An entry is what a fingerprint rests on, in clear: the path, the code, the line and the definition
around it, and how many such findings there are. So an entry survives lines that move, one more
finding of the same kind is a new one, and a diff of the file can be read. (Digests were tempting:
nobody could see in a diff which finding had come or gone.)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec

from amplint.adoption.matching import match
from amplint.findings.finding import Finding
from amplint.findings.selectors import letters_of
from amplint.project.config import COMMAND_LINE, INLINE
from amplint.project.discover import absolute
from amplint.project.settings_hierarchy import ProjectRoots
from amplint.rule.of_engine import UNPARSABLE
from amplint.run.fingerprint import Identity, identities, lines_of
from amplint.run.request import Outcome, Request
from amplint.util import files
from amplint.util.errors import Failure
from amplint.util.paths import join, lies_in, seen_from, slashes, upward
from amplint.util.replacing import replace_file
from amplint.util.text import Text
from amplint.util.wording import counted

NAME = ".amplint-baseline.json"
FORMAT = 1
MOST_BYTES = 64_000_000  # a hundred times what thousands of findings need
WIDEST = 200  # of a line as it is written down; of a longer one the rest is a digest


class BaselineError(Failure):
    """A baseline that cannot be used; the text names the file."""


class Header(msgspec.Struct):
    """The part of a baseline that every version of the format has."""

    version: int = msgspec.field(name="amplint-baseline")


class EqualFindings(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Findings that are equal except for their places."""

    path: str
    code: str
    scope: str
    line: str
    count: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] = 1


class BaselineFile(msgspec.Struct):
    """The content of the file."""

    findings: list[EqualFindings]


@dataclass(frozen=True)
class Baseline:
    """Known findings.

    Args:
        file: where they are written down; the paths of the identities are relative to its
            directory, for the root of a run depends on the paths that it was given.
        counts: how many there are of each identity.
    """

    file: Path
    counts: Mapping[Identity, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


Known = Mapping[str, Baseline]  # by reported file, the baseline that it has, if it has one


def files_of(request: Request) -> dict[Path, list[str]]:
    """The baselines of a run, be they there or not, and the reported files that each is for. Raises
    BaselineError."""
    projects = ProjectRoots(request.settings)
    by_directory: dict[str, Path] = {}
    by_file: dict[Path, list[str]] = {}
    for path in sorted(request.selection.reported):
        directory = request.directory_of(path)
        if directory not in by_directory:
            by_directory[directory] = file_of(request, directory, projects)
        by_file.setdefault(by_directory[directory], []).append(path)
    return by_file


def file_of(request: Request, directory: str, projects: ProjectRoots) -> Path:
    """The baseline of the files in a directory: the one that their settings name, else the nearest
    one from the directory of these settings, or from the root of the project, up to the top of the
    repository; where there is none, it is to stand in that directory. Raises BaselineError."""
    settings = request.settings.at(directory)
    top = projects.top(directory)
    if settings.config is not None:
        home = slashes(str(settings.config.parent.absolute()))
    else:
        home = projects.root(directory) or slashes(str(request.selection.root))
    inside = [one for one in upward(home) if top is None or lies_in(one, top)] or [home]
    near = (join(one, NAME) for one in inside if top is not None)
    there = next(filter(os.path.lexists, near), join(home, NAME))
    file = settings.baseline or Path(there)
    # The configuration may be a stranger's, and `amplint baseline` writes.
    bounds = {str(file.parent) if settings.baseline is None else home, str(settings.root)}
    bounds |= {top} if top is not None and projects.is_repository(top) else set()
    named = dict(settings.origins).get("baseline") in (COMMAND_LINE, INLINE)
    if not named and all(files.leads_out(file, bound) for bound in bounds):
        raise BaselineError(f"{label(file)}: lies outside of the project; name it by --baseline")
    return file


def read(file: Path) -> Baseline:
    """Read a baseline. Raises BaselineError."""
    content = _content(file)
    try:
        version = msgspec.json.decode(content, type=Header).version
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BaselineError(f"{label(file)}: is not a baseline of amplint: {error}") from None
    if version != FORMAT:
        raise BaselineError(
            f"{label(file)}: its format is {version}, and this amplint reads format {FORMAT}"
            + "; a newer amplint wrote it" * (version > FORMAT)
        )
    try:
        entries = msgspec.json.decode(content, type=BaselineFile).findings
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BaselineError(f"{label(file)}: is damaged: {error}") from None
    counts: Counter[Identity] = Counter()
    for entry in entries:
        identity = Identity(entry.path, entry.code, entry.line, entry.scope)
        # A merge may leave an entry twice. The greater count is right for both sides.
        counts[identity] = max(counts[identity], entry.count)
    return Baseline(file, counts)


def _content(file: Path) -> bytes:
    if not os.path.lexists(file):
        raise BaselineError(f"{label(file)}: does not exist; `amplint baseline` writes it")
    if not file.is_file():
        raise BaselineError(f"{label(file)}: is not a file")
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise BaselineError(f"{label(file)}: cannot be read: {error.strerror or error}") from error
    if len(content) > MOST_BYTES:
        raise BaselineError(f"{label(file)}: is not a baseline of amplint: it is too large")
    return content


def write(baseline: Baseline) -> None:
    """Write a baseline, all at once. Raises BaselineError."""
    target = Path(os.path.realpath(baseline.file))
    try:
        replace_file(target, document(baseline.counts).encode())
    except OSError as error:
        reason = error.strerror or str(error)
        raise BaselineError(f"{label(baseline.file)}: cannot be written: {reason}") from error


def document(counts: Mapping[Identity, int]) -> str:
    """The text of the file: an entry a line, sorted, so that diffs are short."""
    entries = (
        json.dumps(
            msgspec.to_builtins(EqualFindings(one.path, one.code, one.scope, one.line, count))
        )
        for one, count in sorted(counts.items())
    )
    lines = ",\n".join(f"    {entry}" for entry in entries)
    listed = f"[\n{lines}\n  ]" if lines else "[]"
    return f'{{\n  "amplint-baseline": {FORMAT},\n  "findings": {listed}\n}}\n'


# ------------------------------------------------------------------------------------- a run


class Ledger:
    """The known findings of one baseline, and which of them are found.

    Args:
        baseline: the known ones.
        paths: the files that it is for, relative to its directory.
    """

    def __init__(self, baseline: Baseline, paths: Collection[str]) -> None:
        self.baseline = baseline
        self.again: list[tuple[Identity, Identity]] = []  # known findings, and as they are now
        self.new: Counter[Identity] = Counter()
        self._own: dict[str, Counter[Identity]] = defaultdict(Counter)
        for identity, count in baseline.counts.items():
            self._own[identity.path][identity] = count
        directory = baseline.file.parent
        there = {printable(path) for path in paths}
        missing = [p for p in self._own if p not in there and not os.path.lexists(directory / p)]
        self._orphans = total(self._own.pop(path) for path in missing)

    @property
    def present(self) -> Counter[Identity]:
        """The known findings that were found so far, as they are now."""
        return Counter(now for _, now in self.again)

    @property
    def absent(self) -> Counter[Identity]:
        """The known findings that were not found so far."""
        return total([*self._own.values(), self._orphans])

    def enter(
        self, current: Sequence[Identity], former: Sequence[Identity | None], text: Text | None
    ) -> list[bool]:
        """Whether each finding of a file is a known one. A known one is entered once.

        Args:
            current: the findings.
            former: as each was known before its rule was cut out of another one, if it was.
            text: of the file.
        """
        own = self._own[current[0].path] if current else Counter()

        def lines() -> frozenset[str]:
            return frozenset(map(shortened, lines_of(text))) if text is not None else frozenset()

        result = match(current, own, lines, self._orphans)
        remaining = [
            (at, one)
            for at, (entry, one) in enumerate(zip(result, former, strict=True))
            if entry is None and one is not None
        ]
        again = match([one for _, one in remaining], own, lines, self._orphans)
        for (at, _), entry in zip(remaining, again, strict=True):
            result[at] = entry
        for identity, entry in zip(current, result, strict=True):
            if entry is None:
                self.new[identity] += 1
            else:
                self.again.append((entry, identity))
        return [entry is not None for entry in result]


class Ledgers:
    """The known findings of a run, of which each is entered once.

    Args:
        root: the directory that the paths of the run are relative to.
        baselines: by reported file, the one that it has, if it has one.
    """

    def __init__(self, root: Path, baselines: Known) -> None:
        self._root = root
        paths: dict[Path, list[str]] = defaultdict(list)
        for path, baseline in baselines.items():
            paths[baseline.file].append(_relative(root / path, baseline.file))
        by_file = {baseline.file: baseline for baseline in baselines.values()}
        ledgers = {file: Ledger(baseline, paths[file]) for file, baseline in by_file.items()}
        self._of = {path: ledgers[baseline.file] for path, baseline in baselines.items()}
        self.all = tuple(ledgers.values())

    def without_known(self, outcome: Outcome) -> Outcome:
        """The outcome with its new findings alone; of equal ones, the first are the known ones.

        Files are entered in the order of their paths, so that it is the same whether they come
        together or one by one. A file that cannot be parsed is never known: it would pass for one
        that was looked at.
        """
        by_path: dict[str, list[Finding]] = defaultdict(list)
        for finding in outcome.findings:
            if finding.path in self._of and finding.code != UNPARSABLE.code:
                by_path[finding.path].append(finding)
        known_ids: set[int] = set()
        for path, findings in sorted(by_path.items()):
            ledger = self._of[path]
            current = list(_identities(findings, outcome, ledger.baseline.file))
            former = list(map(_former, current, findings))
            is_known = ledger.enter(current, former, outcome.texts.get(path))
            known_ids |= {id(each) for each, yes in zip(findings, is_known, strict=True) if yes}
        if not known_ids:
            return outcome
        new = tuple(finding for finding in outcome.findings if id(finding) not in known_ids)
        old = tuple(finding for finding in outcome.findings if id(finding) in known_ids)
        left_out = (*outcome.left_out, phrase(old))
        return replace(outcome, findings=new, left_out=left_out)


def phrase(findings: Sequence[Finding]) -> str:
    """The count of findings that are left out because they are known."""
    return counted(len(findings), "known finding")


def fixed(ledger: Ledger, outcome: Outcome, request: Request) -> Counter[Identity]:
    """The known findings that are no longer reported: they are fixed, or the code or the settings
    ignore them now.

    Nothing is said of a file that was not looked at, unless it is gone, nor of a rule that is
    switched off, unless there is no such rule any more. That no rule has the letters of its code
    may be because the package that brings it is not installed here.
    """
    absent = ledger.absent
    if not absent:  # spares the import of all rules
        return absent
    directory = ledger.baseline.file.parent
    unparsable = {f.path for f in outcome.findings if f.code == UNPARSABLE.code}
    looked_at = {
        _relative(outcome.root / path, ledger.baseline.file)
        for path in outcome.files
        if path not in unparsable
    }
    letters = {letters_of(rule.code) for rule in request.rules}

    @cache
    def off(place: str) -> frozenset[str]:
        settings = request.settings.at(place)
        return frozenset(rule.code for rule in request.rules if not settings.may_report(rule))

    def is_fixed(identity: Identity) -> bool:
        file = absolute(directory / identity.path)
        is_on = identity.code not in off(file.rpartition("/")[0])
        can_be_found = is_on and letters_of(identity.code) in letters
        return can_be_found and (identity.path in looked_at or not os.path.lexists(file))

    return Counter({identity: count for identity, count in absent.items() if is_fixed(identity)})


def after_fixes(first: Outcome, last: Outcome, baselines: Known) -> dict[str, Baseline]:
    """The baselines that hold after fixes, by reported file: without the findings that the fixes
    have mended, and with the other ones as they are now.

    What a fix brings up in the definition of a known finding that is gone is the rest of that one.
    What was new before the fixes goes on to be new.

    Args:
        first: the outcome before the fixes.
        last: the outcome after them.
        baselines: the known findings before them, by reported file.
    """
    before = Ledgers(first.root, baselines)
    before.without_known(first)
    there = {
        each.baseline.file: Baseline(each.baseline.file, total([each.present, each.new]))
        for each in before.all
    }
    after = Ledgers(last.root, {path: there[each.file] for path, each in baselines.items()})
    after.without_known(last)
    hold: dict[Path, Baseline] = {}
    for old, now in zip(before.all, after.all, strict=True):
        present, survivors = old.present, Counter[Identity]()
        for entry, identity in now.again:
            if present[entry] > 0:  # else it was a new one
                present[entry] -= 1
                survivors[identity] += 1
        mended = Counter((each.path, each.scope) for each in present.elements())
        rest: Counter[Identity] = Counter()
        for identity in now.new.elements():
            if mended[identity.path, identity.scope] > 0:
                mended[identity.path, identity.scope] -= 1
                rest[identity] += 1
        file = old.baseline.file
        hold[file] = Baseline(file, total([old.absent, survivors, rest]))
    return {path: hold[each.file] for path, each in baselines.items()}


def of_run(request: Request) -> Known:
    """The known findings, by reported file; of none where no baseline is named, and there is
    none. Raises BaselineError."""
    baselines: dict[str, Baseline] = {}
    for file, paths in files_of(request).items():
        named = request.settings_of(paths[0]).baseline is not None
        if named or os.path.lexists(file):
            baselines |= dict.fromkeys(paths, read(file))
    return baselines


def only_new(outcome: Outcome, baselines: Known) -> Outcome:
    """The outcome without the known findings, where one that is not found may be there all the
    same: a run of a program shows some of them."""
    return Ledgers(outcome.root, baselines).without_known(outcome) if baselines else outcome


def new_since(outcome: Outcome, before: Outcome) -> Outcome:
    """The outcome with the findings that an earlier one of the same files does not have."""
    file = outcome.root / NAME
    earlier = Ledgers(before.root, dict.fromkeys(before.files, Baseline(file, {})))
    earlier.without_known(before)
    baseline = Baseline(file, total(ledger.new for ledger in earlier.all))
    new = Ledgers(outcome.root, dict.fromkeys(outcome.files, baseline)).without_known(outcome)
    return replace(outcome, findings=new.findings)


def without_known(outcome: Outcome, baselines: Known, request: Request) -> Outcome:
    """The outcome without the known findings; a notice says if some of them are gone."""
    if not baselines:
        return outcome
    ledgers = Ledgers(outcome.root, baselines)
    new = ledgers.without_known(outcome)
    for ledger in ledgers.all:
        if drop := fixed(ledger, outcome, request).total():
            are = (
                f"{counted(drop, 'finding')} {'is' if drop == 1 else 'are'} fixed or ignored by now"
            )
            name = label(ledger.baseline.file)
            hint = f"{name}: {are}; `amplint baseline --update` drops them"
            new = replace(new, notices=(*new.notices, hint))
    return new


def keep_in_step(first: Outcome, last: Outcome, baselines: Known) -> tuple[Known, Outcome]:
    """Write the baselines that hold after fixes, which have made the last outcome of the first.
    Returns them, and the last outcome with a notice for each that has changed. Raises
    BaselineError."""
    after = after_fixes(first, last, baselines)
    pairs = {before.file: (before, after[path]) for path, before in baselines.items()}
    for before, now in pairs.values():
        if before.counts != now.counts:
            write(now)
            drop = before.total - now.total
            change = f", {drop} fewer" if drop else ", some on lines that were edited"
            notice = f"{label(now.file)}: {counted(now.total, 'known finding')}{change}"
            last = replace(last, notices=(*last.notices, notice))
    return after, last


def total(counters: Iterable[Counter[Identity]]) -> Counter[Identity]:
    counts: Counter[Identity] = Counter()
    for each in counters:
        counts.update(+each)
    return counts


def _identities(findings: Iterable[Finding], outcome: Outcome, file: Path) -> Iterator[Identity]:
    """The identities of findings in one file, as a baseline has them."""
    for identity in identities(findings, outcome.texts):
        yield Identity(
            printable(_relative(outcome.root / identity.path, file)),
            identity.code,
            shortened(identity.line),
            printable(identity.scope),
        )


def _former(identity: Identity, finding: Finding) -> Identity | None:
    return identity._replace(code=finding.former.code) if finding.former is not None else None


def _relative(path: Path, file: Path) -> str:
    return seen_from(file.parent, path)


def shortened(line: str) -> str:
    line = printable(line)
    if len(line) <= WIDEST:
        return line
    digest = hashlib.sha256(line.encode()).hexdigest()[:16]
    return f"{line[:WIDEST]}… {digest}"


def printable(text: str) -> str:
    """The text without lone surrogates, which JSON cannot carry: names of files may hold them."""
    return text.encode("utf-8", "backslashreplace").decode()


def label(file: Path) -> str:
    """The file as the user would write it."""
    return seen_from(".", file)
