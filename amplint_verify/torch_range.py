"""The versions of torch that the harness was run with, and what is said of others.

Nothing here imports torch.
"""

from __future__ import annotations

import importlib.metadata
import re

LOWEST, NEWEST = "2.4.0", "2.15.0"
"""The range that was run: benchmarks/results/torch_range.json has each version with its date."""


def installed() -> str:
    """The version of the installed torch, e.g. "2.13.0+cpu"; "" if there is none."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ""


def remark(version: str) -> str | None:
    """The sentence on a torch that was not tried; None for one that was."""
    if not version or minor(LOWEST) <= minor(version) <= minor(NEWEST):
        return None
    return f"amplint was not tested with torch {version}, only with {LOWEST} to {NEWEST}"


def not_started(backend: str, error: str, version: str) -> str:
    """The reason why a back end did not start.

    Args:
        error: the last line of its errors.
        version: of the installed torch.
    """
    if remark(version) is not None:
        return f"amplint does not support torch {version} yet ({error})"
    return f"the back end {backend} did not start: {error}"


def minor(version: str) -> tuple[int, ...]:
    """Ex) (2, 14) of "2.14.1+cpu" """
    return tuple(map(int, re.findall(r"\d+", version)[:2]))
