"""What there may be at most: a commit that raises a line of `benchmarks.size.BUDGET` says what a
user gets for it."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from amplint.project.config import Settings
from amplint.rule.registry import own_rules
from benchmarks import size, suite
from tests.helpers import ROOT


@cache
def counted() -> Mapping[str, float]:
    return size.counts(size.present())


def test_no_figure_is_above_its_line(tmp_path: Path) -> None:
    settings = Settings(tmp_path)
    found = {
        **counted(),
        "rules on by default": sum(map(settings.may_report, settings.rules(own_rules()))),
        "tests collected": json.loads(suite.RESULTS.read_text())["whole"]["tests"],
        "words of docs/": sum(len(page.read_text().split()) for page in ROOT.glob("docs/*.md")),
    }
    assert found.keys() == size.BUDGET.keys()
    too_many = {
        name: f"{count}, and BUDGET of benchmarks/size.py allows {size.BUDGET[name]}"
        for name, count in found.items()
        if count > size.BUDGET[name]
    }
    assert not too_many


def test_no_line_is_far_above_its_figure() -> None:
    """What went is not to come back unseen."""
    assert not {name: n for name, n in counted().items() if n < 0.97 * size.BUDGET[name]}
