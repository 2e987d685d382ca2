"""A model for the trainer of espnet2, its encoder and its decoder."""

import torch
from espnet2.asr.decoder.abs_decoder import AbsDecoder
from espnet2.asr.encoder.abs_encoder import AbsEncoder
from espnet2.layers.abs_normalize import AbsNormalize
from espnet2.train.abs_espnet_model import AbsESPnetModel
from espnet2.tts.abs_tts import AbsTTS
from torch import nn


class Recognizer(AbsESPnetModel):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, speech, speech_lengths, text, text_lengths, **kwargs):
        text = text[:, : text_lengths.max()]  # expect: AMP105
        hidden, lengths = self.encoder(speech, speech_lengths)
        logits = self.decoder(hidden, lengths, text, text_lengths)
        loss = self.criterion(logits.transpose(1, 2), text)
        stats = dict(loss=loss.item())  # expect: AMP101
        return loss, stats, speech_lengths.sum()

    def collect_feats(self, speech, speech_lengths, text, text_lengths, **kwargs):
        return {"feats": speech, "feats_lengths": speech_lengths}


class Encoder(AbsEncoder):
    def output_size(self):
        return 256

    def forward(self, xs_pad, ilens, prev_states=None):
        longest = ilens.max().item()  # expect: AMP101
        mask = torch.arange(longest, device=xs_pad.device)[None] < ilens[:, None]
        return xs_pad * mask[:, :, None], ilens, None


class Decoder(AbsDecoder):
    def forward(self, hs_pad, hlens, ys_in_pad, ys_in_lens):
        if (ys_in_lens == 0).any():  # expect: AMP103
            raise ValueError("an empty text")
        return hs_pad, ys_in_lens


class Normalize(AbsNormalize):
    def forward(self, input, input_lengths=None):
        print(f"mean {input.mean()}")  # expect: AMP104
        return input, input_lengths


class Synthesizer(AbsTTS):
    def forward(self, text, text_lengths, feats, feats_lengths, durations=None, **kwargs):
        if durations.sum() == 0:  # expect: AMP103
            raise ValueError("no durations")
        loss = (feats - feats.mean()).abs().mean()
        return loss, {}, feats_lengths.sum()

    def inference(self, text, **kwargs):
        return {"feat_gen": text}
