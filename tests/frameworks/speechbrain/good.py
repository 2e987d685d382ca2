"""What a recipe of speechbrain may do: on the host, between epochs, and in evaluation alone."""

import speechbrain as sb
import torch


class Recogniser(sb.Brain):
    def compute_forward(self, batch, stage):
        _, host_lens = batch.sig
        longest = int(host_lens.max())  # not moved yet
        batch = batch.to(self.device)
        wavs, lens = batch.sig
        mask = torch.ones(wavs.shape[0], wavs.shape[1], device=self.device)
        return self.modules.model(wavs * mask, lens, longest)

    def compute_objectives(self, predictions, batch, stage):
        loss = sb.nnet.losses.nll_loss(predictions, batch.label.data)
        self.total = self.total + loss.detach()
        if self.step % 100 == 0:
            print(loss.item())
        if stage == sb.Stage.VALID:
            self.errors.append(loss.item())
        return loss

    def fit_batch(self, batch):
        outputs = self.compute_forward(batch, sb.Stage.TRAIN)
        loss = self.compute_objectives(outputs, batch, sb.Stage.TRAIN)
        loss.backward()
        self.optimizer.step()
        return loss.detach().cpu()  # as `Brain` reads it in any case

    def on_fit_batch_start(self, batch, should_step):
        if should_step and self.optimizer_step == 500:
            self.hparams.warm = False

    def on_stage_start(self, stage, epoch=None):
        self.total = torch.zeros((), device=self.device)
        self.error = self.hparams.error_stats() if stage != sb.Stage.TRAIN else None

    def on_stage_end(self, stage, stage_loss, epoch=None):
        print(stage, stage_loss, self.total.item())  # once in an epoch


class OnTheHost:
    """No Brain: nobody says that its methods run for every batch."""

    def compute_forward(self, batch, stage):
        return batch.sum().item()
