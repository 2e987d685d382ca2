"""What a terminal gets, and a file or a pipe does not: colours and links."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from amplint.output import links
from amplint.output.help_pages import help_uri
from amplint.rule import registry
from tests.command import Amplint

LEGACY = "import torch\n\nwith torch.cuda.amp.autocast():\n    pass\n"
OF_THE_ENVIRONMENT = (
    *("NO_COLOR", "FORCE_COLOR", "FORCE_HYPERLINK", "TERM_PROGRAM", "VTE_VERSION"),
    *(*links.THEIR_OWN, *links.MULTIPLEXERS),
)
LINK = "\x1b]8;;"


@pytest.fixture
def amplint(capfd: pytest.CaptureFixture[str]) -> Amplint:
    return Amplint(capfd)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a finding, which is also the current directory."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "a.py").write_text(LEGACY)
    monkeypatch.chdir(tmp_path)
    for name in OF_THE_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def at_a_terminal(*arguments: str, **environment: str) -> str:
    """What a terminal gets from `amplint`."""
    reader, terminal = os.openpty()
    with os.fdopen(reader, "rb", buffering=0) as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "amplint", *arguments],
            stdout=terminal,
            stderr=terminal,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )
        os.close(terminal)
        got = b""
        try:
            while part := stream.read(4096):
                got += part
        except OSError:  # as Linux says that the other end is closed
            pass
        process.wait(timeout=60)
    return got.decode()


# ------------------------------------------------------------------------------ colours


@pytest.mark.parametrize(
    ("when", "environment", "colored"),
    [
        ("always", {}, True),
        ("always", {"NO_COLOR": "1"}, True),
        ("never", {"FORCE_COLOR": "1"}, False),
        ("auto", {}, False),
        ("auto", {"FORCE_COLOR": "1"}, True),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_an_option_decides_on_colors(
    amplint: Amplint,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
    environment: dict[str, str],
    colored: bool,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for arguments in (
        ["check", "--color", when],
        ["--color", when, "check"],
        ["--color", "never", "check", f"--color={when}"],
        ["fix", "--color", when],
        ["explain", "--color", when, "AMP701"],
    ):
        assert ("\x1b[" in amplint(*arguments).out) == colored, arguments
    for arguments in (["check", "gone.py"], ["check", "--select", "AMP7O1"], ["check", "--sort=x"]):
        assert ("\x1b[" in amplint("--color", when, *arguments).err) == colored, arguments
    assert "\x1b" not in amplint("--color", when, "check", "--format", "json").out
    amplint("check", "--color", when, "--output-file", "report")
    assert "\x1b" not in (project / "report").read_text()


def test_a_color_that_is_none_is_2(amplint: Amplint) -> None:
    ran = amplint("check", "--color", "yes")
    assert ran.status == 2
    assert "'yes' is not one of" in ran.err


# ------------------------------------------------------------------------------ links


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there is no pseudo-terminal here")
@pytest.mark.parametrize(
    ("arguments", "environment", "linked"),
    [
        ([], {"TERM": "xterm-kitty"}, True),
        ([], {"TERM": "xterm-256color"}, False),
        ([], {"TERM": "xterm-256color", "FORCE_HYPERLINK": "1"}, True),
        ([], {"TERM": "xterm-kitty", "FORCE_HYPERLINK": "0"}, False),
        ([], {"TERM": "xterm-kitty", "NO_COLOR": "1"}, False),
        (["--color", "never"], {"TERM": "xterm-kitty"}, False),
        (["--format", "concise"], {"TERM": "xterm-kitty"}, False),
    ],
)
def test_a_code_leads_to_its_page_at_a_terminal(
    arguments: list[str], environment: dict[str, str], linked: bool
) -> None:
    shown = at_a_terminal("check", *arguments, **environment)
    assert "AMP701" in shown
    assert (LINK in shown) == linked
    if linked:
        address = help_uri(registry.find("AMP701"))
        assert f"{LINK}{address}\x1b\\\x1b[33m\x1b[1mAMP701\x1b[0m{LINK}\x1b\\ legacy" in shown


def test_there_is_no_link_in_a_pipe_or_a_file(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_HYPERLINK", "1")
    ran = amplint("check", "--color", "always", "--format", "text", "--format", "html:report")
    assert "\x1b[" in ran.out
    assert LINK not in ran.out + (project / "report").read_text()
    amplint("check", "--color", "always", "--output-file", "report")
    assert LINK not in (project / "report").read_text()


@pytest.mark.parametrize(
    ("environment", "has_links"),
    [
        ({}, False),
        ({"TERM": "xterm"}, False),
        ({"TERM": "foot"}, True),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "vscode"}, True),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, False),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7603"}, True),
        ({"TERM": "xterm-256color", "VTE_VERSION": "4601"}, False),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7603", "TMUX": "/tmp/tmux"}, False),
        ({"TERM": "screen-256color", "KONSOLE_VERSION": "230400"}, False),
        ({"TERM": "dumb", "TERM_PROGRAM": "vscode"}, False),
        ({"WT_SESSION": "6f4c"}, True),
        ({"FORCE_HYPERLINK": "0", "WT_SESSION": "6f4c"}, False),
        ({"FORCE_HYPERLINK": "1", "TERM": "dumb"}, True),
        ({"FORCE_HYPERLINK": "", "TERM": "dumb"}, False),
    ],
)
def test_which_terminals_have_links(environment: dict[str, str], has_links: bool) -> None:
    assert links.shown_by_terminal(environment) == has_links


@pytest.mark.parametrize("address", ["", "https://a/\x1b]8;;", "https://a/é", "https://a/\n"])
def test_an_address_that_a_terminal_may_act_on_is_no_link(address: str) -> None:
    assert links.link("AMP701", address) == "AMP701"


def test_each_code_has_a_page_that_a_terminal_takes() -> None:
    for rule in registry.all_rules():
        address = help_uri(rule)
        assert not address or address in links.link(rule.code, address)
