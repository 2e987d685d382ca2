"""Whether amplint, which shows its checks few nodes, finds all that they have to say.

    python -m benchmarks.every_node [PACKAGE...] [--cache DIR]

A check is run on the value graph alone first, and only of nodes that tables lead to: by operation,
by the name of the callee, by what their functions are known to hold. Where it comes to nothing
there, it is never run with the code at hand. The long way has none of this: every node, tested
value, context and function of a project is held against the condition of every check, and the
check is run with the code at hand at once.

Both ways have in common how files are read and linked, and the answers to what checks ask. Findings
are compared in all that they say: place, message, scope, strength, fix with its edits, related
places; so are problems and notices. All rules are on. Writes results/every_node.json when no
package is named; exits with 1 when anything differs.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from unittest import mock

from amplint.facts.fact import Facts
from amplint.facts.trait import Trait
from amplint.findings.finding import Finding
from amplint.ir.file_set import Files
from amplint.rule.rule import Rule
from amplint.rule.search import Candidate, CandidateSearch, FileCandidates
from amplint.run import analysis, engine
from amplint.run.request import Outcome, Request
from benchmarks.packages import RESULTS, arguments, fetch, load, request_for, sources

PACKAGES = ("pytorch-ignite", "recbole")


class Everywhere(CandidateSearch):
    """A search that leaves out nothing but what the conditions of checks leave out themselves."""

    def __init__(self, files: Files, facts: Facts, rules: Sequence[Rule], _: object) -> None:
        super().__init__(files, facts, rules)
        self._all = rules

    def of(self, path: str) -> FileCandidates:
        """The nodes of a file that meet the condition of a check."""
        return FileCandidates([*self._meeting(path)])

    def _meeting(self, path: str) -> Iterator[Candidate]:
        for op, here in self.every_node(path):
            for rule in self._all:
                for number, check in enumerate(rule.checks):
                    if any(
                        way.lacking(op, here, frozenset(Trait), way.symbols or frozenset()) == []
                        for way in check.condition.ways
                    ):
                        yield Candidate(here.location[0], rule.code, number, here)


@dataclass(frozen=True)
class Said:
    """What one way says, and of how many nodes it has run a check with the code at hand."""

    outcome: Outcome
    shown: int


def run(request: Request, search: type[CandidateSearch] = CandidateSearch) -> Said:
    """`engine.run` with a search of candidates; nothing that was found before is used."""
    count = multiprocessing.Value("q")  # files are judged in several processes

    class Counted(search):  # type: ignore[misc, valid-type]  # the caller chooses the base
        def of(self, path: str) -> FileCandidates:
            found: FileCandidates = super().of(path)
            with count.get_lock():
                count.value += len(found.nodes)
            return found

    with mock.patch.object(analysis, "CandidateSearch", Counted):
        outcome = engine.run(replace(request, indexed={}, cache=None))
    return Said(outcome, count.value)


def said(outcome: Outcome) -> Counter[Finding | str]:
    """All that can differ."""
    return Counter((*outcome.findings, *outcome.problems, *outcome.notices))


@dataclass(frozen=True)
class Difference:
    """How many findings, problems and notices only one of the ways has.

    Args:
        lost: of the long way.
        made_up: of the short one.
    """

    lost: int
    made_up: int


@dataclass(frozen=True)
class Compared:
    """What both ways say of one package.

    Args:
        shown, shown_everywhere: the nodes that checks were shown with the code at hand, by the
            short way and by the long one; a node counts once for each check.
        findings: of the short way.
    """

    version: str
    files: int
    lines: int
    shown: int
    shown_everywhere: int
    findings: int
    difference: Difference


def compare(version: str, root: Path, files: Sequence[Path]) -> Compared:
    """Analyse files both ways."""
    request = request_for(root, files)
    short, long = run(request), run(request, Everywhere)
    return Compared(
        version=version,
        files=len(files),
        lines=sum(file.read_bytes().count(b"\n") for file in files),
        shown=short.shown,
        shown_everywhere=long.shown,
        findings=len(short.outcome.findings),
        difference=told(short.outcome, long.outcome),
    )


def told(short: Outcome, long: Outcome) -> Difference:
    """How outcomes differ; what only one of them has is printed."""
    lost, made_up = said(long) - said(short), said(short) - said(long)
    for sign, some in (("-", lost), ("+", made_up)):
        for one in sorted(map(str, some)):
            print(f"{sign} {one}")
    return Difference(lost.total(), made_up.total())


def main() -> None:
    options = arguments(__doc__).parse_args()
    found: dict[str, Compared] = {}
    print(
        f"{'package':<18}{'files':>7}{'lines':>9}{'shown':>8}{'of':>9}"
        f"{'findings':>10}{'lost':>6}{'made up':>9}"
    )
    for package in load(options.packages or PACKAGES):
        tree = fetch(package, options.cache)
        one = found[package.name] = compare(package.version, tree, list(sources(package, tree)))
        print(
            f"{package.name:<18}{one.files:>7}{one.lines:>9}{one.shown:>8}{one.shown_everywhere:>9}"
            f"{one.findings:>10}{one.difference.lost:>6}{one.difference.made_up:>9}",
            flush=True,
        )
    if not options.packages:
        summary = {name: asdict(one) for name, one in sorted(found.items())}
        (RESULTS / "every_node.json").write_text(
            json.dumps(summary, indent=1) + "\n", encoding="utf-8"
        )
    sys.exit(0 if all(one.difference == Difference(0, 0) for one in found.values()) else 1)


if __name__ == "__main__":
    main()
