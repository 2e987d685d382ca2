"""What a shell offers after Tab, by the lines of docs/usage.md."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.output import FORMATS
from tests.command import Amplint
from tests.helpers import ROOT

SHELLS = ("bash", "zsh", "fish")
BASH = shutil.which("bash")
Offered = Callable[..., list[str]]


@pytest.fixture
def complete(amplint: Amplint, monkeypatch: pytest.MonkeyPatch) -> Offered:
    """What is offered for a line whose last word is begun."""

    def offered(*words: str) -> list[str]:
        monkeypatch.setenv("_AMPLINT_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(("amplint", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        ran = amplint()
        assert (ran.status, ran.err) == (0, "")
        return [line.partition(",")[2] for line in ran.out.splitlines()]

    return offered


def test_options_are_offered(complete: Offered) -> None:
    assert {"--fix", "--format", "--fail-on", "--force-exclude"} <= set(complete("check", "--f"))
    assert complete("check", "--output-fo") == ["--output-format"]
    assert complete("che") == ["check"]
    assert "server" in complete("")  # (a command whose module is not imported before)


def test_values_are_offered(complete: Offered) -> None:
    assert complete("check", "--format", "js") == ["json", "json-lines"]
    assert complete("check", "--format", "") == list(FORMATS)
    assert complete("check", "--color", "a") == ["auto", "always"]
    assert complete("check", "--fail-on", "correctness,p") == [
        f"correctness,{group}" for group in ("pedantic", "performance", "precision")
    ]
    assert complete("check", "--select", "AMP70") == [
        "AMP70", *(f"AMP70{number}" for number in range(1, 6)),
    ]  # fmt: skip
    assert "AMP501,legacy-autocast" in complete("check", "--ignore", "AMP501,leg")
    assert complete("explain", "legacy-g") == ["legacy-grad-scaler"]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_a_shell_is_printed(
    amplint: Amplint, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    monkeypatch.setenv("_AMPLINT_COMPLETE", f"{shell}_source")
    ran = amplint()
    assert (ran.status, ran.err) == (0, "")
    assert f"_AMPLINT_COMPLETE={shell}_complete" in ran.out
    page = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
    assert f"_AMPLINT_COMPLETE={shell}_source amplint" in page


@pytest.fixture
def bin_(tmp_path: Path) -> Path:
    """A directory with a command `amplint`."""
    script = tmp_path / "bin" / "amplint"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m amplint "$@"\n')
    script.chmod(0o755)
    return script.parent


def lines_of(shell: str) -> str:
    """The line to add to the shell's start, as the page has it."""
    page = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
    found = re.search(rf"^    (.*_AMPLINT_COMPLETE={shell}_source amplint.*)$", page, re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.skipif(BASH is None or sys.platform == "darwin", reason="needs bash 4.4")
def test_bash_completes_a_line(bin_: Path) -> None:
    script = (
        f"{lines_of('bash')}\nCOMP_WORDS=(amplint check --fo); COMP_CWORD=2\n"
        '_amplint_completion amplint; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = run([str(BASH), "--norc", "-c", script], bin_)
    assert sorted(done.stdout.split()) == ["--force-exclude", "--format"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_another_shell_reads_its_line(shell: str, bin_: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    start = "autoload -Uz compinit && compinit -u\n" if shell == "zsh" else ""
    run([program, "-c", start + lines_of(shell)], bin_)


def run(command: list[str], bin_: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done


def test_options_wait_neither_for_libcst_nor_for_the_rules() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from amplint.cli.main import main;"
        "main([]);"
        "print(sorted({'libcst', 'amplint.rules', 'torch', 'msgspec'} & set(sys.modules)))"
    )
    words = {"COMP_WORDS": "amplint check --f", "COMP_CWORD": "2"}
    environment = {**os.environ, **words, "_AMPLINT_COMPLETE": "bash_complete"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, check=True, text=True, env=environment)
    assert "plain,--format\n" in done.stdout
    assert done.stdout.endswith("\n[]\n")
