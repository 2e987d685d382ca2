"""The benchmark of what all fixes keep, on small projects with rules whose fixes do not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent

import pytest

from amplint.fix.applying import UNSAFE
from amplint.fix.rounds import Rounds
from amplint.rule.rule import Rule
from benchmarks.fix_invariants import Invariants, Tried, drawn, invariants_of, keep, report
from tests.helpers import request as real_request
from tests.helpers import write
from tests.unit.test_fixing import on_call, rename, request

NOTHING = Tried(0, (), ())


def found(root: Path, rules: Iterable[Rule], text: str, most: int = 9) -> Invariants:
    return invariants_of(request(root, rules, a=text), most, seed=0)


def test_fixes_that_keep_both(tmp_path: Path) -> None:
    kept = found(tmp_path, [rename("AMP900", "old", "next")], "old(1)\nold(2)\n")
    assert kept.hold and kept.alone == {}
    assert kept.fixes == kept.tried == {"AMP900": 2}
    assert kept.safe == kept.every == Tried(2, (), ())


def test_a_fix_that_leaves_an_unbound_name(tmp_path: Path) -> None:
    text = "def f(steps):\n    old(1)\n    for step in steps:\n        old(2)\n"
    kept = found(tmp_path, [rename("AMP900", "old", "step.run")], text)
    said = ("a.py:2: AMP900 not fixed: `step` may not be bound there",)
    assert not kept.hold
    assert kept.alone == {"a.py:2 AMP900": Tried(0, said, ())}
    assert kept.safe == kept.every == Tried(1, said, ())


def test_a_fix_that_brings_a_mistake(tmp_path: Path) -> None:
    rules = [rename("AMP900", "old", "next"), on_call("AMP901", "next(2)")]
    kept = found(tmp_path, rules, "old(1)\nold(2)\n")
    said = ("AMP901 amp901 (a.py:2: `next(2)` is wrong)",)
    assert not kept.hold
    assert kept.alone == {"a.py:2 AMP900": Tried(1, (), said)}
    assert kept.safe == kept.every == Tried(2, (), said)
    assert f"  a.py:2 AMP900: {said[0]}" in report("a", kept).splitlines()


def test_fixes_that_bring_a_mistake_together_alone(tmp_path: Path) -> None:
    rules = [rename("AMP900", "old", "next"), on_call("AMP901", "next(\n    next(1)\n)")]
    kept = found(tmp_path, rules, "old(\n    old(1)\n)\n")
    assert kept.alone == {} and not kept.hold
    assert kept.every.mistakes


@pytest.mark.parametrize("seed", range(3))
def test_each_rule_has_one_before_another_has_two(tmp_path: Path, seed: int) -> None:
    rules = [rename("AMP900", "old", "next"), rename("AMP901", "odd", "next")]
    text = "".join(f"old({number})\n" for number in range(9)) + "odd(1)\n"
    rounds = Rounds(request(tmp_path, rules, a=text), UNSAFE)
    named = rounds.named(rounds.first)
    for most, codes in (2, {"AMP900": 1, "AMP901": 1}), (3, {"AMP900": 2, "AMP901": 1}):
        chosen = drawn(named, most, seed)
        assert Counter(each.finding.code for each in chosen) == codes
        assert chosen == drawn(named, most, seed)
    assert len(drawn(named, 99, seed)) == 10


def test_results_stand_beside_those_of_other_packages(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    for name, number in ("b 1", 1), ("a 1", 2), ("b 1", 3):
        keep(name, {"most": number}, out)
    assert json.loads(out.read_text()) == {"a 1": {"most": 2}, "b 1": {"most": 3}}


ATTENTION = """
    import torch
    from torch import nn


    class Attention(nn.Module):
        def __init__(self, width, heads, temperature=0.07):
            super().__init__()
            self.heads, self.temperature = heads, temperature
            self.project = nn.Linear(width, 3 * width)

        def forward(self, x, mask):
            batch, length, width = x.shape
            split = self.project(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            query, key, value = split
            scores = query @ key.transpose(-2, -1) * (width // self.heads) ** -0.5
            scores = scores / self.temperature
            scores = scores.masked_fill(mask == 0, -1e9)
            return (scores.softmax(-1) @ value).sum(1)


    def train(loader, device):
        model = Attention(64, 4).to(device)
        optimizer = torch.optim.AdamW(model.parameters())
        scaler = torch.cuda.amp.GradScaler()
        for x, mask in loader:
            optimizer.zero_grad()
            with torch.cuda.amp.autocast():
                loss = model(x.to(device), mask.to(device)).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""
CANVAS = """
    import torch
    from torch import nn
    from torch.cuda.amp import GradScaler, autocast


    class Scatter(nn.Module):
        def forward(self, pillars, at):
            canvas = torch.cuda.FloatTensor(64, 100).zero_()
            canvas[:, at] = pillars.t()
            return canvas


    def train(backbone, loader):
        scatter, backbone = Scatter(), backbone.cuda()
        optimizer = torch.optim.SGD(backbone.parameters(), lr=0.1)
        scaler = GradScaler("cuda")
        total = 0
        for pillars, at in loader:
            with autocast():
                loss = backbone(scatter(pillars.cuda(), at.cuda())).mean()
                scaler.scale(loss).backward()
            total += loss
            torch.nn.utils.clip_grad_norm_(backbone.parameters(), 1.0)
            scaler.step(optimizer)
        return total
"""
TWO_CLIPS = """
    import torch
    from torch import nn


    class Loop:
        def __init__(self, model, use_amp):
            self.model, self.use_amp = model.cuda(), use_amp
            self.scaler = torch.cuda.amp.GradScaler() if use_amp else None
            self.optimizers = [torch.optim.Adam(self.model.parameters())]

        def run(self, loader):
            for x in loader:
                loss = self.model(x.cuda()).mean()
                if self.scaler is not None:
                    self.scaler.scale(loss).backward()
                else:
                    loss.backward()
                nn.utils.clip_grad_norm_(self.model.encoder.parameters(), 1.0)
                nn.utils.clip_grad_norm_(self.model.head.parameters(), 1.0)
                for optimizer in self.optimizers:
                    if self.scaler is not None:
                        self.scaler.step(optimizer)
                        self.scaler.update()
                    else:
                        optimizer.step()

        def fine_tune(self, loader, optimizer):
            for x in loader:
                optimizer.zero_grad()
                self.model(x.cuda()).mean().backward()
                if self.scaler is not None:
                    self.scaler.step(optimizer)
                    self.scaler.update()
                else:
                    optimizer.step()
"""
LOADER = """
    import argparse
    import torch
    from torch.utils.data import DataLoader, Dataset


    class Rows(Dataset):
        def __init__(self, rows):
            self.rows = rows

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, number):
            return torch.tensor(self.rows[number]).cuda()


    def main(rows, model):
        parser = argparse.ArgumentParser()
        parser.add_argument("--workers", type=int, default=4)
        args = parser.parse_args()
        loader = DataLoader(Rows(rows), batch_size=8, num_workers=args.workers)
        optimizer = torch.optim.SGD(model.cuda().parameters(), lr=0.1)
        losses = []
        for x in loader:
            optimizer.zero_grad()
            noise = torch.randn(x.shape).cuda()
            loss = model(x + noise).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss)
            print(loss.item())
        return sum(losses)
"""
APEX = """
    from apex import amp
    import torch


    def train(model, loader):
        optimizer = torch.optim.SGD(model.cuda().parameters(), lr=0.1)
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
            torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
            optimizer.step()
"""
LIGHTNING = """
    import lightning as L
    import torch


    class Lit(L.LightningModule):
        def training_step(self, batch, number):
            with torch.cuda.amp.autocast():
                loss = self.model(batch + torch.zeros(4).cuda()).mean()
            self.log("loss", loss.item())
            return loss


    def main(data):
        L.Trainer(gpus=[0], precision=16, amp_backend="native").fit(Lit(), data)
"""
PROGRAMS = {
    "attention under autocast": (ATTENTION, {"AMP701", "AMP702", "AMP801"}),
    "a canvas and a scaler": (
        CANVAS, {"AMP301", "AMP403", "AMP404", "AMP417", "AMP504", "AMP701", "AMP901"}
    ),
    "a scaler that may be absent": (TWO_CLIPS, {"AMP402", "AMP702"}),
    "a loader and its workers": (LOADER, {"AMP501", "AMP901"}),
    "apex": (APEX, {"AMP705"}),
    "Lightning": (LIGHTNING, {"AMP611", "AMP613", "AMP614", "AMP701"}),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_in_which_fixes_meet(tmp_path: Path, name: str) -> None:
    """Each fix alone and all together, where several rules write into one function."""
    text, codes = PROGRAMS[name]
    files = {"a.py": dedent(text).encode()}
    write(files, tmp_path)
    kept = invariants_of(real_request(files, tmp_path), most=99, seed=0)
    assert kept.hold, report(name, kept)
    assert kept.tried.keys() >= codes
