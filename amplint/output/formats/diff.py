"""Changes of fixes as a unified diff, for `patch -p1` and `git apply`."""

from __future__ import annotations

import difflib
import os

import click

from amplint.core.escaping import printable

COLORS = {"+": "green", "-": "red", "@": "cyan"}
UNENDED = "\\ No newline at end of file\n"


def unified(path: str, before: str, after: str, exact: bool) -> str:
    """The diff between two texts of the file; empty if they are equal.

    Args:
        path: the file's.
        before, after: its texts.
        exact: whether it is to be applied, not to be shown; else it has terminal styles, and
            nothing of the texts in it that a terminal would act on.
    """
    names = quoted(f"a/{path}"), quoted(f"b/{path}")
    lines = difflib.unified_diff(rows(before), rows(after), *names)
    return "".join(ended(line) if exact else styled(harmless(line)) for line in lines)


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
