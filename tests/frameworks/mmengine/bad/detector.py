"""A detector of a project that trains with mmengine and mmdet, with its hooks and metrics."""

import torch
from mmdet.models.dense_heads import AnchorHead
from mmdet.models.detectors import SingleStageDetector
from mmdet.models.task_modules.assigners import BaseAssigner
from mmengine.evaluator import BaseMetric
from mmengine.hooks import Hook
from mmengine.model import BaseDataPreprocessor, BaseModel
from mmengine.registry import HOOKS, METRICS, MODELS
from torch import nn


@MODELS.register_module()
class Classifier(BaseModel):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = MODELS.build(backbone)
        self.head = nn.Linear(512, 10)
        self.worst = 0.0

    def forward(self, inputs, data_samples=None, mode="tensor"):
        print(inputs.mean().item())  # expect: AMP101
        logits = self.head(self.backbone(inputs))
        logits = logits / (logits.abs() + 1e-8)  # expect: AMP802
        if mode == "loss":
            labels = torch.stack(data_samples)
            loss = nn.functional.cross_entropy(logits, labels)
            self.worst = max(self.worst, float(loss))  # expect: AMP101
            return dict(loss=loss)
        return logits

    def parse_losses(self, losses):
        for name, value in losses.items():
            if torch.isnan(value):  # expect: AMP103
                raise FloatingPointError(name)
        return super().parse_losses(losses)


@MODELS.register_module()
class Normalized(BaseDataPreprocessor):
    def forward(self, data, training=False):
        data = self.cast_data(data)
        image = data["inputs"]
        if image.max() > 1:  # expect: AMP103
            image = image / 255
        return {"inputs": image, "data_samples": data["data_samples"]}


@MODELS.register_module()
class Detector(SingleStageDetector):
    def loss(self, batch_inputs, batch_data_samples):
        x = self.extract_feat(batch_inputs)
        losses = self.bbox_head.loss(x, batch_data_samples)
        losses["brightness"] = batch_inputs.mean().item()  # expect: AMP101
        return losses


@MODELS.register_module()
class Head(AnchorHead):
    def loss_by_feat(
        self,
        cls_scores,
        bbox_preds,
        batch_gt_instances,
        batch_img_metas,
        batch_gt_instances_ignore=None,
    ):
        normalizer = max(1.0, cls_scores[0].sigmoid().sum().item())  # expect: AMP101
        losses = [scores.abs().sum() / normalizer for scores in cls_scores]
        edges = torch.zeros_like(bbox_preds[0])
        loss = nn.functional.binary_cross_entropy(bbox_preds[0].sigmoid(), edges)  # expect: AMP304
        return dict(loss_cls=losses, loss_edges=loss)


class NearestAssigner(BaseAssigner):
    def assign(self, bboxes, gt_bboxes, gt_bboxes_ignore=None, gt_labels=None):
        nearest = torch.cdist(bboxes, gt_bboxes).argmin(dim=1)
        if nearest.max() == 0:  # expect: AMP103
            return None
        return nearest


@HOOKS.register_module()
class LossHook(Hook):
    def __init__(self):
        self.history = []

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        self.history.append(outputs["loss"].item())  # expect: AMP101
        torch.cuda.empty_cache()  # expect: AMP111


@METRICS.register_module()
class Accuracy(BaseMetric):
    def process(self, data_batch, data_samples):
        for sample in data_samples:
            self.results.append(sample["pred_label"].cpu())

    def compute_metrics(self, results):
        return {"accuracy": sum(float(result) for result in results) / len(results)}
