"""Which operations autocast casts, and how: read off the installed torch.

Two sources, both exact for a version, neither of which needs a GPU. The dispatcher knows which
overloads are registered (a CPU build has the kernels of CUDA too, except `_cudnn_rnn`). The macros
of the header `ATen/autocast_mode.h`, which every wheel ships since 2.4, know the policy of each.

The tables of versions are stored beside this module, as `autocast-VERSION.json`, all of them from
the builds for CUDA on PyPI; a test recomputes the one of the installed version. With that version
installed, `python -m amplint_verify.backends.tables` writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

HEADER = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
POLICIES = {
    "LOWER_PRECISION_FP": "lower",
    "FP32": "fp32",
    "FP32_SET_OPT_DTYPE": "fp32-set-dtype",
    "PROMOTE": "promote",
}
# Registered beside the macros, in autocast_mode.cpp.
BESIDE = {
    "cudnn_convolution": "lower",
    "cudnn_convolution_transpose": "lower",
    "binary_cross_entropy": "banned",
    "linalg_matrix_sqrth": "fp32",  # since 2.15
}
# Registered in builds for CUDA alone (AutocastRNN.cpp).
CUDA_BUILDS = {"_cudnn_rnn": "lower"}
MACRO = re.compile(r"#define AT_FORALL_(\w+)\(_\)((?:.*\\\n)*.*)")
ENTRY = re.compile(r"_\((\w+)(?:,\s*(\w+))?\)")
REDISPATCHED = re.compile(r'_\(\s*ADD_NS\(\w+\),\s*"([\w.]+)"')


def policies(header: str) -> dict[str, str]:
    """The policy of each overload that the header names, e.g. "softmax.int": "fp32-set-dtype"."""
    by_overload: dict[str, str] = {}
    for name, body in MACRO.findall(header):
        text = body.replace("\\", " ")
        if name in POLICIES:
            for base, overload in ENTRY.findall(text):
                by_overload[f"{base}.{overload}" if overload else base] = POLICIES[name]
        elif name == "DIFFERENT_REDISPATCH_SIGNATURE":
            by_overload.update(dict.fromkeys(REDISPATCHED.findall(text), "fp32-append-dtype"))
    return by_overload


def registered(key: str) -> frozenset[str]:
    """The aten overloads that have a kernel for a dispatch key, e.g. "AutocastCUDA"."""
    torch_c: Any = torch._C
    names = (name.removeprefix("aten::") for name in torch_c._dispatch_get_all_op_names())
    return frozenset(
        name
        for name in names
        if "::" not in name and torch_c._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key)
    )


def derived() -> Mapping[str, Any]:
    """The tables of the installed torch.

    Returns:
        "torch", the version and build; "cuda", policy by overload ("unknown" for what is registered
        and stands in no macro); "cpu", the overloads that CPU autocast has a kernel for.
    """
    named = {**policies(HEADER.read_text(encoding="utf-8")), **BESIDE, **CUDA_BUILDS}
    return {
        "torch": torch.__version__,
        "cuda": {name: named.get(name, "unknown") for name in sorted(registered("AutocastCUDA"))},
        "cpu": sorted(registered("AutocastCPU")),
    }


def version() -> str:
    """The installed torch's version without patch level and build, e.g. "2.13"."""
    return ".".join(torch.__version__.split(".")[:2])


def stored(minor: str) -> Path:
    """Where the tables of a version stand, or would."""
    return Path(__file__).with_name(f"autocast-{minor}.json")


def current() -> Mapping[str, Any]:
    """The tables of the installed torch; from the store if its headers are not installed with it.

    Raises FileNotFoundError if they are not stored either.
    """
    if HEADER.exists():
        return derived()
    tables: Mapping[str, Any] = json.loads(stored(version()).read_text(encoding="utf-8"))
    return tables


if __name__ == "__main__":
    stored(version()).write_text(json.dumps(derived(), indent=1) + "\n", encoding="utf-8")
