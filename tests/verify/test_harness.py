"""The examples of the rules and the self-test together: one status, one document."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")

from amplint.cli import main as cli
from amplint_verify import harness, witnesses
from amplint_verify.backends.choice import BACKENDS
from amplint_verify.harness import Checked
from amplint_verify.selftest import RIGHT, WRONG, SelfTestReport, SelfTestRow
from amplint_verify.witnesses import WitnessResult, WitnessVerdict

pytest.importorskip("numpy")  # the module of PyTorch's lists wants it

SIM = (BACKENDS["sim"],)


def rules(verdict: WitnessVerdict) -> tuple[WitnessResult, ...]:
    return (WitnessResult("AMP101", "a-rule", "sim", "this", "that", verdict),)


def calls(verdict: str) -> tuple[SelfTestReport, ...]:
    return (SelfTestReport(BACKENDS["sim"], (SelfTestRow("torch_fp32", "exp", verdict),)),)


@pytest.mark.parametrize(
    ("checked", "status"),
    [
        (Checked(SIM, rules(WitnessVerdict.VERIFIED), None), 0),
        (Checked(SIM, None, calls(RIGHT)), 0),
        (Checked(SIM, rules(WitnessVerdict.VERIFIED), calls(RIGHT)), 0),
        (Checked(SIM, rules(WitnessVerdict.VERIFIED), calls(WRONG)), 1),
        (Checked(SIM, rules(WitnessVerdict.DIFFERS), calls(RIGHT)), 1),
        (Checked(SIM, rules(WitnessVerdict.NOT_SHOWN), calls(RIGHT)), 3),
        (Checked(SIM, rules(WitnessVerdict.VERIFIED), ()), 3),
        (Checked(SIM, rules(WitnessVerdict.NOT_SHOWN), calls(WRONG)), 1),
    ],
)
def test_the_status_is_the_worst(checked: Checked, status: int) -> None:
    assert checked.status == status


def test_what_could_not_be_tested_is_said() -> None:
    assert harness.as_text(Checked(SIM, None, ())) == harness.UNTESTED
    assert harness.UNTESTED in harness.as_markdown(Checked(SIM, None, ()))


def test_both_are_told_in_one_text() -> None:
    checked = Checked(SIM, rules(WitnessVerdict.VERIFIED), calls(RIGHT))
    both = harness.as_text(checked)
    assert both.startswith(witnesses.as_text(rules(WitnessVerdict.VERIFIED)))
    assert "sim: 1 of 1 calls" in both


def test_both_are_run_by_one_command(capfd: pytest.CaptureFixture[str]) -> None:
    given = ["verify", "--rules", "AMP203", "--self-test", "--backend", "policy"]
    assert cli.main([*given, "--format", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["schema"] == harness.SCHEMA
    assert document["status"] == 0
    assert document["environment"]["torch"]
    assert [row["verdict"] for row in document["rules"]] == ["verified"]
    assert len(document["self-test"]["policy"]["calls"]) > 100
    assert list(document["backends"]) == ["policy"]
