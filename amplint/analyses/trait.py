"""Facts about functions by which conditions of rules are sorted. (To name one imports no
analysis: `traits.py` finds them.)"""

from __future__ import annotations

from enum import Enum


class Trait(Enum):
    """A fact about a function, without which a way cannot hold at any of its nodes."""

    HOT = "something in it runs for every batch of training"
    REGION = "something in it is in an autocast region, which is on or off"
    HALF = "something in it is half, or casts its input to half"
    MISUSED = "the calls of a training step with a scaler are wrong in it"
    WORKER = "it runs in a worker process of a loader"
    CAPTURED = "its operations are captured in a graph"
