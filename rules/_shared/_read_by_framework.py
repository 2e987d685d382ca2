"""Methods of frameworks that bring to the host what they are given."""

from __future__ import annotations

from amplint.facts.fact import CallFact
from amplint.frameworks.schema import MethodRow
from amplint.ir.ast_cache import NodePlace
from amplint.ir.flow import method_called
from amplint.rule.conditions import failing
from amplint.values.atoms import Atom, Instance, Object
from amplint.values.lattice import only
from amplint.view.evaluated_node import EvaluatedNode


class ReadByFramework(CallFact[bool]):
    """Whether a method of a framework brings the tensors that it is given to the host."""

    sentence = "a framework brings to the host what {it} is given"

    def of(self, at: NodePlace) -> bool | None:
        state = self.inference.states[at.function]
        name, receiver = method_called(state.graph, state.graph.nodes[at.node])
        if name not in self.inference.files.models.reading:
            return None
        atom = only(state.values[receiver])
        method = self._method(atom, name) if atom is not None else None
        return method.reads if method is not None else None

    def _method(self, atom: Atom, name: str) -> MethodRow | None:
        models = self.inference.files.models
        if isinstance(atom, Object):
            return models.method_of_object(atom.kind, atom.type, name)
        if not isinstance(atom, Instance) or self.inference.hierarchy.methods(atom.cls, name):
            return None
        return models.method(self.inference.hierarchy.models_of(atom.cls), name)


@failing("no framework is known to bring to the host what this is given")
def read_by_framework(here: EvaluatedNode) -> bool:
    place = NodePlace(here.function, here.number, here.block)
    return bool(here.project.facts[ReadByFramework].of(place))
