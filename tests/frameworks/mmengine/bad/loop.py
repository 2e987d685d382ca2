"""A loop of one's own around mmengine's wrapper of an optimizer."""

import torch
from mmengine.optim import AmpOptimWrapper
from torch import nn


def update(model, loader):
    """`update_params` is the backward pass and the step."""
    wrapper = AmpOptimWrapper(optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    total = 0.0
    for x, y in loader:
        with wrapper.optim_context(model):
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        wrapper.update_params(loss)
        total += loss.item()  # expect: AMP101
    return total


def clip(model, loader):
    """`step` unscales, and comes later."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    wrapper = AmpOptimWrapper(dtype="float16", optimizer=optimizer)
    for x, y in loader:
        with wrapper.optim_context(model):
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        wrapper.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # expect: AMP404
        wrapper.step()
        wrapper.zero_grad()
