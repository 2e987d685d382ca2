"""The hooks of pre-commit, tried for real on a repository made for it.

pre-commit installs amplint and what it depends on from the package index into an environment of its
own; where no index can be reached, there is nothing to try.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conformance.repositories import commit, copy_checkout, run
from tests.helpers import ROOT

pytest.importorskip("pre_commit")

TRAIN = """\
import torch
from torch.utils.data import DataLoader

from helpers import log

model = torch.nn.Linear(4, 4).cuda()
for x in DataLoader([1]):
    loss = model(x.cuda()).sum()
    loss.backward()
    log(loss)
"""
HELPERS = "import torch\n\n\ndef log(loss):\n    print(loss.item())\n"


class Hooks(NamedTuple):
    """The hooks of what the checkout holds now, committed or not.

    Args:
        config: a configuration of pre-commit that has both.
        home: pre-commit's own store, so that they are installed once.
    """

    config: Path
    home: Path

    def run(self, hook: str, project: Path, *files: str) -> subprocess.CompletedProcess[str]:
        """Run a hook over files of a project."""
        done = run(
            *(sys.executable, "-m", "pre_commit", "run", hook, "--verbose"),
            *("--config", str(self.config), "--files", *files),
            cwd=project,
            PRE_COMMIT_HOME=str(self.home),
        )
        if "No matching distribution" in done.stdout or "Temporary failure in name" in done.stdout:
            pytest.skip("no package index can be reached")
        return done


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Hooks:
    repository, place = tmp_path_factory.mktemp("amplint"), tmp_path_factory.mktemp("pre-commit")
    copy_checkout(repository)
    revision = run("git", "rev-parse", "HEAD", cwd=repository).stdout.strip()
    used = [{"id": "amplint"}, {"id": "amplint-fix"}]
    config = place / "config.yaml"  # JSON is YAML
    config.write_text(
        json.dumps({"repos": [{"repo": str(repository), "rev": revision, "hooks": used}]})
    )
    return Hooks(config, place / "home")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "helpers.py").write_text(HELPERS)
    commit(tmp_path)
    return tmp_path


def test_a_hook_sees_in_one_file_what_check_sees_in_the_project(
    hooks: Hooks, project: Path
) -> None:
    done = hooks.run("amplint", project, "helpers.py")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "helpers.py:5:11 AMP101" in done.stdout
    assert "1 file, 1 finding" in done.stdout


def test_a_hook_sees_what_the_commit_causes_in_another_file(hooks: Hooks, project: Path) -> None:
    """The commit changes helpers.py alone, and so makes the host wait in train.py."""
    (project / "helpers.py").write_text("def log(loss):\n    return 1.0\n")
    (project / "train.py").write_text(TRAIN.replace("log(loss)", "print(float(log(loss)))"))
    run("git", "commit", "-qam", "before", cwd=project)
    (project / "helpers.py").write_text("def log(loss):\n    return loss\n")
    run("git", "add", "helpers.py", cwd=project)
    done = hooks.run("amplint", project, "helpers.py")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "train.py:10:11 AMP101" in done.stdout
    assert "2 files, 1 finding" in done.stdout


def test_the_hooks_take_notebooks(hooks: Hooks, project: Path) -> None:
    cell = {"cell_type": "code", "source": "import torch\nx = torch.cuda.amp.autocast()"}
    (project / "a.ipynb").write_text(json.dumps({"cells": [cell], "nbformat": 4}))
    run("git", "add", "a.ipynb", cwd=project)
    done = hooks.run("amplint", project, "a.ipynb")
    assert "a.ipynb:cell 1:2:5 AMP701" in done.stdout, done.stdout + done.stderr
    done = hooks.run("amplint-fix", project, "a.ipynb")
    assert "files were modified by this hook" in done.stdout, done.stdout + done.stderr
    assert 'torch.amp.autocast(\\"cuda\\")' in (project / "a.ipynb").read_text()


def test_excluded_files_stay_excluded_when_they_are_committed(hooks: Hooks, project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.amplint]\nexclude = ["helpers.py"]\n')
    done = hooks.run("amplint", project, "helpers.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_fixing_hook_fixes(hooks: Hooks, project: Path) -> None:
    file = project / "legacy.py"
    file.write_text("import torch\n\nwith torch.cuda.amp.autocast():\n    pass\n")
    run("git", "add", "legacy.py", cwd=project)
    done = hooks.run("amplint-fix", project, "legacy.py", "train.py")
    assert "files were modified by this hook" in done.stdout, done.stdout + done.stderr
    assert file.read_text() == 'import torch\n\nwith torch.amp.autocast("cuda"):\n    pass\n'


def test_the_hook_leaves_out_what_the_baseline_knows(hooks: Hooks, project: Path) -> None:
    command = (sys.executable, "-m", "amplint", "baseline")
    assert run(*command, cwd=project, PYTHONPATH=str(ROOT)).returncode == 0
    assert hooks.run("amplint", project, "helpers.py").returncode == 0
    with (project / "helpers.py").open("a") as file:
        file.write("\n\nscaler = torch.cuda.amp.GradScaler()\n")
    done = hooks.run("amplint", project, "helpers.py")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "helpers.py:8:10 AMP702" in done.stdout
    assert "1 file, 1 finding" in done.stdout
