"""The files that CI services read: the action, the workflows, the hooks, the recipes of docs/ci.md,
and the scripts that they name."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import amplint
from tests.helpers import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())
FILES = [ROOT / "action.yml", *WORKFLOWS]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
RECIPES = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)]
# A commit: a tag may be moved to another one. The recipes of the page may name a major version.
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
MAJOR = re.compile(r"[\w.-]+/[\w./-]+@v\d+")
SCRIPT = re.compile(r"(?:\$GITHUB_ACTION_PATH/|\s)(\.(?:ci|github)/[\w./]+)")
SCRIPTS = {
    file.relative_to(ROOT).as_posix()
    for folder in (ROOT / ".ci", ROOT / ".github" / "action")
    for file in folder.iterdir()
    if file.is_file()
}
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def steps(tree: Any) -> Iterator[dict[str, Any]]:
    """The steps of a workflow or an action."""
    for job in tree.get("jobs", {"": tree.get("runs")}).values():
        yield from job["steps"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_steps_use_what_exists_and_cannot_become_something_else(file: Path) -> None:
    found = list(steps(read(file)))
    assert found
    for step in found:
        assert ("uses" in step) != ("run" in step)
        assert "uses" not in step or step["uses"] == "./" or PINNED.fullmatch(step["uses"]), step
        # The text of an input or an event would be read as code of the shell.
        assert "${{" not in step.get("run", ""), step
        assert set(SCRIPT.findall(" " + step.get("run", ""))) <= SCRIPTS, step


@pytest.mark.parametrize("uses", ["a/b@main", "a/b@v1", "a/b", "a/b@8f4b7f8", "docker://a"])
def test_what_is_not_pinned_is_told(uses: str) -> None:
    assert not PINNED.fullmatch(uses)


def test_each_script_is_one_that_ci_runs() -> None:
    runs = [step.get("run", "") for file in FILES for step in steps(read(file))]
    assert {name for run in runs for name in SCRIPT.findall(" " + run)} == SCRIPTS


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_may_do_no_more_than_it_needs(file: Path) -> None:
    """What it does not name is not granted; only the jobs of a release have a right to more."""
    tree = read(file)
    assert tree["permissions"] == {"contents": "read"}
    more = {name: job["permissions"] for name, job in tree["jobs"].items() if "permissions" in job}
    release = {
        "publish": {"id-token": "write"},
        "announce": {"attestations": "write", "contents": "write", "id-token": "write"},
    }
    assert more == (release if file.name == "release.yml" else {})


def test_nothing_is_published_that_was_not_tried_or_has_no_tag() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert jobs["publish"]["needs"] == ["build", "try"]
    assert "github.ref_type == 'tag'" in jobs["publish"]["if"]
    assert "always()" not in jobs["publish"]["if"]
    assert jobs["announce"]["needs"] == "publish"
    assert jobs["announce"]["if"] == jobs["publish"]["if"]


def test_each_python_of_a_release_is_one_of_ci() -> None:
    tried = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["try"]["strategy"]
    matrix = read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["pythons"]["strategy"][
        "matrix"
    ]
    assert matrix["python"] == tried["matrix"]["python"]
    systems = {*matrix["os"], *(one["os"] for one in matrix["include"])}
    assert systems == set(tried["matrix"]["os"])


def test_a_release_is_tried_on_each_python_from_the_lowest_on() -> None:
    matrix = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["try"]["strategy"][
        "matrix"
    ]
    lowest = re.search(r'^requires-python = ">=3\.(\d+)"$', PYPROJECT, re.MULTILINE)
    assert lowest
    minors = [int(version.removeprefix("3.")) for version in matrix["python"]]
    assert minors == list(range(int(lowest[1]), minors[-1] + 1))
    assert [name.partition("-")[0] for name in matrix["os"]] == ["ubuntu", "macos", "windows"]


# ------------------------------------------------------------------------------ action, docs/ci.md


def test_the_page_names_the_inputs_and_their_defaults() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (?:`(.*?)` )?\|", PAGE, re.MULTILINE)
    assert dict(rows) == {name: one["default"] for name, one in read(FILES[0])["inputs"].items()}


def test_the_scripts_of_the_action_get_each_input() -> None:
    action = read(FILES[0])
    given = {key: value for step in steps(action) for key, value in step.get("env", {}).items()}
    names = {name: f"AMPLINT_{name.upper().replace('-', '_')}" for name in action["inputs"]}
    assert {key: given[names[key]] for key in names} == {
        key: f"${{{{ inputs.{key} }}}}" for key in names
    }


def test_the_recipes_are_those_of_three_services() -> None:
    github, gitlab, precommit, _ = RECIPES  # the last one is of test_managers.py
    uses = [step["uses"] for step in steps(github)]
    assert [one for one in uses if not MAJOR.fullmatch(one)] == ["ADDRESS@COMMIT"]
    assert set(list(steps(github))[-1]["with"]) <= set(read(FILES[0])["inputs"])
    assert set(gitlab["amplint"]["artifacts"]["reports"]) == {"codequality", "junit"}
    hooks = {hook["id"] for hook in read(ROOT / ".pre-commit-hooks.yaml")}
    assert {hook["id"] for hook in precommit["repos"][0]["hooks"]} <= hooks


@pytest.mark.parametrize("merge_request", [True, False])
def test_the_recipe_for_gitlab_runs(tmp_path: Path, merge_request: bool) -> None:
    """All but its first command, which installs amplint."""
    install, *commands = RECIPES[1]["amplint"]["script"]
    assert " pip install " in install
    work = tmp_path / "work"
    work.mkdir()
    (work / "old.py").write_text("import torch\nscaler = torch.cuda.amp.GradScaler()\n")
    identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    for arguments in (["init", "-q"], ["add", "--all"], [*identity, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *arguments], cwd=work, check=True)
    (work / "new.py").write_text("import torch\nregion = torch.cuda.amp.autocast()\n")
    program = tmp_path / "amplint"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m amplint "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(commands)],
        cwd=work,
        env={
            **os.environ,
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": "HEAD" if merge_request else "",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    known = "old.py:2:10 AMP702" in done.stdout
    assert ("new.py:2:10 AMP701" in done.stdout, known) == (True, not merge_request)
    quality = json.loads((work / "amplint.json").read_text())
    assert [one["location"]["path"] for one in quality] == ["new.py", "old.py"]
    assert (work / "amplint.xml").read_text().count("<failure") == (1 if merge_request else 2)


# ------------------------------------------------------------------------------ version


def test_the_version_is_one() -> None:
    """In pyproject.toml, in the package and above the first section of the changelog."""
    assert f'\nversion = "{amplint.__version__}"\n' in PYPROJECT
    section = re.search(r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$", CHANGELOG, re.MULTILINE)
    assert section
    assert section[0] == re.search(r"^## .*$", CHANGELOG, re.MULTILINE)[0]  # type: ignore[index]
    assert section[1] == amplint.__version__


@pytest.fixture(scope="module")
def problems() -> Callable[[str, str, str], list[str]]:
    found: Callable[[str, str, str], list[str]]
    found = runpy.run_path(str(ROOT / ".ci" / "check_tag.py"))["problems"]
    return found


@pytest.mark.parametrize(
    ("tag", "section", "expected"),
    [
        ("v0.3.0", "0.3.0 (2027-01-31)", None),
        ("0.3.0", "0.3.0 (2027-01-31)", "the tag is 0.3.0"),
        ("v0.3.1", "0.3.0 (2027-01-31)", "the tag is v0.3.1"),
        ("v0.3.0", "0.3.0 (unreleased)", "'unreleased' of 0.3.0"),
        ("v0.3.0", "0.2.0 (2027-01-31)", "begins with 0.2.0"),
    ],
)
def test_a_tag_is_held_against_version_and_changelog(
    problems: Callable[[str, str, str], list[str]], tag: str, section: str, expected: str | None
) -> None:
    pyproject = '[project]\nname = "amplint"\nversion = "0.3.0"\n'
    found = problems(tag, pyproject, f"# Changelog\n\n## {section}\n\n## 0.1.0 (2026-12-01)\n")
    assert len(found) == (0 if expected is None else 1)
    assert expected is None or expected in found[0]


def test_the_tag_of_this_version_has_no_other_problem_than_the_date(
    problems: Callable[[str, str, str], list[str]],
) -> None:
    dated = CHANGELOG.replace("(unreleased)", "(2026-12-01)", 1)
    assert problems(f"v{amplint.__version__}", PYPROJECT, dated) == []
