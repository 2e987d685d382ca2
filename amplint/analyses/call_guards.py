"""Which blocks of a function a call does not run, by the constants that it passes, and by what it
passes that is no tensor.

def step(model, x, y, train=True):
    if not train:
        print(x.cpu())        # not run by `step(model, x, y)` of the training loop

def resize(x, size):
    if isinstance(size, torch.Tensor):
        size = size.tolist()  # not run by `resize(x, x.shape)`
"""

from __future__ import annotations

from amplint.analyses.fact import Fact
from amplint.inference import Inference, SiteId, State
from amplint.inference.function.annotations import TENSOR_TYPES
from amplint.inference.function.narrowing import class_atoms
from amplint.inference.kept.continuation import FixpointEdit
from amplint.ir import ops
from amplint.ir.model import Node, Param
from amplint.values.atoms import Class, Function, Host, Symbol, Value, constant, one

UNKNOWN = object()  # the constant of what is none
NEGATED = {"IsNot": "Is", "NotEq": "Eq", "NotIn": "In"}
MAX_DEPTH = 4  # times `not` before a test


class CallGuards(Fact):
    """The tests of parameters around blocks, and the constants that calls give for these."""

    def __init__(self, inference: Inference) -> None:
        super().__init__(inference)
        self._guards: dict[tuple[str, int], list[tuple[int, bool]]] = {}

    def follow(self, inference: Inference, edit: FixpointEdit) -> bool:
        self.inference = inference
        self._guards = {at: of for at, of in self._guards.items() if at[0] not in edit.functions}
        return True

    def leaves_out(self, site: SiteId, function: str, block: int) -> bool:
        """Whether a call of a function does not run a block of it."""
        return any(
            self._outcome(site, function, test) is (not holds)
            for test, holds in self.around(function, block)
        )

    def around(self, function: str, block: int) -> list[tuple[int, bool]]:
        """The tests around a block, each with the outcome with which the block runs."""
        key = (function, block)
        if key not in self._guards:
            graph = self.inference.states[function].graph
            found = self._guards[key] = []
            while block >= 0:
                facts = graph.blocks[block]
                if facts.kind in ("if", "else", "after") and facts.node >= 0:
                    found.append((facts.node, facts.kind == "if"))
                block = facts.parent
        return self._guards[key]

    def _outcome(
        self, site: SiteId, function: str, test: int, is_part: bool = False
    ) -> bool | None:
        """The outcome of a test in a call; None where it is not known.

        Args:
            is_part: of a test with `and` or `or`, whose parts have none that are looked at.
        """
        graph = self.inference.states[function].graph
        node, negated = graph.nodes[graph.narrowed(test)], False
        for _ in range(MAX_DEPTH):
            if node.op == ops.UNARY and node.data == "Not":
                node, negated = graph.nodes[graph.narrowed(node.operands[0])], not negated
        outcome = self._plain_outcome(site, function, node, is_part)
        return None if outcome is None else outcome is not negated

    def _plain_outcome(self, site: SiteId, function: str, node: Node, is_part: bool) -> bool | None:
        """The outcome of a test that does not begin with `not`."""
        if node.op == ops.BOOL:
            parts = () if is_part else node.operands
            outcomes = {self._outcome(site, function, part, True) for part in parts}
            stops: bool = node.data == "Or"
            if stops in outcomes:
                return stops
            return None if None in outcomes or not outcomes else not stops
        if node.op == ops.COMPARE and len(node.operands) == 2:
            return self._compared(site, function, node)
        if node.op == ops.CALL:
            return self._called(site, function, node)
        found = self._constant(site, function, node)
        return None if found is UNKNOWN else bool(found)

    def _called(self, site: SiteId, function: str, node: Node) -> bool | None:
        """Ex) isinstance(size, torch.Tensor), torch.is_tensor(size)"""
        state = self.inference.states[function]
        tested = node.argument(0)
        if tested < 0 or not asks_for_tensor(state, node):
            return None
        found = self._argument(site, function, state.graph.nodes[state.graph.narrowed(tested)])
        if found is None:
            return None
        parameter, given = found
        is_host = (
            is_of_host(self.inference.states[site[0]].values[given])
            if given >= 0
            else parameter.constant_default
        )
        return False if is_host else None

    def _compared(self, site: SiteId, function: str, node: Node) -> bool | None:
        """Ex) mode == "train", keep is False, reduction in ("mean", "sum")"""
        graph = self.inference.states[function].graph
        left = self._constant(site, function, graph.nodes[graph.narrowed(node.operands[0])])
        right = graph.nodes[node.second]
        (operator,) = node.data
        negated, operator = operator in NEGATED, NEGATED.get(operator, operator)
        if left is UNKNOWN:
            return None
        if operator in ("Is", "Eq") and right.op == ops.CONST:
            # `1 == True` holds, and `1 is True` does not.
            same_type = operator == "Eq" or type(left) is type(right.data)
            equal = left == right.data and same_type
        elif operator == "In" and right.op in (ops.TUPLE, ops.LIST, ops.SET):
            items = [graph.nodes[each] for each in right.operands]
            if not all(item.op == ops.CONST for item in items):
                return None
            equal = any(left == item.data for item in items)
        else:
            return None
        return equal is not negated

    def _constant(self, site: SiteId, function: str, node: Node) -> object:
        """The constant that a call passes for a parameter, or that is its default."""
        if node.op == ops.CONST:
            return node.data
        argument = self._argument(site, function, node)
        if argument is None:
            return UNKNOWN
        parameter, given = argument
        if given < 0:
            return parameter.default if parameter.constant_default else UNKNOWN
        caller = self.inference.states[site[0]]
        found = constant(caller.values[given])
        node = caller.graph.nodes[given]
        return found if found is not None or node.op == ops.CONST else UNKNOWN

    def _argument(self, site: SiteId, function: str, node: Node) -> tuple[Param, int] | None:
        """The parameter that a node is, and the node that a call passes for it, or -1; None where
        that is not known."""
        if node.op != ops.PARAM:
            return None
        parameter = self.inference.functions[function].param(node.data)
        if parameter is None or parameter.kind not in ("positional", "keyword"):
            return None
        given = self.given(site, function, parameter.name)
        return None if given is None else (parameter, given)

    def given(self, site: SiteId, function: str, name: str) -> int | None:
        """The node of the argument that a call passes for a parameter of a function; -1 where there
        is none, None where that is not known."""
        caller = self.inference.states.get(site[0])
        node = caller.graph.nodes[site[1]] if caller is not None else None
        if caller is None or node is None or node.op != ops.CALL:
            return None  # a property is read, an object is iterated
        callees = caller.values[node.operands[0]]
        partial = any(isinstance(a, Function) and (a.given or a.given_names) for a in callees)
        if node.data.stars or partial:
            return None
        facts = self.inference.functions[function]
        names = [p.name for p in facts.positional]
        if name not in names:
            return node.argument(None, name)
        position = names.index(name) - self._bound(caller, node, function)
        if position < 0:
            return None
        return node.argument(position, name)

    def _bound(self, caller: State, node: Node, function: str) -> int:
        """How many parameters the call does not write: `self` of a method of an object."""
        if not self.inference.functions[function].takes_receiver:
            return 0
        for atom in caller.values[node.operands[0]]:
            if isinstance(atom, Function) and atom.id == function:
                return 1 if atom.bound is not None else 0
            if isinstance(atom, Class):
                return 1
        return 1  # `model(x)` runs `forward`


def asks_for_tensor(state: State, test: Node) -> bool:
    """Whether a call asks whether its first argument is a tensor, and nothing else."""
    callee, classes = state.values[test.operands[0]], test.argument(1)
    if callee == one(Symbol("torch.is_tensor")):
        return True
    asked = class_atoms(state.values[classes]) if classes >= 0 else []
    return (
        callee == one(Symbol("builtins.isinstance"))
        and bool(asked)
        and all(isinstance(atom, Symbol) and atom.name in TENSOR_TYPES for atom in asked)
    )


def is_of_host(value: Value) -> bool:
    """Whether a value surely is one of Python or NumPy: a number, a size, an array, None."""
    return bool(value) and all(isinstance(atom, Host) for atom in value)
