"""The ways in which the protocol of a GradScaler is violated."""

from __future__ import annotations

from enum import Enum, auto


class Violation(Enum):
    """A violation; of several at one call, the first in this order is reported."""

    STEP_BYPASSES_SCALER = auto()
    STEP_BYPASSES_CHECK = auto()
    STEPPED_AGAIN = auto()
    BACKWARD_BYPASSES_SCALER = auto()
    MISSING_UPDATE = auto()
    CLIP_BEFORE_UNSCALE = auto()
    UNSCALED_TWICE = auto()
    UNSCALED_OR_CLIPPED_AFTER_STEP = auto()
    OUT_OF_ORDER = auto()
    CLEARED_BEFORE_STEP = auto()
    HALF_PARAMETERS = auto()
    UNSCALED_EVERY_MICRO_BATCH = auto()
    STATE_NOT_SAVED = auto()
    SCALED_GRADIENTS_READ = auto()
    SCHEDULER_BEFORE_OPTIMIZER = auto()
    EPSILON_OF_ZERO = auto()
    STEPS_LOST = auto()
