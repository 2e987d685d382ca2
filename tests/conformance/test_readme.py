"""The first look of the README: what `amplint check examples/` prints, and programs that run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from amplint.cli import main as cli
from tests.helpers import ROOT

README = ROOT / "README.md"
SHOWN = re.compile(r"```text\n(.*?)```\n", re.DOTALL)
EXAMPLES = ROOT / "examples"


def test_the_readme_shows_what_the_first_command_prints(
    update: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`pytest --update` writes it."""
    monkeypatch.chdir(ROOT)
    assert cli.main(["check", "--no-cache", "examples/"]) == 1
    printed = capfd.readouterr().out
    page = README.read_text(encoding="utf-8")
    expected = SHOWN.sub(lambda _: f"```text\n{printed}```\n", page, count=1)
    if update:
        README.write_text(expected, encoding="utf-8")
    assert README.read_text(encoding="utf-8") == expected
    assert f"It reports {number_of_findings(printed)} findings and exits with status 1" in page


def number_of_findings(report: str) -> int:
    return len(re.findall(r"^\S+:\d+:\d+ AMP\d{3} ", report, re.MULTILINE))


def test_the_example_makes_six_mistakes_of_six_kinds(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first digit of a code is its kind; one finding shows a chain from file to file."""
    monkeypatch.chdir(ROOT)
    cli.main(["check", "--no-cache", "examples/"])
    report = capfd.readouterr().out
    codes = re.findall(r"^\S+:\d+:\d+ (AMP\d{3}) ", report, re.MULTILINE)
    assert len({code[3] for code in codes}) == len(codes) == 6
    assert re.search(r"^examples/metrics.py:(?:.*\n)+?  examples/train.py:", report, re.MULTILINE)


def test_the_example_runs_the_same_before_and_after_its_fixes(tmp_path: Path) -> None:
    """Runs the example on the CPU, where a seed fixes what it prints."""
    pytest.importorskip("torch")
    printed = {}
    for name, options in {"before": None, "safe": (), "all": ("--unsafe",)}.items():
        copy = tmp_path / name
        copy.mkdir()
        for file in EXAMPLES.glob("*.py"):
            shutil.copy(file, copy)
        if options is not None:
            assert cli.main(["fix", "--apply", *options, str(copy)]) == 1  # some have no fix
            assert (copy / "train.py").read_text() != (EXAMPLES / "train.py").read_text()
        printed[name] = run(copy)
    assert printed["before"] == printed["safe"] == printed["all"]
    assert "epoch 1: loss" in printed["before"]


def run(directory: Path) -> str:
    """What the training program prints."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "train.py"],
        cwd=directory,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    ).stdout


def test_what_is_said_of_gpus_agrees_with_the_results() -> None:
    """A file of results names the GPU and the torch, and so do the pages that speak of them."""
    results = (ROOT / "benchmarks" / "results").glob("verify-*-torch*.json")
    ran = [json.loads(path.read_text(encoding="utf-8"))["environment"] for path in results]
    machines = {(each["GPU"]["name"], each["torch"].partition("+")[0]) for each in ran}
    for page in ("README.md", "docs/verify.md"):
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        said = re.findall(r"NVIDIA (\w+) with torch (\d+\.\d+\.\d+)", text)
        assert {(f"NVIDIA {name}", version) for name, version in said} == machines, page
        assert "on a GPU yet" not in text
