"""Which file an import means, in the layouts that people use."""

from __future__ import annotations

import pytest

from amplint.ir.module_names import ProjectModules

FILES = (
    "src/pkg/__init__.py", "src/pkg/data.py", "src/pkg/utils/__init__.py", "src/pkg/utils/torch.py",
    "src/pkg/utils/helpers.py", "scripts/train.py", "scripts/helpers.py", "space/deep/mod.py",
)  # fmt: skip


@pytest.mark.parametrize(
    ("dotted", "importer", "path"),
    [
        ("pkg", "scripts/train.py", "src/pkg/__init__.py"),
        ("pkg.data", "scripts/train.py", "src/pkg/data.py"),
        ("helpers", "scripts/train.py", "scripts/helpers.py"),  # a script sees its own folder
        ("space.deep.mod", "scripts/train.py", "space/deep/mod.py"),  # a namespace package
        ("torch", "src/pkg/utils/helpers.py", None),  # a library, whatever files are called
        ("utils.helpers", "scripts/train.py", None),  # inside a package: only through it
        ("nowhere", "scripts/train.py", None),
    ],
)
def test_absolute(dotted: str, importer: str, path: str | None) -> None:
    assert ProjectModules(FILES).absolute(dotted, importer) == path


@pytest.mark.parametrize(
    ("importer", "level", "dotted", "path"),
    [
        ("src/pkg/data.py", 1, "utils", "src/pkg/utils/__init__.py"),
        ("src/pkg/utils/helpers.py", 2, "data", "src/pkg/data.py"),
        ("src/pkg/utils/__init__.py", 1, "helpers", "src/pkg/utils/helpers.py"),
        ("scripts/train.py", 5, "x", None),
    ],
)
def test_relative(importer: str, level: int, dotted: str, path: str | None) -> None:
    assert ProjectModules(FILES).relative(importer, level, dotted) == path
