"""Distributions of torch, which give tensors where their parameters lie.

Derived from torch.distributions of torch 2.13.0, and held against the installed torch by
`tests/oracles/test_distributions.py`.
"""

from __future__ import annotations

from amplint.knowledge.names import words_of

PACKAGE = "torch.distributions."
DISTRIBUTIONS = words_of(
    """
    Bernoulli Beta Binomial Categorical Cauchy Chi2 ContinuousBernoulli Dirichlet Exponential
    FisherSnedecor Gamma Geometric Gumbel HalfCauchy HalfNormal Independent InverseGamma Kumaraswamy
    LKJCholesky Laplace LogNormal LogisticNormal LowRankMultivariateNormal MixtureSameFamily
    Multinomial MultivariateNormal NegativeBinomial Normal OneHotCategorical
    OneHotCategoricalStraightThrough Pareto Poisson RelaxedBernoulli RelaxedOneHotCategorical
    StudentT TransformedDistribution Uniform VonMises Weibull Wishart
    """
)
# Methods that give a tensor; those of the second kind draw without a graph.
WITH_GRAPH = words_of("cdf entropy icdf log_prob perplexity rsample")
DRAWN = words_of("sample sample_n")
# Attributes that are tensors: what all have, and the parameters by which they are made.
ATTRIBUTES = words_of(
    """
    concentration concentration0 concentration1 covariance_matrix df loc logits mean mode
    precision_matrix probs rate scale scale_tril stddev variance
    """
)
# They count, whatever the dtype of their parameters.
OF_INDICES = words_of("Categorical")
DIVERGENCES = frozenset(
    {"torch.distributions.kl_divergence", "torch.distributions.kl.kl_divergence"}
)


def distribution(name: str) -> str | None:
    """The class that a dotted name means. Ex) torch.distributions.normal.Normal -> Normal"""
    last = name.rpartition(".")[2]
    return last if name.startswith(PACKAGE) and last in DISTRIBUTIONS else None
