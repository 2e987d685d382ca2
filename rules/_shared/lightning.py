"""What the rules about Lightning share: whether a node stands in a LightningModule, and of which
kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.knowledge.libraries import LIGHTNING_MODULES

if TYPE_CHECKING:
    import libcst as cst

    from amplint import Source

KNOWN = ("lightning.", "pytorch_lightning.", "torch.", "abc.", "typing.", "builtins.")
AUTOMATIC = "automatic_optimization"
# An argument of the Trainer of Lightning 1.0 to 1.2, over however many lines.
GIVEN_TO_TRAINER = rf"(?<![.\w]){AUTOMATIC}=\w"


def in_lightning_module(node: cst.CSTNode, src: Source) -> bool:
    """Whether the class around a node is a LightningModule, by whatever bases."""
    return not src.bases_around(node).isdisjoint(LIGHTNING_MODULES)


def optimizes_automatically(node: cst.CSTNode, src: Source) -> bool:
    """Whether it is Lightning that runs the backward pass and the step of the module around a node:
    the default, if nobody speaks of it, and no class of another library may."""
    return (
        in_lightning_module(node, src)
        and all(base.startswith(KNOWN) for base in src.bases_around(node))
        and not src.family_mentions(node, AUTOMATIC)
        and not src.is_stored_from_outside(AUTOMATIC)
        and not src.matches(GIVEN_TO_TRAINER)
    )
