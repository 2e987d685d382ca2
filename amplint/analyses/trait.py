"""Facts about functions by which conditions of rules are sorted. (To name one imports no
analysis: `traits.py` finds them.)"""

from __future__ import annotations

from enum import Enum


class Trait(Enum):
    """A fact about a function, without which a way cannot hold at any of its nodes."""

    HOT = "something in it runs for every batch of training"
    REGION = "something in it stands in an autocast region, be it on or off"
    HALF = "something in it is half, or makes half of what it is given"
    MISUSED = "something is wrong in it with the calls of a training step with a scaler"
    WORKER = "it runs in a worker process of a loader"
    CAPTURED = "a graph of what runs in it is captured"
