"""The same, by the books: models are given batches of the host, and move them."""

import torch
from detectron2.engine import DefaultTrainer, HookBase
from detectron2.evaluation import DatasetEvaluator
from detectron2.modeling import META_ARCH_REGISTRY, GeneralizedRCNN, RetinaNet, StandardROIHeads
from detectron2.utils.events import get_event_storage


@META_ARCH_REGISTRY.register()
class Sized(GeneralizedRCNN):
    def forward(self, batched_inputs):
        heights = [float(each["height"]) for each in batched_inputs]
        if float(batched_inputs[0]["image"].max()) > 255 or max(heights) < 32:
            raise ValueError("images are to be of bytes")
        images = self.preprocess_image(batched_inputs)
        features = self.backbone(images.tensor)
        proposals, losses = self.proposal_generator(images, features, None)
        if not self.training:
            return self.inference(batched_inputs)
        return losses

    def preprocess_image(self, batched_inputs):
        return super().preprocess_image(batched_inputs)


class Weighted(RetinaNet):
    def losses(self, anchors, pred_logits, gt_labels, pred_anchor_deltas, gt_boxes):
        labels = torch.stack(gt_labels)
        positive = (labels >= 0).sum().clamp(min=1)
        if len(anchors) > 5 and pred_logits[0].shape[0] > 1:
            positive = positive * 2
        return {"loss_cls": torch.cat(pred_logits, dim=1).sum() / positive}


class Heads(StandardROIHeads):
    def _forward_box(self, features, proposals):
        if any(len(each) == 0 for each in proposals) or proposals[0].image_size[0] > 800:
            return {}
        return super()._forward_box(features, proposals)


class PeriodicHook(HookBase):
    def after_step(self):
        if self.trainer.iter % 100 == 0:
            torch.cuda.empty_cache()
        get_event_storage().put_scalar("lr", self.trainer.optimizer.param_groups[0]["lr"])

    def after_train(self):
        torch.cuda.synchronize()


class Counter(DatasetEvaluator):
    def reset(self):
        self.scores = []

    def process(self, inputs, outputs):
        for given, output in zip(inputs, outputs):
            if int(given["image_id"]) >= 0:
                self.scores.append(output["instances"].scores.cpu())

    def evaluate(self):
        return {"mean": torch.cat(self.scores).mean().item()}


class Trainer(DefaultTrainer):
    @classmethod
    def build_evaluator(cls, cfg, dataset_name):
        return Counter()
