"""Figures that the training loop logs."""

import torch


@torch.no_grad()
def accuracy(logits, targets):
    """The share of targets that have the highest logit."""
    correct = (logits.argmax(dim=1) == targets).sum()
    return correct.item() / len(targets)
