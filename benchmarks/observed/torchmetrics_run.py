"""Two steps with metrics of many kinds on what a network gives under autocast."""

import torch
import torchmetrics
from torch import nn
from torchmetrics import classification, regression

METRICS = nn.ModuleList(
    [
        classification.MulticlassAccuracy(4), classification.MulticlassF1Score(4),
        classification.MulticlassAUROC(4), classification.MulticlassCalibrationError(4),
        classification.MulticlassConfusionMatrix(4),
        torchmetrics.MeanMetric(), regression.MeanSquaredError(), regression.PearsonCorrCoef(),
        regression.KLDivergence(), regression.CosineSimilarity(), regression.R2Score(),
    ]
).cuda()  # fmt: skip
model = nn.Linear(8, 4).cuda()
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for _ in range(2):
    x = torch.randn(6, 8, device="cuda")
    labels = torch.tensor([0, 1, 2, 3, 0, 1], device="cuda")
    with torch.autocast("cuda", torch.float16):
        out = model(x)
        loss = nn.functional.cross_entropy(out, labels)
        for metric in METRICS:
            if isinstance(metric, torchmetrics.MeanMetric):
                metric(loss)
            elif type(metric).__module__.startswith("torchmetrics.classification"):
                metric(out, labels)
            elif isinstance(metric, regression.KLDivergence | regression.CosineSimilarity):
                metric(out.softmax(-1), x[:, :4].softmax(-1))
            else:
                metric(out[:, 0], x[:, 0])
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
