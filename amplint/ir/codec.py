"""The index of a file as bytes: plain data, and back.

A record is MessagePack. All that may be shared or needs more than numbers to say (names, constants,
the shapes of calls) stands once in its table; facts and graphs are numbers, most of them places in
the table. A graph is kept as columns, one for each field of its nodes, and is decoded when it is
asked for. What is decoded equals what was encoded; constants keep their type, NaN and the sign of
zero.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from amplint.ir.model import (
    Block,
    CallShape,
    ClassFacts,
    FileFacts,
    FunctionFacts,
    Graph,
    Location,
    Node,
    Param,
)
from amplint.ir.ops import OPERATIONS
from amplint.ir.ssa import ROWS

FORMAT = 3
LARGEST_INT = 2**63  # beyond, a number is written as text
Bindings = dict[int, tuple[int, ...]]


class FunctionRecord(msgspec.Struct, array_like=True):
    """`FunctionFacts`: fields that are no list are places in the table."""

    id: int
    name: int
    qualname: int
    kind: int
    parent: int
    cls: int
    params: list[tuple[int, int, bool, int, bool, bool]]
    decorated: list[int]
    is_async: bool
    words: list[int]
    location: Location


class ClassRecord(msgspec.Struct, array_like=True):
    """`ClassFacts`, likewise."""

    id: int
    name: int
    qualname: int
    parent: int
    bases: list[int]
    methods: dict[int, list[int]]
    decorated: list[int]
    location: Location


class GraphRecord(msgspec.Struct, array_like=True):
    """`Graph`: the columns of its nodes and of its blocks, and the rest as it is."""

    op: list[int]  # by their places in `OPERATIONS`
    operands: list[tuple[int, ...]]
    data: list[int]
    block: list[int]
    location: tuple[list[int], list[int], list[int], list[int]]
    block_kind: list[int]
    block_parent: list[int]
    block_node: list[int]
    block_location: list[Location]
    bindings: Bindings
    globals: Bindings
    returns: tuple[int, ...]
    yields: tuple[int, ...]
    annotation: int
    lambdas: list[FunctionRecord]  # those that are defined in it


class FileRecord(msgspec.Struct, array_like=True):
    """`FileFacts` without lambdas, and the graph of each function by its place in the table."""

    format: int
    table: list[Any]
    functions: list[FunctionRecord]
    classes: list[ClassRecord]
    words: list[int]
    stored_from_outside: list[int]
    graphs: dict[int, msgspec.Raw]


_NUMBERS = {operation: number for number, operation in enumerate(OPERATIONS)}
_encode = msgspec.msgpack.Encoder().encode
_decode_file = msgspec.msgpack.Decoder(FileRecord).decode
_decode_graph = msgspec.msgpack.Decoder(GraphRecord).decode


# -------------------------------------------------------------------------------- constants


def packed(value: object) -> object:
    """A constant as MessagePack can say it: a list begins with what it stands for."""
    kind = type(value)
    if kind is str:
        assert isinstance(value, str)
        try:
            value.encode()
        except UnicodeEncodeError:
            return ["surrogates", value.encode("utf-8", "surrogatepass")]
        return value
    if kind is int:
        assert isinstance(value, int)
        return value if -LARGEST_INT <= value < LARGEST_INT else ["int", hex(value)]
    if value is None or kind in (bool, float, bytes):
        return value
    if kind is complex:
        assert isinstance(value, complex)
        return ["complex", value.real, value.imag]
    if value is ...:
        return ["..."]
    if kind is CallShape or kind is tuple:
        assert isinstance(value, tuple)
        return ["call" if kind is CallShape else "tuple", *map(packed, value)]
    raise TypeError(f"a {kind.__name__} is no constant")


def unpacked(value: Any) -> object:
    """The constant of which `packed` has made a list; any other, as it is."""
    if type(value) is not list:
        return value
    return UNPACKED[value[0]](*map(unpacked, value[1:]))


UNPACKED: Mapping[str, Callable[..., object]] = {
    "surrogates": lambda text: text.decode("utf-8", "surrogatepass"),
    "int": partial(int, base=16),
    "complex": complex,
    "...": lambda: ...,
    "call": CallShape,
    "tuple": lambda *items: items,
}


class ConstantTable(dict[object, int]):
    """The constants of a file, by the order in which they are met; a string is its own key."""

    def __init__(self) -> None:
        super().__init__()
        self.values_in_order: list[object] = []

    def __missing__(self, text: str) -> int:
        return self._add(text, text)

    def of(self, value: object) -> int:
        """The place of any constant."""
        kind = type(value)
        if kind is str:
            return self[value]
        # 1, True and 1.0 are equal, and so are 0.0 and -0.0.
        key = (kind, value if kind in (int, bool, bytes) else repr(value))
        return self[key] if key in self else self._add(key, value)

    def all(self, texts: Iterable[str]) -> list[int]:
        """The places of strings."""
        return list(map(self.__getitem__, texts))

    def _add(self, key: object, value: object) -> int:
        number = self[key] = len(self.values_in_order)
        self.values_in_order.append(packed(value))
        return number


# ---------------------------------------------------------------------------------- encoding


def encode(
    facts: FileFacts,
    graphs: Mapping[str, Graph],
    lambdas: Mapping[str, Sequence[FunctionFacts]],
    stored_from_outside: Iterable[str],
) -> bytes:
    """The record of a file.

    Args:
        facts: those of the file.
        graphs: of all its functions, by id.
        lambdas: by function, those that its graph defines.
        stored_from_outside: see `File`.
    """
    table = ConstantTable()
    record = FileRecord(
        format=FORMAT,
        table=table.values_in_order,
        functions=[
            function_record(function, table)
            for function in facts.functions.values()
            if function.kind != "lambda"
        ],
        classes=[class_record(cls, table) for cls in facts.classes.values()],
        words=table.all(sorted(facts.words)),
        stored_from_outside=table.all(sorted(stored_from_outside)),
        graphs={
            table[identity]: msgspec.Raw(
                _encode(graph_record(graph, lambdas.get(identity, ()), table))
            )
            for identity, graph in graphs.items()
        },
    )
    return _encode(record)


def function_record(facts: FunctionFacts, table: ConstantTable) -> FunctionRecord:
    return FunctionRecord(
        id=table[facts.id],
        name=table[facts.name],
        qualname=table[facts.qualname],
        kind=table[facts.kind],
        parent=table.of(facts.parent),
        cls=table.of(facts.cls),
        params=[
            (table[p.name], table[p.kind], p.annotated, table.of(p.default), p.has_default,
             p.constant_default)
            for p in facts.params
        ],
        decorated=table.all(facts.decorated),
        is_async=facts.is_async,
        words=table.all(sorted(facts.words)),
        location=facts.location,
    )  # fmt: skip


def class_record(facts: ClassFacts, table: ConstantTable) -> ClassRecord:
    return ClassRecord(
        id=table[facts.id],
        name=table[facts.name],
        qualname=table[facts.qualname],
        parent=table[facts.parent],
        bases=table.all(facts.bases),
        methods={table[name]: table.all(ids) for name, ids in facts.methods.items()},
        decorated=table.all(facts.decorated),
        location=facts.location,
    )


def graph_record(
    graph: Graph, lambdas: Iterable[FunctionFacts], table: ConstantTable
) -> GraphRecord:
    locations = [node.location for node in graph.nodes]
    row, column, end_row, end_column = map(list, zip(*locations, strict=True)) if locations else (
        [], [], [], [],
    )  # fmt: skip
    return GraphRecord(
        op=[_NUMBERS[node.op] for node in graph.nodes],
        operands=[node.operands for node in graph.nodes],
        data=[table.of(node.data) for node in graph.nodes],
        block=[node.block for node in graph.nodes],
        location=(row, column, end_row, end_column),
        block_kind=table.all(block.kind for block in graph.blocks),
        block_parent=[block.parent for block in graph.blocks],
        block_node=[block.node for block in graph.blocks],
        block_location=[block.location for block in graph.blocks],
        bindings={table[name]: nodes for name, nodes in graph.bindings.items()},
        globals={table[name]: nodes for name, nodes in graph.globals.items()},
        returns=graph.returns,
        yields=graph.yields,
        annotation=graph.annotation,
        lambdas=[function_record(each, table) for each in lambdas],
    )


# ---------------------------------------------------------------------------------- decoding

_node = partial(tuple.__new__, Node)  # all in C: a project has millions of nodes
_block = partial(tuple.__new__, Block)


class Record:
    """The record of a file.

    Args:
        path: the file.
        encoded: as `encode` has written it.

    Raises msgspec.DecodeError (a ValueError) where it has not.
    """

    def __init__(self, path: str, encoded: bytes) -> None:
        self._path = path
        self._record = _decode_file(encoded)
        if self._record.format != FORMAT:
            raise ValueError(f"a record of format {self._record.format}")
        self._table: list[Any] = [
            sys.intern(value) if type(value) is str else unpacked(value)
            for value in self._record.table
        ]
        self._graphs = {self._table[n]: graph for n, graph in self._record.graphs.items()}

    def functions(self) -> Iterable[FunctionFacts]:
        """The functions of the file, without lambdas."""
        return map(self._function, self._record.functions)

    def classes(self) -> dict[str, ClassFacts]:
        return {cls.id: cls for cls in map(self._class, self._record.classes)}

    @property
    def words(self) -> frozenset[str]:
        return frozenset(map(self._table.__getitem__, self._record.words))

    @property
    def stored_from_outside(self) -> frozenset[str]:
        return frozenset(map(self._table.__getitem__, self._record.stored_from_outside))

    def graph(self, function: str) -> tuple[Graph, list[FunctionFacts]]:
        """The graph of a function, and the lambdas that it defines."""
        record, of = _decode_graph(self._graphs[function]), self._table.__getitem__
        row, column, end_row, end_column = record.location
        locations = zip(shared(row), column, shared(end_row), end_column, strict=True)
        nodes = zip(
            map(OPERATIONS.__getitem__, record.op), record.operands, map(of, record.data),
            record.block, locations, strict=True,
        )  # fmt: skip
        blocks = zip(
            map(of, record.block_kind), record.block_parent, record.block_node,
            record.block_location, strict=True,
        )  # fmt: skip
        graph = Graph(
            nodes=tuple(map(_node, nodes)),
            blocks=tuple(map(_block, blocks)),
            bindings={of(name): numbers for name, numbers in record.bindings.items()},
            globals={of(name): numbers for name, numbers in record.globals.items()},
            returns=record.returns,
            yields=record.yields,
            annotation=record.annotation,
        )
        return graph, [self._function(each) for each in record.lambdas]

    def _function(self, record: FunctionRecord) -> FunctionFacts:
        of = self._table.__getitem__
        return FunctionFacts(
            of(record.id), self._path, of(record.name), of(record.qualname), of(record.kind),
            of(record.parent), of(record.cls),
            tuple(
                Param(of(name), of(kind), annotated, of(default), has_default, constant)
                for name, kind, annotated, default, has_default, constant in record.params
            ),
            tuple(map(of, record.decorated)), record.is_async, frozenset(map(of, record.words)),
            record.location,
        )  # fmt: skip

    def _class(self, record: ClassRecord) -> ClassFacts:
        of = self._table.__getitem__
        return ClassFacts(
            of(record.id), self._path, of(record.name), of(record.qualname), of(record.parent),
            tuple(map(of, record.bases)),
            {of(name): tuple(map(of, ids)) for name, ids in record.methods.items()},
            tuple(map(of, record.decorated)), record.location,
        )  # fmt: skip


def shared(rows: list[int]) -> Iterable[int]:
    """Rows as the integers that all graphs share."""
    return map(ROWS.__getitem__, rows) if max(rows, default=0) < len(ROWS) else rows
