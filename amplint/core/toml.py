"""TOML: of the standard library from Python 3.11 on, and of tomli before."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    # Installed below 3.11 alone, so that elsewhere mypy does not find it.
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

__all__ = ["tomllib"]
