"""Whether the findings depend on the order in which functions are evaluated, or on hashes.

    python -m benchmarks.one_answer [PACKAGE...] [--cache DIR] [--seeds N] [--hash-seeds N]

Each package is checked in the order that amplint takes, and then with each seed in a random one:
the next function to be evaluated is any of those that wait, and the files are named in any order.
After that it is checked in processes of other hash seeds, in which sets have other orders. Prints
how many findings differ in anything, and those that differ in more than the places that they rest
on. Exits with 1 when any do.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest import mock

from amplint.findings.finding import Finding
from amplint.inference.queue import Queue
from amplint.run import engine
from amplint.run.request import Request
from benchmarks.packages import Package, arguments, fetch, load, request_for, sources

Said = Finding | str


def shuffled(request: Request, seed: int) -> Counter[Said]:
    """What amplint says of a project, with functions evaluated in a random order."""
    chance = random.Random(seed)

    def pick(queue: Queue) -> str:
        return chance.choice(sorted(queue._waiting))

    paths = list(request.selection.files)
    chance.shuffle(paths)
    selection = replace(request.selection, files=tuple(paths))
    with mock.patch.object(Queue, "_next", pick):
        return said(replace(request, selection=selection))


def said_with_hashes(package: Package, cache: Path, seed: int) -> str:
    """The reports of a process with a hash seed, as text."""
    words = [sys.executable, "-m", "benchmarks.one_answer", package.name, "--say"]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    words += ["--cache", str(cache)]
    return subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout


def said(request: Request) -> Counter[Said]:
    outcome = engine.run(request)
    return Counter((*outcome.findings, *outcome.problems, *outcome.notices))


def without_evidence(reports: Counter[Said]) -> Counter[Said]:
    """The reports, with no places that a finding rests on."""
    bare: Counter[Said] = Counter()
    for report, number in reports.items():
        bare[replace(report, related=()) if isinstance(report, Finding) else report] += number
    return bare


def told(sign: str, reports: Counter[Said]) -> None:
    for report in reports.elements():
        if isinstance(report, Finding):
            place = f"{report.path}:{report.span.start.row}"
            print(f"    {sign}  {place}  {report.code}  {report.message}", flush=True)
        else:
            print(f"    {sign}  {report}", flush=True)


def differ_by_order(request: Request, seeds: int) -> int:
    """How many random orders give other findings, which are printed."""
    different = 0
    usual = said(request)
    print(f"  {usual.total()} findings", flush=True)
    for seed in range(seeds):
        found = shuffled(request, seed)
        if found != usual:
            different += 1
            bare, others = without_evidence(usual), without_evidence(found)
            print(f"  seed {seed}: {(usual - found).total()} differ", flush=True)
            told("went", bare - others)
            told("came", others - bare)
    return different


def differ_by_hashes(package: Package, cache: Path, seeds: int) -> int:
    """How many hash seeds give other findings than the first."""
    reports = [said_with_hashes(package, cache, seed) for seed in range(seeds)]
    different = sum(report != reports[0] for report in reports)
    if different:
        print(f"  {different} of {seeds} hash seeds differ from the first", flush=True)
    return different


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--hash-seeds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--say", action="store_true", help="print what is found, and nothing else")
    options = parser.parse_args()
    different = 0
    for package in load(options.packages, among="ci"):
        tree = fetch(package, options.cache)
        request = request_for(tree, sources(package, tree))
        if options.say:
            print(*sorted(map(repr, said(request).elements())), sep="\n")
            continue
        print(f"{package.name} {package.version}", flush=True)
        different += differ_by_order(request, options.seeds)
        different += differ_by_hashes(package, options.cache, options.hash_seeds)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
