import torch

from train import Block, ResNet, main


def test_block_pads_its_shortcut():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    out = Block(4, 8, 2).to(device)(torch.randn(2, 4, 8, 8, device=device))
    assert out.shape == (2, 8, 4, 4)


def test_network():
    assert ResNet()(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_training():
    ((loss, correct, validation),) = main()
    assert 0 <= correct <= 32
    assert loss == loss and validation == validation
