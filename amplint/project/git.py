"""Questions to git about a working tree: above all, which lines have changed since a revision.

A repository may be one that somebody else has made, so git is kept from running what its
configuration names: diff drivers, text converters, filters, hooks, file system monitors, helpers
that fetch missing objects. It reads, and changes no index.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from amplint.util.errors import Failure
from amplint.util.paths import seen_from
from amplint.util.positions import Span

# What points git at another repository than the one around the files, and what changes the output
# of a diff. A hook of git sets the former.
NOT_INHERITED = frozenset({
    "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_NAMESPACE",
    "GIT_DIFF_OPTS", "GIT_EXTERNAL_DIFF", "GIT_LITERAL_PATHSPECS",
})  # fmt: skip
ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",  # no index is written, so that no hook runs because of that
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # for versions that do not know the former
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.quotePath": "true",
    "diff.autoRefreshIndex": "false",
    "diff.orderFile": os.devnull,
    "safe.bareRepository": "explicit",
}
DIFF = (
    "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all",
    "--no-relative", "--find-renames", "--unified=0", "--inter-hunk-context=0",
    "--src-prefix=a/", "--dst-prefix=b/", "--text",
)  # fmt: skip
FILTER = re.compile(r"filter\..+\.(clean|smudge|process|required)", re.DOTALL | re.IGNORECASE)
HUNK = re.compile(rb"@@ -\d+(?:,(?P<old>\d+))? \+(?P<start>\d+)(?:,(?P<new>\d+))? @@")
LONE_RETURN = re.compile(rb"\r(?!\n)")
ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
ESCAPED = dict(zip(b"abtnvfr", b"\a\b\t\n\v\f\r", strict=True))


class GitError(Failure):
    """Git cannot say what has changed."""


@dataclass(frozen=True)
class Changes:
    """The changes of a working tree since a revision.

    Args:
        top: the top of the working tree, links resolved.
        tracked: the files that git knows, relative to it.
        rows: of each file that is not as it was, the rows that are new or stand next to deleted
            ones.
        start: the commit that they are since.
    """

    top: Path
    tracked: frozenset[str]
    rows: Mapping[str, frozenset[int]]
    start: str = "HEAD"
    _names: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def touch(self, file: Path, span: Span) -> bool:
        """Whether a line of the span has changed; all lines of a file that is not tracked have."""
        name = self._name(file)
        if name not in self.tracked or name in self._of_other_rows:
            return True
        rows = self.rows.get(name, frozenset())
        return not rows.isdisjoint(range(span.start.row, span.end.row + 1))

    def has(self, file: Path) -> bool:
        """Whether the file is not as it was."""
        name = self._name(file)
        return name not in self.tracked or name in self.rows

    def former(self, file: Path) -> bytes | None:
        """The content that the file had; None where it was not there."""
        done = _git(self.top, (), "cat-file", "blob", f"{self.start}:{self._name(file)}")
        return None if done.returncode else done.stdout

    def _name(self, file: Path) -> str:
        key = str(file)
        if key not in self._names:
            self._names[key] = seen_from(self.top, os.path.realpath(file))
        return self._names[key]

    @cached_property
    def _of_other_rows(self) -> frozenset[str]:
        """The changed files with lines that end in a lone \\r, which git does not take for one."""
        return frozenset(name for name in self.rows if LONE_RETURN.search(_bytes(self.top / name)))


def changes_since(revision: str, directory: Path) -> Changes:
    """The changes since this branch left `revision`, in the repository around a directory.

    Where `revision` is no ancestor of HEAD, it is the last common one that counts: changes that
    others have made there meanwhile are none of this working tree. Raises GitError.
    """
    if revision.startswith("-") or not revision or "\0" in revision:
        raise GitError(f"{revision!r} is not a revision")
    process = _git(directory, (), "rev-parse", "--show-toplevel")
    if process.returncode:
        raise GitError(f"{_refusal(process, directory)}")
    top = Path(os.fsdecode(process.stdout.removesuffix(b"\n")))
    filters = _without_filters(top)
    start = _start(revision, top)
    tracked = _output(top, filters, "ls-files", "-z", "--full-name")
    patch = _output(top, filters, *DIFF, start, "--")
    return Changes(
        Path(os.path.realpath(top)),
        frozenset(os.fsdecode(name) for name in tracked.split(b"\0") if name),
        {name: frozenset(rows) for name, rows in changed_rows(patch).items()},
        start,
    )


def answer(directory: Path, *arguments: str) -> str:
    """The line that git prints in a directory; empty where it refuses, or is not installed."""
    try:
        done = _git(directory, (), *arguments)
    except GitError:
        return ""
    return "" if done.returncode else os.fsdecode(done.stdout).rstrip("\r\n")


def has_commit(directory: Path) -> bool:
    """Whether there is a repository around a directory, with a commit."""
    return bool(answer(directory, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"))


def changed_rows(patch: bytes) -> dict[str, set[int]]:
    """The changed rows of each file in a patch without context."""
    changed: dict[str, set[int]] = {}
    rows: set[int] = set()
    lines = iter(patch.split(b"\n"))
    for line in lines:
        if line.startswith(b"diff --git "):
            rows = set()
        elif line.startswith(b"+++ "):
            changed[_file_name(line.removeprefix(b"+++ "))] = rows
        elif match := HUNK.match(line):
            old, new = (int(match[side] or 1) for side in ("old", "new"))
            start = int(match["start"])
            # Of a deletion, nothing is left but the lines that it stood between.
            rows.update(range(start, start + new) if new else (start, start + 1))
            for _ in range(old + new):
                if next(lines, b"").startswith(b"\\"):  # "\ No newline at end of file"
                    next(lines, b"")
    return changed


def _file_name(written: bytes) -> str:
    """The name of a file in the header of a patch, without the `b/` in front."""
    if written.startswith(b'"'):
        written = ESCAPE.sub(_unescaped, written.rstrip(b"\t")[1:-1])
    else:
        written = written.removesuffix(b"\t")  # git ends a name with a space so
    return os.fsdecode(written.removeprefix(b"b/"))


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) & 255 if len(code) == 3 else ESCAPED.get(code[0], code[0])])


def _start(revision: str, top: Path) -> str:
    """The commit to compare with."""
    commit = _git(top, (), "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if commit.returncode:
        raise GitError(f"git knows no commit {revision!r}{_if_shallow(top)}")
    base = _git(top, (), "merge-base", commit.stdout.decode().strip(), "HEAD")
    if base.returncode or not base.stdout.strip():
        raise GitError(f"{revision!r} and HEAD have no commit in common{_if_shallow(top)}")
    return base.stdout.decode().split()[0]


def _if_shallow(top: Path) -> str:
    shallow = _git(top, (), "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
    hint = "`git fetch --unshallow` brings its history (fetch-depth: 0 in actions/checkout)"
    return f"; this is a shallow clone: {hint}" if shallow else ""


def _without_filters(top: Path) -> tuple[str, ...]:
    """The settings that switch off the filters of the repository: git would run them on files."""
    names = _git(top, (), "config", "--list", "--name-only", "-z").stdout.split(b"\0")
    keys = sorted({name for name in map(os.fsdecode, names) if FILTER.fullmatch(name)})
    for key in keys:
        if "=" in key:  # `-c` takes all after the first "=" for the value
            raise GitError(f"the repository has a filter named {key!r}")
    return tuple(f"{key}={'false' * key.endswith('required')}" for key in keys)


def _output(top: Path, settings: tuple[str, ...], *arguments: str) -> bytes:
    done = _git(top, settings, *arguments)
    if done.returncode:
        raise GitError(f"{_refusal(done, top)}")
    return done.stdout


def _refusal(done: subprocess.CompletedProcess[bytes], directory: Path) -> str:
    message = done.stderr.decode(errors="replace").strip()
    if "not a git repository" in message:
        return f"{directory} is not in a git repository"
    return f"git refuses: {message.splitlines()[0] if message else f'status {done.returncode}'}"


def _git(
    directory: Path, settings: tuple[str, ...], *arguments: str
) -> subprocess.CompletedProcess[bytes]:
    defaults = [f"{key}={value}" for key, value in SETTINGS.items()]
    options = [word for one in (*defaults, *settings) for word in ("-c", one)]
    inherited = {key: value for key, value in os.environ.items() if key not in NOT_INHERITED}
    try:
        return subprocess.run(
            ["git", "--no-pager", *options, *arguments],
            cwd=directory,
            env={**inherited, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror or error}") from error


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
