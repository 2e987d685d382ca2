"""The candidates of rules (`amplint.core.candidate`) in one file, found on its value graphs.

A rule is asked about spots: the nodes of the evaluated functions, with all that is known of them.
Some spots stand for what is no node of its own, under an operation of their own:

function: a function, method or lambda; its number is -1.
test: a value whose truth is asked for, by a statement, an expression or `and`, `or`, `not`.
context: what a `with` enters, or a decorator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from amplint.analyses.fact import Facts
from amplint.analyses.hotness import EVALUATION, TRAINING, Hotness
from amplint.analyses.traits import Traits, traits_of
from amplint.core.candidate import Test, Trait, Way, in_functions, in_words, nodes, says, where
from amplint.core.errors import describe
from amplint.core.rule import Judge, Rule
from amplint.core.values import (
    UNKNOWN,
    Atom,
    Host,
    Method,
    Object,
    Region,
    Symbol,
    Tensor,
    TensorTree,
    Value,
)
from amplint.inference import State
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.file_set import Files
from amplint.ir.model import FunctionFacts, Graph, Location, Node

NOTHING = Node(ops.OPAQUE, (), None, -1, (0, 0, 0, 0))  # of a function, and of what is in no graph


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

    @property
    def node(self) -> Node:
        return self.state.graph.nodes[self.number] if self.number >= 0 else NOTHING

    @property
    def facts(self) -> FunctionFacts:
        """The facts of its function."""
        return self.search.facts.inference.functions[self.function]

    @property
    def names(self) -> Iterator[str]:
        """Of a call: the names of what is called: "torch.zeros", "Tensor.item", "torch.nn.Linear",
        ".item"; and "torch.FloatTensor" of a string that names it."""
        return names_of_callee(self.state.graph.nodes[self.node.operands[0]], self.callees)

    @property
    def callees(self) -> Value:
        """Of a call: what may be called."""
        return self.state.values[self.node.operands[0]] or UNKNOWN

    @property
    def enabled_region(self) -> Region | None:
        """The autocast region around it, unless it is certainly off."""
        region = self.state.regions.get(self.block)
        return region if region is not None and region.enabled is not False else None


# ------------------------------------------------------------------------------------ conditions


def _heated(temperature: str) -> Test:
    @says(f"it runs for every batch of {temperature}")
    def holds(spot: Spot) -> bool:
        return spot.search.temperature(spot.function, spot.block) == temperature

    return holds


@says("it is in an autocast region")
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
IN_CAPTURE = in_functions(Trait.CAPTURED)


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
    """The dotted name of the library object that a value certainly is."""
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
    """A rule, the number of one of its checks, and what a spot has to pass for it."""

    rule: Rule
    check: int
    holds: Test

    @property
    def judge(self) -> Judge:
        return self.rule.checks[self.check].judge


class Table:
    """The ways of rules that can hold in functions with certain traits, in which something is one
    of some library names; by operation, and by the names and the kinds of callees."""

    def __init__(
        self, rules: Iterable[Rule], traits: frozenset[Trait], symbols: frozenset[str]
    ) -> None:
        self.by_op: dict[str, list[Entry]] = {}
        self.by_name: dict[str, list[Entry]] = {}
        self.by_kind: dict[type[Atom], list[Entry]] = {}
        for rule in rules:
            for check, way in ways_of(rule):
                if not way.traits <= traits or way.ops is None:
                    continue
                if way.symbols is not None and way.symbols.isdisjoint(symbols):
                    continue
                entry = Entry(rule, check, way.holds)
                for name in way.names or ():
                    self.by_name.setdefault(name, []).append(entry)
                for kind in way.kinds or ():
                    self.by_kind.setdefault(kind, []).append(entry)
                for op in way.ops if way.of_callees is None else ():
                    self.by_op.setdefault(op, []).append(entry)
        self._calls: dict[tuple[str | None, Value], Sequence[Entry]] = {}

    def of_call(self, callee: Node, value: Value) -> Sequence[Entry]:
        """The entries for a call of what has this value: many calls are of the same."""
        key = callee.data if callee.op == ops.ATTR else None, value
        if key not in self._calls:
            named = (self.by_name.get(name, ()) for name in names_of_callee(callee, value))
            of_kind = (self.by_kind.get(kind, ()) for kind in {*map(type, value)})
            self._calls[key] = [*self.by_op.get(ops.CALL, ()), *chain(*named, *of_kind)]
        return self._calls[key]


def ways_of(rule: Rule) -> Iterator[tuple[int, Way]]:
    """The ways in which a node can be a candidate of a rule, as `Entry` has them."""
    for number, check in enumerate(rule.checks):
        yield from ((number, way) for way in check.condition.ways)


class Candidate(NamedTuple):
    """A spot that a check is shown.

    Args:
        row: the one that it counts for: of what is in a function, its first.
        code: of the rule.
        check: the number of the check.
        spot: the node.
    """

    row: int
    code: str
    check: int
    spot: Spot


@dataclass(frozen=True)
class FileCandidates:
    """The candidates in one file.

    Args:
        shown: the spots that checks are shown.
        faults: by code: where a condition of the rule raised first, and what. Such a spot counts as
            a candidate, so that the fault costs none of the rule's findings.
    """

    shown: Sequence[Candidate] = ()
    faults: Mapping[str, str] = field(default_factory=dict)


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
        may_find: Callable[[Rule, Judge, Spot], bool] = lambda *_: True,
    ) -> None:
        self.facts = facts
        self._files = files
        self._rules = rules
        self._may_find = may_find
        self._tables: dict[tuple[frozenset[Trait], frozenset[str]], Table] = {}
        ways = [way for rule in rules for _, way in ways_of(rule)]
        self._symbols = frozenset[str]().union(*(way.symbols or () for way in ways))
        self._wanted = frozenset[Trait]().union(*(way.traits for way in ways))
        self._symbols_in: dict[Value, frozenset[str]] = {}
        self._temperatures: dict[tuple[str, int], str | None] = {}

    def temperature(self, function: str, block: int) -> str | None:
        """How often a block of a function runs: many of its nodes are asked about."""
        key = function, block
        if key not in self._temperatures:
            heat = self.facts[Hotness].of(NodePlace(function, -1, block))
            self._temperatures[key] = heat.temperature if heat is not None else None
        return self._temperatures[key]

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
            wanted = {trait for _, way in ways_of(rule) for trait in way.traits}
            traits = traits_of(self.facts, spot.function, wanted)
            symbols = self._symbols_of(spot.function)
            for check, way in ways_of(rule):
                lacking = way.lacking(op, spot, traits, symbols)
                if lacking is not None:
                    yield Candidate(row, rule.code, check, spot), way, lacking

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
                known: set[tuple[str, int]] = set()
                for entry in entries:
                    code, check = entry.rule.code, entry.check
                    if (code, check) in known:
                        continue
                    try:
                        holds = entry.holds(spot) and self._may_find(entry.rule, entry.judge, spot)
                    except Exception as error:
                        holds = True
                        faults.setdefault(code, f"line {spot.location[0]}: {describe(error)}")
                    if holds:
                        known.add((code, check))
                        shown.append(Candidate(own or spot.location[0], code, check, spot))
        return FileCandidates(shown, faults)

    def _table(self, identity: str) -> Table:
        traits = self.facts.surviving(Traits, lambda: traits_of(self.facts, identity, self._wanted))
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
    """The contexts that are entered, each once: by `with` statements, and by calls, whose context
    may have several blocks."""
    blocks = (block for block in graph.blocks if block.kind == "with")
    places = {(block.node, block.location): block.parent for block in blocks}
    yield from ((node, parent, place) for (node, place), parent in places.items())
