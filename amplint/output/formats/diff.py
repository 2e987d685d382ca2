"""Changes of fixes as a unified diff: shown on a terminal, or for `patch -p1` and `git apply`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import click

from amplint.util.escaping import printable
from amplint.util.line_diff import Change, changes

COLORS = {"+": "green", "-": "red", "@": "cyan"}
AROUND = 3  # lines that are shown before and after a change
UNENDED = "\\ No newline at end of file\n"


def for_terminal(path: str, before: str, after: str) -> str:
    """The diff between two texts of a file, with terminal styles and with nothing of the texts that
    a terminal would act on; empty if they are equal."""
    lines = unified(rows(before), rows(after), *names(path))
    return "".join(styled(harmless(line)) for line in lines)


def patch(path: str, before: bytes, after: bytes) -> bytes:
    """The diff between two texts of a file, to be applied. It is of bytes: a patch has the encoding
    and the byte order mark of the file, and its line ends are not those of the system."""
    # Latin-1 has a character for each byte.
    old, new = (rows(data.decode("latin-1")) for data in (before, after))
    one, other = (os.fsencode(name).decode("latin-1") for name in names(path))
    return "".join(map(ended, unified(old, new, one, other))).encode("latin-1")


def names(path: str) -> tuple[str, str]:
    return quoted(f"a/{path}"), quoted(f"b/{path}")


def unified(old: Sequence[str], new: Sequence[str], one: str, other: str) -> Iterator[str]:
    """The lines of a diff between two texts of these names; none if they are equal."""
    for number, hunk in enumerate(hunks(changes(old, new))):
        if number == 0:
            yield from (f"--- {one}\n", f"+++ {other}\n")
        yield from hunk_lines(hunk, old, new)


def hunks(stretches: Iterable[Change]) -> Iterator[list[Change]]:
    """The changes that are shown together, for the lines around them meet."""
    hunk: list[Change] = []
    for stretch in stretches:
        if hunk and stretch[0] - hunk[-1][1] > 2 * AROUND:
            yield hunk
            hunk = []
        hunk.append(stretch)
    if hunk:
        yield hunk


def hunk_lines(hunk: Sequence[Change], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """A hunk: where it begins and how long it is in both texts, and its lines."""
    before = min(AROUND, hunk[0][0])
    after = min(AROUND, len(old) - hunk[-1][1])
    at = hunk[0][0] - before
    ours = stretch_of(at, hunk[-1][1] + after)
    theirs = stretch_of(hunk[0][2] - before, hunk[-1][3] + after)
    yield f"@@ -{ours} +{theirs} @@\n"
    for i, j, k, m in hunk:
        yield from (f" {line}" for line in old[at:i])
        yield from (f"-{line}" for line in old[i:j])
        yield from (f"+{line}" for line in new[k:m])
        at = j
    yield from (f" {line}" for line in old[at : at + after])


def stretch_of(start: int, end: int) -> str:
    """Lines as the head of a hunk says them: the first one, from 1, and how many; of no lines, the
    one that they would come after."""
    if end - start == 1:
        return str(end)
    return f"{start + (end > start)},{end - start}"


def quoted(name: str) -> str:
    """The name as git writes it, in quotes if a line of it would end or `patch` misread it."""
    if name.isprintable() and not set(name) & {'"', "\\"}:
        return name
    escaped = "".join(
        f"\\{byte:03o}" if byte < 32 or byte in b'"\\' or byte > 126 else chr(byte)
        for byte in os.fsencode(name)
    )
    return f'"{escaped}"'


def rows(text: str) -> list[str]:
    """The lines as `patch` counts them: it knows no other end than \\n."""
    *ended, last = text.split("\n")
    return [f"{line}\n" for line in ended] + [last] * bool(last)


def harmless(line: str) -> str:
    content = line.removesuffix("\n")
    text = "\t".join(printable(part) for part in content.removesuffix("\r").split("\t"))
    return text + "\n" * (content != line)


def ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n{UNENDED}"


def styled(line: str) -> str:
    content = line.removesuffix("\n")
    is_header = line.startswith(("--- a/", "+++ b/", '--- "a/', '+++ "b/'))
    text = click.style(content, fg=None if is_header else COLORS.get(line[0]), bold=is_header)
    return ended(text + line[len(content) :])
