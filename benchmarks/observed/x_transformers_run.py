"""Two steps of a language model, with the options that people switch on."""

import torch
from x_transformers import Decoder, TransformerWrapper
from x_transformers.autoregressive_wrapper import AutoregressiveWrapper

model = AutoregressiveWrapper(
    TransformerWrapper(
        num_tokens=32,
        max_seq_len=16,
        attn_layers=Decoder(dim=16, depth=2, heads=2, rotary_pos_emb=True, attn_qk_norm=True),
    )
).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for _ in range(2):
    with torch.autocast("cuda", torch.float16):
        loss = model(torch.randint(0, 32, (2, 16), device="cuda"))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
