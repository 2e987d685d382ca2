"""Train a generator against a discriminator: two optimizers, one scaler, autocast by decorator."""

import contextlib
import functools
import random
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn
from torch.cuda.amp import GradScaler, autocast


def mixed(function):
    """A decorator of the project that opens an autocast region."""

    @functools.wraps(function)
    def inner(*args, **kwargs):
        with torch.autocast("cuda", dtype=torch.float16):
            return function(*args, **kwargs)

    return inner


@contextlib.contextmanager
def frozen(module):
    """The parameters of a module need no gradient inside."""
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    yield module
    for parameter in module.parameters():
        parameter.requires_grad_(True)


class Generator(nn.Module):
    """From noise to an image."""

    def __init__(self, latent):
        super().__init__()
        self.latent = latent
        self.body = nn.Sequential(nn.Linear(latent, 256), nn.ReLU(), nn.Linear(256, 784))

    def forward(self, z):
        return torch.tanh(self.body(z))

    def sample(self, n):
        device = next(self.parameters()).device
        return self(torch.randn(n, self.latent, device=device))


class Discriminator(nn.Module):
    """From an image to a score."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(784, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1))
        self.register_buffer("scale", torch.ones(()))
        self.seen = 0

    def forward(self, x):
        self.seen += x.size(0)
        score = self.body(x.flatten(1)) * self.scale
        return score.squeeze(1)


class Pool:
    """Images of earlier steps."""

    def __init__(self, size):
        self.size = size
        self.images = []

    def query(self, images):
        chosen = []
        for image in images:
            if len(self.images) < self.size:
                self.images.append(image)
                chosen.append(image)
            elif random.random() > 0.5:
                index = random.randint(0, self.size - 1)
                chosen.append(self.images[index].clone())
                self.images[index] = image
            else:
                chosen.append(image)
        return torch.stack(chosen)


def gradient_penalty(discriminator, real, fake):
    """WGAN-GP."""
    alpha = torch.rand(real.size(0), 1).cuda()  # expect: AMP501
    mixed_images = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    scores = discriminator(mixed_images)
    (gradients,) = torch.autograd.grad(
        scores, mixed_images, torch.ones_like(scores), create_graph=True
    )
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


class Adversary:
    """Both networks and how they are trained."""

    def __init__(self, config):
        self.config = config
        self.generator = Generator(config.latent)
        self.discriminator = Discriminator()
        self.generator.cuda()
        self.discriminator.cuda()
        self.g_optimizer = torch.optim.Adam(self.generator.parameters(), lr=2e-4)
        self.d_optimizer = torch.optim.Adam(self.discriminator.parameters(), lr=2e-4)
        self.scaler = GradScaler(enabled=config.amp)  # expect: AMP702
        self.pool = Pool(50)
        self.losses = {"g": [], "d": []}

    @mixed
    def generator_loss(self, n):
        fake = self.generator.sample(n)
        return F.softplus(-self.discriminator(fake)).mean(), fake

    def discriminator_loss(self, real, fake):
        with autocast(enabled=self.config.amp):  # expect: AMP701
            real_scores = self.discriminator(real)
            fake_scores = self.discriminator(fake.detach())
            loss = F.softplus(-real_scores).mean() + F.softplus(fake_scores).mean()
            right = torch.where(real_scores > 0, real_scores, torch.zeros_like(real_scores))
            self.losses["d"].append(right.mean().tolist())  # expect: AMP101
        return loss

    def step(self, real):
        with frozen(self.discriminator):
            g_loss, fake = self.generator_loss(real.size(0))
            self.g_optimizer.zero_grad()
            self.scaler.scale(g_loss).backward()
            self.scaler.step(self.g_optimizer)
        d_loss = self.discriminator_loss(real, self.pool.query(fake))
        d_loss = d_loss + self.config.penalty * gradient_penalty(self.discriminator, real, fake)
        self.d_optimizer.zero_grad()
        self.scaler.scale(d_loss).backward()
        self.scaler.step(self.d_optimizer)
        self.scaler.update()
        return SimpleNamespace(g=g_loss.detach(), d=d_loss.detach())


def fit(adversary, loader, steps, report):
    """All epochs; `report` is told now and then."""
    data = iter(loader)
    for step in range(steps):
        try:
            images, _ = next(data)
        except StopIteration:
            data = iter(loader)
            images, _ = next(data)
        losses = adversary.step(images.cuda(non_blocking=True))
        if step % 100 == 0:
            report(step, losses.g.item(), losses.d.item())
        if losses.d > 100:  # expect: AMP103
            break


def show(step, g, d):
    """Both losses, as numbers."""
    print(step, g, d)


def make_loader(path):
    """Batches of flattened images."""
    images = torch.load(path)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, images), 64)  # expect: AMP911


if __name__ == "__main__":
    settings = SimpleNamespace(latent=64, amp=True, penalty=10.0)
    fit(Adversary(settings), make_loader("images.pt"), 10000, show)
