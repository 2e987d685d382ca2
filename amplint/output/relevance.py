"""Whether a project has anything that amplint is about: something imports torch, or a framework
that is built on it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from amplint.util.text import Text

IMPORT = r"\b(?:import|from)\s[^#\n]*\b(?:{})"  # be it in a comment: then nothing is said


def is_about_torch(texts: Mapping[str, Text]) -> bool:
    """Whether one of the files of a project does."""
    return named(r"\w*torch", texts) or named("|".join(frameworks()), texts)


def named(pattern: str, texts: Mapping[str, Text]) -> bool:
    imports = re.compile(IMPORT.format(pattern))
    return any(imports.search(texts[path].text) for path in texts)


def frameworks() -> Iterable[str]:
    """The packages of the frameworks that amplint has models of."""
    # Their schema takes a while to import, which few projects need to wait for.
    from amplint.frameworks.models import bundled  # noqa: PLC0415

    return sorted({re.escape(package) for model in bundled() for package in model.packages})
