"""The same, by the books: statistics stay on the device, where the reporter finds them."""

import torch
from espnet2.asr.decoder.abs_decoder import AbsDecoder
from espnet2.asr.encoder.abs_encoder import AbsEncoder
from espnet2.train.abs_espnet_model import AbsESPnetModel
from espnet2.train.trainer import Trainer
from espnet2.tts.abs_tts import AbsTTS
from torch import nn


class Recognizer(AbsESPnetModel):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, speech, speech_lengths, text, text_lengths, utt_id=None, **kwargs):
        if utt_id is not None and utt_id[0] == "":
            raise ValueError("no name")
        assert speech.shape[0] == text.shape[0]
        hidden, lengths = self.encoder(speech, speech_lengths)
        logits = self.decoder(hidden, lengths, text, text_lengths)
        loss = self.criterion(logits.transpose(1, 2), text)
        return loss, dict(loss=loss.detach()), speech_lengths.sum()

    def collect_feats(self, speech, speech_lengths, text, text_lengths, **kwargs):
        return {"feats": speech, "feats_lengths": speech_lengths}


class Embedder(AbsESPnetModel):
    def forward(self, speech, spk_labels=None, extract_embd=False, **kwargs):
        if extract_embd:
            return speech.mean(dim=1)
        loss = speech.mean() - spk_labels.float().mean()
        return loss, dict(loss=loss.detach()), None

    def collect_feats(self, speech, **kwargs):
        return {}


class Encoder(AbsEncoder):
    def output_size(self):
        return 256

    def forward(self, xs_pad, ilens, prev_states=None):
        if prev_states is not None and prev_states["count"] > 0:
            return xs_pad, ilens, prev_states
        mask = torch.arange(xs_pad.size(1), device=xs_pad.device)[None] < ilens[:, None]
        return xs_pad * mask[:, :, None], ilens, None


class Decoder(AbsDecoder):
    def forward(self, hs_pad, hlens, ys_in_pad, ys_in_lens, return_hs=False):
        return (hs_pad, hlens) if return_hs else (hs_pad, ys_in_lens)

    def score(self, y, state, x):
        return x.sum().log_softmax(-1), int(y[-1])


class Synthesizer(AbsTTS):
    def forward(self, text, text_lengths, feats, feats_lengths, joint_training=False, **kwargs):
        loss = (feats - feats.mean()).abs().mean()
        if joint_training:
            return loss, {}, feats
        return loss, {}, feats_lengths.sum()

    def inference(self, text, **kwargs):
        return {"feat_gen": text}


class Recorder(Trainer):
    @classmethod
    def train_one_epoch(cls, model, iterator, optimizers, schedulers, scaler, reporter, **kwargs):
        norm = sum(float(p.norm()) for p in model.parameters())
        reporter.register({"norm": norm})
        return super().train_one_epoch(model, iterator, optimizers, schedulers, scaler, reporter)
