"""Lightning: whether a node stands in a LightningModule, and of which kind; the arguments of a
Trainer that are gone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amplint import Classes, Edit, ProjectText, constant
from amplint import libcst as cst
from amplint.knowledge.libraries import (
    LIGHTNING_MODULES,
    TRAINER_REMOVED,
    TRAINER_REMOVED_EARLY,
)

from .classes import bases_around

if TYPE_CHECKING:
    from amplint import Source

KNOWN = ("lightning.", "pytorch_lightning.", "torch.", "abc.", "typing.", "builtins.")
AUTOMATIC = "automatic_optimization"
# An argument of the Trainer of Lightning 1.0 to 1.2, over however many lines.
GIVEN_TO_TRAINER = rf"(?<![.\w]){AUTOMATIC}=\w"

DEVICES = {"gpus": "gpu", "tpu_cores": "tpu", "num_processes": "cpu"}
STRATEGIES = frozenset({"ddp", "ddp_spawn", "ddp_notebook", "ddp_fork"})  # as an accelerator, once
WITHOUT_SUCCESSOR = frozenset({"dp", "ddp2"})
ASKING = frozenset({"strategy", "accelerator", "distributed_backend"})
# The first releases with `devices=` and `strategy=`, and with "16-mixed".
SUCCESSORS = (1, 5)
MIXED = (2, 0)


@dataclass(frozen=True)
class Removed:
    """An argument of a call of the Trainer that is gone, or whose value is.

    Args:
        message: what to say of it.
        release: the first one without it.
        edits: what writes its successor; none where none means the same.
    """

    arg: cst.Arg
    message: str
    release: tuple[int, int]
    edits: tuple[Edit, ...]


def removed_arguments(call: cst.Call, src: Source) -> list[Removed]:
    found = []
    for arg in call.args:
        name = arg.keyword.value if arg.keyword is not None else ""
        value, release = constant(src.value(arg.value)), (2, 0)
        if name in ASKING and value in WITHOUT_SUCCESSOR:
            release = TRAINER_REMOVED_EARLY.get(name, release)
            message = f'the strategy "{value}" is gone since Lightning 2.0, use "ddp"'
        elif name == "accelerator" and value in STRATEGIES:
            message = f'`accelerator="{value}"` is refused since Lightning 2.0, use `strategy=`'
        elif name in TRAINER_REMOVED:
            release = TRAINER_REMOVED_EARLY.get(name, release)
            since = ".".join(map(str, release))
            message = f"`{name}=` is gone since Lightning {since}{TRAINER_REMOVED[name]}"
        else:
            continue
        edits = tuple(e for e in successor(call, arg, name, value, src) if e is not None)
        found.append(Removed(arg, message, release, edits))
    return found


def successor(
    call: cst.Call, arg: cst.Arg, name: str, value: object, src: Source
) -> Iterator[Edit | None]:
    """Ex) gpus=2 -> accelerator="gpu", devices=2"""
    given = {each.keyword.value for each in call.args if each.keyword is not None}
    if src.has_star(call):
        return
    if name in DEVICES:
        is_alone = len(given & {"accelerator", "devices", *DEVICES}) == 1
        if names_devices(arg.value) and is_alone:
            yield src.edits.name_argument(arg, f'accelerator="{DEVICES[name]}", devices')
    elif name in ("distributed_backend", "accelerator"):
        if value in STRATEGIES and "strategy" not in given:
            yield src.edits.name_argument(arg, "strategy")
    elif name == "profile" and value is True and "profiler" not in given:
        yield src.edits.name_argument(arg, "profiler")
        yield src.edits.replace(arg.value, '"simple"')


def names_devices(given: cst.BaseExpression) -> bool:
    """Ex) 2, [0, 1]; a variable may be -1, "0,1" or None elsewhere"""
    if isinstance(given, cst.List):
        indices = [element.value for element in given.elements]
        return bool(indices) and all(isinstance(each, cst.Integer) for each in indices)
    return isinstance(given, cst.Integer) and given.evaluated_value > 0


def renewed(removed: list[Removed], release: tuple[int, int]) -> tuple[Edit, ...] | None:
    """The edits that write all successors at once. None where an argument is left that no release
    has beside them, or beside something else that is written.

    Args:
        release: the first one that knows all that is written.
    """
    if any(not each.edits and each.release <= release for each in removed):
        return None
    return tuple(edit for each in removed for edit in each.edits)


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
