"""A metric of one's own, in a loop of one's own."""

import torch
from torchmetrics import Accuracy, MeanMetric, Metric, MetricCollection

EPOCHS, BATCHES = 3, 5
COUNTS = {
    "evaluation-batch": [EPOCHS * BATCHES],
    "epoch": [EPOCHS, EPOCHS + EPOCHS * BATCHES],  # a call of a metric computes, too
}


class Correct(Metric):
    def __init__(self):
        super().__init__()
        self.add_state("correct", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, preds, target):
        self.correct += (preds.argmax(1) == target).sum()

    def compute(self):
        return self.correct.float()


class Called(Correct):
    full_state_update = False

    def update(self, preds, target):
        super().update(preds, target)

    def compute(self):
        return super().compute()


class Largest(MeanMetric):
    def update(self, value):
        super().update(value.max())

    def compute(self):
        return super().compute()


def main():
    known = MetricCollection({"accuracy": Accuracy(task="multiclass", num_classes=3)})
    correct, called, largest = Correct(), Called(), Largest()
    for _ in range(EPOCHS):
        for _ in range(BATCHES):
            preds, target = torch.randn(4, 3, requires_grad=True), torch.randint(0, 3, (4,))
            known.update(preds, target)
            correct.update(preds, target)
            called(preds, target)
            largest.update(preds)
        known.compute()
        known.reset()
        correct.compute()
        correct.reset()
        called.compute()
        called.reset()
        largest.compute()
        largest.reset()
    known.add_metrics({"other": Accuracy(task="multiclass", num_classes=3)})
