"""A LightningModule, a data module and callbacks: fit, test and predict."""

import tempfile

import lightning
import torch
from lightning.pytorch.callbacks import BaseFinetuning, BasePredictionWriter
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCHES, ACCUMULATED, VALIDATED, TESTED, PREDICTED, CHECKED = 2, 6, 3, 5, 7, 9, 1
TRAINED = EPOCHS * BATCHES
EVALUATED = (EPOCHS * VALIDATED + CHECKED, TESTED, PREDICTED)
PRECISION = ("lightning.pytorch.trainer.trainer.Trainer", "precision", "bf16-mixed")
COUNTS = {
    "micro-batch": [TRAINED, TRAINED + sum(EVALUATED)],  # what moves batches moves all of them
    "step": [TRAINED // ACCUMULATED],
    "evaluation-batch": EVALUATED,
    "epoch": [EPOCHS, EPOCHS + 1, 1],  # with the check before; of a test, and of a prediction
    "once": [1, 3],  # for fit, test and predict
}
OLD = "of releases before 2.0"
LEFT_OUT = {
    "configure_sharded_model": "an old name of configure_model, which may not stand beside it",
    "on_load_checkpoint": "no checkpoint is loaded",
    "test_epoch_end": OLD,
    "test_step_end": OLD,
    "training_epoch_end": OLD,
    "training_step_end": OLD,
    "validation_epoch_end": OLD,
    "validation_step_end": OLD,
}


def loader(batches):
    data = TensorDataset(torch.randn(2 * batches, 4), torch.randint(0, 3, (2 * batches,)))
    return DataLoader(data, batch_size=2)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x)


class Data(lightning.LightningDataModule):
    def prepare_data(self):
        torch.manual_seed(0)

    def train_dataloader(self):
        return loader(BATCHES)

    def val_dataloader(self):
        return loader(VALIDATED)

    def test_dataloader(self):
        return loader(TESTED)

    def predict_dataloader(self):
        return loader(PREDICTED)


class Classifier(lightning.LightningModule):
    def configure_model(self):
        self.net = Net()

    def prepare_data(self):
        torch.manual_seed(0)

    def on_validation_model_train(self):
        self.train()

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        accuracy = (self.net(x).argmax(1) == y).float().mean()
        self.log_dict({"accuracy": accuracy})
        return accuracy

    def test_step(self, batch, batch_idx):
        x, y = batch
        accuracy = (self.net(x).argmax(1) == y).float().mean()
        self.log("accuracy", accuracy)
        return accuracy

    def predict_step(self, batch, batch_idx):
        return self.net(batch[0]).argmax(1)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


class Watch(lightning.Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.last = outputs["loss"]

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        self.norm = torch.stack([p.grad.norm() for p in pl_module.parameters()]).norm()


class Writer(BasePredictionWriter):
    def write_on_batch_end(
        self, trainer, pl_module, prediction, batch_indices, batch, batch_idx, dataloader_idx
    ):
        self.last = prediction

    def write_on_epoch_end(self, trainer, pl_module, predictions, batch_indices):
        self.all = predictions


class Frozen(BaseFinetuning):
    def freeze_before_training(self, pl_module):
        self.frozen = True

    def finetune_function(self, pl_module, epoch, optimizer):
        self.epoch = epoch


def main():
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accumulate_grad_batches=ACCUMULATED,
        accelerator="cpu",
        precision="bf16-mixed",
        gradient_clip_val=1.0,
        callbacks=[Watch(), Writer(write_interval="batch_and_epoch"), Frozen()],
        default_root_dir=tempfile.mkdtemp(),
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=CHECKED,
    )
    model, data = Classifier(), Data()
    trainer.fit(model, data)
    trainer.test(model, data)
    trainer.predict(model, data)
