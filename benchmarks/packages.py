"""Fetch the pinned releases of packages.json and run amplint over them.

They are wheels, or source archives where a package has none; nothing of them is built, imported or
run, so that archives are fetched by their address: pip would run their setup.py to name them.
Wheels of one platform or one Python have an address too, for pip takes only those of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amplint.project.config import Settings
from amplint.project.discover import Selection
from amplint.rule import registry
from amplint.run.request import Request

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"


@dataclass(frozen=True)
class Package:
    """A release: the hash of its wheel or archive, and the directories that hold its code.

    `url`: of the source archive, where there is no wheel, or of a wheel that fits some machines
    only. `left_out`: a directory whose subdirectories are left out, except for the `kept` ones.
    `sets`: what it is looked at for: "real" (the rules, and the labels), "migration", "ecosystem"
    (which looks at all packages) and "ci". `standard_library`: it is the one of the Python that
    runs, whose version has to be the pinned one. `status_only`: its findings are kept for a
    later judgement of the rules, so that nobody reads or counts them.
    """

    name: str
    version: str
    roots: tuple[str, ...]
    sha256: str = ""
    url: str = ""
    left_out: str = ""
    kept: tuple[str, ...] = ()
    sets: tuple[str, ...] = ("real",)
    standard_library: bool = False
    status_only: bool = False

    def holds(self, member: str) -> bool:
        """Whether a file of the wheel is part of what is looked at."""
        if member.split("/", maxsplit=1)[0] not in self.roots:
            return False
        inside = member.removeprefix(f"{self.left_out}/") if self.left_out else member
        return inside == member or "/" not in inside or inside.split("/")[0] in self.kept


@dataclass(frozen=True)
class Run:
    """What one call of amplint did."""

    status: int
    stdout: str
    stderr: str


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The arguments that the scripts share."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n", maxsplit=1)[0])
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="default: all")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="holds the downloads")
    return parser


def default_cache() -> Path:
    """The directory for downloads when none is named: in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "amplint-benchmarks"


def load(names: Sequence[str] = (), among: str | None = "real") -> tuple[Package, ...]:
    """The packages of a set of packages.json (None: of all sets), or those that are named."""
    packages = tuple(
        Package(
            entry["name"],
            entry["version"],
            tuple(entry["roots"]),
            entry.get("sha256", ""),
            entry.get("url", ""),
            entry.get("left_out", ""),
            tuple(entry.get("kept", ())),
            tuple(entry.get("sets", ("real",))),
            entry.get("standard_library", False),
            entry.get("status_only", False),
        )
        for entry in json.loads((HERE / "packages.json").read_text(encoding="utf-8"))
    )
    unknown = set(names) - {package.name for package in packages}
    if unknown:
        sys.exit(f"not in packages.json: {', '.join(sorted(unknown))}")
    if not names:
        return tuple(package for package in packages if among is None or among in package.sets)
    return tuple(package for package in packages if package.name in names)


def fetch(package: Package, cache: Path) -> Path:
    """The directory with the package's unpacked code; downloads it the first time."""
    tree = cache / f"{package.name}-{package.version}"
    if tree.is_dir():
        return tree
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        unpacked = Path(scratch) / "tree"
        unpacked.mkdir()
        if package.standard_library:
            _copy_standard_library(package, unpacked)
        else:
            _unpack(package, _download(package, Path(scratch)), unpacked)
        # The tree is a project of its own, whatever directory the cache lies in.
        (unpacked / "pyproject.toml").write_text("", encoding="utf-8")
        unpacked.rename(tree)
    return tree


def _copy_standard_library(package: Package, into: Path) -> None:
    if not platform.python_version().startswith(f"{package.version}."):
        sys.exit(
            f"{package.name}: this is Python {platform.python_version()}, not {package.version}"
        )
    ignore = shutil.ignore_patterns("site-packages", "__pycache__", "*.so", "*.a")
    shutil.copytree(sysconfig.get_path("stdlib"), into / package.roots[0], ignore=ignore)


def _unpack(package: Package, path: Path, into: Path) -> None:
    if path.suffix == ".whl":
        _unpack_wheel(package, path, into)
    else:
        _unpack_archive(package, path, into)


def _unpack_wheel(package: Package, wheel: Path, into: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            if package.holds(member):
                archive.extract(member, into)


def _unpack_archive(package: Package, path: Path, into: Path) -> None:
    """A source archive holds one directory, and the code in it."""
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            inside = member.name.partition("/")[2]
            if inside and package.holds(inside):
                archive.extract(member.replace(name=inside), into, filter="data")


def _download(package: Package, into: Path) -> Path:
    return _download_by_address(package, into) if package.url else _download_wheel(package, into)


def _download_by_address(package: Package, into: Path) -> Path:
    path = into / package.url.rpartition("/")[2]
    with urllib.request.urlopen(package.url) as answer:
        path.write_bytes(answer.read())
    if hashlib.sha256(path.read_bytes()).hexdigest() != package.sha256:
        sys.exit(f"{package.name}: {package.url} has another hash than packages.json says")
    return path


def _download_wheel(package: Package, into: Path) -> Path:
    requirements = into / "requirements.txt"
    requirements.write_text(
        f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n", encoding="utf-8"
    )
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--require-hashes", "--dest", str(into)]
    command += ["--requirement", str(requirements)]
    subprocess.run(command, check=True)
    return next(into.glob("*.whl"))


def sources(package: Package, tree: Path) -> Iterator[Path]:
    """The package's Python files, sorted."""
    for root in package.roots:
        yield from sorted((tree / root).rglob("*.py"))


def amplint(words: Sequence[str], tree: Path) -> Run:
    """Run the amplint of this interpreter's environment in the tree."""
    done = subprocess.run(
        [program("amplint"), *words], cwd=tree, capture_output=True, encoding="utf-8", check=False
    )
    return Run(done.returncode, done.stdout, done.stderr)


def request_for(root: Path, files: Sequence[Path]) -> Request:
    """Every rule, the pedantic ones included, and those that hold for an older torch alone."""
    paths = tuple(sorted(file.relative_to(root).as_posix() for file in files))
    settings = Settings(root, select=("ALL",), preview=True, target_torch="2.10")
    return Request(Selection(root, paths, frozenset(paths)), settings, registry.all_rules())


def program(name: str) -> str:
    """The program of that name in this interpreter's environment, or else in the path."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or name


def check(
    package: Package, tree: Path, paths: Sequence[str] = (), options: Sequence[str] = ()
) -> tuple[list[dict[str, Any]], Run]:
    """The findings of `amplint check` with the default rules, as its JSON has them.

    Args:
        paths: what to report on; all of the package's code if none is given.
        options: others of the command line.
    """
    run = amplint(["check", "--format", "json", *options, *(paths or package.roots)], tree)
    try:
        findings = json.loads(run.stdout)
    except json.JSONDecodeError:
        sys.exit(f"{package.name}: amplint check gave no JSON (status {run.status})\n{run.stderr}")
    return findings, run
