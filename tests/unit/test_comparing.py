"""A run that is held against an earlier one: what has come, what has gone, what to mend first."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from amplint import Cost, Finding, Group
from amplint.output.comparing import Comparison
from amplint.output.formats import Report, render
from amplint.output.formats.html_comparison import first
from amplint.run.fingerprint import Identity
from amplint.run.request import Outcome
from amplint.util.text import Text
from tests.command import Amplint
from tests.unit.test_html_report import EVIL, ONE, PATH, ROOT, RULES, SOURCE, Page, skeleton

OLD = "import torch\n\n\ndef a():\n    with torch.cuda.amp.autocast():\n        pass\n"
SCALER = "scaler = torch.cuda.amp.GradScaler()\n"
READ = """\
import torch

def train(model, loader):
    for x in loader:
        loss = model(x.cuda()).sum()
        loss.backward()
        print(loss.item())
"""


pytestmark = pytest.mark.usefixtures("project")


def compared(amplint: Amplint, file: str, *arguments: str, status: int = 1) -> Page:
    ran = amplint("check", "--format", "html:page.html", "--compare", file, *arguments)
    assert (ran.status, ran.out) == (status, ""), ran.err
    return Page(Path("page.html").read_text(encoding="utf-8"))


def said(page: Page) -> str:
    return next(text for text in page.texts("p") if " gone, " in text)


def lists(page: Page) -> dict[str, list[str]]:
    """The rows of the lists of the comparison, by their titles."""
    (text,) = page.texts("section", "compared")
    found: dict[str, list[str]] = {}
    rows = page.texts("li")
    for title in ("Fix first", "New", "Gone"):
        here = text.partition(title)[2] if title in text else ""
        found[title] = []
        while here and rows and here.startswith(rows[0]):
            found[title].append(rows[0])
            here = here.removeprefix(rows.pop(0))
    return found


# ------------------------------------------------------------------------------ a report


def test_what_came_and_what_went_since_a_report(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(f"{OLD}\n{SCALER}")
    (project / "b.py").write_text(READ)
    assert amplint("check", "--format", "json", "--output-file", "earlier.json").status == 1
    (project / "a.py").write_text(f"# moved\n{OLD}")
    (project / "b.py").write_text(f"import torch\n{SCALER}\n")
    page = compared(amplint, "earlier.json")
    assert said(page) == "1 new finding, 2 gone, 1 unchanged."
    rows = lists(page)
    assert [row.split()[0] for row in rows["New"]] == ["b.py:2:10"]
    assert rows["Gone"] == [
        "AMP702 legacy-grad-scaler a.pyscaler = torch.cuda.amp.GradScaler()",
        "AMP101 host-read-in-hot-path b.py, in trainprint(loss.item())",
    ]
    assert page.texts("h2")[0] == "Compared with earlier.json"


def test_an_edited_line_stays(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(f"import torch\n{SCALER}")
    amplint("check", "--format", "json", "--output-file", "earlier.json")
    edited = SCALER.replace("()", "(enabled=True)")
    (project / "a.py").write_text(f"import torch\n\n{edited}")
    page = compared(amplint, "earlier.json")
    assert said(page) == "0 new findings, 0 gone, 1 unchanged."


def test_of_files_that_were_not_looked_at_nothing_is_said(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(OLD)
    (project / "b.py").write_text(READ)
    amplint("check", "--format", "json", "--output-file", "earlier.json")
    assert said(compared(amplint, "earlier.json", "a.py")) == "0 new findings, 0 gone, 1 unchanged."
    selected = compared(amplint, "earlier.json", "--select", "AMP7")
    assert said(selected) == "0 new findings, 0 gone, 1 unchanged.", "AMP101 is off"
    (project / "b.py").unlink()
    assert said(compared(amplint, "earlier.json", "a.py")) == "0 new findings, 1 gone, 1 unchanged."


def test_a_report_may_be_replaced_by_the_run_that_is_held_against_it(
    amplint: Amplint, project: Path
) -> None:
    (project / "a.py").write_text(OLD)
    amplint("check", "--format", "json", "--output-file", "last.json")
    for expected in ("1 new finding, 0 gone, 1 unchanged.", "0 new findings, 0 gone, 2 unchanged."):
        (project / "a.py").write_text(f"{OLD}{SCALER}")
        page = compared(amplint, "last.json", "--format", "json:last.json")
        assert said(page) == expected


def test_what_a_baseline_leaves_out_has_not_gone(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(OLD)
    amplint("check", "--format", "json", "--output-file", "earlier.json")
    amplint("baseline")
    page = compared(amplint, "earlier.json", status=0)
    assert said(page) == "0 new findings, 0 gone, 0 unchanged."


def test_a_file_that_could_not_be_parsed_is_no_news(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text("x = (\n")
    amplint("check", "--format", "json", "--output-file", "earlier.json")
    assert said(compared(amplint, "earlier.json")) == "0 new findings, 0 gone, 1 unchanged."
    (project / "b.py").write_text("x = (\n")
    assert said(compared(amplint, "earlier.json")) == "1 new finding, 0 gone, 1 unchanged."
    for name in ("a.py", "b.py"):
        (project / name).write_text("x = 1\n")
    page = compared(amplint, "earlier.json", status=0)
    assert said(page) == "0 new findings, 1 gone, 0 unchanged."


def test_a_project_without_findings_has_mended_all(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(OLD)
    amplint("check", "--format", "json", "--output-file", "earlier.json")
    (project / "a.py").write_text("import torch\n")
    page = compared(amplint, "earlier.json", status=0)
    assert said(page) == "0 new findings, 1 gone, 0 unchanged."
    assert page.texts("tr")[1] == "AMP701 legacy-autocast10"


# ------------------------------------------------------------------------------ a baseline


def test_with_a_baseline_the_known_findings_are_shown_and_do_not_fail(
    amplint: Amplint, project: Path
) -> None:
    (project / "a.py").write_text(f"{OLD}{SCALER}")
    amplint("baseline")
    page = compared(amplint, ".amplint-baseline.json", status=0)
    assert said(page) == "0 new findings, 0 gone, 2 unchanged."
    assert page.texts("p")[0].startswith("1 file, 2 findings (2 migration)")
    assert "left out" not in page.texts("p")[0]
    (project / "a.py").write_text(f"{OLD}\nother = torch.cuda.amp.autocast()\n")
    page = compared(amplint, ".amplint-baseline.json")
    assert said(page) == "1 new finding, 1 gone, 1 unchanged."
    assert [each["data-age"] for each in page.named("article")] == ["known", "new"]
    text = amplint("check", "--format", "text", "--format", "html:page.html",
                   "--compare", ".amplint-baseline.json").out  # fmt: skip
    assert text.endswith("; 1 known finding left out\n"), "other formats are as ever"


# ------------------------------------------------------------------------------ the page


def page_of(*findings: Finding, came: int = 0, gone: dict[Identity, int] | None = None) -> Page:
    """The page of findings, of which the first ones are new."""
    texts = {PATH: Text(SOURCE)}
    outcome = Outcome(ROOT, findings, (), (), (PATH,), texts, all_texts=texts)
    comparison = Comparison("earlier.json", frozenset(map(id, findings[:came])), gone or {})
    return Page(render("html", Report(outcome, RULES, ROOT, comparison=comparison)))


def test_new_findings_are_marked_and_can_be_filtered() -> None:
    page = page_of(ONE, replace(ONE, message="another"), came=1)
    assert len([tag for tag in page.texts("h3") if tag.endswith(" new")]) == 1
    assert "new (1)known (1)" in "".join(page.texts("option"))
    assert "By age" not in page.texts("h2")
    assert [each["data-age"] for each in page.named("article")] == ["new", "known"]


def test_the_dearest_are_mended_first_and_of_these_the_new_ones() -> None:
    cheap = replace(ONE, cost=Cost.ONCE)
    wrong = replace(ONE, cost=Cost.RUN, group=Group.CORRECTNESS)
    rounded = replace(ONE, cost=Cost.RUN, group=Group.PRECISION)
    fresh = replace(ONE, message="new")
    comparison = Comparison("earlier.json", frozenset({id(fresh), id(cheap)}), {})
    findings = [cheap, ONE, rounded, fresh, wrong]
    assert first(findings, comparison) == [wrong, rounded, fresh, ONE, cheap]
    assert len(first([ONE] * 50, comparison)) == 10


def test_every_link_of_the_comparison_leads_somewhere() -> None:
    page = page_of(ONE, replace(ONE, cost=Cost.RUN), came=2)
    ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert {attributes["href"][1:] for attributes in page.named("a")} <= ids


def test_of_very_many_some_are_listed() -> None:
    gone = {Identity(PATH, "AMP101", f"x{number}.item()", "f"): 1 for number in range(300)}
    many = [replace(ONE, message=str(number)) for number in range(300)]
    page = page_of(*many, came=300, gone=gone)
    assert page.texts("li").count("and 200 more") == 2
    assert "open" not in page.named("details")[1], "a long list is folded"


def test_nothing_of_an_earlier_run_is_acted_upon() -> None:
    def page(text: str) -> Page:
        return page_of(gone={Identity(text, text, text, text): 2})

    assert skeleton(page(EVIL)) == skeleton(page("x"))


# ------------------------------------------------------------------------------ what is none


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "earlier.json: cannot be read: "),
        ("", "earlier.json: is not JSON: "),
        ("[" * 100_000, "earlier.json: is not JSON: "),
        ("{}", "earlier.json: is not a baseline of amplint: "),
        ('[{"code": "AMP101", "filename": "a.py"}]', "is neither a baseline nor a report of"),
        ("[1]", "is neither a baseline nor a report of"),
        ('{"amplint-baseline": 9, "findings": []}', "its format is 9"),
    ],
)
def test_a_file_that_is_no_earlier_run_is_an_error(
    amplint: Amplint, project: Path, content: str | None, sentence: str
) -> None:
    if content is not None:
        (project / "earlier.json").write_text(content)
    ran = amplint("check", "--format", "html:page.html", "--compare", "earlier.json")
    assert (ran.status, sentence in ran.err) == (2, True), ran.err
    assert not (project / "page.html").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--compare", "a.json"),
        ("--compare", "a.json", "--format", "html:a.html", "--new-since", "HEAD"),
        ("--compare", "a.json", "--format", "html:a.html", "-"),
    ],
)
def test_options_that_do_not_go_together(
    amplint: Amplint, project: Path, arguments: tuple[str, ...]
) -> None:
    (project / "a.json").write_text("[]")
    ran = amplint("check", *arguments)
    assert (ran.status, "--compare" in ran.err) == (2, True)


def test_names_and_lines_that_are_no_text_are_matched(amplint: Amplint, project: Path) -> None:
    try:
        (project / "caf\udce9.py").write_text(f"import torch\n{SCALER}")
    except (OSError, UnicodeError):
        pytest.skip("the file system has no such names")
    amplint("check", "--format", "json", "--output-file", "earlier.json")
    assert json.loads((project / "earlier.json").read_text())[0]["line"] == SCALER.strip()
    assert said(compared(amplint, "earlier.json")) == "0 new findings, 0 gone, 1 unchanged."
