"""Train a language model: accumulation, a schedule, sampling, a matcher, and accelerate."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from torch.nn.parallel import DistributedDataParallel


@dataclass
class ModelOutput:
    """A loss where there are targets, and the logits."""

    loss: Optional[torch.Tensor] = None
    logits: Optional[torch.Tensor] = None
    aux: Tuple[torch.Tensor, ...] = ()


class Attention(nn.Module):
    """Causal attention over padded sequences."""

    def __init__(self, width, heads, max_length=1024):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(max_length, max_length)).bool())

    def forward(self, x, lengths=None):
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        scores = scores.masked_fill(~self.mask[:t, :t], float("-inf"))
        if lengths is not None:
            longest = lengths.max()
            positions = torch.arange(longest).to(x.device)  # expect: AMP105, AMP501
            scores = scores.masked_fill(positions[None] >= lengths[:, None], float("-inf"))
        return self.out((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, t, c))


class Router(nn.Module):
    """Sends each token to one expert."""

    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))
        self.aux = None

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        weights = self.gate(flat).softmax(dim=-1)
        best, which = weights.max(dim=-1)
        out = torch.zeros_like(flat)
        counts = torch.bincount(which, minlength=len(self.experts))  # expect: AMP106
        for i, expert in enumerate(self.experts):
            if counts[i] == 0:  # expect: AMP103
                continue
            chosen = which == i
            out = out + torch.where(chosen[:, None], expert(flat), torch.zeros_like(flat))
        self.aux = (weights.mean(0) * counts / counts.sum()).sum()
        return (out * best[:, None]).view_as(x)


class Transformer(nn.Module):
    """Embedding, layers, head."""

    def __init__(self, vocabulary, width=128, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleDict(
            {f"layer{i}": nn.ModuleList([Attention(width, 4), Router(width, 4)]) for i in range(layers)}
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, targets=None, lengths=None):
        x = self.embedding(tokens)
        aux = []
        for attention, router in self.layers.values():
            x = x + attention(x, lengths)
            x = x + router(x)
            aux.append(router.aux)
        logits = self.head(self.norm(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
            loss = loss + 0.01 * sum(aux)
        return ModelOutput(loss=loss, logits=logits, aux=tuple(aux))

    @torch.no_grad()
    def generate(self, tokens, length):
        for _ in range(length):
            logits = self(tokens).logits[:, -1]
            tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], dim=1)
            if tokens[0, -1].item() == 0:
                break
        return tokens.cpu().tolist()


def perplexity(loss):
    """exp of the loss, as a number."""
    return math.exp(loss)  # miss: AMP101


def learning_rate(step, warmup, peak):
    """A schedule of Python numbers."""
    if step < warmup:
        return peak * step / warmup
    return peak * math.sqrt(warmup / step)


class Progress:
    """Tells how far it is."""

    def __init__(self, every):
        self.every = every
        self.tokens = 0

    def __call__(self, step, output, batch):
        self.tokens += int(batch["lengths"].sum())  # expect: AMP101
        if step % self.every:
            return
        print(f"{step}: {output.loss.item():.3f} {perplexity(output.loss)}")


def train(model, dataset, steps, hook=None, accumulate=4):
    """The loop, by accelerate."""
    accelerator = Accelerator(gradient_accumulation_steps=accumulate)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = torch.utils.data.DataLoader(dataset, batch_size=8, shuffle=True)
    schedule = partial(learning_rate, warmup=100, peak=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    running = 0.0
    step = 0
    model.train()
    while step < steps:
        for batch in loader:
            with accelerator.accumulate(model):
                for group in optimizer.param_groups:
                    group["lr"] = schedule(step + 1)
                output = model(batch["tokens"], batch["targets"], batch["lengths"])
                accelerator.backward(output.loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            running = 0.9 * running + 0.1 * output.loss.item()  # expect: AMP101
            if hook is not None:
                hook(step, output, batch)
            if accelerator.is_main_process and step % 500 == 0:
                print(accelerator.unwrap_model(model).generate(batch["tokens"][:1], 16))
            step += 1
            if step >= steps:
                break
    return running


def validate(model, loader, device):
    """Mean loss over a held-out set."""
    model.eval()
    losses = []
    with torch.inference_mode():
        for batch in loader:
            batch = {name: value.to(device) for name, value in batch.items()}
            losses.append(model(**batch).loss.item())  # expect: AMP102
    return sum(losses) / len(losses)


def worker(rank, dataset):
    """One process of several, without accelerate."""
    device = torch.device("cuda", rank)
    model = DistributedDataParallel(Transformer(1000).to(device), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for batch in torch.utils.data.DataLoader(dataset, batch_size=8):  # expect: AMP911
            batch = {k: v.to(device) for k, v in batch.items()}
            output = model(batch["tokens"], batch["targets"])
            output.loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if rank == 0:
                print(f"{epoch} {output.loss.item()}")  # expect: AMP101
            weights = torch.softmax(output.logits, -1).detach().cpu().numpy()  # expect: AMP101
            record(weights)


def record(array):
    """Keep an array."""
    ARRAYS.append(array)


ARRAYS = []

if __name__ == "__main__":
    data = torch.load("tokens.pt")
    train(Transformer(1000), data, 1000, hook=Progress(10))
