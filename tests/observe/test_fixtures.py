"""The fixtures of the rules, observed: what a run can decide is seen in bad.py, and not in good.py.

The lines that are expected are those of `run`, which is what runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.findings.finding import Finding
from amplint.rule import registry
from amplint.util.text import Text
from amplint_verify.observing.claims import CLAIMS, FLAGGED, OF_FUNCTION, REFUSALS
from amplint_verify.observing.findings import explained, findings_of
from amplint_verify.recording.observation import Observation, RunOutcome
from amplint_verify.runs.run import Runner
from amplint_verify.runs.spec import Spec
from tests.helpers import expectations, fixture_rules, lint, modules, write

DECIDED = {each.code for each in CLAIMS.values()} | {
    *FLAGGED.values(),
    *REFUSALS.values(),
    OF_FUNCTION,
    "AMP107",
}
# What needs values, or a backward pass that runs: the CPU's kernels under CUDA's policy.
ON_POLICY = {"function_without_custom_fwd", "integers_cast_to_half", "positions_in_half"}
# Decided by many steps, and its `run` makes none.
NO_STEPS = {"AMP501"}
FOLDERS = sorted(rule.name.replace("-", "_") for rule in fixture_rules())

# What is seen at a line of `run` that no comment names, and why that is right.
BESIDE = {
    ("scaler_state_not_saved", "AMP409"): "the run is resumed, after as few steps",
    ("tensor_as_python_number", "AMP105"): "the same number is read a second time",
    ("weights_updated_inside_one_region", "AMP301"): "the region holds the whole loop",
    ("weights_updated_inside_one_region", "AMP303"): "the region holds the whole loop",
}


def run_of(text: str) -> range:
    """The rows of the function `run`; none if there is no such function."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == "run":
            return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(0)


def observed(runner: Runner, folder: str, module: str, directory: Path) -> Observation:
    write(modules(folder), directory)
    spec = Spec(
        root=str(directory),
        target=f"{module}:run",
        backend="policy" if folder in ON_POLICY else "sim",
        args=("{device}",),
        guess=False,
        watched=True,
    )
    run = runner.once(spec)
    if run.outcome is RunOutcome.OK:
        return run
    other = runner.once(replace(spec, guess=True))
    return other if other.outcome is RunOutcome.OK else run


def found(runner: Runner, folder: str, module: str, directory: Path) -> Iterator[Finding]:
    """The findings in a module of a folder."""
    observation = observed(runner, folder, module, directory)
    texts = {path: Text(data.decode()) for path, data in modules(folder).items()}
    findings = findings_of(observation, registry.own_rules(), texts)
    return (each for each in findings if each.path == f"{module}.py")


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_run_shows_the_mistake(runner: Runner, folder: str, tmp_path: Path) -> None:
    text = modules(folder)["bad.py"].decode()
    rows = run_of(text)
    if not rows:
        pytest.skip("nothing runs")
    wanted = {each for each in expectations(text) if each[0] in rows}
    findings = found(runner, folder, "bad", tmp_path)
    static = lint(modules(folder), tmp_path).findings
    named = explained(findings, static, registry.own_rules())
    seen = {(each.span.start.row, each.code) for each in named}
    assert {each for each in wanted if each[1] in DECIDED - NO_STEPS} - seen == set()
    assert {each for each in seen - wanted if (folder, each[1]) not in BESIDE} == set()


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_run_without_the_mistake_shows_none(runner: Runner, folder: str, tmp_path: Path) -> None:
    if not run_of(modules(folder)["good.py"].decode()):
        pytest.skip("nothing runs")
    assert list(found(runner, folder, "good", tmp_path)) == []
