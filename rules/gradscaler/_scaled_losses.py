"""Where a loss that a GradScaler has multiplied by its scale is reported as if it were the loss.

What `scaler.scale(loss)` returns is followed to what takes it: through variables, tuples and dicts,
and what functions return. It is reported where it is printed or logged, or kept, added up or passed
on after its backward pass, or cut from its graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import islice
from typing import NamedTuple

from amplint.facts.callers import Callers
from amplint.facts.fact import CallFact, Required
from amplint.inference import State
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.flow import HOLDS, JOINS, method_called, names_in_test
from amplint.ir.model import SIDES
from amplint.knowledge.host_reads import LOGGED, READING_FUNCTIONS, READING_METHODS
from amplint.knowledge.operations import OF_IT_ALONE
from amplint.knowledge.vocabulary import ASKS_NO_VALUE, NAMES_THE_SCALE
from amplint.util.walks import reachable
from amplint.values.atoms import NONE, Evidence, Object, Shows, Symbol
from amplint.values.lattice import known

MAX_CALLS = 4  # that a value is followed out of
MAX_NODES = 500  # nodes that are looked at for one call of `scale`
CUTS = READING_METHODS - {"cpu"} | {"data", "detach"}  # what they give has no graph any more
PRINTS = frozenset({f"builtins.{name}" for name in ("format", "print", "repr", "str")})


class LossNode(NamedTuple):
    """A node that has a scaled loss.

    Args:
        key: where a tuple or a dict has it; None: the node is that itself.
        spent: whether nobody is to backpropagate it any more.
        cut: the node in its function that has cut it from its graph; -1 without one.
        depth: how many functions have returned it.
    """

    function: str
    number: int
    key: int | str | None = None
    spent: bool = False
    cut: int = -1
    depth: int = 0


class ReportedLosses(CallFact[Evidence]):
    """Where what a call of `scaler.scale` returns is reported."""

    sentence = "the scaled loss is reported"

    _callers = Required(Callers)

    def of(self, at: NodePlace) -> Evidence | None:
        """The first place, in the nearest function that reports it. None where a function on the
        way knows the scale: it may divide by it, wherever it is called."""
        if not is_scaled(self.inference.states[at.function], at.node):
            return None
        start = LossNode(at.function, at.node)
        walk = [*islice(reachable([start], self._takers), MAX_NODES)]
        functions = {holder.function for holder in walk}
        words = (word for each in functions for word in self.inference.functions[each].words)
        if len(walk) == MAX_NODES or any(map(NAMES_THE_SCALE.search, words)):
            return None
        reports = (
            (holder.depth, *report) for holder in walk for report in self._reports(holder, walk)
        )
        for _, function, number, text in sorted(reports):
            if function != at.function or not self._is_of_other_branch(function, at.node, number):
                return self.why(function, number, text, Shows.OPERATION)
        return None

    def _users(self, holder: LossNode) -> Iterator[tuple[int, bool]]:
        """The nodes that take it, and whether it is spent there: after `loss.backward()`."""
        state = self.inference.states[holder.function]
        users = state.users[holder.number]
        nodes = state.graph.nodes
        methods = (each for each in users if nodes[each].op == ops.ATTR)
        backwards = [each for each in methods if nodes[each].data == "backward"]
        for user in users:
            yield user, holder.spent or any(each < user for each in backwards)

    def _takers(self, holder: LossNode) -> Iterator[LossNode]:
        """The nodes that have the value because a node has it."""
        state = self.inference.states[holder.function]
        nodes = state.graph.nodes
        for user, spent in self._users(holder):
            node = nodes[user]
            taker = holder._replace(number=user, spent=spent)
            if node.op in JOINS or node.op in (ops.AWAIT, ops.STARRED):
                yield taker
            elif node.op == ops.RETURN and holder.depth < MAX_CALLS:
                for function, call in self._callers.sites.get(holder.function, ()):
                    if function in self.inference.states and call >= 0:
                        yield LossNode(function, call, holder.key, spent, depth=holder.depth + 1)
            elif holder.key is not None:
                is_item = node.op == ops.SUBSCRIPT and nodes[node.second].op == ops.CONST
                is_drawn = node.op == ops.UNPACK and node.data[0] == holder.key
                if is_drawn or (is_item and nodes[node.second].data == holder.key):
                    yield taker._replace(key=None)
            elif node.op == ops.TUPLE:
                yield taker._replace(key=node.operands.index(holder.number))
            elif node.op == ops.DICT:
                key = node.data[node.operands.index(holder.number)]
                yield from [taker._replace(key=key)] if isinstance(key, str) else []
            elif node.op == ops.ATTR and node.data in CUTS | OF_IT_ALONE:
                results = [user] if node.data == "data" else state.users[user]
                cut = node.data in CUTS
                for each in results:
                    at = each if cut and holder.cut < 0 else holder.cut
                    yield taker._replace(number=each, spent=spent or cut, cut=at)
            elif node.op == ops.CALL and names_called(state, user) & READING_FUNCTIONS:
                yield taker._replace(spent=True, cut=holder.cut if holder.cut >= 0 else user)

    def _reports(self, holder: LossNode, walk: list[LossNode]) -> Iterator[tuple[str, int, str]]:
        """Where the uses of a node report it, and what happens there."""
        state = self.inference.states[holder.function]
        numbers = {each.number for each in walk if each.function == holder.function}
        for user, spent in self._users(holder):
            node = state.graph.nodes[user]
            text = ""
            if node.op == ops.FSTRING and holder.key is None:
                text = "the scaled loss is printed here"
            elif node.op == ops.CALL and holder.number in node.arguments:
                text = self._passed(holder.function, user, spent and user not in numbers)
            elif node.op in HOLDS and spent and holder.number != node.operands[0]:
                text = "the scaled loss is kept here"
            elif node.op == ops.AUG and node.data == "Add" and spent and holder.key is None:
                text = "the scaled loss is added up here" * (not numbers.issuperset(node.operands))
            if text:
                yield holder.function, holder.cut if holder.cut >= 0 else user, text

    def _passed(self, function: str, call: int, spent: bool) -> str:
        """The report that a call makes of an argument, in words; "" if it makes none."""
        names = names_called(self.inference.states[function], call)
        if names & (PRINTS | LOGGED.keys()):
            return f"the scaled loss is {'printed' if names & PRINTS else 'logged'} here"
        if not spent or self.inference.calls.edges.get((function, call)):
            return ""
        is_asked = any(ASKS_NO_VALUE.search(name) for name in names)
        return "" if is_asked else "the scaled loss is passed on here"

    def _is_of_other_branch(self, function: str, scaling: int, number: int) -> bool:
        """Whether a node runs under a test that names what decides whether the loss is scaled, and
        not where it is, nor under the same test as that."""
        graph = self.inference.states[function].graph
        start, end = graph.nodes[scaling].block, graph.nodes[number].block
        sides = [n for n, each in enumerate(graph.blocks) if each.kind in SIDES and each.node >= 0]
        names = {n: {*names_in_test(graph, graph.blocks[n].node)} for n in sides}
        deciding = {name for n in sides if graph.is_in(start, n) for name in names[n]}
        return any(
            graph.is_in(end, n) and not graph.is_in(start, n) and names[n] & deciding for n in sides
        )


def is_scaled(state: State, number: int) -> bool:
    """Whether a node certainly is `scaler.scale(...)` of a scaler that is not switched off."""
    node = state.graph.nodes[number]
    method, receiver = method_called(state.graph, node)
    if method != "scale" or len(node.arguments) != 1:
        return False
    scalers = known(state.values[receiver]) - {NONE}
    return bool(scalers) and all(
        isinstance(each, Object) and each.kind == "scaler" and each.enabled is not False
        for each in scalers
    )


def names_called(state: State, call: int) -> Set[str]:
    """The names of what a call may call: of a library, and as it is written."""
    called = state.graph.nodes[call].operands[0]
    names = {atom.name for atom in state.values[called] if isinstance(atom, Symbol)}
    if state.graph.nodes[called].op in (ops.ATTR, ops.NAME):
        names.add(f".{state.graph.nodes[called].data}")
    return names
