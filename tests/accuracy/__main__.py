"""Hold amplint's findings on real training code against what a reviewer said of it beforehand.

    python -m tests.accuracy [PACKAGE...] [--cache DIR] [--validation SET] [--save FILE]

Downloads the pinned packages, runs amplint over them, and prints, for each labelled rule, its
precision and recall, then every miss and every false alarm. Writes score.json beside this file when
all labelled packages were run. README.md tells what the labels mean; findings at places that nobody
judged are listed and not counted. With `--validation`, the packages are those of one set that was
labelled before amplint ever ran on them; the figures of its first run are kept in validation/, and
only `--save` writes any.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.packages import Package, arguments, check, fetch, load

HERE = Path(__file__).resolve().parent
LABELS = HERE / "labels"
VALIDATION = HERE / "validation"

LABEL = re.compile(
    r"(?P<path>[^\s:]+):(?P<places>\S+) (?P<code>AMP\d{3}) "
    r"(?P<verdict>yes|no|either) `(?P<text>[^`]+)` (?P<reason>.+)"
)


@dataclass(frozen=True)
class Label:
    """A judged mistake or near miss, and the places where it may be reported."""

    package: str
    code: str
    verdict: str
    places: tuple[tuple[str, int], ...]
    text: str
    reason: str

    def __str__(self) -> str:
        path, row = self.places[0]
        return f"{self.package} {path}:{row} {self.code} `{self.text}` {self.reason}"


@dataclass(frozen=True)
class Reported:
    """A finding of amplint."""

    package: str
    path: str
    code: str
    first: int
    last: int
    message: str

    def __str__(self) -> str:
        return f"{self.package} {self.path}:{self.first} {self.code} {self.message}"


@dataclass
class Score:
    """How one rule did."""

    found: list[Label] = field(default_factory=list)
    missed: list[Label] = field(default_factory=list)
    false: list[tuple[Reported, str]] = field(default_factory=list)
    unjudged: list[Reported] = field(default_factory=list)

    @property
    def precision(self) -> float | None:
        spoken = len(self.found) + len(self.false)
        return len(self.found) / spoken if spoken else None

    @property
    def recall(self) -> float | None:
        wanted = len(self.found) + len(self.missed)
        return len(self.found) / wanted if wanted else None


@dataclass(frozen=True)
class Labels:
    """The judged places, and the parts of the packages where all places are judged."""

    labels: tuple[Label, ...]
    complete: frozenset[tuple[str, str, str]]

    def parts(self, package: str) -> list[str]:
        """The files and directories of a package that are labelled."""
        files = {
            path for label in self.labels if label.package == package for path, _ in label.places
        }
        whole = {path for of, path, _ in self.complete if of == package}
        inside = {f for f in files if any(_within(f, part) for part in whole)}
        return sorted(whole | (files - inside))

    def is_complete(self, reported: Reported) -> bool:
        return any(
            (package, code) == (reported.package, reported.code) and _within(reported.path, path)
            for package, path, code in self.complete
        )


def _within(path: str, part: str) -> bool:
    return path.startswith(part) if part.endswith("/") else path == part


def read_labels(*directories: Path) -> Labels:
    labels: list[Label] = []
    complete: set[tuple[str, str, str]] = set()
    for file in sorted(file for each in directories for file in each.glob("*.txt")):
        of_file, parts = _read_file(file)
        labels += of_file
        complete |= parts
    return Labels(tuple(labels), frozenset(complete))


def _read_file(file: Path) -> tuple[list[Label], set[tuple[str, str, str]]]:
    labels: list[Label] = []
    complete: set[tuple[str, str, str]] = set()
    package = file.stem
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("complete "):
            _, path, *codes = line.split()
            complete.update((package, path, code) for code in codes)
            continue
        match = LABEL.fullmatch(line)
        if match is None:
            sys.exit(f"{file.name}:{number}: not a label")
        labels.append(
            Label(
                package,
                match["code"],
                match["verdict"],
                tuple(_places(match["path"], match["places"])),
                match["text"],
                match["reason"],
            )
        )
    return labels, complete


def _places(path: str, places: str) -> Iterator[tuple[str, int]]:
    for place in places.split("|"):
        other, colon, row = place.rpartition(":")
        yield (other if colon else path, int(row))


def verify(labels: Labels, package: Package, tree: Path) -> None:
    """Each label quotes its line; a label that does not is about another release."""
    for label in labels.labels:
        if label.package != package.name:
            continue
        path, row = label.places[0]
        lines = (tree / path).read_text(encoding="utf-8").split("\n")
        if label.text not in lines[row - 1]:
            sys.exit(f"{package.name}.txt: {path}:{row} does not hold `{label.text}`")


def reports(labels: Labels, package: Package, tree: Path) -> list[Reported]:
    """The findings in the labelled parts of a package; the rest of it is linked all the same."""
    findings, run = check(package, tree, labels.parts(package.name))
    if run.status not in (0, 1):
        print(f"{package.name}: check ended with {run.status}\n{run.stderr}", file=sys.stderr)
    return [
        Reported(
            package.name,
            _relative(found, tree),
            found["code"],
            found["location"]["row"],
            found["end_location"]["row"],
            found["message"].split("\n")[0],
        )
        for found in findings
    ]


def _relative(found: dict[str, Any], tree: Path) -> str:
    path = Path(found["filename"])
    return path.relative_to(tree).as_posix() if path.is_absolute() else path.as_posix()


def judge(labels: Labels, findings: list[Reported], packages: set[str]) -> dict[str, Score]:
    scores: dict[str, Score] = {label.code: Score() for label in labels.labels}
    by_place: dict[tuple[str, str, str], list[tuple[int, Label]]] = defaultdict(list)
    for label in labels.labels:
        for path, row in label.places:
            by_place[label.package, path, label.code].append((row, label))

    hit: set[Label] = set()
    seen: set[tuple[str, str, str, int]] = set()
    for found in findings:
        place = (found.package, found.path, found.code, found.first)
        if found.code not in scores or place in seen:
            continue
        seen.add(place)
        near = _label_of(found, by_place[found.package, found.path, found.code])
        score = scores[found.code]
        if near is not None and near.verdict != "no":
            hit.add(near)
        elif near is not None:
            score.false.append((found, near.reason))
        elif labels.is_complete(found):
            score.false.append((found, "not on the list of its file"))
        else:
            score.unjudged.append(found)
    for label in labels.labels:
        if label.verdict == "yes" and label.package in packages:
            score = scores[label.code]
            (score.found if label in hit else score.missed).append(label)
    return dict(sorted(scores.items()))


def _label_of(found: Reported, candidates: list[tuple[int, Label]]) -> Label | None:
    inside = [(row, label) for row, label in candidates if found.first <= row <= found.last]
    if not inside:
        return None
    order = ("yes", "either", "no")
    return min(inside, key=lambda pair: (pair[0] != found.first, order.index(pair[1].verdict)))[1]


def show(scores: dict[str, Score]) -> None:
    print(f"{'rule':<8}{'yes':>5}{'found':>7}{'missed':>8}{'false':>7}{'unjudged':>10}", end="")
    print(f"{'precision':>11}{'recall':>8}")
    for code, score in scores.items():
        wanted = len(score.found) + len(score.missed)
        print(
            f"{code:<8}{wanted:>5}{len(score.found):>7}{len(score.missed):>8}{len(score.false):>7}"
            f"{len(score.unjudged):>10}{_percent(score.precision):>11}{_percent(score.recall):>8}"
        )
    for score in scores.values():
        for label in score.missed:
            print(f"missed: {label}")
        for found, reason in score.false:
            print(f"false: {found}\n       because: {reason}")
        for found in score.unjudged:
            print(f"unjudged: {found}")
        if score.missed or score.false or score.unjudged:
            print()


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def main() -> None:
    parser = arguments(__doc__)
    sets = sorted(each.name for each in VALIDATION.iterdir() if each.is_dir())
    parser.add_argument("--validation", choices=sets, help="packages that nobody had seen")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    labels = read_labels(VALIDATION / options.validation if options.validation else LABELS)
    labelled = sorted({label.package for label in labels.labels})

    packages = load(options.packages or labelled)
    trees = {package: fetch(package, options.cache) for package in packages}
    for package, tree in trees.items():
        verify(labels, package, tree)
    # Each runs amplint in a process of its own. The largest go first: they end last.
    largest_first = sorted(packages, key=lambda each: -sum(1 for _ in trees[each].rglob("*.py")))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        of_packages = pool.map(lambda each: reports(labels, each, trees[each]), largest_first)
        findings = [found for of_package in of_packages for found in of_package]
    scores = judge(labels, findings, {package.name for package in packages})
    show(scores)
    if not options.packages:
        summary = {
            code: {
                "labelled": len(score.found) + len(score.missed),
                "found": len(score.found),
                "missed": len(score.missed),
                "false": len(score.false),
                "unjudged": len(score.unjudged),
                "precision": None if score.precision is None else round(score.precision, 3),
                "recall": None if score.recall is None else round(score.recall, 3),
            }
            for code, score in scores.items()
        }
        file = options.save or (None if options.validation else HERE / "score.json")
        if file is not None:
            file.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
