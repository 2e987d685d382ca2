"""Syntax that the running Python is too old for.

`ast` refuses it like any mistake. LibCST reads the syntax up to Python 3.15 whatever runs it: where
it reads such syntax in a text that `ast` refuses, the file is not checked, and amplint says with
which Python it would be. To analyse it all the same, written in older syntax, took 200 lines.

LibCST works in a process of its own: it recurses in native code as deeply as a text nests, which
nothing bounds where `ast` has refused it, and would end this process.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import libcst as cst

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
ANSWERS = "amplint.cst.newer_syntax"


class Newer(NamedTuple):
    """Syntax of a file that the running Python does not read.

    Args:
        python: the first Python that reads it.
        what: what it is called.
    """

    python: tuple[int, int]
    what: str


@lru_cache(maxsize=32)  # of a file that stays unread it is asked for again, to say why
def newer_syntax(text: str) -> Newer | None:
    """The newest syntax of a text that `ast` refuses; None if that is all older, or LibCST cannot
    read the text either."""
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
    if not done.stdout:
        return None
    (major, minor), what = json.loads(done.stdout)
    return Newer((major, minor), what)


# ------------------------------------------------------------------------------ in that process


def main() -> None:
    """Answers for the text on standard input."""
    newer = found(sys.stdin.buffer.read().decode("utf-8", "surrogatepass"))
    if newer is not None:
        sys.stdout.write(json.dumps(newer))


def found(text: str, running: tuple[int, int] = sys.version_info[:2]) -> Newer | None:
    """The newest syntax in a text that LibCST reads, or None.

    Args:
        running: the Python that is to read it.
    """
    from amplint.cst.pairing import walk  # noqa: PLC0415, it imports LibCST
    from amplint.cst.segments import LONE_CR, parse_module  # noqa: PLC0415

    module = parse_module(LONE_CR.sub("\n", text))
    nodes, _ = walk(module.body) if module is not None else ([], {})
    kinds = ((READERS.get(type(node).__name__), node) for node in nodes)
    every = (read(node) for read, node in kinds if read is not None)
    newer = [each for each in every if each is not None and each.python > running]
    return max(newer, key=lambda each: each.python, default=None)


def always(major: int, minor: int, what: str) -> Callable[[Any], Newer | None]:
    return lambda _: Newer((major, minor), what)


def _index(node: cst.Index) -> Newer | None:
    return Newer((3, 11), "a `*` in brackets of an index") if node.star is not None else None


def _annotation(node: cst.Annotation) -> Newer | None:
    is_starred = type(node.annotation).__name__ == "StarredElement"
    return Newer((3, 11), "a `*` in an annotation") if is_starred else None


def _type_parameter(node: cst.TypeParam) -> Newer | None:
    return Newer((3, 13), "the default of a type parameter") if node.default is not None else None


def _handler(node: cst.ExceptHandler | cst.ExceptStarHandler) -> Newer | None:
    is_bare = type(node.type).__name__ == "Tuple" and not getattr(node.type, "lpar", ())
    return Newer((3, 14), "`except` with several types and no parentheses") if is_bare else None


def _comprehension(node: cst.ListComp | cst.SetComp | cst.GeneratorExp) -> Newer | None:
    is_starred = type(node.elt).__name__ == "StarredElement"
    return Newer((3, 15), "a `*` in a comprehension") if is_starred else None


def _f_string(node: cst.FormattedString) -> Newer | None:
    """Until Python 3.12, braces held neither the quotes around them, nor a backslash, a
    comment or the end of a line, and formats were nested once."""
    import libcst  # noqa: PLC0415

    held = [part for part in node.parts if isinstance(part, libcst.FormattedStringExpression)]
    codes = map(libcst.Module([]).code_for_node, held)
    marks = (node.quote, "\\", "\n", "\r", "#")
    is_new = any(mark in code for code in codes for mark in marks) or any(
        getattr(inner, "format_spec", None) for part in held for inner in part.format_spec or ()
    )
    return Newer((3, 12), "what the braces of an f-string hold") if is_new else None


# By the name of the node: LibCST did not always have them all.
READERS: Mapping[str, Callable[[Any], Newer | None]] = {
    "Annotation": _annotation,
    "ExceptHandler": _handler,
    "ExceptStarHandler": _handler,
    "FormattedString": _f_string,
    "GeneratorExp": _comprehension,
    "Index": _index,
    "LazyImport": always(3, 15, "`lazy import`"),
    "LazyImportFrom": always(3, 15, "`lazy from ... import`"),
    "ListComp": _comprehension,
    "SetComp": _comprehension,
    "StarredDictComp": always(3, 15, "a `**` in a comprehension"),
    "TemplatedString": always(3, 14, "a t-string"),
    "TryStar": always(3, 11, "`except*`"),
    "TypeAlias": always(3, 12, "the `type` statement"),
    "TypeParam": _type_parameter,
    "TypeParameters": always(3, 12, "type parameters in brackets behind a name"),
}
