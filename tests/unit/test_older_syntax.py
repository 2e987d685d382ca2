"""Files in newer syntax than the running Python reads are analysed, each place as it is."""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from amplint.claim.finding import Finding
from amplint.cst.newer_syntax import decoded, encoded
from amplint.cst.older_syntax import found
from amplint.ir.codec import Record
from amplint.ir.file_index import File
from amplint.ir.model import Newer
from amplint.project.python_floor import PythonFloors
from amplint.run import engine, indexing
from amplint.run.request import Outcome
from amplint.util.text import Text
from tests.command import Amplint
from tests.helpers import Files, modules, request, write
from tests.newer import in_newer_syntax

OLDEST = (3, 10)
# The newest syntax that can be written so; no Python that runs the tests reads it.
LAZY = "lazy import os\n"
TRAIN = """\
import torch


def train(model, loader):
    for batch in loader:
        loss = model(batch.cuda()).mean()
        loss.backward()
        torch.cuda.empty_cache()
        print(len(loader))  # amplint: ignore[AMP101] nothing is read here
"""


@pytest.fixture
def amplint(capfd: pytest.CaptureFixture[str]) -> Amplint:
    return Amplint(capfd)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "older"),
    [
        ("def f[T](a): ...\n", "def f   (a): ...\n"),
        ("def f[\n    T,\n](a): ...\n", "def f\\\n     \\\n (a): ...\n"),
        ("def f[\r\n  T  # why\r\n](a): ...\r\n", "def f\\\r\n         \\\r\n (a): ...\r\n"),
        ("class A[T: (int, str)](B): ...\n", "class A" + " " * 15 + "(B): ...\n"),
        ("if a: type X = int; b\n", "if a: pass        ; b\n"),
        ("type X = dict[\n    str,\n]\nb\n", "pass          \n        \n \nb\n"),
        ("try: a\nexcept A, (B), C: c\n", "try: a\nexcept A| (B)| C: c\n"),
        ("try: a\nexcept*A: c\n", "try: a\nexcept A: c\n"),
        ("def f(*a: *Ts): ...\n", "def f(*a: ...): ...\n"),
        ("def f(*a: *T): ...\n", "def f(*a: 0 ): ...\n"),
        ('x = f"{a["b"]}é{c}"\n', "x = f\"{a['b']}é{c}\"\n"),
        ('x = f"{a["é\'\\n#"]}"\n', "x = f\"{a['é__n_']}\"\n"),
        ('x = f"""{a["""b"""]}"""\n', 'x = f"""{a[\'\'\'b\'\'\']}"""\n'),
        ('x = f"{f"a{b}"}"\n', "x = f\"{f'a{b}'}\"\n"),
        ("lazy  import a\n", "pass; import a\n"),
    ],
)  # fmt: skip
def test_it_is_written_in_its_place(text: str, older: str) -> None:
    newer = found(text, OLDEST)
    assert newer is not None and newer.older == older
    assert len(older) == len(text) and len(older.encode()) == len(text.encode())
    assert Text(older).rows == Text(text).rows


@pytest.mark.parametrize(
    "text",
    [
        "def f[\n\n  T](a): ...\n",  # there is no character for a backslash
        "def f[T: 'é'](a): ...\n",  # a blank has fewer bytes
        "x = t'{a}'\n",  # it formats nothing
        "x = [*a for a in b]\n",
        "x = {**a for a in b}\n",
        "x[*a]\n",  # where `a` is a list, x[a] is another thing
        "x = f'{f'{a['b']}'}'\n",  # there are no third quotes
        "x = f'{f'\\N{DOT}{a}'}'\n",  # what is named would be a value
        "x = f'{\n  a\n}'\n",
        "x = f'{a:{b:{c}}}'\n",
    ],
)
def test_what_cannot_be_written_in_its_place_is_named(text: str) -> None:
    newer = found(text, OLDEST)
    assert newer is not None and newer.older is None


@pytest.mark.parametrize("text", ["x = 1\n", "def f[T](a: ...\n", "f'{a}'\n", "f'{f\"{a}\"}'\n"])
def test_nothing_is_found_in_other_texts(text: str) -> None:
    assert found(text, OLDEST) is None


def test_a_newer_python_needs_no_older_syntax_for_what_it_reads() -> None:
    assert found("def f[T](a): ...\n", (3, 12)) is None
    if sys.version_info < (3, 12):
        return
    newer = found("def f[T](a):\n    try: b\n    except C, D: e\n", (3, 12))
    assert newer is not None and newer.older is not None
    assert "[T]" in newer.older and "C| D" in newer.older


# -------------------------------------------------------------------------- the same findings

FOLDERS = """
    backward_in_autocast host_read_in_hot_path legacy_grad_scaler tensor_formatted_in_hot_path
""".split()


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_findings_are_the_same_in_newer_syntax(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {path: data for path, data in modules(folder).items() if path.endswith(".py")}
    newer = {path: in_newer_syntax(data.decode()).encode() for path, data in files.items()}
    expected = checked(files, tmp_path / "old")
    as_this_python = checked(newer, tmp_path / "new")
    monkeypatch.setattr(indexing, "read", as_the_oldest)
    as_oldest = checked(newer, tmp_path / "new")
    assert rows(expected.findings) == rows(as_oldest.findings) == rows(as_this_python.findings)
    assert as_oldest.problems == as_this_python.problems == ()
    assert places(as_oldest.findings) == places(as_this_python.findings)


def checked(files: Files, directory: Path) -> Outcome:
    directory.mkdir(exist_ok=True)
    return engine.run(replace(request(files, write(files, directory)), indexed={}, jobs=1))


def as_the_oldest(path: str, text: str, *_: object) -> File:
    newer = found(text, OLDEST)
    return File(path, text, newer=newer)


def rows(findings: Iterable[Finding]) -> Counter[object]:
    return Counter((f.path, f.code, f.span.start.row, f.span.end.row) for f in findings)


def places(findings: Iterable[Finding]) -> Counter[object]:
    return Counter((f.path, f.code, f.span, f.message, f.help, f.scope) for f in findings)


def test_what_is_kept_of_the_index_has_the_older_text() -> None:
    text = "def f[T](a):\n    return a.item()\n"
    newer = found(text, OLDEST)
    file = File("a.py", text, newer=newer)
    again = File("a.py", text, record=Record("a.py", file.encoded()))
    assert again.newer == newer and again.facts == file.facts
    assert ast.dump(again.parsed.module) == ast.dump(file.parsed.module)


# ---------------------------------------------------------------------- what is said of it


def test_nothing_is_fixed_and_one_line_says_so(project: Path, amplint: Amplint) -> None:
    write({"a.py": (LAZY + TRAIN).encode(), "b.py": (LAZY + TRAIN).encode()}, project)
    for command in ("check", "fix --apply --unsafe"):
        done = amplint(*command.split())
        (line,) = (line for line in done.err.splitlines() if "nothing is fixed" in line)
        assert line.startswith(
            "amplint: nothing is fixed in a.py and 1 other file: amplint runs on"
        )
        assert line.endswith("and `lazy import` needs Python 3.15")
    assert (project / "a.py").read_text() == LAZY + TRAIN
    report = json.loads(amplint("check", "--format", "json").out)
    assert {each["code"] for each in report} >= {"AMP001", "AMP111"}
    assert all(each["fix"] is None for each in report)


def test_nothing_is_said_of_files_without_findings(project: Path, amplint: Amplint) -> None:
    write({"a.py": (LAZY + "import torch\n").encode()}, project)
    done = amplint("check")
    assert (done.status, done.err) == (0, "")


def test_a_second_run_says_the_same(project: Path, amplint: Amplint) -> None:
    write({"a.py": (LAZY + TRAIN + "#" * indexing.LEAST_KEPT + "\n").encode()}, project)
    first = amplint("check")
    (project / "c.py").write_text("import a\n")  # what is kept of a.py is used
    assert first.out.splitlines()[:-1] == amplint("check").out.splitlines()[:-1]


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
    assert [each["help"].partition("; ")[0] for each in report] == [
        f"run amplint with {advice}"
    ] * 2


def test_the_type_of_the_answer_survives_the_process() -> None:
    for newer in (Newer((3, 14), "é", "\udc80"), Newer((3, 12), "a")):
        assert decoded(encoded(newer).encode()) == newer
