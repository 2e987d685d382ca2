"""Programs drawn from Python's grammar and from LibCST's nodes, by hypothesmith.

Nobody would write them, which is what they are for. Each is checked and fixed in three spellings:

- as it is drawn;
- with names of torch and of training code, above a function whose mistakes have fixes;
- with these names, in the loop of that function.

What is held of each is what `generated.py` holds of mutants. It needs `pip install hypothesmith`.
"""

from __future__ import annotations

import importlib
import keyword
import re
import textwrap
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import hypothesis
import libcst

from benchmarks.robustness.files import GRAFT, python_reads
from benchmarks.robustness.generated import wrong_with

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

TOGETHER = 40  # programs that are one project
# How many programs are drawn from the grammar, and from each kind of LibCST's nodes.
FROM_GRAMMAR = 700
FROM_NODES = {
    "Module": 100, "FunctionDef": 25, "ClassDef": 25, "With": 25, "For": 25, "Try": 25, "Match": 25,
    "Lambda": 25, "ListComp": 25, "DictComp": 25, "FormattedString": 25, "Call": 25,
}  # fmt: skip

# In the loop of the function, a drawn program stands in the place of this line.
PLACE = "        print(loss.item())\n"
NAMES = (
    "torch", "nn", "model", "loss", "batch", "loader", "optimizer", "scaler", "autocast",
    "GradScaler", "cuda", "amp", "item", "backward", "step", "update", "scale", "half", "float",
    "no_grad", "empty_cache", "detach", "cpu", "to", "zeros", "mean", "self", "print", "x",
)  # fmt: skip
# Not `\x15`, and not the rest of `0x1f`.
NAME = re.compile(r"(?<![\\\w])[^\W\d]\w*")
KEPT = {*keyword.kwlist, *keyword.softkwlist, "r", "b", "u", "f", "br", "rb", "fr", "rf"}


def measure(_: Path) -> dict[str, object]:
    begun = time.monotonic()
    failures: list[str] = []
    counts: Counter[str] = Counter()
    for kind, texts in drawn():
        random = Random(0)
        counts[f"drawn_from_{kind}"] += len(texts)
        programs = [each for text in texts for each in spellings(random, text)]
        for start in range(0, len(programs), TOGETHER):
            files = {
                f"p{start + number}.py": each.encode()
                for number, each in enumerate(programs[start : start + TOGETHER])
            }
            counts["programs"] += len(files)
            counts["programs_that_python_refuses"] += sum(
                not python_reads(each) for each in files.values()
            )
            failures += (f"{kind}, {each}" for each in wrong_with(files))
    return {**counts, "seconds": round(time.monotonic() - begun), "failures": failures}


def drawn() -> Iterator[tuple[str, list[str]]]:
    """What is drawn from, and the programs, which are the same ones every time."""
    try:
        hypothesmith = importlib.import_module("hypothesmith")
    except ImportError:
        raise SystemExit("the part `grammar` needs `pip install hypothesmith`") from None
    yield "grammar", draw(hypothesmith.from_grammar(), FROM_GRAMMAR)
    for name, number in FROM_NODES.items():
        yield "nodes", draw(hypothesmith.from_node(getattr(libcst, name)), number)


def draw(strategy: SearchStrategy[str], number: int) -> list[str]:
    """Different texts of a strategy."""
    texts: dict[str, None] = {}

    @hypothesis.settings(
        max_examples=number,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def collect(text: str) -> None:
        texts[text] = None

    with warnings.catch_warnings():  # hypothesmith compiles what it draws, such as `1()`
        warnings.simplefilter("ignore")
        collect()
    return list(texts)


def spellings(random: Random, text: str) -> tuple[str, str, str]:
    """The program as it is, above the function with mistakes, and in the loop of that function."""
    known = named(random, text)
    inside = GRAFT.replace(PLACE, PLACE + textwrap.indent(known, " " * 8) + "\n" + PLACE)
    return text, known + "\n" + GRAFT, inside


def named(random: Random, text: str) -> str:
    """The program with names of training code, which are the same wherever a name was the same."""
    new: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        old = found[0]
        return old if old.lower() in KEPT else new.setdefault(old, random.choice(NAMES))

    return NAME.sub(name, text)
