"""Which file of the project an import means.

Modules are named by their paths relative to the project's root. An absolute import is matched
against the ends of those paths (`import pkg.data` finds `src/pkg/data.py`), so that src layouts,
namespace packages and scripts beside their helpers work without knowing `sys.path`; among several
the one nearest to the importing file is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from posixpath import dirname

from amplint.frameworks.models import bundled

# Never a file of the project, whatever its files are called (`mylib/utils/torch.py`).
ALWAYS_LIBRARIES = frozenset(
    """
    torch numpy logging math time os sys typing functools itertools contextlib collections
    dataclasses argparse random warnings copy json abc enum re pathlib
    """.split()
)
# Nor these and the frameworks of which there are models, unless the project is that library: has a
# package of the name that is in no other.
LIBRARIES = frozenset("torchvision torchaudio scipy pandas tqdm apex".split()).union(
    *(model.packages for model in bundled())
)


class ProjectModules:
    """The modules of a project."""

    def __init__(self, paths: Iterable[str]) -> None:
        """Take the root-relative posix paths of all files."""
        self._paths = frozenset(paths)
        self._by_tail: dict[str, list[tuple[str, ...]]] = {}
        self._path_of: dict[tuple[str, ...], str] = {}
        for path in sorted(self._paths):
            parts = module_parts(path)
            if parts:
                self._by_tail.setdefault(parts[-1], []).append(parts)
                self._path_of.setdefault(parts, path)
        self._own = frozenset(
            parts[-1]
            for path in self._paths
            if path.endswith("/__init__.py")
            and (parts := module_parts(path))[-1] in LIBRARIES
            and "/".join((*parts[:-1], "__init__.py")) not in self._paths
        )

    def is_library(self, dotted: str) -> bool:
        """Whether an absolute import certainly means another package."""
        top = dotted.partition(".")[0]
        return top in ALWAYS_LIBRARIES or (top in LIBRARIES and top not in self._own)

    def absolute(self, dotted: str, importer: str) -> str | None:
        """The path of the module `dotted` as the file `importer` sees it, or None."""
        parts = tuple(dotted.split("."))
        if self.is_library(dotted):
            return None
        here = folder(importer)
        best: tuple[tuple[int, int], str] | None = None
        for candidate in self._by_tail.get(parts[-1], ()):
            root = candidate[: len(candidate) - len(parts)]
            if candidate[len(root) :] != parts or not self._may_be_on_path(root, here):
                continue
            rank = (-_common(root, here), len(root))
            path = self._path_of[candidate]
            if best is None or (rank, path) < best:
                best = (rank, path)
        return best[1] if best else None

    def relative(self, importer: str, level: int, dotted: str) -> str | None:
        """The path of `from ...dotted import` with `level` dots, seen from `importer`."""
        here = folder(importer)
        if level - 1 > len(here):
            return None
        base = here[: len(here) - (level - 1)]
        return self._at((*base, *(dotted.split(".") if dotted else ())))

    def imported(self, importer: str, level: int, dotted: str) -> str | None:
        """The path of the module that an import with `level` dots in the file `importer` means."""
        return self.relative(importer, level, dotted) if level else self.absolute(dotted, importer)

    def submodule(self, path: str, name: str) -> str | None:
        """The module `name` inside the package whose `__init__.py` (or folder) is `path`."""
        return self._at((*module_parts(path), name))

    def _at(self, parts: tuple[str, ...]) -> str | None:
        return self._path_of.get(parts)

    def _may_be_on_path(self, root: tuple[str, ...], here: tuple[str, ...]) -> bool:
        # What a package holds is imported through the package; a script sees its own folder.
        return root == here or "/".join((*root, "__init__.py")) not in self._paths


@cache
def folder(path: str) -> tuple[str, ...]:
    """The folders above a file; asked for at every import, hence the cache."""
    return tuple(dirname(path).split("/")) if dirname(path) else ()


def module_parts(path: str) -> tuple[str, ...]:
    """`src/pkg/__init__.py` -> (src, pkg); `train.py` -> (train,)."""
    parts = path.removesuffix(".py").split("/")
    if parts[-1] == "__init__":
        parts.pop()
    return tuple(parts)


def _common(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    count = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        count += 1
    return count
