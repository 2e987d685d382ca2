"""A net and a callback of skorch that wait for the device in every batch."""

import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback


class Mixed(NeuralNetClassifier):
    def train_step_single(self, batch, **fit_params):
        inputs, targets = batch
        targets = targets.to("cuda")
        outputs = self.infer(inputs.to("cuda"), **fit_params)
        loss = torch.nn.functional.cross_entropy(outputs, targets)
        loss.backward()
        self.seen += int((targets > 0).sum())  # expect: AMP101
        return {"loss": loss, "y_pred": outputs}


class Watch(Callback):
    def on_batch_end(self, net, batch=None, training=None, **kwargs):
        images = batch[0].cuda()
        net.history.record_batch("mean", images.mean().item())  # expect: AMP101
