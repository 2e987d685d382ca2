"""The words of `check` where there is nothing to look at, and its last line at a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from amplint.frameworks.models import bundled
from amplint.output.relevance import is_about_torch
from amplint.util.text import Text
from tests.command import LEGACY, READ, Amplint, Ran
from tests.helpers import ROOT

UNSAFE = """\
import torch

def forward(x):
    return torch.arange(x.size(1)).to(x.device)
"""


class Terminal(Amplint):
    """`amplint`, whose output goes to what says that it is a terminal."""

    def __call__(self, *arguments: str) -> Ran:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
            patch.setenv("NO_COLOR", "1")
            return super().__call__(*arguments)


@pytest.fixture
def terminal(capfd: pytest.CaptureFixture[str]) -> Amplint:
    return Terminal(capfd)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without settings, which is also the current directory."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ------------------------------------------------------------------------------ nothing to look at


@pytest.mark.parametrize("names", [(), ("README.md", "src/a.c")])
def test_where_no_python_file_is_one_sentence_says_so(
    amplint: Amplint, project: Path, names: tuple[str, ...]
) -> None:
    for name in names:
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("import torch\n")
    ran = amplint("check")
    assert (ran.status, ran.out) == (0, "")
    assert ran.err == "amplint: no Python files were found, so there is nothing to check\n"


def test_of_a_project_without_torch_one_sentence_says_so(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text("import jax  # torch would do\n")
    ran = amplint("check")
    about = "torch, and amplint checks only code that does\n"
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == f"1 file, no findings: it does not import {about}"
    (project / "b.py").write_text("import a\n")
    assert amplint("check").out == f"2 files, no findings: none of them imports {about}"
    (project / "c.py").write_text("import torch\n")
    assert amplint("check", "a.py").out == "1 file, no findings\n", "its project does"


def test_nothing_of_torch_is_said_beside_findings_and_problems(
    amplint: Amplint, project: Path
) -> None:
    (project / "a.py").write_text("x = (\n")
    assert "torch" not in amplint("check").out
    (project / "a.py").write_text("x = 1\n")
    assert amplint("check", "a.py", "gone.py").out == "", "beside an error"


IMPORTS = [
    "import torch",
    "try: import torch.nn as nn\nexcept ImportError: pass",
    "from torchvision import models",
    "import os, pytorch_lightning as pl",
    *(f"from {package}.a import b" for model in bundled() for package in model.packages),
]


@pytest.mark.parametrize("text", IMPORTS)
def test_what_imports_torch_or_what_is_built_on_it(text: str) -> None:
    assert is_about_torch({"a.py": Text("x = 1\n"), "b.py": Text(f"{text}\n")})


@pytest.mark.parametrize("text", ["", "x = 'torch'\n", "import os  # not torch\n", "torch = 1\n"])
def test_what_does_not(text: str) -> None:
    assert not is_about_torch({"a.py": Text(text)})


# ------------------------------------------------------------------------------ what comes next


def last(amplint: Amplint, *arguments: str) -> str:
    """The last line of `check`, where it is about what comes next."""
    line = amplint("check", *arguments).out.rpartition("\n")[0].rpartition("\n")[2]
    return line.removeprefix("next: ") if line.startswith("next: ") else ""


def test_a_project_without_settings_is_shown_init(terminal: Amplint, project: Path) -> None:
    (project / "a.py").write_text("import torch\n")
    assert last(terminal).startswith("`amplint init` writes the settings")
    (project / "a.py").write_text("import os\n")
    assert last(terminal) == "", "it has no use for it"
    (project / "a.py").write_text("import torch\n")
    (project / "amplint.toml").touch()
    assert last(terminal) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LEGACY, "`amplint fix 'a b.py'` shows the safe fix; --apply applies it"),
        (
            LEGACY + LEGACY,
            "`amplint fix 'a b.py'` shows the 2 safe fixes; --apply applies them",
        ),
        (
            UNSAFE,
            "`amplint fix --unsafe 'a b.py'` shows the fix that may change results",
        ),
        (READ, "`amplint explain AMP101` explains what happens and what to do"),
        (
            f"{LEGACY}{LEGACY.partition('import torch')[2] * 60}",
            "`amplint baseline 'a b.py'` records these, so that `check` reports only new ones",
        ),
    ],
)
def test_findings_lead_on(terminal: Amplint, project: Path, text: str, expected: str) -> None:
    (project / "a b.py").write_text(text)
    assert last(terminal, "a b.py") == expected


def test_many_paths_are_not_named_again(terminal: Amplint, project: Path) -> None:
    names = [f"module_{number}.py" for number in range(9)]
    for name in names:
        (project / name).write_text(LEGACY)
    assert last(terminal, *names).startswith("`amplint fix ...` shows the 9 safe fixes")


def test_it_can_be_turned_off(terminal: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    assert last(terminal) == "`amplint fix` shows the safe fix; --apply applies it"
    (project / "amplint.toml").write_text("hints = false\n")
    assert last(terminal) == ""
    (project / "amplint.toml").write_text('hints = "no"\n')
    assert "`hints` must be true or false" in terminal("check").err


def test_elsewhere_it_is_not_there(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    assert amplint("check").out.endswith("; fixable: 1 safe\n")


def test_machines_and_the_quiet_get_none(terminal: Amplint, project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    for options in (["-q"], ["--format", "json"], ["--output-file", "a.txt"], ["--statistics"]):
        ran = terminal("check", *options)
        assert "next: " not in ran.out + ran.err
    assert "next: " not in (project / "a.txt").read_text()


def test_the_real_terminal_shows_it(project: Path) -> None:
    pty = pytest.importorskip("pty")
    (project / "a.py").write_text(LEGACY)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "amplint", "check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, stdout=theirs, check=False, timeout=60, env=environment)
    os.close(theirs)
    shown = b""
    while b"applies it" not in shown:
        shown += os.read(ours, 10_000)
    os.close(ours)
    assert b"next: `amplint fix` shows the safe fix" in shown
