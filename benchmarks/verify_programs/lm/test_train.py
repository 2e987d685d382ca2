import torch

from train import Attention, Model, batches, main


def test_attention_is_causal():
    attention = Attention(16, 2)
    x = torch.randn(1, 6, 16)
    changed = x.clone()
    changed[:, 4:] = 0
    assert torch.allclose(attention(x)[:, :4], attention(changed)[:, :4], atol=1e-6)


def test_model():
    (batch,) = batches(1)
    assert Model(30)(batch[:, :-1]).shape == (8, 32, 30)


def test_training():
    assert 0 < main(2) < 5
