"""The files that a project needs to use amplint, and what has to be done to each.

What is there is never overwritten. A file is appended to where that is certain to be right: the
text that is there stays as it is, byte by byte, and means what it meant. Else the lines are shown,
for somebody to add.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from textwrap import dedent, indent

from amplint.cli import recipes
from amplint.cli.recipes import CloneSource
from amplint.project import git
from amplint.project.places import OWN_FILES, PYPROJECT
from amplint.project.settings_hierarchy import ProjectRoots, SettingsHierarchy
from amplint.util import files
from amplint.util.escaping import printable
from amplint.util.paths import seen_from, slashes
from amplint.util.toml import loads

SETTINGS, HOOK, CI = "the settings", "the pre-commit hook", "the check in CI"
HOOKS = ".pre-commit-config.yaml"
WORKFLOWS = ".github/workflows"
WORKFLOW = f"{WORKFLOWS}/amplint.yml"
PIPELINE = ".gitlab-ci.yml"
NO_REPOSITORY = "this is not a git repository"
NAMED = re.compile(rb"\bamplint\b")
BRANCH = re.compile(r"[A-Za-z][\w./-]*")
ITEM = re.compile(r"( *)- repo:(?: .*)?")
REPOS = re.compile(r"repos:\s*(?:#.*)?")


class FileWay(Enum):
    """The way in which a file gets its lines."""

    NOTHING = "nothing"
    WRITE = "write"
    APPEND = "append to"
    BY_HAND = "by hand"


@dataclass(frozen=True)
class FileStep:
    """One of the files.

    Args:
        purpose: what it is for.
        file: which.
        way: what is to be done to it.
        text: the lines to write or to append.
        why: why nothing is to be done, or why it is not done by amplint.
        before: what the file holds, where it is appended to.
        home: the directory that it may not lead out of.
    """

    purpose: str
    file: Path
    way: FileWay
    home: Path
    text: str = ""
    why: str = ""
    before: bytes = b""

    @property
    def after(self) -> bytes:
        """All that the file is to hold."""
        end = b"\r\n" if b"\r\n" in self.before else b"\n"
        last = b"" if not self.before or self.before.endswith(b"\n") else end
        return self.before + last + self.text.encode().replace(b"\n", end)


def steps(directory: Path, source: CloneSource | None) -> Iterator[FileStep]:
    """All that is to be done for the project around a directory. Raises ConfigError.

    Args:
        directory: where the settings are to be, in full.
        source: where amplint can be installed from, if that is known.
    """
    place = slashes(str(directory))
    projects = ProjectRoots(SettingsHierarchy())
    top = projects.top(place)
    repository = Path(top) if top is not None and projects.is_repository(top) else None
    yield settings(directory)
    for purpose, name, step in ((HOOK, HOOKS, hook), (CI, WORKFLOW, ci)):
        if repository is None:
            yield FileStep(purpose, directory / name, FileWay.NOTHING, directory, why=NO_REPOSITORY)
        else:
            yield step(repository, source)


# ------------------------------------------------------------------------------ settings


def settings(directory: Path) -> FileStep:
    """The settings: a table in the pyproject.toml, or else a file of their own."""
    there = SettingsHierarchy().at(slashes(str(directory))).config
    if there is not None:
        return FileStep(SETTINGS, there, FileWay.NOTHING, directory, why=f"{label(there)} has them")
    file = directory / PYPROJECT
    if not file.exists():
        own = directory / OWN_FILES[-1]
        return FileStep(SETTINGS, own, FileWay.WRITE, directory, recipes.SETTINGS)
    table = f"[tool.amplint]\n{recipes.SETTINGS}"
    before = content(file) or b""
    text = f"\n{table}" if before else table
    step = FileStep(SETTINGS, file, FileWay.APPEND, directory, text, before=before)
    if is_one_table_more(before, step.after):
        return step
    why = "a table cannot be appended to it"
    return FileStep(SETTINGS, file, FileWay.BY_HAND, directory, table, why)


def is_one_table_more(before: bytes, after: bytes) -> bool:
    """Whether a pyproject.toml says what it said, and has an empty table for amplint."""
    with contextlib.suppress(ValueError, RecursionError):
        old, new = (loads(each.decode("utf-8-sig")) for each in (before, after))
        tool = old.get("tool", {})
        return isinstance(tool, dict) and new == {**old, "tool": {**tool, "amplint": {}}}
    return False


# ------------------------------------------------------------------------------ pre-commit


def hook(top: Path, source: CloneSource | None) -> FileStep:
    """The hook, as the last of those that are there."""
    file = top / HOOKS
    text = recipes.hook(source or recipes.UNKNOWN)
    before = content(file)
    if before is None:
        return by_source(FileStep(HOOK, file, FileWay.WRITE, top, text), source)
    if NAMED.search(before):
        return FileStep(HOOK, file, FileWay.NOTHING, top, why=f"{label(file)} has it")
    lines = text.partition("\n")[2]
    wide = indentation(before)
    if wide is None:
        why = "amplint cannot see where its list of hooks ends"
        return FileStep(HOOK, file, FileWay.BY_HAND, top, lines, why)
    lines = indent(dedent(lines), " " * wide)
    return by_source(FileStep(HOOK, file, FileWay.APPEND, top, lines, before=before), source)


def indentation(before: bytes) -> int | None:
    """The indentation of the items of a list `repos:` that ends the file; None where it is written
    in another way than nearly all are."""
    try:
        lines = before.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return None
    starts = [at for at, line in enumerate(lines) if REPOS.fullmatch(line)]
    if len(starts) != 1 or any(line.startswith(("---", "...", "%")) for line in lines[1:]):
        return None
    rest = [line for line in lines[starts[0] + 1 :] if line.strip() and line.lstrip()[0] != "#"]
    first = ITEM.fullmatch(rest[0]) if rest else None
    if first is None:
        return None
    wide = len(first[1])
    for line in rest:
        deep = len(line) - len(line.lstrip(" "))
        item = ITEM.fullmatch(line)
        if "\t" in line[: deep + 1] or not (deep > wide or (item and deep == wide)):
            return None
    return wide


# ------------------------------------------------------------------------------ CI


def ci(top: Path, source: CloneSource | None) -> FileStep:
    """The workflow of GitHub, or the job of GitLab where the project is there."""
    workflows = sorted((top / WORKFLOWS).glob("*.y*ml")) if (top / WORKFLOWS).is_dir() else []
    pipeline = top / PIPELINE
    for file in (*workflows, pipeline):
        if NAMED.search(content(file) or b""):
            return FileStep(CI, file, FileWay.NOTHING, top, why=f"{label(file)} has it")
    job = recipes.filled(recipes.GITLAB, source or recipes.UNKNOWN)
    if content(pipeline) is not None:
        why = "check first that the job fits its stages and defaults"
        return FileStep(CI, pipeline, FileWay.BY_HAND, top, job, why)
    if "gitlab" in git.answer(top, "remote", "get-url", "origin") and not workflows:
        return by_source(FileStep(CI, pipeline, FileWay.WRITE, top, job), source)
    file = top / WORKFLOW
    if content(file) is not None:
        return FileStep(CI, file, FileWay.NOTHING, top, why=f"{label(file)} is there")
    if source is not None and not source.on_github:
        why = (
            "this amplint is not on GitHub, where actions have to be; any CI can run these commands"
        )
        return FileStep(CI, file, FileWay.BY_HAND, top, recipes.filled(recipes.OTHER, source), why)
    text = recipes.github(source or recipes.UNKNOWN, branch_of(top))
    return by_source(FileStep(CI, file, FileWay.WRITE, top, text), source)


def branch_of(top: Path) -> str:
    """The branch that changes are merged into."""
    remote = git.answer(top, "symbolic-ref", "--short", "refs/remotes/origin/HEAD")
    name = remote.removeprefix("origin/")
    if not name and not git.answer(top, "rev-parse", "--verify", "refs/heads/main"):
        has_master = git.answer(top, "rev-parse", "--verify", "refs/heads/master")
        name = "master" if has_master else ""
    return name if BRANCH.fullmatch(name) else "main"


# ------------------------------------------------------------------------------ both


def by_source(step: FileStep, source: CloneSource | None) -> FileStep:
    """The step, which is left to the user where nobody knows where amplint is to come from."""
    if source is not None:
        return step
    why = (
        "amplint was not installed from git, so its address is unknown: fill in "
        "ADDRESS and COMMIT, or pass --from ADDRESS@COMMIT"
    )
    return replace(step, way=FileWay.BY_HAND, why=why)


def content(file: Path) -> bytes | None:
    """The content of a file; None where there is none. What cannot be read is empty."""
    if not file.is_symlink() and not file.exists():
        return None
    try:
        return files.read(file, files.MOST_OF_SETTINGS)
    except OSError:
        return b""


def label(file: Path) -> str:
    """The file as the user would write it, in one line."""
    return printable(seen_from(".", file))
