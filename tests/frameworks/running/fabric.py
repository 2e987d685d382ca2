"""A loop of one's own with Fabric."""

import torch
from lightning.fabric import Fabric
from torch.utils.data import DataLoader, TensorDataset

PRECISION = ("lightning.fabric.fabric.Fabric", "precision", "bf16-mixed")
COUNTS = {}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x)


def main():
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    fabric.launch()
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = fabric.setup(model, optimizer)
    data = TensorDataset(torch.randn(6, 4), torch.randint(0, 3, (6,)))
    loader = fabric.setup_dataloaders(DataLoader(data, batch_size=2))
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        optimizer.zero_grad()
        fabric.log("loss", loss)
        fabric.log_dict({"loss": loss})
        fabric.print(loss)
    fabric.all_gather(loss.detach())
    fabric.to_device(x)
    fabric.barrier()
    with fabric.autocast(), torch.no_grad():
        model.module.layer(x)
