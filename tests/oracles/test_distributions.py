"""What is known of torch's distributions, asked of the installed torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import distributions as of_torch  # noqa: E402

from amplint.knowledge import distributions as known  # noqa: E402

ABSTRACT = {"Distribution", "ExponentialFamily"}
NEWER = {"GeneralizedPareto"}  # since torch 2.8


def normal() -> Any:
    return of_torch.Normal(torch.zeros(3), torch.ones(3))


# How each is made of tensors.
MADE: dict[str, Callable[[], Any]] = {
    "Bernoulli": lambda: of_torch.Bernoulli(torch.full((3,), 0.5)),
    "Categorical": lambda: of_torch.Categorical(torch.ones(3)),
    "Dirichlet": lambda: of_torch.Dirichlet(torch.ones(3)),
    "Gamma": lambda: of_torch.Gamma(torch.ones(3), torch.ones(3)),
    "Independent": lambda: of_torch.Independent(normal(), 1),
    "MixtureSameFamily": lambda: of_torch.MixtureSameFamily(
        of_torch.Categorical(torch.ones(3)), normal()
    ),
    "MultivariateNormal": lambda: of_torch.MultivariateNormal(torch.zeros(3), torch.eye(3)),
    "Normal": normal,
    "OneHotCategorical": lambda: of_torch.OneHotCategorical(torch.ones(3)),
    "TransformedDistribution": lambda: of_torch.TransformedDistribution(
        normal(), [of_torch.TanhTransform()]
    ),
    "Uniform": lambda: of_torch.Uniform(torch.zeros(3), torch.ones(3)),
}


def test_no_distribution_is_forgotten() -> None:
    there = {
        name
        for name in of_torch.__all__
        if inspect.isclass(getattr(of_torch, name))
        and issubclass(getattr(of_torch, name), of_torch.Distribution)
    }
    assert there - ABSTRACT - NEWER == known.DISTRIBUTIONS


@pytest.mark.parametrize("name", sorted(MADE))
def test_what_a_distribution_gives_is_a_tensor(name: str) -> None:
    made = MADE[name]()
    given = 0
    for method in sorted(known.WITH_GRAPH | known.DRAWN):
        value = torch.full((3,), 0.5) if method in ("log_prob", "cdf", "icdf") else None
        ask = getattr(made, method, None)
        if ask is None or method == "sample_n":
            continue
        try:
            result = ask(value) if value is not None else ask()
        except (NotImplementedError, ValueError):
            continue  # this one has none
        assert isinstance(result, torch.Tensor), method
        given += 1
        if method in known.DRAWN:
            assert not result.requires_grad
            assert (result.dtype == torch.int64) == (name in known.OF_INDICES)
    assert given
    for attribute in known.ATTRIBUTES:
        try:
            value = getattr(made, attribute)
        except (AttributeError, NotImplementedError):
            continue
        assert isinstance(value, torch.Tensor), attribute


def test_a_divergence_is_a_tensor() -> None:
    assert isinstance(of_torch.kl_divergence(normal(), normal()), torch.Tensor)
    for name in known.DIVERGENCES:
        module, _, function = name.removeprefix("torch.distributions.").rpartition(".")
        owner = getattr(of_torch, module) if module else of_torch
        assert callable(getattr(owner, function))


def test_what_numbers_make_is_on_the_cpu() -> None:
    assert of_torch.Normal(0.0, 1.0).sample().device.type == "cpu"
    assert of_torch.Normal(0.0, 1.0).loc.device.type == "cpu"
