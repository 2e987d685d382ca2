"""A layer that passes messages, a data set with a transform, and a loop of one's own."""

import tempfile

import torch
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, MessagePassing, global_mean_pool
from torch_geometric.transforms import BaseTransform
from torch_geometric.utils import to_torch_csr_tensor

EPOCHS, BATCHES = 2, 3
ELEMENTS = 2 * BATCHES
COUNTS = {
    "element": [EPOCHS * ELEMENTS],
    "micro-batch": [EPOCHS * BATCHES],
    "once": [1],
}


class Mean(MessagePassing):
    def __init__(self):
        super().__init__(aggr="mean")
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x, edge_index):
        weight = self.edge_updater(edge_index, x=x)
        return self.propagate(edge_index, x=self.layer(x), weight=weight)

    def edge_update(self, x_j):
        return x_j.sigmoid().mean(-1, keepdim=True)

    def message(self, x_j, weight):
        return x_j * weight

    def aggregate(self, inputs, index, ptr=None, dim_size=None):
        return super().aggregate(inputs, index, ptr=ptr, dim_size=dim_size)

    def update(self, inputs):
        return inputs.relu()


class Sparse(MessagePassing):
    def forward(self, x, adjacency):
        return self.propagate(adjacency, x=x)

    def message(self, x_j):
        return x_j

    def message_and_aggregate(self, edge_index, x):
        return edge_index @ x


class Noise(BaseTransform):
    def forward(self, data):
        data.x = data.x + 0.1 * torch.randn_like(data.x)
        return data


class Rings(InMemoryDataset):
    raw_file_names = ["none"]
    processed_file_names = ["rings.pt"]

    def __init__(self, root, transform):
        super().__init__(root, transform)
        self.load(self.processed_paths[0])

    def download(self):
        torch.save([], self.raw_paths[0])

    def process(self):
        edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
        data = [Data(x=torch.randn(3, 4), edge_index=edges, y=i % 2) for i in range(ELEMENTS)]
        self.save(data, self.processed_paths[0])

    def get(self, idx):
        return super().get(idx)


def main():
    conv, known, sparse, head = Mean(), GCNConv(4, 4), Sparse(), torch.nn.Linear(4, 2)
    parameters = [*conv.parameters(), *known.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    loader = DataLoader(Rings(tempfile.mkdtemp(), Noise()), batch_size=2)
    for _ in range(EPOCHS):
        for data in loader:
            assert data.num_graphs == 2
            with torch.autocast("cpu", torch.bfloat16):
                x = known(conv(data.x, data.edge_index), data.edge_index)
                logits = head(global_mean_pool(x, data.batch))
            adjacency = to_torch_csr_tensor(data.edge_index, size=(len(data.x), len(data.x)))
            smooth = sparse(data.x, adjacency.t()).mean()
            loss = torch.nn.functional.cross_entropy(logits.float(), data.y) + smooth
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
