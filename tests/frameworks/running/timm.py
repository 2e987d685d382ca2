"""A loop of one's own with the parts that timm has for it, under autocast and a scaler."""

import timm
import torch
from timm.data import Mixup, create_loader
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEma, ModelEmaV3, NativeScaler

ON_CUDA = True
COUNTS = {}


class Images(torch.utils.data.Dataset):
    def __init__(self):
        self.transform = None

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.randint(0, 255, (3, 32, 32), dtype=torch.uint8).numpy(), index % 3


def main():
    loader = create_loader(Images(), 32, 4, is_training=True, no_aug=True, num_workers=0)
    loader.dataset.transform = None
    model = timm.create_model("test_vit", num_classes=3, img_size=32).cuda()
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3)
    scheduler = CosineLRScheduler(optimizer, t_initial=2)
    criterion, mixup = SoftTargetCrossEntropy(), Mixup(mixup_alpha=0.5, num_classes=3)
    ema, old = ModelEmaV3(model), ModelEma(model)
    scaler, losses = NativeScaler(), AverageMeter()
    for epoch in range(2):
        for step, (x, y) in enumerate(loader):
            x, y = mixup(x, y)
            with torch.autocast("cuda"):
                loss = criterion(model(x), y)
            scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
            optimizer.zero_grad()
            ema.update(model, step=step)
            old.update(model)
            losses.update(loss.detach(), x.size(0))
            scheduler.step_update(num_updates=step)
        scheduler.step(epoch + 1, losses.avg)
    ema.set(model)
