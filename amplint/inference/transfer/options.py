"""Options of the command line: what `add_argument` of argparse says of their values."""

from __future__ import annotations

from typing import NamedTuple

from amplint.knowledge.libraries import OPTION_ACTIONS, OPTION_TYPES
from amplint.values.atoms import (
    BOTTOM,
    NONE,
    NUMBER_KINDS,
    Arguments,
    Host,
    Sequence,
    Symbol,
    Value,
    constant,
    one,
)
from amplint.values.lattice import join, only


class Option(NamedTuple):
    """An option of the command line.

    Args:
        name: of the attribute that has its value.
        value: what it may be; nothing where that is not known.
        is_off: whether it is a flag that is off unless somebody sets it.
    """

    name: str
    value: Value
    is_off: bool


def declared(arguments: Arguments) -> Option | None:
    """The option that a call of `add_argument` declares; None where its name is not known."""
    names = [constant(each) for each in arguments.positional]
    texts = [name for name in names if isinstance(name, str)]
    dest = constant(arguments.get("dest"))
    # Of several, the first long one (argparse, "dest").
    name = next((text for text in texts if text.startswith("--")), texts[0] if texts else None)
    if isinstance(dest, str):
        name = dest
    if name is None or len(texts) < len(names):
        return None
    is_off = constant(arguments.get("action")) == "store_true"
    return Option(name.lstrip("-").replace("-", "_"), value_of(arguments), is_off)


def value_of(arguments: Arguments) -> Value:
    """The values of an option: whatever a user passes, of the type that it has, or its default."""
    kind = kind_of(arguments)
    if kind is None:
        return BOTTOM
    default = constant(arguments.get("default"))
    if isinstance(default, int | float) and kind in NUMBER_KINDS:
        value = one(Host(kind, default))
    else:
        value = one(Host(kind))
    if constant(arguments.get("nargs")) not in (None, "?"):
        value = one(Sequence(None, value))
    has_default = arguments.has("action") or arguments.has("default") or arguments.has("required")
    none = not has_default or arguments.get("default") == one(NONE)
    return join([value, one(NONE)]) if none else value


def kind_of(arguments: Arguments) -> str | None:
    """The kind of an option's value: by its action, its type, or else by its default."""
    for word, kinds in (("action", OPTION_ACTIONS), ("type", OPTION_TYPES)):
        argument = arguments.get(word)
        if argument is not None:
            atom = only(argument)
            name = atom.name if isinstance(atom, Symbol) else constant(argument)
            return kinds.get(name) if isinstance(name, str) else None
    default = constant(arguments.get("default"))
    return type(default).__name__ if isinstance(default, bool | int | float) else "str"
