"""Where a loss that a GradScaler has multiplied by its scale is reported as if it were the loss.

What `scaler.scale(loss)` returns is followed to what takes it: through variables, what functions
return, and calls of the project. It is reported where it is read as a number, or cut from its graph
(then nothing can backpropagate it any more), or handed on by who has backpropagated it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import NamedTuple

from amplint.analyses.callers import Callers
from amplint.analyses.fact import CallFact, Fact, Required
from amplint.inference import Inference, SiteId, State
from amplint.inference.function.origins import alternatives
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import SIDES, Node, path_of
from amplint.knowledge.host_reads import (
    LOGGED,
    READING_FUNCTIONS,
    READING_METHODS,
)
from amplint.knowledge.operations import OF_IT_ALONE
from amplint.knowledge.vocabulary import ASKS_NO_VALUE, NAMES_THE_SCALE
from amplint.util.walks import reachable
from amplint.values.atoms import NONE, Evidence, Host, Object, Shows, Symbol
from amplint.values.lattice import known

MAX_CALLS = 4  # that a value is followed through, in and out
MAX_FUNCTIONS = 60  # that are looked at for one call of `scale`
KEEPING = frozenset({ops.NARROW, ops.PHI, ops.AWAIT, ops.STARRED})
ORDER = frozenset({"Lt", "LtE", "Gt", "GtE"})
SUMS = frozenset({"Add", "Sub"})
FACTORS = frozenset({"Mult", "Div"})
HOLDING = frozenset({ops.STORE, ops.PUT, ops.ADD})
TESTING = frozenset({ops.BOOL, ops.COMPARE, ops.UNARY})
GET_SCALE = "get_scale"
KEEPING_SCALE = KEEPING | {ops.DICT}
LOOKING = frozenset({ops.COMPARE, ops.FSTRING})
CUTS = READING_METHODS - {"cpu"} | {"data", "detach"}  # what they give has no graph any more
PRINTS = frozenset({f"builtins.{name}" for name in ("format", "print", "repr", "str")})
Key = int | str | None  # of a tuple or a dict that holds the value: where; None: it is that itself


class Held(NamedTuple):
    """A node that has a scaled loss, or a tuple or a dict that has it under a key."""

    number: int
    key: Key = None


class LossQuestion(NamedTuple):
    """A scaled loss as it comes into a function.

    Args:
        inner: the calls by which it was handed in, to which the function returns.
        depth: how many calls it went through.
        spent: whether nobody is to backpropagate it any more: that was done, or it has no graph.
    """

    function: str
    start: Held
    inner: tuple[SiteId, ...] = ()
    depth: int = 0
    spent: bool = False


class ReportedLosses(CallFact[Evidence]):
    """Where what a call of `scaler.scale` returns is reported."""

    _callers = Required(Callers)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._known: dict[SiteId, Evidence | None] = {}

    def of(self, at: NodePlace) -> Evidence | None:
        site = (at.function, at.node)
        if site not in self._known:
            self._known[site] = self._find(site)
        return self._known[site]

    def _find(self, site: SiteId) -> Evidence | None:
        """The first place, the nearest function first."""
        if not is_scaled(self.inference.states[site[0]], site[1]):
            return None
        queue = [LossQuestion(site[0], Held(site[1]))]
        found: Evidence | None = None
        # A function on the way that knows the scale may divide by it, wherever it is called.
        for count, question in enumerate(queue):
            if count == MAX_FUNCTIONS or knows_the_scale(self.inference, question):
                return None
            inside = ScaledIn(self.inference, question)
            report = next(inside.reports(), None) if found is None else None
            if report is not None:
                number, text = report
                found = self.why(question.function, number, text, Shows.OPERATION)
            if found is None and question.depth < MAX_CALLS:
                queue += [each for each in self._next(inside) if each not in queue]
        return found

    def _next(self, inside: ScaledIn) -> Iterator[LossQuestion]:
        """The functions that are handed it, and those that it is returned to."""
        question, depth = inside.question, inside.question.depth + 1
        for call, callee, parameter, spent in inside.handed():
            inner = (*question.inner, (question.function, call))
            yield LossQuestion(callee, Held(parameter), inner, depth, spent)
        sites = question.inner[-1:] or self._callers.sites.get(question.function, ())
        for key, spent in inside.returned():
            for function, call in sites:
                if function in self.inference.states and call >= 0:
                    yield LossQuestion(function, Held(call, key), question.inner[:-1], depth, spent)


def is_scaled(state: State, number: int) -> bool:
    """Whether a node certainly is `scaler.scale(...)` of a scaler that is not switched off."""
    node = state.graph.nodes[number]
    callee = state.graph.nodes[node.operands[0]] if node.op == ops.CALL else node
    if callee.op != ops.ATTR or callee.data != "scale" or len(node.arguments) != 1:
        return False
    scalers = known(state.values[callee.operands[0]]) - {NONE}
    return bool(scalers) and all(
        isinstance(each, Object) and each.kind == "scaler" and each.enabled is not False
        for each in scalers
    )


def knows_the_scale(inference: Inference, question: LossQuestion) -> bool:
    """Ex) loss.item() / scaler.get_scale(), loss * inv_scale"""
    names = {*filter(NAMES_THE_SCALE.search, inference.functions[question.function].words)}
    state = inference.states[question.function]
    return bool(names) and not (names == {GET_SCALE} and only_looks_at_scale(state))


def only_looks_at_scale(state: State) -> bool:
    """Whether all that a function does with the scale is to compare, print or log it.

    Ex) if scaler.get_scale() < before: skipped += 1
    """
    nodes = state.graph.nodes
    methods = [n for n, node in enumerate(nodes) if node.op == ops.ATTR and node.data == GET_SCALE]
    calls = [user for number in methods for user in state.users[number]]
    kept = reachable(calls, lambda n: (u for u in state.users[n] if nodes[u].op in KEEPING_SCALE))
    takers = {user for number in kept for user in state.users[number]}
    return bool(methods) and all(
        nodes[user].op in LOOKING or nodes[user].op in KEEPING_SCALE or reports(state, user)
        for user in takers
    )


def reports(state: State, number: int) -> bool:
    """Ex) print(scale), writer.add_scalar("scale", scale)"""
    is_call = state.graph.nodes[number].op == ops.CALL
    return is_call and not names_called(state, number).isdisjoint(PRINTS | LOGGED.keys())


def names_called(state: State, call: int) -> Set[str]:
    """The names of what a call may call: of a library, and as it is written."""
    called = state.graph.nodes[call].operands[0]
    names = {atom.name for atom in state.values[called] if isinstance(atom, Symbol)}
    if state.graph.nodes[called].op in (ops.ATTR, ops.NAME):
        names.add(f".{state.graph.nodes[called].data}")
    return names


class ScaledIn:
    """The uses that one function makes of a scaled loss.

    Args:
        question: how it comes into the function, which inference has been in.
    """

    def __init__(self, inference: Inference, question: LossQuestion) -> None:
        self.question = question
        self._inference = inference
        self._state = inference.states[question.function]
        self._nodes = self._state.graph.nodes
        self._held = {*reachable([question.start], self._takers)}
        self._in_order = sorted(self._held, key=lambda each: each.number)
        self._numbers = {each.number for each in self._held}

    def _users(self, number: int) -> Sequence[int]:
        return self._state.users[number]

    def _reads(self, call: int) -> bool:
        """Ex) float(loss)"""
        return not READING_FUNCTIONS.isdisjoint(names_called(self._state, call))

    def _takers(self, held: Held) -> Iterator[Held]:
        """The nodes that have the value because a node has it."""
        number, key = held
        for user in self._users(number):
            node = self._nodes[user]
            if node.op in KEEPING:
                yield Held(user, key)
            elif key is None:
                yield from self._of_loss(number, user)
            elif node.op == ops.UNPACK and node.data == (key, *node.data[1:]):
                yield Held(user)
            elif node.op == ops.SUBSCRIPT and node.operands[0] == number:
                index = self._nodes[node.second]
                if index.op == ops.CONST and index.data == key:
                    yield Held(user)

    def _of_loss(self, number: int, user: int) -> Iterator[Held]:
        node = self._nodes[user]
        if node.op == ops.TUPLE:
            yield Held(user, node.operands.index(number))
        elif node.op == ops.DICT and isinstance(node.data[node.operands.index(number)], str):
            yield Held(user, node.data[node.operands.index(number)])
        elif node.op in (ops.BINOP, ops.AUG) and self._is_multiple(node, number):
            yield Held(user)
        elif node.op == ops.ATTR and (node.data in OF_IT_ALONE | CUTS):
            if node.data == "data":
                yield Held(user)
            for call in self._calls_of(user):
                yield Held(call)
        elif node.op == ops.CALL and node.arguments == (number,) and self._reads(user):
            yield Held(user)

    def _calls_of(self, method: int) -> Iterator[int]:
        for user in self._users(method):
            if self._nodes[user].op == ops.CALL and self._nodes[user].operands[0] == method:
                yield user

    def _is_multiple(self, node: Node, number: int) -> bool:
        """Whether a sum or a product with the value has the scale as a factor."""
        if node.data in SUMS:
            return True
        left, right = node.operands
        other = self._state.values[right if left == number else left]
        are_numbers = bool(other) and all(isinstance(atom, Host) for atom in other)
        return node.data in FACTORS and are_numbers and (node.data == "Mult" or left == number)

    # -- where it ends

    @cached_property
    def _cut(self) -> Mapping[Held, int]:
        """The values without a graph, by the node that has cut it off: loss.item()"""
        found: dict[Held, int] = {}
        for each in self._in_order:
            if each.key is None and each not in found and self._cuts(each.number):
                for made in reachable([each], self._takers):
                    found.setdefault(made, each.number)
        return found

    def _cuts(self, number: int) -> bool:
        node = self._nodes[number]
        if node.op == ops.ATTR:
            return node.data in CUTS
        if node.op != ops.CALL or number == self.question.start.number:
            return False
        method = self._nodes[node.operands[0]]
        if method.op == ops.ATTR and method.operands[0] in self._numbers:
            return method.data in CUTS
        return self._reads(number)

    def is_spent(self, held: Held, user: int) -> bool:
        """Whether nobody is to backpropagate it any more where a node takes it."""
        passed = any(call < user for call in self._backwards)
        return self.question.spent or passed or held in self._cut

    @cached_property
    def _backwards(self) -> Sequence[int]:
        """The calls of `backward` that it goes through."""
        return [
            call
            for number in self._numbers
            for user in self._users(number)
            if self._nodes[user].op == ops.ATTR and self._nodes[user].data == "backward"
            for call in self._calls_of(user)
        ]

    def returned(self) -> Iterator[tuple[Key, bool]]:
        """The part of it that the function returns: under which key, and whether it is spent."""
        for number in self._state.graph.returns:
            node = self._nodes[number]
            given = node.operands[0] if node.op == ops.RETURN and node.operands else number
            for held in self._in_order:
                if held.number == given:
                    yield held.key, self.is_spent(held, number)

    def handed(self) -> Iterator[tuple[int, str, int, bool]]:
        """The calls of functions of the project that are given it: the call, the function, the node
        of its parameter, and whether that is spent."""
        for held in (each for each in self._in_order if each.key is None):
            for user in self._users(held.number):
                node = self._nodes[user]
                for callee in sorted(self._callees(user)) if node.op == ops.CALL else ():
                    parameter = self._parameter(callee, node, held.number)
                    if parameter >= 0:
                        yield user, callee, parameter, self.is_spent(held, user)

    def _callees(self, call: int) -> Collection[str]:
        return self._inference.calls.edges.get((self.question.function, call), ())

    def _parameter(self, callee: str, call: Node, given: int) -> int:
        """The node of the parameter that takes an argument in what is called; -1 if unknown."""
        state = self._inference.states.get(callee)
        if state is None:
            return -1
        places = self._inference.functions[callee].places
        names = {keyword for keyword, each in call.named if each == given}
        names |= {name for index, name in enumerate(places) if call.argument(index) == given}
        nodes = state.graph.nodes
        taken = (n for n, node in enumerate(nodes) if node.op == ops.PARAM and node.data in names)
        return next(taken, -1)

    def reports(self) -> Iterator[tuple[int, str]]:
        """The nodes at which it is reported, in order, and what happens there."""
        found = {
            (self._cut.get(held, user), text)
            for held in self._held
            for user in self._users(held.number)
            if (text := self._report(held, user)) and not self._is_of_other_branch(user)
        }
        return iter(sorted(found))

    def _report(self, held: Held, user: int) -> str:
        """The report that a node that takes it makes of it, in words; "" if it makes none."""
        node, number = self._nodes[user], held.number
        if node.op == ops.CALL:
            return self._report_by_call(held, user) if number in node.arguments else ""
        if node.op in HOLDING and number in node.operands and number != node.operands[0]:
            return "the scaled loss is kept here" if self.is_spent(held, user) else ""
        if held.key is not None:
            return ""
        if self._is_formatted(node, number):
            return "the scaled loss is printed here"
        if self._is_compared(node, number):
            return "the scaled loss is compared here"
        if self.is_spent(held, user) and self._is_added(node, user):
            return "the scaled loss is added up here"
        return ""

    def _is_added(self, node: Node, user: int) -> bool:
        """Whether it is added to something that is no scaled loss by itself."""
        if node.op not in (ops.BINOP, ops.AUG) or node.data not in SUMS:
            return False

        def takers(held: Held) -> Iterator[Held]:
            return (each for each in self._takers(held) if each.number != user)

        before = {each.number for each in reachable([self.question.start], takers)}
        return not before.issuperset(node.operands)

    def _report_by_call(self, held: Held, user: int) -> str:
        names = names_called(self._state, user)
        if held.key is None and names & PRINTS:
            return "the scaled loss is printed here"
        if names & LOGGED.keys():
            return "the scaled loss is logged here"
        if Held(user) in self._held or self._callees(user) or not self.is_spent(held, user):
            return ""
        if any(ASKS_NO_VALUE.search(name) for name in names):
            return ""
        return "the scaled loss is passed on here"

    def _is_formatted(self, node: Node, number: int) -> bool:
        if node.op == ops.FSTRING:
            return True
        is_percent = node.op == ops.BINOP and node.data == "Mod" and node.operands[0] != number
        left = self._state.values[node.operands[0]] if is_percent else frozenset()
        return bool(left) and all(isinstance(each, Host) and each.kind == "str" for each in left)

    def _is_compared(self, node: Node, number: int) -> bool:
        """Whether the scale decides what a comparison with something returns.

        A sign does not depend on it, nor whether it is infinite, and two scaled losses may have the
        same scale.
        """
        if node.op != ops.COMPARE or not {*node.data} <= ORDER:
            return False
        others = [each for each in node.operands if each != number]
        return not any(each in self._numbers or self._is_without_scale(each) for each in others)

    def _is_without_scale(self, number: int) -> bool:
        """Ex) 0, math.inf, float("inf")"""
        node = self._nodes[number]
        if node.op == ops.CONST:
            return bool(node.data == 0)
        name = path_of(self._state.graph, number) or ""
        return node.op == ops.CALL or ASKS_NO_VALUE.search(name) is not None

    def _is_of_other_branch(self, number: int) -> bool:
        """Whether a node runs under a test that names what decides whether the loss is scaled, and
        not where it is, nor under the same test as that."""
        if self.question.depth:
            return False
        start = self._nodes[self.question.start.number].block
        graph = self._state.graph
        deciding = {name for block in self._sides(start) for name in self._names_in(block)}
        return any(
            not graph.is_in(start, block) and not deciding.isdisjoint(self._names_in(block))
            for block in self._sides(self._nodes[number].block)
        )

    def _sides(self, number: int) -> Iterator[int]:
        blocks = self._state.graph.blocks
        while number >= 0:
            if blocks[number].kind in SIDES and blocks[number].node >= 0:
                yield number
            number = blocks[number].parent

    def _names_in(self, block: int) -> Iterator[str]:
        graph = self._state.graph

        def parts(number: int) -> Collection[int]:
            node = graph.nodes[number]
            return node.operands if node.op in TESTING else alternatives(graph, number)

        test = graph.blocks[block].node
        names = (path_of(graph, each) for each in reachable([test], parts))
        return (name for name in names if name is not None)
