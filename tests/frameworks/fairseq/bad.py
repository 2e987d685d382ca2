"""A criterion, a task and a model for fairseq."""

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass.configs import CommonConfig
from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from fairseq.tasks import FairseqTask, register_task
from torch import nn


common = CommonConfig(amp=True)


@register_criterion("smoothed")
class Smoothed(FairseqCriterion):
    def forward(self, model, sample, reduce=True):
        net_output = model(**sample["net_input"])
        loss, nll = self.compute_loss(model, net_output, sample, reduce=reduce)
        logging_output = {
            "loss": loss.item(),  # expect: AMP101
            "longest": sample["net_input"]["src_lengths"].max().item(),  # expect: AMP101
        }
        return loss, sample["ntokens"], logging_output

    def compute_loss(self, model, net_output, sample, reduce=True):
        lprobs = model.get_normalized_probs(net_output, log_probs=True)
        target = sample["target"]
        if target.eq(self.padding_idx).all():  # expect: AMP103
            return lprobs.sum() * 0, lprobs.sum()
        loss = F.nll_loss(lprobs.view(-1, lprobs.size(-1)), target.view(-1))
        probabilities = net_output[0].sigmoid()
        ends = F.binary_cross_entropy(probabilities, target.eq(2).float())  # expect: AMP304
        return loss + ends, loss


@register_task("counting")
class Counting(FairseqTask):
    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        loss, size, logging_output = super().train_step(
            sample, model, criterion, optimizer, update_num, ignore_grad
        )
        self.tokens += sample["target"].ne(0).sum().item()  # expect: AMP101
        return loss, size, logging_output


class Encoder(FairseqEncoder):
    def __init__(self, dictionary):
        super().__init__(dictionary)
        self.embed = nn.Embedding(1000, 512)

    def forward(self, src_tokens, src_lengths=None, **kwargs):
        mask = src_tokens.eq(1)
        if not mask.any():  # expect: AMP103
            mask = None
        return {"encoder_out": [self.embed(src_tokens)], "encoder_padding_mask": [mask]}


class Decoder(FairseqIncrementalDecoder):
    def forward(self, prev_output_tokens, encoder_out=None, incremental_state=None, **kwargs):
        longest = int(prev_output_tokens.ne(1).sum(1).max())  # expect: AMP101
        return prev_output_tokens[:, :longest], None


class Model(FairseqEncoderDecoderModel):
    def forward(self, src_tokens, src_lengths, prev_output_tokens, **kwargs):
        print(f"longest {src_lengths.max()}")  # expect: AMP104
        encoder_out = self.encoder(src_tokens, src_lengths=src_lengths)
        return self.decoder(prev_output_tokens, encoder_out=encoder_out)
