"""The summary of a job on GitHub, and what it is not taken in by."""

import re
from pathlib import Path

import pytest

from amplint.output import job_summary
from tests.command import Amplint

LEGACY = "import torch\n\nwith torch.cuda.amp.autocast():\n    pass\n"


@pytest.fixture
def amplint(capfd: pytest.CaptureFixture[str]) -> Amplint:
    return Amplint(capfd)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, which is also the current directory."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").touch()
    monkeypatch.chdir(root)
    for name in job_summary.ADDRESS:
        monkeypatch.delenv(name, raising=False)
    return root


@pytest.fixture
def summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the summary, in which another step has written."""
    file = tmp_path / "summary.md"
    file.write_text("before\n\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    return file


def test_a_table_is_appended(amplint: Amplint, project: Path, summary: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    ran = amplint("check", "--format", "github")
    assert ran.status == 1
    assert ran.out.startswith("::warning file=a.py,line=3,")
    assert summary.read_text() == (
        "before\n\n### amplint: 1 file, 1 finding (1 migration); fixable: 1 safe\n\n"
        "| place | rule | |\n|---|---|---|\n"
        "| <code>a.py:3:6</code> | [AMP701](https://docs.pytorch.org/docs/stable/amp.html) "
        "legacy-autocast | <code>torch.cuda.amp.autocast</code> is deprecated: use "
        "<code>torch.amp.autocast(&#34;cuda&#34;, ...)</code> |\n\n"
    )


def test_a_place_leads_to_its_line(
    amplint: Amplint, project: Path, summary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a b.py").write_text(LEGACY)
    values = ("https://github.com", "someone/something", "0123abc", str(project))
    for name, value in zip(job_summary.ADDRESS, values, strict=True):
        monkeypatch.setenv(name, value)
    amplint("check", "--format", "github")
    there = "https://github.com/someone/something/blob/0123abc/a%20b.py#L3"
    assert f"| [<code>a b.py:3:6</code>]({there}) |" in summary.read_text()


def test_nothing_found_is_said_too(amplint: Amplint, project: Path, summary: Path) -> None:
    (project / "a.py").write_text("import torch\n")
    assert amplint("check", "--format", "github").status == 0
    assert summary.read_text() == "before\n\n### amplint: 1 file, no findings\n\n"
    amplint("check", "--format", "github", "gone.py")
    assert "could not do all of its work" in summary.read_text()


def test_only_the_format_of_github_writes_it(
    amplint: Amplint, project: Path, summary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a.py").write_text(LEGACY)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    amplint("check")
    amplint("check", "--format", "json")
    assert summary.read_text() == "before\n\n"
    amplint("check", "--format", "json", "--format", "github:annotations")
    assert "AMP701" in summary.read_text()


def test_many_findings_are_cut_short(amplint: Amplint, project: Path, summary: Path) -> None:
    (project / "a.py").write_text("import torch\n\n" + "a = torch.cuda.amp.autocast()\n" * 60)
    amplint("check", "--format", "github")
    written = summary.read_text()
    assert written.count("[AMP701](") == job_summary.MOST_ROWS
    assert "\n\n10 findings more, which cost less: see the log.\n" in written


def test_a_summary_that_cannot_be_written_is_a_remark(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a.py").write_text(LEGACY)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project))
    ran = amplint("check", "--format", "github")
    assert ran.status == 1
    assert ran.err == "amplint: GITHUB_STEP_SUMMARY: no summary is written: Is a directory\n"


def test_no_name_is_markup(amplint: Amplint, project: Path, summary: Path) -> None:
    name = "a|b](https:x) <img src=x> **`c`.py"
    (project / name.replace("/", "")).write_text(LEGACY)
    amplint("check", "--format", "github")
    (row,) = re.findall(r"^\| <code>.*$", summary.read_text(), re.MULTILINE)
    assert row.count("|") == 4
    assert "<img" not in row and "**" not in row and "](https:x" not in row


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("`a` is `b`", "<code>a</code> is <code>b</code>"),
        ("`a` is `b", "<code>a</code> is &#96;b"),
        ("a | b\n* c\x1b", "a &#124; b\ufffd&#42; c\ufffd".replace("\ufffd", "&#65533;")),
        ("`[x](y)`", "<code>&#91;x&#93;(y)</code>"),
        ("", ""),
    ],
)
def test_code_in_a_message_is_marked(message: str, shown: str) -> None:
    assert job_summary.code_marked(message) == shown
