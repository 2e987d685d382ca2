"""The lowest torch that a project allows, by its own requirements.

Read are pyproject.toml (of PEP 621, PEP 735 and Poetry), setup.cfg, setup.py as far as it holds
literals, and requirements*.txt. Of several requirements the lowest counts: the answer is for what
might be too new. `packaging` is not used: of a requirement only a lower bound is needed, and it
reads neither Poetry's `^1.8` nor any of the files.
"""

from __future__ import annotations

import ast
import configparser
import fnmatch
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from amplint.claim.selectors import version
from amplint.project.places import Directories
from amplint.util import files
from amplint.util.paths import inherited, join, upward
from amplint.util.toml import loads

NAME = "torch"
# Ex) torch>=1.8, torch[opt] (>=1.8,<3) ; python_version < "3.8"; not torchvision, torch-fidelity
REQUIREMENT = re.compile(rf"\s*{NAME}(?![\w.-])\s*(?:\[[^\]]*\])?\s*\(?([^;@#)]*)", re.IGNORECASE)
BOUND = re.compile(r"\s*(===|==|~=|>=|<=|!=|<|>|\^|~)?\s*v?(\d+(?:\.\d+)*)")
UPPER = {"<", "<="}
ANY = "0"  # of a requirement that only says what is too new
ENDS = ("pyproject.toml", "setup.cfg", "setup.py", ".git")
LIST = "requirements*.txt"
LISTS = "requirements"  # a directory of such lists
Reader = Callable[[str], Iterator[str]]


@dataclass(frozen=True)
class Floor:
    """The lowest version of something that a project allows, and the file that says so."""

    version: str
    file: Path


NO_FLOOR = Floor("", Path())


@dataclass
class Floors(ABC):
    """The floors of directories, given in full with forward slashes, each found once.

    Args:
        places: knows what stands in them.
    """

    places: Directories = field(default_factory=Directories)
    _known: dict[str, Floor] = field(default_factory=dict)

    @abstractmethod
    def _files(self, directory: str) -> Iterator[tuple[Path, Reader]]:
        """The files that may hold requirements, and what reads the specifiers in them."""

    def of(self, directory: str) -> Floor | None:
        """The floor of the project around a directory: of the nearest directory upward that
        has a bound, no further than where a project begins. None if nothing has a bound."""
        found = inherited(directory, self._known, self._own, NO_FLOOR)
        return found if found is not NO_FLOOR else None

    def start(self, directory: str) -> str | None:
        """The nearest directory upward where a project begins that may have requirements."""
        return next((one for one in upward(directory) if self._begins(one)), None)

    def _own(self, directory: str) -> Floor | None:
        """The floor that a directory sets, be it that there is none."""
        found = [
            Floor(lowest, file)
            for file, read in self._files(directory)
            for specifiers in _read(file, read)
            if (lowest := _lowest(specifiers)) is not None
        ]
        if found:
            return min(found, key=lambda floor: version(floor.version))
        return NO_FLOOR if self._begins(directory) else None

    def _begins(self, directory: str) -> bool:
        return not self.places.names(directory).isdisjoint(ENDS)


class TorchFloors(Floors):
    """The lowest torch."""

    def _files(self, directory: str) -> Iterator[tuple[Path, Reader]]:
        names = self.places.names(directory)
        for name, read in READERS.items():
            if name in names:
                yield Path(directory, name), read
        for name in sorted(fnmatch.filter(names, LIST)):
            yield Path(directory, name), _of_lines
        if LISTS in names:
            below = join(directory, LISTS)
            for name in sorted(fnmatch.filter(self.places.names(below), "*.txt")):
                yield Path(below, name), _of_lines


def _read(file: Path, read: Reader) -> list[str]:
    try:
        return list(read(files.read_text(file)))
    except (OSError, ValueError, SyntaxError, RecursionError, configparser.Error):
        return []  # some other tool's file, and not about amplint


def _lowest(specifiers: str) -> str | None:
    """Ex) "1.8" of ">=1.8,!=1.9", "^1.8" and "1.8.*"; the lower one of two that `||` divides"""
    found = [_bound(way) for way in specifiers.split("||")]
    known = [each for each in found if each is not None]
    return min(known, key=version) if len(known) == len(found) else None


def _bound(specifiers: str) -> str | None:
    bounds = [match.groups() for each in specifiers.split(",") if (match := BOUND.match(each))]
    lower = [number for sign, number in bounds if sign not in {"!=", *UPPER}]
    if lower:
        return max(lower, key=version)
    return ANY if any(sign in UPPER for sign, _ in bounds) else None


def _specifiers(requirements: Iterable[object]) -> Iterator[str]:
    """The specifiers that requirements have for torch."""
    for each in requirements:
        match = REQUIREMENT.match(each) if isinstance(each, str) else None
        if match is not None:
            yield match[1]


def _of_pyproject(text: str) -> Iterator[str]:
    document = loads(text)
    project = table_in(document, "project")
    lists = [
        project.get("dependencies"),
        *table_in(project, "optional-dependencies").values(),
        *table_in(document, "dependency-groups").values(),
    ]
    for requirements in lists:
        yield from _specifiers(requirements if isinstance(requirements, list) else ())
    poetry = table_in(table_in(document, "tool"), "poetry")
    groups = table_in(poetry, "group").values()
    tables = [poetry, *(group for group in groups if isinstance(group, Mapping))]
    for table in tables:
        for key in ("dependencies", "dev-dependencies"):
            yield from _of_poetry(table_in(table, key).get(NAME))


def _of_poetry(wanted: object) -> Iterator[str]:
    """Ex) "^1.8", {version = "^1.8", optional = true}, a list of such tables"""
    for each in wanted if isinstance(wanted, list) else [wanted]:
        said = each.get("version") if isinstance(each, Mapping) else each
        if isinstance(said, str):
            yield said


def table_in(table: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = table.get(key)
    return value if isinstance(value, Mapping) else {}


def _of_setup_cfg(text: str) -> Iterator[str]:
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    yield from _of_lines(parser.get("options", "install_requires", fallback=""))
    if parser.has_section("options.extras_require"):
        for _, requirements in parser.items("options.extras_require"):
            yield from _of_lines(requirements)


def _of_setup_py(text: str) -> Iterator[str]:
    """The strings in `install_requires` and `extras_require`, and in the lists that these name."""
    module = ast.parse(text)
    lists = {
        target.id: statement.value
        for statement in module.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.keyword) and node.arg in ("install_requires", "extras_require"):
            value = node.value
            given = lists.get(value.id, value) if isinstance(value, ast.Name) else value
            strings = (each for each in ast.walk(given) if isinstance(each, ast.Constant))
            yield from _specifiers(each.value for each in strings)


def _of_lines(text: str) -> Iterator[str]:
    yield from _specifiers(line.partition(" --")[0] for line in text.splitlines())


READERS: Mapping[str, Reader] = {
    "pyproject.toml": _of_pyproject,
    "setup.cfg": _of_setup_cfg,
    "setup.py": _of_setup_py,
}
