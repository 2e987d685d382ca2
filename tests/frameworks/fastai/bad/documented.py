"""The documented style: all names come by one star."""

from fastai.vision.all import *


class Norms(Callback):
    order = MixedPrecision.order + 1

    def after_backward(self):
        for p in self.model.parameters():
            self.norms.append(p.grad.norm().item())  # expect: AMP101

    def after_pred(self):
        self.learn.extra = F.binary_cross_entropy(self.pred.sigmoid(), self.y)  # expect: AMP304
        if (self.y == 0).any():  # expect: AMP103
            self.learn.pred = torch.nan_to_num(self.pred)

    def after_step(self):
        weights = tensor([0.1, 0.9]).to(self.x.device)
        self.weights = torch.zeros(8).to(self.x.device) + weights  # expect: AMP501


class Head(Module):
    def __init__(self, features):
        self.layer = nn.Linear(features, 1)

    def forward(self, x):
        x = self.layer(x)
        return x / (x.abs() + 1e-8)  # expect: AMP802


def train(dls):
    Learner(dls, Head(8), loss_func=F.mse_loss, cbs=[Norms(), MixedPrecision("fp16")]).fit(1)
