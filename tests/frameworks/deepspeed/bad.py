"""A training loop of deepspeed, with mistakes."""

import deepspeed
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, x):
        with torch.autocast("cuda", torch.float16):
            inside = self.layer(x).sigmoid()
            return F.binary_cross_entropy(inside, torch.ones_like(inside))  # expect: AMP304


def main(args, dataset):
    engine, optimizer, _, _ = deepspeed.initialize(args=args, model=Network())
    losses = []
    for x in DataLoader(dataset, batch_size=8):
        loss = engine(x.to(engine.device))
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())  # expect: AMP101
    return losses
