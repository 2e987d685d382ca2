"""Whether the findings depend on the order in which functions are evaluated.

    python -m benchmarks.one_answer [PACKAGE...] [--cache DIR] [--seeds N]

Each package is checked in the order that amplint takes, and then with each seed in a random one:
the next function to be evaluated is any of those that wait. Prints how many findings differ in
anything, and those that differ in more than the places that they rest on. Exits with 1 when any do.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import replace
from unittest import mock

from amplint.core.finding import Finding
from amplint.inference import Inference
from amplint.run import engine
from amplint.run.request import Request
from benchmarks.packages import arguments, fetch, load, sources
from benchmarks.whole_file import request_for

Said = Finding | str


def shuffled(request: Request, seed: int) -> Counter[Said]:
    """What amplint says of a project, with functions evaluated in a random order."""
    chance = random.Random(seed)

    def pick(self: Inference) -> str:
        return chance.choice(sorted(self._queue))

    with mock.patch.object(Inference, "_next", pick):
        return said(request)


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


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="default: %(default)s")
    options = parser.parse_args()
    packages = load(options.packages, among="ci")
    different = 0
    for package in packages:
        tree = fetch(package, options.cache)
        request = request_for(tree, sources(package, tree))
        usual = said(request)
        print(f"{package.name} {package.version}: {usual.total()} findings", flush=True)
        for seed in range(options.seeds):
            found = shuffled(request, seed)
            if found != usual:
                different += 1
                bare, others = without_evidence(usual), without_evidence(found)
                print(f"  seed {seed}: {(usual - found).total()} differ", flush=True)
                told("went", bare - others)
                told("came", others - bare)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
