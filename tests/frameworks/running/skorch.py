"""A net and a callback of skorch; then it predicts."""

import numpy as np
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback
from skorch.dataset import ValidSplit

EPOCHS, BATCHES, VALIDATED, PREDICTED = 2, 6, 3, 7
TRAINED, EVALUATED = EPOCHS * BATCHES, EPOCHS * VALIDATED
COUNTS = {
    # What is told of batches, and the loss, is for those of validation, too.
    "micro-batch": [TRAINED, TRAINED + EVALUATED, TRAINED + EVALUATED + PREDICTED],
    "evaluation-batch": [EVALUATED, EVALUATED + PREDICTED, PREDICTED],
    "epoch": [EPOCHS],
    "once": [1],
}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, X):
        return self.layer(X).softmax(-1)


class Weighted(NeuralNetClassifier):
    def get_loss(self, y_pred, y_true, X=None, training=False):
        return 2 * super().get_loss(y_pred, y_true, X=X, training=training)


class Watch(Callback):
    def on_grad_computed(self, net, named_parameters, **kwargs):
        self.norm = max(p.grad.norm() for _, p in named_parameters)


def main():
    rows = 2 * (BATCHES + VALIDATED)
    x = np.random.default_rng(0).normal(size=(rows, 4)).astype("float32")
    y = np.arange(rows) % 3
    fold = [(np.arange(2 * BATCHES), np.arange(2 * BATCHES, rows))]
    net = Weighted(
        Net,
        max_epochs=EPOCHS,
        batch_size=2,
        train_split=ValidSplit(fold),
        callbacks=[Watch()],
        verbose=0,
    )
    net.fit(x, y)
    net.predict(x[: 2 * PREDICTED])
