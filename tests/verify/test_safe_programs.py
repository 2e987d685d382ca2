"""No generated program refutes a safe fix, and the search would find one that does."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.rules.host_sync import python_builtin_over_tensor

from amplint.source.variables import Variables
from benchmarks.safe_programs import TEMPLATES, Fixer, Template, outcome, parting, search

EXAMPLES = 40
FEWEST = 3  # safe fixes among them, below which a search shows nothing
# The programs that these templates generate do not come to a difference that an unsafe fix makes.
NEVER_REFUTED = (
    *("AMP504", "AMP204", "AMP701", "AMP702", "AMP703", "AMP704"),
    *("AMP405", "AMP303", "AMP901"),
)

# What a function is given in sight, where it would be a mistake to believe that it is given nothing
# else.
TEMPTING = {
    *(("AMP501", usual) for usual in ("torch.float16", '"meta"', "torch.zeros")),
    *(("AMP202", "12"), ("AMP503", "torch.float16")),
    *(("AMP504", usual) for usual in ("3", "torch.ones(3)", '"torch.FloatTensor"')),
}

each_template = pytest.mark.parametrize("template", TEMPLATES, ids=lambda each: each.code)


def usual(template: Template) -> str | None:
    """What the function of a template is given in sight."""
    return next(iter(template.factors.get("usual", ())), None)


@each_template
def test_no_program_refutes_a_safe_fix(template: Template, tmp_path: Path) -> None:
    found = search(template, EXAMPLES, Fixer(tmp_path))
    assert not found.refuted, next(iter(found.refuted.values()))[1]
    assert found.fixed >= FEWEST


@pytest.mark.parametrize(
    "template",
    [
        template
        for template in TEMPLATES
        if template.code not in NEVER_REFUTED and not usual(template) and not template.unsafe
    ],
    ids=lambda each: each.code,
)
def test_unsafe_fixes_are_refuted(template: Template, tmp_path: Path) -> None:
    assert search(template, EXAMPLES, Fixer(tmp_path, unsafe=True)).refuted


@pytest.mark.parametrize(
    "template",
    [template for template in TEMPLATES if (template.code, usual(template)) in TEMPTING],
    ids=lambda each: f"{each.code} {usual(each)}",
)
def test_to_believe_the_calls_in_sight_is_refuted(
    template: Template, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was: a type, a size or a device was what the callers of the project pass."""
    monkeypatch.setattr(Variables, "is_fixed", lambda *_: True)
    assert search(template, EXAMPLES, Fixer(tmp_path)).refuted


def test_to_believe_that_an_argument_is_a_tensor_is_refuted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`max(eps, rms)` must not become `rms.clamp(min=eps)` since one caller passes a tensor."""
    monkeypatch.setattr(python_builtin_over_tensor, "holds_argument", lambda *_: False)
    (template,) = (each for each in TEMPLATES if each.unsafe)
    assert search(template, EXAMPLES, Fixer(tmp_path)).refuted


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("torch.zeros(2)", "torch.zeros(2)", None),
        ("torch.zeros(2)", "-torch.zeros(2)", "result value"),
        ("torch.zeros(2)", "torch.zeros(2).half()", "result dtype"),
        ("torch.zeros(2, 3)", "torch.zeros(3, 2).t()", "result stride"),
        ("torch.zeros(2)", "torch.zeros(2).to_sparse()", "result layout"),
        ("torch.zeros(2)", "torch.zeros(2, device='meta')", "result device"),
        ("torch.zeros(2)", "nn.Parameter(torch.zeros(2))", "result type"),
        ("torch.zeros(2)", "torch.zeros(2, requires_grad=True)", "result gradient"),
        ("torch.zeros(2)", "torch.rand(2) * 0", "random numbers"),
        ("x * 2", "x * 2 + x.detach() * 0", None),
        ("x * 2", "x + x.detach()", "gradient value"),
        ("torch.zeros(2)", "torch.zeros(-2)", "raises RuntimeError"),
    ],
)
def test_what_two_programs_part_in(before: str, after: str, what: str | None) -> None:
    one, other = (
        outcome(
            "import torch\nfrom torch import nn\n\n\ndef run(device):\n"
            f"    x = torch.ones(2, requires_grad=True)\n    return x, {text}\n",
            "cpu",
        )
        for text in (before, after)
    )
    assert isinstance(one, dict)
    assert parting(one, other) == what
