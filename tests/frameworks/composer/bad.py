"""A model and a callback of composer that wait for the device in every batch."""

import torch
from composer import Callback, Trainer
from composer.models import ComposerModel


class Classifier(ComposerModel):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, batch):
        inputs, _ = batch
        if torch.isnan(inputs).any():  # expect: AMP103
            inputs = torch.nan_to_num(inputs)
        return self.network(inputs)

    def loss(self, outputs, batch):
        _, targets = batch
        loss = torch.nn.functional.cross_entropy(outputs, targets)
        self.history.append(loss.item())  # expect: AMP101
        weights = torch.tensor([0.1, 0.9]).to(outputs.device)  # expect: AMP502
        return loss * weights.sum()


class Watch(Callback):
    def after_backward(self, state, logger):
        logger.log_metrics({"loss": state.loss.item()})  # miss: AMP101


def train(model, loader):
    Trainer(model=model, train_dataloader=loader, precision="amp_bf16", callbacks=[Watch()]).fit()
