"""The recipes for projects with a manager, as text; test_managers_run.py runs them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from amplint.util.toml import loads
from tests.conformance import managers
from tests.helpers import ROOT

ADDRESS, COMMIT = "https://example.org/amplint", "0" * 40
GROUPS = loads(managers.filled(managers.GROUP, ADDRESS, COMMIT))["dependency-groups"]
TOOL = loads(managers.TABLES)["tool"]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))


def test_the_group_is_a_requirement_of_the_commit() -> None:
    (text,) = GROUPS["lint"]
    requirement = Requirement(text)
    assert (requirement.name, requirement.url) == ("amplint", f"git+{ADDRESS}@{COMMIT}")
    ours = loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    supported = SpecifierSet(ours["requires-python"])
    assert requirement.marker
    for version in ("3.8", "3.9", "3.10", "3.11", "3.14"):
        taken = requirement.marker.evaluate({"python_version": version})
        assert taken == (version in supported), version


def test_the_tables_name_the_group_and_run_a_command_of_amplint() -> None:
    assert set(TOOL) == {"pdm", "hatch", "pixi"}
    hatch, pixi = TOOL["hatch"]["envs"]["lint"], TOOL["pixi"]
    assert set(hatch["dependency-groups"]) == set(pixi["environments"]["lint"]["features"])
    assert set(hatch["dependency-groups"]) == set(pixi["feature"]) == set(GROUPS)
    tasks = [TOOL["pdm"]["scripts"]["lint"], hatch["scripts"]["check"]]
    tasks.append(pixi["feature"]["lint"]["tasks"]["lint"])
    assert {task.replace("{args:.}", ".") for task in tasks} == {"amplint check ."}


def test_each_table_has_keys_of_its_tool() -> None:
    """pixi's by its JSON Schema; the others are run. A key that is not known is passed over."""
    pdm, hatch, pixi = (TOOL[name] for name in ("pdm", "hatch", "pixi"))
    assert set(pdm) == {"scripts"}
    assert set(hatch) == {"envs"}
    assert set(hatch["envs"]["lint"]) == {"detached", "dependency-groups", "scripts"}
    assert set(pixi) == {"environments", "feature"}
    assert set(pixi["environments"]["lint"]) == {"features", "no-default-feature"}
    assert set(pixi["feature"]["lint"]) == {"dependencies", "tasks"}
    assert Requirement(f"python{pixi['feature']['lint']['dependencies']['python']}")


def test_the_manifest_of_pixi_has_the_same_source() -> None:
    table = loads(managers.filled(managers.OF_PIXI, ADDRESS, COMMIT))["feature"]
    source = table["lint"]["pypi-dependencies"]["amplint"]
    assert source == {"git": ADDRESS, "rev": COMMIT}
    assert set(table) == set(TOOL["pixi"]["feature"])


def tasks() -> Iterator[tuple[str, ...]]:
    """How each task is run."""
    yield ("pdm", "run", *TOOL["pdm"]["scripts"])
    for name, environment in TOOL["hatch"]["envs"].items():
        yield from (("hatch", "run", f"{name}:{task}") for task in environment["scripts"])
    for feature in TOOL["pixi"]["feature"].values():
        yield ("pixi", "run", *feature["tasks"])


@pytest.mark.parametrize("manager", managers.ROWS)
def test_each_manager_runs_the_check(manager: str) -> None:
    last = managers.ROWS[manager].commands[-1]
    assert last in {*tasks()} or last[-3:] == ("amplint", "check", ".")


def test_each_manager_of_the_heading_has_a_row_of_its_own_commands() -> None:
    assert set(managers.ROWS) == {"uv", "pdm", "hatch", "poetry", "pixi"}
    for manager, row in managers.ROWS.items():
        assert {command[0] for command in (*row.commands, row.entry)} == {manager}
        assert " ".join(row.entry).endswith("amplint check --force-exclude --caused-since HEAD")


def test_the_local_hook_is_the_hook_with_an_entry_of_the_table() -> None:
    ((hook,),) = [one["hooks"] for one in yaml.safe_load(managers.LOCAL_HOOK)["repos"]]
    ours = next(one for one in HOOKS if one["id"] == hook["id"])
    assert tuple(hook["entry"].split()) == managers.ROWS["uv"].entry
    assert hook["entry"].endswith(ours["entry"])
    assert hook["require_serial"] == ours["require_serial"]
    names = ["a/b.py", "c.ipynb", "d.pyc"]
    assert [name for name in names if re.search(hook["files"], name)] == ["a/b.py", "c.ipynb"]


def test_what_runs_alone_names_the_commit() -> None:
    assert {shlex.split(line)[0] for line in managers.ALONE} == {"uv", "uvx", "pipx"}
    for line in managers.ALONE:
        assert "git+ADDRESS@COMMIT" in shlex.split(line)


def test_the_page_says_which_pre_commit_the_hooks_need() -> None:
    (lowest,) = {hook["minimum_pre_commit_version"] for hook in HOOKS}
    assert f"The hooks need pre-commit {lowest} or later" in managers.PAGE


def test_what_was_not_tried_is_said() -> None:
    assert "pixi could not be installed" in managers.SECTION
