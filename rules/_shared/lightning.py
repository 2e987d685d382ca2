"""Lightning: whether code stands in a LightningModule."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplint import View

LIGHTNING_MODULES: frozenset[str] = frozenset(
    f"{home}LightningModule"
    for home in (
        "lightning.", "lightning.pytorch.", "lightning.pytorch.core.",
        "lightning.pytorch.core.module.", "pytorch_lightning.", "pytorch_lightning.core.",
        "pytorch_lightning.core.lightning.", "pytorch_lightning.core.module.",
    )
)  # fmt: skip


def in_lightning_module(at: View) -> bool:
    """Whether the class around a place is a LightningModule, by whatever bases."""
    return at.mentions("LightningModule") and not at.bases.isdisjoint(LIGHTNING_MODULES)
