"""Where a tensor that a factory builds on the CPU is moved to the device, if that is its only use:
behind branches, loops and views, and in functions of the project that it is given to.

    def forward(self, x, state=None):
        if state is None:
            state = torch.zeros(x.shape[0], self.size)
        return self.step(x, state)

    def step(self, x, state):
        return self.cell(x, state.reshape(-1, self.size).to(x.device))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from amplint.analyses.call_guards import CallGuards
from amplint.analyses.fact import CallFact, Fact, Required
from amplint.analyses.host_built import is_factory, is_host, library_names
from amplint.gradscaler.instructions import loop_around
from amplint.inference import Inference, State
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import Node
from amplint.knowledge.factories import FACTORIES
from amplint.knowledge.operations import DESCRIBES, SAME_VALUES, SHAPE_METHODS
from amplint.util.walks import reachable
from amplint.values.atoms import ACCELERATOR, CPU, Evidence, Host, Shows, Tensor

At = tuple[str, int]  # a function, and a node of it

MAX_NODES = 100  # that a tensor is followed through
MAX_WRITES = 4  # of numbers; on the device, each is a launch
MOVES = frozenset({"to", "cuda"})
ASKED = DESCRIBES - {"device"}
# Methods of a tensor that give the same numbers in another shape or dtype.
KEEPING = SAME_VALUES | {"bool", "int", "long", "to"}
FILLS = frozenset({"fill_", "zero_"})
SUMS = frozenset({"Add", "Sub"})


class MovedLater(CallFact[Evidence]):
    """The move of what a factory builds on the CPU, if every use of the tensor ends in one, and it
    gets there through a branch, a loop, or a function that it is given to.

    What stands in a line of calls and variables is up to rules.
    """

    _guards = Required(CallGuards)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._captured: dict[str, set[str]] = {}  # by function: the names that inner ones read

    def of(self, at: NodePlace) -> Evidence | None:
        start: At = at[:2]
        followed = [start] if is_filled(self._state(start), at.node) else []
        moves: list[At] = []
        writes = 0
        for each in followed:  # which grows
            node = self._node(each)
            if is_move(self._state(each), each[1]):
                moves.append(each)
                continue
            further = self._further(each)
            writes += node.op == ops.PUT
            lost = further is None or writes > MAX_WRITES or len(followed) > MAX_NODES
            if further is None or lost or self._is_captured(each):
                return None
            if node.op == ops.PUT and not self._is_beside(each, start):
                return None  # filled element by element
            followed += [other for other in further if other not in followed]
        is_far = any(self._node(each).op in (ops.PHI, ops.PARAM) for each in followed)
        return self._evidence(moves[0]) if moves and is_far else None

    def _state(self, at: At) -> State:
        return self.inference.states[at[0]]

    def _node(self, at: At) -> Node:
        return self._state(at).graph.nodes[at[1]]

    def _evidence(self, move: At) -> Evidence:
        return self.why(*move, "moved to the device here", Shows.PLACEMENT)

    def _further(self, at: At) -> list[At] | None:
        """The values that the uses of a tensor make of it; None where one needs it on the CPU, or
        may."""
        found: list[At] = []
        is_soon_there = self._is_soon_there(at)
        for user in self._state(at).users[at[1]]:
            made = self._made(at, user)
            if made is None and not is_soon_there:
                return None
            found += made or ()
        return found

    def _is_soon_there(self, at: At) -> bool:
        """Whether a variable of a loop is on the device from the second round on, so that nothing
        can need it on the CPU, in the loop or behind it."""
        state = self._state(at)
        nodes = state.graph.nodes

        def later(number: int) -> list[int]:
            return [each for each in nodes[number].operands if each > number]

        joins = reachable(
            [at[1]],
            lambda each: () if nodes[each].op != ops.PHI or later(each) else nodes[each].operands,
        )
        return any(
            all(devices(state, each) == {ACCELERATOR} for each in later(join))
            for join in joins
            if nodes[join].op == ops.PHI and later(join)
        )

    def _made(self, at: At, user: int) -> list[At] | None:
        """The values that one use of a tensor makes of it."""
        function, number = at
        state, node = self._state(at), self._node((function, user))
        match node.op:
            case ops.PHI | ops.NARROW:
                return [(function, user)]
            case ops.SUBSCRIPT if node.operands[0] == number:
                return [(function, user)] if all(map(is_host, state.values[node.second])) else None
            case ops.PUT if node.operands[0] == number:
                return [(function, user)] if writes_number(state, node) else None
            case ops.COMPARE if set(node.data) <= {"Is", "IsNot"}:
                return []
            case ops.ATTR if node.data in ASKED:
                return []
            case ops.ATTR:
                return called_on(function, state, user)
            case ops.CALL:
                return self._given(at, user)
            case _:
                return None

    def _given(self, at: At, call: int) -> list[At] | None:
        """The values that a call makes of a tensor that it is given."""
        function, number = at
        state, node = self._state(at), self._node((function, call))
        if node.arguments.count(number) != 1:
            return None
        facts = [FACTORIES.get(name) for name in library_names(state.values[node.operands[0]])]
        if facts and all(each is not None and each.device == "like" for each in facts):
            return [(function, call)]  # built where the tensor is
        site = (function, call)
        found: list[At] = []
        for callee in sorted(self.inference.calls.edges.get(site, ())):
            given = self._parameters(site, callee, number)
            if not given:
                return None
            found += given
        return found or None

    def _parameters(self, site: At, callee: str, argument: int) -> list[At]:
        """Where a function has what a call passes it."""
        if callee not in self.inference.states:
            return []
        names = [
            param.name
            for param in self.inference.functions[callee].params
            if self._guards.given(site, callee, param.name) == argument
        ]
        nodes = enumerate(self._state((callee, 0)).graph.nodes)
        return [(callee, n) for n, node in nodes if node.op == ops.PARAM and node.data in names]

    def _is_captured(self, at: At) -> bool:
        """Whether a function within this one may read the variable that holds a value."""
        function, number = at
        if function not in self._captured:
            self._captured[function] = {
                str(node.data)
                for inner in self._inner.get(function, ())
                for node in self.inference.states[inner].graph.nodes
                if node.op == ops.NAME
            }
        captured = self._captured[function]
        bindings = self._state(at).graph.bindings
        return any(number in bindings.get(name, ()) for name in captured)

    @cached_property
    def _inner(self) -> Mapping[str, list[str]]:
        """By function: the evaluated functions that are defined in it."""
        found: dict[str, list[str]] = {}
        for inner, facts in self.inference.functions.items():
            if facts.parent is not None and inner in self.inference.states:
                found.setdefault(facts.parent, []).append(inner)
        return found

    def _is_beside(self, at: At, other: At) -> bool:
        """Whether no loop runs one of two nodes more often than the other."""
        graph = self._state(at).graph
        loops = {loop_around(graph, self._node(each).block) for each in (at, other)}
        return at[0] == other[0] and len(loops) == 1


def is_filled(state: State, number: int) -> bool:
    """Whether a call builds a tensor on the CPU that is the same on every device."""
    names = library_names(state.values[state.graph.nodes[number].operands[0]])
    facts = [FACTORIES.get(name) for name in names]
    if not facts or any(each is None or each.values == "random" for each in facts):
        return False
    if not all(isinstance(a, Tensor) and a.device.kind == CPU.kind for a in state.values[number]):
        return False
    is_like = all(each is not None and each.device == "like" for each in facts)
    return is_like or is_factory(state, number)


def is_move(state: State, number: int) -> bool:
    """Ex) x.to(y.device), x.cuda(); not x.to(torch.int64)"""
    node = state.graph.nodes[number]
    callee = state.graph.nodes[node.operands[0]] if node.op == ops.CALL else None
    if callee is None or callee.op != ops.ATTR or callee.data not in MOVES:
        return False
    return devices(state, number) == {ACCELERATOR}


def devices(state: State, number: int) -> set[str | None]:
    """The devices of the tensors that a value may be."""
    return {a.device.kind for a in state.values[number] if isinstance(a, Tensor)}


def called_on(function: str, state: State, attribute: int) -> list[At] | None:
    """How the calls of a method use the tensor."""
    name = state.graph.nodes[attribute].data
    found: list[At] = []
    for user in state.users[attribute]:
        node = state.graph.nodes[user]
        if is_move(state, user):
            found.append((function, user))
            continue
        if node.op != ops.CALL or node.operands[0] != attribute:
            return None
        of_host = all(all(map(is_host, state.values[each])) for each in node.arguments)
        if name in SHAPE_METHODS or (name in KEEPING and of_host):
            found.append((function, user))
        elif name not in FILLS or state.users[user] or not of_host:
            return None
    return found


def writes_number(state: State, node: Node) -> bool:
    """Ex) x[i + 1] = 1"""
    _, index, value = node.operands
    return all(isinstance(atom, Host) for atom in state.values[value]) and is_index(state, index)


def is_index(state: State, number: int) -> bool:
    """Whether an index is a number: one is known, or added to what it is."""
    nodes = state.graph.nodes

    def terms(each: int) -> Iterable[int]:
        is_sum = nodes[each].op == ops.BINOP and nodes[each].data in SUMS
        return nodes[each].operands if is_sum else ()

    return any(
        each >= 0 and all(map(is_host, state.values[each])) for each in reachable([number], terms)
    )
