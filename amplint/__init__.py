"""amplint: a linter for PyTorch training code that knows mixed precision.

What is imported here is what the author of a rule needs. Names are loaded when they are asked for,
so that `amplint --help` does not pay for LibCST.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Edit": "finding", "Finding": "finding", "Fix": "finding", "Group": "finding",
    "Related": "finding", "Safety": "finding",
    "Change": "rule", "Differs": "rule", "Dtype": "rule", "Raises": "rule", "Rule": "rule",
    "Same": "rule", "Syncs": "rule", "Unrun": "rule", "Warns": "rule", "Witness": "rule",
    "Source": "source",
    "DType": "values", "Device": "values", "Function": "values", "Host": "values",
    "Instance": "values", "Method": "values",
    "Object": "values", "Sequence": "values", "Tensor": "values", "only": "values",
}  # fmt: skip

if TYPE_CHECKING:
    from amplint.finding import Edit, Finding, Fix, Group, Related, Safety
    from amplint.rule import (
        Change,
        Differs,
        Dtype,
        Raises,
        Rule,
        Same,
        Syncs,
        Unrun,
        Warns,
        Witness,
    )
    from amplint.source import Source
    from amplint.values import (
        Device,
        DType,
        Function,
        Host,
        Instance,
        Method,
        Object,
        Sequence,
        Tensor,
        only,
    )

__all__ = [
    "Change",
    "DType",
    "Device",
    "Differs",
    "Dtype",
    "Edit",
    "Finding",
    "Fix",
    "Function",
    "Group",
    "Host",
    "Instance",
    "Method",
    "Object",
    "Raises",
    "Related",
    "Rule",
    "Safety",
    "Same",
    "Sequence",
    "Source",
    "Syncs",
    "Tensor",
    "Unrun",
    "Warns",
    "Witness",
    "only",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"amplint.{_HOME[name]}"), name)
