"""A run and an earlier one: what has come and gone since its report in JSON, or since a baseline.

Findings are known again as those of a baseline are (`matching`): across edits, and not by rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from amplint.claim.finding import Finding, by_place
from amplint.output import baseline
from amplint.output.baseline import Baseline, Ledgers, shortened
from amplint.rule.of_engine import UNPARSABLE
from amplint.run.fingerprint import Identity
from amplint.run.request import Outcome, Request
from amplint.util import files
from amplint.util.errors import Failure
from amplint.util.paths import seen_from


@dataclass(frozen=True)
class Earlier:
    """The findings of an earlier run.

    Args:
        name: of the file, as the user has written it.
        baseline: the findings.
        is_baseline: whether the file is one; else it is a report.
    """

    name: str
    baseline: Baseline
    is_baseline: bool


@dataclass(frozen=True)
class Comparison:
    """A run, held against an earlier one.

    Args:
        name: the file that it is held against.
        came: the new findings, by `id`: two may be equal.
        gone: the earlier ones that are fixed or ignored by now; their paths are seen from where
            the reader stands.
    """

    name: str
    came: frozenset[int]
    gone: Mapping[Identity, int]

    def is_new(self, finding: Finding) -> bool:
        return id(finding) in self.came


def read(file: Path) -> Earlier:
    """The findings in a baseline, or in a report of `--format json`, whose paths are seen from the
    current directory. Raises Failure."""
    name = baseline.shown(file)
    try:
        document = json.loads(files.read(file, baseline.MOST_BYTES).decode("utf-8-sig"))
    except OSError as error:
        raise Failure(f"{name}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise Failure(f"{name}: is not JSON: {error}") from None
    if not isinstance(document, list):
        return Earlier(name, baseline.read(file), True)
    known = Counter(identity_in(entry, name) for entry in document)
    return Earlier(name, Baseline(Path.cwd() / file.name, known), False)


def identity_in(entry: object, name: str) -> Identity:
    """The identity of a finding in a report. Raises Failure."""
    found = entry if isinstance(entry, dict) else {}
    values = [found.get(key) for key in ("filename", "code", "line", "scope")]
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) < len(values):
        needed = "an object with `filename`, `code`, `line` and `scope` for each finding"
        raise Failure(
            f"{name}: is neither a baseline nor a report of `--format json` with {needed}"
        )
    path, code, line, scope = map(baseline.printable, texts)
    return Identity(path, code, shortened(line), scope)


def compare(outcome: Outcome, request: Request, earlier: Earlier) -> tuple[Outcome, Comparison]:
    """The outcome to show, and what is new in it. With a baseline, it has the known findings too,
    which is what they are shown for."""
    everything = sorted((*outcome.findings, *outcome.known), key=by_place)
    full = replace(outcome, findings=tuple(everything), known=())
    ledgers = Ledgers(outcome.root, dict.fromkeys(request.project.reported, earlier.baseline))
    left = ledgers.without_known(full).findings
    new = {id(finding) for finding in left if not was_unparsable(finding, outcome.root, earlier)}
    gone: Counter[Identity] = Counter()
    for ledger in ledgers.all:
        gone += baseline.fixed(ledger, full, request)
    here = Path.cwd()
    directory = earlier.baseline.file.parent
    seen = Counter[Identity]()
    for identity, count in gone.items():
        seen[identity._replace(path=seen_from(here, directory / identity.path))] += count
    shown = outcome
    if earlier.is_baseline and outcome.known:
        left_out = [one for one in outcome.left_out if one != baseline.phrase(outcome.known)]
        shown = replace(full, left_out=tuple(left_out))
    came = frozenset(id(finding) for finding in shown.findings) & new
    return shown, Comparison(earlier.name, came, seen)


def was_unparsable(finding: Finding, root: Path, earlier: Earlier) -> bool:
    """Whether a finding says that a file cannot be parsed, and it could not be earlier: that is no
    known finding of a baseline, and nothing new either."""
    known = earlier.baseline
    path = baseline.printable(seen_from(known.file.parent, root / finding.path))
    return finding.code == UNPARSABLE.code and any(
        (each.path, each.code) == (path, finding.code) for each in known.known
    )
