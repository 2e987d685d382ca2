"""Two steps of TabNet, and of its pretraining."""

import torch
from pytorch_tabnet.metrics import UnsupervisedLoss
from pytorch_tabnet.tab_network import TabNet, TabNetPretraining

model = TabNet(8, 2, group_attention_matrix=torch.eye(8, device="cuda")).cuda()
other = TabNetPretraining(8, group_attention_matrix=torch.eye(8, device="cuda")).cuda()
optimizer = torch.optim.Adam([*model.parameters(), *other.parameters()])
scaler = torch.amp.GradScaler("cuda")
for _ in range(2):
    x = torch.randn(16, 8, device="cuda")
    with torch.autocast("cuda", torch.float16):
        out, penalty = model(x)
        loss = out.square().mean() + penalty + UnsupervisedLoss(*other(x))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
