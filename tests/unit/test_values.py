"""What is joined does not depend on the order, not even in the evidence, which does not count when
values are compared: a report must not differ from one process to the next."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import permutations
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from amplint.inference.transfer.arithmetic import without_nests
from amplint.util.positions import Place
from amplint.values.atoms import (
    ACCELERATOR,
    Autocast,
    Device,
    Evidence,
    Function,
    Host,
    Instance,
    Mapping,
    Method,
    Object,
    Sequence,
    Shows,
    Tensor,
    TensorTree,
    Unknown,
    Value,
    _order,
    evidence_text,
    one,
    ordered,
)
from amplint.values.lattice import join, normalise
from tests.helpers import ROOT

WHYS = st.integers(1, 4).map(
    lambda row: Evidence(Place("a.py", row, 0, row, 9), f"reason {row}", Shows.CALL)
)
DEVICES = st.one_of(
    WHYS.map(lambda evidence: Device(ACCELERATOR, evidence)),
    WHYS.map(lambda evidence: Device("cpu", evidence)),
)
TENSORS = st.builds(Tensor, st.sampled_from([None, "float16"]), DEVICES, dtype_evidence=WHYS)
LEAVES = st.one_of(
    TENSORS,
    st.builds(TensorTree, DEVICES),
    st.builds(Instance, st.just("a.py::C"), DEVICES),
    st.builds(Object, st.just("module"), st.sampled_from(["A", "B"]), DEVICES),
    st.builds(Autocast, st.just("cuda"), evidence=WHYS),
    st.builds(Method, TENSORS, st.sampled_from(["item", "cpu"])),
    st.builds(Function, st.just("a.py::C.f"), st.builds(Instance, st.just("a.py::C"), DEVICES)),
    st.sampled_from([Unknown(), Host("int"), Host("str", "a", True), Host("none", None, True)]),
)
ATOMS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Sequence, st.none(), inner.map(one)),
        st.builds(Sequence, st.tuples(inner.map(one), inner.map(one)), inner.map(one)),
        st.builds(Mapping, inner.map(one), st.tuples(st.tuples(st.just("k"), inner.map(one)))),
    ),
    max_leaves=3,
)
VALUES = st.lists(ATOMS, min_size=1, max_size=2).map(lambda atoms: normalise(frozenset(atoms)))


def told(value: Value) -> tuple[Value, str]:
    return value, evidence_text(value)


@given(st.lists(VALUES, min_size=2, max_size=3))
def test_a_join_is_the_same_in_every_order(values: list[Value]) -> None:
    joined = {told(join(order)) for order in permutations(values)}
    assert len(joined) == 1


@given(st.lists(ATOMS, min_size=2, max_size=3))
def test_of_equal_alternatives_the_same_is_kept(atoms: list[Tensor | TensorTree]) -> None:
    kept = {evidence_text(join(map(one, order))) for order in permutations(atoms)}
    assert len(kept) == 1


@given(DEVICES, DEVICES)
def test_a_nest_that_is_a_tensor_gives_its_evidence(nest: Device, tensor: Device) -> None:
    value = frozenset({Tensor(device=tensor), TensorTree(nest)})
    if nest == tensor:
        assert evidence_text(without_nests(value)) == evidence_text(one(Tensor(device=nest)))


@given(TENSORS, st.sampled_from([None, 0, 1]), st.sampled_from([None, 2]))
def test_tensors_that_differ_have_an_order(
    tensor: Tensor, rank: int | None, dims: int | None
) -> None:
    """A value may hold two on one device, and which comes first must not depend on hashes."""
    other = replace(tensor, rank=rank, dims=dims)
    if other != tensor:
        first, second = ordered(frozenset({tensor, other}))
        assert str(_order(first)) < str(_order(second))


def test_a_report_is_the_same_whatever_strings_hash_to(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tests" / "oracles" / "programs", tmp_path, dirs_exist_ok=True)
    reports = []
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-m", "amplint", "check", "--no-cache", "--format", "json", "."],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
            capture_output=True,
            check=False,
        )
        reports.append(json.loads(ran.stdout))
    assert reports[0] == reports[1]
    assert len(reports[0]) > 10
