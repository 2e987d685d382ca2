"""Installed packages that bring rules: those with an entry point of the group `amplint.rules`.

Rules are code that runs. So a package counts only where packages are installed to: a directory of
the project under analysis may stand on `sys.path` (`python -m amplint` puts it there), and what it
holds must not run. For the same reason only `*.dist-info` counts, which an installer writes, and
`*.egg-info` does not, which lies in checkouts.

`importlib.metadata.entry_points()` would find them, too. Its import alone takes 0.07 s, half of
what a run from the cache takes; a search for the group in each `entry_points.txt` takes 0.001 s.
"""

# A run without such packages does not wait for what reads them.
# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import NamedTuple

import amplint
from amplint.util.errors import Failure

GROUP = "amplint.rules"
ENTRY_POINTS = "entry_points.txt"
SUFFIX = ".dist-info"
INSTALLED = ("site-packages", "dist-packages")


class PackageError(Failure):
    """A package that brings rules cannot be used; the text names it."""


class RulePackage(NamedTuple):
    """An installed distribution that brings rules.

    Args:
        name: of the distribution.
        version: of the distribution.
        modules: those that its entry points name, as they are written there.
        info: its `*.dist-info`.
    """

    name: str
    version: str
    modules: tuple[str, ...]
    info: Path

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Installed(NamedTuple):
    """The distributions that are installed beside amplint.

    Args:
        packages: those that bring rules.
        names: of all, with their versions; a rule may rest on any of them.
    """

    packages: tuple[RulePackage, ...]
    names: tuple[str, ...]


@cache
def installed() -> Installed:
    """All distributions; of two with one name, the one that Python would import."""
    by_name: dict[str, Path] = {}
    for directory in directories():
        for info in distributions(directory):
            by_name.setdefault(normalized(info.name.partition("-")[0]), info)
    packages = (package for info in by_name.values() if (package := package_in(info)) is not None)
    return Installed(tuple(sorted(packages)), tuple(sorted(info.name for info in by_name.values())))


def directories() -> Iterator[Path]:
    """The directories that packages are installed to, amplint's own one included.

    The one that `python -m` has put in front is none of them, whatever its name is.
    """
    own = str(Path(amplint.__file__).parent.parent)
    here = None
    with contextlib.suppress(OSError):
        here = str(Path.cwd())
    entries = sys.path[1:] if sys.path[:1] == [here] else sys.path
    for entry in dict.fromkeys([*entries, own]):
        is_meant = os.path.basename(entry) in INSTALLED or entry == own  # noqa: PTH119
        if is_meant and os.path.isabs(entry):  # noqa: PTH117  (strings, that may be no paths)
            yield Path(entry)


def distributions(directory: Path) -> list[Path]:
    """The `*.dist-info` of a directory. (`Path.glob` takes ten times as long.)"""
    names: list[str] = []
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        names += (entry.name for entry in entries if entry.name.endswith(SUFFIX))
    return [directory / name for name in sorted(names)]


def normalized(name: str) -> str:
    """The name of a distribution as those are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def package_in(info: Path) -> RulePackage | None:
    """The package of a `*.dist-info`, if it brings rules."""
    try:
        declared = (info / ENTRY_POINTS).read_bytes()
    except OSError:
        return None
    if GROUP.encode() not in declared:
        return None
    import configparser

    parser = configparser.ConfigParser(
        delimiters=("=",), interpolation=None, strict=False, default_section=""
    )
    name, _, version = info.name.removesuffix(SUFFIX).partition("-")
    try:
        parser.read_string(declared.decode())
    except (configparser.Error, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise PackageError(f"{name} {version}: {info / ENTRY_POINTS}: {reason}") from error
    modules = tuple(sorted(set(parser[GROUP].values()))) if GROUP in parser else ()
    return RulePackage(normalized(name), version, modules, info) if modules else None


def is_own(package: RulePackage, module: str) -> bool:
    """Whether Python would import what the package has installed by that name, or nothing.

    A directory of the project under analysis may come first on `sys.path` and hold another one.
    """
    spec = outermost(module)
    if spec is None or not (spec.has_location or spec.submodule_search_locations):
        return True
    places = spec.submodule_search_locations or [spec.origin or ""]
    homes = [home for home in (package.info.parent, source_of(package)) if home is not None]
    return all(any(lies_in(place, home) for home in homes) for place in places)


def lies_in(place: str, home: Path) -> bool:
    """Whether a path is below a directory, as both are written or by what links lead to."""
    return Path(os.path.abspath(place)).is_relative_to(home) or Path(  # noqa: PTH100
        place
    ).resolve().is_relative_to(home.resolve())


def source_of(package: RulePackage) -> Path | None:
    """The directory of an editable installation, by PEP 610."""
    import json
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        record = json.loads((package.info / "direct_url.json").read_bytes())
    except (OSError, ValueError):
        return None
    match record:
        case {"url": str(url), "dir_info": {"editable": True}}:
            return Path(url2pathname(urlsplit(url).path))
    return None


def files(module: str) -> list[tuple[str, Path]]:
    """The files on which the rules of an entry point rest: those of the outermost package.

    Found without running any code of it. An editable installation has them anywhere.

    Returns:
        Each with its name within the package.
    """
    spec = outermost(module)
    if spec is None:
        return []
    sources: list[tuple[str, Path]] = []
    for location in spec.submodule_search_locations or ():
        for directory, subdirectories, names in os.walk(location):
            subdirectories[:] = [d for d in subdirectories if d != "__pycache__"]
            for name in names:
                file = Path(directory, name)
                sources.append((file.relative_to(location).as_posix(), file))
    if not sources and spec.has_location and spec.origin is not None:
        sources.append((spec.name, Path(spec.origin)))
    return sorted(sources)


def outermost(module: str) -> ModuleSpec | None:
    """The outermost package around a module that is no namespace, which many distributions share;
    the module itself where there is none."""
    spec, path = None, None
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = spec_of(name, path)
        if spec is None or spec.origin is not None or spec.submodule_search_locations is None:
            break
        path = list(spec.submodule_search_locations)
    return spec


def spec_of(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """The module that Python would import, without its parents, which `find_spec` imports."""
    specs = (finder.find_spec(name, path, None) for finder in sys.meta_path)
    return next((spec for spec in specs if spec is not None), None)
