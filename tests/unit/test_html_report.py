"""The HTML report: well-formed, self-contained, escaped, and complete without its script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint import Cost, Edit, Finding, Fix, Group, Related, Safety
from amplint.output.formats import Report, render
from amplint.output.formats.html_finding import compared
from amplint.output.html_page import document, prose, resource
from amplint.rule import registry
from amplint.run.request import Outcome
from amplint.util.escaping import is_control, printable
from amplint.util.positions import Position, Span
from amplint.util.text import Text
from tests.command import Amplint

ROOT = Path("/project")
RULES = registry.all_rules()
PATH = "src/train.py"
SOURCE = """\
for batch in loader:
    loss = step(batch)
    total += loss.item()

print(total)
"""
VOID = {"meta", "input"}
EVIL = "</script><script>alert(1)</script><b onclick='x' style=\"y\">&amp;\x1b[31m\u202e\ud800`"


class Page(HTMLParser):
    """A page that is read: its tags with attributes, and its text by the class that it stands in.

    Raises AssertionError where tags do not nest.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[tuple[str, dict[str, str]]] = []
        self.parts: dict[int, str] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        assert len(found) == len(attrs)
        self.tags.append((tag, found))
        if tag not in VOID:
            self.open.append(self.tags[-1])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for entry in self.open:
            self.parts[id(entry)] = self.parts.get(id(entry), "") + data

    def named(self, tag: str, kind: str = "") -> list[dict[str, str]]:
        """The attributes of all tags of a name, and of a class."""
        return [attrs for name, attrs in self.tags if name == tag and has(attrs, kind)]

    def texts(self, tag: str, kind: str = "") -> list[str]:
        """What stands in these."""
        return [
            self.parts.get(id(entry), "")
            for entry in self.tags
            if entry[0] == tag and has(entry[1], kind)
        ]


def has(attributes: dict[str, str], kind: str) -> bool:
    return not kind or kind in attributes.get("class", "").split()


def span_of(part: str, source: str = SOURCE) -> Span:
    start = source.index(part)
    return Span(Text(source).position(start), Text(source).position(start + len(part)))


ONE = Finding(
    "AMP101",
    "host-read-in-hot-path",
    Group.PERFORMANCE,
    PATH,
    span_of("loss.item()"),
    "`loss.item()` waits for the device",
    help="read it once after the loop",
    cost=Cost.STEP,
)
START = SOURCE.index("loss.item()")
FIX = Fix("Read it later", (Edit(START, START + 11, "loss.detach()"),), Safety.UNSAFE)


def report(
    *findings: Finding, source: str = SOURCE, problems: tuple[str, ...] = (), path: str = PATH
) -> str:
    texts = {path: Text(source)}
    outcome = Outcome(ROOT, findings, problems, (), (path,), texts, all_texts=texts)
    return render("html", Report(outcome, RULES, ROOT))


def shown(*findings: Finding, source: str = SOURCE, problems: tuple[str, ...] = ()) -> Page:
    return Page(report(*findings, source=source, problems=problems))


# ------------------------------------------------------------------------------ the frame


def test_the_page_needs_no_other_file_and_runs_nothing_else() -> None:
    text = report(replace(ONE, fix=FIX), ONE)
    assert text.isascii()
    page = Page(text)
    for _, attributes in page.tags:
        assert not {"src", "style", "action", "srcset"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#").startswith("#")
    assert {name for name, _ in page.tags} & {"link", "iframe", "object", "base", "img"} == set()
    style, script = (*page.texts("style"), *page.texts("script"))
    assert not re.search(r"url\(|@import|https?:", style + script)
    (policy,) = [
        attributes["content"]
        for attributes in page.named("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy == (
        f"default-src 'none'; style-src {digest(style)}; script-src {digest(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_without_a_script_the_policy_allows_none() -> None:
    assert "script" not in document("title", ["<p>text</p>"], "").lower()


def test_all_names_of_the_script_are_in_the_page() -> None:
    page = shown(ONE)
    script = resource("report.js")
    ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert set(re.findall(r'getElementById\("(\w+)"\)', script)) <= ids
    fields = {attributes.get("name") for name, attributes in page.tags if name != "meta"}
    assert set(re.findall(r"form\.elements\.(\w+)", script)) <= fields
    (keys,) = re.findall(r"KEYS = (\[.*?\])", script)
    assert {f"data-{key}" for key in json.loads(keys)} <= set(page.named("article")[0])


def test_both_themes_define_every_colour() -> None:
    """A variable that only one of them has is unreadable in the other."""
    light, dark = resource("page.css").split("@media (prefers-color-scheme: dark)")
    names = [set(re.findall(r"(--\w+):", part)) for part in (light, dark)]
    assert names[0] == names[1]
    used = re.findall(r"var\((--\w+)\)", resource("page.css") + resource("report.css"))
    assert set(used) <= names[0]


@pytest.mark.parametrize("theme", [0, 1])
def test_colours_can_be_read(theme: int) -> None:
    """The contrast of text is that of WCAG AA, 4.5; of bars, which have numbers, 3."""
    part = resource("page.css").split("@media (prefers-color-scheme: dark)")[theme]
    colours = {name: luminance(code) for name, code in re.findall(r"(--\w+): (#\w+)", part)}
    for name in ("--ink", "--quiet", "--link", "--good", "--bad", "--open"):
        assert contrast(colours[name], colours["--paper"]) >= 4.5, name
    for name in ("--code", "--mark", "--added", "--removed"):
        assert contrast(colours["--ink"], colours[name]) >= 4.5, name
    for name in ("--code", "--added", "--removed"):
        assert contrast(colours["--quiet"], colours[name]) >= 4.5, name
    for name in ("--before", "--after"):
        assert contrast(colours[name], colours["--paper"]) >= 3, name


def contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2, of "#rgb" or "#rrggbb"."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * each for each in colour[1:])
    channels = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# ------------------------------------------------------------------------------ escaping


def evil(text: str) -> Finding:
    related = (
        Related(f"{text}.py", span_of("for"), text, leads=True),
        Related(PATH, span_of("f"), text),
    )
    fix = Fix(text, (Edit(0, 0, text),), Safety.UNSAFE)
    return replace(ONE, path=f"{text}.py", message=text, help=text, fix=fix, related=related)


def read(text: str) -> Page:
    """The page of a finding that has this text wherever code can have one."""
    source = f"{text}{SOURCE}"
    return Page(report(evil(text), source=source, problems=(text,), path=f"{text}.py"))


def test_nothing_of_the_code_is_acted_upon() -> None:
    page = read(EVIL)
    assert len(page.named("script")) == len(page.named("style")) == 1
    assert page.named("b") == [{}], "the heading of the page of the rule"
    (place,) = page.texts("a", "place")
    assert place == f"{printable(EVIL)}.py:3:14"
    assert page.texts("li")[0] == printable(EVIL)
    data = "".join(page.parts.values())
    assert not any(is_control(character) for character in data if character != "\n")


def test_a_name_with_a_line_end_stays_in_its_line() -> None:
    page = read("a\nb\r")
    assert page.texts("a", "place") == ["a\ufffdb\ufffd.py:3:14"]
    assert "a\ufffdb\ufffd.py (1)" in page.texts("option")


@given(st.text())
def test_any_text_leaves_the_page_as_it_is(text: str) -> None:
    plain, odd = read("x"), read(f"x{text}")
    assert skeleton(odd) == skeleton(plain)


def skeleton(page: Page) -> list[tuple[str, list[str]]]:
    """The tags, but for those of lines of code and of code in prose, whose number varies."""
    varying = ("code", "span", "mark", "pre")
    return [(tag, sorted(attrs)) for tag, attrs in page.tags if tag not in varying]


def test_code_in_prose_is_set_off_after_escaping() -> None:
    assert prose("`<b>` & `c") == "<code>&lt;b&gt;</code> &amp; `c"


# ------------------------------------------------------------------------------ findings


@pytest.mark.parametrize(
    ("source", "part", "rows", "marked"),
    [
        (SOURCE, "loss.item()", ["1", "2", "3", "4", "5"], ["loss.item()"]),
        ("\t\tx = y.item()\n", "y.item()", ["1", "2"], ["y.item()"]),
        ("if a:\n\tx = y\tz\n", "y\tz", ["1", "2", "3"], ["y   z"]),
        ("  x = f(\n    1,\n  )\n", "f(\n    1,\n  )", ["1", "2", "3", "4"], ["f(", "1,", ")"]),
        ("\u6570 = y", "y", ["1"], ["y"]),
        ("x = y\r\nz = 1\r\n", "z", ["1", "2", "3"], ["z"]),
    ],
)
def test_the_span_is_marked(source: str, part: str, rows: list[str], marked: list[str]) -> None:
    page = shown(replace(ONE, span=span_of(part, source)), source=source)
    assert [attributes["data-row"] for attributes in page.named("span", "row")] == rows
    assert page.texts("mark") == marked


def test_of_a_long_finding_and_a_long_line_a_part_is_shown() -> None:
    source = "f(\n" + f"    {'1, ' * 5000}\n" * 100 + ")\n"
    span = Span(Position(1, 1), Position(102, 2))
    page = shown(replace(ONE, span=span), source=source)
    assert len(page.named("span", "row")) == 14
    assert max(map(len, page.texts("span", "row"))) < 210


def test_the_way_leads_down_to_the_finding() -> None:
    related = (
        Related(PATH, span_of("loss ="), "called here", leads=True),
        Related(PATH, span_of("print"), "beside it"),
        Related(PATH, span_of("for"), "the training loop, once per batch", leads=True),
    )
    page = shown(replace(ONE, related=related))
    assert page.texts("ol", "chain") == [
        f"the training loop, once per batch {PATH}:1:1for batch in loader:"
        f"called here {PATH}:2:5loss = step(batch)"
        "heretotal += loss.item()"
    ]
    assert page.texts("ul", "beside") == [f"beside it {PATH}:5:1print(total)"]


def test_places_of_which_none_leads_are_all_in_the_picture() -> None:
    related = (
        Related(PATH, span_of("print"), "one"),
        Related("gone.py", span_of("for"), "two"),
    )
    (picture,) = shown(replace(ONE, related=related)).texts("ol", "chain")
    assert picture.startswith(f"two gone.py:1:1one {PATH}:5:1print(total)here")
    assert shown(ONE).texts("ol") == []


def test_the_fix_is_a_diff() -> None:
    page = shown(replace(ONE, fix=FIX))
    assert "fix: Read it later (unsafe)" in page.texts("p")
    assert page.texts("span", "removed") == ["-     total += loss.item()\n"]
    assert page.texts("span", "added") == ["+     total += loss.detach()\n"]
    assert [one["data-row"] for one in page.named("span", "added")] == ["3"]
    assert "help: read it once after the loop" in page.texts("p")


def test_a_fix_that_is_a_suggestion_alone_has_no_diff() -> None:
    page = shown(replace(ONE, fix=Fix("Do it", (), Safety.SUGGEST)))
    assert "fix: Do it (suggestion)" in page.texts("p")
    assert page.named("span", "added") == page.named("span", "removed") == []


def test_a_file_that_could_not_be_read_has_no_source() -> None:
    page = shown(replace(ONE, path="gone.py", fix=FIX))
    assert page.named("span", "row") == []
    assert page.texts("a", "place") == ["gone.py:3:14"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [("src/train.py", "src/train.py:3"), ("a b$(x).py", "'a b$(x).py':3")],
)
def test_a_finding_has_the_command_that_explains_its_line(path: str, expected: str) -> None:
    page = Page(report(replace(ONE, path=path), path=path))
    assert page.texts("p", "why") == [
        f"what amplint knows here, and why other rules are silent: amplint explain --at {expected}"
    ]
    assert page.texts("span", "at") == ["3"], "a click on another row changes it"
    assert len(page.named("pre", "source")) == 1


def test_standard_input_has_no_line_to_explain() -> None:
    assert Page(report(replace(ONE, path="-"), path="-")).texts("p", "why") == []


LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12)


@given(LINES, LINES)
def test_the_rows_of_a_diff_turn_one_text_into_the_other(old: list[str], new: list[str]) -> None:
    rows = list(compared(old, new))
    removed = [(number, row) for sign, number, row in rows if sign == "-"]
    added = [(number, row) for sign, number, row in rows if sign == "+"]
    assert all(old[number - 1] == row for number, row in removed)
    assert all(new[number - 1] == row for sign, number, row in rows if sign != "-")
    gone, come = ({number for number, _ in each} for each in (removed, added))
    kept = [row for number, row in enumerate(old, 1) if number not in gone]
    assert kept == [row for number, row in enumerate(new, 1) if number not in come]


# ------------------------------------------------------------------------------ overview, rules


def several() -> Iterator[Finding]:
    yield ONE
    yield replace(ONE, code="AMP702", name="legacy-grad-scaler", group=Group.MIGRATION)
    yield replace(ONE, path="b.py", cost=Cost.RUN)


def test_findings_are_counted_by_cost_group_rule_and_file() -> None:
    page = shown(*several())
    assert page.texts("table") == [
        "the whole run1in each step2",
        "performance2migration1",
        "AMP101 host-read-in-hot-path2AMP702 legacy-grad-scaler1",
        f"{PATH}2b.py1",
    ]
    assert page.texts("h2")[:4] == ["By cost", "By group", "By rule", "By file"]


def test_every_link_leads_somewhere() -> None:
    page = shown(*several())
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {attributes["href"][1:] for attributes in page.named("a")} <= set(ids)


def test_repeats_and_two_rules_on_one_expression_are_one_article() -> None:
    again = replace(ONE, span=span_of("step(batch)"))
    other = replace(ONE, code="AMP113", name="host-read-per-element", help="read all at once")
    page = shown(ONE, again, other)
    [article] = page.named("article")
    assert article["id"] == "f1" and article["data-count"] == "3"
    assert article["data-rule"] == "AMP101 AMP113"
    assert page.texts("p", "again") == [f"also at {PATH}:2:12"]
    assert "read all at once" in "".join(page.texts("div", "also"))
    crashes = (
        replace(each, group=Group.CORRECTNESS, message=m) for each, m in ((ONE, "a"), (again, "b"))
    )
    assert len(shown(*crashes).named("article")) == 2


def test_the_filters_name_what_the_findings_have() -> None:
    page = shown(*several())
    options = {attributes["value"] for attributes in page.named("option")}
    for key in ("cost", "group", "rule", "file"):
        of_each = [attributes[f"data-{key}"] for attributes in page.named("article")]
        values = {value for one in of_each for value in one.split()}
        assert values <= options
        links = {a["data-value"] for a in page.named("a") if a.get("data-key") == key}
        assert values == links
    assert "hidden" in page.named("form")[0], "it does nothing without the script"


def test_the_page_of_a_rule_stands_once_and_folded() -> None:
    page = shown(ONE, ONE, ONE)
    (details,) = page.named("details")
    assert details == {"id": "AMP101"}
    assert page.texts("summary") == ["AMP101 host-read-in-hot-path (3)"]
    assert "running += loss.item()" in page.texts("details")[0]


def test_without_findings_there_is_nothing_to_filter() -> None:
    page = shown(problems=("a.py: cannot be read",))
    assert page.texts("p") == [
        "1 file, no findings",
        "Is something missing? amplint explain --at FILE:LINE says what amplint knows about a "
        "line, and why rules are silent there.",
    ]
    assert page.texts("ul", "problems") == ["a.py: cannot be read"]
    assert page.named("form") == page.named("script") == page.named("main") == []


def test_a_thousand_findings_are_less_than_three_megabytes() -> None:
    source = SOURCE * 300
    related = tuple(Related(PATH, span_of("for"), "hot: called here", leads=True) for _ in range(4))
    one = replace(ONE, fix=FIX, related=related)
    assert len(report(*[one] * 1000, source=source)) < 3_000_000


# ------------------------------------------------------------------------------ the command line


def test_the_report_of_a_notebook_names_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = [["import torch\n"], ["%time 1\n", "scaler = torch.cuda.amp.GradScaler()\n"]]
    made = {
        "cells": [
            {"cell_type": "code", "metadata": {}, "outputs": [], "source": cell} for cell in cells
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    Path("a.ipynb").write_text(json.dumps(made))
    ran = Amplint(capfd)("check", "--format", "html:report.html", "a.ipynb")
    assert (ran.status, ran.out) == (1, "")
    page = Page(Path("report.html").read_text(encoding="utf-8"))
    assert page.texts("a", "place") == ["a.ipynb:cell 2:2:10"]
    (why,) = page.texts("p", "why")
    command = why.rpartition(": ")[2].split()[1:]
    assert command == ["explain", "--at", "a.ipynb:2:2"]
    assert "AMP702 legacy-grad-scaler: reports" in Amplint(capfd)(*command).out
    rows = page.texts("span", "row")
    assert rows[:2] == ["%time 1\n", "scaler = torch.cuda.amp.GradScaler()\n"]
    assert "a.ipynb:cell 2\n" in rows
    assert page.texts("span", "added") == ['+ scaler = torch.amp.GradScaler("cuda")\n']
    assert [one["data-row"] for one in page.named("span", "added")] == ["2"]


LOOP = """\
import torch

def report(loss):
    print(loss.item())

def train(model, loader, optimizer):
    for x, y in loader:
        loss = model(x.cuda(), y.cuda())
        loss.backward()
        optimizer.step()
        report(loss)
"""


def test_the_way_is_drawn_from_the_loop_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(LOOP)
    arguments = ("check", "--select", "AMP101", "--format", "html", "a.py")
    for _ in range(2):  # the second time from the cache
        page = Page(Amplint(capfd)(*arguments).out)
        assert page.texts("ol", "chain") == [
            "the training loop, once per batch a.py:7:5for x, y in loader:"
            "called here, once per training batch a.py:11:9report(loss)"
            "hereprint(loss.item())"
        ]
        assert page.texts("ul", "beside") == ["backpropagated here a.py:9:9loss.backward()"]
