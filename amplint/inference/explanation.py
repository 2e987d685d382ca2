"""The evidence for devices, dtypes and regions, found by walking back from where they show.

Evidence takes no part in the fixpoint: which of several equal reasons came first would depend on
the order of evaluation. It is found afterwards, for what a finding rests on. Each step evaluates
one node again, with *marked* operands: in place of evidence each device, dtype and region in them
has a mark that says where in which operand it stands. The mark that comes out of the node says
from where to go on; evidence that comes out was given by the node itself, and is the answer. What
functions write for each other is marked by who has written it. Of several ways, the shortest is
taken, and of several shortest the first in the order of operands, and of functions.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from amplint.inference import transfer
from amplint.inference.call_graph import CallGraph
from amplint.inference.evidence_marks import (
    CONTEXT,
    DEVICE,
    EvidenceMarks,
    Path,
    Source,
    at_path,
    marked,
    places,
)
from amplint.inference.function.binding import ArgumentBinding
from amplint.inference.function.evaluation import Evaluation
from amplint.inference.function.frame import Frame
from amplint.inference.function.regions import FunctionRegions, opened_by
from amplint.inference.inference import Inference
from amplint.inference.state import Dispatch, Key, KeyKind, SiteId, State
from amplint.ir.model import FunctionFacts, Graph, Node
from amplint.util.positions import Place
from amplint.values.atoms import (
    BOTTOM,
    Arguments,
    Atom,
    Evidence,
    Function,
    LazyEvidence,
    Reason,
    Region,
    Shows,
    Value,
    constant,
    evidence_of,
)
from amplint.values.lattice import few_functions, join, shallow

# The steps of a path that lead to a tensor, or to a nest of tensors.
HOLDERS = frozenset({("Tensor",), ("TensorTree",)})


MAX_WAYS = 8  # from one node
MAX_WRITERS = 32  # of a key that are kept apart
MAX_GOALS = 40  # forks on the way to the answer
RESULTS: frozenset[KeyKind] = frozenset({"return", "yield", "context"})


class At(NamedTuple):
    """A place for evidence in the value of a node.

    `call`: by which the function was entered, if the way led through one: parameters and regions
    are then what this call passes. (Of all goals.)
    """

    function: str
    node: int
    path: Path
    call: SiteId | None = None


class WrittenPlace(NamedTuple):
    """A place for evidence in what a site has written under a key."""

    key: Key
    site: SiteId
    path: Path
    call: SiteId | None = None


class RegionAround(NamedTuple):
    """The autocast region around the nodes of a block."""

    function: str
    block: int
    call: SiteId | None = None


Goal = At | WrittenPlace | RegionAround


# ------------------------------------------------------------------------------ one step


class Onlooker:
    """The access of a node that is evaluated again: what it writes is noted, and changes nothing.

    Args:
        marks: for what is read.
        key: that of which it is noted what is written.
        call: of what calls have written, it alone counts, if it has written anything.
    """

    def __init__(
        self, inference: Inference, marks: EvidenceMarks, key: Key | None, call: SiteId | None
    ) -> None:
        self._store = inference.store
        self._call = call
        self._marks = marks
        self._key = key
        self.calls = CallGraph()
        self.outside = self._store.outside
        self.written: list[Value] = []

    def read(self, key: Key) -> Value:
        parts = self._store.sites_of(key)
        if not parts:
            return self._store.read(key)
        if self._call is not None and self._call in parts:
            parts = {self._call: parts[self._call]}
        first = [*parts.items()]
        if len(parts) > 1:  # what a function returns has one writer
            first = heapq.nsmallest(MAX_WRITERS, first, key=lambda part: part[0])
        marked_parts = [self._marks.on(part, (key, site)) for site, part in first]
        if len(parts) > len(first):
            marked_parts.append(self._store.read(key))
        value = join(marked_parts)
        return few_functions(value) if key.kind == "param" else value

    def read_without(self, key: Key, sites: Container[SiteId]) -> Value:
        parts = sorted(self._store.sites_of(key).items(), key=lambda part: part[0])
        return join(self._marks.on(part, (key, at)) for at, part in parts if at not in sites)

    def write(self, key: Key, _site: SiteId, value: Value) -> None:
        if key == self._key:
            self.written.append(value)

    def wants_arguments(self, function: str) -> bool:
        """Whether it is noted what calls pass for some parameter of a function."""
        key = self._key
        return key is not None and key.kind == "param" and key.owner == function

    def unnoted(self, *_: object) -> None: ...

    write_region = write_dispatch = write_bases = regions_may_change = unnoted
    begin = end = need = later = leave = unnoted

    def sites_of(self, key: Key) -> Mapping[SiteId, Value]:
        return self._store.sites_of(key)

    def given_strings(self, function: str, parameter: str) -> list[str]:
        return self._store.given_strings(function, parameter)

    def dispatches(self, function: str) -> Mapping[Dispatch, frozenset[str]]:
        return self._store.dispatches(function)

    def inherited_region(self, function: str) -> Region | None:
        return self._store.inherited_region(function)

    def is_demanded(self, key: Key) -> bool:
        return self._store.is_demanded(key)


class Overlay:
    """The values of a function's nodes, some of which are marked."""

    def __init__(self, values: Sequence[Value], marked: dict[int, Value]) -> None:
        self._values = values
        self._marked = marked

    def __getitem__(self, number: int) -> Value:
        return self._marked[number] if number in self._marked else self._values[number]


class MarkedFrame(Frame):
    """The frame of one node that is evaluated again, with marked operands.

    Args:
        inference, facts, state: as for `Frame`.
        onlooker: the access.
        node: which is evaluated.
        marks: for the operands, and for the region around.
    """

    def __init__(
        self,
        inference: Inference,
        onlooker: Onlooker,
        facts: FunctionFacts,
        state: State,
        node: int,
        marks: EvidenceMarks,
    ) -> None:
        super().__init__(inference, onlooker, facts, state)
        operands = (n for n in state.graph.nodes[node].operands if n >= 0)
        overlay = {n: marks.on(state.values[n], n) for n in dict.fromkeys(operands)}
        self.values = cast("list[Value]", Overlay(state.values, overlay))
        self.regions = MarkedRegions(
            inference, onlooker, facts, state.graph, self.values, state.regions, marks
        )

    def settled(self, value: Value) -> Value:
        return shallow(value)

    def applied(self, operation: Callable[..., Value], node: Node, *operands: Hashable) -> Value:
        return operation(*operands, self.site(node))

    def called(self, atom: Atom, arguments: Arguments, node: Node) -> Value:
        return transfer.call(atom, arguments, self.site(node))

    def evidence(self, node: Node, text: str, kind: Shows) -> Evidence | None:
        return Evidence(Place(self.facts.path, *node.location), text, kind)

    def evidence_in(self, function: str, node: Node, text: str, kind: Shows) -> Evidence | None:
        path = self.inference.functions[function].path
        return Evidence(Place(path, *node.location), text, kind)


class MarkedRegions(FunctionRegions):
    """The regions in a function that was evaluated, with a mark for their evidence."""

    def __init__(
        self,
        inference: Inference,
        onlooker: Onlooker,
        facts: FunctionFacts,
        graph: Graph,
        values: Sequence[Value],
        noted: Mapping[int, Region | None],
        marks: EvidenceMarks,
    ) -> None:
        super().__init__(inference, onlooker, facts, graph, values)
        self._noted = noted
        self._marks = marks

    def of(self, block: int) -> Region | None:
        region = self._noted.get(block)
        mark = self._marks.mark(None, ())
        return replace(region, evidence=mark) if region is not None else None


class NotedArguments(ArgumentBinding):
    """Of what a call does to what it may run, nothing is noted but arguments that somebody wants: a
    method that is called by its name may be any of 200."""

    def __init__(self, frame: Frame, onlooker: Onlooker) -> None:
        super().__init__(frame)
        self._onlooker = onlooker

    def enter(
        self, identity: str, _node: Node, arguments: Arguments | None, bound: Atom | None
    ) -> None:
        if arguments is not None:
            self.bind(Function(identity, bound), arguments)

    def bind(self, function: Function, arguments: Arguments) -> None:
        if self._onlooker.wants_arguments(function.id):
            super().bind(function, arguments)


class Explanations:
    """The evidence of a solved project."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._evidence: dict[Goal, Evidence | None] = {}
        self._forks: dict[Goal, Goal] = {}
        self._known_ways: dict[Goal, Sequence[Goal | Evidence]] = {}
        self._explained: dict[tuple[str, int], tuple[Value, Value]] = {}

    def explained(self, function: str, node: int) -> Value:
        """The value of a node, with the evidence for its devices, dtypes and contexts.

        It is kept, for nearly every rule asks for the value of what is called (recbole: 96,000
        times for 28,000 nodes).
        """
        value = self._inference.states[function].values[node]
        cached = self._explained.get((function, node))
        if cached is None or cached[0] is not value:
            explanation = marked(value, (), lambda path, _: self._lazy(At(function, node, path)))
            cached = self._explained[function, node] = value, explanation
        return cached[1]

    def of_devices(self, function: str, node: int) -> set[Evidence]:
        """The evidence for the devices of the tensors, and their nests, that a value holds."""
        value = self._inference.states[function].values[node]
        paths = [p for p in places(value) if p[-1] == DEVICE and p[-2] in HOLDERS]
        reasons = (self.find(At(function, node, path)) for path in paths)
        return {evidence for evidence in reasons if evidence is not None}

    def of_region(self, function: str, block: int) -> Reason:
        """The place where the region around the nodes of a block is opened."""
        return self._lazy(RegionAround(function, block))

    def _lazy(self, goal: At | RegionAround) -> LazyEvidence:
        return LazyEvidence(goal[:2], lambda: self.find(goal))

    def find(self, goal: Goal) -> Evidence | None:
        """The nearest evidence: of a convention only where there is no other."""
        goal = self._fork(goal)
        if goal not in self._evidence:
            self._evidence[goal] = self._search(goal)
        return self._evidence[goal]

    def _search(self, start: Goal) -> Evidence | None:
        goals, queue = {start}, deque([start])
        convention = None
        while queue:
            for way in self._ways_from(queue.popleft()):
                if isinstance(way, Evidence):
                    if way.kind is not Shows.CONVENTION:
                        return way
                    convention = convention or way
                    continue
                fork = self._fork(way)
                if fork not in goals and len(goals) < MAX_GOALS:
                    goals.add(fork)
                    queue.append(fork)
        return convention or self._presumption(start)

    def _presumption(self, goal: Goal) -> Evidence | None:
        """The reason to presume a region that no other evidence is found of: functions call each
        other in it, and it is presumed around all of them."""
        if not isinstance(goal, RegionAround):
            return None
        around = self._inference.states[goal.function].around
        if around is None or not around.presumed:
            return None
        return self._inference.unseen.presumption.evidence(self._inference.functions[goal.function])

    def _fork(self, goal: Goal) -> Goal:
        """The first goal on the way back that has several ways, or none, or is answered. What lies
        between has one answer with it, so that a long chain is walked once."""
        passed: dict[Goal, None] = {}
        while goal not in self._forks and goal not in passed:
            ways = self._ways_from(goal)
            if len(ways) != 1 or isinstance(ways[0], Evidence):
                self._forks[goal] = goal
                break
            passed[goal] = None
            goal = ways[0]
        fork = self._forks.get(goal, goal)  # a cycle of single ways has no answer
        self._forks.update(dict.fromkeys(passed, fork))
        return fork

    def _ways_from(self, goal: Goal) -> Sequence[Goal | Evidence]:
        if goal not in self._known_ways:
            self._known_ways[goal] = tuple(dict.fromkeys(self._ways(goal)))
        return self._known_ways[goal]

    def _ways(self, goal: Goal) -> Iterator[Goal | Evidence]:
        """Where evidence comes from: other places, or the evidence itself."""
        if isinstance(goal, RegionAround):
            yield from self._region(*goal)
        elif isinstance(goal, At):
            yield from self._steps(goal.function, goal.node, goal.path, None, goal.call)
        elif goal.site[1] >= 0:
            yield from self._steps(*goal.site, goal.path, goal.key, goal.call)
        else:
            function = goal.site[0]
            for number in self._nodes_of(goal.key, function):
                yield At(function, number, goal.path, goal.call)

    def _nodes_of(self, key: Key, function: str) -> Sequence[int]:
        """The nodes that a function as a whole has written under a key."""
        graph = self._inference.states[function].graph
        if key.kind == "return":
            return graph.returns
        if key.kind == "yield":
            return graph.yields
        if key.kind == "name":
            return (*graph.bindings.get(key.name, ()), *graph.globals.get(key.name, ()))
        if key.kind == "context":
            return tuple(block.node for block in graph.blocks if block.kind == "with")
        return ()

    def _steps(
        self,
        function: str,
        node: int,
        path: Path,
        written: Key | None,
        call: SiteId | None,
    ) -> Iterator[Goal | Evidence]:
        """The ways back from a node's value, or from what it writes under a key."""
        state = self._inference.states.get(function)
        if state is None:
            return
        facts = self._inference.functions[function]
        left_out: list[Source] = []
        for _ in range(MAX_WAYS):
            marks = EvidenceMarks(left_out)
            onlooker = Onlooker(self._inference, marks, written, call)
            frame = MarkedFrame(self._inference, onlooker, facts, state, node, marks)
            value = Evaluation(frame, NotedArguments(frame, onlooker)).evaluated(node)
            evidence = evidence_of(
                at_path(value if written is None else join(onlooker.written), path)
            )
            if evidence is None:
                return
            origin = marks.source_of(evidence)
            if origin is None:
                # What a node says where its operands say nothing counts only if they do not.
                if not left_out:
                    yield evidence
                return
            source, inner = origin
            left_out.append(source)
            if source is None:
                yield RegionAround(function, state.graph.nodes[node].block, call)
            elif isinstance(source, int):
                yield At(function, source, inner, call)
            elif source[0].kind in RESULTS:
                yield WrittenPlace(*source, inner, (function, node))
            else:
                yield WrittenPlace(*source, inner)

    def _framework(self, function: str) -> Iterator[Evidence]:
        """The calls, and the configuration files, that ask the framework that calls a function for
        a precision."""
        infer = self._inference
        facts = infer.functions[function]
        framework = infer.hierarchy.runner(facts, infer.store.joined)
        dtype = infer.hierarchy.dtype_of_framework(facts, infer.store.joined)
        if framework is None or not dtype:
            return
        text = f"this makes `{facts.name}` run under autocast"
        key = Key("precision", framework)
        names = {dtype} if dtype != "half" else {"float16", "bfloat16"}
        calls = sorted(infer.store.sites_of(key).items(), key=lambda each: each[0])
        lines = [self._inference.place(*site) for site, value in calls if constant(value) in names]
        files = (t for t in infer.files.precisions if t.framework == framework and t.dtype in names)
        lines += (Place(file.path, *file.span) for file in files if file.span is not None)
        yield from (Evidence(place, text, Shows.AUTOCAST) for place in lines)
        if not lines:  # but JSON, of which no place is shown
            text = f"with this configuration, `{facts.name}` is called under autocast"
            for site in sorted(infer.store.sites_of(Key("runner", function))):
                yield Evidence(self._inference.place(*site), text, Shows.AUTOCAST)

    def _region(self, function: str, block: int, call: SiteId | None) -> Iterator[Goal | Evidence]:
        """The context that opens the region of a block; or the calls in regions, by all of which
        it is inherited."""
        infer = self._inference
        graph, values = infer.states[function].graph, infer.states[function].values
        while block >= 0:
            facts = graph.blocks[block]
            context = values[facts.node] if facts.kind == "with" and facts.node >= 0 else BOTTOM
            if opened_by(context) is not None:
                yield At(function, facts.node, opening(context), call)
                return
            block = facts.parent
        key = Key("decorators", function)
        for site, value in sorted(infer.store.sites_of(key).items()):
            if opened_by(value) is not None:
                yield WrittenPlace(key, site, opening(value))
                return
        around = infer.states[function].around
        if around is None:
            return
        by_framework = [*self._framework(function)]
        if by_framework:
            yield from by_framework
            return
        observation = infer.unseen.observed_region(function)
        if observation is not None:
            yield observation
            return
        calls = infer.regions.in_regions(function, around.presumed)
        if around.presumed and not calls:
            yield infer.unseen.presumption.evidence(infer.functions[function])
        for caller, number in [call] if call is not None and call in calls else calls:
            region = infer.regions.region_of_site(function, (caller, number))
            if region is not None and region.wrapped:
                text = "a framework runs the `forward` of this module under autocast"
                yield Evidence(self._inference.place(caller, number), text, Shows.AUTOCAST)
            else:
                yield RegionAround(caller, infer.states[caller].graph.nodes[number].block)


def opening(contexts: Value) -> Path:
    """The path to the context that opens a region, in what a `with` is given."""
    return next(path for path in places(contexts) if path[-1] == CONTEXT)
