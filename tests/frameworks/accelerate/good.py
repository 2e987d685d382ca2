"""The same without them, and what looks like them."""

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader


def train(model, dataset, epochs):
    accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=4)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(dataset, batch_size=8, pin_memory=True, num_workers=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    total = torch.zeros((), device=accelerator.device)
    for step in range(epochs):
        for batch in loader:
            with accelerator.accumulate(model):
                # What the model gives is float32 again, and no region is around the loss.
                loss = F.binary_cross_entropy(model(batch["x"]).sigmoid(), batch["y"])
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            total += loss.detach()
            if accelerator.optimizer_step_was_skipped:
                continue
        accelerator.log({"loss": total.item()}, step=step)
    accelerator.end_training()


def plain(predictions, targets):
    accelerator = Accelerator(mixed_precision="no")
    with accelerator.autocast():
        return F.binary_cross_entropy(predictions.sigmoid(), targets)
