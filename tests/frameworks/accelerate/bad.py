"""A training loop of accelerate, with mistakes."""

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader


def train(model, dataset, epochs):
    accelerator = Accelerator(mixed_precision="fp16", log_with="wandb")
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(dataset, batch_size=8, pin_memory=True, num_workers=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    total = 0.0
    for epoch in range(epochs):
        for batch in loader:
            with accelerator.accumulate(model):
                loss = F.cross_entropy(model(batch["x"]), batch["y"])
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    print(norm.item())  # expect: AMP101
                optimizer.step()
                optimizer.zero_grad()
            total += loss.item()  # expect: AMP101
            average = accelerator.gather(loss).mean().item()  # expect: AMP101
            accelerator.log({"loss": loss, "average": average})  # expect: AMP101
            if batch["mask"].all():  # expect: AMP103
                continue
            weights = torch.ones(8).to(accelerator.device)  # expect: AMP501
            total += weights[0] * epoch
    return total


def losses(predictions, targets):
    accelerator = Accelerator(mixed_precision="fp16")
    with accelerator.autocast():
        return F.binary_cross_entropy(predictions.sigmoid(), targets)  # expect: AMP304
