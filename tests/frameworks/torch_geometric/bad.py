"""Graph networks that wait for the device in what `propagate` calls, and in a loop over graphs."""

import torch
import torch.nn.functional as F
from torch_geometric.loader import DataLoader, NeighborLoader
from torch_geometric.nn import GCNConv, MessagePassing, global_mean_pool


class Gated(MessagePassing):
    def __init__(self, channels):
        super().__init__(aggr=None)
        self.gate = torch.nn.Linear(2 * channels, 1)

    def forward(self, x, edge_index, edge_weight=None):
        return self.propagate(edge_index, x=x, edge_weight=edge_weight)

    def message(self, x_i, x_j, edge_weight):
        if torch.isnan(x_j).any():  # expect: AMP103
            x_j = torch.nan_to_num(x_j)
        gate = self.gate(torch.cat([x_i, x_j], dim=-1)).sigmoid()
        return gate * x_j if edge_weight is None else edge_weight.view(-1, 1) * gate * x_j

    def aggregate(self, inputs, index, dim_size=None):
        size = int(index.max()) + 1  # expect: AMP101
        zeros = torch.zeros(size, inputs.size(-1)).to(inputs.device)  # expect: AMP501
        return zeros.index_add_(0, index, inputs)

    def update(self, aggr_out, x):
        self.norms.append(aggr_out.norm().item())  # expect: AMP101
        return aggr_out + x


class Net(torch.nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.first = GCNConv(channels, 64)
        self.second = Gated(64)
        self.head = torch.nn.Linear(64, classes)

    def forward(self, x, edge_index, batch):
        x = self.first(x, edge_index).relu()
        x = self.second(x, edge_index)
        return self.head(global_mean_pool(x, batch))


def train(model, dataset, device):
    loader = DataLoader(dataset, batch_size=32, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    total = 0
    for data in loader:
        data = data.to(device)
        optimizer.zero_grad()
        out = model(data.x, data.edge_index, data.batch)
        loss = F.cross_entropy(out, data.y)
        loss.backward()
        optimizer.step()
        total += loss.item() * data.num_graphs  # expect: AMP101
    return total / len(dataset)


def train_nodes(model, graph):
    model = model.cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for batch in NeighborLoader(graph, num_neighbors=[10, 10], batch_size=128):
        batch = batch.to("cuda")
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index, batch.batch)[: batch.batch_size]
        loss = F.cross_entropy(out, batch.y[: batch.batch_size])
        loss.backward()
        optimizer.step()
        if batch.y.max() > 9:  # expect: AMP103
            print(loss)
