"""Two steps of a flow with several kinds of layers."""

import normflows as nf
import torch

FLOWS = []
for _ in range(2):
    FLOWS += [
        nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 8, 2], init_zeros=True)), nf.flows.Permute(2),
        nf.flows.ActNorm(2), nf.flows.AutoregressiveRationalQuadraticSpline(2, 1, 8),
        nf.flows.CoupledRationalQuadraticSpline(2, 1, 8), nf.flows.LULinearPermute(2),
        nf.flows.MaskedAffineAutoregressive(2, 8),
    ]  # fmt: skip
model = nf.NormalizingFlow(nf.distributions.DiagGaussian(2), FLOWS).cuda()
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for _ in range(2):
    x = torch.randn(6, 2, device="cuda")
    with torch.autocast("cuda", torch.float16):
        loss = model.forward_kld(x)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
