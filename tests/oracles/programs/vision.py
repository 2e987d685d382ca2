"""Train a classifier: a trainer class with meters, callbacks, options, and an evaluation."""

import argparse
import functools
import logging
import os
import time
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from itertools import islice
from typing import Callable, Dict, List, NamedTuple, Optional

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from tqdm import tqdm

logger = logging.getLogger(__name__)


@dataclass
class Options:
    """What the command line gives."""

    epochs: int = 10
    log_every: int = 50
    verbose: bool = False
    clip: float = 1.0
    device: torch.device = field(default_factory=lambda: torch.device("cuda"))


class Outputs(NamedTuple):
    """What the network gives."""

    logits: torch.Tensor
    features: torch.Tensor


class AverageMeter:
    """Keeps a running mean of what it is given."""

    def __init__(self, name):
        self.name = name
        self.reset()

    def reset(self):
        self.total = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n

    @property
    def mean(self):
        return self.total / max(self.count, 1)


class Block(nn.Module):
    """Convolution, norm, activation."""

    def __init__(self, width, drop=0.0):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.drop = drop

    def forward(self, x):
        if self.training and self.drop > 0.0:
            keep = torch.rand(x.shape[0], 1, 1, 1).to(x.device) > self.drop  # expect: AMP501
            x = x * keep
        return F.relu(self.norm(self.conv(x)))


class Network(nn.Module):
    """A few blocks and a head."""

    def __init__(self, width, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3)
        self.blocks = nn.ModuleList([Block(width) for _ in range(4)])
        self.tail = nn.Sequential(Block(width), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(width, classes)
        self.temperature = nn.Parameter(torch.ones(1))

    def forward(self, x) -> Outputs:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = self.tail(x)
        if self.temperature < 0.01:  # expect: AMP103
            x = x * 2
        assert x.shape[0] > 0
        return Outputs(self.head(x), x)


class SmoothedLoss(nn.Module):
    """Cross entropy with label smoothing, weighted by the confidence of the network."""

    def __init__(self, smoothing=0.1):
        super().__init__()
        self.smoothing = smoothing

    def forward(self, logits, target):
        log_probabilities = F.log_softmax(logits, dim=-1)
        nll = -log_probabilities.gather(dim=-1, index=target.unsqueeze(1)).squeeze(1)
        loss = (1 - self.smoothing) * nll.mean() - self.smoothing * log_probabilities.mean()
        confidence = log_probabilities.exp().max(dim=-1).values.mean()
        if confidence.item() > 0.99:  # expect: AMP101
            logger.warning("saturated")
        return loss


def accuracy(logits, target):
    """The share of right answers, as a number."""
    right = (logits.argmax(dim=-1) == target).float().sum()
    return right.item() / target.size(0)  # expect: AMP101


def accuracy_on_device(logits, target):
    """The same, left where it is."""
    return (logits.argmax(dim=-1) == target).float().mean()


def to_device(batch, device):
    """A nest of tensors, moved."""
    if torch.is_tensor(batch):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return [to_device(value, device) for value in batch]
    return batch


def timed(function):
    """A decorator that changes nothing but the log."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        start = time.time()
        result = function(*args, **kwargs)
        logger.debug("took %f", time.time() - start)
        return result

    return wrapper


def without_gradients(function):
    """A decorator of the project that opens `no_grad`."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        with torch.no_grad():
            return function(*args, **kwargs)

    return wrapper


class Callback:
    """What may be called after each step."""

    def on_step(self, trainer, loss):
        """Nothing to do."""


class History(Callback):
    """Keeps all losses as numbers."""

    def __init__(self):
        self.values = []

    def on_step(self, trainer, loss):
        self.values.append(loss.item())  # expect: AMP101


class NanGuard(Callback):
    """Stops at the first loss that is not finite."""

    def on_step(self, trainer, loss):
        if not torch.isfinite(loss):  # expect: AMP103
            raise RuntimeError("loss is not finite")


class Trainer:
    """Owns the network, the optimizer and the loaders."""

    def __init__(self, options: Options, train_set, test_set, callbacks: List[Callback] = ()):
        self.options = options
        self.device = options.device
        self.net = Network(64, 10).to(self.device)
        self.criterion = SmoothedLoss().to(self.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-3)
        self.train_loader = DataLoader(train_set, batch_size=64, shuffle=True, pin_memory=True)
        self.test_loader = DataLoader(test_set, batch_size=64)  # expect: AMP911
        self.callbacks = [History(), NanGuard()]
        self.step = 0
        self.is_main = int(os.environ.get("RANK", 0)) == 0
        self.meters = defaultdict(lambda: AverageMeter("loss"))
        self.best = 0.0

    def run(self):
        for epoch in range(self.options.epochs):
            self.train_epoch(epoch)
            score = self.evaluate()
            if score > self.best:
                self.best = score
                self.save("best.pt")
            print(f"epoch {epoch}: {score:.3f}")

    @timed
    def train_epoch(self, epoch):
        self.net.train()
        total = 0.0
        bar = tqdm(self.train_loader, desc=f"epoch {epoch}")
        for i, batch in enumerate(bar):
            batch = to_device(batch, self.device)
            loss, logits = self.training_step(batch)
            total += float(loss)  # expect: AMP101
            self.meters["loss"].update(loss.item(), len(batch["label"]))  # expect: AMP101
            self.meters["accuracy"].update(accuracy(logits, batch["label"]))
            for callback in self.callbacks:
                callback.on_step(self, loss)
            should_log = (i + 1) % self.options.log_every == 0
            if should_log:
                logger.info("loss %f", loss.item())
            if self.is_main and i % self.options.log_every == self.options.log_every - 1:
                print(f"{i}: {loss.item():.4f}")
            if i == len(self.train_loader) - 1:
                print("last loss", loss.item())
            if self.options.verbose:
                print("loss", loss)
            if self.is_main:
                bar.set_postfix(loss=loss.item())  # expect: AMP101
            self.step += 1
        return total / len(self.train_loader)

    def training_step(self, batch):
        outputs = self.net(batch["image"])
        loss = self.criterion(outputs.logits, batch["label"])
        penalty = self.penalty(outputs.features)
        loss = loss + penalty
        self.optimizer.zero_grad(set_to_none=True)
        try:
            loss.backward()
        except RuntimeError as error:
            logger.error("failed with loss %s: %s", loss.item(), error)
            raise
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), self.options.clip)
        if norm > 100:  # expect: AMP103
            logger.warning("large gradients")
        self.optimizer.step()
        return loss, outputs[0]

    def penalty(self, features):
        total = torch.zeros(1).to(self.device)  # expect: AMP501
        for feature in features.split(16):
            total = total + feature.pow(2).mean()
        return total.squeeze()

    @without_gradients
    def evaluate(self):
        self.net.eval()
        right = 0.0
        for batch in islice(self.test_loader, 100):
            batch = {k: v.to(self.device) for k, v in batch.items()}
            outputs = self.net(batch["image"])
            right += accuracy_on_device(outputs.logits, batch["label"]).item()  # expect: AMP102
        return right / len(self.test_loader)

    def save(self, path):
        state = OrderedDict((k, v.cpu()) for k, v in self.net.state_dict().items())
        torch.save({"net": state, "best": float(self.best)}, path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    train_set, test_set = np.zeros((10, 3)), np.zeros((10, 3))
    Trainer(Options(epochs=args.epochs), train_set, test_set).run()


if __name__ == "__main__":
    main()
