"""A function as a list of instructions, in the order in which they run; jumps go forward only.

Only what may matter to training is there: a side of a test that neither holds an event nor leaves
the loop or the function is left out, and so are handlers of exceptions and what raises. The body of
an innermost loop around a backward pass stands there twice, and that of an innermost loop around
both a backward pass and a step of a scaler: with `for batch in loader: for part in batch: ...`, the
steps are those of the outer one. That of any other loop stands there once. A loop around the
backward pass of a loss that was computed before it is none around the backward pass: it goes over
losses or optimizers, each of which is used once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from amplint.gradscaler.event_index import EventIndex
from amplint.gradscaler.events import (
    Role,
    TrainingEvent,
    TrainingEventKind,
    is_scaler_step,
)
from amplint.gradscaler.parameter_lists import modules_of
from amplint.gradscaler.symbolic_values import Symbolic
from amplint.inference import SiteId
from amplint.ir import ops
from amplint.ir.model import LOOPS, Graph, Node
from amplint.util.walks import reachable
from amplint.values.atoms import Host

ITERATIONS = 2  # of an innermost loop around a backward pass, or around that and a step
SIDES = {
    "if": True,
    "else": False,
    "after": False,
}  # by kind of block: the outcome that leads there
EXITS = frozenset({ops.BREAK, ops.CONTINUE, ops.RETURN})
EFFECTS = frozenset({ops.CALL, ops.STORE})  # operations that do more than to give a value
ONCE = -1  # the number of the iteration of a loop that is run once


class Do(Enum):
    """The kinds of instructions."""

    RUN = auto()  # the node
    TEST = auto()  # go on if the outcome of the test is the wanted one, else jump
    ASSUME = auto()  # go on only if it is
    LEAVE = auto()  # jump: the node is a break, continue or return
    ITERATE = auto()  # begin an iteration of the loop
    END = auto()  # of the loop
    CLOSE = auto()  # the context manager that is the value of the node


class Instruction(NamedTuple):
    """One instruction.

    Args:
        node: the node that is run, the test, or the context; -1 without one.
        wanted: of a TEST or ASSUME, the outcome of the test.
        block: of ITERATE and END, the loop.
        iterations: of ITERATE and END, the numbers of the iterations of all loops from here on.
        depth: how many sides of tests are around it.
    """

    do: Do
    node: int = -1
    wanted: bool = True
    block: int = -1
    iterations: tuple[int, ...] = ()
    depth: int = 0


@dataclass(frozen=True)
class FunctionCode:
    """The instructions of a function.

    Args:
        targets: by instruction, where it jumps to; their end where it leaves the function.
        joins: the instructions that are jumped to, and the end.
        order: by node, its instruction, the first of them if it is run twice.
        uses: by node, for each time that it is run, that instruction and the last one that reads
            what it gave.
        captured: nodes that functions inside may read.
        last_block: by block, the last of those within it; all from it to that one are.
        carried: by loop, the nodes that hold at its start what an iteration left.
        loops: by block, the number of loops around it, of those that are run.
    """

    instructions: tuple[Instruction, ...]
    targets: dict[int, int]
    joins: frozenset[int]
    order: dict[int, int]
    uses: dict[int, list[tuple[int, int]]]
    captured: frozenset[int]
    last_block: tuple[int, ...]
    carried: dict[int, tuple[int, ...]]
    loops: tuple[int, ...]

    def is_within(self, inner: int, outer: int) -> bool:
        """Whether a block is another one, or lies in it."""
        return outer <= inner <= self.last_block[outer]

    def still_read(self, values: dict[int, Symbolic], position: int) -> dict[int, Symbolic]:
        """The values, by node, that an instruction reads, or a later one.

        One loop over all of them, where `any` of a generator for each would be shorter: it runs
        2.8 million times for yolov5, where it took a tenth of the check of its scaler.
        """
        kept = {}
        for number, value in values.items():
            if number in self.captured:
                kept[number] = value
                continue
            for begin, end in self.uses.get(number, ()):
                if begin < position <= end:
                    kept[number] = value
                    break
        return kept


@dataclass(frozen=True)
class Relevance:
    """The parts of a function that have to be run.

    Args:
        blocks: those that hold an event, make a scaler or are left early, and those around them.
        raising: those that end in a `raise`.
        sure: those that run where another one does not raise.
        repeated: the loops that are run twice.
    """

    blocks: frozenset[int]
    raising: frozenset[int]
    sure: frozenset[int]
    repeated: frozenset[int]


def relevance(index: EventIndex, function: str, last_block: tuple[int, ...]) -> Relevance:
    state = index.inference.states[function]
    graph = state.graph
    blocks: set[int] = set()
    training: set[int] = set()
    stepping: set[int] = set()
    raising: set[int] = set()
    for number, node in enumerate(graph.nodes):
        site = (function, number)
        found = index.of[function].get(number)
        if (
            found is not None
            or node.op in EXITS
            or index.callees(site)
            or (node.op == ops.CALL and index.role(site)[0] in (Role.SCALER, Role.DISABLED))
        ):
            add_around(blocks, graph, node.block)
        if node.op == ops.RAISE:
            raising.add(node.block)
        callees = index.inference.calls.edges.get(site, set())
        each = found if found is not None and found.kind is TrainingEventKind.BACKWARD else None
        if callees & index.backward or each is not None:
            add_around(training, graph, block_of_backward(index, site, each))
        if callees & index.stepping or (
            found is not None and is_scaler_step(index.inference, state, found)
        ):
            add_around(stepping, graph, node.block)
    others = {(graph.blocks[block].parent, graph.blocks[block].node) for block in raising}
    sure = (
        block
        for block, facts in enumerate(graph.blocks)
        if facts.kind in SIDES and (facts.parent, facts.node) in others and block not in raising
    )
    repeated = innermost_loops(training, graph, last_block)
    repeated |= innermost_loops(training & stepping, graph, last_block)
    return Relevance(frozenset(blocks), frozenset(raising), frozenset(sure), repeated)


def block_of_backward(index: EventIndex, site: SiteId, found: TrainingEvent | None) -> int:
    """The block of a backward pass, or the one around the loops that do not compute its loss.

    Args:
        site: the call.
        found: the backward pass itself; None for a call that leads to one.
    """
    function, number = site
    state = index.inference.states[function]
    graph = state.graph
    block = graph.nodes[number].block
    losses = {found.object} if found is not None else handed_losses(index, site)
    loop = loop_around(graph, block)
    while losses and loop >= 0 and not is_computed_within(index, function, losses, loop):
        block = graph.blocks[loop].parent
        loop = loop_around(graph, block)
    return block


def handed_losses(index: EventIndex, site: SiteId) -> set[int]:
    """The arguments of a call whose backward passes it is that the function runs; none where it
    runs another one as well."""
    node = index.inference.states[site[0]].graph.nodes[site[1]]
    losses: set[int] = set()
    if node.op != ops.CALL:
        return losses
    for callee in index.callees(site):
        graph = index.inference.states[callee].graph
        names = index.inference.functions[callee].places
        backward = [
            each for each in index.of[callee].values() if each.kind is TrainingEventKind.BACKWARD
        ]
        if not backward:
            return set()
        for each in backward:
            loss = graph.nodes[loss_of(graph, each.object)]
            if loss.op != ops.PARAM or loss.data not in names:
                return set()
            losses.add(node.argument(names.index(loss.data), loss.data))
    return losses - {-1}


def loss_of(graph: Graph, number: int) -> int:
    """The loss of `scaler.scale(loss)`; that of anything else is itself."""
    node = graph.nodes[number]
    if node.op == ops.CALL:
        callee = graph.nodes[node.operands[0]]
        scaled = node.argument(0, "outputs")
        if callee.op == ops.ATTR and callee.data == "scale" and scaled >= 0:
            number, node = scaled, graph.nodes[scaled]
    while node.op == ops.NARROW:
        number, node = node.operands[0], graph.nodes[node.operands[0]]
    return number


def loop_around(graph: Graph, block: int) -> int:
    """The innermost loop around a block, or the block itself; -1 without one."""
    while block >= 0 and graph.blocks[block].kind not in LOOPS:
        block = graph.blocks[block].parent
    return block


def is_computed_within(index: EventIndex, function: str, losses: Iterable[int], loop: int) -> bool:
    """Whether each iteration of a loop calls or draws something that a loss is made of, or stores
    the field that it is read from; not where it only scales it, or chooses it by a number."""
    state = index.inference.states[function]
    graph = state.graph

    within = graph.nodes_in(loop)

    def operands(number: int) -> Iterable[int]:
        return (each for each in graph.nodes[number].operands if each in within)

    for number in reachable(losses, operands):
        node = graph.nodes[number]
        if number not in within or all(isinstance(atom, Host) for atom in state.values[number]):
            continue
        if node.op in (ops.ITER, ops.PHI, ops.AUG, ops.OPAQUE):
            return True
        if node.op == ops.CALL and loss_of(graph, number) == number:
            return True
        if node.op == ops.ATTR and node.data in index.stored_in(function, loop):
            return True
    return False


def innermost_loops(blocks: set[int], graph: Graph, last_block: tuple[int, ...]) -> frozenset[int]:
    """The loops of some blocks in which none of the others lies."""
    loops = sorted(block for block in blocks if graph.blocks[block].kind in LOOPS)
    return frozenset(
        loop
        for loop, following in pairwise([*loops, len(graph.blocks)])
        if following > last_block[loop]  # what lies in a loop comes right after it
    )


def add_around(blocks: set[int], graph: Graph, block: int) -> None:
    """Add a block and those around it."""
    while block >= 0 and block not in blocks:
        blocks.add(block)
        block = graph.blocks[block].parent


def last_blocks(graph: Graph) -> tuple[int, ...]:
    """By block, the last of those within it. Blocks are numbered as they are opened."""
    last = list(range(len(graph.blocks)))
    for block in range(len(graph.blocks) - 1, 0, -1):
        parent = graph.blocks[block].parent
        last[parent] = max(last[parent], last[block])
    return tuple(last)


class Compiler:
    """Writes the instructions of a function, without those whose result nobody reads.

    What is still to be written is kept in a list, so that the depth of nested blocks has no limit.
    """

    def __init__(self, index: EventIndex, function: str) -> None:
        self.index = index
        self.function = function
        self.graph = index.inference.states[function].graph
        self.last_block = last_blocks(self.graph)
        self.relevance = relevance(index, function, self.last_block)
        self.contents = contents(self.graph)
        self.instructions: list[Instruction] = []
        self.targets: dict[int, int] = {}
        self.depth = 0
        self.iterations: tuple[int, ...] = ()
        self.leaving: list[dict[str, list[int]]] = []  # by loop: its breaks and continues
        self.returning: list[int] = []
        self.todo: list[Callable[[], object]] = [partial(self.block, 0)]

    def compile(self) -> FunctionCode:
        while self.todo:
            self.todo.pop()()
        self.land(self.returning)
        reads = ValueReads(self.index, self.function)
        needed = reads.needed(self.instructions)
        kept = [
            position
            for position, each in enumerate(self.instructions)
            if each.do is not Do.RUN or each.node in needed
        ]
        instructions = tuple(self.instructions[position] for position in kept)
        targets = {
            bisect_left(kept, jump): bisect_left(kept, target)
            for jump, target in self.targets.items()
        }
        order: dict[int, int] = {}
        for position, each in enumerate(instructions):
            if each.do is Do.RUN:
                order.setdefault(each.node, position)
        return FunctionCode(
            instructions,
            targets,
            frozenset({*targets.values(), len(instructions)}),
            order,
            reads.uses(instructions, order),
            reads.captured,
            self.last_block,
            reads.carried,
            self.loops(),
        )

    def loops(self) -> tuple[int, ...]:
        """By block, the number of loops around it, of those that are run."""
        found: list[int] = []
        for block, facts in enumerate(self.graph.blocks):
            around = found[facts.parent] if block else 0  # blocks come after those around them
            found.append(around + (facts.kind in LOOPS and block in self.relevance.blocks))
        return tuple(found)

    # -- writing

    def then(self, *steps: Callable[[], object]) -> None:
        """Write these next, in this order."""
        self.todo.extend(reversed(steps))

    def emit(self, do: Do, node: int = -1, *, wanted: bool = True, block: int = -1) -> int:
        self.instructions.append(Instruction(do, node, wanted, block, self.iterations, self.depth))
        return len(self.instructions) - 1

    def land(self, jumps: list[int]) -> None:
        """Let these jumps lead to what is written next."""
        self.targets.update(dict.fromkeys(jumps, len(self.instructions)))
        jumps.clear()

    def block(self, block: int) -> None:
        self.then(
            *(
                partial(self.node, each) if each >= 0 else partial(self.enter, -each)
                for each in self.contents[block]
            )
        )

    def node(self, number: int) -> None:
        op = self.graph.nodes[number].op
        if op not in EXITS:
            self.emit(Do.RUN, number)
        elif op == ops.RETURN:
            self.returning.append(self.emit(Do.LEAVE, number))
        elif self.leaving:
            self.leaving[-1][op].append(self.emit(Do.LEAVE, number))

    def enter(self, block: int) -> None:
        """A block within another, or nothing if it does not matter."""
        facts = self.graph.blocks[block]
        if facts.kind in LOOPS and block in self.relevance.blocks:
            self.loop(block)
        elif facts.kind in ("with", "try", "finally"):
            trains = facts.kind == "with" and self.index.callees((self.function, facts.node))
            close = [partial(self.emit, Do.CLOSE, facts.node)] if trains else []
            self.then(partial(self.block, block), *close)
        elif facts.kind in SIDES:
            self.side(block)

    def side(self, block: int) -> None:
        """One side of a test."""
        facts = self.graph.blocks[block]
        wanted = SIDES[facts.kind]
        if block in self.relevance.raising:
            self.emit(Do.ASSUME, facts.node, wanted=not wanted)
        elif block in self.relevance.sure:
            self.emit(Do.ASSUME, facts.node, wanted=wanted)
            self.block(block)
        elif block in self.relevance.blocks:
            test = self.emit(Do.TEST, facts.node, wanted=wanted)
            self.depth += 1
            self.then(partial(self.block, block), partial(self.end_side, test))
        elif facts.kind == "after":
            self.block(block)

    def end_side(self, test: int) -> None:
        self.depth -= 1
        self.land([test])

    def loop(self, block: int) -> None:
        around = self.iterations
        numbers = range(ITERATIONS) if block in self.relevance.repeated else (ONCE,)
        self.leaving.append({"break": [], "continue": []})
        steps: list[Callable[[], object]] = []
        for number in numbers:
            begin = partial(self.begin_iteration, block, (*around, number))
            steps += [begin, partial(self.block, block)]
        self.then(*steps, partial(self.end_loop, block, around))

    def begin_iteration(self, block: int, iterations: tuple[int, ...]) -> None:
        self.land(self.leaving[-1]["continue"])
        self.iterations = iterations
        self.emit(Do.ITERATE, block=block)

    def end_loop(self, block: int, around: tuple[int, ...]) -> None:
        leaving = self.leaving.pop()
        self.land(leaving["continue"] + leaving["break"])
        self.iterations = around
        self.emit(Do.END, block=block)


def contents(graph: Graph) -> dict[int, list[int]]:
    """By block, its nodes and the blocks in it (as negative numbers), in order."""
    found: dict[int, list[int]] = {0: []}
    for number, node in enumerate(graph.nodes):
        block, inner = node.block, number
        while block not in found:
            found[block] = [inner]
            block, inner = graph.blocks[block].parent, -block
        found[block].append(inner)
    return found


class ValueReads:
    """The reads of values: by which instruction, of which node."""

    def __init__(self, index: EventIndex, function: str) -> None:
        self.inference, self.function = index.inference, function
        self.state = index.inference.states[function]
        self.nodes = self.state.graph.nodes
        self.events = index.of[function]
        self.last_block = last_blocks(self.state.graph)
        read = index.names_read_within(function)
        self.captured = frozenset(
            node
            for name, nodes in self.state.graph.bindings.items()
            if name in read
            for node in nodes
        )
        self.parameter = next((n for n, node in enumerate(self.nodes) if node.op == ops.PARAM), -1)
        self.carried: dict[int, tuple[int, ...]] = {}

    def needed(self, instructions: Sequence[Instruction]) -> frozenset[int]:
        """The nodes that a call, a store, a test or the caller may read."""
        roots = set(self.captured)
        for each in instructions:
            if each.do is not Do.RUN:
                roots.update(self.read_by(each))
            elif self.nodes[each.node].op in EFFECTS:
                roots.update((each.node, *self.read_by(each)))
        needed = frozenset(
            reachable((n for n in roots if n >= 0), lambda number: self.nodes[number].operands)
        )
        carried: dict[int, list[int]] = {}
        for number in sorted(needed):
            node = self.nodes[number]
            if node.op == ops.PHI and any(operand > number for operand in node.operands):
                carried.setdefault(node.block, []).append(number)
        self.carried = {block: tuple(numbers) for block, numbers in carried.items()}
        return needed

    def uses(
        self, instructions: Sequence[Instruction], order: dict[int, int]
    ) -> dict[int, list[tuple[int, int]]]:
        """By node, when it is run and last read; one that is not run passes it to its operands."""
        found: dict[int, list[tuple[int, int]]] = {}
        last: dict[int, int] = {}
        for position in range(len(instructions) - 1, -1, -1):
            instruction = instructions[position]
            ended = [instruction.node] if instruction.do is Do.RUN else []
            if instruction.do is Do.ITERATE:
                ended += self.carried.get(instruction.block, ())
            for number in ended:
                if number in last:
                    found.setdefault(number, []).append((position, last.pop(number)))
            if instruction.do is Do.ITERATE:
                # Nothing else stays from one iteration to the next.
                for number in [n for n in last if self.is_within(n, instruction.block)]:
                    del last[number]
            used = list(self.read_by(instruction))
            while used:
                number = used.pop()
                if number >= 0 and number not in last:
                    last[number] = position
                    if number not in order:
                        used += self.nodes[number].operands
        return found

    def is_within(self, number: int, block: int) -> bool:
        return block <= self.nodes[number].block <= self.last_block[block]

    def read_by(self, instruction: Instruction) -> Iterator[int]:
        if instruction.do in (Do.TEST, Do.ASSUME):
            yield instruction.node
        elif instruction.do is Do.ITERATE:
            for number in self.carried.get(instruction.block, ()):
                yield from self.nodes[number].operands
        elif instruction.do in (Do.RUN, Do.LEAVE):
            node = self.nodes[instruction.node]
            yield from node.operands
            if node.op == ops.CALL:
                yield from self.read_by_call(instruction.node, node)

    def read_by_call(self, number: int, node: Node) -> Iterator[int]:
        """The other nodes that a call reads: its receiver, `self` for `super()`, its event's."""
        callee = self.nodes[node.operands[0]]
        yield from callee.operands
        yield from modules_of(self.inference, self.function, number)
        if callee.op == ops.ATTR and self.nodes[callee.operands[0]].op == ops.CALL:
            yield self.parameter
        if number in self.events:
            yield from (self.events[number].object, self.events[number].argument)
