"""Each command in a block of a page is run, by a shell, in a project of its own for each page.

A page is read from top to bottom, as a user reads it: what a command writes is there for the next
one. Lines of blocks that call amplint are commands; in a block of text, those behind a `$`. Those
that run a user's program under torch are run each for itself. `NOT_RUN` names those that are not
run, and why. The options of all are looked up, as are those of commands in the sentences of
pages: tests/fixtures/test_pages.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fixtures.test_pages import FENCED, PAGES, calls, text_of
from tests.helpers import ROOT, write

BLOCK = re.compile(rf"{FENCED.pattern}|(?P<indented>(?:^ {{4}}[^\n]*\n)+)", FENCED.flags)
SHELLS = ("console", "sh", "bash", "yaml")
PROMPT = re.compile(r"^\s*(?:\$|- run:|run:|-) (?=\S)")
COMPLETION = "_AMPLINT_COMPLETE="
REFUSED = "amplint: error: "
BASH = shutil.which("bash")
posix = pytest.mark.skipif(BASH is None or os.name == "nt", reason="the pages speak to bash")

Ended = subprocess.CompletedProcess[str]
Shell = Callable[[str, Path], Ended]

# What is not run, and why.
NOT_RUN: Mapping[str, str] = {
    r"pip install": "installs amplint: tests/conformance/test_wheel.py does",
    r"amplint check --watch": "runs until Ctrl-C: tests/unit/test_watching.py",
    r"amplint check --select ACM": "needs the package: tests/conformance/test_own_rules.py",
    r"=zsh_source|=fish_source": "for another shell: tests/unit/test_completion.py",
    r"amplint verify (?:--rules|--self-test)": "takes minutes: tests/verify/test_witnesses.py",
    r"benchmarks/verify_programs|--bench": "measures for minutes: tests/verify/test_bench.py",
}
RUNS_A_PROGRAM = re.compile(r"amplint .*--(?:entry|script|pytest)\b")
# Of a shell's lines that call no amplint, what later ones rest on.
FOLLOWED = re.compile(r"cd \S+$")


@dataclass(frozen=True)
class Shown:
    """A command, and what the page shows below it."""

    line: str
    output: str

    @property
    def statuses(self) -> tuple[int, ...]:
        """Findings are no failure. What a page shows as refused has to be refused."""
        return (2,) if REFUSED in self.output else (0, 1)

    @property
    def reason(self) -> str | None:
        return next((NOT_RUN[each] for each in NOT_RUN if re.search(each, self.line)), None)


def shown(page: str) -> Iterator[Shown]:
    for block in BLOCK.finditer(page):
        language, code, indented = block[1], block[2], block["indented"]
        lines = (code or indented).split("\n")
        commands = [
            PROMPT.sub("", line).strip()
            if indented or language in SHELLS or (language == "text" and line.startswith("$ "))
            else ""
            for line in lines
        ]
        for number, command in enumerate(commands):
            if is_command(command):
                rest = range(number + 1, len(lines))
                end = next((n for n in rest if is_command(commands[n])), len(lines))
                yield Shown(command, "\n".join(lines[number + 1 : end]))


def is_command(line: str) -> bool:
    return bool(any(calls(line)) or COMPLETION in line or FOLLOWED.match(line))


COMMANDS = {page: [*shown(text_of(page))] for page in PAGES}
WITH_COMMANDS = [page for page, commands in COMMANDS.items() if commands]
OF_PROGRAMS = sorted(
    {
        command.line.partition("  #")[0].strip()
        for commands in COMMANDS.values()
        for command in commands
        if command.reason is None and RUNS_A_PROGRAM.search(command.line)
    }
)


# ------------------------------------------------------------------------------ a project

TRAINING = """\
import torch
from torch import nn


def smoke_test():
    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.ones(2, 4, device="cuda")).sum()
        loss.backward()
        optimizer.step()
        print(loss.item())


if __name__ == "__main__":
    smoke_test()
"""
MODEL = """\
import torch


def forward(x):
    return torch.relu(x).sum()


def example():
    return torch.ones(2, 4)
"""
# What programs need to be run, and little else: a verdict on each fix takes its time.
TRAINED = {
    "pyproject.toml": '[project]\nname = "scratch"\n',
    "train.py": TRAINING,
    "pkg/__init__.py": "",
    "pkg/training.py": TRAINING,
    "pkg/model.py": MODEL,
    "tests/test_training.py": "from train import smoke_test as test_small\n",
}
MODEL_FILE = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def example() -> dict[str, str]:
    """The files that pages name: the example in two places, a pipe's file, a model of a trainer."""
    modules = {path.name: text_of(path) for path in (ROOT / "examples").glob("*.py")}
    (own_model, *_) = MODEL_FILE.findall(
        text_of(ROOT / "docs" / "frameworks.md").partition("\n## One of your own")[2]
    )
    return {
        **modules,
        **{f"src/{name}": text for name, text in modules.items()},
        "f.py": TRAINING,
        "ours.toml": own_model,
        ".gitignore": ".amplint_cache\n",
        "pyproject.toml": '[project]\nname = "scratch"\n',
    }


def write_all(files: Mapping[str, str], directory: Path) -> None:
    write({name: text.encode() for name, text in files.items()}, directory)


@pytest.fixture(scope="module")
def project(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of git with the example, which was checked once."""
    root = tmp_path_factory.mktemp("project")
    write_all(example(), root)
    for command in (
        *("init -q -b main", "config user.name somebody", "config user.email somebody@localhost"),
        *("add .", "commit -q -m all", "update-ref refs/remotes/origin/main HEAD"),
    ):
        assert shell(f"git {command}", root).returncode == 0
    assert shell("amplint check", root).returncode == 1
    return root


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A shell that finds `amplint`, installed or not."""
    directory = tmp_path_factory.mktemp("programs")
    program = directory / "amplint"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from amplint.cli.main import entry\nsys.exit(entry())\n"
    )
    program.chmod(0o755)
    inherited = {name: os.environ[name] for name in os.environ if not name.startswith("CI_")}
    path = f"{directory}{os.pathsep}{os.environ['PATH']}"

    def run(line: str, cwd: Path) -> Ended:
        return subprocess.run(
            [str(BASH), "-c", line],
            cwd=cwd,
            env={**inherited, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


# ------------------------------------------------------------------------------ the tests


@posix
@pytest.mark.parametrize(
    "page", WITH_COMMANDS, ids=[page.relative_to(ROOT).as_posix() for page in WITH_COMMANDS]
)
def test_the_commands_of_a_page_run(
    page: Path, project: Path, shell: Shell, tmp_path: Path
) -> None:
    directory = tmp_path / "project"
    shutil.copytree(project, directory)
    for command in COMMANDS[page]:
        if FOLLOWED.match(command.line):
            directory /= command.line.removeprefix("cd ")
        elif command.reason is None and not RUNS_A_PROGRAM.search(command.line):
            assert_ends_well(command, shell(command.line, directory))


@posix
@pytest.mark.parametrize("line", OF_PROGRAMS)
def test_a_command_that_runs_a_program_runs(line: str, shell: Shell, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write_all(TRAINED, tmp_path)
    assert_ends_well(Shown(line, ""), shell(line, tmp_path))


def assert_ends_well(command: Shown, ended: Ended) -> None:
    assert ended.returncode in command.statuses, (command.line, ended.stderr)
    assert "Traceback" not in ended.stderr, command.line


def test_every_reason_is_needed() -> None:
    lines = [command.line for commands in COMMANDS.values() for command in commands]
    assert [each for each in NOT_RUN if not any(re.search(each, line) for line in lines)] == []


def test_what_is_a_command() -> None:
    page = (
        "Type `amplint rules`:\n\n    cat f.py | amplint check -  # of a pipe\n\n"
        "```python\nx = 1  # amplint: ignore\n```\n\n"
        "```text\n$ amplint fix\namplint says\n$ amplint chek\namplint: error: no\n```\n"
    )
    commands = [*shown(page)]
    assert [command.line for command in commands] == [
        *("cat f.py | amplint check -  # of a pipe", "amplint fix", "amplint chek"),
    ]
    assert [command.statuses for command in commands] == [(0, 1), (0, 1), (2,)]
