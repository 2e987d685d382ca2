"""Mutants of the fixtures, and fixtures with other names and another layout.

`python -m benchmarks.robustness generated` does so with more of them, and with real packages.
"""

from __future__ import annotations

import ast
from random import Random

import pytest

from benchmarks.robustness.files import GRAFT, python_reads
from benchmarks.robustness.generated import (
    FORMATTERS,
    changed,
    fixtures,
    formatted,
    in_files,
    renamed,
    renamed_all,
    wrong_with,
)
from benchmarks.robustness.grammar import NAMES, named, spellings
from benchmarks.robustness.mutations import MUTATIONS, Mutation, mutant

SOME = fixtures()[::9]
PROGRAM = b"""\
import torch


def train(model, loader, flag):
    total = 0
    for batch in loader:
        loss = model(batch.cuda()).mean()
        loss.backward()
        total += loss.item()
    return total, {"batch": 1}
"""


@pytest.mark.parametrize("seed", range(2))
def test_mutants_are_checked_and_fixed(seed: int) -> None:
    random = Random(seed)
    programs = fixtures()
    mutants = {f"m{number}.py": mutant(random, random.choice(programs)) for number in range(30)}
    assert 0 < sum(map(python_reads, mutants.values())) < len(mutants)
    assert wrong_with(mutants) == []


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_each_mutation_changes_a_program(mutation: Mutation) -> None:
    assert any(mutation(Random(seed), PROGRAM) != PROGRAM for seed in range(20))


@pytest.mark.parametrize(
    "deep",
    [
        f"if {'-' * 450}flag:\n    from torch.cuda import amp\n",
        f"__all__ = {'+' * 450}flag\n",
        f"@flag{'()' * 900}\ndef decorated():\n    pass\n",
        f"class Derived(flag{'()' * 900}):\n    pass\n",
    ],
)
def test_what_is_nested_deeply_is_fixed(deep: str) -> None:
    """`ast.unparse`, or the last name of a decorator, ended with a RecursionError for them."""
    legacy = "import torch\nfrom torch.cuda.amp import autocast\n\nwith autocast():\n    pass\n"
    files = {"a.py": (deep + legacy).encode()}
    assert python_reads(files["a.py"])
    assert wrong_with(files) == []


def test_findings_do_not_depend_on_names_of_local_variables() -> None:
    files = in_files(SOME)
    assert list(changed(files, renamed_all(files))) == []


def test_what_is_renamed() -> None:
    """Not what a string may name, nor a parameter, nor a name of the module."""
    after = renamed(PROGRAM)
    assert b"total" not in after and b"loss" not in after
    assert after.count(b"batch") == PROGRAM.count(b"batch")
    assert b"def train(model, loader, flag):" in after


def test_findings_do_not_depend_on_the_layout() -> None:
    files = in_files(SOME)
    after = formatted(files, FORMATTERS["ruff, short lines"])
    assert after.keys() == files.keys()
    assert sum(after[path] != files[path] for path in files) > len(files) / 2
    assert list(changed(files, after)) == []


def test_a_finding_that_is_elsewhere_is_told() -> None:
    moved = PROGRAM.replace(b"total += loss.item()", b"total += loss.detach()")
    (told,) = changed({"a.py": PROGRAM}, {"a.py": moved})
    assert told.startswith("a.py: lost: ('AMP101', 'train', ")


def test_the_names_of_a_drawn_program() -> None:
    """One name for each; keywords, prefixes of strings, escapes and numbers stay."""
    words = named(Random(0), "é = rb'\\x15' if ü else é, 0x1f").split()
    assert words[1:4] == ["=", "rb'\\x15'", "if"] and words[5:] == ["else", f"{words[0]},", "0x1f"]
    assert {words[0], words[4]} <= {*NAMES}


def test_the_spellings_of_a_drawn_program() -> None:
    drawn = "for é in ü:\n    pass\n"
    alone, above, inside = spellings(Random(0), drawn)
    assert alone == drawn and above.endswith(GRAFT)
    loop = ast.parse(inside).body[0].body[-1]  # type: ignore[attr-defined]
    assert [type(each) for each in loop.body[-3:]] == [ast.Expr, ast.For, ast.Expr]
