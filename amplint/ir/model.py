"""The index of one file: definitions, and a value graph for each function.

A value graph is in static single assignment form: a node is an operation on earlier nodes, a name
is gone as soon as its reads point to what was written, and a `phi` joins what several paths wrote.
Only `phi` operands may point forward (to the end of a loop's body). Everything here is plain data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from amplint.ir import ops
from amplint.ir.ops import Op

NARROWING = frozenset({ops.NARROW})
Location = tuple[int, int, int, int]  # row, UTF-8 column, end row, end column, as `ast` counts


class CallShape(NamedTuple):
    """How the operands of a `call` node after the callee are to be read.

    `stars`: whether `*args` or `**kwargs` is among them (then positions are uncertain).
    `hint`: the last identifier of the first argument (`device` of `x.to(self.device)`).
    `leading`: how many positional ones stand before the first `*args`.
    """

    positional: int
    keywords: tuple[str, ...]
    stars: bool
    hint: str
    leading: int


class Node(NamedTuple):
    """One operation.

    `amplint.ir.ops` lists the operands of each operation, and what `data` holds. The operands of a
    call are not its arguments one by one, for one behind a star may be any number of them. So
    nothing but this class counts the operands of a call (tests/fuzz/test_starred_calls.py).
    """

    op: Op
    operands: tuple[int, ...]
    data: Any
    block: int
    location: Location

    @property
    def arguments(self) -> tuple[int, ...]:
        """Of a call: the nodes of what it is given, in whatever way; of `*args` that of `args`."""
        return self.operands[1:]

    @property
    def positional(self) -> tuple[int, ...]:
        """Of a call: those of them that are given by position, be it behind a star."""
        shape: CallShape = self.data
        return self.operands[1 : 1 + shape.positional]

    @property
    def named(self) -> Iterator[tuple[str, int]]:
        """Of a call: those that are given by keyword, with it; of `**kwargs` it is `**`."""
        shape: CallShape = self.data
        return zip(shape.keywords, self.operands[1 + shape.positional :], strict=True)

    def argument(self, position: int | None, keyword: str = "") -> int:
        """Of a call: the node of the argument of that keyword or position, from 0; -1 where it is
        not given, and behind a star, where nobody knows which one it is."""
        at = self.argument_index(position, keyword)
        return self.operands[at] if at >= 0 else -1

    def argument_index(self, position: int | None, keyword: str = "") -> int:
        """Of a call: the index in its operands of the argument of that keyword or position, from
        0; -1 where `argument` returns that. Ex) `f(x, x)` has one node twice, at two indices"""
        shape: CallShape = self.data
        if keyword in shape.keywords:
            return 1 + shape.positional + shape.keywords.index(keyword)
        return 1 + position if position is not None and position < shape.leading else -1

    @property
    def operator(self) -> str:
        """Of `x + y` and `x += y`: the name of the `ast` class, "Add"; "" of anything else."""
        return self.data if self.op in (ops.BINOP, ops.AUG) else ""

    @property
    def second(self) -> int:
        """Of anything but a call: the second operand, such as the index of a subscript."""
        assert self.op != ops.CALL, "see `argument`"
        return self.operands[1]


class Block(NamedTuple):
    """A stretch of statements that run together.

    kind: body, loop, while, comprehension, with, if, else, try, handler, finally, and `after`: what
    follows `if test: continue`, and so runs only where the test fails.
    `node` is the iterated value, the test, the context or the exception's class; -1 without one.
    A `with` is what follows `stack.enter_context(c)` and `c.__enter__()`, too; such a context has a
    block in each suite that it lasts in.
    """

    kind: str
    parent: int
    node: int
    location: Location


LOOPS = frozenset({"loop", "while", "comprehension"})  # kinds of blocks that run many times
SIDES = frozenset({"if", "else", "after"})  # those under a test


@dataclass(frozen=True)
class Graph:
    """The value graph of one function, class body or module."""

    nodes: tuple[Node, ...]
    blocks: tuple[Block, ...]
    bindings: Mapping[str, tuple[int, ...]]  # every node that a name was bound to
    globals: Mapping[str, tuple[int, ...]]  # the same for names declared global or nonlocal
    returns: tuple[int, ...]
    yields: tuple[int, ...]
    annotation: int = -1  # of what the function returns; -1 without one

    @cached_property
    def given_back(self) -> tuple[int, ...]:
        """The values of `returns`, whose nodes hold them; a lambda's value stands there itself."""
        returned = ((each, self.nodes[each]) for each in self.returns)
        return tuple(node.operands[0] if node.op == ops.RETURN else each for each, node in returned)

    @cached_property
    def contexts(self) -> tuple[int, ...]:
        """The nodes that `with` statements are given, one for each block of such a statement."""
        blocks = (block for block in self.blocks if block.kind == "with")
        return tuple(block.node for block in blocks if block.node >= 0)

    @cached_property
    def in_loops(self) -> Sequence[bool]:
        """By block: whether it is a loop or a comprehension, or in one."""
        flags: list[bool] = []
        for block in self.blocks:
            flags.append(block.kind in LOOPS or (block.parent >= 0 and flags[block.parent]))
        return flags

    @cached_property
    def _last_inner(self) -> Sequence[int]:
        """By block: the last one nested in it. Blocks are numbered as they are opened, so that
        those nested in one follow it."""
        last = list(range(len(self.blocks)))
        for number in range(len(self.blocks) - 1, 0, -1):
            parent = self.blocks[number].parent
            if parent >= 0:
                last[parent] = max(last[parent], last[number])
        return last

    def is_in(self, block: int, outer: int) -> bool:
        """Whether a block is `outer` or nested in it, at whatever depth; every one is in -1."""
        return outer < 0 or outer <= block <= self._last_inner[outer]

    @cached_property
    def _bounds(self) -> Sequence[tuple[int, int]]:
        """By block: the first node in it, and the one after the last."""
        bounds = [(len(self.nodes), 0)] * len(self.blocks)
        for number, node in enumerate(self.nodes):
            first, end = bounds[node.block]
            bounds[node.block] = min(first, number), max(end, number + 1)
        for block in range(len(self.blocks) - 1, 0, -1):
            parent, (first, end) = self.blocks[block].parent, bounds[block]
            if parent >= 0:
                bounds[parent] = min(first, bounds[parent][0]), max(end, bounds[parent][1])
        return bounds

    def nodes_in(self, outer: int) -> range:
        """The nodes in a block and in those nested in it; all of them for -1."""
        return range(*self._bounds[outer]) if outer >= 0 else range(len(self.nodes))

    def behind(self, number: int, operations: frozenset[Op]) -> int:
        """The node that a value comes from through the first operands of operations.

        Ex) `loader` of `loader[0]`, for {"subscript"}; a node of another operation is itself.
        """
        sources = self._behind.get(operations)
        if sources is None:
            sources = self._behind[operations] = []
            for each, node in enumerate(self.nodes):
                through = node.op in operations and 0 <= node.operands[0] < each
                sources.append(sources[node.operands[0]] if through else each)
        return sources[number]

    @cached_property
    def _behind(self) -> dict[frozenset[Op], list[int]]:
        return {}

    @cached_property
    def stores(self) -> Mapping[str, Sequence[int]]:
        """By attribute: the nodes that store something in one of that name."""
        by_attribute: dict[str, list[int]] = {}
        for number, node in enumerate(self.nodes):
            if node.op == ops.STORE:
                by_attribute.setdefault(node.data, []).append(number)
        return by_attribute

    @cached_property
    def first_reads(self) -> Mapping[str, int]:
        """By variable of another scope: the first node that reads it."""
        reads = ((node.data, n) for n, node in enumerate(self.nodes) if node.op == ops.NAME)
        return dict(reversed([*reads]))

    @cached_property
    def defaults(self) -> Mapping[tuple[str, str], int]:
        """By function and parameter: the node of a default that is no constant."""
        return {
            node.data: node.operands[0] for node in reversed(self.nodes) if node.op == ops.DEFAULT
        }

    def element(self, row: int, index: int) -> int:
        """The node of an element of a tuple that is written out; -1 for anything else, and behind a
        star, where nobody knows which one it is."""
        node = self.nodes[row] if row >= 0 else None
        before = node.operands[: index + 1] if node is not None and node.op == ops.TUPLE else ()
        is_sure = len(before) == index + 1 and all(self.nodes[n].op != ops.STARRED for n in before)
        return before[index] if is_sure else -1

    def narrowed(self, number: int) -> int:
        """The node of which tests have left the value of a node: itself, if none has."""
        return self.behind(number, NARROWING)


@dataclass(frozen=True)
class Param:
    """A parameter; kind is one of positional, keyword, star, starstar."""

    name: str
    kind: str
    annotated: bool
    default: object = None  # the constant, where the default is one
    has_default: bool = False
    constant_default: bool = False


@dataclass(frozen=True)
class FunctionFacts:
    """A function, a method, a lambda, a class body or a module body.

    Args:
        id: `path::qualified.name`, with `#n` where the name is taken.
        kind: function, lambda, class, module.
        parent: the id of the function (class body, module) that it is defined in.
        cls: the id of the class whose method it is, else None.
        decorated: the texts of its decorators' last identifiers (`staticmethod`, `property` ...).
        words: every identifier in its code, and words of its strings; a superset.
    """

    id: str
    path: str
    name: str
    qualname: str
    kind: str
    parent: str | None
    cls: str | None
    params: tuple[Param, ...]
    decorated: tuple[str, ...]
    is_async: bool
    words: frozenset[str]
    location: Location

    def param(self, name: str) -> Param | None:
        """The parameter of that name."""
        return self._params_by_name.get(name)

    @cached_property
    def takes_receiver(self) -> bool:
        """Whether the first parameter is what it is called on: `self`, or `cls`."""
        return self.cls is not None and "staticmethod" not in self.decorated

    @cached_property
    def positional(self) -> tuple[Param, ...]:
        """The parameters that can be given by place."""
        return tuple(param for param in self.params if param.kind == "positional")

    @cached_property
    def places(self) -> tuple[str, ...]:
        """The names of those that a call writes by place: the receiver stands before them."""
        return tuple(param.name for param in self.positional[self.takes_receiver :])

    @cached_property
    def _params_by_name(self) -> Mapping[str, Param]:
        return {param.name: param for param in reversed(self.params)}


@dataclass(frozen=True)
class ClassFacts:
    """A class: the function facts of its body share its id."""

    id: str
    path: str
    name: str
    qualname: str
    parent: str
    bases: tuple[str, ...]  # the last identifiers of the bases, as written
    methods: Mapping[str, tuple[str, ...]]  # a name may be defined more than once
    decorated: tuple[str, ...]
    location: Location


@dataclass(frozen=True)
class FileFacts:
    """The definitions of one file. `functions` holds the module itself under `path::`."""

    path: str
    functions: Mapping[str, FunctionFacts]
    classes: Mapping[str, ClassFacts]
    words: frozenset[str] = field(default=frozenset())

    @property
    def module(self) -> str:
        return f"{self.path}::"


def path_of(graph: Graph, number: int) -> str | None:
    """`self.model` for the node that reads it; None for what is not a dotted name."""
    names: list[str] = []
    for _ in range(6):
        node = graph.nodes[number]
        if node.op in (ops.PARAM, ops.NAME):
            return ".".join([str(node.data), *reversed(names)])
        if node.op == ops.NARROW:
            number = node.operands[0]
        elif node.op == ops.ATTR:
            names.append(node.data)
            number = node.operands[0]
        else:
            return None
    return None
