"""What stands in directories, and where a project begins."""

# Paths are strings, as in `discover`, and for the same reasons.
# ruff: noqa: PTH111, PTH113, PTH208

from __future__ import annotations

import os

from amplint.core.paths import join, parent_of, slashes

PYPROJECT = "pyproject.toml"  # has settings in its table [tool.amplint]
OWN_FILES = (".amplint.toml", "amplint.toml")  # have them without a table


class Places:
    """Directories, each looked at once. They are given in full, with forward slashes."""

    def __init__(self) -> None:
        self._names: dict[str, frozenset[str]] = {}
        self._roots: dict[str, str | None] = {}
        self._home = slashes(os.path.expanduser("~"))

    def names(self, directory: str) -> frozenset[str]:
        """The names of what stands in a directory; none where it cannot be read."""
        found = self._names.get(directory)
        if found is None:
            try:
                found = frozenset(os.listdir(directory))
            except OSError:
                found = frozenset()
            self._names[directory] = found
        return found

    def has_file(self, directory: str, name: str) -> bool:
        return name in self.names(directory) and os.path.isfile(join(directory, name))

    def root(self, directory: str) -> str | None:
        """The root of the project that a directory lies in: the nearest one upward that has a
        pyproject.toml or a .git; where there is none, the uppermost one that has an amplint.toml.

        Never the root of the file system, and the home directory only if it has a pyproject.toml:
        a home under version control is not one project.
        """
        if directory not in self._roots:
            self._roots[directory] = self._root(directory)
        return self._roots[directory]

    def _root(self, directory: str) -> str | None:
        parent = parent_of(directory)
        if parent is None:
            return None
        if self.has_file(directory, PYPROJECT):
            return directory
        if directory == self._home:
            return self.root(parent)
        if ".git" in self.names(directory):
            return directory
        own = any(self.has_file(directory, name) for name in OWN_FILES)
        return self.root(parent) or (directory if own else None)
