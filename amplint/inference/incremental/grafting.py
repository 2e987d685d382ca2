"""An edited function, of which most nodes are those of before: these keep what is known of them.

A node has the value that its operands give, what is written for the keys that it reads, and what
the uses in its function say of it (`use_evidence.Marks`). A node of which all of this is as before
has the value of before, whatever stands beside it now. So only those nodes are evaluated that are
new, or that something new stands behind.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields

from amplint.inference.whole_program.use_evidence import Marks
from amplint.ir import ops
from amplint.ir.flow import SCOPES
from amplint.ir.model import Graph, Node
from amplint.util.walks import components, reachable

WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Graft:
    """The nodes of a function that stay, and those that are to be evaluated.

    Args:
        numbers: by a node before: the same one now.
        behind: the nodes, now, that are to be evaluated.
        rewired: those of them that depend on new nodes, or stand in another place: there
            may be other components through them.
    """

    numbers: Mapping[int, int]
    behind: frozenset[int]
    rewired: frozenset[int]


def graft(
    old: Graph,
    new: Graph,
    old_marks: Marks,
    new_marks: Marks,
    is_read: bool = False,
    may_define: bool = False,
) -> Graft | None:
    """The nodes of a function that stay; None where it has to be evaluated as a whole.

    Args:
        old, new: its graphs, before and now.
        old_marks, new_marks: what the uses in these say.
        is_read: whether other scopes read the names that it binds.
        may_define: whether functions may stand in it that did not before.
    """
    if [(b.kind, b.parent) for b in old.blocks] != [(b.kind, b.parent) for b in new.blocks]:
        return None
    numbers = dict(pairs(old, new))
    if is_read and not binds_the_same(old, new, numbers):
        return None
    if not stays_in_sight(old, new, numbers, may_define):
        return None
    if (old_marks.paths, old_marks.number_paths) != (new_marks.paths, new_marks.number_paths):
        return None
    before = {now: was for was, now in numbers.items()}
    rewired = {
        number
        for number, node in enumerate(new.nodes)
        if number not in before or is_rewired(old, old.nodes[before[number]], node, new, numbers)
    }
    for was, now in zip(old.blocks, new.blocks, strict=True):
        if numbers.get(was.node, -1) != now.node:
            return None  # the same blocks run under another test, or in another context
    differences = {
        now
        for was, now in numbers.items()
        if repr(old.nodes[was].data) != repr(new.nodes[now].data)
        or marks_of(old_marks, was, numbers) != marks_of(new_marks, now, None)
    }
    behind = frozenset(reachable(rewired | differences, users_of(new)))
    cycles = components(range(len(new.nodes)), lambda number: operands(new.nodes[number]))
    if any(len(component) > 1 and not rewired.isdisjoint(component) for component in cycles):
        return None  # a loop, of which it is not known what component it is part of now
    # A constant depends on nothing.
    non_constants = frozenset(number for number in rewired if new.nodes[number].op != ops.CONST)
    return Graft(numbers, behind, non_constants)


def unchanged(graph: Graph) -> Graft:
    """All of a function stays."""
    every = range(len(graph.nodes))
    return Graft(dict(zip(every, every, strict=True)), frozenset(), frozenset())


def pairs(old: Graph, new: Graph) -> Iterator[tuple[int, int]]:
    """The nodes before, each with the same one now, in their order."""
    before, now = [*map(kind_of, old.nodes)], [*map(kind_of, new.nodes)]
    matcher = difflib.SequenceMatcher(None, before, now, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        # Ex) another constant in its place
        alike = [old.nodes[n].op for n in range(start, end)] == [
            new.nodes[n].op for n in range(new_start, new_end)
        ]
        if tag == "equal" or (tag == "replace" and alike):
            yield from zip(range(start, end), range(new_start, new_end), strict=True)


def kind_of(node: Node) -> tuple[str, str, int]:
    """A node without its operands and its place; constants by their text, for 1 == True."""
    return node.op, repr(node.data), node.block


def binds_the_same(old: Graph, new: Graph, numbers: Mapping[int, int]) -> bool:
    """Whether each name is bound by the same nodes as before, unless it is a new one."""
    return all(
        [numbers.get(number, -1) for number in nodes] == list(new.bindings.get(name, ()))
        for name, nodes in old.bindings.items()
    )


def stays_in_sight(old: Graph, new: Graph, numbers: Mapping[int, int], may_define: bool) -> bool:
    """Whether the rest of the project sees the same nodes of a function."""
    if old.globals or new.globals:
        return False
    defined: set[int] = set()
    if may_define:
        every = {n for n, node in enumerate(new.nodes) if node.op in (ops.DEF, ops.DEFAULT)}
        defined = every.difference(numbers.values())

    def sight(graph: Graph, numbers: Mapping[int, int] | None, besides: Container[int]) -> object:
        def now(nodes: Sequence[int]) -> list[int]:
            return [number if numbers is None else numbers.get(number, -1) for number in nodes]

        # What others read of a function past its nodes, or what counts its nodes otherwise.
        looked_at = SCOPES | {ops.IMPORT, ops.DEFAULT, ops.PARAM}
        nesting = [
            number
            for number, node in enumerate(graph.nodes)
            if node.op in looked_at and number not in besides
        ]
        annotation = [graph.annotation] if graph.annotation >= 0 else []
        return now(graph.returns), now(graph.yields), now(annotation), now(nesting)

    return sight(old, numbers, ()) == sight(new, None, defined)


def mentions(graph: Graph, names: AbstractSet[str]) -> bool:
    """Whether a graph may look for one of some names, other than by defining it."""
    return any(
        not names.isdisjoint(WORD.findall(repr(node.data)))
        for node in graph.nodes
        if node.op not in (ops.DEF, ops.DEFAULT)
    )


def is_rewired(old: Graph, was: Node, node: Node, new: Graph, numbers: Mapping[int, int]) -> bool:
    """Whether a node depends on other nodes than before, or on something in another way."""
    if was.block != node.block or len(was.operands) != len(node.operands):
        return True
    return any(
        (numbers.get(before, -2) if before >= 0 else before) != now
        or (now >= 0 and old.nodes[before].op != new.nodes[now].op)
        for before, now in zip(was.operands, node.operands, strict=True)
    )


def marks_of(marks: Marks, number: int, numbers: Mapping[int, int] | None) -> list[object]:
    """All that the uses in a graph say of a node; other nodes by their numbers now."""
    contents: list[object] = []
    for each in fields(marks):
        of = getattr(marks, each.name)
        if isinstance(of, frozenset):
            contents.append(number in of)
        elif isinstance(of, Mapping) and each.name != "paths":
            content = of.get(number)
            if isinstance(content, int) and numbers is not None:
                content = numbers.get(content, -1)
            contents.append(content)
    return contents


def operands(node: Node) -> Iterator[int]:
    return (number for number in node.operands if number >= 0)


def users_of(graph: Graph) -> Callable[[int], Sequence[int]]:
    """A function that returns the nodes that have a node as an operand."""
    users: dict[int, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        for operand in operands(node):
            users.setdefault(operand, []).append(number)
    return lambda number: users.get(number, ())
