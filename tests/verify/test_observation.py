"""What one process writes of a run, another reads."""

import json

import pytest

from amplint_verify.recording.observation import (
    Flag,
    Leaf,
    Observation,
    Occurrences,
    OperationRow,
    ReturnedTensor,
    RunOutcome,
    SchemaError,
    Wait,
    from_json,
    to_json,
)
from amplint_verify.runs.spec import Spec

TENSOR = ReturnedTensor(
    "float16", "cuda:0", (2, 3), (3, 1), "torch.ReturnedTensor", False, "ab", None
)
FULL = Observation(
    backend="sim",
    torch="2.13.0",
    outcome=RunOutcome.EXCEPTION,
    error="RuntimeError",
    text="expected",
    place="train.py:3",
    rows=(
        OperationRow(
            "train.py", 3, "aten.mm.default", ("float16@cuda:0",), (), Wait.TO_HOST, False
        ),
    ),
    dropped=2,
    waits={"d2h-copy": Occurrences(2, 1), "h2d-copy-async": Occurrences(5, 0)},
    counters={"stream synchronizations": 7},
    to_device=4,
    to_host=8,
    flags=(Flag("train.py", 4, "aten.mm.default", ("float16", "float32")),),
    warnings=("old",),
    result=(Leaf("result", "list", "1"), Leaf("result[0]", "torch.ReturnedTensor", "", TENSOR)),
    state=(Leaf("state", "NoneType", "None"),),
    rng="cd",
    guesses=3,
    ran={"train.py": ((1, 0, 1, 9), (2, 0, 3, 4))},
    notes=("path-dependent",),
)


@pytest.mark.parametrize("seen", [FULL, Observation("cpu", "", RunOutcome.OK)])
def test_an_observation_survives_json(seen: Observation) -> None:
    assert Observation.from_json(json.loads(json.dumps(seen.to_json()))) == seen


def test_a_spec_survives_json() -> None:
    spec = Spec("/x", "bad:run", "sim", ("{device}", 1.5), {"steps": 2}, contexts=("a:b",))
    assert from_json(Spec, json.loads(json.dumps(to_json(spec)))) == spec


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {**FULL.to_json(), "schema": 0},
        {**FULL.to_json(), "outcome": "lost"},
        {**FULL.to_json(), "surprise": 1},
        {**FULL.to_json(), "guesses": "many"},
    ],
)
def test_what_is_no_observation_is_refused(data: object) -> None:
    with pytest.raises(SchemaError):
        Observation.from_json(data)


def test_some_waits_are_reads_and_copies_need_not_block() -> None:
    waits = {
        "d2h-copy": Occurrences(2, 1),
        "h2d-copy": Occurrences(4, 0),
        "h2d-copy-async": Occurrences(5, 0),
    }
    seen = Observation("cpu", "", RunOutcome.OK, waits=waits)
    assert seen.blocking == Occurrences(6, 1)
    assert seen.reads == Occurrences(2, 1)
    assert seen.reads.total == 3
