"""The same, by the books: what is read is of the host, or is read once for each epoch."""

import torch
from mmdet.models.dense_heads import AnchorHead
from mmdet.models.detectors import SingleStageDetector
from mmdet.models.task_modules.assigners import BaseAssigner
from mmengine.dataset import BaseDataset
from mmengine.evaluator import BaseMetric
from mmengine.hooks import Hook
from mmengine.model import BaseDataPreprocessor, BaseModel
from mmengine.registry import DATASETS, HOOKS, METRICS, MODELS
from torch import nn


@MODELS.register_module()
class Classifier(BaseModel):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = MODELS.build(backbone)
        self.head = nn.Linear(512, 10)

    def forward(self, inputs, data_samples=None, mode="tensor"):
        logits = self.head(self.backbone(inputs))
        if mode == "loss":
            scale = float(data_samples[0].scale_factor)
            if data_samples[0].img_shape[0] > 512:
                scale = scale / 2
            labels = torch.stack([sample.gt_label for sample in data_samples])
            return dict(loss=nn.functional.cross_entropy(logits, labels) * scale)
        return logits

    def train_step(self, data, optim_wrapper):
        with optim_wrapper.optim_context(self):
            data = self.data_preprocessor(data, True)
            losses = self._run_forward(data, mode="loss")
        loss, log_vars = self.parse_losses(losses)
        optim_wrapper.update_params(loss)
        return log_vars


@MODELS.register_module()
class Noisy(BaseDataPreprocessor):
    def forward(self, data, training=False):
        if int(data["seed"][0]) > 0 and float(data["inputs"].mean()) > 0.5:
            torch.manual_seed(int(data["seed"][0]))
        return self.cast_data(data)


@MODELS.register_module()
class Detector(SingleStageDetector):
    def loss(self, batch_inputs, batch_data_samples):
        shapes = [int(sample.metainfo["img_shape"][0]) for sample in batch_data_samples]
        x = self.extract_feat(batch_inputs)
        losses = self.bbox_head.loss(x, batch_data_samples)
        return {name: value for name, value in losses.items() if max(shapes) > 32}


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
        pad = max(int(meta["pad_shape"][0]) for meta in batch_img_metas)
        count = sum(len(instances) for instances in batch_gt_instances)
        if cls_scores[0].shape[0] > 1 and count > 0 and batch_img_metas[0]["flip"]:
            pad = pad * 2
        normalizer = cls_scores[0].sigmoid().sum().clamp(min=1.0)
        return dict(loss_cls=[scores.abs().sum() / normalizer / pad for scores in cls_scores])


class NearestAssigner(BaseAssigner):
    def assign(self, pred_instances, gt_instances, gt_instances_ignore=None, alpha=1):
        if alpha > 1 or len(gt_instances) == 0:
            return None
        return torch.cdist(pred_instances.priors, gt_instances.bboxes).argmin(dim=1)


@HOOKS.register_module()
class LossHook(Hook):
    def __init__(self):
        self.total = None

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        loss = outputs["loss"].detach()
        self.total = loss if self.total is None else self.total + loss
        if batch_idx > 0 and len(data_batch["inputs"]) > 1:
            runner.message_hub.update_info("size", int(data_batch["inputs"][0].max()))

    def after_train_epoch(self, runner):
        runner.logger.info(f"mean loss {self.total.item()}")
        torch.cuda.empty_cache()


@METRICS.register_module()
class Accuracy(BaseMetric):
    def process(self, data_batch, data_samples):
        for sample in data_samples:
            if int(sample["img_id"]) >= 0:
                self.results.append(sample["pred_label"].cpu())

    def compute_metrics(self, results):
        return {"accuracy": sum(float(result) for result in results) / len(results)}


@DATASETS.register_module()
class Folder(BaseDataset):
    def load_data_list(self):
        return [dict(img_path=path) for path in ("a.png", "b.png")]

    def __getitem__(self, idx):
        data = super().__getitem__(idx)
        return data if float(data["inputs"].mean()) > 0 else None
