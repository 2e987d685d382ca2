"""The fixtures of the rules: programs with a rule's mistake and without it."""

from __future__ import annotations

from pathlib import Path

import amplint


def fixtures() -> Path:
    """The directory of all fixtures: in the package where it is installed, beside it in a checkout.

    Raises:
        FileNotFoundError: there is none.
    """
    package = Path(amplint.__file__).parent
    for found in (package / "fixtures", package.parent / "fixtures"):
        if found.is_dir():
            return found
    raise FileNotFoundError("the fixtures of the rules are not installed")


def folder(name: str) -> Path:
    """The folder of a rule, given the rule's name."""
    return fixtures() / name.replace("-", "_")
