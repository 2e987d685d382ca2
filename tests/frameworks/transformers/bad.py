"""Trainers and callbacks of transformers and trl, with mistakes."""

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import Seq2SeqTrainer, Trainer, TrainerCallback, TrainingArguments
from trl import CPOTrainer, DPOTrainer, GRPOTrainer


class DistillingTrainer(Trainer):
    def __init__(self, teacher, **kwargs):
        super().__init__(**kwargs)
        self.teacher = teacher
        self.losses = []

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        with torch.no_grad():
            taught = self.teacher(**inputs).logits
        weights = torch.tensor([1.0, 4.0]).to(self.args.device)  # expect: AMP502
        loss = F.cross_entropy(outputs.logits, labels, weight=weights)
        if (labels == -100).any():  # expect: AMP103
            loss = loss + F.mse_loss(outputs.logits, taught)
        self.losses.append(loss.item())  # expect: AMP101
        return (loss, outputs) if return_outputs else loss


class CountingTrainer(Seq2SeqTrainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        self.tokens += inputs["attention_mask"].sum().item()  # expect: AMP101
        prepared = self._prepare_inputs(inputs)
        self.longest = max(self.longest, int(prepared["lengths"].max()))  # expect: AMP101
        return super().training_step(model, inputs, num_items_in_batch)


class MarginTrainer(DPOTrainer):
    def dpo_loss(self, policy_chosen, policy_rejected, ref_chosen, ref_rejected):
        margin = (policy_chosen - policy_rejected) - (ref_chosen - ref_rejected)
        self.margin = margin.mean().item()  # expect: AMP101
        return -F.logsigmoid(0.1 * margin), policy_chosen, policy_rejected

    def get_batch_loss_metrics(self, model, batch, train_eval="train"):
        forwarded = self.concatenated_forward(model, batch)
        metrics = {"tokens": batch["chosen_labels"].ne(-100).sum().item()}  # expect: AMP101
        return forwarded["loss"], metrics


class SimpleTrainer(CPOTrainer):
    def cpo_loss(self, chosen, rejected):
        margin = (chosen - rejected).float()
        self.history.append(margin.cpu().numpy())  # expect: AMP101
        return -F.logsigmoid(margin), chosen, rejected


class EntropyTrainer(GRPOTrainer):
    def _compute_loss(self, model, inputs):
        mask = inputs["completion_mask"]
        loss = (inputs["advantages"] * mask).sum()
        self.completed.append(mask.float().mean().item())  # expect: AMP101
        return loss


class GradientNorms(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        for parameter in model.parameters():
            self.norms.append(parameter.grad.norm().item())  # expect: AMP101

    def on_step_end(self, args, state, control, **kwargs):
        torch.cuda.empty_cache()  # expect: AMP111


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, features, labels):
        inside = self.layer(features).sigmoid()
        weight = inside / (inside.abs() + 1e-8)  # expect: AMP802
        return {"loss": F.binary_cross_entropy(inside, labels), "weight": weight}  # expect: AMP304


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, features, labels):
        return {"loss": F.binary_cross_entropy(self.layer(features).sigmoid(), labels)}  # expect: AMP304


def main(data):
    arguments = TrainingArguments("out", fp16=True, gradient_accumulation_steps=4)
    Trainer(model=Tagger(), args=arguments, train_dataset=data).train()
    ranker = get_peft_model(Ranker(), LoraConfig())
    DistillingTrainer(None, model=ranker, args=arguments, train_dataset=data).train()
