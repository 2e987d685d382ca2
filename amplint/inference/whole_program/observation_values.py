"""Observations as values: of the nodes of a function whose value nobody else knows.

An observation fills in what inference does not know, and is dropped where that knows otherwise. It
proves no absence: what a run has not shown may be there all the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from amplint.ir import ops
from amplint.ir.ops import Op
from amplint.project import observations
from amplint.project.observations import ObservedFunction
from amplint.util.positions import Place
from amplint.values.atoms import (
    ACCELERATOR,
    BOTTOM,
    NO_DEVICE,
    UNKNOWN,
    Atom,
    Device,
    Evidence,
    Region,
    Sequence,
    Shows,
    Tensor,
    TensorTree,
    Unknown,
    Value,
    one,
)
from amplint.values.atoms import Mapping as MappingValue
from amplint.values.lattice import join

if TYPE_CHECKING:
    from amplint.ir.file_index import File
    from amplint.ir.model import FileFacts, FunctionFacts, Graph

KINDS: Mapping[Op, str] = {
    ops.CALL: observations.CALL,
    ops.ATTR: "attribute",
    ops.SUBSCRIPT: "subscript",
    ops.BINOP: "operation",
}
TENSOR = re.compile(r"((?:b?float|u?int|complex)\d{1,3}\w*|bool) (cuda|cpu|\?) ([01])")
DEEPEST = 4  # containers in each other; the file may hold anything
MOST_SHAPES = 8  # of one place
DEVICES: Mapping[str, str] = {"cuda": ACCELERATOR, "cpu": "cpu"}


class ObservedFunctions:
    """The functions of some files, as runs have shown them."""

    def __init__(self, functions: Mapping[str, ObservedFunction]) -> None:
        self._functions = functions
        self._valid: dict[str, ObservedFunction | None] = {}

    def of(self, facts: FunctionFacts, files: Mapping[str, File]) -> ObservedFunction | None:
        """The observations of a function, if its text is the one that ran."""
        if facts.id not in self._functions:
            return None
        if facts.id not in self._valid:
            observation = self._functions[facts.id]
            is_same = observation.text == digest_of(facts, files[facts.path].lines)
            self._valid[facts.id] = observation if is_same else None
        return self._valid[facts.id]


def digest_of(facts: FunctionFacts, lines: list[str]) -> str:
    """The digest of a function's text, by the lines of its file."""
    return observations.digest(lines[facts.location[0] - 1 : facts.location[2]], facts.decorated)


def innermost(file: FileFacts, row: int) -> FunctionFacts:
    """The innermost function around a row, or else the module."""
    functions = (each for each in file.functions.values() if each.kind == "function")
    inside = [each for each in functions if each.location[0] <= row <= each.location[2]]
    return max(inside, key=lambda each: each.location[:2], default=file.functions[file.module])


def values(observation: ObservedFunction, facts: FunctionFacts, graph: Graph) -> dict[int, Value]:
    """The values that runs have shown, by node."""
    by_node: dict[int, Value] = {}
    for number, node in enumerate(graph.nodes):
        if node.op == ops.PARAM:
            shapes = observation.parameters.get(node.data)
        elif node.op in KINDS:
            place = observations.place(KINDS[node.op], node.location, facts.location[0])
            shapes = observation.expressions.get(place)
        else:
            continue
        value = value_of(shapes, evidence(observation, Place(facts.path, *node.location)))
        if value:
            by_node[number] = value
    return by_node


def evidence(observation: ObservedFunction, place: Place) -> Evidence:
    return Evidence(place, f"seen when `{observation.run}` ran", Shows.OBSERVED)


def value_of(shapes: object, why: Evidence) -> Value:
    """The value that is one of some shapes; nothing where these say nothing."""
    if not isinstance(shapes, list) or not 0 < len(shapes) <= MOST_SHAPES:
        return BOTTOM
    alternatives = [shape_value(shape, why, 0) for shape in shapes]
    return join(alternatives) if all(alternatives) else BOTTOM


def shape_value(shape: object, why: Evidence, depth: int) -> Value:
    """The value of one shape; nothing where that says nothing."""
    if isinstance(shape, str):
        tensor = TENSOR.fullmatch(shape)
        if tensor is None:
            return BOTTOM
        dtype, device, dimensions = tensor.groups()
        kind = DEVICES.get(device)
        where = Device(kind, why) if kind is not None else NO_DEVICE
        return one(Tensor(dtype, where, int(dimensions), dtype_evidence=why))
    if depth > DEEPEST:
        return BOTTOM
    if isinstance(shape, dict):
        items = {
            key: shape_value(each, why, depth + 1) or UNKNOWN
            for key, each in shape.items()
            if isinstance(key, str)
        }
        return one(MappingValue(UNKNOWN, tuple(sorted(items.items(), key=lambda item: item[0]))))
    if isinstance(shape, list):
        row = tuple(shape_value(each, why, depth + 1) or UNKNOWN for each in shape)
        return one(Sequence(row, BOTTOM))
    return BOTTOM


def filled(value: Value, filler: Value) -> Value:
    """A value with what was seen in the place of what nobody knows of it."""
    if not value or all(is_settled(atom) for atom in value):
        return value
    return join(filler if isinstance(atom, Unknown) else one_filled(atom, filler) for atom in value)


def is_settled(atom: Atom) -> bool:
    """Whether nothing that could be seen is unknown of an alternative."""
    if isinstance(atom, Tensor):
        return atom.half_on_a_path is not None or (
            atom.dtype is not None and atom.device.kind is not None
        )
    if isinstance(atom, MappingValue):
        return bool(atom.items)
    return not isinstance(atom, Unknown | TensorTree)


def one_filled(atom: Atom, filler: Value) -> Value:
    tensors = [each for each in filler if isinstance(each, Tensor)]
    if isinstance(atom, MappingValue):
        return frozenset(map(partial(items_filled, atom), filler))
    if isinstance(atom, TensorTree):
        # Where it lives is known; what it is was seen.
        has_device = atom.device.kind is not None
        return frozenset(
            replace(each, device=atom.device) if has_device and isinstance(each, Tensor) else each
            for each in filler
        )
    if not isinstance(atom, Tensor) or not tensors or len(tensors) != len(filler):
        return one(atom)
    (other, *more) = tensors
    if more:
        return one(atom)
    if atom.dtype is None and atom.half is None:
        atom = replace(
            atom, dtype=other.dtype, half=other.half, dtype_evidence=other.dtype_evidence
        )
    if atom.device.kind is None and other.device.kind is not None:
        atom = replace(atom, device=other.device)
    return one(atom)


def items_filled(dictionary: MappingValue, filler: Atom) -> Atom:
    """A dict of which no key is known, with the items that were seen. Ex) of a parameter that is
    annotated as a dict of tensors"""
    if not isinstance(filler, MappingValue):
        return dictionary
    items = ((key, filled(dictionary.rest or UNKNOWN, value)) for key, value in filler.items)
    return replace(dictionary, items=tuple(items))


def region_of(observation: ObservedFunction, facts: FunctionFacts) -> Region | None:
    """The autocast region that a function was seen to be called in; None for none.

    A call outside of any does not count, as of the calls that the text shows.
    """
    dtypes = {each for each in observation.regions if each in ("float16", "bfloat16")}
    if not dtypes:
        return None
    dtype = dtypes.pop() if len(dtypes) == 1 else "half"
    why = evidence(observation, Place(facts.path, *facts.location))
    return Region("cuda", dtype, True, why, inherited=True)
