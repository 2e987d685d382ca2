"""Witnesses: the proof that a claim is true, by a run of the fixture of its rule."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Witness:
    """A claim about running the bad and the fixed program of a rule's fixture."""


@dataclass(frozen=True)
class Raises(Witness):
    """The bad program raises an error whose text holds `text`; the fixed one runs.

    Args:
        text: in upper or lower case.
        on_gpu: what CUDA's kernels say in its place, where they have other words.
        devices: whether the error is about devices, and not about dtypes.
        policy: whether it is CUDA autocast that raises it, and no kernel.
        backward: whether it is the backward pass that raises it: back ends without values only
            model that pass.
    """

    text: str
    on_gpu: str = ""
    devices: bool = False
    policy: bool = False
    backward: bool = False


@dataclass(frozen=True)
class Dtype(Witness):
    """The bad program returns a tensor of dtype `bad`, the fixed one of dtype `good`."""

    bad: str
    good: str


@dataclass(frozen=True)
class Differs(Witness):
    """The results of the bad and the fixed program differ by more than `rtol`, relatively."""

    rtol: float


@dataclass(frozen=True)
class Same(Witness):
    """The results are bitwise equal: the fix saves work and changes nothing else."""


@dataclass(frozen=True)
class Syncs(Witness):
    """Reads of the device by the host: at least `before` in the bad program, `after` when fixed."""

    before: int
    after: int


@dataclass(frozen=True)
class Warns(Witness):
    """The bad program warns with a text that holds `text`; the fixed one does not."""

    text: str


@dataclass(frozen=True)
class Unrun(Witness):
    """Nothing here can run the claim; `reason` says why, `source` where the claim comes from."""

    reason: str
    source: str


NOT_RUN = Unrun("no witness is given", "")
NOT_WRITTEN = "not written yet"  # the reason in a rule that was just started; it may not stay
