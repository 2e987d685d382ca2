"""What a terminal gets, and a file or a pipe does not: colours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import LEGACY, Amplint


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a finding, which is also the current directory."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "a.py").write_text(LEGACY)
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR"):
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
        ("auto", {"FORCE_COLOR": ""}, False),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": ""}, True),
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
        *([["check"], ["fix"]] if when == "auto" else []),
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


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there is no pseudo-terminal here")
def test_a_terminal_gets_colors_and_a_pipe_none(amplint: Amplint) -> None:
    assert "\x1b[33m\x1b[1mAMP701\x1b[0m legacy" in at_a_terminal("check", TERM="xterm")
    assert "AMP701 legacy" in amplint("check").out
