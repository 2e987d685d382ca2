"""What the rules about factories share: a tensor is built, and only then made what it is for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from amplint.moves import made_before
from amplint.torch_ops import FACTORIES

if TYPE_CHECKING:
    from amplint.source import Source

# Methods that leave the same numbers in another shape.
SHAPE_METHODS = frozenset(
    {"unsqueeze", "squeeze", "view", "reshape", "expand", "repeat", "t", "transpose", "permute"}
)
FROM_DATA = frozenset({"data", "arg"})  # dtype words of factories that copy host data
# With these, more is decided than what the tensor holds, and where.
DECIDING = frozenset({"out", "pin_memory", "generator", "names", "layout"})
# With these, a factory without `device=` may not build on the CPU at all.
OTHER_DEFAULTS = ("set_default_device", "set_default_tensor_type")
SETS_DEFAULT = r"^[^#]*\b(" + "|".join(OTHER_DEFAULTS) + r")\("


@dataclass(frozen=True)
class Built:
    """A factory that builds on the CPU, or where its `device=` says.

    Args:
        call: the call of the factory.
        name: what is called: "torch.zeros".
        expanded: whether the tensor is read through `expand`: its elements share memory, which a
            copy, to another device or dtype, ends.
    """

    call: cst.Call
    name: str
    expanded: bool = False


def built(node: cst.CSTNode, src: Source, refused: Collection[str] = ()) -> Built | None:
    """The factory behind an expression, through changes of shape: torch.arange(n).unsqueeze(0).

    None also where the call has an argument that decides more, or one of `refused`.
    """
    expanded = False
    while (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value in SHAPE_METHODS
        and isinstance(node.func.value, cst.Call)
    ):
        expanded = expanded or node.func.attr.value == "expand"
        node = node.func.value
    if not isinstance(node, cst.Call):
        return None
    name = src.name(node.func)
    facts = FACTORIES.get(name) if name is not None else None
    if name is None or facts is None or facts.device != "default" or not facts.takes_device:
        return None
    if facts.dtype in FROM_DATA or any(arg.star == "**" for arg in node.args):
        return None
    if any(src.mentions(word) for word in OTHER_DEFAULTS) and src.matches(SETS_DEFAULT):
        return None
    if any(src.keyword(node, keyword) is not None for keyword in DECIDING.union(refused)):
        return None
    return Built(node, name, expanded)


def built_before(name: cst.Name, src: Source, refused: Collection[str] = ()) -> Built | None:
    """The factory whose result the variable holds, if this is the only place that reads it."""
    made = made_before(name, src)
    return built(made, src, refused) if made is not None else None
