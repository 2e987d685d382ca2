import torch

from train import LATENT, Discriminator, Generator, circle, main


def test_shapes():
    fake = Generator()(torch.randn(4, LATENT))
    assert Discriminator()(fake).shape == (4, 1)


def test_circle():
    assert torch.allclose(circle(9).norm(dim=1), torch.ones(9))


def test_training():
    losses = main(2)
    assert all(0 < loss < 10 for loss in losses)
