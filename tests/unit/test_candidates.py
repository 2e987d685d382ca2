"""Candidates: what a condition is made of, and the spots of a value graph that are asked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amplint import (
    EVALUATED,
    HOT,
    IN_REGION,
    SOMEWHERE_HOT,
    WITH_HALF,
    WITHIN_REGION,
    Candidates,
    Group,
    Rule,
    Spot,
    Unrun,
    calls,
    nodes,
    symbol,
)
from amplint.analyses.candidates import Search
from amplint.analyses.program import Program
from amplint.ir import ops
from amplint.ir.file_index import File
from amplint.ir.file_set import Files


def rows(candidates: Candidates, text: str) -> list[int]:
    """The lines of a file with candidates."""
    made_up = Unrun("made up", "nowhere")
    rule = Rule("AMP900", "Doc.", Group.PRECISION, "0.1", made_up, candidates)
    files = Files({"a.py": File("a.py", text)})
    return sorted(Search(files, Program(files).facts, [rule]).of("a.py").rows)


LOOP = """\
import torch
from torch.nn import functional as F
def train(model, loader, optimizer):
    with torch.autocast("cuda"):
        torch.cuda.empty_cache()
    for x in loader:
        loss = model(x.cuda()).sum()
        loss.backward()
        optimizer.step()
def helper(x):
    return x.item()
"""


@pytest.mark.parametrize(
    ("candidates", "found"),
    [
        (calls("torch.cuda.empty_cache"), [3]),  # of a function, the line that it begins on
        (calls(".item"), [10]),
        (calls(".item", ".step"), [3, 10]),
        (calls(".item") | calls(".step"), [3, 10]),
        (calls(".step") & HOT, [3]),
        (calls("torch.cuda.empty_cache") & HOT, []),
        (calls("torch.cuda.empty_cache") & SOMEWHERE_HOT, [3]),
        (calls("torch.cuda.empty_cache") & IN_REGION, [3]),
        (calls(".backward") & IN_REGION, []),
        (calls(".backward") & WITHIN_REGION, [3]),
        ((calls(".backward") | calls(".item")) & EVALUATED, []),
        (calls(".backward") & WITH_HALF, []),
        (nodes("function"), [3, 10]),
        (nodes("import"), [1, 2]),
        (nodes("import") & nodes("call"), []),
        (
            nodes("call")
            & (lambda spot: not spot.arguments)
            & (lambda spot: spot.method == "item"),
            [10],
        ),
        (nodes("context") & (lambda spot: spot.of(spot.number) != frozenset()), [3]),
    ],
)
def test_conditions_hold_where_they_say(candidates: Candidates, found: list[int]) -> None:
    assert rows(candidates, LOOP) == found


@pytest.mark.parametrize("name", ["print", "item", ""])
def test_a_name_has_a_dot(name: str) -> None:
    with pytest.raises(ValueError, match=f"nothing is called '{name}'"):
        calls("torch.zeros", name)


def test_a_call_has_one_list_of_names() -> None:
    with pytest.raises(ValueError, match="one list of names"):
        _ = calls("a.f") & calls("a.g")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = f()\nif (\n    x\n): pass\n", [2]),  # where it is asked for, not where it is made
        ("x = f()\nwhile x: pass\n", [2]),
        ("x = f()\nassert x\n", [2]),
        ("x = f()\ny = (\n    not x)\n", [3]),
        ("x = f()\ny = 1 if x else 2\n", [2]),
        ("x = f()\ny = x and g()\n", [2]),
        ("x = f()\ny = [z for z in y if x]\n", [2]),
        ("x = f()\n", []),
    ],
)
def test_the_truth_of_a_value_is_asked_for(text: str, found: list[int]) -> None:
    def is_f(spot: Spot) -> bool:
        return spot.node.op == ops.CALL

    assert rows(nodes("test") & is_f, text) == found


@pytest.mark.parametrize(
    ("written", "argument"),
    [("f(1, a=2)", 2), ("f(1, 2)", 2), ("f(1)", None), ("f(*x, 2)", None), ("f(1, 2, *x)", 2)],
)
def test_an_argument_is_found_by_name_or_place(written: str, argument: int | None) -> None:
    found: list[object] = []

    def ask(spot: Spot) -> bool:
        number = spot.given("a", 1)
        found.append(spot.graph.nodes[number].data if number >= 0 else None)
        return True

    assert rows(nodes("call") & ask, f"{written}\n") == [1]
    assert found == [argument]


def test_what_is_called_has_names() -> None:
    text = (
        "import torch\nconv = torch.nn.Conv2d(1, 1, 1)\nx = conv(\n    torch.zeros(1))\nx.item()\n"
    )
    found: list[tuple[str, ...]] = []

    def ask(spot: Spot) -> bool:
        found.append(tuple(spot.names))
        return True

    rows(nodes("call") & ask, text)
    assert found == [
        (".Conv2d", "torch.nn.Conv2d"),
        (".zeros", "torch.zeros"),
        ("torch.nn.Conv2d",),
        (".item", ".item", "Tensor.item"),
    ]


@pytest.mark.parametrize(
    ("where", "test"),
    [
        ("scaler: torch.cuda.amp.GradScaler = make()", lambda spot: spot.node.op == ops.ANNOTATION),
        ("@torch.no_grad()\ndef f(): pass", lambda spot: spot.node.op == ops.CALL),
    ],
)
def test_annotations_and_decorators_are_spots(where: str, test: Callable[[Spot], bool]) -> None:
    assert rows(nodes("annotation", "context") & test, f"import torch\n{where}\n") != []


def test_a_value_is_a_symbol_if_it_is_nothing_else() -> None:
    names: list[str | None] = []

    def ask(spot: Spot) -> bool:
        names.append(symbol(spot.value))
        return True

    rows(nodes("attr") & ask, "import torch\ntorch.zeros\n")
    assert names == ["torch.zeros"]


def test_an_operation_that_is_none_is_refused() -> None:
    """A misspelt one would find no candidate, and the rule would be silent."""
    with pytest.raises(ValueError, match="no operation is called 'calls'"):
        nodes("call", "calls")


def test_a_condition_that_raises_is_told_and_hides_no_finding() -> None:
    def broken(_: Spot) -> bool:
        raise ZeroDivisionError("division by zero")

    made_up = Unrun("made up", "nowhere")
    rule = Rule("AMP900", "Doc.", Group.PRECISION, "0.1", made_up, calls(".item") & broken)
    files = Files({"a.py": File("a.py", LOOP)})
    found = Search(files, Program(files).facts, [rule]).of("a.py")
    assert found.rows == {10: {"AMP900"}}
    assert found.faults == {"AMP900": "line 11: ZeroDivisionError: division by zero"}


@pytest.mark.parametrize("length", [3, 200])
def test_a_source_that_is_too_far_to_be_asked_may_be_the_one(length: int) -> None:
    """A candidate may be one too many, and never one too few."""
    sums = "\n".join(f"    x{n + 1} = x{n} + x{n}" for n in range(length))
    text = f"import torch\ndef f():\n    x0 = torch.arange(9)\n{sums}\n    return x{length}.sin()\n"

    def from_arange(spot: Spot) -> bool:
        def is_arange(number: int) -> bool:
            return spot.graph.nodes[number].op == ops.CALL and (
                spot.name_of(number) == "torch.arange"
            )

        return spot.may_come_from(spot.number, is_arange)

    assert rows(calls(".sin") & from_arange, text) == [2]
