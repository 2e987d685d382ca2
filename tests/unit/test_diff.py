"""Diffs of fixes: as short as they can be, and `patch` and `git apply` take them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplint.output.formats.diff import AROUND, patch, rows
from amplint.util.line_diff import changes

# Some are empty, there several times, or end at what `patch` takes for no end.
LINES = st.sampled_from(
    ["", "", "a", "b", "-- c", "+++ b/x", "@@ -1 +1 @@", "d\r", "e\ff", "\u2028"]
)
TEXTS = st.builds(
    lambda lines, ended: "\n".join(lines) + "\n" * ended,
    st.lists(LINES, max_size=30),
    st.booleans(),
)
HEAD = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n")
COMMANDS = (["git", "apply", "-"], ["patch", "-p1", "--binary", "-s"])


def patch_of(path: str, before: str, after: str) -> str:
    return patch(path, before.encode(), after.encode()).decode()


def hunks(diff: str) -> list[list[str]]:
    """The lines of each hunk, with its head."""
    found: list[list[str]] = []
    for line in rows(diff)[2:]:
        if HEAD.fullmatch(line):
            found.append([])
        found[-1].append(line)
    return found


@given(TEXTS, TEXTS)
def test_a_diff_has_the_fewest_lines(before: str, after: str) -> None:
    diff = patch_of("x", before, after)
    assert bool(diff) == (before != after)
    old, new = rows(before), rows(after)
    found = hunks(diff)
    fewest = sum(j - i + m - k for i, j, k, m in changes(old, new))
    assert sum(line[0] in "+-" for hunk in found for line in hunk[1:]) == fewest
    for head, *lines in found:
        match = HEAD.fullmatch(head)
        assert match is not None
        # As many lines as the head says, and they are those of the texts.
        for signs, start, count, text in (
            (" -", *match.group(1, 2), old),
            (" +", *match.group(3, 4), new),
        ):
            size = 1 if count is None else int(count)
            first = int(start) - (size > 0)
            shown = [line[1:].rstrip("\n") for line in lines if line[0] in signs]
            assert shown == [line.rstrip("\n") for line in text[first : first + size]]
        kinds = "".join(line[0] for line in lines).replace("\\", "")
        assert not re.search(f" {{{2 * AROUND + 1}}}", kinds)
        assert max(len(kinds) - len(kinds.lstrip()), len(kinds) - len(kinds.rstrip())) <= AROUND


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=TEXTS.filter(bool), after=TEXTS.filter(bool))
def test_a_diff_can_be_applied(tmp_path: Path, command: list[str], before: str, after: str) -> None:
    file = tmp_path / "x"
    file.write_bytes(before.encode())
    diff = patch_of("x", before, after)
    if diff:
        subprocess.run(command, input=diff.encode(), check=True, cwd=tmp_path, capture_output=True)
    assert file.read_bytes().decode() == after


def test_the_diff_of_a_long_file_shows_what_has_changed_alone() -> None:
    """Of more than 200 lines, of which many are alike: between two changes, `difflib` showed these
    as changed, too."""
    lines = [f"x{number} = 1\n\n\n" if number % 3 else "\n\n\n\n" for number in range(200)]
    before = "".join(lines)
    after = before.replace("x7 = 1", "x7 = 2").replace("x8 = 1", "x8 = 2")
    [(_, *lines)] = hunks(patch_of("x", before, after))
    assert lines[3:-3] == [
        "-x7 = 1\n", "+x7 = 2\n", " \n", " \n", "-x8 = 1\n", "+x8 = 2\n",
    ]  # fmt: skip
