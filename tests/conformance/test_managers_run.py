"""The recipes for projects with a manager, run: uv, pdm, hatch, poetry and pipx, where they are
installed, and old versions of pre-commit.

`pytest` alone leaves these out, and so does `.ci/run`. All that is installed goes into a home
directory of the test; amplint comes from a repository on this machine.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from amplint.cli import recipes
from amplint.cli.recipes import CloneSource
from tests.conformance.managers import (
    ALONE,
    GROUP,
    LOCAL_HOOK,
    PAGE,
    ROWS,
    SECTION,
    TABLES,
    filled,
)
from tests.conformance.repositories import commit, copy_checkout, run
from tests.helpers import ROOT

# Of a package that supports more Pythons than amplint, and that needs one other package.
PROJECT = """\
[project]
name = "train"
version = "0"
requires-python = ">=3.9"
dependencies = ["six"]

[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

"""
TRAIN = "import torch\n\nscaler = torch.cuda.amp.GradScaler()\n"
FOUND = "train.py:3:10 AMP702"

# poetry asks the index for a form that mirrors do not have, unless it is named.
SOURCE_OF_POETRY = '\n[[tool.poetry.source]]\nname = "index"\nurl = "{}"\npriority = "primary"\n'

HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
LOWEST = HOOKS[0]["minimum_pre_commit_version"]
TOO_OLD = "2.5.1"
old = pytest.mark.skipif(sys.version_info >= (3, 12), reason="they are for older Pythons")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if run(
        *(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "six"),
        cwd=tmp_path_factory.mktemp("index"),
    ).returncode:
        pytest.skip("no package index can be reached")
    copy = tmp_path_factory.mktemp("checkout")
    copy_checkout(copy)
    return copy


@pytest.fixture(scope="session")
def source(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloneSource]:
    """Over HTTP, since some managers take no other address that is of this machine."""
    served = tmp_path_factory.mktemp("served")
    run("git", "clone", "-q", "--bare", str(checkout), "amplint", cwd=served)
    run("git", "update-server-info", cwd=served / "amplint")
    head = run("git", "rev-parse", "HEAD", cwd=checkout).stdout.strip()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(served))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield CloneSource(f"http://127.0.0.1:{server.server_port}/amplint", head)
        server.shutdown()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With the Python of this environment, in which nothing is installed."""
    directory = tmp_path / "home"
    (directory / "bin").mkdir(parents=True)
    (directory / "bin" / "python").symlink_to(sys._base_executable)  # type: ignore[attr-defined]
    return directory


@pytest.fixture
def project(tmp_path: Path, source: CloneSource) -> Path:
    directory = tmp_path / "train"
    directory.mkdir()
    tables = "\n".join([PROJECT, filled(GROUP, source.address, source.commit), TABLES])
    (directory / "pyproject.toml").write_text(tables)
    (directory / "train.py").write_text(TRAIN)
    (directory / ".gitignore").write_text(".venv\n")
    commit(directory)
    return directory


def called(*command: str, cwd: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """The command, in a home of its own: neither this environment nor its amplint is seen there."""
    folders = [str(home / "bin"), *os.environ["PATH"].split(os.pathsep)]
    return run(
        shutil.which(command[0]) or command[0],
        *command[1:],
        cwd=cwd,
        HOME=str(home),
        PATH=os.pathsep.join(one for one in folders if not (Path(one) / "amplint").exists()),
        NO_PROXY="127.0.0.1",
        PYTHONPATH="",
        VIRTUAL_ENV="",
        CONDA_PREFIX="",
        XDG_CACHE_HOME="",
        XDG_CONFIG_HOME="",
        XDG_DATA_HOME="",
        XDG_BIN_HOME="",
        PRE_COMMIT_HOME=str(home / "pre-commit"),
    )


def needs(*programs: str) -> None:
    for name in programs:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")


def name_the_index(project: Path) -> None:
    models = pytest.importorskip("pip._internal.models.index")
    index = os.environ.get("PIP_INDEX_URL", models.PyPI.simple_url)
    with (project / "pyproject.toml").open("a") as file:
        file.write(SOURCE_OF_POETRY.format(index))


def installed(*roots: Path) -> set[str]:
    """The packages of all environments below."""
    found = (file for root in roots for file in root.rglob("site-packages/*.dist-info"))
    return {file.name.partition("-")[0].lower() for file in found}


# ------------------------------------------------------------------------------ projects


@pytest.mark.parametrize("manager", sorted(ROWS.keys() - {"pixi"}))
def test_a_manager_installs_the_group_alone_and_checks(
    manager: str, project: Path, home: Path, source: CloneSource
) -> None:
    needs(manager)
    if manager == "poetry":
        name_the_index(project)
    row = ROWS[manager]
    for command in row.commands:
        done = called(*command, cwd=project, home=home)
        if command is not row.commands[-1]:
            assert done.returncode == 0, done.stdout + done.stderr
    assert done.returncode == 1, done.stdout + done.stderr
    assert FOUND in done.stdout
    there = installed(home, project)
    assert "amplint" in there
    assert not there & {"six", "torch", "train"}

    hook = called(*row.entry, "train.py", cwd=project, home=home)
    assert (hook.returncode, FOUND in hook.stdout) == (1, True), hook.stdout + hook.stderr

    # It knows where it was installed from.
    init = (*row.entry[: row.entry.index("check")], "init", "--yes")
    called(*init, cwd=project, home=home)
    written = (project / ".pre-commit-config.yaml").read_text()
    assert written == recipes.hook(source)


@pytest.mark.parametrize(
    "command", ["uv run --group lint", "pdm install -G lint", "poetry install --with lint"]
)
def test_a_manager_adds_the_group_to_the_project(command: str, project: Path, home: Path) -> None:
    assert f"`{command}`" in SECTION.replace("\n", " ")
    manager, *arguments = command.split()
    needs(manager)
    if manager == "poetry":
        name_the_index(project)
    program = ["amplint", "--version"] if "run" in arguments else []
    done = called(manager, *arguments, *program, cwd=project, home=home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"amplint", "six", "train"} <= installed(home, project)


# ------------------------------------------------------------------------------ by itself


@pytest.mark.parametrize("from_path", [False, True], ids=["commit", "path"])
@pytest.mark.parametrize("line", ALONE)
def test_amplint_runs_in_an_environment_of_its_own(
    line: str, from_path: bool, checkout: Path, source: CloneSource, tmp_path: Path, home: Path
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    recipe = line.replace("git+ADDRESS@COMMIT", str(checkout)) if from_path else line
    command = shlex.split(filled(recipe, source.address, source.commit))
    needs(command[0])
    done = called(*command, cwd=tmp_path, home=home)
    if "install" in command:
        assert done.returncode == 0, done.stdout + done.stderr
        program = str(home / ".local" / "bin" / "amplint")
        done = called(program, "check", "train.py", cwd=tmp_path, home=home)
    assert (done.returncode, FOUND in done.stdout) == (1, True), done.stdout + done.stderr
    assert "torch" not in installed(home)


# ------------------------------------------------------------------------------ pre-commit


@pytest.fixture
def pre_commit(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The program of this version, in an environment of its own."""
    environment = tmp_path / "pre-commit"
    run(sys.executable, "-m", "venv", str(environment), cwd=tmp_path)
    package = f"pre-commit=={request.param}"
    done = run(str(environment / "bin" / "pip"), "install", "-q", package, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return str(environment / "bin" / "pre-commit")


@old
@pytest.mark.parametrize("pre_commit", [LOWEST], indirect=True)
def test_the_lowest_pre_commit_runs_both_hooks(
    pre_commit: str, project: Path, home: Path, source: CloneSource
) -> None:
    both = recipes.hook(source).replace("# - id", "- id")
    (project / ".pre-commit-config.yaml").write_text(both)
    (project / "requirements.txt").write_text("torch>=2.4\n")
    run("git", "add", "--all", cwd=project)
    arguments = ("run", "amplint", "--all-files")
    done = called(pre_commit, *arguments, cwd=project, home=home)
    assert (done.returncode, FOUND in done.stdout) == (1, True), done.stdout + done.stderr
    done = called(pre_commit, "run", "amplint-fix", "--all-files", cwd=project, home=home)
    assert "files were modified by this hook" in done.stdout, done.stdout + done.stderr
    assert called(pre_commit, *arguments, cwd=project, home=home).returncode == 0
    assert "torch" not in installed(home)


@old
@pytest.mark.parametrize("pre_commit", [TOO_OLD], indirect=True)
def test_an_older_one_says_what_the_hooks_need_and_runs_the_local_hook(
    pre_commit: str, project: Path, home: Path, source: CloneSource
) -> None:
    assert f"pre-commit {LOWEST} or later" in PAGE
    file = project / ".pre-commit-config.yaml"
    file.write_text(recipes.hook(source))
    run("git", "add", "--all", cwd=project)
    done = called(pre_commit, "run", "--all-files", cwd=project, home=home)
    assert f"requires pre-commit version {LOWEST}" in done.stdout + done.stderr
    needs("uv")
    program = shutil.which("uv") or ""
    file.write_text(LOCAL_HOOK.replace("entry: uv ", f"entry: {program} "))
    run("git", "add", "--all", cwd=project)
    done = called(pre_commit, "run", "--all-files", cwd=project, home=home)
    assert (done.returncode, FOUND in done.stdout) == (1, True), done.stdout + done.stderr
