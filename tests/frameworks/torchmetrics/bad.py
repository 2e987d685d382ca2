"""A loop that asks metrics for their value in each step."""

import torch
from torchmetrics import MeanMetric, Metric


class Exact(Metric):
    def __init__(self):
        super().__init__()
        self.add_state("hits", default=torch.tensor(0), dist_reduce_fx="sum")

    def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
        self.hits += (preds == target).sum()

    def compute(self):
        return self.hits


def train(model, loader, optimizer):
    mean = MeanMetric().cuda()
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean.update(loss.detach())
        print(mean.compute().item())  # expect: AMP101
