"""Syntax that the running Python is too old for.

`ast` refuses it like any mistake. LibCST reads the syntax up to Python 3.15 whatever runs it: what
it has read is written in the syntax of the running Python, and if `ast` takes that, then nothing
but the version is wrong with the file.

LibCST works in a process of its own: it recurses in native code as deeply as a text nests, which
nothing bounds where `ast` has refused it, and would end this process.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import NamedTuple

# A process is started only for what may be such syntax; most refused texts are being typed.
SIGNS = re.compile(
    r"""
    ^[ \t]*except[ \t]*\*
  | ^[ \t]*except\b[^:#\n]*,
  | ^[ \t]*type[ \t]+\w
  | ^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+\w+[ \t]*\[
  | ^[ \t]*lazy[ \t]+(?:import|from)\b
  | \bt r? ['"] | \brt ['"]
  | [\[{(]\s*\*[^;\n]*\bfor\b
  | [\[,:]\s*\*\s*\w
    """,
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
# An f-string with anything in it; from Python 3.12 on, none is refused for its version.
F_STRING = re.compile(r"\b(?:fr?|rf)['\"]", re.IGNORECASE)
LONGEST_WAIT = 10.0  # in seconds
ANSWERS = "amplint.cst.older_syntax"


class Newer(NamedTuple):
    """Syntax that the running Python does not read, and the first Python that does."""

    python: tuple[int, int]
    what: str


def newer_syntax(text: str) -> Newer | None:
    """The newest syntax of a text that `ast` refuses for it alone; None if something else may be
    wrong with the text."""
    has_f_string = sys.version_info < (3, 12) and F_STRING.search(text) is not None
    if not has_f_string and SIGNS.search(text) is None:
        return None
    # -I, and the path of this process: no module that lies in the working directory is imported.
    code = f"import sys; sys.path[:] = {sys.path!r}; from {ANSWERS} import main; main()"
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", code],
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="surrogatepass",
            timeout=LONGEST_WAIT,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    major, minor, what = done.stdout.split(" ", 2) if done.stdout else ("", "", "")
    return Newer((int(major), int(minor)), what) if what else None
