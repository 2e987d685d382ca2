"""The same without them, and what looks like them."""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import DataCollatorWithPadding, Trainer, TrainerCallback, TrainingArguments
from trl import DPOTrainer, GRPOTrainer


class WeightedTrainer(Trainer):
    def __init__(self, weights, **kwargs):
        super().__init__(**kwargs)
        self.weights = torch.tensor(weights, device=self.args.device)
        self.total = torch.zeros((), device=self.args.device)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        # What the model gives is float32 again, and no region is around this.
        probabilities = outputs.logits.sigmoid()
        loss = F.binary_cross_entropy(probabilities, labels, weight=self.weights)
        self.total += loss.detach()
        return (loss, outputs) if return_outputs else loss

    def evaluate(self, *args, **kwargs):
        print(self.total.item())
        return super().evaluate(*args, **kwargs)

    def _maybe_log_save_evaluate(self, tr_loss, *args, **kwargs):
        if self.control.should_log:
            self.log({"total": self.total.item()})
        super()._maybe_log_save_evaluate(tr_loss, *args, **kwargs)


class LengthTrainer(GRPOTrainer):
    def _prepare_inputs(self, generation_batch):
        # A list of examples as they are.
        self.longest = max(len(example["prompt"]) for example in generation_batch)
        if any(example["image"] is not None for example in generation_batch):
            self.images = True
        return super()._prepare_inputs(generation_batch)


class QuietTrainer(DPOTrainer):
    def dpo_loss(self, chosen_logps, rejected_logps, ref_chosen_logps, ref_rejected_logps):
        margin = (chosen_logps - rejected_logps) - (ref_chosen_logps - ref_rejected_logps)
        if self.args.label_smoothing > 0:
            return -F.logsigmoid(margin) * (1 - self.args.label_smoothing)
        return -F.logsigmoid(margin)


class Reports(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        print(float(logs["loss"]))

    def on_epoch_end(self, args, state, control, model=None, **kwargs):
        for parameter in model.parameters():
            print(parameter.norm().item())

    def on_train_end(self, args, state, control, model=None, **kwargs):
        print(next(model.parameters()).sum().item())


class Collator(DataCollatorWithPadding):
    def __call__(self, features):
        batch = super().__call__(features)
        batch["longest"] = max(len(each["input_ids"]) for each in features)
        return batch


class Tagger(nn.Module):
    """Its `forward` runs in a region of bfloat16, and what it gives is cast to float32."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, features, labels):
        logits = self.layer(features)
        weight = logits / (logits.abs() + 1e-8)
        return {"loss": F.binary_cross_entropy_with_logits(logits, labels), "weight": weight}


class Teacher(nn.Module):
    """It is given to no trainer as its model."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, features, labels):
        return F.binary_cross_entropy(self.layer(features).sigmoid(), labels)


def main(data):
    arguments = TrainingArguments("out", bf16=True, dataloader_pin_memory=True)
    Trainer(model=Tagger(), args=arguments, train_dataset=data).train()
    print(Teacher()(data, data))
