"""Write down what the functions of a program are given, and what its expressions give.

What is kept of a tensor is what a text may not say: its dtype, where it lives, and whether it has
dimensions. Python's profiler reports each call and each return, whatever the program calls there:
a module, a function of torch, an attribute of a module. Written down are places, not values.
"""

from __future__ import annotations

import dis
import json
import sys
from dataclasses import dataclass, field
from inspect import CO_GENERATOR
from types import CodeType, FrameType
from typing import Any

import torch

from amplint_verify.recording.record import site_of
from amplint_verify.recording.sightings import OTHER, Called, Gave, Shape, UserExpression
from amplint_verify.recording.watching import CallWatcher, Watcher, region

MOST_ITEMS = 16  # of a container that is looked into
DEEPEST = 3  # containers in each other
MOST_SHAPES = 6  # that are kept apart at one place; with more, nothing is said of it
# The kind of expression, by the instruction that takes the result of a return. (What a loop is
# given is not known: `enumerate` stands between it and the loader, and has no frame.)
EXPRESSIONS = {
    "CALL": "call",
    "CALL_FUNCTION_EX": "call",
    "CALL_KW": "call",
    "PRECALL": "call",
    "LOAD_ATTR": "attribute",
    "BINARY_SUBSCR": "subscript",
    "BINARY_OP": "operation",
}
KIND_OF = {dis.opmap[name]: kind for name, kind in EXPRESSIONS.items() if name in dis.opmap}
HANDLER = CallWatcher.__torch_function__.__code__  # it returns what a function of torch returns


def shape_of(value: Any, on_device: bool, depth: int = 0) -> Shape:
    """The part of a value that is kept: see `Shape`.

    Args:
        value: of the program.
        on_device: whether its device is the one that it would have on a GPU.
        depth: how many containers are around it.
    """
    if isinstance(value, torch.Tensor):
        where = value.device.type if on_device else "?"
        return f"{str(value.dtype).removeprefix('torch.')} {where} {min(value.dim(), 1)}"
    if type(value) not in (dict, list, tuple) or depth == DEEPEST or len(value) > MOST_ITEMS:
        return OTHER
    if type(value) is dict:
        if not all(type(key) is str for key in value):
            return OTHER
        items = {key: shape_of(each, on_device, depth + 1) for key, each in value.items()}
        return items if any(each != OTHER for each in items.values()) else OTHER
    row = [shape_of(each, on_device, depth + 1) for each in value]
    return row if any(each != OTHER for each in row) else OTHER


class Shapes(dict[str, Shape]):
    """The shapes that were seen at one place, each once, by their text."""

    def add(self, shape: Shape) -> None:
        if len(self) <= MOST_SHAPES:
            self[shape if isinstance(shape, str) else json.dumps(shape)] = shape

    def all(self) -> tuple[Shape, ...]:
        """All of them; only that it may be anything, where they are too many."""
        return tuple(self[text] for text in sorted(self)) if len(self) <= MOST_SHAPES else (OTHER,)


@dataclass
class Calling:
    """The calls of one function until now."""

    parameters: dict[str, Shapes] = field(default_factory=dict)
    regions: set[str] = field(default_factory=set)
    calls: int = 0
    steps: int = 0
    last: int = 0
    learns: bool = False


class Profiler:
    """Sees the calls and returns of the program's own functions.

    Args:
        watcher: knows which files are the program's, and how many steps were made.
        on_device: as of `shape_of`.
    """

    def __init__(self, watcher: Watcher, on_device: bool) -> None:
        self.watcher = watcher
        self.on_device = on_device
        self.entered: dict[tuple[str, int, str], Calling] = {}
        self.gave: dict[tuple[str, UserExpression], Shapes] = {}
        self.expressions: dict[tuple[CodeType, int], tuple[str, UserExpression] | None] = {}
        self.rows: dict[str, set[int]] = {}  # that have called something, by file
        self.native: set[int] = set()  # frames that wait for a function without a frame of its own

    def __enter__(self) -> None:
        """Profile the code of this thread until `__exit__`."""
        self.before = sys.getprofile()
        sys.setprofile(self.heard)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self.before)

    def heard(self, frame: FrameType, event: str, value: Any) -> None:
        """As `sys.setprofile` calls it."""
        if event == "return":
            self.native.discard(id(frame))
            asking = frame.f_back
            if asking is not None:
                self.returned(frame, asking, value)
            return
        path = self.watcher.places.path(frame.f_code)
        if path is None:
            return
        if event == "call":
            self.called(frame)
        elif event == "c_call":
            self.native.add(id(frame))
            self.rows.setdefault(path, set()).add(frame.f_lineno)
        else:
            self.native.discard(id(frame))

    def called(self, frame: FrameType) -> None:
        code = frame.f_code
        if code.co_name.startswith("<") or code.co_flags & CO_GENERATOR:
            return  # a generator is called again for each of its items
        path = self.watcher.places.path(code) or ""
        key = path, code.co_firstlineno, code.co_name
        calling = self.entered.setdefault(key, Calling())
        step = self.watcher.steps + 1
        calling.calls += 1
        calling.steps += step != calling.last
        calling.last = step
        calling.regions.add(region())
        calling.learns |= torch.is_grad_enabled()
        count = code.co_argcount + code.co_kwonlyargcount
        variables = frame.f_locals
        for name in code.co_varnames[:count]:
            if name in variables:  # else it is a cell
                shape = shape_of(variables[name], self.on_device)
                calling.parameters.setdefault(name, Shapes()).add(shape)

    def returned(self, frame: FrameType, asking: FrameType, value: Any) -> None:
        """Write down the value of an expression of the program."""
        path = self.watcher.places.path(asking.f_code)
        if path is None:
            return
        self.rows.setdefault(path, set()).add(asking.f_lineno)
        if value is None or frame.f_code.co_flags & CO_GENERATOR:
            return
        if id(asking) in self.native and frame.f_code is not HANDLER:
            return  # Ex) f of max(xs, key=f)
        key = asking.f_code, asking.f_lasti
        if key not in self.expressions:
            self.expressions[key] = expression_of(asking, path)
        expression = self.expressions[key]
        if expression is not None:
            shapes = self.gave.setdefault(expression, Shapes())
            shapes.add(shape_of(value, self.on_device))

    def fields(self) -> dict[str, Any]:
        """The fields of an `Observation` that it knows."""
        called = (
            Called(
                *key,
                {name: shapes.all() for name, shapes in sorted(c.parameters.items())},
                tuple(sorted(c.regions)), c.learns, c.calls, c.steps,
            )
            for key, c in sorted(self.entered.items())
        )  # fmt: skip
        gave = (Gave(kind, site, shapes.all()) for (kind, site), shapes in self.gave.items())
        rows = {path: tuple(sorted(rows)) for path, rows in sorted(self.rows.items())}
        return {"called": tuple(called), "gave": tuple(gave), "calling": rows}


def expression_of(frame: FrameType, path: str) -> tuple[str, UserExpression] | None:
    """The kind and the place of the expression that a frame waits for; None for what is none, and
    before Python 3.11."""
    kind = KIND_OF.get(frame.f_code.co_code[frame.f_lasti])
    site = site_of(frame, path)
    return (kind, site) if kind is not None and site.column >= 0 else None
