"""The stored tables of autocast against the installed torch."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
policy = pytest.importorskip("amplint_verify.backends.policy")
tables = pytest.importorskip("amplint_verify.backends.tables")

HEADER = """
#define AT_FORALL_LOWER_PRECISION_FP(_) \\
  _(_convolution, deprecated)           \\
  _(mm)

#define AT_FORALL_FP32(_) \\
  _(acos)

#define AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(_)        \\
  _(ADD_NS(norm),                                          \\
    "norm.Scalar",                                         \\
    Tensor(const Tensor&, const Scalar&),                  \\
    fp32_append_dtype)

#define AT_FORALL_PROMOTE(_) \\
  _(addcdiv)
#else
"""


def test_the_header_names_policies() -> None:
    assert tables.policies(HEADER) == {
        "_convolution.deprecated": "lower",
        "mm": "lower",
        "acos": "fp32",
        "norm.Scalar": "fp32-append-dtype",
        "addcdiv": "promote",
    }


def test_the_stored_tables_are_those_of_the_installed_torch() -> None:
    path = tables.stored(tables.version())
    assert path.exists(), "run `python -m amplint_verify.backends.tables` with a build for CUDA"
    stored, derived = json.loads(path.read_text(encoding="utf-8")), tables.derived()
    cuda = stored["cuda"]
    if torch.version.cuda is None:
        cuda = {name: policy for name, policy in cuda.items() if name not in tables.CUDA_BUILDS}
    assert (cuda, stored["cpu"]) == (derived["cuda"], derived["cpu"])


def test_every_overload_of_the_header_is_registered() -> None:
    named = tables.policies(tables.HEADER.read_text(encoding="utf-8"))
    assert named.keys() <= tables.registered("AutocastCUDA")


def test_without_headers_the_tables_come_from_the_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tables, "HEADER", tmp_path / "none.h")
    assert tables.current()["cpu"] == sorted(tables.registered("AutocastCPU"))


STORED = sorted(Path(tables.__file__).parent.glob("autocast-*.json"))


def test_every_version_since_2_4_is_stored() -> None:
    minors = sorted(int(path.stem.rpartition(".")[2]) for path in STORED)
    assert minors == list(range(4, minors[-1] + 1))
    assert minors[-1] >= 15


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_every_policy_of_a_version_is_known(path: Path) -> None:
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert ".".join(stored["torch"].split(".")[:2]) == path.stem.removeprefix("autocast-")
    assert "+cu" in stored["torch"]  # a build for CUDA has kernels that one for the CPU has not
    assert {*stored["cuda"].values()} == {*policy.KERNELS}
    assert set(tables.CUDA_BUILDS) <= stored["cuda"].keys()
