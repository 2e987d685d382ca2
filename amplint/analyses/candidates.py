"""The candidates of rules (`amplint.core.candidate`) in one file, found on its value graphs.

A rule is asked about spots: the nodes of the evaluated functions, with all that is known of them.
Some spots stand for what is no node of its own, under an operation of their own:

function: a function, method or lambda; its number is -1.
test: a value whose truth is asked for, by a statement, an expression or `and`, `or`, `not`.
context: what a `with` enters, or a decorator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from amplint.analyses.backward_calls import BackwardCalls
from amplint.analyses.backward_reach import BackpropagatedValues
from amplint.analyses.fact import Answer_co, Facts, NodeFact
from amplint.analyses.hotness import EVALUATION, TRAINING, Hotness
from amplint.analyses.loop_invariance import ConstantTensors
from amplint.analyses.provenance import ReplicatedModules, UnpinnedMoves
from amplint.analyses.tensor_certainty import TensorCertainty
from amplint.analyses.traits import Traits
from amplint.core.candidate import Test, Trait, Way, in_functions, in_words, nodes, says, where
from amplint.core.errors import describe
from amplint.core.lattice import only
from amplint.core.rule import Rule, ViewCheck
from amplint.core.values import (
    NONE,
    UNKNOWN,
    Evidence,
    Heat,
    Host,
    Method,
    Object,
    Region,
    Symbol,
    Tensor,
    TensorTree,
    Value,
)
from amplint.core.walks import reachable
from amplint.inference import State
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.file_set import Files
from amplint.ir.model import FunctionFacts, Graph, Location, Node

NOTHING = Node(ops.OPAQUE, (), None, -1, (0, 0, 0, 0))  # of a function, and of what is in no graph
NEAREST = 64  # nodes that are asked on the way from a value to its sources


class Spot:
    """A node of an evaluated function, as a candidate sees it.

    Args:
        search: what is known of the project.
        function: the id of the function.
        state: what is known of the function.
        number: of the node in its graph.
        block: where it is evaluated.
        location: where it is written: the node may have been made elsewhere.
    """

    __slots__ = ("block", "function", "location", "number", "search", "state")

    def __init__(
        self,
        search: Search,
        function: str,
        state: State,
        number: int,
        block: int,
        location: Location,
    ) -> None:
        self.search = search
        self.function = function
        self.state = state
        self.number = number
        self.block = block
        self.location = location

    def ask(self, kind: type[NodeFact[Answer_co]], number: int | None = None) -> Answer_co | None:
        """The answer of a fact about the node, or another one of its function."""
        node = self.number if number is None else number
        return self.search.facts[kind].of(NodePlace(self.function, node, self.block))

    @property
    def node(self) -> Node:
        return self.state.graph.nodes[self.number] if self.number >= 0 else NOTHING

    # -- the function around it

    @property
    def facts(self) -> FunctionFacts:
        """The facts of its function."""
        return self.search.facts.inference.functions[self.function]

    @property
    def graph(self) -> Graph:
        return self.state.graph

    @property
    def bases(self) -> frozenset[str]:
        """The library classes that the class of its method derives from."""
        cls = self.facts.cls
        return self.library_bases(cls) if cls is not None else frozenset()

    def library_bases(self, cls: str) -> frozenset[str]:
        """The library classes that a class of the project derives from."""
        return frozenset(self.search.facts.inference.library_bases(cls))

    def mentions(self, word: str) -> bool:
        """Whether some file of the project holds an identifier."""
        return self.search.mentions(word)

    # -- values

    def of(self, number: int) -> Value:
        """The value of a node; Unknown where there is none."""
        return (self.state.values[number] or UNKNOWN) if number >= 0 else UNKNOWN

    @property
    def value(self) -> Value:
        return self.of(self.number)

    @property
    def operands(self) -> list[Value]:
        """The values of the operands; of a call, the callee's first."""
        return [self.of(number) for number in self.node.operands]

    def tensor(self, number: int) -> Tensor | None:
        """As `Source.tensor`."""
        atom = only(self.of(number))
        return atom if isinstance(atom, Tensor) else None

    def surely_tensor(self, number: int) -> bool:
        """Whether the tensor that a node is, or the tensors in it, are no guess."""
        return number >= 0 and self.ask(TensorCertainty, number) is True

    def may_come_from(self, number: int, holds: Callable[[int], bool]) -> bool:
        """Whether a node, or one that it is computed from, passes a test.

        Only the nearest nodes are asked, so that a long function takes no longer for each of its
        spots. Where there are more, the answer is yes: a candidate may be one too many, and never
        one too few.
        """
        nodes = self.graph.nodes
        sources = reachable([number], lambda each: (o for o in nodes[each].operands if o >= 0))
        nearest = any(holds(each) for each in islice(sources, NEAREST))
        return nearest or next(sources, None) is not None

    def is_built_of_constants(self, number: int) -> bool:
        """Whether a node is computed of a list that is the same in every iteration."""
        return self.ask(ConstantTensors, number) is not None

    def backpropagated(self, number: int) -> bool:
        """Whether what a node holds goes through a backward pass."""
        return self.ask(BackpropagatedValues, number) is not None

    @property
    def users(self) -> Collection[int]:
        """The nodes that have it as an operand."""
        return self.state.users[self.number]

    @property
    def is_used(self) -> bool:
        """Whether anything takes its value: an operation, a `with`, or the caller."""
        entered = any(block.node == self.number for block in self.graph.blocks)
        return bool(self.users) or entered or self.number in self.graph.returns

    # -- calls

    @property
    def name(self) -> str | None:
        """The dotted name of the library object that is called, as `Source.name` has it."""
        return self.name_of(self.number)

    def name_of(self, call: int) -> str | None:
        return symbol(self.state.values[self.graph.nodes[call].operands[0]] - {NONE})

    @property
    def names(self) -> Iterator[str]:
        """The names of what is called: "torch.zeros", "Tensor.item", "torch.nn.Linear", ".item";
        and "torch.FloatTensor" of a string that names it."""
        callee = self.node.operands[0]
        return names_of_callee(self.graph.nodes[callee], self.of(callee))

    @property
    def method(self) -> str:
        """The name of the method that a call is written with: `item` of `x.item()`."""
        callee = self.graph.nodes[self.node.operands[0]]
        return str(callee.data) if callee.op == ops.ATTR else ""

    @property
    def receiver(self) -> int:
        """The receiver of a method call; -1 for another call."""
        callee = self.graph.nodes[self.node.operands[0]]
        return callee.operands[0] if callee.op == ops.ATTR else -1

    @property
    def arguments(self) -> tuple[int, ...]:
        """The arguments of a call, in whatever way they are given."""
        return self.node.arguments

    @property
    def given_arguments(self) -> Iterator[tuple[str | None, int]]:
        """The arguments with the keywords that they are given by: None for positional ones."""
        yield from ((None, number) for number in self.node.positional)
        yield from self.node.named

    def given(self, name: str, position: int | None = None) -> int:
        """As `Source.argument`: the argument for a parameter; -1 where there is none."""
        return self.node.argument(position, name)

    def runs_backward(self, call: int) -> tuple[Evidence, ...] | None:
        """As `Source.backward`."""
        return self.ask(BackwardCalls, call)

    @property
    def is_moved_to_device(self) -> bool:
        """Whether the call makes a loader that does not pin, whose batches are moved."""
        return self.ask(UnpinnedMoves) is not None

    def is_replicated(self, number: int) -> bool:
        """Whether a node may be a module that `nn.DataParallel` has wrapped."""
        return self.ask(ReplicatedModules, number) is not None

    # -- where it runs

    @property
    def is_in_loop(self) -> bool:
        block = self.block
        while block >= 0:
            if self.graph.blocks[block].kind in ("loop", "while"):
                return True
            block = self.graph.blocks[block].parent
        return False

    @property
    def heat(self) -> Heat | None:
        """As `Source.heat`."""
        return self.heat_of(self.block)

    def heat_of(self, block: int) -> Heat | None:
        """Why a block of the function runs for every batch."""
        at = NodePlace(self.function, self.number, block)
        return self.search.facts[Hotness].of(at)

    @property
    def region(self) -> Region | None:
        """As `Source.region`."""
        return self.state.regions.get(self.block)

    @property
    def enabled_region(self) -> Region | None:
        """The autocast region around it, unless it is certainly off."""
        region = self.region
        return region if region is not None and region.enabled is not False else None


# ------------------------------------------------------------------------------------ conditions


def _heated(temperature: str) -> Test:
    @says(f"it runs for every batch of {temperature}")
    def holds(spot: Spot) -> bool:
        return spot.search.temperature(spot.function, spot.block) == temperature

    return holds


@says("it stands in an autocast region")
def _is_in_region(spot: Spot) -> bool:
    return spot.enabled_region is not None


HOT = where(_heated(TRAINING), Trait.HOT)
EVALUATED = where(_heated(EVALUATION))
IN_REGION = where(_is_in_region, Trait.REGION)
MISUSED = nodes("call") & in_functions(Trait.MISUSED)
# Of the function: something in it is so.
SOMEWHERE_HOT = in_functions(Trait.HOT)
WITHIN_REGION = in_functions(Trait.REGION)
WITH_HALF = in_functions(Trait.HALF)
IN_WORKER = in_functions(Trait.WORKER)


def names_of_callee(callee: Node, value: Value) -> Iterator[str]:
    """The names of what is called, as `Spot.names` has them."""
    if callee.op == ops.ATTR:
        yield f".{callee.data}"
    for atom in value:
        if isinstance(atom, Symbol):
            yield canonical(atom.name)
        elif isinstance(atom, Object):
            yield atom.type
        elif isinstance(atom, Host) and isinstance(atom.const, str):
            yield atom.const
        elif isinstance(atom, Method):
            yield f".{atom.name}"
            if isinstance(atom.of, Tensor | TensorTree):
                yield f"Tensor.{atom.name}"


def symbols(value: Value) -> Iterator[str]:
    """The dotted names of the library objects that a value may be."""
    return (canonical(atom.name) for atom in value if isinstance(atom, Symbol))


def symbol(value: Value) -> str | None:
    """The dotted name of the library object that a value certainly is, as `Source.name`."""
    if len(value) != 1:
        return None
    (atom,) = value
    return canonical(atom.name) if isinstance(atom, Symbol) else None


# ---------------------------------------------------------------------------------------- search


def is_near(way: Way, lacking: Sequence[str]) -> bool:
    """Whether a node is nearly a candidate: all that it lacks is one thing, and its way is about
    calls of certain names, or lacks only that it should stand elsewhere."""
    own = {*lacking} - OF_FUNCTIONS
    if way.names is not None:
        return len(own) < 2
    return len(own) == 1 and own <= ELSEWHERE


# What a function lacks, its nodes lack as well.
OF_FUNCTIONS = frozenset(trait.value for trait in Trait)
ELSEWHERE = frozenset(
    in_words(test)
    for conditions in (HOT, EVALUATED, IN_REGION)
    for way in conditions.ways
    for test in way.tests
)


class Entry(NamedTuple):
    """A rule, one of the conditions under which it may speak, and what a spot has to pass.

    `look`: the number of the check of Views (`Rule.looks`) whose condition it is; -1 for none.
    """

    rule: Rule
    look: int
    holds: Test

    @property
    def check(self) -> ViewCheck | None:
        return self.rule.looks[self.look].check if self.look >= 0 else None


class Table:
    """The ways of rules that can hold in functions with certain traits, in which something is one
    of some library names; by operation and name."""

    def __init__(
        self, rules: Iterable[Rule], traits: frozenset[Trait], symbols: frozenset[str]
    ) -> None:
        self.by_op: dict[str, list[Entry]] = {}
        self.by_name: dict[str, list[Entry]] = {}
        for rule in rules:
            for look, way in ways_of(rule):
                if not way.traits <= traits or way.ops is None:
                    continue
                if way.symbols is not None and way.symbols.isdisjoint(symbols):
                    continue
                entry = Entry(rule, look, way.holds)
                for name in way.names or ():
                    self.by_name.setdefault(name, []).append(entry)
                for op in way.ops if way.names is None else ():
                    self.by_op.setdefault(op, []).append(entry)
        self._calls: dict[tuple[str | None, Value], Sequence[Entry]] = {}

    def of_call(self, callee: Node, value: Value) -> Sequence[Entry]:
        """The entries for a call of what has this value: many calls are of the same."""
        key = callee.data if callee.op == ops.ATTR else None, value
        if key not in self._calls:
            named = (self.by_name.get(name, ()) for name in names_of_callee(callee, value))
            self._calls[key] = [*self.by_op.get(ops.CALL, ()), *(e for each in named for e in each)]
        return self._calls[key]


def ways_of(rule: Rule) -> Iterator[tuple[int, Way]]:
    """The ways in which a node can be a candidate of a rule, as `Entry` has them."""
    for look, condition in enumerate(rule.conditions, start=-1):
        yield from ((look, way) for way in condition.ways)


class Candidate(NamedTuple):
    """A spot that a check of Views is shown.

    Args:
        row: the one that it counts for: of what is in a function, its first.
        code: of the rule.
        look: the number of the check.
        spot: the node.
    """

    row: int
    code: str
    look: int
    spot: Spot


@dataclass(frozen=True)
class FileCandidates:
    """The candidates in one file.

    Args:
        rows: by row: the codes of the rules that have a candidate there.
        faults: by code: where a condition of the rule raised first, and what. Such a spot counts as
            a candidate, so that the fault costs none of the rule's findings.
        shown: the spots among them that checks of Views are shown.
    """

    rows: Mapping[int, Collection[str]]
    faults: Mapping[str, str] = field(default_factory=dict)
    shown: Sequence[Candidate] = ()


class Search:
    """The search for the candidates of some rules.

    Args:
        files, facts: of the project.
        rules: those that may speak.
        may_find: whether a check of a rule may find something at a spot that meets its condition.
    """

    def __init__(
        self,
        files: Files,
        facts: Facts,
        rules: Sequence[Rule],
        may_find: Callable[[Rule, ViewCheck, Spot], bool] = lambda *_: True,
    ) -> None:
        self.facts = facts
        self._files = files
        self._rules = rules
        self._may_find = may_find
        self._tables: dict[tuple[frozenset[Trait], frozenset[str]], Table] = {}
        ways = [way for rule in rules for _, way in ways_of(rule)]
        self._symbols = frozenset[str]().union(*(way.symbols or () for way in ways))
        self._symbols_in: dict[Value, frozenset[str]] = {}
        self._mentioned: dict[str, bool] = {}
        self._temperatures: dict[tuple[str, int], str | None] = {}

    def temperature(self, function: str, block: int) -> str | None:
        """How often a block of a function runs: many of its nodes are asked about."""
        key = function, block
        if key not in self._temperatures:
            heat = self.facts[Hotness].of(NodePlace(function, -1, block))
            self._temperatures[key] = heat.temperature if heat is not None else None
        return self._temperatures[key]

    def mentions(self, word: str) -> bool:
        """Whether some file of the project holds an identifier."""
        if word not in self._mentioned:
            self._mentioned[word] = any(self._files.holding(word))
        return self._mentioned[word]

    def of(self, path: str) -> FileCandidates:
        """The candidates in a file."""
        inference = self.facts.inference
        return inference.surviving("the search for candidates", lambda: self._of(path))

    def lacking(self, path: str, row: int, rule: Rule, every: bool) -> Iterator[str]:
        """The conditions that keep the nodes of a line from being candidates of a rule, of each of
        its ways and each node that this is about.

        Args:
            every: also of nodes that lack more than one, or that this may well not be about.
        """
        for _, way, lacking in self.about(path, row, rule):
            if lacking and (every or is_near(way, lacking)):
                yield lacking[-1]

    def about(self, path: str, row: int, rule: Rule) -> Iterator[tuple[Candidate, Way, list[str]]]:
        """The nodes of a line that a rule is about by their operation and name, each with the way
        and the conditions of it that the node does not meet."""
        for op, spot in self.every_spot(path):
            if spot.location[0] != row:
                continue
            traits = self.facts[Traits].of_function(spot.function)
            symbols = self._symbols_of(spot.function)
            for look, way in ways_of(rule):
                lacking = way.lacking(op, spot, traits, symbols)
                if lacking is not None:
                    yield Candidate(row, rule.code, look, spot), way, lacking

    def every_spot(self, path: str) -> Iterator[tuple[str, Spot]]:
        """The spots of a file, each with its operation."""
        for identity, facts in self._files.own[path].facts.functions.items():
            state = self.facts.inference.states.get(identity)
            if state is not None:
                yield from self._every_spot(identity, facts, state)

    def _every_spot(
        self, identity: str, facts: FunctionFacts, state: State
    ) -> Iterator[tuple[str, Spot]]:
        """The spots of a function, each with its operation."""
        if facts.kind in ("function", "lambda"):
            yield "function", Spot(self, identity, state, -1, 0, facts.location)
        for number, node in enumerate(state.graph.nodes):
            yield node.op, Spot(self, identity, state, number, node.block, node.location)
        for op, found in (("test", tests(state.graph)), ("context", contexts(state.graph))):
            for place in found:
                yield op, Spot(self, identity, state, *place)

    def _of(self, path: str) -> FileCandidates:
        found: dict[int, set[str]] = {}
        shown: list[Candidate] = []
        faults: dict[str, str] = {}
        for identity, facts in self._files.own[path].facts.functions.items():
            if identity not in self.facts.inference.states:
                continue
            table = self._table(identity)
            state = self.facts.inference.states.get(identity)
            if state is None or not state.graph.nodes:  # the traits may have cost the function
                continue
            own = facts.location[0] if facts.kind in ("function", "lambda") else None
            for spot, entries in self._spots(identity, facts, state, table):
                row = own or spot.location[0]
                codes = found.setdefault(row, set())
                looks: set[tuple[str, int]] = set()
                for entry in entries:
                    code, look = entry.rule.code, entry.look
                    if code in codes if look < 0 else (code, look) in looks:
                        continue
                    try:
                        holding = self._holds(entry, spot)
                    except Exception as error:
                        holding = True
                        faults.setdefault(code, f"line {spot.location[0]}: {describe(error)}")
                    if holding:
                        codes.add(code)
                        if look >= 0:
                            looks.add((code, look))
                            shown.append(Candidate(row, code, look, spot))
        return FileCandidates({row: codes for row, codes in found.items() if codes}, faults, shown)

    def _holds(self, entry: Entry, spot: Spot) -> bool:
        check = entry.check
        return entry.holds(spot) and (check is None or self._may_find(entry.rule, check, spot))

    def _table(self, identity: str) -> Table:
        traits = self.facts.surviving(Traits, lambda: self.facts[Traits].of_function(identity))
        key = traits, self._symbols_of(identity)
        if key not in self._tables:
            self._tables[key] = Table(self._rules, *key)
        return self._tables[key]

    def _symbols_of(self, function: str) -> frozenset[str]:
        """The library names that rules ask for, and that something in a function may be."""
        state = self.facts.inference.states.get(function)
        known = self._symbols_in
        found: set[str] = set()
        for value in {*state.values} if state is not None else ():
            if value not in known:
                known[value] = self._symbols.intersection(symbols(value))
            found |= known[value]
        return frozenset(found)

    def _spots(
        self, identity: str, facts: FunctionFacts, state: State, table: Table
    ) -> Iterator[tuple[Spot, Sequence[Entry]]]:
        """The spots of a function that some rule may speak of."""

        def spot(number: int, block: int, location: Location) -> Spot:
            return Spot(self, identity, state, number, block, location)

        if facts.kind in ("function", "lambda") and "function" in table.by_op:
            yield spot(-1, 0, facts.location), table.by_op["function"]
        nodes = state.graph.nodes
        for number, node in enumerate(nodes):
            if node.op == ops.CALL:
                callee = node.operands[0]
                entries = table.of_call(nodes[callee], state.values[callee] or UNKNOWN)
            else:
                entries = table.by_op.get(node.op, ())
            if entries:
                yield spot(number, node.block, node.location), entries
        for op, found in (("test", tests(state.graph)), ("context", contexts(state.graph))):
            if op in table.by_op:
                for place in found:
                    yield spot(*place), table.by_op[op]


def tests(graph: Graph) -> Iterator[tuple[int, int, Location]]:
    """The nodes whose truth is asked for: in which block, and where."""
    for number, block in enumerate(graph.blocks):
        if block.kind in ("if", "else", "after", "handler") and block.node >= 0:
            yield block.node, block.parent, block.location
        elif block.kind == "while":
            yield block.node, number, block.location
    for node in graph.nodes:
        if node.op == ops.ASSERT or (node.op == ops.UNARY and node.data == "Not"):
            yield node.operands[0], node.block, node.location


def contexts(graph: Graph) -> Iterator[tuple[int, int, Location]]:
    """The contexts of `with` statements, and decorators: in which block, and where."""
    yield from entered(graph)
    for node in graph.nodes:
        if node.op == ops.DEF:
            for decorator in node.operands:
                yield decorator, node.block, node.location


def entered(graph: Graph) -> Iterator[tuple[int, int, Location]]:
    """The contexts of `with` statements alone."""
    for block in graph.blocks:
        if block.kind == "with":
            yield block.node, block.parent, block.location
