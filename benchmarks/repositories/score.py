"""Hold amplint's findings in training repositories against their labels.

    python -m benchmarks.repositories.score SET DIR [--missed] [--false] [--save FILE]

SET is a directory beside this file (`ninth`), DIR holds its repositories, as
`benchmarks.repositories.draw take` lays them out. Only the files of files.txt count.

A label says which kind of mistake stands on a line (a category), whether it is one (`positive`) or
a near miss (`negative`), and how sure that is. A finding takes the nearest label of its category
that no other has taken, at most one row away. Precision counts findings on positives against those
on sure negatives and, in the categories that amplint was started for, on lines without a label.
Recall is of sure positives; reads in evaluation and inference, which a rule reports that is off by
default (AMP102), are left out of it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
READS = ("sync-in-loop", "sync-in-forward", "sync-in-loop-eval", "sync-in-infer-loop")
IN_EVALUATION = READS[2:]
BUILT = "factory-device-cpu-then-move"
# What amplint was started for: there a finding without a label is a false alarm.
STARTED_FOR = frozenset(
    {"sync", "factory-dtype", BUILT, "backward-in-autocast", "mixed-where", "dataparallel"}
)
# By the beginnings of codes, the longest first. AMP106, 202, 502 and 504 report what the labels do
# not speak of as well, so that without a label they count for nothing.
CATEGORIES: Mapping[str, str] = {
    "AMP10": "sync", "AMP110": "sync", "AMP113": "sync", "AMP111": "empty-cache-in-loop",
    "AMP201": "factory-dtype", "AMP202": BUILT, "AMP203": "mixed-where",
    "AMP205": "manual-half", "AMP206": "manual-half", "AMP207": "manual-half",
    "AMP301": "backward-in-autocast", "AMP302": "optimizer-step-in-autocast",
    "AMP303": "optimizer-step-in-autocast", "AMP304": "bce-in-autocast",
    "AMP308": "scaler-protocol", "AMP309": "custom-function", "AMP4": "scaler-protocol",
    "AMP501": BUILT, "AMP502": BUILT, "AMP504": BUILT,
    "AMP505": "transfer", "AMP506": "transfer", "AMP507": "transfer", "AMP509": "transfer",
    "AMP91": "transfer", "AMP60": "dataparallel", "AMP70": "deprecated-amp-api",
    "AMP8": "half-range", "AMP901": "graph-retention",
}  # fmt: skip
SPEAKS_OF_MORE = ("AMP106", "AMP202", "AMP502", "AMP504")


@dataclass
class Tally:
    """The findings and labels of some categories."""

    sure: int = 0
    found: int = 0
    hits: int = 0
    on_sure_negatives: int = 0
    unlabelled: int = 0
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        reported = self.hits + self.on_sure_negatives + self.unlabelled
        return {
            "recall": round(self.found / self.sure, 3) if self.sure else None,
            "precision": round(self.hits / reported, 3) if reported else None,
            **asdict(self),
        }


def category_of(code: str) -> str | None:
    return next((CATEGORIES[code[:n]] for n in (6, 5, 4) if code[:n] in CATEGORIES), None)


def group_of(category: str) -> str:
    return "sync" if category in READS else category


def findings_in(root: Path) -> list[dict[str, Any]]:
    """The findings of the default rules in a repository."""
    command = [sys.executable, "-m", "amplint", "check", "--no-cache", "--format", "json", "."]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1):
        raise SystemExit(f"{root.name}: status {ran.returncode}: {ran.stderr[-500:]}")
    found: list[dict[str, Any]] = json.loads(ran.stdout)
    return found


def tally_of(labels: Iterable[dict[str, Any]], findings: Sequence[dict[str, Any]]) -> Tally:
    """What stands in one file, in one group of categories."""
    tally, taken, said = Tally(), set[int](), set[int]()
    labels = list(labels)
    at = {id(label): f"{label['repository']}/{label['path']}:{label['line']}" for label in labels}
    spans = [(f["location"]["row"], f["end_location"]["row"]) for f in findings]
    pairs = sorted(
        (abs(label["line"] - start), label["label"] != "positive", number, index)
        for number, (start, end) in enumerate(spans)
        for index, label in enumerate(labels)
        if start - 1 <= label["line"] <= end + 1
    )
    for _, _, number, index in pairs:
        if number in said or index in taken:
            continue
        said.add(number)
        taken.add(index)
        label = labels[index]
        if label["label"] == "positive":
            tally.hits += 1
        elif label["certainty"] == "sure":
            tally.on_sure_negatives += 1
            tally.false.append(f"{at[id(label)]} {findings[number]['code']} {label['why']}")
    near = {number for _, _, number, _ in pairs}
    for number, finding in enumerate(findings):
        is_counted = group_of(category_of(finding["code"]) or "") in STARTED_FOR
        if number not in near and is_counted and finding["code"] not in SPEAKS_OF_MORE:
            tally.unlabelled += 1
            place = f"{finding['filename']}:{spans[number][0]}"
            tally.false.append(f"{place} {finding['code']} without a label: {finding['message']}")
    for index, label in enumerate(labels):
        counts = label["label"] == "positive" and label["certainty"] == "sure"
        if counts and label["category"] not in IN_EVALUATION:
            tally.sure += 1
            tally.found += index in taken
            if index not in taken:
                tally.missed.append(f"{at[id(label)]} {label['category']} {label['why']}")
    return tally


def total(tallies: Iterable[Tally]) -> Tally:
    whole = Tally()
    for tally in tallies:
        for name, value in asdict(tally).items():
            setattr(whole, name, getattr(whole, name) + value)
    return whole


def score(labelled: Path, repositories: Path) -> dict[str, Tally]:
    """By category, and of all together."""
    chosen = set((labelled / "files.txt").read_text().split())
    labels: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for file in sorted((labelled / "labels").glob("*.jsonl")):
        for label in map(json.loads, file.read_text().splitlines()):
            path = f"{label['repository']}/{label['path']}"
            labels[path, group_of(label["category"])].append(label)
    labelled_groups = {group for _, group in labels}
    for name in sorted({path.partition("/")[0] for path in chosen}):
        for finding in findings_in(repositories / name):
            category = category_of(finding["code"])
            path = f"{name}/{finding['filename']}"
            if category in labelled_groups and path in chosen:
                found[path, category].append({**finding, "filename": path})
    by_group: dict[str, list[Tally]] = defaultdict(list)
    for key in sorted(labels.keys() | found.keys()):
        by_group[key[1]].append(tally_of(labels[key], found[key]))
    tallies = {group: total(each) for group, each in sorted(by_group.items())}
    started_for = total(tally for group, tally in tallies.items() if group in STARTED_FOR)
    return {**tallies, "started for": started_for, "all": total(tallies.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("set")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--missed", action="store_true", help="list the sure mistakes not found")
    parser.add_argument("--false", action="store_true", help="list the false alarms")
    parser.add_argument("--save", type=Path, metavar="FILE")
    options = parser.parse_args()
    tallies = score(HERE / options.set, options.directory)
    for name, tally in tallies.items():
        shown = tally.figures()
        print(f"{name:30}", *(f"{k} {shown[k]}" for k in list(shown)[:7]))
    for wanted, lines in ((options.missed, "missed"), (options.false, "false")):
        if wanted:
            print(f"\n{lines}:", *getattr(tallies["all"], lines), sep="\n")
    if options.save:
        figures = {name: tally.figures() for name, tally in tallies.items()}
        options.save.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
