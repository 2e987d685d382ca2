"""Differences between the supported versions of torch, which `test_torch_ops` expects.

The tables of `amplint/knowledge/` describe torch 2.13, except for `CAST_SINCE`.
"""

from __future__ import annotations

from amplint.knowledge.names import names

NEWER: frozenset[str] = frozenset(
    names(
        """
        hash_tensor .const_data_ptr .mtia F.grouped_mm F.linear_cross_entropy
        nn.Buffer nn.LinearCrossEntropyLoss nn.utils.get_total_norm torch.optim.Adafactor
        torch.distributed.fsdp.fully_shard torch.optim.Muon
        """
    )
)
"""Names of the tables, and of `libraries`, that torch 2.4.1 lacks (run)."""

OLDER_DIFFERS: dict[str, str] = {
    "Tensor.ldexp": "float32 in a CUDA region, as pow",
    "torch.ldexp": "float32 in a CUDA region, as pow",
    "torch.nn.RMSNorm": "promotes with its float32 weight in a CPU region",
}
"""What torch 2.4.1 does otherwise than the tables say (run)."""

CAST_SINCE: dict[str, str] = dict.fromkeys(names("torch.rms_norm F.rms_norm nn.RMSNorm"), "2.12")
"""Names that a CUDA region casts from this version on; `casts` has "unknown" for them, since nobody
knows which torch a program meets (amplint_verify/backends/autocast-VERSION.json; 2.11 run on a
GPU)."""

NEWER_DIFFERS: dict[str, str] = {
    "Tensor.cholesky": "raises: removed",
    "Tensor.qr": "raises: removed",
    "torch.cholesky": "raises: removed",
    "torch.combinations": "waits no more",
    "torch.qr": "raises: removed",
}
"""What torch 2.14.1 does otherwise than the tables say (run)."""
