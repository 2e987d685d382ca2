"""The names of what stands in directories, and where a project begins."""

# Paths are strings, as in `discover`, and for the same reasons.
# ruff: noqa: PTH111, PTH113, PTH208

from __future__ import annotations

import os

from amplint.util.paths import inherited, join, parent_of, slashes, upward

PYPROJECT = "pyproject.toml"  # has settings in its table [tool.amplint]
OWN_FILES = (".amplint.toml", "amplint.toml")  # have them without a table


class Directories:
    """Directories, each looked at once. They are given in full, with forward slashes."""

    def __init__(self) -> None:
        self._names: dict[str, frozenset[str]] = {}
        self._roots: dict[str, str] = {}
        self._home = slashes(os.path.expanduser("~"))

    def names(self, directory: str) -> frozenset[str]:
        """The names of what stands in a directory; none where it cannot be read."""
        children = self._names.get(directory)
        if children is None:
            try:
                children = frozenset(os.listdir(directory))
            except OSError:
                children = frozenset()
            self._names[directory] = children
        return children

    def has_file(self, directory: str, name: str) -> bool:
        return name in self.names(directory) and os.path.isfile(join(directory, name))

    def root(self, directory: str) -> str | None:
        """The root of the project that a directory lies in: the nearest one upward that has a
        pyproject.toml or a .git; where there is none, the uppermost one that has an amplint.toml.

        Never the root of the file system, and the home directory only if it has a pyproject.toml:
        a home under version control is not one project.
        """
        nearest = inherited(directory, self._roots, self._own_root, "")
        if nearest:
            return nearest
        own = (one for one in upward(directory) if self._has_own_settings(one))
        return min(own, key=len, default=None)

    def uppermost(self, directory: str) -> str | None:
        """The uppermost directory upward where a project begins."""
        begins = (
            one for one in upward(directory) if self._own_root(one) or self._has_own_settings(one)
        )
        return min(begins, key=len, default=None)

    def _own_root(self, directory: str) -> str | None:
        if parent_of(directory) is None:
            return None
        is_repository = ".git" in self.names(directory) and directory != self._home
        return directory if is_repository or self.has_file(directory, PYPROJECT) else None

    def _has_own_settings(self, directory: str) -> bool:
        """Whether it is no home and no root of a file system, and has an amplint.toml."""
        is_own = directory != self._home and parent_of(directory) is not None
        return is_own and any(self.has_file(directory, name) for name in OWN_FILES)
