"""The claims of the rules, held against torch: the bad program of each is run, and the fixed."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from amplint.findings.witness import Differs, Dtype, Raises, Same, Syncs, Unrun, Warns, Witness
from amplint.rule import fixtures as rule_fixtures
from amplint.rule.rule import Rule
from amplint_verify import witnesses
from amplint_verify.backends.choice import BACKENDS, AspectShown
from amplint_verify.recording.observation import (
    Flag,
    Leaf,
    Observation,
    Occurrences,
    ReturnedTensor,
    RunOutcome,
)
from amplint_verify.runs.run import Runner
from amplint_verify.witnesses import DEMANDS, WitnessResult, WitnessVerdict
from tests.command import Amplint
from tests.helpers import FIXTURES, ROOT, expectations, fixture_rules

pytest.importorskip("torch")

NAMES = ("sim", "policy", "cpu")
PAGE = ROOT / "docs" / "verify-rules.md"


RUN = [rule for rule in fixture_rules() if not isinstance(rule.witness, Unrun)]


@pytest.mark.parametrize("rule", RUN, ids=lambda rule: rule.name)
def test_run_shows_the_mistake(rule: Rule) -> None:
    """`run` is the rule's example: it holds a finding of the rule."""
    text = (FIXTURES / rule.name.replace("-", "_") / "bad.py").read_text(encoding="utf-8")
    run = next(
        n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == "run"
    )
    assert run.end_lineno is not None
    rows = {row for row, code in expectations(text) if code == rule.code}
    assert rows & set(range(run.lineno, run.end_lineno + 1))


@pytest.mark.parametrize("rule", fixture_rules(), ids=lambda rule: rule.name)
def test_witness(rule: Rule, runner: Runner, update: bool) -> None:
    """Every back end that can show it verifies it, and the page of the documentation says so.
    `pytest --update` writes the row of the page."""
    results = list(witnesses.verify([rule], [BACKENDS[name] for name in NAMES], runner))
    row = witnesses.as_markdown(results).splitlines()[-1]
    if isinstance(rule.witness, Unrun):
        assert [result.verdict for result in results] == [WitnessVerdict.UNRUN]
        assert_on_page(row + "  |" * len(NAMES), update)
        return
    aspect = DEMANDS[type(rule.witness)].aspect(rule.witness)
    for result in results:
        shown = BACKENDS[result.backend].shows[aspect] is not AspectShown.NO
        expected = WitnessVerdict.VERIFIED if shown else WitnessVerdict.NOT_SHOWN
        assert result.verdict is expected, (result.backend, result.happened)
    assert witnesses.status(results) == 0
    assert_on_page(row, update)


def assert_on_page(row: str, update: bool) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    if update:
        rows = {line.split()[1]: line for line in lines if line.startswith("| AMP")}
        rows[row.split()[1]] = row
        first = next(n for n, line in enumerate(lines) if line.startswith("| AMP"))
        lines = [*lines[:first], *(rows[code] for code in sorted(rows))]
        PAGE.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert row in lines, f"docs/verify-rules.md has no row\n{row}\n--update writes it"


def test_the_page_has_a_row_for_every_rule_and_no_other() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line.split()[1] for line in lines if line.startswith("| AMP")]
    assert rows == [rule.code for rule in fixture_rules()]


# ------------------------------------------------------------------------------- verdicts


def tensor(dtype: str = "float32", data: str = "AACAPw==") -> tuple[Leaf, ...]:
    """A result of one number; the default is 1.0."""
    facts = ReturnedTensor(dtype, "cpu", (), (), "torch.ReturnedTensor", False, data, data)
    return (Leaf("result", "torch.ReturnedTensor", "", facts),)


TWO = "AAAAQA=="  # 2.0
FLAG = Flag("bad.py", 3, "aten.mm.default", ("float16", "float32"))


def seen(outcome: RunOutcome = RunOutcome.OK, **fields: object) -> Observation:
    return Observation("cpu", "", outcome, **fields)  # type: ignore[arg-type]


def raised(text: str) -> Observation:
    return seen(RunOutcome.EXCEPTION, error="RuntimeError", text=text)


def reads(count: int) -> Observation:
    return seen(waits={"scalar-read": Occurrences(count)})


# A witness, the observations of both programs, and what follows on a back end that shows it.
CASES: list[tuple[Witness, Observation, Observation, WitnessVerdict]] = [
    (Raises("Same dtype"), raised("the same dtype"), seen(), WitnessVerdict.VERIFIED),
    (Raises("same dtype"), raised("out of memory"), seen(), WitnessVerdict.DIFFERS),
    (Raises("same dtype"), seen(), seen(), WitnessVerdict.DIFFERS),
    (Raises("same dtype"), seen(flags=(FLAG,)), seen(), WitnessVerdict.VERIFIED),
    (Raises("same dtype"), raised("the same dtype"), raised("the same"), WitnessVerdict.CRASHES),
    (Raises("same dtype"), seen(RunOutcome.TIMEOUT), seen(), WitnessVerdict.CRASHES),
    (
        Dtype("float32", "float16"),
        seen(result=tensor()),
        seen(result=tensor("float16")),
        WitnessVerdict.VERIFIED,
    ),
    (
        Dtype("float32", "float16"),
        seen(result=tensor()),
        seen(result=tensor()),
        WitnessVerdict.DIFFERS,
    ),
    (Same(), seen(result=tensor()), seen(result=tensor()), WitnessVerdict.VERIFIED),
    (Same(), seen(result=tensor()), seen(result=tensor(data=TWO)), WitnessVerdict.DIFFERS),
    (Same(), seen(result=tensor()), seen(result=()), WitnessVerdict.DIFFERS),
    (Same(), raised("no"), seen(), WitnessVerdict.CRASHES),
    (Same(), seen(RunOutcome.NOT_SIMULABLE, text="why"), seen(), WitnessVerdict.INCONCLUSIVE),
    (
        Same(),
        seen(result=tensor()),
        seen(RunOutcome.KILLED, error="SIGSEGV"),
        WitnessVerdict.CRASHES,
    ),
    (Differs(0.4), seen(result=tensor()), seen(result=tensor(data=TWO)), WitnessVerdict.VERIFIED),
    (Differs(0.6), seen(result=tensor()), seen(result=tensor(data=TWO)), WitnessVerdict.DIFFERS),
    (Syncs(3, 1), reads(3), reads(1), WitnessVerdict.VERIFIED),
    (Syncs(3, 1), reads(2), reads(1), WitnessVerdict.DIFFERS),
    (Syncs(3, 1), reads(3), reads(2), WitnessVerdict.DIFFERS),
    (Warns("old"), seen(warnings=("is old",)), seen(), WitnessVerdict.VERIFIED),
    (Warns("old"), seen(), seen(), WitnessVerdict.DIFFERS),
    (Warns("old"), seen(warnings=("is old",)), seen(warnings=("is old",)), WitnessVerdict.DIFFERS),
]


@pytest.mark.parametrize(("witness", "bad", "good", "verdict"), CASES)
def test_what_two_runs_say_of_a_witness(
    witness: Witness, bad: Observation, good: Observation, verdict: WitnessVerdict
) -> None:
    assert witnesses.judged(witness, BACKENDS["cuda"], bad, good)[0] is verdict


@pytest.mark.parametrize(
    ("witness", "backend"),
    [
        (Same(), "sim"),
        (Differs(0.1), "sim"),
        (Syncs(2, 1), "policy"),
        (Dtype("float32", "float16"), "cpu"),
        (Raises("cuda", devices=True), "policy"),
    ],
)
def test_what_a_back_end_does_not_show_it_does_not_judge(witness: Witness, backend: str) -> None:
    bad = raised("cuda") if isinstance(witness, Raises) else seen(result=tensor())
    judged = witnesses.judged(witness, BACKENDS[backend], bad, seen(result=tensor()))
    assert judged[0] is WitnessVerdict.NOT_SHOWN


def result(verdict: WitnessVerdict, code: str = "AMP101") -> WitnessResult:
    return WitnessResult(code, "", "sim", "", "", verdict)


@pytest.mark.parametrize(
    ("results", "status"),
    [
        ([result(WitnessVerdict.VERIFIED), result(WitnessVerdict.NOT_SHOWN)], 0),
        ([result(WitnessVerdict.VERIFIED), result(WitnessVerdict.UNRUN, "AMP109")], 0),
        ([result(WitnessVerdict.VERIFIED), result(WitnessVerdict.DIFFERS)], 1),
        ([result(WitnessVerdict.VERIFIED), result(WitnessVerdict.CRASHES)], 1),
        ([result(WitnessVerdict.VERIFIED), result(WitnessVerdict.INCONCLUSIVE, "AMP102")], 3),
        ([result(WitnessVerdict.VERIFIED), result(WitnessVerdict.NOT_SHOWN, "AMP102")], 3),
        ([result(WitnessVerdict.UNRUN)], 3),
    ],
)
def test_the_exit_status(results: list[WitnessResult], status: int) -> None:
    assert witnesses.status(results) == status


# ------------------------------------------------------------------------------- the command


def test_the_command_prints_the_table(amplint: Amplint) -> None:
    status, out, err = amplint("verify", "--rules", "AMP201", "--backend", "policy")
    assert status == 0
    title = BACKENDS["policy"].title
    assert err == f"amplint: runs the examples of AMP201 on policy ({title})\n"
    assert out.splitlines()[-1].split() == (
        "AMP201 policy float32 -> bfloat16 float32 -> bfloat16 verified".split()
    )


def test_the_command_writes_json(amplint: Amplint) -> None:
    status, out, _ = amplint(
        "verify", "--rules", "mixed-dtype-where", "--backend", "cpu", "--format", "json"
    )
    assert status == 3  # CPU autocast does not show dtypes of CUDA autocast
    document = json.loads(out)
    (row,) = document["rules"]
    assert document["self-test"] is None
    assert (row["code"], row["backend"], row["verdict"]) == ("AMP203", "cpu", "not shown")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--backend", "cpu"), "say what to run"),
        (("--rules", "--entry", "a:b"), "say what to run"),
        (("--self-test", "--script", "a.py", "-x"), "say what to run"),
        (("--rules", "AMP999"), "AMP999"),
        (("--rules", "--backend", "gpu"), "gpu"),
    ],
)
def test_what_cannot_be_run_is_said(
    arguments: tuple[str, ...], said: str, amplint: Amplint
) -> None:
    status, _, err = amplint("verify", *arguments)
    assert status == 2
    assert said in err


def test_without_torch_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, amplint: Amplint
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    status, out, err = amplint("verify", "--rules")
    assert (status, out) == (2, "")
    assert err == "amplint: error: verify needs torch: pip install torch numpy\n"


def test_fixtures_are_found_where_they_are_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("amplint.__file__", str(tmp_path / "amplint" / "__init__.py"))
    with pytest.raises(FileNotFoundError):
        rule_fixtures.fixtures()
    (tmp_path / "amplint" / "fixtures").mkdir(parents=True)
    assert rule_fixtures.fixtures() == tmp_path / "amplint" / "fixtures"
