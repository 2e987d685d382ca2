"""The lowest Python that a project allows, by its own settings.

Read are pyproject.toml (of PEP 621 and Poetry), setup.cfg, and setup.py where it is a literal.
"""

from __future__ import annotations

import ast
import configparser
from collections.abc import Iterator, Mapping
from pathlib import Path

from amplint.project.requirements import Reader, table_in
from amplint.project.torch_floor import Floors
from amplint.util.toml import loads


class PythonFloors(Floors):
    """The lowest Python."""

    def _files(self, directory: str) -> Iterator[tuple[Path, Reader]]:
        names = self.places.names(directory)
        for name, read in READERS.items():
            if name in names:
                yield Path(directory, name), read


def _of_pyproject(text: str) -> Iterator[str]:
    document = loads(text)
    poetry = table_in(table_in(document, "tool"), "poetry")
    for said in (
        table_in(document, "project").get("requires-python"),
        table_in(poetry, "dependencies").get("python"),
    ):
        if isinstance(said, str):
            yield said


def _of_setup_cfg(text: str) -> Iterator[str]:
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    yield parser.get("options", "python_requires", fallback="")


def _of_setup_py(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.keyword) and node.arg == "python_requires":
            value = node.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


READERS: Mapping[str, Reader] = {
    "pyproject.toml": _of_pyproject,
    "setup.cfg": _of_setup_cfg,
    "setup.py": _of_setup_py,
}
