"""A trainer and an evaluator of ignite, with a metric of one's own."""

import ignite.distributed as idist
import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Metric
from torch.utils.data import TensorDataset

EPOCHS, BATCHES, VALIDATED = 2, 6, 5
COUNTS = {
    "evaluation-batch": [EPOCHS * VALIDATED],
    "epoch": [EPOCHS, EPOCHS + 1],  # a metric is reset as it is built, too
}


class Correct(Metric):
    def reset(self):
        self.correct, self.seen = torch.zeros((), device=self._device), 0

    def update(self, output):
        y_pred, y = output
        self.correct += (y_pred.argmax(1) == y).sum()
        self.seen += len(y)

    def compute(self):
        return self.correct.item() / self.seen


def loader(batches):
    data = TensorDataset(torch.randn(2 * batches, 4), torch.randint(0, 3, (2 * batches,)))
    return idist.auto_dataloader(data, batch_size=2)


def main():
    model = torch.nn.Linear(4, 3)
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.1))
    criterion = torch.nn.functional.cross_entropy
    trainer = create_supervised_trainer(model, optimizer, criterion, device="cpu")
    evaluator = create_supervised_evaluator(model, {"correct": Correct()}, device="cpu")
    validation = loader(VALIDATED)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda _: evaluator.run(validation))
    trainer.run(loader(BATCHES), max_epochs=EPOCHS)
