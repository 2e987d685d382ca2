"""Modules, callbacks and a loop of Lightning, with mistakes."""

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)
        self.history = []

    def training_step(self, batch, batch_idx):
        x, y = batch
        probabilities = self.layer(x).sigmoid()
        loss = F.binary_cross_entropy(probabilities, y)  # expect: AMP304
        self.log("loss", loss.item())  # expect: AMP614
        if (y == 0).all():  # expect: AMP103
            return None
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.history.append(outputs["loss"].item())  # expect: AMP101

    def on_before_optimizer_step(self, optimizer):
        for parameter in self.parameters():
            self.history.append(parameter.grad.norm().item())  # expect: AMP101

    def on_after_batch_transfer(self, batch, dataloader_idx):
        x, y = batch
        scale = torch.ones(8).to(self.device)  # expect: AMP501
        return x * scale, y


class Watching(Callback):
    def on_before_backward(self, trainer, pl_module, loss):
        self.losses.append(loss.item())  # expect: AMP101

    def on_train_batch_start(self, trainer, pl_module, data, index):
        self.seen += int(data["mask"].sum())  # expect: AMP101

    def on_before_zero_grad(self, trainer, pl_module, optimizer):
        for parameter in pl_module.parameters():
            self.norms.append(parameter.grad.norm().item())  # expect: AMP101


class Moving(L.LightningDataModule):
    def on_after_batch_transfer(self, batch, dataloader_idx):
        if batch["mask"].any():  # expect: AMP103
            batch["x"] = batch["x"] * batch["mask"]
        return batch


def fit(dataset):
    trainer = L.Trainer(precision="16-mixed", max_epochs=3)
    trainer.fit(Classifier(), Moving())


def loop(model, loader):
    fabric = L.Fabric(precision="bf16-mixed")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = fabric.setup(model, optimizer)
    loader = fabric.setup_dataloaders(loader)
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        fabric.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item())  # expect: AMP101
        fabric.log("loss", loss)  # expect: AMP101


class ByHand(L.LightningModule):
    """Its own optimization: the gradients are scaled until the step."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.layer = torch.nn.Linear(8, 8)

    def training_step(self, batch, batch_idx):
        x, y = batch
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(F.mse_loss(self.layer(x), y))
        torch.nn.utils.clip_grad_norm_(self.parameters(), 1.0)  # expect: AMP404
        self.clip_gradients(optimizer, gradient_clip_val=0.5)  # expect: AMP404
        optimizer.step()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit_by_hand(dataset):
    L.Trainer(precision="16-mixed").fit(ByHand(), Moving())
