"""Two steps of a network on a graph, with several convolutions and poolings."""

import torch
from torch import nn
from torch_geometric import nn as gnn

LAYERS = (
    gnn.GCNConv(8, 8), gnn.GATv2Conv(8, 8), gnn.SAGEConv(8, 8), gnn.GINConv(nn.Linear(8, 8)),
    gnn.TransformerConv(8, 8), gnn.PNAConv(8, 8, ["mean", "std", "max"], ["identity", "linear"],
    torch.tensor([0, 4, 2])), gnn.GraphNorm(8), gnn.PairNorm(), gnn.DiffGroupNorm(8, 2),
)  # fmt: skip


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(LAYERS)
        self.pool = gnn.SAGPooling(8)

    def forward(self, x, edge_index, batch):
        for layer in self.layers:
            more = (edge_index,) if isinstance(layer, gnn.MessagePassing) else ()
            x = layer(x, *more).relu()
        x, edge_index, _, batch, _, _ = self.pool(x, edge_index, batch=batch)
        return gnn.global_mean_pool(x, batch, 2) + gnn.global_max_pool(x, batch, 2)


model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for _ in range(2):
    x = torch.randn(6, 8, device="cuda")
    edges = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 5, 4]], device="cuda")
    batch = torch.tensor([0, 0, 0, 1, 1, 1], device="cuda")
    with torch.autocast("cuda", torch.float16):
        loss = model(x, edges, batch).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
