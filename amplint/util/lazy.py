"""Modules that are imported, and patterns that are compiled, at the first use of a name of theirs.

Of some hundred patterns a run uses a quarter, and to compile one takes a third of a millisecond.
LibCST takes a fifth of a second to import (half of what all rules take), and a run without a
candidate needs nothing of it. `importlib.util.LazyLoader` would do, but that a second `import`
statement of the same module loads it.
"""

from __future__ import annotations

import importlib
import re
from types import ModuleType
from typing import Any, cast


class LazyModule(ModuleType):
    """Stands for a module until one of its names is used, and has its names from then on."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)  # found without this method the next time
        return value


class LazyPattern:
    """Stands for a regular expression."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, value)
        return value


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern with the methods of one that is compiled."""
    return cast("re.Pattern[str]", LazyPattern(pattern, flags))
