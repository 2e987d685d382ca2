"""What captures a graph does to each form in which a tensor comes to the host, in the installed
torch on the CPU.

A CUDA graph cannot be asked here: what waits is prohibited during capture, says
https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints.

PYTEST_DONT_REWRITE: `torch.compile` has to see the `assert` of a program as it is written.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from amplint.knowledge.captures import (
    COUNTING,
    EFFECTS,
    LEAVERS,
    LEFT_OUT,
    MATHS,
    OPTIONS,
    ORDERING,
    READS,
    TEXTS,
    TORCH,
    CaptureEffect,
    Encloses,
    Form,
)

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


def printed(t: Tensor) -> Tensor:
    print(t.sum())
    return t * 2


def in_text(t: Tensor) -> Tensor:
    return t * len(f"{t.sum()}")


def as_text(t: Tensor) -> Tensor:
    return t * len(str(t.sum()))


def counted(t: Tensor) -> Tensor:
    for _ in range(t.long()[1]):
        t = t * 2
    return t


VALUES = [1, 2, 3, 4]
PROGRAMS: dict[Form, list[Program]] = {
    Form.ITEM: [lambda t: t * t.sum().item()],
    Form.NUMBER: [lambda t: t * float(t.sum()), lambda t: t * int(t.sum())],
    Form.COMPLEX: [lambda t: t * complex(t.sum()).real],
    Form.LIST: [lambda t: t * t.tolist()[0]],
    Form.COPY: [lambda t: t.cpu() * 2, lambda t: t.to("cpu") * 2],
    Form.ARRAY: [lambda t: torch.from_numpy(t.numpy() * 2)],
    Form.TRUTH: [truth, either],
    Form.ASSERTED: [asserted],
    Form.COMPARED: [
        lambda t: t * torch.equal(t, t),
        lambda t: t * torch.allclose(t, t),
        lambda t: t * torch.is_nonzero(t.sum()),
    ],
    Form.PRINTED: [printed],
    Form.TEXT: [in_text, as_text],
    Form.COUNT: [counted],
    Form.MATH: [lambda t: t * math.sqrt(t.sum()), lambda t: t * math.isnan(t.sum())],
    Form.SIZE: [lambda t: torch.zeros(t.long()[1]), lambda t: t.expand(t.long()[1], -1) * 2],
    Form.INDEX: [lambda t: t * VALUES[t.long()[1]]],
    Form.ROW: [lambda t: t[t.long().sum() - 5] * 2],
    Form.SHAPE: [
        lambda t: t[t > 0] * 2,
        lambda t: t.nonzero() * 2,
        lambda t: torch.where(t > 0)[0] * 2,
        lambda t: t.unique() * 2,
        lambda t: t.masked_select(t > 0) * 2,
        lambda t: torch.bincount(t.long()) * 2,
        lambda t: t.repeat_interleave(t.long()) * 2,
    ],
    Form.CLASSES: [lambda t: torch.nn.functional.one_hot(t.long()) * 2],
    Form.ELEMENTS: [lambda t: t * any(t), lambda t: t * all(t), lambda t: t * sorted(t)[0]],
}
EACH = [(form, program) for form, programs in PROGRAMS.items() for program in programs]


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


def compiled(program: Program, whole: bool = False, **options: bool) -> CaptureEffect:
    """What `torch.compile` does to a program: it is captured in one graph, or breaks, or raises."""
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
            return CaptureEffect.RAISES
    broken = sum(dynamo.utils.counters["graph_break"].values())
    return CaptureEffect.CAPTURED if len(graphs) == 1 and not broken else CaptureEffect.BREAKS


def exported(program: Program, strict: bool) -> CaptureEffect:
    class Module(torch.nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, t: Tensor) -> Any:
            return program(t)

    with quiet():
        try:
            torch.export.export(Module(), (given(),), strict=strict)
        except Exception:
            return CaptureEffect.RAISES
    return CaptureEffect.CAPTURED


ASKED: dict[Encloses, Callable[[Program], CaptureEffect]] = {
    Encloses.COMPILE: compiled,
    Encloses.WHOLE: lambda program: compiled(program, whole=True),
    Encloses.EXPORT: lambda program: exported(program, strict=False),
    Encloses.STRICT_EXPORT: lambda program: exported(program, strict=True),
}


@pytest.mark.parametrize("encloses", ASKED, ids=lambda each: each.name)
def test_each_form_does_what_the_table_says(encloses: Encloses) -> None:
    found = [(form, ASKED[encloses](program)) for form, program in EACH]
    assert found == [(form, EFFECTS[encloses][form]) for form, _ in EACH]


def test_each_program_runs_as_it_is() -> None:
    for _, program in EACH:
        with quiet():
            program(given())


def test_the_table_is_whole() -> None:
    assert PROGRAMS.keys() == set(Form)
    assert EFFECTS.keys() == set(Encloses)
    assert all(effects.keys() == set(Form) for effects in EFFECTS.values())


def test_what_may_be_whole_is_refused_by_both() -> None:
    for form, effect in EFFECTS[Encloses.PERHAPS_WHOLE].items():
        both = {EFFECTS[Encloses.COMPILE][form], EFFECTS[Encloses.WHOLE][form]}
        assert (effect is CaptureEffect.CAPTURED) is (CaptureEffect.CAPTURED in both)


@pytest.mark.parametrize("option", OPTIONS)
def test_options_have_more_captured(option: str) -> None:
    for form in OPTIONS[option]:
        for program in PROGRAMS[form]:
            assert compiled(program, **{option: True}) is CaptureEffect.CAPTURED


def test_an_export_is_not_strict_unless_it_is_asked_to_be() -> None:
    import inspect  # noqa: PLC0415

    assert inspect.signature(torch.export.export).parameters["strict"].default is False
    assert inspect.signature(torch.compile).parameters["fullgraph"].default is False


def test_a_function_that_is_left_out_is_not_looked_into() -> None:
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def read(t: Tensor) -> Any:
        return t.sum().item() if t.sum() > 0 else 0

    # The call breaks the graph; what is read in it breaks nothing more.
    assert compiled(lambda t: t * read(t)) is CaptureEffect.BREAKS


def test_the_names_are_those_of_torch() -> None:
    places = (torch.compiler, torch._dynamo, torch.library)
    assert all(any(hasattr(place, name) for place in places) for name in LEFT_OUT)
    assert {"torch.compiler.disable", "torch._dynamo.disable"} == LEAVERS
    assert all(hasattr(math, name.partition(".")[2]) for name in MATHS)
    methods = {name for name in READS if "." not in name}
    assert all(hasattr(torch.Tensor, name) for name in methods)
    import builtins  # noqa: PLC0415

    named = COUNTING | ORDERING | TEXTS
    assert all(hasattr(builtins, name.partition(".")[2]) for name in named)
