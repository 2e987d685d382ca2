"""A loop in the style of timm's train.py that waits for the device in every batch."""

import torch
from timm import create_model
from timm.data import Mixup, create_dataset, create_loader
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2, NativeScaler, accuracy


def train_one_epoch(model, loader, optimizer, criterion, scaler, ema, mixup):
    losses = AverageMeter()
    model.train()
    for input, target in loader:
        input, target = mixup(input, target)
        with torch.autocast("cuda"):
            output = model(input)
            loss = criterion(output, target)
        losses.update(loss.item(), input.size(0))  # expect: AMP101
        optimizer.zero_grad()
        scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
        ema.update(model)
        if torch.isnan(loss):  # expect: AMP103
            raise RuntimeError("the loss is not a number")
    return losses.avg


def finetune(model, optimizer):
    criterion = SoftTargetCrossEntropy().cuda()
    loader = create_loader(create_dataset("", "train"), (3, 224, 224), 64, is_training=True)
    for input, target in loader:
        if target.max() > 999:  # expect: AMP103
            continue
        loss = criterion(model(input), torch.nn.functional.one_hot(target, 1000))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())  # expect: AMP101


def validate(model, loader):
    top1 = AverageMeter()
    model.eval()
    with torch.no_grad():
        for input, target in loader:
            output = model(input)
            acc1, _ = accuracy(output, target, topk=(1, 5))
            top1.update(acc1, input.size(0))
    return top1.avg


def main():
    model = create_model("resnet50").cuda()
    ema = ModelEmaV2(model)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3)
    scheduler = CosineLRScheduler(optimizer, t_initial=10)
    train = create_loader(create_dataset("", "train"), (3, 224, 224), 64, is_training=True)
    valid = create_loader(create_dataset("", "valid"), (3, 224, 224), 64)
    criterion = SoftTargetCrossEntropy().cuda()
    scaler, mixup = NativeScaler(), Mixup(num_classes=1000)
    for epoch in range(10):
        train_one_epoch(model, train, optimizer, criterion, scaler, ema, mixup)
        print(validate(model, valid))
        scheduler.step(epoch + 1)


def fit(model, batches):
    """All in one function."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_scaler = NativeScaler()
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss_scaler(loss, optimizer)
        print(loss.item())  # expect: AMP101
