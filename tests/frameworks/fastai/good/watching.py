"""What callbacks of fastai may do: once in an epoch, now and then, and with what is on the host."""

from fastai.callback.core import Callback
from fastai.callback.hook import HookCallback
from fastai.learner import Metric


class Watch(Callback):
    def before_epoch(self):
        self.total = 0.0

    def after_batch(self):
        if not self.training:
            return
        self.total = self.total + self.loss.detach()
        if self.train_iter % 100 == 0:
            print(self.loss.item())
        if self.iter == self.n_iter - 1:
            print(self.epoch / self.n_epoch)

    def after_epoch(self):
        print(self.total.item(), self.lr)


class Shapes(HookCallback):
    def hook(self, m, i, o):
        return o.mean().item(), o.shape  # HookCallback has brought it to the host


class Largest(Metric):
    def reset(self):
        self.largest = None

    def accumulate(self, learn):
        largest = learn.pred.detach().max()
        self.largest = largest if self.largest is None else self.largest.maximum(largest)

    @property
    def value(self):
        return self.largest.item()


class Scheduler:
    """No Callback: nobody says when its methods run."""

    def after_batch(self):
        self.losses.append(self.loss.item())
