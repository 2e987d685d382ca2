"""The JSON files of projects, among which are configurations of frameworks."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from amplint.project.config import Configuration
from amplint.project.discover import FileSearch, Selection, relative
from amplint.util import files
from amplint.util.paths import slashes

SUFFIXES = (".json",)
# What configures a framework is small, and of the files of a data set nobody reads thousands.
MOST_BYTES = 65_536
MOST_FILES = 200


@dataclass(frozen=True)
class Configurations:
    """The small JSON files of the projects of a run, read when somebody asks for them.

    Args:
        selection: the files of the run.
        settings: of the directories that are looked at.
    """

    selection: Selection
    settings: Configuration

    def texts(self, home: str) -> Mapping[str, str]:
        """Those of one project, by root-relative path.

        Args:
            home: where the project begins.
        """
        return self._texts.get(home, {})

    def paths(self) -> list[str]:
        """Those of all projects, by root-relative path, which are not read for it."""
        root = slashes(str(self.selection.root))
        search = FileSearch(self.settings)
        return [
            relative(path, root) for home in self._homes for path in self._files_in(home, search)
        ]

    @property
    def digest_if_read(self) -> str:
        """The digest of all of them; empty where nobody has asked for any."""
        return self.digest if "_texts" in self.__dict__ else ""

    @cached_property
    def digest(self) -> str:
        """The digest of all of them."""
        rows = [(home, *row) for home, texts in self._texts.items() for row in texts.items()]
        return hashlib.blake2b(repr(rows).encode(), digest_size=16).hexdigest()

    @property
    def _homes(self) -> list[str]:
        return sorted({home for home in self.selection.homes.values() if home})

    @cached_property
    def _texts(self) -> dict[str, dict[str, str]]:
        search = FileSearch(self.settings)
        root = slashes(str(self.selection.root))
        return {home: dict(self._in(home, search, root)) for home in self._homes}

    def _in(self, home: str, search: FileSearch, root: str) -> Iterator[tuple[str, str]]:
        """The texts of the files of a project, of no more than `MOST_FILES`."""
        for path in self._files_in(home, search):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                yield relative(path, root), files.read(path, MOST_BYTES).decode("utf-8-sig")

    def _files_in(self, home: str, search: FileSearch) -> list[str]:
        walked = search.walk(home, home, SUFFIXES)
        return sorted({*walked.files} - walked.links)[:MOST_FILES]
