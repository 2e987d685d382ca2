"""The forms in which a tensor comes to the host, and what `torch.compile` does to each.

PYTEST_DONT_REWRITE: `torch.compile` has to see the `assert` of a program as it is written.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from amplint.knowledge.captures import COMPILER, LEAVERS, LEFT_OUT, SCALARS, SHAPES, TORCH

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith(TORCH), reason="another torch was asked"
)
Tensor = Any
Program = Callable[[Tensor], Any]


def truth(t: Tensor) -> Tensor:
    if t.sum() > 0:
        return t * 2
    return t * 3


def either(t: Tensor) -> Tensor:
    return t * (2 if t.sum() > 0 else 3)


def asserted(t: Tensor) -> Tensor:
    assert t.sum() > 0
    return t * 2


TESTS: list[Program] = [truth, either, lambda t: t * t.tolist()[0]]
BY_OPTION: dict[str, list[Program]] = {
    SCALARS: [
        lambda t: t * t.sum().item(),
        lambda t: t * float(t.sum()),
        lambda t: t * int(t.sum()),
    ],
    SHAPES: [
        lambda t: t[t > 0] * 2,
        lambda t: t.nonzero() * 2,
        lambda t: torch.where(t > 0)[0] * 2,
        lambda t: t.unique() * 2,
        lambda t: t.masked_select(t > 0) * 2,
        lambda t: torch.bincount(t.long()) * 2,
        lambda t: t.repeat_interleave(t.long()) * 2,
    ],
}
CAPTURED: list[Program] = [
    asserted,
    lambda t: t.cpu() * 2,
    lambda t: t.to("cpu") * 2,
    lambda t: torch.from_numpy(t.numpy() * 2),
]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def given() -> Tensor:
    return torch.arange(4.0)


def compiled(program: Program, whole: bool = False, **options: bool) -> str:
    """Whether `torch.compile` captures a program in one graph, or breaks the graph, or raises."""
    import torch._dynamo as dynamo  # noqa: PLC0415

    graphs: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    dynamo.reset()
    dynamo.utils.counters.clear()
    with quiet(), dynamo.config.patch(**options):
        try:
            torch.compile(program, backend=backend, fullgraph=whole)(given())
        except Exception:
            return "raises"
    broken = sum(dynamo.utils.counters["graph_break"].values())
    return "captured" if len(graphs) == 1 and not broken else "breaks"


@pytest.mark.parametrize("program", TESTS)
def test_a_test_and_a_list_break_the_graph_and_raise_in_a_whole_one(program: Program) -> None:
    program(given())
    assert (compiled(program), compiled(program, whole=True)) == ("breaks", "raises")


@pytest.mark.parametrize("option", BY_OPTION)
def test_numbers_and_shapes_are_captured_with_an_option_and_as_a_whole(option: str) -> None:
    for program in BY_OPTION[option]:
        program(given())
        assert compiled(program) == "breaks"
        assert compiled(program, **{option: True}) == "captured"
        assert compiled(program, whole=True) == "captured"


@pytest.mark.parametrize("program", CAPTURED)
def test_copies_and_assertions_are_captured(program: Program) -> None:
    assert compiled(program) == compiled(program, whole=True) == "captured"


def test_a_graph_is_whole_only_where_that_is_asked_for() -> None:
    assert inspect.signature(torch.compile).parameters["fullgraph"].default is False


def test_a_function_that_is_left_out_is_not_looked_into() -> None:
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def read(t: Tensor) -> Any:
        return t.sum().item() if t.sum() > 0 else 0

    # The call breaks the graph; what is read in it breaks nothing more.
    assert compiled(lambda t: t * read(t)) == "breaks"


def test_the_names_are_those_of_torch() -> None:
    places = (torch.compiler, torch._dynamo, torch.library)
    assert all(any(hasattr(place, name) for place in places) for name in LEFT_OUT)
    assert f"torch.{torch.compile.__name__}" == COMPILER
    assert {"torch.compiler.disable", "torch._dynamo.disable"} == LEAVERS
