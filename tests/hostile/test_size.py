"""Nothing that is large, deep or twisted stops a run, and nothing small takes long."""

from __future__ import annotations

import gc
import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pathspec
import pytest

from amplint.gradscaler import certainty
from amplint.output.formats.text import cut
from amplint.project.patterns import needs_care, spec
from amplint.project.reading import as_module
from amplint.util.text import Text
from tests.command import Amplint

LONG = "a" * 250
IMPORT = "import torch\n"


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Of CPU, many times what it takes, and a small part of what it would take otherwise.

    What earlier tests have left is kept out of garbage collection, for a pass over all of it would
    be counted here.
    """
    gc.freeze()
    begun = time.process_time()
    try:
        yield
        assert time.process_time() - begun < seconds
    finally:
        gc.unfreeze()


# ------------------------------------------------------------------------------------- settings

PATTERNS = [
    "*a*a*a*a*a*a*a*a*a*a*b", "***a***a***a***a***a***b", "?*?*?*?*?*?*?*?*?*b",
    "*[ab]*[ab]*[ab]*c", "/**/a*b/**/a*b/**/a*b/**/c", "**/a/**/a/**/a/**/a/**/b",
    "*.*.*.*.*.*.*.*.*.*b",
]  # fmt: skip
NAMES = [LONG, "." * 250, "ab/" * 900, "a/" * 1500 + "c"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_pattern_takes_long(pattern: str) -> None:
    with within(5):
        for name in NAMES:
            assert spec([pattern]).check_file(name).include is None


def test_patterns_mean_what_they_did() -> None:
    """`pathspec` lets a set with `!` match a slash, which git does not: none of these."""
    draw = random.Random(0)
    pieces = r"* ** a b ab ? [ab] / /**/ \* . []a] + ( |".split()
    compared = found = 0
    for _ in range(2500):
        pattern = "".join(draw.choices(pieces, k=draw.randrange(1, 9)))
        try:
            old = pathspec.GitIgnoreSpec.from_lines([pattern])
        except ValueError:
            continue
        if not old.patterns or not needs_care(getattr(old.patterns[0].regex, "pattern", "")):
            continue
        new = spec([pattern])
        for _ in range(10):
            parts = ["".join(draw.choices("aab*.b+(|", k=draw.randrange(1, 6))) for _ in range(4)]
            name = "/".join(parts[: draw.randrange(1, 5)]) + draw.choice(["", "/"])
            assert new.check_file(name).include == old.check_file(name).include, (pattern, name)
            compared += 1
            found += old.check_file(name).include is not None
    assert compared > 3000
    assert found > 300


@pytest.mark.parametrize("file", [".gitignore", "pyproject.toml"])
def test_no_pattern_of_a_repository_takes_long(
    repository: Path, amplint: Amplint, file: str
) -> None:
    (repository / f"{LONG}.py").write_text("x = 1\n")
    pattern = PATTERNS[0]
    content = pattern if file == ".gitignore" else f"[tool.amplint]\nexclude = ['{pattern}']\n"
    (repository / file).write_text(content)
    with within(10):
        assert amplint("check").status == 1


@pytest.mark.parametrize(
    "content",
    [
        "a = " + "[" * 100_000,
        "a = " + "{a=" * 100_000,
        "[" + "a." * 2_000 + "a]",
        "tool.amplint." + "a." * 2_000 + "a = 1",
        "a = " + "9" * 5_000,
        "[tool.amplint]\nselect = " + "[" * 400 + "]" * 400,
        "\0",
        "# " + "a" * 4_000_000,
    ],
    ids=["lists", "tables", "header", "key", "number", "value", "nul", "large"],
)
def test_settings_that_are_no_settings_are_an_error(
    repository: Path, amplint: Amplint, content: str
) -> None:
    (repository / "pyproject.toml").write_text(content)
    for command in (("check",), ("fix", "--apply")):
        with within(10):
            done = amplint(*command)
        assert done.status in (0, 1, 2)
        assert "Traceback" not in done.err
        assert len(done.err) < 2_000


def test_a_forged_baseline_is_an_error(repository: Path, amplint: Amplint) -> None:
    (repository / ".amplint-baseline.json").write_bytes('"\ud800"'.encode("utf-8", "surrogatepass"))
    done = amplint("check")
    assert done.status == 2
    assert ".amplint-baseline.json" in done.err
    assert "Traceback" not in done.err


# ------------------------------------------------------------------------------------- code

CODE = {
    "numbers": "x = torch.zeros(10**10**10)\ny = 1 << 10**10\nz = 'x' * 10**9\nw = [0] * 10**10\n",
    "digits": f"x = {'9' * 5_000}\n",
    "hexadecimal": f"x = torch.zeros(0x{'f' * 500_000})\n",
    "parentheses": f"x = {'(' * 100_000}1{')' * 100_000}\n",
    "sum": f"x = {'1 + ' * 100_000}1\n",
    "attributes": f"x = a{'.b' * 100_000}\n",
    "calls": f"x = a{'()' * 50_000}\n",
    "minus": f"x = {'-' * 100_000}1\n",
    "lambdas": f"x = {'lambda: ' * 50_000}1\n",
    "branches": "if x: pass\n" + "elif x: pass\n" * 20_000,
    "line": f"x = '{'a' * 1_000_000}'\n",
    "spaces": f"x = 1{' ' * 500_000}\n",
    "form feeds": "\f" * 500_000,
    "remarks": f"x = 1 #{' # noqa' * 30_000}\n# amplint: ignore[{'A,' * 100_000}\n",
    "encoding": "x = 1\0\n",
    "backslashes": "x = 1 + \\\n" + "\\\n" * 30_000 + "1\n",
    "decorators": "@a\n" * 20_000 + "def f(): pass\n",
    "old names": "def f(x):\n    with torch.cuda.amp.autocast():\n        return x\n" * 1_500,
    "circle": "def f(x):\n    x = [x]\n    return f((x, f(x)))\n" * 100,
}


@pytest.mark.parametrize("name", CODE)
def test_no_code_stops_a_run(repository: Path, amplint: Amplint, name: str) -> None:
    (repository / "hostile.py").write_text(IMPORT + CODE[name])
    with within(30):
        done = amplint("check", "--no-cache", "--select", "ALL")
    assert done.status == 1
    assert "AMP701" in done.out  # of the other file
    assert "Traceback" not in done.err


def notebook(*sources: object) -> str:
    cells = [{"cell_type": "code", "metadata": {}, "source": source} for source in sources]
    return json.dumps({"nbformat": 4, "metadata": {}, "cells": cells})


NOTEBOOKS = {
    "depth": "[" * 1_000_000,
    "depth inside": '{"nbformat":4,"cells":' + "[" * 50_000 + "]" * 50_000 + "}",
    "number": '{"nbformat":' + "9" * 10_000 + ',"cells":[]}',
    "numbers": notebook([1, None, {}]),
    "tildes": notebook("#" + "~" * 300_000),
    "strings": notebook(["x\n"] * 5_000),
    "cells": notebook(*["x = 1\n"] * 5_000),
    "magic": notebook("a.b " * 50_000 + "!\n"),
    "options": notebook("%time" + " -n 1" * 20_000 + "\n x"),
    "quotes": notebook("!x\n" + "'" + "\\a" * 300_000),
    "open quotes": notebook("!x\n" + "'''a" * 100_000),
    "names": notebook("!x\n" + ("a" * 2000 + " ") * 1000),
    "blanks": notebook("!a\n" + " " * 300_000 + "\n" + "\t \t" * 50_000 + "x"),
    "twice": '{"nbformat":4,"cells":1,"cells":[{"cell_type":"code","source":1,"source":["x",0]}]}',
    "surrogate": notebook("x = '\ud800'"),
}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_no_notebook_stops_a_run(repository: Path, amplint: Amplint, name: str) -> None:
    (repository / "hostile.ipynb").write_text(NOTEBOOKS[name])
    with within(30):
        done = amplint("check", "--no-cache", "--select", "ALL")
    assert done.status == 1
    assert "AMP701" in done.out
    assert "Traceback" not in done.err


# ------------------------------------------------------------------------------------- one by one


def test_what_is_shown_of_a_long_line_takes_no_time() -> None:
    line = "\t" * 3_000_000
    with within(1):
        before, marked, after = cut(line, 1_000_000, 2_000_000, 80)
    assert len(before + marked + after) == 80
    assert (before[0], marked[-1], after[-1]) == ("…", "…", "…")


def test_a_notebook_is_cut_by_a_boundary_that_nothing_holds() -> None:
    run = "#" + "~" * 300_000
    with within(5):
        read = as_module("x.ipynb", Text(notebook(f"x = 1 {run}", "#~~")))
    assert read.text.startswith(f"{run}~[1]\n")


def test_many_tests_around_the_calls_of_a_scaler_take_no_time(
    repository: Path, amplint: Amplint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All mistakes that are possible, each tried by itself, took minutes for 300 tests."""
    branches = "".join(
        f"    if a[{i}]:\n        scaler.scale(l).backward()\n    else:\n        scaler.step(o)\n"
        for i in range(300)
    )
    head = "scaler = torch.cuda.amp.GradScaler()\n\ndef f(l, o, a):\n"
    (repository / "a.py").write_text(IMPORT + head + branches)
    with within(20):
        assert amplint("check", "--no-cache", "--format", "concise").out.count("AMP4") > 1
    monkeypatch.setitem(certainty.LIMITS, "trials", 0)
    assert amplint("check", "--no-cache", "--format", "concise").out.count("AMP4") <= 1
