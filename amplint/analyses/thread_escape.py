"""Work of a thread that an autocast region would have cast, had the thread seen the region."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from amplint.analyses.fact import CallFact
from amplint.inference import State
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.model import Node
from amplint.knowledge.casts import policy
from amplint.knowledge.operations import OPERATORS
from amplint.util.walks import nearest
from amplint.values.atoms import (
    Atom,
    Evidence,
    Function,
    Instance,
    Method,
    Object,
    Shows,
    Symbol,
    Tensor,
    TensorTree,
)

TEXT = "this runs outside of the region"


class ThreadWork(CallFact[Evidence]):
    """Where what a call hands to another thread runs the nearest product, outside of any region.

    The products are found by one walk from them back to callers.
    """

    def of(self, at: NodePlace) -> Evidence | None:
        infer = self.inference
        work = infer.calls.threads.get((at.function, at.node), set())
        called = sorted({atom.id for atom in work if isinstance(atom, Function)})
        for atom in work:
            module = atom.of if isinstance(atom, Method) and atom.name == "forward" else atom
            if isinstance(module, Instance) and infer.hierarchy.is_module(module.cls):
                called += infer.hierarchy.methods(module.cls, "forward")
            elif runs_layer(module):
                return self.why(at.function, at.node, TEXT, Shows.OPERATION)
        return next((self._nearest[f] for f in called if f in self._nearest), None)

    @cached_property
    def _nearest(self) -> Mapping[str, Evidence]:
        """By function: the nearest product in it, or in what it calls, outside of its regions."""
        direct: dict[str, int] = {}
        callers: dict[str, list[str]] = {}
        for function, state in sorted(self.inference.states.items()):
            for number, node in enumerate(state.graph.nodes):
                if state.regions.get(node.block) is not None:
                    continue
                if is_product(node, state):
                    direct.setdefault(function, number)
                for callee in sorted(self.inference.calls.edges.get((function, number), ())):
                    callers.setdefault(callee, []).append(function)
        found = nearest(direct, lambda function: callers.get(function, ()))
        return {
            function: self.why(goal, direct[goal], TEXT, Shows.OPERATION)
            for function, (_, goal) in found.items()
        }


def is_product(node: Node, state: State) -> bool:
    if node.op == ops.BINOP:
        operands = [atom for number in node.operands for atom in state.values[number]]
        tensors = any(isinstance(atom, Tensor | TensorTree) for atom in operands)
        return tensors and is_cast(f"Tensor.{OPERATORS[node.data]}")
    if node.op != ops.CALL:
        return False
    return any(runs_layer(atom) or is_function(atom) for atom in state.values[node.operands[0]])


def runs_layer(atom: Atom) -> bool:
    """Whether calling it runs a layer that multiplies, or a module that nobody knows."""
    return isinstance(atom, Object) and (
        (atom.kind == "module" and atom.type == "?") or is_cast(atom.type)
    )


def is_function(atom: Atom) -> bool:
    if isinstance(atom, Method) and isinstance(atom.of, Tensor):
        return is_cast(f"Tensor.{atom.name}")
    return isinstance(atom, Symbol) and is_cast(canonical(atom.name))


def is_cast(name: str) -> bool:
    return policy(name, "cuda") == "half"
