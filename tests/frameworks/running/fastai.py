"""Callbacks, a metric and a learner of fastai, in float16 as on a GPU."""

import torch
from fastai.callback.core import Callback
from fastai.callback.fp16 import MixedPrecision
from fastai.callback.hook import HookCallback
from fastai.callback.training import GradientAccumulation
from fastai.data.core import DataLoaders
from fastai.data.load import DataLoader
from fastai.learner import Learner, Metric
from fastai.optimizer import SGD
from fastai.torch_core import Module

EPOCHS, BATCHES, ACCUMULATED, VALIDATED = 2, 6, 2, 5
TRAINED, EVALUATED = EPOCHS * BATCHES, EPOCHS * VALIDATED
ON_CUDA = True
PRECISION = ("fastai.callback.fp16.MixedPrecision", "amp_mode", "fp16")
COUNTS = {
    "micro-batch": [TRAINED, TRAINED + EVALUATED],
    "step": [TRAINED // ACCUMULATED],
    "evaluation-batch": [EVALUATED],
    "epoch": [EPOCHS, 2 * EPOCHS],
    "once": [1],
}
CANCELLED = "nothing is cancelled"
LEFT_OUT = {
    "Own._do_one_batch": "it begins in the region, and ends outside of it",
    "after_cancel_backward": CANCELLED,
    "after_cancel_batch": "for the batches that GradientAccumulation cancels",
    "after_cancel_epoch": CANCELLED,
    "after_cancel_fit": CANCELLED,
    "after_cancel_train": CANCELLED,
    "after_cancel_validate": CANCELLED,
}


class Net(Module):
    def __init__(self):
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x)


class Watch(Callback):
    def after_create(self):
        self.losses = []

    def before_fit(self):
        self.losses.clear()

    def after_fit(self):
        self.largest = max(self.losses, default=0)

    def before_epoch(self):
        self.norm = 0

    def after_epoch(self):
        self.last = self.losses[-1]

    def before_train(self):
        self.seen = 0

    def after_train(self):
        self.seen = 0

    def before_validate(self):
        self.seen = 0

    def after_validate(self):
        self.seen = 0

    def before_batch(self):
        self.seen += 1

    def after_pred(self):
        self.kept = self.pred

    def after_loss(self):
        self.losses.append(self.loss.detach())

    def before_backward(self):
        self.kept = self.loss_grad

    def after_backward(self):
        self.norm = self.model.layer.weight.grad.norm()

    def before_step(self):
        self.rate = self.opt.hypers[-1]["lr"]

    def after_step(self):
        self.norm = 0

    def after_batch(self):
        self.kept = None


class Means(HookCallback):
    def hook(self, m, i, o):
        return o.mean()


class Correct(Metric):
    def reset(self):
        self.correct, self.seen = 0, 0

    def accumulate(self, learn):
        self.correct += (learn.pred.argmax(1) == learn.y).sum()
        self.seen += len(learn.y)

    @property
    def value(self):
        return self.correct / self.seen


class Own(Learner):
    pass


def loader(batches):
    data = [(torch.randn(4), i % 3) for i in range(2 * batches)]
    return DataLoader(data, bs=2, num_workers=0)


def main():
    learner = Own(
        DataLoaders(loader(BATCHES), loader(VALIDATED)),
        Net(),
        loss_func=torch.nn.functional.cross_entropy,
        opt_func=SGD,
        metrics=Correct(),
        cbs=[Watch(), Means(), GradientAccumulation(2 * ACCUMULATED), MixedPrecision("fp16")],
    )
    with learner.no_bar(), learner.no_logging():
        learner.fit(EPOCHS, 0.1)
