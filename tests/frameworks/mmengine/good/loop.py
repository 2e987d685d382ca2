"""The same, by the books: the wrapper clips, and nothing is read of the device."""

import torch
from mmengine.optim import AmpOptimWrapper, OptimWrapper
from torch import nn


def update(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    wrapper = AmpOptimWrapper(dtype="float16", optimizer=optimizer, clip_grad={"max_norm": 1.0})
    total = torch.zeros((), device="cuda")
    for x, y in loader:
        with wrapper.optim_context(model):
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        wrapper.update_params(loss)
        total += loss.detach()
    return total.item()


def clip(model, loader):
    """In bfloat16 `loss_scale` is 1, in float32 there is none."""
    for dtype in ("bfloat16", None):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        wrapper = OptimWrapper(optimizer=optimizer)
        if dtype is not None:
            wrapper = AmpOptimWrapper(dtype="bfloat16", loss_scale=1.0, optimizer=optimizer)
        for x, y in loader:
            with wrapper.optim_context(model):
                loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            wrapper.backward(loss)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            wrapper.step()
            wrapper.zero_grad()


def measure(model, loader):
    """A loop that does not train."""
    wrapper = OptimWrapper(optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    lengths = []
    for x, y in loader:
        lengths.append(wrapper.scale_loss(y.cuda().sum()).item())
    return lengths
