"""A trainer and a callback of transformers, with evaluation and a generation."""

import tempfile

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LogitsProcessor,
    LogitsProcessorList,
    PretrainedConfig,
    PreTrainedModel,
    StoppingCriteria,
    StoppingCriteriaList,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

EPOCHS, BATCHES, ACCUMULATED, VALIDATED, PREDICTED, GENERATED = 2, 6, 3, 5, 3, 7
TRAINED, EVALUATED = EPOCHS * BATCHES, EPOCHS * VALIDATED + PREDICTED
STEPS, ALL = TRAINED // ACCUMULATED, TRAINED + EVALUATED
PRECISION = ("transformers.training_args.TrainingArguments", "bf16", True)
COUNTS = {
    # The loss is for those of evaluation, too; each batch is a dict of two tensors; no substep
    # ends where a step does.
    "micro-batch": [TRAINED, ALL, 3 * ALL, TRAINED - STEPS],
    "step": [STEPS],
    "evaluation-batch": [EVALUATED, GENERATED],
    "epoch": [EPOCHS, EPOCHS + 1, 1],  # what is predicted is evaluated, too
    "once": [1],
}
LEFT_OUT = {
    "Words.forward": "it is no model of the trainer",
    "_compute_loss": "of trl",
    "compute_ref_log_probs": "of trl",
    "create_optimizer_and_scheduler": "of releases before 5",
}


class Net(PreTrainedModel):
    config_class = PretrainedConfig

    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(4, 3)
        self.post_init()

    def forward(self, x, labels=None):
        return {"logits": self.layer(x)}


class Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = torch.nn.functional.cross_entropy(outputs["logits"], labels)
        return (loss, outputs) if return_outputs else loss

    def training_step(self, model, inputs, num_items_in_batch=None):
        return super().training_step(model, inputs, num_items_in_batch)

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad():
            loss, outputs = self.compute_loss(model, inputs, return_outputs=True)
        return loss, outputs["logits"], None


class Watch(TrainerCallback):
    def on_step_end(self, args, state, control, model=None, **kwargs):
        self.step = state.global_step


class Less(LogitsProcessor):
    def __call__(self, input_ids, scores):
        return scores / 2


class Never(StoppingCriteria):
    def __call__(self, input_ids, scores, **kwargs):
        return torch.zeros(len(input_ids), dtype=torch.bool)


class Words(GPT2LMHeadModel):
    def prepare_inputs_for_generation(self, input_ids, **kwargs):
        return super().prepare_inputs_for_generation(input_ids, **kwargs)


def elements(batches):
    return [{"x": torch.randn(4), "labels": i % 3} for i in range(2 * batches)]


def main():
    arguments = TrainingArguments(
        tempfile.mkdtemp(),
        bf16=True,
        use_cpu=True,
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=2,
        per_device_eval_batch_size=2,
        gradient_accumulation_steps=ACCUMULATED,
        eval_strategy="epoch",
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
    )
    trainer = Weighted(
        Net(PretrainedConfig()),
        arguments,
        train_dataset=elements(BATCHES),
        eval_dataset=elements(VALIDATED),
        callbacks=[Watch()],
    )
    trainer.train()
    trainer.predict(elements(PREDICTED))
    words = Words(GPT2Config(vocab_size=9, n_embd=4, n_layer=1, n_head=1, eos_token_id=None))
    words.generate(
        torch.ones(1, 1, dtype=torch.long),
        max_new_tokens=GENERATED,
        logits_processor=LogitsProcessorList([Less()]),
        stopping_criteria=StoppingCriteriaList([Never()]),
        pad_token_id=0,
    )
