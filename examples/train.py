"""Train a small attention model in mixed precision, on made-up sequences of tokens."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from metrics import accuracy

device = "cuda" if torch.cuda.is_available() else "cpu"


class Classifier(nn.Module):
    def __init__(self, words=100, width=32, classes=10):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.query = nn.Linear(width, 1)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        position = torch.arange(tokens.size(1)).to(tokens.device)
        x = self.embed(tokens) + torch.sin(position)[:, None]
        weights = F.softmax(self.query(x), dim=1)
        return self.head((weights * x).sum(dim=1))


def train(model, loader, epochs=2):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.cuda.amp.GradScaler()
    for epoch in range(epochs):
        total_loss, total_accuracy = 0.0, 0.0
        for tokens, targets in loader:
            tokens, targets = tokens.to(device), targets.to(device)
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                logits = model(tokens)
                loss = F.cross_entropy(logits, targets)
                scaler.scale(loss).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            total_loss += loss
            total_accuracy += accuracy(logits, targets)
        print(
            f"epoch {epoch}: loss {total_loss / len(loader):.3f}, "
            f"accuracy {total_accuracy / len(loader):.3f}"
        )


if __name__ == "__main__":
    torch.manual_seed(0)
    tokens = torch.randint(0, 100, (512, 16))
    data = TensorDataset(tokens, tokens.max(dim=1).values // 10)
    train(Classifier().to(device), DataLoader(data, batch_size=32, shuffle=True))
