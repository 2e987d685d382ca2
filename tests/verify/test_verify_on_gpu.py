"""The archive for a machine with a GPU, tried on one without."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from amplint.cli.verify import verify
from benchmarks import verify_on_gpu
from tests.helpers import ROOT

torch = pytest.importorskip("torch")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("archive") / "verify.pyz"
    verify_on_gpu.pack(target, PYTHON)
    return target


def test_the_archive_runs_by_itself_and_leaves_its_report(archive: Path, tmp_path: Path) -> None:
    """Called in a checkout, whose `amplint` is not what it is to run."""
    chosen = ("--rules", "AMP203", "--self-test", "--backend", "policy")
    done = subprocess.run(
        [sys.executable, str(archive), "--out", str(tmp_path), *chosen],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    stem = f"verify-cpu-torch{torch.__version__.partition('+')[0]}"
    assert {path.name for path in tmp_path.iterdir()} == {f"{stem}.json", f"{stem}.html"}
    found = json.loads((tmp_path / f"{stem}.json").read_text(encoding="utf-8"))
    assert found["environment"]["GPU"] is None
    assert [row["verdict"] for row in found["rules"]] == ["verified"]
    assert list(found["self-test"]) == ["policy"]


def test_what_it_runs_by_itself_are_options_of_verify() -> None:
    options = {name for parameter in verify.params for name in parameter.opts}
    assert options >= {*verify_on_gpu.ARGUMENTS, "--report"}


def test_what_was_run_on_a_gpu_says_what_the_documentation_says() -> None:
    results = verify_on_gpu.ROOT / "benchmarks" / "results"
    (found,) = [json.loads(path.read_text("utf-8")) for path in results.glob("verify-*.json")]
    verdicts = [row["verdict"] for row in found["rules"] if row["backend"] == "cuda"]
    calls = [row["verdict"] for row in found["self-test"]["cuda"]["calls"]]
    assert set(verdicts) == {"verified"}
    assert set(calls) == {"right"}
    page = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
    assert f"All {len(verdicts)} rules whose claims can be run are verified" in page
    assert f"{len(calls)} of {len(calls)} calls" in page


CLAIM = re.compile(r"(?:checked|verified|tested|run) on an? (?:NVIDIA )?(GPU|[A-Z]+\d+\w*)")


def test_no_page_claims_what_no_result_shows() -> None:
    results = (verify_on_gpu.ROOT / "benchmarks" / "results").glob("verify-*.json")
    machines = [json.loads(path.read_text(encoding="utf-8"))["environment"] for path in results]
    shown = " ".join(each["GPU"]["name"] for each in machines if each["GPU"])
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for line in page.read_text(encoding="utf-8").splitlines():
            for name in CLAIM.findall(line):
                denied = re.search(r"\b(no|not|none|only|without)\b", line, re.IGNORECASE)
                assert denied or name in shown, line
