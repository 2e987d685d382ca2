"""Files in newer syntax than the running Python reads: it is said with which one they are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amplint.cst.newer_syntax import found
from amplint.project.python_floor import PythonFloors
from tests.command import Amplint
from tests.helpers import write

OLDEST = (3, 10)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "python", "what"),
    [
        ("try: a\nexcept*A: c\n", (3, 11), "`except*`"),
        ("def f(*a: *Ts): ...\n", (3, 11), "a `*` in an annotation"),
        ("x[*a]\n", (3, 11), "a `*` in brackets of an index"),
        ("def f[T](a): ...\n", (3, 12), "type parameters in brackets behind a name"),
        ("class A[T: (int, str)](B): ...\n", (3, 12), "type parameters in brackets behind a name"),
        ("if a: type X = int; b\n", (3, 12), "the `type` statement"),
        ('x = f"{a["b"]}"\n', (3, 12), "what the braces of an f-string hold"),
        ('x = f"{f"a{b}"}"\n', (3, 12), "what the braces of an f-string hold"),
        ("x = f'{\n  a\n}'\n", (3, 12), "what the braces of an f-string hold"),
        ("x = f'{a:{b:{c}}}'\n", (3, 12), "what the braces of an f-string hold"),
        ("def f[T = int](a): ...\n", (3, 13), "the default of a type parameter"),
        (
            "try: a\nexcept A, (B), C: c\n",
            (3, 14),
            "`except` with several types and no parentheses",
        ),
        ("x = t'{a}'\n", (3, 14), "a t-string"),
        ("lazy import a\n", (3, 15), "`lazy import`"),
        ("lazy from a import b\n", (3, 15), "`lazy from ... import`"),
        ("x = [*a for a in b]\n", (3, 15), "a `*` in a comprehension"),
        ("x = {**a for a in b}\n", (3, 15), "a `**` in a comprehension"),
        (
            "def f[T](a):\n    try: b\n    except C, D: e\n",
            (3, 14),
            "`except` with several types and no parentheses",
        ),
    ],
)
def test_the_newest_syntax_is_named(text: str, python: tuple[int, int], what: str) -> None:
    assert found(text, OLDEST) == (python, what)
    assert found(text, python) is None


@pytest.mark.parametrize(
    "text",
    ["x = 1\n", "def f[T](a: ...\n", "f'{a}'\n", "f'{f\"{a}\"}'\n", "try: a\nexcept (A, B): c\n"],
)
def test_nothing_is_found_in_other_texts(text: str) -> None:
    assert found(text, OLDEST) is None


# --------------------------------------------------------------------- the Python to run it with


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("pyproject.toml", '[project]\nrequires-python = ">=3.16,<4"', "3.16"),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.16"', "3.16"),
        ("pyproject.toml", '[project]\nrequires-python = "<4"', "0"),
        ("pyproject.toml", '[project]\nname = "a"', None),
        ("setup.cfg", "[options]\npython_requires = >=3.16", "3.16"),
        ("setup.cfg", "[options]", None),
        ("setup.py", "setup(python_requires='>=3.16')", "3.16"),
        ("setup.py", "setup(python_requires=version)", None),
        ("requirements.txt", "python>=3.16", None),
    ],
)
def test_the_lowest_python_of_a_project(
    tmp_path: Path, name: str, content: str, expected: str | None
) -> None:
    (tmp_path / name).write_text(content)
    floor = PythonFloors().of(tmp_path.as_posix())
    assert (floor and floor.version) == expected


@pytest.mark.parametrize(
    ("requires", "advice"),
    [
        (">=3.16.1", "Python 3.16.1 or later, which pyproject.toml asks for"),
        (">=3.10", "Python 3.15 or later"),
        (">=3.15.2", "Python 3.15 or later"),
        ("<4", "Python 3.15 or later"),
    ],
)
def test_the_advice_names_a_python_that_the_project_allows(
    project: Path, amplint: Amplint, requires: str, advice: str
) -> None:
    write(
        {
            "pyproject.toml": f'[project]\nrequires-python = "{requires}"\n'.encode(),
            "a.py": b"x = [*a for a in b]\n",
            "b.ipynb": json.dumps(
                {
                    "cells": [
                        {
                            "cell_type": "code",
                            "metadata": {},
                            "outputs": [],
                            "source": "x = [*a for a in b]\n",
                        }
                    ],
                    "metadata": {"language_info": {"name": "python"}},
                    "nbformat": 4,
                    "nbformat_minor": 5,
                }
            ).encode(),
        },
        project,
    )
    report = json.loads(amplint("check", "--format", "json").out)
    assert [each["help"] for each in report] == [f"run amplint with {advice}"] * 2
