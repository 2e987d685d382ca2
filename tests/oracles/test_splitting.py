"""What amplint says of a program does not depend on how the program is spread over files."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from amplint.run.request import Outcome
from tests.helpers import expectations, lint, places
from tests.splitting import split

PROGRAMS = Path(__file__).parent / "programs"
IMPORT = re.compile(r"(from|import) ")


def said(outcome: Outcome, files: dict[str, bytes], paths: set[str]) -> Counter[tuple[str, str]]:
    """The findings as codes and the lines that they are about, wherever these stand; but for those
    about imports, of which each part has all, used or not."""
    found = (
        (f.code, re.split(r"\r\n|\r|\n", files[f.path].decode())[f.span.start.row - 1].strip())
        for f in outcome.findings
        if f.path in paths
    )
    return Counter((code, line) for code, line in found if not IMPORT.match(line))


@pytest.mark.parametrize("program", sorted(path.stem for path in PROGRAMS.glob("*.py")))
def test_a_program_says_what_is_marked_whole_and_split(program: str, tmp_path: Path) -> None:
    """Larger programs, in which one definition rests on many others."""
    data = (PROGRAMS / f"{program}.py").read_bytes()
    outcome = lint({"program.py": data}, tmp_path / "a")
    assert places(outcome.findings, "program.py") == sorted(expectations(data.decode()))

    parts = {path: text.encode() for path, text in split(data.decode()).items()}
    before = said(outcome, {"program.py": data}, {"program.py"})
    assert said(lint(parts, tmp_path / "b"), parts, set(parts)) == before
