"""A rule whose fixes are wrong, each in the way that its line says.

    # wrong: total = a - b
    total = a + b

in a function is a finding, whose fix replaces the statement by what stands behind `wrong:`. That of
`# unsafe:` is unsafe, and declares every change but one of the training itself, which
`# training:` declares.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import libcst as cst
from libcst import matchers

from amplint.findings.declaration import Change
from amplint.findings.finding import Finding, Fix, Group
from amplint.findings.witness import Unrun
from amplint.project.config import Settings
from amplint.project.discover import Selection
from amplint.rule.conditions import nodes
from amplint.rule.rule import Rule
from amplint.run.request import Request
from amplint.view.view import View
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
        name="statement-to-be-replaced",
    )


rule = declaring("AMP999", frozenset(Change) - {Change.TRAINING})
training = declaring("AMP998", frozenset({Change.TRAINING}))
RULES = {"wrong": rule, "unsafe": rule, "training": training}


@rule.on(nodes("function"))
@training.on(nodes("function"))
def replaced(function: View) -> Iterator[Finding]:
    source = function.source
    for line in matchers.findall(function.cst, matchers.SimpleStatementLine()):
        assert isinstance(line, cst.SimpleStatementLine)
        comment = line.leading_lines[-1].comment if line.leading_lines else None
        if comment is None or source.function(line) is not function.cst:
            continue
        kind, _, text = comment.value.removeprefix("# ").partition(": ")
        if RULES.get(kind) == function.rule:
            edit = source.edits.replace(line.body[0], text)
            fix = Fix.safe_if("Replace it", (edit,), {"it is claimed": kind == "wrong"})
            yield function.finding("a statement to be replaced", fix=fix, place=line.body[0])


def request(files: Files, directory: Path) -> Request:
    """A request to look for this rule in some files, which are written."""
    paths = tuple(sorted(files))
    return Request(
        selection=Selection(write(files, directory), paths, frozenset(paths)),
        settings=Settings(directory, select=("ALL",), preview=True),
        rules=(rule, training),
    )
