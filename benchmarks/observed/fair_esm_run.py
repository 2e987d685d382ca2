"""Two steps of a protein language model with random weights."""

import torch
from esm.data import Alphabet
from esm.model.esm2 import ESM2

alphabet = Alphabet.from_architecture("ESM-1b")
model = ESM2(num_layers=2, embed_dim=32, attention_heads=4, alphabet=alphabet).cuda()
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for _ in range(2):
    tokens = torch.randint(4, 24, (2, 12), device="cuda")
    with torch.autocast("cuda", torch.float16):
        out = model(tokens, repr_layers=[2], return_contacts=True)
        loss = out["logits"].square().mean() + out["contacts"].mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
