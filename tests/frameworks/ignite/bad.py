"""A trainer of ignite that waits for the device in every batch."""

import torch
from ignite.engine import Engine, create_supervised_trainer


def make_trainer(model, optimizer, criterion, device):
    def train_step(engine, batch):
        model.train()
        x, y = batch[0].to(device), batch[1].to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        if torch.isnan(loss):  # expect: AMP103
            return engine.terminate()
        loss.backward()
        optimizer.step()
        return loss.item()  # expect: AMP101

    return Engine(train_step)


def make_mixed_trainer(model, optimizer, criterion):
    return create_supervised_trainer(
        model, optimizer, criterion, device="cuda", amp_mode="amp", scaler=True
    )
