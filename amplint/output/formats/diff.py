"""Changes of fixes as a unified diff: shown on a terminal, or for `patch -p1` and `git apply`."""

from __future__ import annotations

import difflib
import os

import click

from amplint.core.escaping import printable

COLORS = {"+": "green", "-": "red", "@": "cyan"}
UNENDED = "\\ No newline at end of file\n"


def for_terminal(path: str, before: str, after: str) -> str:
    """The diff between two texts of a file, with terminal styles and with nothing of the texts that
    a terminal would act on; empty if they are equal."""
    lines = difflib.unified_diff(rows(before), rows(after), *names(path))
    return "".join(styled(harmless(line)) for line in lines)


def patch(path: str, before: bytes, after: bytes) -> bytes:
    """The same, to be applied. It is of bytes: a patch has the encoding and the byte order mark of
    the file, and its line ends are not those of the system."""
    # Latin-1 has a character for each byte.
    old, new = (rows(data.decode("latin-1")) for data in (before, after))
    one, other = (os.fsencode(name).decode("latin-1") for name in names(path))
    return "".join(map(ended, difflib.unified_diff(old, new, one, other))).encode("latin-1")


def names(path: str) -> tuple[str, str]:
    return quoted(f"a/{path}"), quoted(f"b/{path}")


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
    shown = "\t".join(printable(part) for part in content.removesuffix("\r").split("\t"))
    return shown + "\n" * (content != line)


def ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n{UNENDED}"


def styled(line: str) -> str:
    content = line.removesuffix("\n")
    is_header = line.startswith(("--- a/", "+++ b/", '--- "a/', '+++ "b/'))
    shown = click.style(content, fg=None if is_header else COLORS.get(line[0]), bold=is_header)
    return ended(shown + line[len(content) :])
