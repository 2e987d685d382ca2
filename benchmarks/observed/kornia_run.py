"""Two steps of a small network behind augmentations, with several losses."""

import kornia
import torch
from kornia import augmentation, losses
from torch import nn

augment = augmentation.AugmentationSequential(
    augmentation.RandomHorizontalFlip(p=1.0), augmentation.ColorJiggle(0.1, 0.1, 0.1, 0.1, p=1.0),
    augmentation.RandomGaussianBlur((3, 3), (0.1, 2.0), p=1.0), augmentation.RandomErasing(p=1.0),
    augmentation.RandomAffine(15.0, p=1.0),
)  # fmt: skip
model = nn.Conv2d(3, 3, 3, padding=1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for _ in range(2):
    images = torch.rand(2, 3, 16, 16, device="cuda")
    target = torch.randint(0, 3, (2, 16, 16), device="cuda")
    with torch.autocast("cuda", torch.float16):
        out = model(augment(images))
        soft = out.sigmoid()
        terms = [
            losses.dice_loss(out, target),
            losses.focal_loss(out, target, alpha=0.5).mean(),
            losses.tversky_loss(out, target, 0.5, 0.5),
            losses.lovasz_softmax_loss(out, target),
            losses.ssim_loss(soft, images, 5),
            losses.psnr_loss(soft, images, 1.0),
            losses.total_variation(soft).mean(),
            losses.charbonnier_loss(soft, images).mean(),
            losses.js_div_loss_2d(soft, images),
            losses.inverse_depth_smoothness_loss(soft[:, :1].float(), images),
            kornia.filters.sobel(soft).mean(),
            kornia.color.rgb_to_lab(soft).mean(),
            kornia.color.rgb_to_hsv(soft).mean(),
            kornia.geometry.resize(soft, (8, 8)).mean(),
            kornia.enhance.equalize_clahe(soft.clamp(0, 1)).mean(),
        ]
        loss = torch.stack([term.float() for term in terms]).sum()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
