"""Facts about functions by which conditions of rules are sorted. (To name one imports no
analysis: `function_traits.py` finds them.)"""

from __future__ import annotations

from enum import Enum


class Trait(Enum):
    """A fact about a function, without which a way cannot hold at any of its nodes; in words, what
    is said where it is lacking."""

    HOT = "nothing in this function is seen to run once per batch of training"
    REGION = "nothing in this function is in an autocast region"
    HALF = "nothing in this function is half, or casts its input to half"
    MISUSED = "no mistake is seen in the training step with a scaler, if this function has one"
