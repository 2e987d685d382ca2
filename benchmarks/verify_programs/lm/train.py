"""A small decoder-only transformer that learns to continue text, in bfloat16."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = "the quick brown fox jumps over the lazy dog. " * 20


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        causal = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        blocked = torch.full((t, t), -1e4).to(x.device)
        scores = torch.where(causal, scores, blocked)
        return self.out((scores.softmax(-1).to(v.dtype) @ v).transpose(1, 2).reshape(n, t, width))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class Model(nn.Module):
    def __init__(self, letters, width=32, heads=4, depth=2, context=32):
        super().__init__()
        self.tokens = nn.Embedding(letters, width)
        self.places = nn.Embedding(context, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters)

    def forward(self, ids):
        places = torch.arange(ids.size(1)).to(ids.device)
        x = self.tokens(ids) + self.places(places)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def batches(count, size=8, context=32):
    letters = sorted(set(TEXT))
    ids = torch.tensor([letters.index(letter) for letter in TEXT])
    for _ in range(count):
        starts = torch.randint(0, len(ids) - context - 1, (size,))
        yield torch.stack([ids[s : s + context + 1] for s in starts.tolist()])


def train(model, steps, device, batch_size=8):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    total = 0.0
    for batch in batches(steps, batch_size):
        batch = batch.to(device)
        with torch.cuda.amp.autocast(dtype=torch.bfloat16):
            logits = model(batch[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()
    return total / steps


def main(steps=3, batch_size=8):
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Model(len(set(TEXT))).to(device)
    loss = train(model, steps, device, batch_size)
    print(f"mean loss {loss:.3f}")
    return loss


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    main(parser.parse_args().steps)
