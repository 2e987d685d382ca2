"""Two steps of an embedding, with several losses and miners."""

import torch
from pytorch_metric_learning import losses, miners
from torch import nn

model = nn.Linear(8, 8).cuda()
CRITERIA = [
    losses.TripletMarginLoss(), losses.ContrastiveLoss(), losses.NTXentLoss(), losses.SupConLoss(),
    losses.MultiSimilarityLoss(), losses.CircleLoss(), losses.ArcFaceLoss(3, 8).cuda(),
    losses.ProxyAnchorLoss(3, 8).cuda(), losses.FastAPLoss(), losses.LiftedStructureLoss(),
    losses.AngularLoss(), losses.SphereFaceLoss(3, 8).cuda(), losses.VICRegLoss(),
    losses.SignalToNoiseRatioContrastiveLoss(), losses.CrossBatchMemory(losses.NTXentLoss(), 8, 32),
]  # fmt: skip
MINERS = [miners.MultiSimilarityMiner(), miners.TripletMarginMiner(), miners.BatchHardMiner()]
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cuda")
labels = torch.tensor([0, 0, 1, 1, 2, 2], device="cuda")
for _ in range(2):
    x = torch.randn(6, 8, device="cuda")
    with torch.autocast("cuda", torch.float16):
        embeddings = model(x)
        terms = []
        for criterion in CRITERIA:
            if isinstance(criterion, losses.VICRegLoss):
                terms.append(criterion(embeddings, ref_emb=embeddings * 2))
            else:
                terms.append(criterion(embeddings, labels))
        for miner in MINERS:
            terms.append(losses.TripletMarginLoss()(embeddings, labels, miner(embeddings, labels)))
        loss = torch.stack([term.float() for term in terms]).sum()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
