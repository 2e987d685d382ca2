"""The stored tables of autocast against the installed torch."""

import json

import pytest

torch = pytest.importorskip("torch")
tables = pytest.importorskip("amplint.verify.tables")

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
    if not path.exists():
        pytest.skip(f"no tables are stored for torch {torch.__version__}")
    stored, derived = json.loads(path.read_text(encoding="utf-8")), tables.derived()
    assert (stored["cuda"], stored["cpu"]) == (derived["cuda"], derived["cpu"])


def test_every_overload_of_the_header_is_registered() -> None:
    named = {*tables.policies(tables.HEADER.read_text(encoding="utf-8")), *tables.BESIDE}
    assert named <= tables.registered("AutocastCUDA")
