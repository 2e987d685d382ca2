"""A fault of amplint costs what it was about: the rest is found, and the fault is told."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import amplint
from amplint.project.config import Settings
from amplint.project.discover import Selection
from amplint.rule import registry
from amplint.rule.rule import Rule
from amplint.run.engine import run
from amplint.run.request import Outcome, Request
from amplint.util.errors import function_at_fault

# Each file has a hot read (AMP101), which asks for inference and heat, a scaler that is misused
# (AMP405), a loss that is kept with its graph (AMP901), and a migration (AMP702).
TRAIN = """\
import torch


def train(model, loader, optimizer):
    scaler = torch.cuda.amp.GradScaler()
    total = 0
    for x in loader:
        with torch.autocast("cuda"):
            loss = model(x.cuda()).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        total += loss
        print(loss.item())


def distill(loader, model):
    for x in loader:
        model(x).sum().backward()
        print(x.cuda().sum().item())
"""
BOTH = ("a.py", "b.py")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in BOTH:
        Path(path).write_text(TRAIN)


def look(rules: Sequence[Rule] | None = None, paths: tuple[str, ...] = BOTH) -> Outcome:
    root = Path.cwd()
    known = registry.all_rules() if rules is None else rules
    return run(Request(Selection(root, paths, frozenset(paths)), Settings(root), known))


def found(outcome: Outcome) -> set[tuple[str, int, str]]:
    return {(f.path, f.span.start.row, f.code) for f in outcome.findings}


def failing(work: Callable[..., Any], at: Callable[..., bool]) -> Callable[..., Any]:
    @functools.wraps(work)
    def fail(*arguments: Any, **named: Any) -> Any:
        if at(*arguments):
            raise ZeroDivisionError("division by zero")
        return work(*arguments, **named)

    return fail


def fail(monkeypatch: pytest.MonkeyPatch, where: str, at: Callable[..., bool]) -> None:
    """Have the function or method of that dotted name raise where `at` says so."""
    owner, _, name = where.rpartition(".")
    module, _, cls = owner.rpartition(":")
    holder = __import__(module or cls, fromlist=["*"])
    holder = getattr(holder, cls) if module else holder
    monkeypatch.setattr(holder, name, failing(getattr(holder, name), at))


def in_train(finding: tuple[str, int, str]) -> bool:
    """Whether a finding is in `train` of a.py."""
    return finding[0] == "a.py" and finding[1] < 19


WHOLE = {
    (path, row, code)
    for path in BOTH
    for row, code in ((5, "AMP702"), (12, "AMP405"), (15, "AMP901"), (16, "AMP101"), (22, "AMP101"))
}


DECORATED = """\
import torch
from torch import nn


def keeping(method):
    def wrapped(self, x):
        with torch.autocast("cuda", torch.bfloat16):
            return method(self, x)

    return wrapped


class Trainer:
    def __init__(self, net):
        self.net = nn.DataParallel(net)

    @keeping
    def step(self, x):
        return self.net(x)
"""


def test_a_decorator_is_asked_for_no_argument(tmp_path: Path) -> None:
    """AMP602 failed on gpytorch: who calls a decorator is no call in the text."""
    (tmp_path / "a.py").write_text(DECORATED)
    settings = Settings(tmp_path, select=("ALL",))
    paths = ("a.py",)
    outcome = run(
        Request(Selection(tmp_path, paths, frozenset(paths)), settings, registry.own_rules())
    )
    assert outcome.problems == ()
    assert "AMP602" in [each.code for each in outcome.findings]


def test_the_program_has_what_the_faults_are_to_leave() -> None:
    outcome = look()
    assert found(outcome) >= WHOLE, found(outcome)
    assert outcome.problems == ()


def told(outcome: Outcome, culprit: str, what: str) -> None:
    """One line names the culprit, and the last one says how to report it."""
    assert outcome.status == 2
    fault, report = outcome.problems
    assert fault.startswith(f"{culprit}: ")
    assert what in fault
    assert "ZeroDivisionError: division by zero" in fault
    assert amplint.__version__ in report
    assert "please report it" in report
    assert f"`amplint check --no-cache {culprit.partition('::')[0]}`" in report


def in_all_but_train(outcome: Outcome) -> bool:
    return found(outcome) >= {finding for finding in WHOLE if not in_train(finding)}


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("amplint.inference.whole_program.uses:UsesInProject.marks_of", "inference failed"),
        ("amplint.analyses.hotness:Hotness._by_definition", "the analysis Hotness failed"),
        ("amplint.analyses.hotness:Hotness.is_hot", "the analysis Traits failed"),
        ("amplint.gradscaler.checker:Misuses._is_entry", "the analysis ScalerMisuse failed"),
    ],
)
def test_an_analysis_that_fails_on_one_function_leaves_out_that_alone(
    monkeypatch: pytest.MonkeyPatch, where: str, what: str
) -> None:
    fail(monkeypatch, where, lambda *about: "a.py::train" in about)
    outcome = look()
    told(outcome, "a.py::train", what)
    assert in_all_but_train(outcome)


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("amplint.rules.memory._loss_terms:BackpropagatedValues.of", "AMP901"),
        ("amplint.analyses.scaler_misuse:ScalerMisuse.of", "AMP405"),
    ],
)
def test_a_question_that_fails_leaves_out_the_rules_that_ask_it(
    monkeypatch: pytest.MonkeyPatch, where: str, code: str
) -> None:
    fail(monkeypatch, where, lambda _, at: at.function.startswith("a.py::"))
    outcome = look()
    left = {finding for finding in WHOLE if finding[0] == "b.py" or finding[2] != code}
    assert found(outcome) >= left
    assert any(f"a.py: the rule {code} " in problem for problem in outcome.problems)
    assert "`amplint check --no-cache a.py`" in outcome.problems[-1]


def test_a_rule_that_fails_is_told_once_for_a_file_and_leaves_all_others() -> None:
    rules = [replace(rule, checks=list(rule.checks)) for rule in registry.all_rules()]
    (rule,) = (rule for rule in rules if rule.code == "AMP101")
    rule.checks[:] = [
        replace(check, judge=failing(check.judge, lambda *_: True)) for check in rule.checks
    ]
    outcome = look(rules)
    assert found(outcome) >= {finding for finding in WHOLE if finding[2] != "AMP101"}
    assert outcome.status == 2
    *faults, report = outcome.problems
    assert [fault.partition(": line")[0] for fault in faults] == [
        f"{path}: the rule AMP101 host-read-in-hot-path failed" for path in BOTH
    ]
    assert all(" more in this file" in fault for fault in faults)
    assert "please report it" in report


def test_the_index_of_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, "amplint.run.indexing.File", lambda path, *_: path == "a.py")
    outcome = look()
    told(outcome, "a.py", "amplint cannot read it")
    assert found(outcome) >= {finding for finding in WHOLE if finding[0] == "b.py"}


def test_one_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    fail(
        monkeypatch,
        "amplint.source.navigation:Layout.open",
        lambda source, unit: (source.path, unit.row) == ("a.py", 4),
    )
    outcome = look()
    told(outcome, "a.py", "amplint failed from line 4 to 16")
    assert in_all_but_train(outcome)


def test_the_judge_of_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, "amplint.run.judge.judge", lambda path, *_: path == "a.py")
    outcome = look()
    told(outcome, "a.py", "amplint failed on this file")
    assert found(outcome) >= {finding for finding in WHOLE if finding[0] == "b.py"}


def test_what_is_about_no_function_costs_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("broken.py").write_text("x = (\n")
    fail(monkeypatch, "amplint.run.analysis.Program", lambda *_: True)
    outcome = look(paths=(*BOTH, "broken.py"))
    told(outcome, "a.py", "amplint failed on this part of the project")
    assert found(outcome) == {("broken.py", 1, "AMP000")}


def test_an_analysis_that_fails_on_every_function_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.py").write_text("".join(f"def f{n}(x):\n    x.backward()\n" for n in range(100)))
    fail(monkeypatch, "amplint.analyses.hotness:Hotness._by_definition", lambda *_: True)
    told(look(), "a.py", "ZeroDivisionError")


def test_the_function_at_fault_is_the_innermost_one() -> None:
    def outer(function: str) -> float:
        return inner(function.upper(), "other")

    def inner(number: str, callee: str) -> float:
        return leaf(0) if number < callee else 0

    def leaf(number: int) -> float:
        return 1 / number

    for known, function in (
        ({"f", "F", "other"}, "F"),
        ({"f", "other"}, "other"),
        ({"f"}, "f"),
        ({"g"}, None),
    ):
        with pytest.raises(ZeroDivisionError) as caught:
            outer("f")
        assert function_at_fault(caught.value, known) == function
