"""Few nodes are shown to checks with the code at hand, and nothing is found at any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from amplint import (
    SOMEWHERE_HOT,
    Candidates,
    Finding,
    Group,
    Rule,
    Unrun,
    View,
    calls,
    in_functions_with,
    nodes,
)
from amplint.analyses.function_traits import Traits
from amplint.rule.search import CandidateSearch, WayTable
from amplint.run.request import Request
from benchmarks.every_node import Difference, Everywhere, run, said, told
from tests.helpers import ROOT, folders, lint, modules, request, write

PROGRAMS = sorted((ROOT / "tests" / "oracles" / "programs").glob("*.py"))
TRAINING = """\
import torch

def train(model, loader, optimizer):
    for x in loader:
        model(x.cuda()).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("folder", folders())
def test_of_every_node_of_a_fixture_is_said_what_is_said(folder: str, tmp_path: Path) -> None:
    files = modules(folder)
    everywhere = run(request(files, write(files, tmp_path)), Everywhere)
    assert said(everywhere.outcome) == said(lint(files, tmp_path))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_of_every_node_of_a_program_is_said_what_is_said(program: Path, tmp_path: Path) -> None:
    files = {"program.py": program.read_bytes()}
    everywhere = run(request(files, write(files, tmp_path)), Everywhere)
    assert said(everywhere.outcome) == said(lint(files, tmp_path))


# ------------------------------------------------------------------------------ what would differ


def project(
    tmp_path: Path, condition: Candidates, check: Callable[[View], Iterator[Finding]]
) -> Request:
    """A project and one rule."""
    unrun = Unrun("made up", "nowhere")
    rule = Rule("AMP900", "Doc.", Group.CORRECTNESS, "0.1", unrun, name="made-up")
    rule.on(condition)(check)
    files = {"a.py": TRAINING.encode()}
    return replace(request(files, write(files, tmp_path)), rules=(rule,))


def finds(at: View) -> Iterator[Finding]:
    yield at.finding("found")


def finds_with_the_code_alone(at: View) -> Iterator[Finding]:
    if at._code is not None:
        yield at.finding("found")


def test_a_check_that_judges_otherwise_with_the_code_at_hand_is_found_out(tmp_path: Path) -> None:
    asked = project(tmp_path, nodes("call"), finds_with_the_code_alone)
    assert not run(asked).outcome.findings
    assert len(run(asked, Everywhere).outcome.findings) == 5


@pytest.mark.parametrize(
    ("condition", "owner", "name", "wrong"),
    [
        (calls(".step"), WayTable, "of_call", ()),
        (calls(".step") & SOMEWHERE_HOT, Traits, "of_function", frozenset()),
        (
            calls(".step") & in_functions_with(frozenset({"torch"})),
            CandidateSearch,
            "_symbols_of",
            frozenset(),
        ),
    ],
    ids=["names", "traits", "symbols"],
)
def test_what_is_left_out_by_mistake_is_found_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    condition: Candidates,
    owner: type,
    name: str,
    wrong: object,
) -> None:
    asked = project(tmp_path, condition, finds)
    monkeypatch.setattr(owner, name, lambda *_: wrong)
    short, long = run(asked), run(asked, Everywhere)
    assert told(short.outcome, long.outcome) == Difference(1, 0)
    assert (short.shown, long.shown) == (0, 1)


def test_two_ways_are_compared_by_all_that_they_say(tmp_path: Path) -> None:
    asked = project(tmp_path, calls(".step"), finds)
    outcome = run(asked).outcome
    (finding,) = outcome.findings
    elsewhere = replace(outcome, findings=(replace(finding, scope="other"),))
    nothing = replace(outcome, findings=())
    assert told(outcome, outcome) == Difference(0, 0)
    assert told(nothing, outcome) == Difference(1, 0)
    assert told(elsewhere, outcome) == Difference(1, 1)
