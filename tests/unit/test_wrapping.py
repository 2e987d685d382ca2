"""Lines that fixes have made too long are wrapped, as ruff would do it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.fix.wrapping import own_width, wrapped
from amplint.project.line_length import DEFAULT
from amplint.util.text import Text
from tests.helpers import fix

SHORT = "x = 1\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("value = function(first, second)", "value = function(\n    first, second\n)"),
        (
            "value = function(first, second, third, fourth)",
            "value = function(\n    first,\n    second,\n    third,\n    fourth,\n)",
        ),
        (
            "with function(first, second=third, four=4):\n    pass",
            "with function(\n    first,\n    second=third,\n    four=4,\n):\n    pass",
        ),
        (
            "if x:\n  value = function(first, other)",
            "if x:\n  value = function(\n    first, other\n  )",
        ),
        ("value = table[one_key, another_key]", "value = table[\n    one_key, another_key\n]"),
        ("value = (first_part + second_part)", "value = (\n    first_part + second_part\n)"),
        (
            "value = f(g(a, b), h(c, d, e), i(f, g))",
            "value = f(\n    g(a, b),\n    h(c, d, e),\n    i(f, g),\n)",
        ),
        ("value = function(f'{a(b)}', second)", "value = function(\n    f'{a(b)}', second\n)"),
        (
            "value = f'{a(b, c, d)}' + f(g, h)",
            "value = f'{a(b, c, d)}' + f(\n    g, h\n)",
        ),
        (
            "value = f(f'{a} {f\"{c(d)}\"}', g)",
            "value = f(\n    f'{a} {f\"{c(d)}\"}', g\n)",
        ),
        (
            "one, two = f(a, b=c), g(d, e)",
            "one, two = (\n    f(a, b=c),\n    g(d, e),\n)",
        ),
        (
            "if x:\n  return f(a, b=c), g(d, eee),",
            "if x:\n  return (\n    f(a, b=c),\n    g(d, eee),\n  )",
        ),
        ("one = yield one, f(first, two)", "one = yield one, f(\n    first, two\n)"),
        ("if x: one = f(a), f(first, two)", "if x: one = f(a), f(\n    first, two\n)"),
        (
            "value = f(\n    one=1, two=g(first), *some)",
            "value = f(\n    one=1, two=g(\n        first\n    ), *some)",
        ),
        # The longest bracket, not the last one.
        (
            "value = function(first, second).view(1)",
            "value = function(\n    first, second\n).view(1)",
        ),
    ],
)
def test_a_line_that_has_become_too_long(line: str, expected: str) -> None:
    assert wrapped(Text(SHORT), f"{line}\n", 28) == f"{expected}\n"
    assert wrapped(Text(SHORT), f"{line}\n", 100) == f"{line}\n"
    assert wrapped(Text(f"{line}\n"), f"{SHORT}{line}\n", 28) == f"{SHORT}{line}\n"


@pytest.mark.parametrize(
    "line",
    [
        "value = function(first, second)  # why",
        "value = 'a string that is much too long for that'",
        "value = function(a_very_long_name_of_an_argument_indeed)",
        "value = function('''first\nsecond''', third, fourth, fifth)",
        "value = function(each_one for each_one in things)",
        "value = function(lambda first, second: (first, second))",
        "value = function(first, second, (",
    ],
)
def test_what_cannot_be_wrapped_stays(line: str) -> None:
    assert wrapped(Text(SHORT), f"{line}\n", 28) == f"{line}\n"


LONG = "value = function(first, second)\n"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"# fmt: off\n{LONG}# fmt: on\n", True),
        (f"if x:\n    # fmt:off\n    {LONG}", True),
        (f"# yapf: disable\n{LONG}# yapf: enable\n", True),
        (f"value = (\n    {LONG.strip()[8:]},\n)  # fmt: skip\n", True),
        (f"# fmt: off\nx = [1,2]\n# fmt: on\n{LONG}", False),
        (f"x = [1,2]  # fmt: skip\n{LONG}", False),
        (f"x = [1]  # fmt: off\n{LONG}", False),
    ],
)
def test_what_is_kept_from_formatters_stays(text: str, kept: bool) -> None:
    assert (wrapped(Text(SHORT), text, 28) == text) is kept


def test_a_line_that_was_too_long_before_stays_on_its_line() -> None:
    before = "value = function(first, second, third)\n"
    after = "value = function(device, first, second, third)\n"
    assert wrapped(Text(before), after, 28) == after


def test_lines_end_as_they_did() -> None:
    after = wrapped(Text("x = 1\r\n"), "value = function(first, second)\r\n", 28)
    assert after == "value = function(\r\n    first, second\r\n)\r\n"


EXPRESSIONS = st.recursive(
    st.sampled_from(["alpha", "beta.gamma", "'text(,'", "1.5", "f'{alpha(beta)}'"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda some: f"call({', '.join(some)})"),
        st.lists(inner, min_size=1, max_size=4).map(lambda some: f"table[{', '.join(some)}]"),
        st.lists(inner, min_size=1, max_size=4).map(lambda some: f"({', '.join(some)})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} + {pair[1]})"),
        inner.map(lambda one: f"sum({one} for alpha in beta)"),
        inner.map(lambda one: f"call(lambda a, b: {one})"),
    ),
    max_leaves=12,
)


@given(EXPRESSIONS, st.integers(20, 70), st.sampled_from(["", "    ", "  "]))
@settings(deadline=None)
def test_a_wrapped_line_means_the_same(expression: str, width: int, step: str) -> None:
    head = f"if alpha:\n{step}pass\n" if step else ""
    program = f"{head}{'if beta:' if step else ''}{chr(10) if step else ''}{step}x = {expression}\n"
    after = wrapped(Text(SHORT), program, width)
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(program))
    if after != program:
        assert all(len(line) <= width for line in after.splitlines())
        assert wrapped(Text(after), after, width) == after


@pytest.mark.parametrize("length", [70, 100])
def test_ruff_finds_nothing_to_format(tmp_path: Path, length: int) -> None:
    program = """\
import torch


def train(model, loader, use_amp, growth_interval):
    scaler = torch.cuda.amp.GradScaler(enabled=use_amp)
    for x, y in loader:
        with torch.cuda.amp.autocast(use_amp, cache_enabled=False):
            loss = model(x)
"""
    settings_of = f"[tool.ruff]\nline-length = {length}\n"
    files = {"train.py": program.encode(), "pyproject.toml": settings_of.encode()}
    after = fix(files, tmp_path, unsafe=False)["train.py"]
    (tmp_path / "train.py").write_bytes(after)
    assert b"torch.amp" in after
    command = [sys.executable, "-m", "ruff", "format", "--diff", str(tmp_path / "train.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("line", "enabled", "rows"),
    [
        ("pass", 40, 1),
        ("pass", 60, 3),
        (f"{'a' * 60} = {'b' * 60}", 60, 1),
        (f"# {'a' * 110}", 60, 3),
        (f"a = '{'a' * 110}'", 60, 3),
        (f"a = f'{'a' * 110}'", 60, 3),
    ],
)
def test_without_settings_the_longest_line_of_code_is_the_measure(
    line: str, enabled: int, rows: int, tmp_path: Path
) -> None:
    flag = "x" * enabled
    program = f"import torch\n{line}\nscaler = torch.cuda.amp.GradScaler(enabled={flag})\n"
    after = fix({"train.py": program.encode()}, tmp_path, unsafe=False)["train.py"]
    assert after.decode().count("\n") == 2 + rows


@pytest.mark.parametrize("text", ["", "x = (", "x = 1\n"])
def test_a_file_without_tokens_has_the_width_of_formatters(text: str) -> None:
    assert own_width(Text(text)) == DEFAULT
