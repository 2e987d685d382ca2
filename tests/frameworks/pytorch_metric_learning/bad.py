"""A loss and a miner of pytorch_metric_learning that wait for the device in every batch."""

import torch
from pytorch_metric_learning.losses import BaseMetricLossFunction
from pytorch_metric_learning.miners import BaseMiner


class Centred(BaseMetricLossFunction):
    def compute_loss(self, embeddings, labels, indices_tuple, ref_emb, ref_labels):
        count = int(labels.max()) + 1  # expect: AMP101
        centres = torch.zeros(count, embeddings.size(1)).to(embeddings.device)  # expect: AMP501
        centres = centres.index_add(0, labels, embeddings)
        losses = (embeddings - centres[labels]).norm(dim=1)
        indices = torch.arange(len(losses))
        return {"loss": {"losses": losses, "indices": indices, "reduction_type": "element"}}


class Closest(BaseMiner):
    def mine(self, embeddings, labels, ref_emb, ref_labels):
        distances = self.distance(embeddings, ref_emb)
        if (labels == labels[0]).all():  # expect: AMP103
            return self.nothing(distances)
        anchors, positives = torch.where(labels.unsqueeze(1) == ref_labels.unsqueeze(0))
        return anchors, positives, anchors.flip(0)
