"""Each command in a block of a page is run, as by a shell, in a project of its own for each page.

A page is read from top to bottom, as a user reads it: what a command writes is there for the next
one. Lines of blocks that call amplint are commands; in a block of text, those behind a `$`. Those
that run a user's program under torch are run each for itself. `NOT_RUN` names those that are not
run, and why. The options of all are looked up, as are those of commands in the sentences of
pages: tests/fixtures/test_pages.py.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command import Amplint, Ran
from tests.fixtures.test_pages import FENCED, PAGES, calls, text_of
from tests.helpers import ROOT, write

BLOCK = re.compile(rf"{FENCED.pattern}|(?P<indented>(?:^ {{4}}[^\n]*\n)+)", FENCED.flags)
SHELLS = ("console", "sh", "bash", "yaml")
PROMPT = re.compile(r"^\s*(?:\$|- run:|run:|-) (?=\S)")
COMPLETION = "_AMPLINT_COMPLETE="
REFUSED = "amplint: error: "
BASH = shutil.which("bash")
posix = pytest.mark.skipif(BASH is None or os.name == "nt", reason="the pages speak to bash")

OPERATORS = frozenset({"|", "||", "&&", "&", ";", "<", ">", ">>"})
Shell = Callable[[str, Path], Ran]

# What is not run, and why.
NOT_RUN: Mapping[str, str] = {
    r"pip install": "installs amplint: tests/conformance/test_wheel.py does",
    r"amplint check --watch": "runs until Ctrl-C: tests/unit/test_watching.py",
    r"amplint check --select ACM": "needs the package: tests/conformance/test_own_rules.py",
    r"=zsh_source|=fish_source": "for another shell: tests/unit/test_completion.py",
    r"amplint verify (?:--rules|--self-test)": "takes minutes: tests/verify/test_witnesses.py",
    r"benchmarks/verify_programs|--bench": "measures for minutes: tests/verify/test_bench.py",
}
# The page that shows what commands print of the example; transcripts elsewhere are of other code.
OF_THE_EXAMPLE = ("first-run",)
RUNS_A_PROGRAM = re.compile(r"amplint .*--(?:entry|script|pytest|module)\b")
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
    def shown_lines(self) -> list[str]:
        return [line for line in self.output.splitlines() if line not in ("", "...")]

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
                end = next((n for n in rest if commands[n]), len(lines))
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


def forward(x):
    with torch.cuda.amp.autocast():
        return nn.Linear(4, 1).cuda()(x).sum()


def example():
    return torch.ones(2, 4, device="cuda")


def smoke_test():
    for _ in range(3):
        forward(example()).backward()


if __name__ == "__main__":
    smoke_test()
"""
# What programs need to be run. Each runs the one fix that there is, so that each has a verdict.
MODELS = """from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 1)

    def forward(self, x):
        return self.conv(x)
"""
TRAINED = {
    "pyproject.toml": '[project]\nname = "scratch"\n',
    "train.py": "from pkg.training import smoke_test\n\nsmoke_test()\n",
    "pkg/__init__.py": "",
    "pkg/training.py": TRAINING,
    "pkg/models.py": MODELS,
    "pkg/model.py": "from pkg.training import example, forward\n",
    "tests/test_training.py": "from pkg.training import smoke_test as test_small\n",
}
MODEL_FILE = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


EXAMPLE = {path.name: text_of(path) for path in (ROOT / "examples").glob("*.*")}


def files_of(page: Path) -> dict[str, str]:
    """What a page names besides the modules of the example."""
    match page.name:
        case "README.md" | "usage.md" | "configuration.md":
            return {"f.py": TRAINING, **{f"src/{name}": text for name, text in EXAMPLE.items()}}
        case "frameworks.md":
            own = text_of(page).partition("\n## One of your own")[2]
            return {"ours.toml": MODEL_FILE.findall(own)[0]}
    return {}


def write_all(files: Mapping[str, str], directory: Path) -> None:
    write({name: text.encode() for name, text in files.items()}, directory)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of git with the example."""
    root = tmp_path_factory.mktemp("project")
    write_all({**EXAMPLE, ".gitignore": ".amplint_cache\n"}, root)
    for command in (
        *("init -q -b main", "config user.name somebody", "config user.email somebody@localhost"),
        *("add .", "commit -q -m all", "update-ref refs/remotes/origin/main HEAD"),
    ):
        subprocess.run(["git", *command.split()], cwd=root, check=True)
    return root


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a program `amplint`, installed or not."""
    directory = tmp_path_factory.mktemp("programs")
    program = directory / "amplint"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from amplint.cli.main import entry\nsys.exit(entry())\n"
    )
    program.chmod(0o755)
    return directory


@pytest.fixture
def shell(
    programs: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """Runs a line: in this process if it only calls amplint, as that is quicker, else by bash."""
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    for name in [name for name in os.environ if name.startswith("CI_")]:
        monkeypatch.delenv(name)

    def run(line: str, cwd: Path) -> Ran:
        monkeypatch.chdir(cwd)
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        name, *arguments = words
        if name == "amplint" and "$" not in line and not OPERATORS & set(arguments):
            return Amplint(capfd)(*arguments)
        done = subprocess.run(
            [str(BASH), "-c", line],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

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
    write_all(files_of(page), directory)
    for command in COMMANDS[page]:
        if FOLLOWED.match(command.line):
            directory /= command.line.removeprefix("cd ")
        elif command.reason is None and not RUNS_A_PROGRAM.search(command.line):
            ended = shell(command.line, directory)
            assert_ends_well(command, ended)
            if page.stem in OF_THE_EXAMPLE:
                printed = (ended.out + ended.err).splitlines()
                assert [line for line in command.shown_lines if line not in printed] == []


@posix
@pytest.mark.parametrize("line", OF_PROGRAMS)
def test_a_command_that_runs_a_program_runs(line: str, shell: Shell, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write_all(TRAINED, tmp_path)
    assert_ends_well(Shown(line, ""), shell(line, tmp_path))


def assert_ends_well(command: Shown, ended: Ran) -> None:
    assert ended.status in command.statuses, (command.line, ended.err)
    assert "Traceback" not in ended.err, command.line


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
