"""What amplint measures of its own: programs and examples that are there, and that fixes change."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.findings.witness import Same, Syncs
from amplint.rule import registry
from amplint_verify import examples, harness
from amplint_verify.backends.choice import BACKENDS
from amplint_verify.compare.bench import AS_WRITTEN, PRECISIONS, Counts
from tests.verify.test_page import check


def test_programs_before_and_after_their_fixes(tmp_path: Path) -> None:
    subjects = list(examples.of_programs(tmp_path / "fixing"))
    assert [each.name for each in subjects] == list(examples.PROGRAMS)
    for each in subjects:
        assert each.precisions == PRECISIONS
        for fixed in (False, True):
            each.copy(fixed, tmp_path / each.name / str(fixed))
        before, after = (
            (tmp_path / each.name / str(fixed) / "train.py").read_text() for fixed in (False, True)
        )
        assert before == (each.of / "train.py").read_text() != after
        assert "torch.cuda.amp" not in after
        assert "def main(" in before and "batch_size" in before


def test_examples_of_rules_that_save_something(tmp_path: Path) -> None:
    rules = registry.all_rules()
    subjects = {each.name: each for each in examples.of_rules(rules, tmp_path)}
    saving = {rule.code for rule in rules if isinstance(rule.witness, (Same, Syncs))}
    assert {"AMP101", "AMP501"} <= set(subjects) <= saving
    assert {each.precisions for each in subjects.values()} == {(AS_WRITTEN,)}


def test_rules_and_what_they_save() -> None:
    (rule,) = (rule for rule in registry.all_rules() if rule.code == "AMP101")
    checked = harness.run(
        [rule], False, [BACKENDS["sim"]], lambda place: examples.of_rules([rule], place)
    )
    assert checked.points is not None
    (point,) = checked.points
    assert (point.subject, point.precision, point.size) == ("AMP101", AS_WRITTEN, None)
    assert point.before == Counts(steps=8, waits=10, to_device=36, peak=None)
    assert point.after == Counts(steps=8, waits=3, to_device=36, peak=None)
    assert harness.as_json(checked)["bench"][0]["after"]["waits"] == 3
    assert "AMP101 on sim, as written: waits of the host 10 -> 3" in harness.as_text(checked)
    page = harness.as_html(checked)
    (plot,) = check(page)
    assert str(plot.get("aria-label")).startswith("waits of the host per step, on sim")
    assert 'class="good">verified<' in page


def test_without_bench_the_page_says_so() -> None:
    page = harness.as_html(harness.Checked([BACKENDS["sim"]], (), None))
    assert check(page) == []
    assert "Not measured: see <code>--bench</code>." in page
