"""A part of `benchmarks/op_database.py`, and what all of it gave."""

import json

import pytest

from amplint_verify.runs.run import running

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")  # the database wants it
op_database = pytest.importorskip("benchmarks.op_database")


def test_a_part_of_the_database_gives_what_the_tables_say() -> None:
    with running() as runner:
        found = op_database.compared(*op_database.measured(runner, 29, "policy"), "policy")
    assert found["problems"] == []
    assert found["counts"]["policy and sim: equal"] > 100
    assert found["counts"]["tables and sim: equal"] > 100


def test_all_of_it_gave_no_problem() -> None:
    found = json.loads(op_database.RESULT.read_text(encoding="utf-8"))
    assert found["problems"] == []
    assert found["operations"] > 600


def row(gives: str, error: str = "", op: str = "add", **changes: object) -> dict[str, object]:
    operands = [("float16", 2), ("float32", 2)]
    return {
        "op": op, "variant": op, "mix": ["float16", "float32"], "asked": False,
        "operands": operands, "gives": [gives] if gives else [], "error": error, **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sim", "policy", "flagged", "problem"),
    [
        (row("float32"), row("float32"), set(), None),
        (row("float32"), row("float16"), set(), "policy and sim: add(float16, float32)"),
        (row("float16"), row("float16"), set(), "tables and sim: add(float16, float32)"),
        (row("float32"), row("", "add: same dtype"), set(), "flagged on sim: add(float16"),
        (row("float32"), row("", "add: same dtype"), {"add"}, None),
        (row("float32", op="exp"), row("float32", op="exp"), set(), None),
        (row("float16", op="exp"), row("float16", op="exp"), set(), "tables and sim: exp"),
    ],
)
def test_what_disagrees_is_a_problem(
    sim: dict[str, object], policy: dict[str, object], flagged: set[str], problem: str | None
) -> None:
    problems = op_database.compared([sim], [policy], flagged, "policy")["problems"]
    assert len(problems) == (problem is not None)
    assert problem is None or problems[0].startswith(problem)


def test_a_dimensionless_operand_does_not_promote() -> None:
    operands = [("float16", 2), ("float32", 0)]
    assert op_database.of_tables(row("float16", operands=operands)) == "float16"
