"""A recipe of speechbrain that waits for the device in what the Brain calls for every batch."""

import sys

import speechbrain as sb
import torch
from hyperpyyaml import load_hyperpyyaml


class Recogniser(sb.Brain):
    def compute_forward(self, batch, stage):
        batch = batch.to(self.device)
        wavs, lens = batch.sig
        longest = (lens * wavs.shape[1]).max().item()  # expect: AMP101
        mask = torch.ones(wavs.shape[0], wavs.shape[1]).to(self.device)  # expect: AMP501
        feats = self.hparams.compute_features(wavs * mask)
        if torch.isnan(feats).any():  # expect: AMP103
            feats = torch.nan_to_num(feats)
        weights = torch.tensor([0.2, 0.8]).to(self.device)  # expect: AMP502
        return self.modules.model(feats, lens, longest), weights

    def compute_objectives(self, predictions, batch, stage):
        logits, weights = predictions
        if logits.max() > 50:  # expect: AMP103
            logits = logits.clamp(max=50)
        return sb.nnet.losses.nll_loss(logits, batch.label.data, weight=weights)

    def on_fit_batch_end(self, batch, outputs, loss, should_step):
        self.losses.append(loss.item())  # expect: AMP101
        print(f"norm {float(outputs[0].norm())}")  # expect: AMP101


class Counting(sb.core.Brain):
    def fit_batch(self, batch):
        batch = batch.to(self.device)
        self.frames += int(batch.sig.lengths.sum())  # expect: AMP101
        with self.training_ctx:
            outputs = self.compute_forward(batch, sb.Stage.TRAIN)
            loss = self.compute_objectives(outputs, batch, sb.Stage.TRAIN)
        self.scaler.scale(loss).backward()
        self.history.append(loss.item())  # expect: AMP101
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return loss.detach()


if __name__ == "__main__":
    file, options, overrides = sb.parse_arguments(sys.argv[1:])
    with open(file, encoding="utf-8") as yaml:
        hparams = load_hyperpyyaml(yaml, overrides)
    brain = Recogniser(hparams["modules"], hparams["opt_class"], hparams, options)
    brain.fit(range(10), hparams["train_set"], hparams["valid_set"])
