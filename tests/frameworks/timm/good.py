"""A loop in the style of timm's train.py: meters keep tensors, and are read now and then."""

import torch
from sklearn.preprocessing import StandardScaler
from timm import create_model
from timm.data import create_dataset, create_loader
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import AverageMeter, NativeScaler


def train_one_epoch(model, loader, optimizer, criterion, scaler, scheduler, updates):
    losses = AverageMeter()
    model.train()
    for step, (input, target) in enumerate(loader):
        with torch.autocast("cuda"):
            output = model(input)
            loss = criterion(output, target)
        losses.update(loss.detach(), input.size(0))
        optimizer.zero_grad()
        scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
        scheduler.step_update(updates + step)
        if step % 50 == 0:
            print(losses.avg.item())
    return losses.avg


def main():
    model = create_model("resnet50").cuda()
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3)
    scheduler, epochs = create_scheduler_v2(optimizer, num_epochs=10)
    loader = create_loader(create_dataset("", "train"), (3, 224, 224), 64, is_training=True)
    criterion = LabelSmoothingCrossEntropy().cuda()
    scaler = NativeScaler()
    scheduler.step(0)
    for epoch in range(epochs):
        average = train_one_epoch(
            model, loader, optimizer, criterion, scaler, scheduler, epoch * len(loader)
        )
        print(average.item())
        scheduler.step(epoch + 1)


def scale(model, rows):
    """A scaler of numbers, in a loop that does not train."""
    scaler, found = StandardScaler(), []
    for x, y in rows:
        found.append(scaler(model(x.cuda()), y).sum().item())
    return found
