"""The same without them, and what looks like them."""

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback


class Regressor(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.binary_cross_entropy_with_logits(self.layer(x), y)
        self.log("loss", loss)
        if batch_idx == 0 or self.global_step > 100:
            self.log("first", loss)
        return loss

    def on_before_batch_transfer(self, batch, dataloader_idx):
        # It is on the host yet.
        if batch["mask"].any():
            batch["count"] = batch["mask"].sum().item()
        return batch

    def on_train_epoch_end(self):
        print(self.layer.weight.norm().item())

    def configure_optimizers(self):
        print(self.layer.weight.sum().item())
        return torch.optim.AdamW(self.parameters())


class Now(Callback):
    def on_train_epoch_end(self, trainer, pl_module):
        print(trainer.callback_metrics["loss"].item())

    def on_fit_start(self, trainer, pl_module):
        for parameter in pl_module.parameters():
            print(parameter.norm().item())

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if batch_idx % trainer.log_every_n_steps == 0:
            print(outputs["loss"].item())


class Data(L.LightningDataModule):
    def setup(self, stage):
        self.mean = torch.ones(8).mean().item()

    def train_dataloader(self):
        return torch.utils.data.DataLoader([], pin_memory=True)


class OwnLoop(Callback):
    """With a method that nobody calls."""

    def on_every_batch(self, batch):
        return batch["x"].sum().item()


def fit(trainer):
    # It casts the parameters, and opens no region.
    L.Trainer(precision="bf16-true").fit(Regressor(), Data())


class ByHand(L.LightningModule):
    """Its own optimization, in bfloat16, which is not scaled."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.layer = torch.nn.Linear(8, 8)

    def training_step(self, batch, batch_idx):
        x, y = batch
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(F.mse_loss(self.layer(x), y))
        torch.nn.utils.clip_grad_norm_(self.parameters(), 1.0)
        self.clip_gradients(optimizer, gradient_clip_val=0.5)
        optimizer.step()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Unscaled(ByHand):
    """In float16: what the trainer keeps unscales them first."""

    def training_step(self, batch, batch_idx):
        x, y = batch
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(F.mse_loss(self.layer(x), y))
        self.trainer.strategy.precision_plugin.scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(self.parameters(), 1.0)
        self.clip_gradients(optimizer, gradient_clip_val=0.5)
        optimizer.step()


class ByHook(ByHand):
    """In float16: the trainer unscales before it calls the hook."""

    def training_step(self, batch, batch_idx):
        x, y = batch
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(F.mse_loss(self.layer(x), y))
        optimizer.step()

    def on_before_optimizer_step(self, optimizer):
        self.clip_gradients(optimizer, gradient_clip_val=0.5)


class OwnBackward(ByHand):
    """In float16: a backward pass of its own, which need not scale."""

    def manual_backward(self, loss):
        loss.backward()


def fit_by_hand(dataset):
    L.Trainer(precision="bf16-mixed").fit(ByHand(), Data())
    L.Trainer(precision="16-mixed").fit(Unscaled(), Data())
    L.Trainer(precision="16-mixed").fit(ByHook(), Data())
    L.Trainer(precision="16-mixed").fit(OwnBackward(), Data())
