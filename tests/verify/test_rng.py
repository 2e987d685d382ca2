"""Normalised random numbers: what must agree agrees bit for bit, and what differs still differs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from amplint_verify.runs import rng  # noqa: E402

Draw = Callable[[], "torch.Tensor"]


def low_dropout() -> torch.Tensor:
    return torch.nn.functional.dropout(torch.ones(64, dtype=torch.bfloat16))


def drawn(*programs: Draw) -> list[torch.Tensor]:
    """What the programs give in turn, in one normalised run."""
    with rng.normalised():
        return [program() for program in programs]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            lambda: torch.randn(8),
            lambda: torch.randn(8, generator=torch.Generator().manual_seed(7)),
            id="another generator",
        ),
        pytest.param(
            lambda: torch.empty(8).normal_(), lambda: torch.zeros(8).normal_(), id="in place"
        ),
        pytest.param(
            lambda: torch.randn(8).half(),
            lambda: torch.randn(8, dtype=torch.half),
            id="rounded afterwards",
        ),
        pytest.param(
            lambda: torch.empty(8).uniform_().bfloat16(),
            lambda: torch.empty(8, dtype=torch.bfloat16).uniform_(),
            id="rounded afterwards, in place",
        ),
        pytest.param(low_dropout, low_dropout, id="dropout of bfloat16"),
        pytest.param(
            lambda: torch.randperm(9), lambda: torch.randperm(9, device="cpu"), id="integers"
        ),
    ],
)
def test_same_draw(one: Draw, other: Draw) -> None:
    torch.manual_seed(0)
    (first,) = drawn(one)
    torch.manual_seed(1)
    (second,) = drawn(other)
    assert first.dtype == second.dtype
    assert torch.equal(first, second)


def test_float64_is_drawn_as_float32() -> None:
    """So that a run in float64 is a reference for one that is not."""
    default = torch.get_default_dtype()
    (single,) = drawn(lambda: torch.randn(8))
    (asked,) = drawn(lambda: torch.randn(8, dtype=torch.float64))
    torch.set_default_dtype(torch.float64)
    try:
        (by_default,) = drawn(lambda: torch.randn(8))
        (integers,) = drawn(lambda: torch.randint(0, 9, (8,)))
    finally:
        torch.set_default_dtype(default)
    assert asked.dtype == by_default.dtype == torch.float64
    assert torch.equal(single.double(), asked)
    assert torch.equal(single.double(), by_default)
    assert integers.dtype == torch.int64


def test_order_of_two_operations_does_not_matter() -> None:
    normal, uniform = drawn(lambda: torch.randn(5), lambda: torch.rand(5))
    other_uniform, other_normal = drawn(lambda: torch.rand(5), lambda: torch.randn(5))
    assert torch.equal(normal, other_normal)
    assert torch.equal(uniform, other_uniform)


def test_another_distribution_differs() -> None:
    normal, uniform = drawn(lambda: torch.randn(5), lambda: torch.rand(5))
    assert not torch.equal(normal, uniform)


def test_draws_of_one_run_differ() -> None:
    first, second = drawn(lambda: torch.rand(5), lambda: torch.rand(5))
    assert not torch.equal(first, second)


def test_distribution_is_kept() -> None:
    (many,) = drawn(lambda: torch.randn(20000, dtype=torch.half))
    assert many.dtype == torch.half
    assert abs(many.double().mean().item()) < 0.03
    assert abs(many.double().std().item() - 1) < 0.03


def test_generators_are_left_alone() -> None:
    generator = torch.Generator().manual_seed(3)
    states = torch.get_rng_state(), generator.get_state()
    drawn(lambda: torch.rand(5), lambda: torch.rand(5, generator=generator))
    assert torch.equal(states[0], torch.get_rng_state())
    assert torch.equal(states[1], generator.get_state())


def test_what_is_written_is_what_was_given() -> None:
    """An operation in place writes into its tensor, and gives that very tensor back."""
    target = torch.zeros(2, 4, dtype=torch.half).t()
    (result,) = drawn(target.normal_)
    assert result is target
    assert target.stride() == (1, 4)
    assert target.count_nonzero() == 8


def test_out_argument() -> None:
    weights, target = torch.ones(9), torch.zeros(4, dtype=torch.int64)
    (result,) = drawn(lambda: torch.multinomial(weights, 4, out=target))
    assert result is target
    assert torch.equal(target, *drawn(lambda: torch.multinomial(weights, 4)))


def test_several_results() -> None:
    """Ex) fused dropout gives what is left, in the dtype that went in, and the mask."""
    with rng.normalised():
        left, mask = torch.native_dropout(torch.ones(64, dtype=torch.half), 0.5, True)
    assert (left.dtype, mask.dtype) == (torch.half, torch.bool)
    assert torch.equal(left, mask * torch.tensor(2, dtype=torch.half))


def test_gradients_flow_through_dropout() -> None:
    x = torch.ones(64, requires_grad=True)
    with rng.normalised():
        torch.nn.functional.dropout(x).sum().backward()
    assert x.grad is not None
    assert set(x.grad.tolist()) == {0.0, 2.0}
