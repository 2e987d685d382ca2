"""Work of a thread that an autocast region would have cast, had the thread seen the region."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.facts.fact import CallFact
from amplint.inference import State
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.knowledge.casts import policy
from amplint.knowledge.libraries import PROCESSES
from amplint.knowledge.operations import OPERATORS
from amplint.util.walks import reachable
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
    """Where what a call hands to another thread runs the nearest product, outside of any region."""

    sentence = "{it} hands work to another thread"

    def of(self, at: NodePlace) -> Evidence | None:
        infer = self.inference
        state = infer.states[at.function]
        callees = state.values[state.graph.nodes[at.node].operands[0]]
        if not PROCESSES.isdisjoint(atom.name for atom in callees if isinstance(atom, Symbol)):
            return None
        work = infer.calls.threads.get((at.function, at.node), set())
        called = sorted({atom.id for atom in work if isinstance(atom, Function)})
        for atom in work:
            module = atom.of if isinstance(atom, Method) and atom.name == "forward" else atom
            if isinstance(module, Instance) and infer.hierarchy.is_module(module.cls):
                called += infer.hierarchy.methods(module.cls, "forward")
            elif runs_layer(module):
                return self.why(at.function, at.node, TEXT, Shows.OPERATION)
        for function in reachable(called, self._called):
            for number in self._outside(function):
                if is_product(infer.states[function], number):
                    return self.why(function, number, TEXT, Shows.OPERATION)
        return None

    def _called(self, function: str) -> Iterator[str]:
        for number in self._outside(function):
            yield from sorted(self.inference.calls.edges.get((function, number), ()))

    def _outside(self, function: str) -> Iterator[int]:
        """The nodes of a function that stand in none of its regions."""
        state = self.inference.states.get(function)
        for number, node in enumerate(state.graph.nodes if state is not None else ()):
            if state is not None and state.regions.get(node.block) is None:
                yield number


def is_product(state: State, number: int) -> bool:
    node = state.graph.nodes[number]
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
