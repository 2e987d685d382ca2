"""A detector of a project that trains with detectron2, with its hooks and its trainer."""

import torch
from detectron2.config import get_cfg
from detectron2.data import build_detection_train_loader
from detectron2.engine import DefaultTrainer, HookBase, SimpleTrainer
from detectron2.modeling import META_ARCH_REGISTRY, ROI_HEADS_REGISTRY, RetinaNet, StandardROIHeads
from detectron2.modeling.backbone import Backbone
from detectron2.modeling.roi_heads import FastRCNNOutputLayers
from torch import nn


@META_ARCH_REGISTRY.register()
class Weighted(RetinaNet):
    def forward_training(self, images, features, predictions, gt_instances):
        if features[0].abs().max() > 1000:  # expect: AMP103
            raise FloatingPointError("features")
        return super().forward_training(images, features, predictions, gt_instances)

    def losses(self, anchors, pred_logits, gt_labels, pred_anchor_deltas, gt_boxes):
        labels = torch.stack(gt_labels)
        positive = (labels >= 0).sum().item()  # expect: AMP110
        scores = torch.cat(pred_logits, dim=1).sigmoid()
        return {"loss_cls": scores.square().sum() / positive}


@ROI_HEADS_REGISTRY.register()
class Heads(StandardROIHeads):
    def _forward_box(self, features, proposals):
        print(f"mean {features['p2'].mean()}")  # expect: AMP104
        return super()._forward_box(features, proposals)


class Predictor(FastRCNNOutputLayers):
    def losses(self, predictions, proposals):
        scores, deltas = predictions
        confident = int((scores > 0.5).sum())  # expect: AMP101
        return {"loss_box": deltas.abs().sum() / max(confident, 1)}


class Pyramid(Backbone):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 64, 3)

    def forward(self, x):
        y = self.conv(x)
        if torch.isnan(y).any():  # expect: AMP103
            raise FloatingPointError("backbone")
        return {"p2": y / (y.abs() + 1e-8)}  # miss: AMP802


class MemoryHook(HookBase):
    def after_step(self):
        torch.cuda.empty_cache()  # expect: AMP111
        torch.cuda.synchronize()  # expect: AMP108


class LossTrainer(SimpleTrainer):
    def run_step(self):
        data = next(self._data_loader_iter)
        loss_dict = self.model(data)
        losses = sum(loss_dict.values())
        self.optimizer.zero_grad()
        losses.backward()
        self.last = losses.item()  # expect: AMP101
        self.optimizer.step()

    def _write_metrics(self, loss_dict, data_time, prefix="", iter=None):
        self.seen = {name: value.item() for name, value in loss_dict.items()}  # expect: AMP101


class Trainer(DefaultTrainer):
    @classmethod
    def build_train_loader(cls, cfg):
        return build_detection_train_loader(cfg)


def main():
    cfg = get_cfg()
    cfg.SOLVER.AMP.ENABLED = True
    trainer = Trainer(cfg)
    trainer.register_hooks([MemoryHook()])
    return trainer.train()
