"""The same, by the books: what is logged stays on the device until it is reduced."""

import torch.nn.functional as F
from fairseq import metrics
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.data import FairseqDataset
from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from fairseq.tasks import FairseqTask, register_task
from torch import nn


@register_criterion("smoothed")
class Smoothed(FairseqCriterion):
    def forward(self, model, sample, reduce=True):
        net_output = model(**sample["net_input"])
        loss = self.compute_loss(model, net_output, sample, reduce=reduce)
        if not reduce:
            loss = loss.sum()
        logging_output = {
            "loss": loss.data,
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
        }
        return loss, sample["ntokens"], logging_output

    def compute_loss(self, model, net_output, sample, reduce=True):
        lprobs = model.get_normalized_probs(net_output, log_probs=True)
        target = model.get_targets(sample, net_output)
        return F.nll_loss(lprobs.view(-1, lprobs.size(-1)), target.view(-1))

    @staticmethod
    def reduce_metrics(logging_outputs):
        loss = sum(float(log.get("loss", 0)) for log in logging_outputs)
        metrics.log_scalar("loss", loss)


@register_task("counting")
class Counting(FairseqTask):
    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        model.train()
        if update_num > 1000:
            model.set_num_updates(update_num)
        loss, size, logging_output = criterion(model, sample)
        if ignore_grad:
            loss = loss * 0
        optimizer.backward(loss)
        return loss, size, logging_output

    def begin_epoch(self, epoch, model):
        self.norm = sum(float(p.norm()) for p in model.parameters())


class Encoder(FairseqEncoder):
    def __init__(self, dictionary):
        super().__init__(dictionary)
        self.embed = nn.Embedding(1000, 512)

    def forward(self, src_tokens, src_lengths=None, return_all_hiddens=False, **kwargs):
        states = [] if return_all_hiddens else None
        if src_lengths is None or src_tokens.size(1) > 1000:
            src_tokens = src_tokens[:, :1000]
        return {"encoder_out": [self.embed(src_tokens)], "encoder_states": states}


class Decoder(FairseqIncrementalDecoder):
    def forward(self, prev_output_tokens, encoder_out=None, incremental_state=None, **kwargs):
        if incremental_state is not None and len(incremental_state) > 0:
            prev_output_tokens = prev_output_tokens[:, -1:]
        if encoder_out is not None and len(encoder_out["encoder_out"]) > 0:
            return prev_output_tokens, None
        return prev_output_tokens, {}


class Model(FairseqEncoderDecoderModel):
    def forward(self, src_tokens, src_lengths, prev_output_tokens, features_only=False, layer=None):
        if features_only or layer:
            return self.encoder(src_tokens, src_lengths=src_lengths)
        return self.decoder(prev_output_tokens)


class Pairs(FairseqDataset):
    def __getitem__(self, index):
        return {"id": index, "source": self.source[index]}

    def collater(self, samples):
        longest = max(int(sample["source"].ne(1).sum()) for sample in samples)
        return {"ntokens": longest * len(samples)}
