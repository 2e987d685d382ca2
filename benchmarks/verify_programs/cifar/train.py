"""A residual network on images of 32 by 32 pixels, after the usual CIFAR-10 recipe."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, inside, outside, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.stride = stride
        self.outside = outside

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        missing = self.outside - shortcut.size(1)
        if missing:
            n, _, h, w = shortcut.shape
            shortcut = torch.cat([shortcut, torch.zeros(n, missing, h, w).to(x.device)], dim=1)
        return F.relu(out + shortcut)


class ResNet(nn.Module):
    def __init__(self, width=8, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        self.layers = nn.Sequential(
            Block(width, width), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2)
        )
        self.head = nn.Linear(4 * width, classes)

    def forward(self, x):
        out = F.relu(self.bn(self.stem(x)))
        out = self.layers(out)
        return self.head(out.mean(dim=(2, 3)))


def images(count=32):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, 3, 32, 32, generator=generator)
    y = torch.randint(0, 10, (count,), generator=generator)
    return TensorDataset(x, y)


def train_epoch(model, loader, optimizer, scaler, device):
    model.train()
    running_loss = 0.0
    correct = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        with autocast():
            out = model(x)
            loss = F.cross_entropy(out, y)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        running_loss += loss.item()
        correct += (out.argmax(1) == y).sum().item()
    return running_loss / len(loader), correct


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    total = 0.0
    for x, y in loader:
        with autocast():
            total += F.cross_entropy(model(x.to(device)), y.to(device)).item()
    return total / len(loader)


def main(epochs=1, batch_size=16):
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = ResNet().to(device)
    loader = DataLoader(images(2 * batch_size), batch_size=batch_size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    scaler = GradScaler()
    history = []
    for epoch in range(epochs):
        loss, correct = train_epoch(model, loader, optimizer, scaler, device)
        history.append((loss, correct, evaluate(model, loader, device)))
        print(epoch, loss, correct)
    return history


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    main(parser.parse_args().epochs)
