"""Programs for a GPU alone: what waits for it, and what only its kernels do."""

import torch
from torch import nn


def numbers(device):
    """One wait a line, of what passes no dispatcher or waits inside of a kernel."""
    x = torch.rand(4, 4, device=device)
    mask, index = x > 0.5, torch.arange(4, device=device)
    factor = torch.tensor(0.5).to(device)
    str(factor)
    torch.tensor(1.0, device=device)
    x.new_tensor([1.0, 2.0])
    x.masked_fill(mask, factor)
    x.index_fill(0, index, factor)
    torch.linspace(0, factor, 4, device=device)
    torch.histc(x)
    torch.normal(x, x)
    torch.matrix_exp(x)
    torch.linalg.inv(x + 4 * torch.eye(4, device=device))
    torch.linalg.svd(x)
    torch.cuda.current_stream().synchronize()
    torch.cuda.Event().synchronize()


def silent(device):
    """Nothing waits here."""
    x = torch.rand(4, 4, device=device)
    mask = x > 0.5
    x[mask] = 1.0
    x.masked_fill_(mask, 1.0)
    x[0] = 1.0
    return [x.clamp(0.0, 1.0), torch.normal(x, 1.0), x.multinomial(2), x.argsort()]


def resized(device):
    x = torch.ones(1, 1, 4, 4, device=device, dtype=torch.float16)
    with torch.autocast("cuda", dtype=torch.float16):
        return nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")


def beyond(device):
    """A number that is chosen is converted, which the CPU does without a look."""
    x = torch.ones(4, device=device, dtype=torch.float16)
    return torch.where(x > 0, x, -1e9)
