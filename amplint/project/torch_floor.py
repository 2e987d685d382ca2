"""The lowest torch that a project allows, by its own files.

Read are its requirements, the environments of conda, lock files, and the images that it is built
on. Of several the lowest counts: the answer is for what might be too new. Prose is not read.
"""

from __future__ import annotations

import configparser
import fnmatch
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from amplint.findings.selectors import version
from amplint.project import environments, requirements
from amplint.project.places import Directories
from amplint.project.requirements import Reader
from amplint.util import files
from amplint.util.paths import inherited, join, upward

BOUND = re.compile(r"\s*(===|==|~=|>=|<=|!=|<|>|=|\^|~)?\s*v?(\d+(?:\.\d+)*)")
UPPER = {"<", "<="}
EXACT = {"===", "==", "=", ""}
ANY = "0"  # of a requirement that only says what is too new
ENDS = ("pyproject.toml", "setup.cfg", "setup.py", ".git")
# What a directory may hold, and the directories below it that hold the like.
READERS: Mapping[str, Reader] = {
    "pyproject.toml": requirements.of_pyproject,
    "setup.cfg": requirements.of_setup_cfg,
    "setup.py": requirements.of_setup_py,
    "requirements*.txt": requirements.of_lines,
    "requirements/*.txt": requirements.of_lines,
    "environment*.y*ml": environments.of_conda,
    "conda/environment*.y*ml": environments.of_conda,
    "uv.lock": environments.of_lock,
    "poetry.lock": environments.of_lock,
    "pdm.lock": environments.of_lock,
    "pylock*.toml": environments.of_lock,
    "conda-lock.yml": environments.of_lock,
    "pixi.lock": environments.of_lock,
    "Dockerfile*": environments.of_dockerfile,
    "*.Dockerfile": environments.of_dockerfile,
    "Containerfile": environments.of_dockerfile,
    "docker/Dockerfile*": environments.of_dockerfile,
    "docker/*.Dockerfile": environments.of_dockerfile,
}


class Bound(NamedTuple):
    """The lowest version that a requirement allows, and whether it allows no other."""

    version: str
    is_exact: bool


@dataclass(frozen=True)
class Floor:
    """The lowest torch that a project allows, and the file that says so.

    `pinned`: where all that its files say are exact versions, the highest of these; else "".
    """

    version: str
    file: Path
    pinned: str = ""


NO_FLOOR = Floor("", Path())


@dataclass
class TorchFloors:
    """The lowest torch of directories, given in full with forward slashes, each found once.

    Args:
        places: knows what stands in them.
    """

    places: Directories = field(default_factory=Directories)
    _floors: dict[str, Floor] = field(default_factory=dict)

    def _files(self, directory: str) -> Iterator[tuple[Path, Reader]]:
        """The files that may hold requirements, and what reads the specifiers in them."""
        there = self.places.names(directory)
        for pattern, read in READERS.items():
            below, _, name = pattern.rpartition("/")
            if below and below not in there:
                continue
            names = self.places.names(join(directory, below)) if below else there
            for each in sorted(fnmatch.filter(names, name)):
                yield Path(directory, below, each), read

    def of(self, directory: str) -> Floor | None:
        """The floor of the project around a directory: of the nearest directory upward that
        has a bound, no further than where a project begins. None if nothing has a bound."""
        floor = inherited(directory, self._floors, self._own, NO_FLOOR)
        return floor if floor is not NO_FLOOR else None

    def start(self, directory: str) -> str | None:
        """The nearest directory upward where a project begins that may have requirements."""
        return next((one for one in upward(directory) if self._begins(one)), None)

    def _own(self, directory: str) -> Floor | None:
        """The floor that a directory sets, be it that there is none."""
        floors = [
            Floor(bound.version, file, bound.version if bound.is_exact else "")
            for file, read in self._files(directory)
            for specifiers in _read(file, read)
            if (bound := _lowest(specifiers)) is not None
        ]
        if floors:
            pins = [floor.pinned for floor in floors]
            highest = max(pins, key=version) if all(pins) else ""
            lowest = min(floors, key=lambda floor: version(floor.version))
            return replace(lowest, pinned=highest)
        return NO_FLOOR if self._begins(directory) else None

    def _begins(self, directory: str) -> bool:
        return not self.places.names(directory).isdisjoint(ENDS)


def _read(file: Path, read: Reader) -> list[str]:
    try:
        return list(read(files.read_text(file)))
    except (OSError, ValueError, SyntaxError, RecursionError, configparser.Error):
        return []  # some other tool's file, and not about amplint


def _lowest(specifiers: str) -> Bound | None:
    """Ex) 1.8 of ">=1.8,!=1.9", "^1.8" and "1.8.*"; the lower one of two that `||` divides"""
    alternatives = [_bound(way) for way in specifiers.split("||")]
    bounds = [each for each in alternatives if each is not None]
    if len(bounds) < len(alternatives):
        return None
    lowest = min(bounds, key=lambda each: version(each.version))
    return lowest._replace(is_exact=all(each.is_exact for each in bounds))


def _bound(specifiers: str) -> Bound | None:
    bounds = [match.groups("") for each in specifiers.split(",") if (match := BOUND.match(each))]
    lower = [each for each in bounds if each[0] not in {"!=", *UPPER}]
    if lower:
        sign, number = max(lower, key=lambda each: version(each[1]))
        return Bound(number, sign in EXACT and "." in number)
    return Bound(ANY, False) if any(sign in UPPER for sign, _ in bounds) else None
