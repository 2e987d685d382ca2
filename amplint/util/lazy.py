"""Modules that are imported at the first use of one of their names.

LibCST takes a fifth of a second to import (half of what all rules take), and a run without a
candidate needs nothing of it. `importlib.util.LazyLoader` would do, but that a second `import`
statement of the same module loads it.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


class LazyModule(ModuleType):
    """Stands for a module until one of its names is used, and has its names from then on."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)  # found without this method the next time
        return value
