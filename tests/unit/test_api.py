"""The names that rules of other packages may use do not change unnoticed: `api.txt` has them all,
and what programs may use.

A line that goes or changes breaks the code of others. docs/own-rules.md says what comes first.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import amplint
from amplint import testing
from amplint.ir.ops import NAMES
from amplint.source.edits.code_edits import Edits
from amplint.source.edits.imports import Imports, Spelling
from amplint_verify.observing.block import ObservedBlock
from tests.helpers import ROOT

SNAPSHOT = Path(__file__).with_name("api.txt")
PAGE = ROOT / "docs" / "own-rules.md"

# Rules make these; all others are made for them, so that no way to make them is promised.
MADE_BY_RULES = {"Fix", "Rule"}
# Of these classes, the other members serve amplint's own rules alone.
PROMISED = {
    "Candidates": set(),
    "Imports": {"bound_as", "meaning", "spell"},
    "Rule": {"on"},
    "Source": {
        "ancestors", "argument", "assigned_name", "brief", "calls", "function", "has_star",
        "keyword", "parent", "says", "span", "statement", "text",
    },
    "View": {
        "arg", "arguments", "backward", "bases", "brief", "called", "callee", "cst", "finding",
        "has_star", "hotness", "is_joined", "is_module", "is_same", "is_written", "matches",
        "mentions", "method", "name", "names", "of", "operands", "operations", "operator", "origin",
        "receiver", "region", "related", "source", "span", "tensor", "text", "uses", "value",
    },
}  # fmt: skip
# Attributes of promised classes that their constructors set.
SET = {
    "ObservedBlock": {"findings": "tuple[Finding, ...]"},
    "Source": {"path": "str"},
    "View": {"op": "str"},
}
# Not exported: a rule has them as `at.source.edits`, `at.source.imports`, and from `spell`.
REACHED = {"Source.edits": Edits, "Source.imports": Imports, "Source.imports.spell()": Spelling}
# For programs, and not among the names for rules; docs/observe.md has what is promised.
OF_PROGRAMS = {"observe": amplint.observe, "observe()": ObservedBlock}
STAR: dict[str, object] = {}
exec("from amplint import *", STAR)
PROMISED_NAMES = sorted(STAR.keys() - {"__builtins__"})


def lines() -> Iterator[str]:
    for name in PROMISED_NAMES:
        yield from described(name, getattr(amplint, name))
    for name, thing in {**REACHED, **OF_PROGRAMS}.items():
        yield from described(name, thing)
    for name in sorted(testing.__all__):
        yield from described(f"testing.{name}", getattr(testing, name))


def described(name: str, thing: Any) -> Iterator[str]:
    if hasattr(thing, "__origin__"):  # `frozenset[Atom]`, which Python 3.10 calls a class
        yield f"{name}: type"
    elif isinstance(thing, type) and issubclass(thing, Enum):
        yield from (f"{name}.{member.name} = {member.value!r}" for member in thing)
        yield from members(name, thing)
    elif isinstance(thing, type):
        yield f"{name}{signature(thing)}" if thing.__name__ in MADE_BY_RULES else name
        yield from members(name, thing)
    elif isinstance(thing, FunctionType):
        yield f"{name}{signature(thing)}"
    elif isinstance(thing, ModuleType | frozenset):
        yield f"{name}: {type(thing).__name__.replace('LazyModule', 'module')}"
    else:
        yield f"{name}: {type(thing).__name__}"


def members(name: str, cls: type) -> Iterator[str]:
    """Fields, properties and methods, also those of bases."""
    fields = (
        {field.name: field.type for field in dataclasses.fields(cls)}
        if dataclasses.is_dataclass(cls)
        else {field: written(cls.__annotations__[field]) for field in getattr(cls, "_fields", ())}
    )
    own = cls.__name__
    found = {
        member
        for base in cls.__mro__
        if base.__module__.startswith("amplint.")
        for member in vars(base)
        if not member.startswith("_") and member not in (getattr(cls, "__members__", ()))
    } | fields.keys()
    found &= PROMISED.get(own, found)
    if own in MADE_BY_RULES:  # their signature has them
        found -= fields.keys()
    yield from (f"{name}.{member}: {kind}" for member, kind in SET.get(own, {}).items())
    for member in sorted(found):
        thing = inspect.getattr_static(cls, member, None)
        if member in fields:
            yield f"{name}.{member}: {fields[member]}"
        elif isinstance(thing, property):
            assert thing.fget is not None
            yield f"{name}.{member}: {thing.fget.__annotations__['return']}"
        elif isinstance(thing, FunctionType | classmethod):
            yield f"{name}.{member}{signature(getattr(cls, member))}"


def written(annotation: Any) -> str:
    """The annotation of a field of a NamedTuple as it is written."""
    return str(getattr(annotation, "__forward_arg__", annotation))


def signature(thing: Any) -> str:
    """Names, types and whether there are defaults: as every version of Python writes them."""
    parts = []
    for parameter in inspect.signature(thing).parameters.values():
        if parameter.name == "self":
            continue
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        typed = f": {parameter.annotation}" if parameter.annotation is not parameter.empty else ""
        default = " = ..." if parameter.default is not parameter.empty else ""
        parts.append(f"{star}{parameter.name}{typed}{default}")
    returned = inspect.signature(thing).return_annotation
    arrow = f" -> {returned}" if isinstance(returned, str) and not isinstance(thing, type) else ""
    return f"({', '.join(parts)}){arrow}"


def test_what_is_promised_has_not_changed(update: bool) -> None:
    """`pytest --update` writes api.txt."""
    text = "".join(f"{line}\n" for line in lines())
    if update:
        SNAPSHOT.write_text(text, encoding="utf-8")
    assert SNAPSHOT.read_text(encoding="utf-8") == text


def test_the_page_has_every_name_and_no_other() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition("\n## The names\n")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == PROMISED_NAMES


def test_the_operations_on_the_page_exist() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("\n### The operations\n")[2]
    lines = table.partition("\n## ")[0].splitlines()
    rows = [line.split("|")[1] for line in lines if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([a-z]+)`", row)}
    assert len(named) > 30
    assert named <= {*NAMES, amplint.READ}


def test_members_that_are_named_exist() -> None:
    for name, those in PROMISED.items():
        cls = Imports if name == "Imports" else getattr(amplint, name)
        assert all(hasattr(cls, member) for member in those), name
