"""A GAN on points of a circle: two networks, two optimizers, one GradScaler."""

import argparse

import torch
import torch.nn as nn

LATENT = 8


class Generator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(LATENT, width), nn.LeakyReLU(0.2), nn.Linear(width, width),
            nn.LeakyReLU(0.2), nn.Linear(width, 2),
        )

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(width, 1)
        )

    def forward(self, x):
        return self.net(x)


def circle(size):
    angle = torch.rand(size) * 6.2831853
    return torch.stack([angle.cos(), angle.sin()], dim=1)


def train(steps, device, size=16):
    generator, discriminator = Generator().to(device), Discriminator().to(device)
    opt_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    scaler = torch.cuda.amp.GradScaler(init_scale=1024.0)
    d_total, g_total = 0.0, 0.0
    for step in range(steps):
        real = circle(size).to(device)
        z = torch.randn(size, LATENT).to(device)
        ones = torch.ones(size, 1).to(device)
        zeros = torch.zeros(size, 1).to(device)

        opt_d.zero_grad()
        with torch.cuda.amp.autocast():
            fake = generator(z)
            loss_d = criterion(discriminator(real), ones)
            loss_d = loss_d + criterion(discriminator(fake.detach()), zeros)
        scaler.scale(loss_d).backward()
        scaler.step(opt_d)

        opt_g.zero_grad()
        with torch.cuda.amp.autocast():
            loss_g = criterion(discriminator(fake), ones)
        scaler.scale(loss_g).backward()
        scaler.step(opt_g)
        scaler.update()

        d_total += loss_d.item()
        g_total += loss_g.item()
        if step % 100 == 99:
            print(step, d_total / (step + 1), g_total / (step + 1))
    return d_total / steps, g_total / steps


def main(steps=3, batch_size=16):
    torch.manual_seed(0)
    return train(steps, "cuda" if torch.cuda.is_available() else "cpu", batch_size)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    print(main(parser.parse_args().steps))
