"""The labels of tests/accuracy are well-formed, and say enough to be worth a figure."""

from __future__ import annotations

from collections import Counter

from amplint.registry import all_rules
from benchmarks.packages import load
from tests.accuracy.__main__ import LABELS, read_labels


def test_every_labelled_package_is_pinned() -> None:
    """`read_labels` ends the program at a line that is no label."""
    labelled = {label.package for label in read_labels().labels}
    assert labelled == {file.stem for file in LABELS.glob("*.txt")}
    assert labelled <= {package.name for package in load()}


def test_labels_name_rules_that_exist() -> None:
    labels = read_labels()
    codes = {label.code for label in labels.labels} | {code for _, _, code in labels.complete}
    assert codes <= {rule.code for rule in all_rules()}


def test_there_are_enough_of_both_kinds() -> None:
    verdicts = Counter(label.verdict for label in read_labels().labels)
    assert verdicts["yes"] >= 400
    assert verdicts["no"] >= 400
    assert len({label.package for label in read_labels().labels}) >= 12


def test_no_place_is_judged_twice() -> None:
    """The same place and code with two verdicts would make the score depend on their order."""
    seen: dict[tuple[str, str, int, str], str] = {}
    for label in read_labels().labels:
        for path, row in label.places[:1]:
            key = (label.package, path, row, label.code)
            assert seen.setdefault(key, label.verdict) == label.verdict, key
