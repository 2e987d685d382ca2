"""A loop of one's own with accelerate."""

import tempfile

import torch
from accelerate import Accelerator, skip_first_batches
from torch.utils.data import DataLoader, TensorDataset

PRECISION = ("accelerate.accelerator.Accelerator", "mixed_precision", "bf16")
COUNTS = {}
LEFT_OUT = {"log": "whether it reads depends on the tracker, and none of those that do is installed"}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x)


def main():
    accelerator = Accelerator(mixed_precision="bf16", cpu=True, gradient_accumulation_steps=2)
    accelerator.init_trackers("run")
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    data = TensorDataset(torch.randn(12, 4), torch.randint(0, 3, (12,)))
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    loader = accelerator.prepare_data_loader(DataLoader(data, batch_size=2))
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_value_(model.parameters(), 1.0)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        accelerator.print(loss)
    model.eval()
    for x, y in skip_first_batches(loader, 1):
        with torch.no_grad():
            predicted = model(x).argmax(1)
        accelerator.gather_for_metrics((predicted, y))
        accelerator.gather(predicted)
        accelerator.reduce(predicted)
        accelerator.pad_across_processes(predicted)
    with accelerator.autocast(), torch.no_grad():
        accelerator.unwrap_model(model).layer(x)
    with accelerator.no_sync(model):
        loss = model(x).sum()
    accelerator.wait_for_everyone()
    accelerator.set_trigger()
    accelerator.check_trigger()
    accelerator.save_model(model, tempfile.mkdtemp())
    accelerator.end_training()
