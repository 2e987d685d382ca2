"""Observations that come with a repository: whatever is in the file, the run goes on, and soon; it
runs nothing, reads nothing outside, and makes no fix safe."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplint.findings.finding import Safety
from amplint.project import observations
from amplint.util import files
from tests.command import Amplint
from tests.hostile.test_reach import KINDS, SPECIAL
from tests.hostile.test_size import within
from tests.observations import observed, save

SECRET = "hunter2-is-the-password"
DEEP = 30_000
TEXT = "import torch\n\n\ndef f(x, y):\n    z = torch.where(x > 0, x, y)\n    return z.item()\n"


def document(**fields: Any) -> str:
    """A file about a function with these fields."""
    function = {"text": "0" * 16, "runs": ["python t.py"], **fields}
    return json.dumps({"schema": 1, "functions": {"b.py::f": function}})


UNUSABLE = {
    "lists": "[" * DEEP,
    "objects": '{"functions":' * DEEP,
    "closed": '{"schema": 1, "functions": {"a.py::f": ' + "[" * 5_000 + "]" * 5_000 + "}}",
    "number": f'{{"schema": {"9" * 60_000}, "functions": {{}}}}',
    "another schema": '{"schema": 2, "functions": {}}',
    "text": f'"{SECRET}"',
    "no JSON": SECRET,
    "no UTF-8": '{"schema": 1, "functions": {"\udcff": {}}}',
    "another field": document(command="rm -rf /"),
    "runs that are none": document(runs=7),
    "parameters that are none": document(parameters=["x"]),
    "many functions": json.dumps(
        {
            "schema": 1,
            "functions": {
                f"a.py::f{i}": {"text": "", "runs": []}
                for i in range(observations.MOST_FUNCTIONS + 1)
            },
        }
    ),
    "many places": document(
        expressions={f"call {i}:1": [] for i in range(observations.MOST_PLACES + 1)}
    ),
    "large": " " * (files.MOST_OF_SETTINGS + 1),
}


def written(root: Path, text: str) -> None:
    target = root / observations.FILE
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(text.encode("utf-8", "surrogateescape"))


@pytest.mark.parametrize("text", UNUSABLE.values(), ids=UNUSABLE)
def test_what_is_no_file_of_observations_is_one_sentence(
    repository: Path, amplint: Amplint, text: str
) -> None:
    written(repository, text)
    with within(10):
        done = amplint("check", "--no-cache")
    assert done.status == 1  # of the finding that is there without
    assert done.err.count("\n") == 1
    assert ".amplint/observations.json is not used: " in done.err
    assert SECRET not in done.err + done.out


SHAPES: dict[str, Any] = {
    "deep lists": json.loads("[" * 400 + '"float16 cuda 1"' + "]" * 400),
    "deep dicts": json.loads('{"a": ' * 400 + '"float16 cuda 1"' + "}" * 400),
    "long text": "float16 cuda 1" * 100_000,
    "numbers": [1, 1.5, None, True],
    "no dtype": "float17 tpu 9",
    "wide": {f"k{i}": "float16 cuda 1" for i in range(20_000)},
    "wide list": ["float16 cuda 1"] * 20_000,
    "empty": "",
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_shapes_of_any_kind_cost_nothing(repository: Path, amplint: Amplint, shape: Any) -> None:
    (repository / "b.py").write_text(TEXT)
    fields = {"parameters": {"x": [shape], "y": [shape] * 7}, "regions": ["float16", shape]}
    known = observed("b.py", TEXT, {"f": {"parameters": {}}})
    target = save(repository, known)
    content = json.loads(target.read_text())
    content["functions"]["b.py::f"].update(fields)
    target.write_text(json.dumps(content))
    with within(10):
        done = amplint("check", "--no-cache")
    assert done.status == 1
    assert "Traceback" not in done.err


def test_the_name_of_a_run_is_inert_and_short(repository: Path, amplint: Amplint) -> None:
    (repository / "b.py").write_text(TEXT)
    given = {"x": ["float16 cuda 1"], "y": ["float32 cuda 1"]}
    known = observed("b.py", TEXT, {"f": {"parameters": given, "regions": ["float16"]}})
    known["b.py::f"].runs = ["\x1b[31m\r\n::error::" + "x" * 10_000]
    save(repository, known)
    done = amplint("check", "--no-cache")
    assert "AMP203" in done.out
    assert "\x1b" not in done.out
    assert "x" * (observations.LONGEST_RUN + 1) not in done.out
    assert not any(line.startswith("::error::") for line in done.out.splitlines())


def test_no_fix_is_safe_that_only_the_file_calls_for(repository: Path, amplint: Amplint) -> None:
    (repository / "b.py").write_text(TEXT)
    given = {"x": ["float16 cuda 1"], "y": ["float32 cuda 1"]}
    known = observed(
        "b.py", TEXT, {"f": {"parameters": given, "regions": ["float16"], "every_step": True}}
    )
    save(repository, known)
    told = json.loads(amplint("check", "--no-cache", "--format", "json").out)
    found = [each for each in told if each["filename"] == "b.py"]
    assert found
    assert all(not each["fix"] or each["fix"]["safety"] != Safety.SAFE.value for each in found)
    amplint("fix", "--apply")
    assert (repository / "b.py").read_text() == TEXT


def test_no_file_outside_is_read(repository: Path, home: Path, amplint: Amplint) -> None:
    (repository / "b.py").write_text(TEXT)
    given = {"x": ["float16 cuda 1"], "y": ["float32 cuda 1"]}
    outside = save(home, observed("b.py", TEXT, {"f": {"parameters": given}}))
    target = repository / observations.FILE
    target.parent.mkdir()
    target.symlink_to(outside)
    done = amplint("check", "--no-cache")
    assert "AMP203" not in done.out
    assert "it is a link that leads out of the project" in done.err


@pytest.mark.parametrize("make", SPECIAL, ids=KINDS)
def test_what_only_looks_like_a_file_is_not_read(
    repository: Path, amplint: Amplint, make: Callable[[Path], None]
) -> None:
    target = repository / observations.FILE
    target.parent.mkdir()
    make(target)
    with within(10):
        done = amplint("check", "--no-cache")
    assert done.status == 1
    assert ".amplint/observations.json is not used: " in done.err
