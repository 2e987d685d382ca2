"""The fixtures of the rules: programs with a rule's mistake and without it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import amplint

Files = Mapping[str, bytes]  # a project: paths, relative to its root, and what is in the files


def fixtures() -> Path:
    """The directory of all fixtures: in the package where it is installed, beside it in a checkout.

    Raises:
        FileNotFoundError: there is none.
    """
    package = Path(amplint.__file__).parent
    for directory in (package / "fixtures", package.parent / "fixtures"):
        if directory.is_dir():
            return directory
    raise FileNotFoundError("the fixtures of the rules are not installed")


def folder(name: str) -> Path:
    """The folder of a rule, given the rule's name."""
    return fixtures() / name.replace("-", "_")


def modules(base: Path) -> dict[str, bytes]:
    """The modules of a folder, by path."""
    return {
        path.relative_to(base).as_posix(): path.read_bytes() for path in sorted(base.rglob("*.py"))
    }


def write(files: Files, directory: Path) -> Path:
    """Write a project, and give back its directory."""
    for path, data in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return directory
