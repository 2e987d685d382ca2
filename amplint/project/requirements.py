"""Reads what the requirements of a project say of torch: pyproject.toml (of PEP 621, PEP 735 and
Poetry), setup.cfg, setup.py as far as it holds literals, and lists of requirements.

`packaging` is not used: of a requirement only a bound is needed, and it reads neither Poetry's
`^1.8` nor any of the files.
"""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from amplint.util.toml import loads

NAME = "torch"
# Ex) torch>=1.8, torch[opt] (>=1.8,<3) ; python_version < "3.8"; not torchvision, torch-fidelity
REQUIREMENT = re.compile(rf"\s*{NAME}(?![\w.-])\s*(?:\[[^\]]*\])?\s*\(?([^;@#)]*)", re.IGNORECASE)
Reader = Callable[[str], Iterator[str]]


def specifiers(requirements: Iterable[object]) -> Iterator[str]:
    """The specifiers that requirements have for torch."""
    for each in requirements:
        match = REQUIREMENT.match(each) if isinstance(each, str) else None
        if match is not None:
            yield match[1]


def of_pyproject(text: str) -> Iterator[str]:
    document = loads(text)
    project = table_in(document, "project")
    lists = [
        project.get("dependencies"),
        *table_in(project, "optional-dependencies").values(),
        *table_in(document, "dependency-groups").values(),
    ]
    for requirements in lists:
        yield from specifiers(requirements if isinstance(requirements, list) else ())
    poetry = table_in(table_in(document, "tool"), "poetry")
    groups = table_in(poetry, "group").values()
    tables = [poetry, *(group for group in groups if isinstance(group, Mapping))]
    for table in tables:
        for key in ("dependencies", "dev-dependencies"):
            yield from _of_poetry(table_in(table, key).get(NAME))


def _of_poetry(value: object) -> Iterator[str]:
    """Ex) "^1.8", {version = "^1.8", optional = true}, a list of such tables"""
    for each in value if isinstance(value, list) else [value]:
        version = each.get("version") if isinstance(each, Mapping) else each
        if isinstance(version, str):
            yield version


def table_in(table: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = table.get(key)
    return value if isinstance(value, Mapping) else {}


def of_setup_cfg(text: str) -> Iterator[str]:
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    yield from of_lines(parser.get("options", "install_requires", fallback=""))
    if parser.has_section("options.extras_require"):
        for _, requirements in parser.items("options.extras_require"):
            yield from of_lines(requirements)


def of_setup_py(text: str) -> Iterator[str]:
    """The strings in `install_requires` and `extras_require`, and in the lists that these name."""
    module = ast.parse(text)
    lists = {
        target.id: statement.value
        for statement in module.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.keyword) and node.arg in ("install_requires", "extras_require"):
            value = node.value
            literal = lists.get(value.id, value) if isinstance(value, ast.Name) else value
            strings = (each for each in ast.walk(literal) if isinstance(each, ast.Constant))
            yield from specifiers(each.value for each in strings)


def of_lines(text: str) -> Iterator[str]:
    yield from specifiers(line.partition(" --")[0] for line in text.splitlines())
