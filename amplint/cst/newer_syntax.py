"""Syntax that the running Python is too old for.

`ast` refuses it like any mistake. LibCST reads the syntax up to Python 3.15 whatever runs it: what
it has read is written in the syntax of the running Python, and if `ast` takes that, then nothing
but the version is wrong with the file. Most of it can be written so in its place, and is analysed.

LibCST works in a process of its own: it recurses in native code as deeply as a text nests, which
nothing bounds where `ast` has refused it, and would end this process.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import lru_cache

from amplint.ir.model import Newer

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


@lru_cache(maxsize=32)  # of a file that stays unread it is asked for again, to say why
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
            input=text.encode("utf-8", "surrogatepass"),
            capture_output=True,
            timeout=LONGEST_WAIT,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return decoded(done.stdout) if done.stdout else None


def encoded(newer: Newer) -> str:
    """The answer of the process."""
    return json.dumps(newer)


def decoded(answer: bytes) -> Newer:
    """The answer of the process, read."""
    (major, minor), what, older = json.loads(answer)
    return Newer((major, minor), what, older)
