"""The JSON files of projects, among which are configurations of frameworks."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from amplint.project.config import Configuration
from amplint.project.discover import FileSearch, Project, relative
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
        project: the files of the run.
        settings: of the directories that are looked at.
    """

    project: Project
    settings: Configuration

    def texts(self, part: str) -> Mapping[str, str]:
        """Those of one project, by root-relative path.

        Args:
            part: the directory of the project; empty for files that are in none.
        """
        return self._found.get(part, {})

    def paths(self) -> list[str]:
        """Those of all projects, by root-relative path, which are not read for it."""
        root = slashes(str(self.project.root))
        search = FileSearch(self.settings)
        return [
            relative(path, root)
            for part in sorted({part for part in self.project.parts.values() if part})
            for path in self._files_in(part, search)
        ]

    @property
    def digest_if_read(self) -> str:
        """The digest of all of them; empty where nobody has asked for any."""
        return self.digest if "_found" in self.__dict__ else ""

    @cached_property
    def digest(self) -> str:
        """The digest of all of them."""
        found = [
            (part, *each) for part in sorted(self._found) for each in self._found[part].items()
        ]
        return hashlib.blake2b(repr(found).encode(), digest_size=16).hexdigest()

    @cached_property
    def _found(self) -> dict[str, dict[str, str]]:
        parts = sorted({part for part in self.project.parts.values() if part})
        search = FileSearch(self.settings)
        root = slashes(str(self.project.root))
        return {part: dict(self._in(part, search, root)) for part in parts}

    def _in(self, part: str, search: FileSearch, root: str) -> Iterator[tuple[str, str]]:
        """The texts of the files of a project, of no more than `MOST_FILES`."""
        for path in self._files_in(part, search):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                yield relative(path, root), files.read(path, MOST_BYTES).decode("utf-8-sig")

    def _files_in(self, part: str, search: FileSearch) -> list[str]:
        walked = search.walk(part, part, SUFFIXES)
        return sorted({*walked.files} - walked.links)[:MOST_FILES]
