"""Which parts an edit touches, and whether they ran."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from amplint.findings.finding import Edit
from amplint.util.text import Text
from amplint_verify.compare.executed import edited, rows_after, unedited, unrun, whole_rows
from amplint_verify.recording.tracing import Place, Tracer

OLD = """\
import torch

x = torch.zeros(
    3,
)
y = x.cuda()
"""


def edit(text: str, old: str, new: str) -> Edit:
    start = text.index(old)
    return Edit(start, start + len(old), new)


@pytest.mark.parametrize(
    ("edits", "before", "after"),
    [
        ([edit(OLD, ".cuda()", ".to(0)")], [(6, 5, 12)], {6}),
        ([edit(OLD, "    3,\n", "    3,\n    device=0,\n")], [(4, 4, 6)], {5}),
        ([edit(OLD, "x = torch", "z = 1\nx = torch")], [(3, 0, 9)], {3}),
        ([Edit(OLD.index("x ="), OLD.index("x ="), "z = 1\n")], [], {3}),
        ([edit(OLD, "y = x.cuda()\n", "")], [(6, 0, 12)], set()),
        ([Edit(len(OLD), len(OLD), "z = 1\n")], [], {7}),
    ],
)
def test_what_edits_touch(
    edits: list[Edit], before: list[tuple[int, int, int]], after: set[int]
) -> None:
    new = OLD
    for each in edits:
        new = new[: each.start] + each.text + new[each.end :]
    spans = edited(Text(OLD), edits)
    assert [(each.start.row, each.start.column, each.end.column) for each in spans] == before
    assert rows_after(OLD, new, edits) == after


def test_an_indent_that_changes_touches_the_row() -> None:
    text = Text("if x:\n    y = 1\n")
    (span,) = edited(text, [Edit(6, 10, "")])
    assert (span.start.column, span.end.column) == (4, 9)


def test_columns_are_bytes() -> None:
    (span,) = edited(Text("é = f(x)\n"), [Edit(4, 5, "g")])
    assert (span.start.column, span.end.column) == (5, 6)


def test_rows_after_other_edits() -> None:
    new = OLD.replace("import torch\n", "import os\nimport torch\n").replace(".cuda()", ".to(0)")
    assert rows_after(OLD, new, [edit(OLD, ".cuda()", ".to(0)")]) == {7}


def test_unedited_rows_leave_out_the_rest_of_an_edited_statement() -> None:
    new = OLD.replace("    3,\n", "    4,\n")
    assert unedited(OLD, new) == {1: 1, 2: 2, 6: 6}
    assert unedited(OLD, "import os\n" + OLD)[4] == 3


def test_a_form_feed_ends_no_row() -> None:
    old = "import torch\n\f\nx = 1\ny = x.cuda()\n"
    new = old.replace(".cuda()", ".to(0)")
    assert rows_after(old, new, [edit(old, ".cuda()", ".to(0)")]) == {4}
    assert unedited(old, new) == {1: 1, 2: 2, 3: 3}
    assert unrun(old, whole_rows(old, [3]), ()) == [3]


def test_rows_of_a_long_file_are_found_in_no_time() -> None:
    """`difflib` took 25 s for it."""
    lines = [f"x{number} = f({number})\n" if number % 2 else "\n" for number in range(4000)]
    old = "".join(lines)
    new = "".join(
        line.replace("f(", "g(") if number % 20 == 1 else line for number, line in enumerate(lines)
    )
    begun = time.process_time()
    assert rows_after(old, new, [edit(old, "x1 = f", "x1 = g")]) == {2}
    assert len(unedited(old, new)) == 3800
    assert time.process_time() - begun < 10


PROGRAM = """\
import torch, unused
from torch.cuda.amp import GradScaler as unused

@torch.no_grad()
def evaluate(x,
             y=None):
    'A docstring.'
    # a comment
    return x.double() * 2 if y else x

class Net:
    scale = 2

def train(model, x, y, *, flag=False):
    global other
    count: int
    with torch.autocast("cuda"):
        x = x.float() if flag else x.half()
        x = (flag
             and x.exp())
    if flag: x = x.sin()
    try:
        x = [each.cos() for each in y if each.tan()]
    except ValueError:
        x = 2
    else:
        x = 3
    for each in y:
        x = x.log()
    key = lambda each: each.sqrt()
    x = 1; y = 2
    return torch.zeros(
        3,
        device="cpu"
    )
"""
CALLED = """
train(None, torch.ones(2), [])
"""
NEVER = """
if False:
    train(None, None, None)
"""


def ran(text: str) -> tuple[Place, ...]:
    """What runs of a text, traced in a process of its own; of `torch`, a stand-in."""
    code = """
import json, sys, types
from unittest import mock
from amplint_verify.recording.tracing import Tracer, traced
text = sys.stdin.read()
torch = mock.MagicMock()
names = ("torch", "unused", "torch.cuda", "torch.cuda.amp")
sys.modules.update(dict.fromkeys(names, torch))
torch.no_grad = lambda: lambda function: function
tracer = Tracer(lambda code: code.co_filename, {"<own>"})
with traced(tracer):
    exec(compile(text, "<own>", "exec"), {})
print(json.dumps(tracer.parts()["<own>"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return tuple(tuple(each) for each in json.loads(done.stdout))


@pytest.fixture(scope="module")
def called() -> tuple[Place, ...]:
    return ran(PROGRAM + CALLED)


@pytest.fixture(scope="module")
def imported() -> tuple[Place, ...]:
    return ran(PROGRAM + NEVER)


COLUMNS = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 knows rows only")


@pytest.mark.parametrize(
    ("part", "runs"),
    [
        ("import torch", True),
        ("as unused", True),  # nothing mentions it: nothing can run
        ("torch.no_grad", False),  # of a function that is only defined
        ("y=None", False),
        ("'A docstring.'", True),  # nothing is there to run
        ("# a comment", True),
        ("x.double()", False),
        ("scale = 2", True),
        ("flag=False", True),
        ("global other", True),
        ("count: int", True),
        ('autocast("cuda")', True),
        pytest.param("x.float()", False, marks=COLUMNS),
        ("x.half()", True),
        ("(flag", True),
        pytest.param("x.exp()", False, marks=COLUMNS),
        pytest.param("x = x.sin()", False, marks=COLUMNS),
        ("if flag:", True),
        ("[each.cos() for", True),
        pytest.param("each.cos()", False, marks=COLUMNS),
        pytest.param("each.tan()", False, marks=COLUMNS),
        ("in y if", True),
        ("except ValueError:", False),
        ("x = 2\n    else", False),
        ("else:\n", True),
        ("x = 3", True),
        ("for each in y:", True),
        ("x.log()", False),
        pytest.param("each.sqrt()", False, marks=COLUMNS),
        ("lambda each", True),
        ("x = 1;", True),
        ("y = 2", True),
        ("torch.zeros(", True),
        ('device="cpu"', True),
        ("    )\n", True),
    ],
)
def test_unrun(part: str, runs: bool, called: tuple[Place, ...]) -> None:
    start = PROGRAM.index(part)
    part = part.partition("\n")[0]
    spans = edited(Text(PROGRAM), [Edit(start, start + len(part), "new")])
    assert (not unrun(PROGRAM, spans, called)) is runs


def test_of_a_module_that_is_imported_the_bodies_do_not_run(imported: tuple[Place, ...]) -> None:
    rows = range(1, PROGRAM.count("\n") + 1)
    left = unrun(PROGRAM, whole_rows(PROGRAM, rows), imported)
    lines = PROGRAM.splitlines()
    assert {lines[row - 1] for row in set(rows) - set(left) if lines[row - 1].strip()} == {
        "import torch, unused",
        "from torch.cuda.amp import GradScaler as unused",
        "    'A docstring.'",
        "    # a comment",
        "class Net:",
        "    scale = 2",
        "    global other",
        "    count: int",
    }


def test_import_that_nothing_mentions() -> None:
    text = "import torch\nx = torch.zeros(3)\nimport os\n"
    assert unrun(text, whole_rows(text, [1, 2, 3]), [(1, 0, 1, 12)]) == [2]


def test_equal_functions_of_two_files_are_told_apart() -> None:
    """Code objects are equal whatever file they come from."""
    files = {"a": {}, "b": {}}
    for name, scope in files.items():
        exec(compile("def f():\n    return 1\n", name, "exec"), scope)
    tracer = Tracer(lambda code: code.co_filename, set(files))
    for name, scope in files.items():
        numbers = tracer.numbers_of(scope["f"].__code__)
        assert numbers == set()
        numbers.add(2 if name == "a" else 4)
    assert sorted(map(len, tracer.ran.values())) == [1, 1]
