"""The files of a project as bytes, and as text where somebody looks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from amplint.discover import Project
from amplint.progress import SILENT, Progress
from amplint.text import Text, UndecodableError


@dataclass(frozen=True)
class Reading:
    """What was read.

    Args:
        data: the bytes of the files that could be opened, by path.
        overlays: texts to take instead of theirs.
        problems: sentences about reported files that could not be opened.
    """

    data: Mapping[str, bytes]
    overlays: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def digest(self, path: str) -> str:
        """What tells the content of a file from any other."""
        content = self.data[path]
        if path in self.overlays:
            # The bytes besides, for they say in which encoding a fix must be written.
            content = b"\0".join((self.overlays[path].encode("utf-8", "surrogatepass"), content))
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def text(self, path: str) -> Text:
        """The text of a file. Raises UndecodableError."""
        if path not in self.overlays:
            return Text.decode(self.data[path])
        try:
            text = Text.decode(self.data[path])
        except UndecodableError:
            text = Text("")
        return replace(text, text=self.overlays[path])


class Texts(Mapping[str, Text]):
    """The texts of reported files, decoded when somebody looks; empty for bytes that are none."""

    def __init__(self, reading: Reading, paths: frozenset[str]) -> None:
        self._reading = reading
        self._paths = paths & reading.data.keys()
        self._decoded: dict[str, Text] = {}

    def __getitem__(self, path: str) -> Text:
        if path not in self._paths:
            raise KeyError(path)
        if path not in self._decoded:
            try:
                self._decoded[path] = self._reading.text(path)
            except UndecodableError:
                self._decoded[path] = Text("")
        return self._decoded[path]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._paths))

    def __len__(self) -> int:
        return len(self._paths)


def read(project: Project, overlays: Mapping[str, str], progress: Progress = SILENT) -> Reading:
    """Read every file; one that fails does not stop the others."""
    data: dict[str, bytes] = {}
    progress.at("reading files", lambda: (len(data), len(project.files)))
    problems: list[str] = []
    for path in project.files:
        try:
            data[path] = contents(project.root, path)
        except OSError as error:
            if path in overlays:  # standard input may stand for a file that is not there yet
                data[path] = b""
            elif path in project.reported:
                problems.append(f"{path}: cannot be read: {error.strerror or error}")
    return Reading(data, overlays, tuple(problems))


def contents(root: Path, path: str) -> bytes:
    # `open` by a string: `Path` costs as much again as the reading of a small file.
    with open(f"{root}/{path}", "rb") as stream:  # noqa: PTH123
        return stream.read()


def text_of(path: str, root: Path, overlays: Mapping[str, str]) -> Text:
    """The text of one file. Raises OSError and UndecodableError."""
    try:
        data = contents(root, path)
    except OSError:
        if path not in overlays:
            raise
        data = b""
    return Reading({path: data}, overlays).text(path)
