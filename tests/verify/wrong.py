"""A rule whose fixes are wrong, each in the way that its line says.

    # wrong: total = a - b
    total = a + b

is a finding, whose fix replaces the statement by what stands behind `wrong:`. That of `# unsafe:`
is unsafe, and declares every change but one of the training itself, which `# training:` declares.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import libcst as cst

from amplint.core.candidate import nodes
from amplint.core.finding import Finding, Fix, Group
from amplint.core.rule import Change, Rule, Unrun
from amplint.project.config import Settings
from amplint.project.discover import Project
from amplint.run.request import Request
from amplint.source import Source
from tests.helpers import Files, write


def declaring(code: str, changes: frozenset[Change]) -> Rule:
    """A rule whose unsafe fixes may change these."""
    return Rule(
        code,
        "A statement to be replaced.\n\nFix safety: none.\n\nKnown limits: all.",
        group=Group.CORRECTNESS,
        since="0.1",
        witness=Unrun("it is wrong by design", "tests/verify"),
        safe_if=("it is claimed",),
        changes=changes,
        candidates=nodes("binop", "call", "const", "import", "name", "param"),
        name="statement-to-be-replaced",
    )


rule = declaring("AMP999", frozenset(Change) - {Change.TRAINING})
training = declaring("AMP998", frozenset({Change.TRAINING}))
RULES = {"wrong": rule, "unsafe": rule, "training": training}


def replaced(own: Rule, line: cst.SimpleStatementLine, src: Source) -> Iterator[Finding]:
    comment = line.leading_lines[-1].comment if line.leading_lines else None
    if comment is None:
        return
    kind, _, text = comment.value.removeprefix("# ").partition(": ")
    if RULES.get(kind) is own:
        edit = src.edits.replace(line.body[0], text)
        fix = Fix.safe_if("Replace it", (edit,), {"it is claimed": kind == "wrong"})
        yield src.finding(own, line.body[0], "a statement to be replaced", fix=fix)


@rule.check
def check(line: cst.SimpleStatementLine, src: Source) -> Iterator[Finding]:
    yield from replaced(rule, line, src)


@training.check
def check_training(line: cst.SimpleStatementLine, src: Source) -> Iterator[Finding]:
    yield from replaced(training, line, src)


def request(files: Files, directory: Path) -> Request:
    """A request to look for this rule in some files, which are written."""
    paths = tuple(sorted(files))
    return Request(
        project=Project(write(files, directory), paths, frozenset(paths)),
        settings=Settings(directory, select=("ALL",)),
        rules=(rule, training),
    )
