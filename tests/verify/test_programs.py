"""Training programs with mistakes, verified before their fixes are written and run after."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("torch")

from amplint.findings.declaration import Change
from amplint.fix import applying
from amplint.fix.project_fixes import write_project
from amplint.project.config import Settings
from amplint.project.discover import select
from amplint.rule import registry
from amplint.run import engine
from amplint.run.request import Request
from amplint_verify import projects
from amplint_verify.backends.choice import BACKENDS
from amplint_verify.compare import lab
from amplint_verify.compare.verdict import MEANINGS, Verdict
from amplint_verify.compare.verdicts import GroundedVerdict
from amplint_verify.recording.observation import to_json
from amplint_verify.report import findings as report
from amplint_verify.runs.drivers import StartKind, UserProgram
from amplint_verify.runs.spec import Spec
from benchmarks import programs
from tests.helpers import ROOT

PROGRAMS = ROOT / "benchmarks" / "verify_programs"


def request(directory: Path) -> Request:
    settings = Settings(directory, target_torch="2.4")
    return Request(select([directory], settings), settings, registry.all_rules())


def options(program: UserProgram) -> projects.Options:
    backends = [BACKENDS["sim"], BACKENDS["policy"]]
    return projects.Options(program, backends, unsafe=True, seconds=120, memory=4 << 30)


# `lm` takes as long as the others together: `python -m benchmarks.programs` runs it as well.
@pytest.mark.parametrize("name", [name for name in programs.RUN if name != "lm"])
def test_before_and_after(name: str, tmp_path: Path, runner: Any) -> None:
    """Verdicts and counts are those that are committed, and the fixed program passes its tests."""
    tree = tmp_path / name
    shutil.copytree(PROGRAMS / name, tree)
    asked = request(tree)
    before = (tree / "train.py").read_text()
    found = programs.verified(tree, programs.RUN[name])
    assert (tree / "train.py").read_text() == before
    committed = json.loads(programs.RESULT.read_text(encoding="utf-8"))[name]
    summary = programs.summary(found)
    assert summary["fixes"] == committed["fixes"]
    if summary["torch"] == committed["torch"]:  # another counts copies of its own
        assert summary["runs"] == committed["runs"]
    assert set(committed["verdicts"]) <= {"exact", "stream-changed"}
    assert found.status == report.VERIFIED
    original, fixed = found.verified.runs["sim"]
    assert fixed.blocking.total < original.blocking.total
    assert fixed.to_device < original.to_device

    assert write_project(asked, projects.as_fixed(found))[1] == ()
    again = engine.run(request(tree))
    assert not applying.fixable(again.findings, applying.UNSAFE)
    suite = (to_json(UserProgram(StartKind.PYTEST)), str(PROGRAMS), "{device}")
    after = runner.run(Spec(str(tree), lab.TARGET, "policy", suite))
    outcomes = {leaf.text for leaf in after.result if leaf.where.startswith("result['tests'][")}
    assert outcomes == {"'passed'"}


@pytest.mark.parametrize(
    ("verdicts", "undeclared", "status"),
    [
        ("", None, report.VERIFIED),
        ("exact improved declared-change stream-changed", None, report.VERIFIED),
        ("exact not-executed", None, report.UNDECIDED),
        ("exact inconclusive", None, report.UNDECIDED),
        ("not-executed differs", None, report.DIFFERS),
        ("exact crashes", None, report.DIFFERS),
        ("stream-changed", Change.STREAM, report.DIFFERS),
    ],
)
def test_exit_status(verdicts: str, undeclared: Change | None, status: int) -> None:
    """The worst of all fixes decides; a change that no rule declares is a difference."""
    judged = tuple(
        mock.Mock(
            spec=lab.JudgedFix, judgement=GroundedVerdict(Verdict(each), "", undeclared=undeclared)
        )
        for each in verdicts.split()
    )
    verified = mock.Mock(spec=lab.Verified, judged=judged)
    assert report.ReportMaterial(verified, (), "train:main()", ()).status == status


def test_report(tmp_path: Path) -> None:
    """Steps that are too few leave an evaluation unverified, and sums that are read after the loop;
    the report says so, in all forms."""
    tree = tmp_path / "cifar"
    shutil.copytree(PROGRAMS / "cifar", tree)
    program = UserProgram(StartKind.SCRIPT, "train.py", steps=2)
    found = projects.verified(request(tree), options(program))
    assert found.status == report.UNDECIDED
    text = report.text(found)
    assert "4 exact, 3 not-executed" in text
    assert "what is edited of `with autocast():` did not run (train.py:79)" in text
    assert "what is edited of `running_loss = float(running_loss)` did not run" in text
    assert "not checked: time and memory" in text

    report.write(found, tmp_path)
    data = json.loads((tmp_path / "verify.json").read_text())
    assert data["status"] == 3
    assert data["program"] == "python train.py"
    assert data["backends"]["sim"]["title"].startswith("a simulated GPU, dtypes and devices only")
    assert [fix["verdict"] for fix in data["fixes"]].count(Verdict.NOT_EXECUTED.value) == 3
    waits = data["runs"]["sim"]
    assert (
        waits["after"]["waits"]["h2d-copy"]["user"] < waits["before"]["waits"]["h2d-copy"]["user"]
    )

    page = (tmp_path / "verify.html").read_text()
    assert "<svg" in page and "h2d-copy" in page
    assert 'class="open">not-executed<' in page
    # Each fix has its finding in the source, its diff, and a verdict that is defined.
    assert page.count("<article") == page.count("<mark>") == len(found.verified.judged) == 7
    assert 'class="row removed" data-row="63">- ' in page
    assert "+         with torch.amp.autocast(&quot;cuda&quot;):" in page
    for meaning in MEANINGS.values():
        assert f">{meaning.words}</dt><dd>{meaning.text}</dd>" in page
    assert "<code>policy</code> does not show them" in page
    assert "waits that changed, on policy" not in page
    assert not any(word in page for word in ("<script", "http:", "https:", "<link", "src="))
