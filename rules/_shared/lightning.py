"""Lightning: whether a node stands in a LightningModule, and of which
kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint import Classes, ProjectText
from amplint import libcst as cst
from amplint.knowledge.libraries import LIGHTNING_MODULES

from .classes import bases_around

if TYPE_CHECKING:
    from amplint import Source

KNOWN = ("lightning.", "pytorch_lightning.", "torch.", "abc.", "typing.", "builtins.")
AUTOMATIC = "automatic_optimization"
# An argument of the Trainer of Lightning 1.0 to 1.2, over however many lines.
GIVEN_TO_TRAINER = rf"(?<![.\w]){AUTOMATIC}=\w"


def in_lightning_module(node: cst.CSTNode, src: Source) -> bool:
    """Whether the class around a node is a LightningModule, by whatever bases."""
    return not bases_around(node, src).isdisjoint(LIGHTNING_MODULES)


def optimizes_automatically(node: cst.CSTNode, src: Source) -> bool:
    """Whether it is Lightning that runs the backward pass and the step of the module around a node:
    the default, if nobody speaks of it, and no class of another library may."""
    return (
        in_lightning_module(node, src)
        and all(base.startswith(KNOWN) for base in bases_around(node, src))
        and not family_mentions(node, AUTOMATIC, src)
        and not src.fact(ProjectText).is_stored_from_outside(AUTOMATIC)
        and not src.matches(GIVEN_TO_TRAINER, AUTOMATIC)
    )


def family_mentions(node: cst.CSTNode, word: str, src: Source) -> bool:
    """Whether the class around a node, one of the project that it derives from, or one that derives
    from it, holds an identifier."""
    cls = src.class_id(src.class_around(node))
    return cls is not None and src.fact(Classes).family_mentions(cls, word)
