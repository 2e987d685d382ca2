"""Nothing that a report shows is acted upon: names of files and code are a stranger's."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from amplint.output import FORMATS
from amplint.util.escaping import is_control, printable
from tests.command import LEGACY, Amplint

# A terminal obeys the first, a log of GitHub the next two, a browser the fourth; the fifth shows
# text in another order than it has; XML cannot hold the last.
EVIL = (
    "\x1b]0;title\x07\x1b[31m\r\n::error::forged\n##[error]forged<script>alert(1)</script>"
    "\u202e\u200f\x0b"
)
NAME = EVIL.replace("/", "\N{DIVISION SLASH}") + "%0A::warning::forged,x=y.py"
# A line that ends in a carriage return is shown, and so is what an identifier holds.
CODE = """\
import torch
scaler = torch.cuda.amp.GradScaler()  # \x1b[31m \u202e ##[error]forged <script>alert(2)</script>
for x in data:
    '''
::error::forged
    ::add-mask::forged
    '''; t = torch.ones(3).cuda(); print(t.item()); model["\x1b[2J<script>\u2067##[x]forged"].half()
with torch.cuda.amp.autocast(): loss["::error::forged\x07<img src=x onerror=alert(3)>"].backward()
# amplint: ignore[\x1b[2J<script>##[error]forged]
# noqa: AMP999 \x9b31m
"""
BROKEN = "x = '\x1b[31m::error::forged\x9b <script> \u2066\n"
HARMLESS = frozenset("\t\n")


@pytest.fixture
def evil(repository: Path) -> Path:
    (repository / "a.py").unlink()
    (repository / NAME).write_text(CODE, newline="")
    (repository / ("broken" + NAME)).write_text(BROKEN, newline="")
    (repository / ("deep" + NAME)).mkdir()
    (repository / ("deep" + NAME) / "b.py").write_text(CODE, newline="")
    return repository


class Elements(HTMLParser):
    """The elements of a page, and the attributes that run something."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts = 0
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.handlers += [f"{tag} {name}" for name, _ in attrs if name.startswith("on")]
        self.handlers += (
            [tag] if tag in ("img", "iframe", "object", "embed", "base", "link") else []
        )


def inert(text: str) -> None:
    """Nothing in the text is obeyed by a terminal, or by what reads the log of a workflow."""
    assert {c for c in text if is_control(c)} <= HARMLESS, sorted(
        {c for c in text if is_control(c)}
    )
    assert "##[" not in text
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]


@pytest.mark.parametrize("format_", sorted({*FORMATS} - {"html", "junit", "github"}))
@pytest.mark.usefixtures("evil")
def test_reports_are_inert(amplint: Amplint, format_: str) -> None:
    done = amplint("check", "--select", "ALL", "--format", format_)
    assert done.status == 1
    assert done.out.count("AMP") > 4
    if format_ in ("json", "json-lines", "sarif", "gitlab"):
        for document in done.out.splitlines() if format_ == "json-lines" else [done.out]:
            json.loads(document)
    inert(done.out)
    inert(done.err)


@pytest.mark.usefixtures("evil")
def test_annotations_are_those_of_amplint_alone(amplint: Amplint) -> None:
    lines = amplint("check", "--select", "ALL", "--format", "github").out.splitlines()
    assert len(lines) > 4
    # GitHub reads the properties up to the next "::", and the rest as the message.
    place = r"file=[^,:]*,line=\d+,endLine=\d+,col=\d+(,endColumn=\d+)?"
    form = rf"::(?:error|warning) {place},title=AMP\d+ [\w-]+::[^\n]*"
    assert all(re.fullmatch(form, line) for line in lines)
    for line in lines:
        inert(line.partition("title=")[2])


@pytest.mark.usefixtures("evil")
def test_xml_can_be_read_and_holds_no_control_characters(amplint: Amplint) -> None:
    suites = ElementTree.fromstring(amplint("check", "--format", "junit", "--select", "ALL").out)
    texts = [text for one in suites.iter() for text in (one.text or "", *one.attrib.values())]
    assert any("script" in text for text in texts)
    assert not {c for text in texts for c in text if is_control(c)} - HARMLESS


def test_a_page_runs_nothing_but_its_own_script(evil: Path, amplint: Amplint) -> None:
    page = amplint("check", "--format", "html", "--select", "ALL").out
    (evil / "clean").mkdir()
    (evil / "clean" / "a.py").write_text(LEGACY)
    own = amplint("check", "--format", "html", "clean").out
    read, usual = Elements(), Elements()
    read.feed(page)
    usual.feed(own)
    assert (read.scripts, read.handlers) == (usual.scripts, usual.handlers)
    assert "forged" in page
    assert "Content-Security-Policy" in page


COMMANDS = [
    ("check", "--no-cache"),
    ("check", "--show-settings"),
    ("check", "gone" + NAME),
    ("check", "--select", EVIL),
    ("check", "--new-since", EVIL),
    ("check", "--baseline", EVIL),
    ("check", "--config", EVIL),
    ("check", "--target-torch", EVIL),
    ("check", "--add-ignores", "known"),
    ("explain", EVIL),
    ("fix", "--apply"),
    ("baseline",),
    ("clean",),
    ("clean", "deep" + NAME),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command)[:20])
@pytest.mark.usefixtures("evil")
def test_what_commands_say_is_inert(amplint: Amplint, command: tuple[str, ...]) -> None:
    done = amplint(*command)
    assert done.out + done.err
    inert(done.out + done.err)


SETTINGS = [
    "select = ['{evil}']", "selec-{key} = 1", "exclude = 3", "exclude = '{evil}'",
    "roots = ['/{evil}']", "baseline = '{evil}'", "target-torch = '{evil}'",
    "per-file-ignores = {{ '{evil}' = ['{evil}'] }}", "select = {{ '{evil}' = '{evil}' }}",
    "x = {evil}",
]  # fmt: skip


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_is_said_of_settings_is_inert(
    repository: Path, amplint: Amplint, setting: str
) -> None:
    evil = r"\u001b]0;t\u0007\n::error::forged\n##[error]forged\u202e"
    written = setting.format(evil=evil, key="x").replace("'", '"')
    (repository / "pyproject.toml").write_text(f"[tool.amplint]\n{written}\n")
    done = amplint("check")
    assert done.status == 2
    assert "forged" in done.err or "pyproject.toml" in done.err
    inert(done.err)


def test_a_huge_setting_makes_no_huge_error(repository: Path, amplint: Amplint) -> None:
    (repository / "pyproject.toml").write_text(f"[tool.amplint]\nselect = {[1] * 500_000}\n")
    assert len(amplint("check").err) < 1000


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_diff_on_a_terminal_is_inert_and_elsewhere_exact(
    repository: Path, amplint: Amplint, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    code = f"import torch  # \x1b[2J\u202e{end}with torch.cuda.amp.autocast():{end}\tpass{end}"
    (repository / "a.py").write_text(code, newline="")
    assert "\x1b[2J\u202e" in amplint("fix").out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    shown = re.sub(r"\x1b\[\d*m", "", amplint("fix").out)
    assert "\tpass" in shown
    inert(shown)


@pytest.mark.parametrize(
    "text", ["a\x1bb", "\u202e", "\u200f", "\u061c", "\x85", "\ud800", "a\nb", "##[x]"]
)
def test_printable(text: str) -> None:
    inert(printable(text))
    assert "\n" not in printable(text)
    assert printable("Grüße \N{GRINNING FACE} 漢字") == "Grüße \N{GRINNING FACE} 漢字"
