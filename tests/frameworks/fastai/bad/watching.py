"""Callbacks of fastai that wait for the device in every batch."""

import torch
from fastai.callback.core import Callback
from fastai.learner import Learner
from fastai.vision.all import AMPMode, MixedPrecision


class Watch(Callback):
    order = 60

    def before_fit(self):
        self.losses, self.hits = [], 0

    def after_pred(self):
        if torch.isnan(self.pred).any():  # expect: AMP103
            self.learn.pred = torch.nan_to_num(self.pred)

    def after_loss(self):
        self.losses.append(self.loss.item())  # expect: AMP101

    def before_backward(self):
        print(float(self.learn.loss_grad))  # miss: AMP101

    def after_batch(self):
        self.hits += (self.pred.argmax(-1) == self.y).sum().item()  # expect: AMP101
        weights = torch.tensor([0.1, 0.9]).to(self.x.device)  # expect: AMP502
        self.weighted = (self.learn.pred * weights).sum()


class Fitted(Learner):
    def _do_one_batch(self):
        self.pred = self.model(*self.xb)
        self.loss_grad = self.loss_func(self.pred, *self.yb)
        self.loss = self.loss_grad.clone()
        self.history.append(self.loss.item())  # miss: AMP101
        self._do_grad_opt()


def train(dls, model, loss_func):
    learn = Fitted(dls, model, loss_func, cbs=[Watch(), MixedPrecision(amp_mode=AMPMode.FP16)])
    learn.fit(3, 1e-3)
