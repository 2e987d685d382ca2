"""What is run, and how: entries, scripts and test suites, each in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplint_verify.recording.observation import Observation, RunOutcome, to_json
from amplint_verify.runs.drivers import StartKind, UserProgram
from amplint_verify.runs.spec import Spec
from tests.helpers import write

pytest.importorskip("torch")


def ran(runner: Any, tree: Path, program: UserProgram, backend: str = "cpu") -> Observation:
    """Run a program in a tree that stands for its own copy."""
    original = tree.parent / "original"
    original.mkdir(exist_ok=True)
    observation = runner.run(
        Spec(
            root=str(tree),
            target="amplint_verify.runs.drivers:run",
            backend=backend,
            args=(to_json(program), str(original), "{device}"),
            seconds=60,
        )
    )
    assert isinstance(observation, Observation)
    return observation


def texts(observation: Observation, part: str = "result") -> dict[str, str]:
    """The leaves that are no tensors."""
    leaves = observation.result if part == "result" else observation.state
    return {leaf.where: leaf.text for leaf in leaves if leaf.tensor is None}


ENTRIES = b"""
import torch

def plain():
    return 1

def two(a, b=2):
    return [a, b]

def on(device):
    return device

def on_gpu(x, device="cuda:7"):
    return [x, device]

def a_tuple():
    return 3, 4

def a_dict():
    return {"b": 5, "a": 6}

def a_list():
    return [7]

def default():
    with torch.autocast("cuda"):
        x = torch.ones(2, 2, device="cuda")
        return str((x @ x).dtype)

def leaves():
    raise SystemExit(0)

def fails():
    raise SystemExit("no data")
"""


@pytest.mark.parametrize(
    ("name", "inputs", "found"),
    [
        ("plain", "", {"result": "1"}),
        ("two", "a_tuple", {"result": "2", "result[0]": "3", "result[1]": "4"}),
        ("two", "a_dict", {"result": "2", "result[0]": "6", "result[1]": "5"}),
        ("on_gpu", "plain", {"result": "2", "result[0]": "1", "result[1]": "'cuda:7'"}),
        ("on", "", {"result": "'cpu'"}),
        ("leaves", "", {"result": "None"}),
    ],
)
def test_entry(name: str, inputs: str, found: dict[str, str], tmp_path: Path, runner: Any) -> None:
    tree = write({"pkg/__init__.py": b"", "pkg/mod.py": ENTRIES}, tmp_path / "tree")
    made_by = f"pkg.mod:{inputs}" if inputs else ""
    program = UserProgram(StartKind.ENTRY, f"pkg.mod:{name}", made_by)
    assert texts(ran(runner, tree, program)) == found


def test_entry_that_exits(tmp_path: Path, runner: Any) -> None:
    tree = write({"mod.py": ENTRIES}, tmp_path / "tree")
    observation = ran(runner, tree, UserProgram(StartKind.ENTRY, "mod:fails"))
    assert observation.outcome is RunOutcome.EXCEPTION
    assert observation.text == "the program exited with 'no data'"


@pytest.mark.parametrize(
    ("name", "inputs", "error", "text"),
    [
        (
            "mod:no",
            "",
            "UnstartedError",
            "there is no 'mod:no': module 'mod' has no attribute 'no'",
        ),
        ("no:f", "", "UnstartedError", "there is no module 'no' for 'no:f'"),
        ("mod.no:f", "", "UnstartedError", "there is no module 'mod.no' for 'mod.no:f'"),
        ("mod:torch", "", "UnstartedError", "'mod:torch' cannot be called: it is module"),
        (
            "mod:two",
            "",
            "UnstartedError",
            "mod:two() cannot be called: missing a required argument: 'a'; --inputs can say what "
            "to call it with",
        ),
        (
            "mod:plain",
            "mod:a_tuple",
            "UnstartedError",
            "mod:plain(*mod:a_tuple()) cannot be called: too many positional arguments",
        ),
        (
            "mod:two",
            "mod:no",
            "UnstartedError",
            "there is no 'mod:no': module 'mod' has no attribute 'no'",
        ),
        ("lost:f", "", "ModuleNotFoundError", "No module named 'nowhere'"),  # the program's fault
    ],
)
def test_entry_that_cannot_be_started(
    name: str, inputs: str, error: str, text: str, tmp_path: Path, runner: Any
) -> None:
    tree = write({"mod.py": ENTRIES, "lost.py": b"import nowhere"}, tmp_path / "tree")
    observation = ran(runner, tree, UserProgram(StartKind.ENTRY, name, inputs))
    assert (observation.outcome, observation.error) == (RunOutcome.EXCEPTION, error)
    assert observation.text == text


@pytest.mark.parametrize(("dtype", "found"), [("", "float16"), ("bfloat16", "bfloat16")])
def test_dtype_of_regions_that_name_none(
    dtype: str, found: str, tmp_path: Path, runner: Any
) -> None:
    tree = write({"src/mod.py": ENTRIES}, tmp_path / "tree")
    program = UserProgram(StartKind.ENTRY, "mod:default", dtype=dtype)
    assert texts(ran(runner, tree, program, "policy")) == {"result": f"'torch.{found}'"}


SCRIPT = b"""
import sys
import torch
import beside

if __name__ == "__main__":
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(int(sys.argv[1])):
        loss = model(torch.ones(3, 2)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    raise SystemExit(beside.STATUS)
"""


def script(tmp_path: Path, status: int) -> Path:
    files = {"tools/train.py": SCRIPT, "tools/beside.py": f"STATUS = {status}".encode()}
    return write(files, tmp_path / "tree")


def test_script_and_its_landmarks(tmp_path: Path, runner: Any) -> None:
    """It has its arguments and its neighbours, and is compared by what it passes on its way."""
    program = UserProgram(StartKind.SCRIPT, "tools/train.py", arguments=("2",))
    observation = ran(runner, script(tmp_path, 0), program)
    assert observation.outcome is RunOutcome.OK
    assert [leaf.where for leaf in observation.state] == [
        "output 1 of Linear",
        "loss 1 of backward()",
        "output 2 of Linear",
        "loss 2 of backward()",
        "Linear.weight",
        "Linear.weight.grad",
        "Linear.bias",
        "Linear.bias.grad",
    ]
    assert all(leaf.tensor for leaf in observation.state)


def test_a_directory_without_init_file_is_a_package(tmp_path: Path, runner: Any) -> None:
    """A module in it, of its name, does not hide it."""
    files = {
        "train.py": b"from errors.errors import Wrong\nimport beside\n",
        "errors/errors.py": b"class Wrong(Exception): pass\n",
        "errors/beside.py": b"",
    }
    program = UserProgram(StartKind.SCRIPT, "train.py", roots=("errors",))
    observation = ran(runner, write(files, tmp_path / "tree"), program)
    assert observation.outcome is RunOutcome.OK, observation.text


STATES = b"""
import torch

def main():
    models = [torch.nn.Linear(2, 1), torch.nn.Linear(1, 1)]
    spare = torch.nn.Parameter(torch.ones(1))
    optimizers = [torch.optim.AdamW(each.parameters()) for each in models]
    optimizers.append(torch.optim.SGD([spare], lr=0.1, momentum=0.9))
    loss = models[1](models[0](torch.ones(3, 2))).mean() * spare
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
"""


def test_state_has_the_names_of_the_program(tmp_path: Path, runner: Any) -> None:
    """Two models of one class are told apart, and so are optimizers; a lone parameter is where its
    optimizer has it."""
    tree = write({"train.py": STATES}, tmp_path / "tree")
    names = {
        leaf.where for leaf in ran(runner, tree, UserProgram(StartKind.ENTRY, "train:main")).state
    }
    assert {
        "Linear.weight",
        "Linear 2.weight.grad",
        "optimizer 1.state['exp_avg'] of Linear.bias",
        "optimizer 2.state['exp_avg_sq'] of Linear 2.weight",
        "optimizer 3.param_groups[0]['params'][0]",
        "optimizer 3.state['momentum_buffer'] of optimizer 3.param_groups[0]['params'][0]",
    } <= names


def test_steps_end_a_script(tmp_path: Path, runner: Any) -> None:
    program = UserProgram(StartKind.SCRIPT, "tools/train.py", arguments=("1000000",), steps=3)
    observation = ran(runner, script(tmp_path, 1), program)
    assert observation.outcome is RunOutcome.OK
    outputs = [leaf.where for leaf in observation.state if leaf.where.startswith("output")]
    losses = [leaf.where for leaf in observation.state if leaf.where.startswith("loss")]
    assert outputs == [f"output {number} of Linear" for number in (1, 2, 3)]
    assert losses == [f"loss {number} of backward()" for number in (1, 2, 3)]


def test_script_that_fails(tmp_path: Path, runner: Any) -> None:
    program = UserProgram(StartKind.SCRIPT, "tools/train.py", arguments=("1",))
    observation = ran(runner, script(tmp_path, 3), program)
    assert (observation.outcome, observation.text) == (
        RunOutcome.EXCEPTION,
        "the program exited with 3",
    )


SUITE = b"""
import random
import torch

def test_loss():
    model = torch.nn.Linear(2, 1)
    model(torch.rand(3, 2)).mean().backward()

def test_fails():
    assert random.random() > 2, "never"

def test_is_skipped():
    import pytest
    pytest.skip("not today")
"""


def test_suite(tmp_path: Path, runner: Any) -> None:
    tree = write({"tests/test_it.py": SUITE, "pyproject.toml": b""}, tmp_path / "tree")
    observation = ran(runner, tree, UserProgram(StartKind.PYTEST))
    place = "tests/test_it.py::"
    found = texts(observation)
    assert found[f"result['tests']['{place}test_loss']"] == "'passed'"
    assert found[f"result['tests']['{place}test_fails']"].startswith("'failed in call")
    assert found[f"result['tests']['{place}test_is_skipped']"].startswith("'skipped in call")
    assert [leaf.where for leaf in observation.state] == [
        f"{place}test_loss: output 1 of Linear",
        f"{place}test_loss: loss 1 of backward()",
    ]
    assert not list(tree.rglob("__pycache__")) and not list(tree.rglob(".pytest_cache"))


def test_order_of_tests_does_not_matter(tmp_path: Path, runner: Any) -> None:
    """Every test is seeded, so that another order, or a test less, changes no other test."""
    tree = write({"test_it.py": SUITE}, tmp_path / "tree")
    alone = ran(runner, tree, UserProgram(StartKind.PYTEST, arguments=("-k", "loss")))
    among = ran(runner, tree, UserProgram(StartKind.PYTEST))
    ours = {leaf for leaf in among.state if "test_loss" in leaf.where}
    assert {leaf for leaf in alone.state if "test_loss" in leaf.where} == ours


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ("empty.py", "UnstartedError", "pytest empty.py finds no tests"),
        (
            "none.py",
            "UnstartedError",
            "pytest rejects none.py: file or directory not found: none.py",
        ),
        (
            "",
            "RuntimeError",
            "test_lost.py cannot be collected: ModuleNotFoundError: No module named 'nowhere'",
        ),
    ],
)
def test_suite_that_cannot_be_run(
    arguments: str, error: str, text: str, tmp_path: Path, runner: Any
) -> None:
    tree = write({"empty.py": b"", "test_lost.py": b"import nowhere"}, tmp_path / "tree")
    observation = ran(
        runner, tree, UserProgram(StartKind.PYTEST, arguments=tuple(arguments.split()))
    )
    assert (observation.outcome, observation.error) == (RunOutcome.EXCEPTION, error)
    assert observation.text == text


def test_program_in_words() -> None:
    assert str(UserProgram(StartKind.ENTRY, "a:f")) == "a:f()"
    assert str(UserProgram(StartKind.ENTRY, "a:f", "a:g")) == "a:f(*a:g())"
    assert str(UserProgram(StartKind.SCRIPT, "t.py", arguments=("-x", "1"))) == "python t.py -x 1"
    assert str(UserProgram(StartKind.PYTEST)) == "pytest"
