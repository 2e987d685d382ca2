"""How long an editor waits for the findings after an edit.

    python -m benchmarks.editor DIRECTORY FILE... [--edits N]

Copies the project, opens each file as `amplint server` does, and edits its text N times in each of
five ways, one edit upon the other; nothing is saved. Prints the least processor time from the text
to its findings, which other programs on the machine disturb least, and the median time, both
without the 0.1 s that the server waits for the next keystroke. The process that analyses is called
directly, so that pygls is not needed.
"""

from __future__ import annotations

import argparse
import ast
import gc
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from amplint.server.looking import Looker
from amplint.server.messages import JudgedText, LogLine, Look, Open


def comment(text: str, number: int) -> str:
    """A comment at the top: everything moves, nothing else happens."""
    return f"# note {number}\n{text}"


def function(text: str, number: int) -> str:
    """A new function at the end, which nobody calls."""
    return f"{text}\n\ndef added_{number}(x):\n    return x + {number}\n"


def statement(text: str, number: int) -> str:
    """A new statement in the largest function."""
    lines = text.splitlines(keepends=True)
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    largest = max(functions, key=lambda node: (node.end_lineno or 0) - node.lineno)
    last = largest.body[-1]
    lines.insert(last.lineno - 1, f"{' ' * last.col_offset}number_{number} = {number}\n")
    return "".join(lines)


def constant(text: str, number: int) -> str | None:
    """Another number in the largest function that has one; None where there is none."""
    lines = text.splitlines(keepends=True)
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    functions.sort(key=lambda node: node.lineno - (node.end_lineno or 0))
    numbers = (
        node
        for function in functions
        for each in function.body
        for node in ast.walk(each)
        if isinstance(node, ast.Constant) and type(node.value) is int
    )
    found = next(numbers, None)
    if found is None:
        return None
    line = lines[found.lineno - 1].encode()
    new = str(1_000 + number).encode()
    lines[found.lineno - 1] = (
        line[: found.col_offset] + new + line[found.end_col_offset :]
    ).decode()
    return "".join(lines)


def broken(text: str, number: int) -> str:
    """A parenthesis that is still open, as in most moments of typing."""
    return f"{text}\n# {number}\nx = ("


EDITS: Mapping[str, Callable[[str, int], str | None]] = {
    "a comment": comment,
    "a constant": constant,
    "a function": function,
    "a statement": statement,
    "an open parenthesis": broken,
}


def waited(looker: Looker, opened: dict[str, Open], path: Path, text: str) -> tuple[float, float]:
    """The seconds until the findings of a text are known, of this process alone and of all. It is
    open from then on."""
    begun = time.process_time(), time.perf_counter()
    seconds = 0.0, 0.0
    uri = path.as_uri()
    opened[uri] = Open(text)
    gc.disable()  # as the process that analyses does
    for answer in looker.look(Look(1, uri, opened, "utf-16")):
        if isinstance(answer, JudgedText) and answer.uri == uri:
            seconds = time.process_time() - begun[0], time.perf_counter() - begun[1]
        elif isinstance(answer, LogLine):
            print(answer.text)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--edits", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "project"
        shutil.copytree(given.directory, root, ignore=shutil.ignore_patterns(".amplint_cache"))
        (root / "pyproject.toml").touch()
        looker, opened = Looker(), dict[str, Open]()
        for name in given.files:
            text = (root / name).read_text(encoding="utf-8")
            own, real = waited(looker, opened, root / name, text)
            print(f"{name}: {own:.2f} s of processor time when it is opened ({real:.2f} s)")
            for kind, edit in EDITS.items():
                times, before = [], text
                for number in range(given.edits):
                    edited = edit(text, number)
                    if edited is None:
                        break
                    text = edited
                    times.append(waited(looker, opened, root / name, text))
                if edit is broken:
                    waited(looker, opened, root / name, before)
                if not times:
                    print(f"  {kind}: there is no place for it")
                    continue
                least = min(own for own, _ in times)
                real = statistics.median(real for _, real in times)
                print(f"  {kind}: {least:.2f} s of processor time (median {real:.2f} s)")


if __name__ == "__main__":
    main()
