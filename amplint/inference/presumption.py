"""The autocast region that is presumed around functions which nobody is seen to call.

A library's modules and losses are called by its users, and an engine's training step by the engine:
the region around them is out of sight. Where the project itself shows that it trains under
autocast, such a function is presumed to run in one. What is found on this presumption says so, and
names the sign.

The presumption ends at the first call that is seen, whether that stands in a region or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from amplint.core.values import Evidence, Place, Region, Shows
from amplint.inference.store import TEST_PATH
from amplint.ir.file_set import Files
from amplint.ir.model import FunctionFacts

# What is written where a project trains under autocast, the plainest first, by a part of it. That
# part is looked for before the pattern, since an editor asks again after each edit: over timm
# 0.9.16 it takes 5 ms instead of 127.
SIGNS = {
    "autocast(": re.compile(r"\bautocast\((?!.*enabled=False)"),
    "GradScaler(": re.compile(r"\bGradScaler\((?!.*enabled=False)"),
    "precision=": re.compile(  # of Lightning's trainers, and of accelerate
        r"\bprecision=(?:16\b|[\"'](?:16|bf16))|\bmixed_precision=[\"'](?:fp16|bf16)"
    ),
    "--": re.compile(r"[\"']--(?:use[-_])?(?:amp|fp16|bf16|mixed[-_]precision)[\"']"),
}
# A scaler is for float16 alone (documentation of torch.amp, "Gradient Scaling").
FLOAT16 = {
    "GradScaler(": re.compile(r"\bGradScaler\("),
    "fp16": re.compile(r"\bfp16\b"),
    "16-mixed": re.compile(r"[\"']16-mixed[\"']"),
}
# The methods that a user, or an engine out of sight, calls for every batch of training.
CALLED_FROM_OUTSIDE = frozenset(
    {"forward", "training_step", "train_step", "compute_loss", "get_loss", "loss"}
)


class Presumption:
    """The region that is presumed, and why.

    Args:
        files: of the project; what other parts of it show does not count.
        wished: whether the settings want a region presumed; None to go by the signs.
    """

    def __init__(self, files: Files, wished: bool | None) -> None:
        self._files = files
        self._wished = wished

    @cached_property
    def region(self) -> Region | None:
        """The region; None where nothing is presumed."""
        if self._wished is False or (self._wished is None and self.sign is None):
            return None
        texts = (self._files.own[path].text for path in self._paths)
        is_float16 = any(
            part in text and pattern.search(text)
            for text in texts
            for part, pattern in FLOAT16.items()
        )
        dtype = "float16" if is_float16 else "half"
        return Region("cuda", dtype, True, inherited=True, presumed=True)

    @cached_property
    def sign(self) -> Evidence | None:
        """The plainest sign in its files, if there is one."""
        return next(self._signs(), None)

    def evidence(self, function: FunctionFacts) -> Evidence:
        """Why a region is presumed around a function."""
        if self.sign is not None:
            return self.sign
        text = "`assume-autocast` puts this in a region, for nobody is seen to call it"
        return Evidence(Place(function.path, *function.location), text, Shows.SETTINGS)

    def covers(self, function: FunctionFacts) -> bool:
        """Whether somebody out of sight calls a function, by its name."""
        is_method = function.kind == "function" and function.cls is not None
        is_named = is_method and function.name in CALLED_FROM_OUTSIDE
        return is_named and not TEST_PATH.search(function.path)

    @property
    def _paths(self) -> Iterator[str]:
        return (path for path in sorted(self._files.own) if not TEST_PATH.search(path))

    def _signs(self) -> Iterator[Evidence]:
        for part, pattern in SIGNS.items():
            for path in self._paths:
                file = self._files.own[path]
                if part in file.text and pattern.search(file.text):
                    for row, line in enumerate(file.uncommented, 1):
                        for found in pattern.finditer(line):
                            start, end = (len(line[:n].encode()) for n in found.span())
                            place = Place(path, row, start, row, end)
                            yield Evidence(place, "this suggests it", Shows.SIGN)
