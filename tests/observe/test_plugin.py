"""`pytest --amplint-observe`, in processes of their own, as users run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.util.toml import loads
from tests.helpers import ROOT, write

TESTS = """\
import os
import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

import amplint


def train(steps):
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for _ in range(steps):
        scaler.scale(model(torch.ones(4, 8)).sum()).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return scaler, optimizer


@pytest.mark.parametrize("steps", [2, 5])
def test_train(steps):
    train(steps)


def test_plain():
    assert torch.ones(2).sum() == 2
"""
REFUSED = """

def test_refused():
    scaler, optimizer = train(1)
    scaler.scale(nn.Linear(8, 1)(torch.ones(4, 8)).sum())
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)
"""
BLOCK = """

def test_block():
    with amplint.observe():
        train(1)
"""
FOUND = "test_train.py:16:9 AMP404 clip-before-unscale: `clip_grad_norm_(model.parameters(), 1.0)`"
SECTION = "= amplint ="
OWN = {
    "amplint",
    "amplint.util",
    "amplint.util.lazy",
    "amplint_verify",
    "amplint_verify.observing",
    "amplint_verify.observing.plugin",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(write({"pyproject.toml": b"", "test_train.py": TESTS.encode()}, tmp_path))
    return tmp_path


def suite(*arguments: str, plugin: bool = True) -> subprocess.CompletedProcess[str]:
    """A run of pytest with this plugin, and with no other that is not named."""
    own = ["-p", "amplint_verify.observing.plugin"] if plugin else []
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *own, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "80"},
        check=False,
    )


def test_it_is_registered() -> None:
    settings = loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["entry-points"]["pytest11"] == {
        "amplint": "amplint_verify.observing.plugin"
    }


def test_what_the_tests_show_is_reported(project: Path) -> None:
    ran = suite("--amplint-observe")
    assert ran.returncode == 0
    report = ran.stdout.partition(SECTION)[2]
    assert f"{FOUND} clipped gradients that are still scaled (2 times in 2 steps)" in report
    assert report.count("AMP404") == 1  # both tests show it
    assert "test_train.py:24:1: called here" in report
    assert "amplint: saw 7 steps of training in 3 tests on cpu" in report
    assert "3 passed" in report
    assert {path.name for path in project.iterdir()} - {"__pycache__"} == {
        "pyproject.toml",
        "test_train.py",
    }


def test_findings_fail_the_run_where_that_is_asked_for(project: Path) -> None:
    ran = suite("--amplint-observe-fail")
    assert ran.returncode == 1
    assert FOUND in ran.stdout
    assert "3 passed" in ran.stdout
    (project / "pyproject.toml").write_text('[tool.amplint]\nignore = ["AMP404"]\n')
    ran = suite("--amplint-observe-fail")
    assert ran.returncode == 0
    assert "saw 7 steps of training in 3 tests on cpu, and no mistakes" in ran.stdout


@pytest.mark.usefixtures("project")
def test_with_workers() -> None:
    pytest.importorskip("xdist")
    ran = suite("-p", "xdist", "-n", "2", "--amplint-observe-fail")
    assert ran.returncode == 1
    assert ran.stdout.count(FOUND) == 1
    assert "amplint: saw 7 steps of training in 3 tests on cpu" in ran.stdout


def test_a_worker_that_crashes(project: Path) -> None:
    pytest.importorskip("xdist")
    (project / "test_train.py").write_text(TESTS + "\n\ndef test_crash():\n    os._exit(1)\n")
    ran = suite("-p", "xdist", "-n", "1", "--amplint-observe")
    assert ran.returncode == 1
    assert "amplint: 1 worker ended early, so what was seen there is lost" in ran.stdout


def test_an_error_that_a_rule_explains_and_a_block_in_a_test(project: Path) -> None:
    (project / "test_train.py").write_text(TESTS + REFUSED + BLOCK)
    ran = suite("--amplint-observe", "-k", "refused or block", "-s")
    assert ran.returncode == 1
    assert "1 failed, 1 passed" in ran.stdout
    assert "AMP405" in ran.stdout
    assert FOUND in ran.stdout
    assert "a block inside another watched block is not watched separately" in ran.stderr


@pytest.mark.usefixtures("project")
def test_nothing_is_run() -> None:
    assert SECTION not in suite("--amplint-observe", "--collect-only").stdout


@pytest.mark.usefixtures("project")
def test_without_torch_it_is_said_what_to_install() -> None:
    code = (
        "import importlib.util, pytest, sys; found = importlib.util.find_spec; "
        "importlib.util.find_spec = lambda name, *a: None if name == 'torch' else found(name, *a); "
        "sys.exit(pytest.main(['-p', 'amplint_verify.observing.plugin', '--amplint-observe']))"
    )
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert ran.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--amplint-observe needs torch: pip install torch numpy" in ran.stderr


def test_without_its_options_it_imports_nothing(project: Path) -> None:
    (project / "test_train.py").write_text("def test_nothing():\n    pass\n")
    (project / "conftest.py").write_text(
        "import sys\n\n\ndef pytest_unconfigure():\n    print('HAS', *sorted(sys.modules))\n"
    )

    def imported(plugin: bool) -> set[str]:
        ran = suite("-s", plugin=plugin)
        assert ran.returncode == 0
        assert SECTION not in ran.stdout
        return set(ran.stdout.partition("HAS ")[2].split())

    with_it = imported(plugin=True)
    assert with_it - imported(plugin=False) == OWN
    assert {"torch", "libcst", "click"} & with_it == set()


@pytest.mark.usefixtures("project")
def test_an_amplint_that_is_imported_before_pytest_is_no_cause_for_warnings() -> None:
    code = "import sys, amplint, pytest; sys.exit(pytest.main(['-W', 'error', '-k', 'plain']))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "cannot be rewritten: amplint" not in ran.stdout + ran.stderr
