"""Every safe fix is safe by the conditions that it names, and by no fewer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from amplint.findings.finding import Finding, Safety, edited
from amplint.rule.registry import all_rules
from amplint.run.request import Outcome
from amplint_verify.backends.choice import BACKENDS
from amplint_verify.compare import executed
from amplint_verify.compare.operations import Place
from amplint_verify.compare.verdicts import GroundedVerdict, Runs, Verdict, judge
from amplint_verify.recording.observation import Observation
from amplint_verify.runs.spec import Spec
from tests.helpers import ROOT, lint
from tests.verify.safe import CASES, Case, replaced

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
FILE = "main.py"
PAGE = ROOT / "docs" / "safe-fixes.md"
HEAD = """\
# What makes a fix safe

A safe fix does not change values, dtypes, devices, strides, classes, gradients or random numbers,
unless the old line could only raise an error. It names the conditions that were proven (`safe
because ...` in the report, `proven` in the JSON; `amplint explain` lists all conditions of a rule).

No fix, safe or not, loses a comment: comments inside replaced code move to a line of
their own above it. Only comments for tools (`# noqa`, `# type: ignore`) are removed together with
their whole line.

[What a run of `fix` promises](#what-a-run-of-fix-promises) is below the table.

For each condition, a test has a program that does not meet it, where amplint must not call the fix
safe. The test applies the fix anyway, and the back end in the table shows that this is a mistake
([verify.md](verify.md) describes the back ends; none of them is a GPU). Generated programs try
to refute the remaining conditions (`python -m benchmarks.safe_programs`; the result of a long
search is in [benchmarks/results/safe_programs.json](../benchmarks/results/safe_programs.json)).

Three things about a project are assumed, not proven:

- It does not replace torch's functions with others.
- Code outside the project does not call its functions in an autocast region, under another default
  or in a `try` that the project does not mention.
- For AMP301: a function gets no modules other than those that the project passes to it.

| rule | a safe fix needs that | without it, a mistake is shown on |
|---|---|---|
"""
SECTION = "\n## What a run of `fix` promises\n"  # which is written by hand


def test_every_condition_of_every_safe_fix_is_taken_away_once() -> None:
    declared = {(rule.code, condition) for rule in all_rules() for condition in rule.safe_if}
    assert {(case.code, case.full_condition) for case in CASES} == declared


def test_the_page_lists_the_conditions(update: bool) -> None:
    """`pytest --update` writes it."""
    table, section, promises = PAGE.read_text(encoding="utf-8").partition(SECTION)
    if update:
        PAGE.write_text(page() + section + promises, encoding="utf-8")
        table = page()
    assert table == page()
    assert section


def page() -> str:
    shown: dict[tuple[str, str], list[str]] = {}
    for case in CASES:
        how = case.backend or f"not run here: {case.why}"
        places = shown.setdefault((case.code, case.full_condition), [])
        places += [how] if how not in places else []
    rows = (
        f"| {rule.code} | {condition} | {', '.join(shown[rule.code, condition])} |\n"
        for rule in all_rules()
        for condition in rule.safe_if
    )
    return HEAD + "".join(rows)


@each_case
def test_what_cannot_be_shown_here_says_why(case: Case) -> None:
    assert bool(case.backend) != bool(case.why)


@each_case
def test_with_the_condition_the_fix_is_safe(case: Case, tmp_path: Path, runner: Any) -> None:
    findings = found(case.program, case.code, tmp_path)
    assert [finding.fix.safety for finding in findings if finding.fix] == [Safety.SAFE]
    assert findings[0].fix is not None and case.full_condition in findings[0].fix.proven
    if case.backend:
        after = edited(case.program, findings[0].fix.edits)
        assert verdict(case.program, after, case.backend, tmp_path, runner).verdict in (
            Verdict.EXACT,
            Verdict.IMPROVED,  # the program raised, and runs now
        )


@each_case
def test_without_it_the_fix_is_not_safe_and_would_be_a_mistake(
    case: Case, tmp_path: Path, runner: Any
) -> None:
    program = replaced(case.program, case.without)
    compile(program, FILE, "exec")
    findings = found(program, case.code, tmp_path)
    safe = fixed(program, findings, Safety.SAFE)
    if not case.rewrite:
        assert safe == program
    if case.backend:
        mistaken = replaced(program, case.rewrite) if case.rewrite else ""
        mistaken = mistaken or fixed(program, findings, Safety.UNSAFE)
        assert mistaken not in (program, safe)
        assert not verdict(program, mistaken, case.backend, tmp_path, runner).good


def found(program: str, code: str, directory: Path) -> list[Finding]:
    """The findings of one rule."""
    outcome: Outcome = lint({FILE: program.encode()}, directory)
    return [finding for finding in outcome.findings if finding.code == code]


def fixed(program: str, findings: list[Finding], safety: Safety) -> str:
    """The program with those fixes of a safety."""
    fixes = [f.fix for f in findings if f.fix is not None and f.fix.safety is safety]
    return edited(program, [edit for fix in fixes for edit in fix.edits])


def verdict(before: str, after: str, backend: str, directory: Path, runner: Any) -> GroundedVerdict:
    """What a back end says of a change that claims to change nothing."""

    def observed(text: str) -> Observation:
        (directory / FILE).write_text(text)
        spec = Spec(
            root=str(directory),
            target="main:run",
            backend=backend,
            args=("{device}",),
            # Under a mode that records, `torch.tensor` keeps the class of a tensor.
            record=backend == "sim",
        )
        seen: Observation = runner.run(spec)
        return seen

    original = observed(before)

    def more(after_it: bool, context: str) -> Observation:
        raise AssertionError((after_it, context))

    rows = executed.unedited(before, after)

    def same_line(place: Place) -> Place | None:
        return (place[0], rows[place[1]]) if place[1] in rows else None

    runs = Runs(BACKENDS[backend], original, original, observed(after), more, same_line)
    return judge(runs, frozenset())
