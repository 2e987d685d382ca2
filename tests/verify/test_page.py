"""The page of a report: well-formed, self-contained, escaped, and nothing invented."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

pytest.importorskip("torch")

from amplint.output.html_page import resource
from amplint_verify.compare.bench import BenchPoint, Counts, Times
from amplint_verify.compare.ratios import Ratio, RatioClaim
from amplint_verify.report import findings as report
from amplint_verify.report import page
from amplint_verify.report.page import Bars

VOID = {"meta", "rect", "line", "br"}


class Checker(HTMLParser):
    """Raises AssertionError where tags do not nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def check(text: str) -> list[ElementTree.Element]:
    """The plots of a page that is well-formed and needs nothing else."""
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    assert not any(word in text for word in ("<script", "http:", "https:", "<link", "src=", "url("))
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


def times(claim: RatioClaim, *, peak: tuple[int, int] | None = None) -> Times:
    return Times(0.02, 0.01, Ratio(0.5, 0.4, 0.6, 40), Ratio(1, 0.9, 1.1, 40), claim, peak)


def point(backend: str, precision: str, size: int, **given: object) -> BenchPoint:
    counts = [Counts(2, waits, 0, peak) for waits, peak in ((8, 4096), (2, 2048))]
    if backend == "policy":
        counts = [Counts(2, None, None, each.peak) for each in counts]
    return BenchPoint("train:main", backend, precision, size, *counts, **given)  # type: ignore[arg-type]


def plotted(points: list[BenchPoint]) -> list[str]:
    """The titles of the plots, from a whole page."""
    found = check(page.page("t", report.measured_html(points)))
    return [each.get("aria-label", "") for each in found]


def test_a_plot_for_each_back_end_that_has_the_metric() -> None:
    settings = [(precision, size) for size in (8, 16) for precision in ("fp32", "fp16", "bf16")]
    points = [point(name, *each) for name in ("sim", "policy") for each in settings]
    points = [p for p in points if p.backend == "policy"] + [
        BenchPoint(
            p.subject, p.backend, p.precision, p.size, Counts(2, 8, 0, None), Counts(2, 2, 0, None)
        )
        for p in points
        if p.backend == "sim"
    ]
    assert [each.partition(":")[0] for each in plotted(points)] == [
        "waits of the host per step, on sim",
        "peak memory in KiB, on policy",
    ]
    text = "".join(report.measured_html(points))
    assert "time per step: not measured: policy, sim does not show it." in text
    assert "a simulated GPU, dtypes and devices only" in text


def test_on_a_gpu_there_is_all_of_it() -> None:
    measured = times(RatioClaim.LESS, peak=(3 << 20, 1 << 20))
    points = [point("cuda", each, 8, times=measured) for each in ("fp32", "fp16", "bf16")]
    titles = [each.partition(",")[0] for each in plotted(points)]
    assert titles == ["waits of the host per step", "time per step in ms", "peak memory in MiB"]
    text = "".join(report.measured_html(points))
    assert all(f">{shown}</text>" in text for shown in ("3", "1", "10", "5"))
    assert "time 0.500 [0.400, 0.600], control 1.000 [0.900, 1.100]: less" in text


def test_a_setting_that_failed_has_no_bar() -> None:
    failed = BenchPoint("train:main", "sim", "fp16", 8, missing="the original raises <KeyError>")
    (plot,) = check(
        page.page("t", report.plots(report.METRICS[0], [point("sim", "fp32", 8), failed]))
    )
    bars = [each for each in plot.iter("rect") if each.get("height") != "11"]
    assert len(bars) == 2
    text = "".join(report.measured_html([failed]))
    assert "&lt;KeyError&gt;" in text and "<svg" not in text


def test_what_stays_the_same_is_a_sentence_and_no_plot() -> None:
    same = Counts(2, 8, 0, None)
    point = BenchPoint("train:main", "sim", "fp16", 8, same, same)
    (shown,) = report.plots(report.METRICS[0], [point])
    assert shown == "<p>waits of the host per step, on sim: the same before and after.</p>"


def test_heights_are_proportional_and_start_at_zero() -> None:
    groups = [Bars("fp32", "8", 4.0, 1.0), Bars("fp32", "16", 0.0, 2.0)]
    (plot,) = check(page.page("t", [page.columns("a title", groups)]))
    bars = [each for each in plot.iter("rect") if each.get("height") != "11"]
    heights = [float(each.get("height", "")) for each in bars]
    assert heights == [page.HEIGHT, page.HEIGHT / 4, 0, page.HEIGHT / 2]
    base = page.TOP + page.HEIGHT
    assert {
        float(bar.get("y", "")) + height for bar, height in zip(bars, heights, strict=True)
    } == {base}
    assert [each.get("class") for each in bars] == ["before", "after"] * 2


def test_all_zero_is_drawn_as_nothing() -> None:
    check(page.page("t", [page.columns("a title", [Bars("", "x", 0.0, 0.0)])]))


def test_texts_are_escaped() -> None:
    evil = '</td><script>alert("x")</script>&'
    parts = [
        page.table([evil], [[evil]]),
        page.items([evil]),
        page.columns(evil, [Bars(evil, evil, 1, 1)]),
    ]
    text = page.page(evil, parts)
    check(text)
    assert "<script" not in text


def test_the_page_is_in_the_frame_of_all_pages() -> None:
    text = page.page("a title", ["<p>a part</p>"])
    assert resource("page.css") + page.STYLE in text
    assert "<h1>a title</h1>\n<p>a part</p>" in text
    assert "default-src 'none'" in text
    assert "script-src" not in text
