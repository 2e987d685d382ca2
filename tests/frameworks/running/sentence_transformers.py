"""A trainer and a loss of one's own for sentence-transformers."""

import tempfile

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.models import Pooling, WordEmbeddings
from sentence_transformers.models.tokenizer import WhitespaceTokenizer
from transformers import TrainerCallback

EPOCHS, BATCHES, ACCUMULATED, VALIDATED = 2, 6, 3, 5
TRAINED, EVALUATED = EPOCHS * BATCHES, EPOCHS * VALIDATED
STEPS, ALL = TRAINED // ACCUMULATED, TRAINED + EVALUATED
PRECISION = ("sentence_transformers.trainer.SentenceTransformerTrainingArguments", "bf16", True)
COUNTS = {
    # A batch is a dict of seven values.
    "micro-batch": [TRAINED, ALL, 8 * ALL, TRAINED - STEPS],
    "step": [STEPS],
    "evaluation-batch": [EVALUATED],
    "epoch": [EPOCHS],
    "once": [1],
}
LEFT_OUT = {
    "Alike.forward": "the loss runs outside of the region, which is around the model",
    "_compute_loss": "of trl",
    "compute_ref_log_probs": "of trl",
    "create_optimizer_and_scheduler": "of releases before 5",
    "on_predict": "nothing is predicted",
}


class Net(SentenceTransformer):
    def forward(self, features):
        return super().forward(features)


class Alike(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, features, labels):
        a, b = (self.model(each)["sentence_embedding"] for each in features)
        return torch.nn.functional.mse_loss(torch.cosine_similarity(a, b), labels.float())


class Doubled(SentenceTransformerTrainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)


class Watch(TrainerCallback):
    def on_step_end(self, args, state, control, model=None, **kwargs):
        self.step = state.global_step


def elements(batches):
    texts = ["red fox", "blue whale"] * batches
    return Dataset.from_dict({"a": texts, "b": texts[::-1], "label": [0.0, 1.0] * batches})


def main():
    words = ["red", "fox", "blue", "whale"]
    embeddings = WordEmbeddings(WhitespaceTokenizer(words), torch.randn(5, 4), update_embeddings=True)
    model = Net(modules=[embeddings, Pooling(4)], device="cpu")
    arguments = SentenceTransformerTrainingArguments(
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
    Doubled(
        model,
        arguments,
        train_dataset=elements(BATCHES),
        eval_dataset=elements(VALIDATED),
        loss=Alike(model),
        callbacks=[Watch()],
    ).train()
