"""Two steps of a potential for molecules, with and without a periodic cell."""

import torch
import torchani

aev = torchani.aev.AEVComputer.like_2x(num_species=2).cuda()
net = torch.nn.Linear(aev.out_dim, 1).cuda()
optimizer = torch.optim.Adam(net.parameters())
scaler = torch.amp.GradScaler("cuda")
for _ in range(2):
    cell, periodic = 3 * torch.eye(3, device="cuda"), torch.ones(3, dtype=torch.bool, device="cuda")
    atoms = torch.tensor([[0, 1, 0, 0]], device="cuda")
    places = torch.rand(1, 4, 3, device="cuda")
    with torch.autocast("cuda", torch.float16):
        loss = net(aev(atoms, places, cell, periodic)).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
