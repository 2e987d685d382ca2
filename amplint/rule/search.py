"""The candidates of rules in one file, found on its value graphs: the nodes that meet the condition
of a check (`conditions.py`), and that the check may say something of."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import msgspec

from amplint.analyses.function_traits import Traits
from amplint.analyses.hotness import Hotness
from amplint.facts.fact import Facts
from amplint.facts.recorded_questions import (
    Asked,
    NotedFacts,
    Spans,
    evaluated,
    is_silent,
    same,
)
from amplint.facts.trait import Trait
from amplint.inference import State
from amplint.ir import ops
from amplint.ir.file_set import Files
from amplint.ir.model import FunctionFacts, Location, Node
from amplint.rule.conditions import Test, Way, failure
from amplint.rule.rule import Judge, Rule
from amplint.rule.where import EVALUATED, HOT, IN_REGION
from amplint.util.errors import describe
from amplint.values.atoms import (
    UNKNOWN,
    Atom,
    LazyEvidence,
    Value,
)
from amplint.view.evaluated_node import (
    EvaluatedNode,
    KnownProject,
    contexts,
    names_of_callee,
    symbols,
    tests,
)
from amplint.view.view import NeedsCodeError, View


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
    failure(test)
    for conditions in (HOT, EVALUATED, IN_REGION)
    for way in conditions.ways
    for test in way.tests
)


class TableEntry(NamedTuple):
    """A rule, the number and the judge of one of its checks, and what a node has to pass for it."""

    rule: Rule
    check: int
    judge: Judge
    holds: Test


class WayTable:
    """The ways of rules that can hold in functions with certain traits, in which something is one
    of some library names; by operation, and by the names and the kinds of callees."""

    def __init__(
        self, rules: Iterable[Rule], traits: frozenset[Trait], symbols: frozenset[str]
    ) -> None:
        self.by_op: dict[str, list[TableEntry]] = {}
        self.by_name: dict[str, list[TableEntry]] = {}
        self.by_kind: dict[type[Atom], list[TableEntry]] = {}
        for rule in rules:
            for check, way in ways_of(rule):
                if not way.traits <= traits or way.ops is None:
                    continue
                if way.symbols is not None and way.symbols.isdisjoint(symbols):
                    continue
                entry = TableEntry(rule, check, rule.checks[check].judge, way.holds)
                for name in way.names or ():
                    self.by_name.setdefault(name, []).append(entry)
                for kind in way.kinds or ():
                    self.by_kind.setdefault(kind, []).append(entry)
                for op in way.ops if way.of_callees is None else ():
                    self.by_op.setdefault(op, []).append(entry)
        self._calls: dict[tuple[str | None, Value], Sequence[TableEntry]] = {}

    def of_call(self, callee: Node, value: Value) -> Sequence[TableEntry]:
        """The entries for a call of what has this value: many calls are of the same."""
        key = callee.data if callee.op == ops.ATTR else None, value
        if key not in self._calls:
            named = (self.by_name.get(name, ()) for name in names_of_callee(callee, value))
            of_kind = (self.by_kind.get(kind, ()) for kind in {*map(type, value)})
            self._calls[key] = [*self.by_op.get(ops.CALL, ()), *chain(*named, *of_kind)]
        return self._calls[key]


def ways_of(rule: Rule) -> Iterator[tuple[int, Way]]:
    """The ways in which a node can be a candidate of a rule, as `TableEntry` has them."""
    for number, check in enumerate(rule.checks):
        yield from ((number, way) for way in check.condition.ways)


# Those with candidates, each with the nodes that checks are shown.
Rows = list[tuple[int, list[str]]]


class Candidate(NamedTuple):
    """A node that a check is shown.

    Args:
        row: the one that it counts for: of what is in a function, its first.
        code: of the rule.
        check: the number of the check.
        here: the node.
    """

    row: int
    code: str
    check: int
    here: EvaluatedNode


class KeptSearch(msgspec.Struct, array_like=True):
    """A search for candidates in a file, as it is kept: it finds the same while the values of the
    file's functions are the same, and these answers are.

    Args:
        rows: see `rows_of`.
        around: the digest of how hot functions are, and what is known of each as a whole.
        questions: that the search has asked besides.
        silent: see `NotedFacts`.
    """

    rows: Rows
    around: bytes
    questions: list[Asked]
    silent: dict[str, dict[str, list[int]]]


@dataclass(frozen=True)
class FileCandidates:
    """The candidates in one file.

    Args:
        nodes: the nodes that checks are shown.
        faults: by code: where a condition of the rule raised first, and what. Such a node counts as
            a candidate, so that the fault costs none of the rule's findings.
    """

    nodes: Sequence[Candidate] = ()
    faults: Mapping[str, str] = field(default_factory=dict)


class CandidateSearch:
    """The search for the candidates of some rules.

    Args:
        files, facts: of the project.
        rules: those that may speak.
        may_find: whether a check of a rule may find something at a node that meets its condition.
    """

    def __init__(
        self,
        files: Files,
        facts: Facts,
        rules: Sequence[Rule],
        may_find: Callable[[Rule, Judge, EvaluatedNode], bool] = lambda *_: True,
    ) -> None:
        self.facts = facts
        self._files = files
        self._rules = rules
        self._may_find = may_find
        self._tables: dict[tuple[frozenset[Trait], frozenset[str]], WayTable] = {}
        ways = [way for rule in rules for _, way in ways_of(rule)]
        self._symbols = frozenset[str]().union(*(way.symbols or () for way in ways))
        self._symbols_in: dict[Value, frozenset[str]] = {}
        self._project = KnownProject(facts)

    def of(self, path: str) -> FileCandidates:
        """The candidates in a file."""
        inference = self.facts.inference
        return inference.surviving("the search for candidates", lambda: self._of(path))

    def noted(self, path: str, spans: Spans) -> tuple[FileCandidates, KeptSearch | None]:
        """The candidates in a file, and the search to be kept, if all is known that it rests on."""
        facts, times_asked = NotedFacts(self.facts, spans), LazyEvidence.times_asked
        self._project.facts = facts
        try:
            candidates = self.of(path)
        finally:
            self._project.facts = self.facts
        questions = facts.notes.questions
        if questions is None or candidates.faults or LazyEvidence.times_asked != times_asked:
            return candidates, None
        rows, around = rows_of(candidates), self._around(path)
        return candidates, KeptSearch(rows, around, questions, facts.silent)

    def is_same(self, path: str, search: KeptSearch, spans: Spans) -> bool:
        """Whether a search finds the same in a file whose functions have the values of then."""
        return (
            search.around == self._around(path)
            and is_silent(search.silent, self.facts)
            and same(search.questions, self.facts, spans)
        )

    def _around(self, path: str) -> bytes:
        """The digest of what a search reads of the functions of a file beside their values."""
        traits, hotness = self.facts[Traits], self.facts[Hotness]
        rows = [
            (function, traits.besides_values(function), hotness.temperatures(function))
            for function in evaluated(self.facts, path)
        ]
        return hashlib.blake2b(repr(rows).encode(), digest_size=8).digest()

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
        for op, here in self.every_node(path):
            if here.location[0] != row:
                continue
            traits = self.facts[Traits].of_function(here.function)
            symbols = self._symbols_of(here.function)
            for check, way in ways_of(rule):
                lacking = way.lacking(op, here, traits, symbols)
                if lacking is not None:
                    yield Candidate(row, rule.code, check, here), way, lacking

    def every_node(self, path: str) -> Iterator[tuple[str, EvaluatedNode]]:
        """The nodes of a file, each with its operation."""
        for identity, facts in self._files.own[path].facts.functions.items():
            state = self.facts.inference.states.get(identity)
            if state is not None:
                yield from self._every_node_of(identity, facts, state)

    def _every_node_of(
        self, identity: str, facts: FunctionFacts, state: State
    ) -> Iterator[tuple[str, EvaluatedNode]]:
        """The nodes of a function, each with its operation."""
        if facts.kind in ("function", "lambda"):
            yield "function", EvaluatedNode(self._project, identity, state, -1, 0, facts.location)
        for number, node in enumerate(state.graph.nodes):
            yield (
                node.op,
                EvaluatedNode(self._project, identity, state, number, node.block, node.location),
            )
        for op, places in (("test", tests(state.graph)), ("context", contexts(state.graph))):
            for place in places:
                yield op, EvaluatedNode(self._project, identity, state, *place)

    def _of(self, path: str) -> FileCandidates:
        candidates: list[Candidate] = []
        faults: dict[str, str] = {}
        for identity, facts in self._files.own[path].facts.functions.items():
            if identity not in self.facts.inference.states:
                continue
            table = self._table(identity)
            state = self.facts.inference.states.get(identity)
            if state is None or not state.graph.nodes:  # the traits may have cost the function
                continue
            own = facts.location[0] if facts.kind in ("function", "lambda") else None
            for here, entries in self._nodes(identity, facts, state, table):
                checks: set[tuple[str, int]] = set()
                for rule, check, judge, holds in entries:
                    if checks and (rule.code, check) in checks:  # by another way
                        continue
                    try:
                        if not holds(here) or not self._may_find(rule, judge, here):
                            continue
                    except Exception as error:
                        fault = f"line {here.location[0]}: {describe(error)}"
                        faults.setdefault(rule.code, fault)
                    checks.add((rule.code, check))
                    candidates.append(Candidate(own or here.location[0], rule.code, check, here))
        return FileCandidates(candidates, faults)

    def _table(self, identity: str) -> WayTable:
        traits = self.facts.surviving(Traits, lambda: self.facts[Traits].of_function(identity))
        key = traits, self._symbols_of(identity)
        if key not in self._tables:
            self._tables[key] = WayTable(self._rules, *key)
        return self._tables[key]

    def _symbols_of(self, function: str) -> frozenset[str]:
        """The library names that rules ask for, and that something in a function may be."""
        state = self.facts.inference.states.get(function)
        symbols_in = self._symbols_in
        names: set[str] = set()
        for value in {*state.values} if state is not None else ():
            if value not in symbols_in:
                symbols_in[value] = self._symbols.intersection(symbols(value))
            names |= symbols_in[value]
        return frozenset(names)

    def _nodes(
        self, identity: str, facts: FunctionFacts, state: State, table: WayTable
    ) -> Iterator[tuple[EvaluatedNode, Sequence[TableEntry]]]:
        """The nodes of a function that some rule may speak of."""

        def here(number: int, block: int, location: Location) -> EvaluatedNode:
            return EvaluatedNode(self._project, identity, state, number, block, location)

        if facts.kind in ("function", "lambda") and "function" in table.by_op:
            yield here(-1, 0, facts.location), table.by_op["function"]
        nodes = state.graph.nodes
        for number, node in enumerate(nodes):
            if node.op == ops.CALL:
                callee = node.operands[0]
                entries = table.of_call(nodes[callee], state.values[callee] or UNKNOWN)
            else:
                entries = table.by_op.get(node.op, ())
            if entries:
                yield here(number, node.block, node.location), entries
        for op, places in (("test", tests(state.graph)), ("context", contexts(state.graph))):
            if op in table.by_op:
                for place in places:
                    yield here(*place), table.by_op[op]


def may_find(rule: Rule, judge: Judge, here: EvaluatedNode) -> bool:
    """Whether a check finds something at a node, as far as the value graph says."""
    try:
        for _ in judge(View(rule, here)):
            return True
    except NeedsCodeError:
        return True
    return False


def rows_of(candidates: FileCandidates) -> Rows:
    """The candidates in a file, to be held against those of a later run."""
    nodes: dict[int, list[str]] = {}
    for row, code, check, here in candidates.nodes:
        nodes.setdefault(row, []).append(f"{code} {check} {here.function} {here.number}")
    return sorted(nodes.items())
