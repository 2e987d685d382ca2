"""The files of a project as bytes, and as text where somebody looks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from amplint.project.discover import Selection
from amplint.project.notebooks import SUFFIX, notebook
from amplint.util import files
from amplint.util.progress import SILENT, Progress
from amplint.util.text import (
    MOST_CHARACTERS,
    Text,
    TooLargeError,
    UndecodableError,
    UnencodableError,
)


class Reading:
    """The files that were read: the bytes of each, or its text once that was needed. (Both
    would be a tenth more memory for each process of transformers, 52 MB of bytes.)

    Args:
        data: the bytes of the files that could be opened, by path; they are taken out of it.
        overlays: what to take instead of what they hold; of a notebook, its JSON.
        problems: sentences about reported files that could not be opened.
    """

    def __init__(
        self,
        data: dict[str, bytes],
        overlays: Mapping[str, str] | None = None,
        problems: tuple[str, ...] = (),
    ) -> None:
        self.paths = tuple(data)
        self.problems = problems
        self._data = data
        self._overlays = overlays or {}
        self._digests: dict[str, str] = {}
        self._texts: dict[str, Text] = {}

    def digest(self, path: str) -> str:
        """A digest of the content of a file."""
        if path not in self._digests:
            content = self._overlaid(path) if path in self._overlays else self._data[path]
            self._digests[path] = hashlib.blake2b(content, digest_size=16).hexdigest()
        return self._digests[path]

    def _overlaid(self, path: str) -> bytes:
        """The content of a file that holds its overlay: what a fix writes is known once written."""
        try:
            text = self._file(path)
            return text.encode(text.text)
        except UnencodableError:
            # The bytes besides, for they say in which encoding a fix must be written.
            overlay = self._overlays[path].encode("utf-8", "surrogatepass")
            return b"\0".join((overlay, self._data[path]))

    def text(self, path: str) -> Text:
        """The text of a file. Raises UndecodableError."""
        if path not in self._texts:
            self.digest(path)
            self._texts[path] = self._decoded(path)
            del self._data[path]
        return self._texts[path]

    def _decoded(self, path: str) -> Text:
        return as_module(path, self._file(path))

    def _file(self, path: str) -> Text:
        if path not in self._overlays:
            return Text.decode(self._data[path])
        try:
            text = Text.decode(self._data[path])
        except UndecodableError:
            text = Text("")
        return replace(text, text=self._overlays[path])


class Texts(Mapping[str, Text]):
    """The texts of reported files, decoded when somebody looks; empty for bytes that are none."""

    def __init__(self, reading: Reading, paths: frozenset[str]) -> None:
        self._reading = reading
        self._paths = paths.intersection(reading.paths)

    def __getitem__(self, path: str) -> Text:
        if path not in self._paths:
            raise KeyError(path)
        try:
            return self._reading.text(path)
        except UndecodableError:
            return Text("")

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._paths))

    def __len__(self) -> int:
        return len(self._paths)


def read(project: Selection, overlays: Mapping[str, str], progress: Progress = SILENT) -> Reading:
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
    return files.read(f"{root}/{path}", files.MOST_BYTES)


def text_of(path: str, root: Path, overlays: Mapping[str, str]) -> Text:
    """The text of one file. Raises OSError and UndecodableError."""
    try:
        data = contents(root, path)
    except OSError:
        if path not in overlays:
            raise
        data = b""
    return Reading({path: data}, overlays).text(path)


def as_module(path: str, file: Text) -> Text:
    """The text to analyse, of what a file holds. Raises UndecodableError."""
    module = notebook(file) if path.endswith(SUFFIX) else file
    if len(module.text) > MOST_CHARACTERS:
        raise TooLargeError
    return module
