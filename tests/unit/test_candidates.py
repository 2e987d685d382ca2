"""Candidates: what a condition is made of, and the nodes of a value graph that are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from amplint import (
    EVALUATED,
    HOT,
    IN_REGION,
    SOMEWHERE_HOT,
    UNKNOWN,
    WITH_HALF,
    WITHIN_REGION,
    Candidates,
    Class,
    Finding,
    Function,
    Group,
    Instance,
    Rule,
    Unrun,
    View,
    calls,
    calls_of,
    nodes,
)
from amplint.facts.program import Program
from amplint.ir import ops
from amplint.ir.file_index import File
from amplint.ir.file_set import Files
from amplint.rule.search import CandidateSearch, FileCandidates
from amplint.view.evaluated_node import EvaluatedNode, symbol


def rows(candidates: Candidates, text: str) -> list[int]:
    """The lines of a file with candidates."""
    return sorted({each.row for each in found(candidates, text).nodes})


def found(candidates: Candidates, text: str) -> FileCandidates:
    """The candidates in a file of a rule with one check."""
    rule = Rule("AMP900", "Doc.", Group.PRECISION, "0.1", Unrun("made up", "nowhere"))

    @rule.on(candidates)
    def check(_: View) -> Iterator[Finding]:
        yield from ()

    files = Files({"a.py": File("a.py", text)})
    return CandidateSearch(files, Program(files).facts, [rule]).of("a.py")


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
    ("candidates", "lines"),
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
            & (lambda here: not here.node.arguments)
            & (lambda here: ".item" in here.names),
            [10],
        ),
        (
            nodes("context") & (lambda here: here.state.values[here.number] != frozenset()),
            [3],
        ),
    ],
)
def test_conditions_hold_where_they_say(candidates: Candidates, lines: list[int]) -> None:
    assert rows(candidates, LOOP) == lines


@pytest.mark.parametrize("name", ["print", "item", ""])
def test_a_name_has_a_dot(name: str) -> None:
    with pytest.raises(ValueError, match=f"nothing is called '{name}'"):
        calls("torch.zeros", name)


@pytest.mark.parametrize("other", [calls("a.g"), calls_of(Function)])
def test_a_call_has_one_list_of_names(other: Candidates) -> None:
    with pytest.raises(ValueError, match="one list of names"):
        _ = calls("a.f") & other


OWN = """\
import torch
class Net:
    def __call__(self): return torch.zeros(1)
def f(x): return x
net = Net()
net()
f(1)
torch.zeros(1)
unknown(f)
"""


@pytest.mark.parametrize(
    ("candidates", "lines"),
    [
        (calls_of(Class), [5]),
        (calls_of(Instance), [6]),
        (calls_of(Function), [7]),
        (calls_of(Class, Function), [5, 7]),
        (calls_of(Function) & HOT, []),
        (calls_of(Function) | calls("torch.zeros"), [3, 7, 8]),
    ],
)
def test_a_call_is_of_what_the_project_defines(candidates: Candidates, lines: list[int]) -> None:
    assert rows(candidates, OWN) == lines


@pytest.mark.parametrize(
    ("text", "lines"),
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
def test_the_truth_of_a_value_is_asked_for(text: str, lines: list[int]) -> None:
    def is_f(here: EvaluatedNode) -> bool:
        return here.node.op == ops.CALL

    assert rows(nodes("test") & is_f, text) == lines


def test_what_is_called_has_names() -> None:
    text = (
        "import torch\nconv = torch.nn.Conv2d(1, 1, 1)\nx = conv(\n    torch.zeros(1))\nx.item()\n"
    )
    names: list[tuple[str, ...]] = []

    def ask(here: EvaluatedNode) -> bool:
        names.append(tuple(here.names))
        return True

    rows(nodes("call") & ask, text)
    assert names == [
        (".Conv2d", "torch.nn.Conv2d"),
        (".zeros", "torch.zeros"),
        ("torch.nn.Conv2d",),
        (".item", ".item", "Tensor.item"),
    ]


@pytest.mark.parametrize(
    ("where", "test"),
    [
        (
            "scaler: torch.cuda.amp.GradScaler = make()",
            lambda here: here.node.op == ops.ANNOTATION,
        ),
        (
            "@torch.no_grad()\ndef f(): pass",
            lambda here: here.node.op == ops.CALL,
        ),
    ],
)
def test_annotations_and_decorators_are_nodes_too(
    where: str, test: Callable[[EvaluatedNode], bool]
) -> None:
    assert rows(nodes("annotation", "context") & test, f"import torch\n{where}\n") != []


def test_a_value_is_a_symbol_if_it_is_nothing_else() -> None:
    names: list[str | None] = []

    def ask(here: EvaluatedNode) -> bool:
        names.append(symbol(here.state.values[here.number] or UNKNOWN))
        return True

    rows(nodes("attr") & ask, "import torch\ntorch.zeros\n")
    assert names == ["torch.zeros"]


def test_an_operation_that_is_none_is_refused() -> None:
    """A misspelt one would find no candidate, and the rule would be silent."""
    with pytest.raises(ValueError, match="no operation is called 'calls'"):
        nodes("call", "calls")


def test_a_condition_that_raises_is_told_and_hides_no_finding() -> None:
    def broken(_: EvaluatedNode) -> bool:
        raise ZeroDivisionError("division by zero")

    candidates = found(calls(".item") & broken, LOOP)
    assert [each.row for each in candidates.nodes] == [10]
    assert candidates.faults == {"AMP900": "line 11: ZeroDivisionError: division by zero"}
