"""Observations for tests: a file as `amplint observe --save` writes it, of code that nobody ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amplint.inference.whole_program.observation_values import digest_of
from amplint.ir.file_index import File
from amplint.project import observations
from amplint.project.observations import ObservedFunction

RUN = "python train.py --steps 2"


def observed(path: str, text: str, functions: dict[str, Any]) -> dict[str, ObservedFunction]:
    """What a run has shown of functions of a file.

    Args:
        functions: the fields of `ObservedFunction` besides digest and runs, by qualified name.
    """
    file = File(path, text)
    known = file.facts.functions
    return {
        f"{path}::{name}": ObservedFunction(
            digest_of(known[f"{path}::{name}"], file.lines), [RUN], **fields
        )
        for name, fields in functions.items()
    }


def save(root: Path, functions: dict[str, ObservedFunction]) -> Path:
    """Write them into the file that `check` reads."""
    target = root / observations.FILE
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(observations.written(functions))
    return target
