"""What a thread computes that an autocast region would have cast, had the thread seen it."""

from __future__ import annotations

from amplint.core.values import (
    Atom,
    Blob,
    Function,
    Instance,
    Method,
    Object,
    Place,
    Symbol,
    Tensor,
    Why,
)
from amplint.inference import Inference, State
from amplint.inference.transfer import canonical
from amplint.ir.model import Node
from amplint.knowledge.casts import policy
from amplint.knowledge.operations import OPERATORS

TEXT = "this runs outside of the region"


def products(inference: Inference, function: str, number: int) -> Why | None:
    """The first product in what the call `number` of a function hands to another thread."""
    work = inference.threads.get((function, number), set())
    called = sorted({atom.id for atom in work if isinstance(atom, Function)})
    for atom in work:
        module = atom.of if isinstance(atom, Method) and atom.name == "forward" else atom
        if isinstance(module, Instance) and inference.is_module(module.cls):
            called += inference.methods(module.cls, "forward")
        elif runs_layer(module):
            location = inference.states[function].graph.nodes[number].location
            return Why(Place(inference.functions[function].path, *location), TEXT)
    return Search(inference).first(called)


class Search:
    """A search in the functions that a thread runs."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._seen: set[str] = set()

    def first(self, functions: list[str]) -> Why | None:
        return next((why for f in functions if (why := self._of(f)) is not None), None)

    def _of(self, function: str) -> Why | None:
        """The first product in a function, or in what it calls, but for regions that it opens."""
        state = self._inference.states.get(function)
        if function in self._seen or state is None:
            return None
        self._seen.add(function)
        for number, node in enumerate(state.graph.nodes):
            if state.regions.get(node.block) is not None:
                continue
            if is_product(node, state):
                path = self._inference.functions[function].path
                return Why(Place(path, *node.location), TEXT)
            found = self.first(sorted(self._inference.edges.get((function, number), ())))
            if found is not None:
                return found
        return None


def is_product(node: Node, state: State) -> bool:
    if node.op == "binop":
        operands = [atom for number in node.operands for atom in state.values[number]]
        tensors = any(isinstance(atom, Tensor | Blob) for atom in operands)
        return tensors and is_cast(f"Tensor.{OPERATORS[node.data]}")
    if node.op != "call":
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
