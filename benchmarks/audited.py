"""Draw from what `assume-autocast = true` adds to the findings in the labelled packages.

    python -m benchmarks.audited [PACKAGE...] [--cache DIR] [--seed N] [--draw N]

Runs amplint over the packages that tests/accuracy has labels for, with the default settings and
with that one, and takes away from the findings of the second run those that stand at the same
place in the first. Prints how many are left, by rule and by package, and then a draw of them with
the code around, to be read. What was said of them stands in review/audited.md.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.packages import Package, arguments, check, fetch, load
from tests.accuracy.__main__ import LABELS, VALIDATION, read_labels

AUDITED = ("--assume-autocast", "true")
ABOVE, BELOW = 14, 4  # lines of code that are shown around a finding


class Addition(NamedTuple):
    """A finding that the default settings do not give."""

    package: str
    path: str
    row: int
    code: str
    message: str


def additions(package: Package, tree: Path) -> list[Addition]:
    """What the setting adds to the findings in a package, in their order."""
    before, _ = check(package, tree)
    after, _ = check(package, tree, options=AUDITED)
    known = {place(found) for found in before}
    return sorted(
        Addition(package.name, *place(found), found["message"])
        for found in after
        if place(found) not in known
    )


def place(found: dict[str, Any]) -> tuple[str, int, str]:
    return found["filename"], found["location"]["row"], found["code"]


def shown(addition: Addition, tree: Path) -> Iterator[str]:
    """A finding with the code around it."""
    yield f"{addition.package} {addition.path}:{addition.row} {addition.code} {addition.message}"
    lines = (tree / addition.path).read_text(encoding="utf-8").split("\n")
    first = max(addition.row - ABOVE, 1)
    for row, line in enumerate(lines[first - 1 : addition.row + BELOW], first):
        yield f"{'>' if row == addition.row else ' '}{row:5} {line}"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--draw", type=int, default=100, metavar="N", help="how many to show")
    options = parser.parse_args()
    sets = [LABELS, *(each for each in VALIDATION.iterdir() if each.is_dir())]
    labelled = sorted({label.package for label in read_labels(*sets).labels})
    packages = load(options.packages or labelled)
    trees = {package.name: fetch(package, options.cache) for package in packages}
    found = [each for package in packages for each in additions(package, trees[package.name])]
    for name, counts in (
        ("rule", Counter(each.code for each in found)),
        ("package", Counter(each.package for each in found)),
    ):
        print(f"by {name}:", ", ".join(f"{key} {n}" for key, n in sorted(counts.items())))
    drawn = random.Random(options.seed).sample(found, min(options.draw, len(found)))
    print(f"{len(found)} additions; seed {options.seed}, {len(drawn)} drawn")
    for number, addition in enumerate(sorted(drawn), 1):
        print(f"\n{number}.", *shown(addition, trees[addition.package]), sep="\n")


if __name__ == "__main__":
    main()
