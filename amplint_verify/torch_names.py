"""The names by which the harness asks torch for something.

A torch that nobody has tried may lack an operation that a table names. Then the table has a row
that nothing matches, and the back ends start all the same: `torch.ops.aten.cholesky` raises since
torch 2.14, and no program that runs there calls it. That a module of torch itself is where this
one was written for cannot be helped so: such a torch is not supported, and the run says it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

UNTIL: Mapping[str, str] = {"cholesky": "2.13"}
"""The last version with an operation that the tables name. (Seen in torch 2.14.1;
tests/verify/test_torch_names.py asks the installed one.)"""


class Absent:
    """An operation that the installed torch does not have. It equals none that it has."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{self.name}, which torch {torch.__version__} does not have"


class Operations:
    """The operations of `torch.ops.aten`, by attribute.

    Args:
        home: where they are looked up.
    """

    def __init__(self, home: Any = torch.ops.aten) -> None:
        self._home = home

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._home, name, None)
        if operation is None:
            operation = Absent(name)
        setattr(self, name, operation)
        return operation


aten = Operations()


def present(home: Any, names: Iterable[str]) -> dict[str, Any]:
    """Those names of a module or class that the installed torch has there, with what they are."""
    return {name: getattr(home, name) for name in names if hasattr(home, name)}


def takes(function: Callable[..., Any], *names: str) -> tuple[str, ...]:
    """Those of some arguments that a function of the installed torch has."""
    return tuple(name for name in names if name in inspect.signature(function).parameters)
