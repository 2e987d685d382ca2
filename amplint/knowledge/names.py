"""How the tables of this package name what torch has.

Derived from torch 2.13.0 (CPU wheel) and held against the installed torch by
`tests/oracles/test_torch_ops.py`; amplint itself never imports torch.

Keys are canonical dotted names: `torch.zeros`, `torch.nn.functional.linear`, `torch.nn.Linear`
(what calling an instance does), `Tensor.sum` (methods), `Tensor.shape` (attributes) and
`Tensor.__matmul__` (operators).
In the tables a bare word stands for a function and the method of the same name, and a prefix names
one thing only:

    abs         torch.abs and Tensor.abs
    .item       Tensor.item
    torch.cat   torch.cat
    F.relu      torch.nn.functional.relu
    linalg.inv  torch.linalg.inv; likewise fft. nn. and special.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_PREFIXES = {
    "F": "torch.nn.functional",
    "fft": "torch.fft",
    "linalg": "torch.linalg",
    "nn": "torch.nn",
    "special": "torch.special",
}


def names(words: str) -> Iterator[str]:
    """The canonical names that a family's words stand for."""
    for word in words.split():
        prefix, dot, name = word.partition(".")
        if not dot:
            yield f"torch.{word}"
            yield f"Tensor.{word}"
        elif not prefix:
            yield f"Tensor.{name}"
        else:
            yield f"{_PREFIXES.get(prefix, prefix)}.{name}"


def rows(table: str) -> Iterator[tuple[str, str]]:
    """The rows of a table in text: what stands before the colon, and the words after it. Further
    lines of a row are indented; `#` begins a comment."""
    for row in re.split(r"\n(?! )", table.strip()):
        head, _, words = " ".join(row.split()).partition(": ")
        if not row.startswith("#"):
            yield head, words


def words_of(words: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(words.split())


def pairs(words: str) -> dict[str, str]:
    """The table of a text. Ex) byte=uint8 long=int64"""
    return dict(word.split("=") for word in words.split())
