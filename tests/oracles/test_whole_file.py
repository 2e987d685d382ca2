"""The fast path reports what an analysis of whole files does, which leaves nothing out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import libcst as cst
import pytest

from amplint import HOT, Finding, Group, Rule, Source, Unrun, calls, nodes
from amplint.core.text import Text
from amplint.core.values import UNKNOWN
from amplint.cst.pairing import ast_nodes, pair_by_order, walk
from amplint.cst.segments import Unit
from amplint.run.engine import run
from amplint.run.request import Request
from benchmarks.whole_file import Difference, WholeFile, one_part, run_whole, said, told
from tests.helpers import ROOT, folders, lint, modules, request, write
from tests.unit.test_units import PROGRAMS

TRAINING = """\
import torch

def train(model, loader, optimizer):
    for x in loader:
        model(x.cuda()).sum().backward()
        optimizer.step()

def unrelated():
    number = 2
    return number.real
"""


@pytest.mark.parametrize("folder", folders())
def test_whole_files_say_of_a_fixture_what_is_said(folder: str, tmp_path: Path) -> None:
    files = modules(folder)
    whole = run_whole(request(files, write(files, tmp_path)))
    assert whole.parsed == len(files)
    assert said(whole.outcome) == said(lint(files, tmp_path))


@pytest.mark.parametrize(
    "program", sorted((ROOT / "tests" / "oracles" / "programs").glob("*.py"), key=str)
)
def test_whole_files_say_of_a_program_what_is_said(program: Path, tmp_path: Path) -> None:
    files = {"program.py": program.read_bytes()}
    fast = lint(files, tmp_path)
    assert said(run_whole(request(files, tmp_path)).outcome) == said(fast)


# ------------------------------------------------------------------------------ what would differ


def finds(kind: type[cst.CSTNode], text: str) -> Rule:
    """A rule that finds all nodes of a kind that are written so, and has no such candidate."""
    rule = Rule(
        "AMP900",
        "Doc.",
        Group.CORRECTNESS,
        "0.1",
        Unrun("made up", "nowhere"),
        calls("no.where"),
        name="made-up",
    )

    def check(node: cst.CSTNode, src: Source) -> Iterator[Finding]:
        if src.text(node) == text:
            yield src.finding(rule, node, "known" if src.value(node) != UNKNOWN else "unknown")

    check.__annotations__["node"] = kind
    rule.check(check)
    return rule


def project(rule: Rule, directory: Path) -> Request:
    asked = request({"a.py": TRAINING.encode()}, write({"a.py": TRAINING.encode()}, directory))
    return replace(asked, rules=(rule,))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (cst.Attribute, "number.real"),  # no candidate
        (cst.Name, "backward"),  # a name that is no expression
        (cst.Comma, ","),  # nothing that is ever walked
    ],
)
def test_a_rule_that_lacks_a_candidate_is_found_out(
    kind: type[cst.CSTNode], text: str, tmp_path: Path
) -> None:
    asked = project(finds(kind, text), tmp_path)
    assert not run(asked).findings
    assert run_whole(asked).outcome.findings


def test_a_rule_that_asks_too_much_of_its_candidates_is_found_out(tmp_path: Path) -> None:
    rule = replace(finds(cst.Attribute, "number.real"), candidates=nodes("attr") & HOT)
    asked = project(rule, tmp_path)
    assert not run(asked).findings
    assert run_whole(asked).outcome.findings


def test_two_ways_are_compared_by_all_that_they_say(tmp_path: Path) -> None:
    asked = project(finds(cst.Attribute, "number.real"), tmp_path)
    fast, whole = run(asked), run_whole(asked).outcome
    (finding,) = whole.findings
    elsewhere = replace(whole, findings=(replace(finding, scope="other"),))
    assert told(fast, fast) == told(whole, whole) == Difference(0, 0)
    assert told(fast, whole) == Difference(1, 0)
    assert told(elsewhere, whole) == Difference(1, 1)


def test_what_is_known_of_another_part_is_known_of_the_whole(tmp_path: Path) -> None:
    """Where each file is a part, nothing calls `read` for a batch."""
    files = {
        "a.py": b"def read(loss):\n    print(loss.item())\n",
        "b.py": TRAINING.replace("step()", "step(), read(x.cuda().sum())").encode(),
    }
    files["b.py"] = b"from a import read\n" + files["b.py"]
    asked = request(files, write(files, tmp_path))
    apart, together = (
        [finding.code for finding in run_whole(asked, divide).outcome.findings]
        for divide in (lambda sizes: [(path,) for path in sorted(sizes)], one_part)
    )
    assert ("AMP101" in apart, "AMP101" in together) == (False, True)


@pytest.mark.parametrize("text", PROGRAMS, ids=lambda text: text[:20])
def test_nodes_are_the_same_pairs_by_place_and_by_order(text: str) -> None:
    module = ast.parse(text)
    tree = WholeFile(Text(text), module).tree(Unit(0, len(text), 1, tuple(module.body)))
    assert tree.pairs == pair_by_order(walk(tree.spans.module.body)[0], ast_nodes(module.body))
