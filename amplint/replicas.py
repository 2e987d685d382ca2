"""Which modules `nn.DataParallel` copies to several devices, and calls in threads of its own.

The wrapper does not show in the value of a module, which is that of what is wrapped. It is looked
for when a rule asks, from a use back through names, fields, parameters and what functions return.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from amplint import libraries, transfer
from amplint.facts import Node, argument
from amplint.heat import HeatMap
from amplint.values import Class, Instance, Place, Symbol, Why

MAX_NODES = 200  # nodes that are looked at for one use
# What gives the module back that it is called on, or given.
KEEPING = frozenset({"to", "cuda", "train", "eval", "requires_grad_", "half", "float"})
At = tuple[str, int]  # a function's id, and one of its nodes


class Replicas:
    """The wrappers of a project, looked for from where a module is used."""

    def __init__(self, heat: HeatMap) -> None:
        self._inference = heat.inference
        self._callers = heat.callers

    def why(self, function: str, number: int) -> Why | None:
        """Where the module that a node holds may have been wrapped, the nearest such place."""
        queue = deque([(function, number)])
        seen = set(queue)
        while queue and len(seen) < MAX_NODES:
            at = queue.popleft()
            if self._wraps(at):
                path = self._inference.functions[at[0]].path
                place = Place(path, *self._node(at).location)
                return Why(place, "wrapped in `DataParallel` here")
            new = [each for each in self._sources(at) if self._is_known(each) and each not in seen]
            queue.extend(new)
            seen.update(new)
        return None

    def _is_known(self, at: At) -> bool:
        return at[0] in self._inference.states and at[1] >= 0

    def _node(self, at: At) -> Node:
        return self._inference.states[at[0]].graph.nodes[at[1]]

    def _wraps(self, at: At) -> bool:
        """Whether a call makes a DataParallel, unless it names one device alone."""
        node, (function, _) = self._node(at), at
        if node.op != "call":
            return False
        state = self._inference.states[function]
        names: set[str] = set()
        for atom in state.values[node.operands[0]]:
            if isinstance(atom, Symbol):
                names.add(transfer.canonical(atom.name))
            elif isinstance(atom, Class):
                names |= self._inference.library_bases(atom.id)
        if names.isdisjoint(libraries.DATA_PARALLEL):
            return False
        given = argument(node, "device_ids", 1)
        devices = state.graph.nodes[given] if given >= 0 else None
        return devices is None or devices.op not in ("list", "tuple") or len(devices.operands) > 1

    def _sources(self, at: At) -> Iterator[At]:
        """The nodes from which the value of a node may come, unchanged."""
        node, (function, number) = self._node(at), at
        match node.op:
            case "narrow":
                yield function, node.operands[0]
            case "phi":
                yield from ((function, operand) for operand in node.operands)
            case "attr":
                yield from self._stored(at)
            case "param":
                yield from self._given(function, str(node.data))
            case "name":
                yield from self._bound(function, str(node.data))
            case "call":
                callee = self._node((function, node.operands[0]))
                if callee.op == "attr" and callee.data in KEEPING:
                    yield function, callee.operands[0]
                else:
                    yield from self._returned(function, number, None)
                    if node.data.positional:
                        yield from self._kept(function, node)
            case "unpack":
                of, (index, _, starred) = node.operands[0], node.data
                source = self._node((function, of))
                if not starred and source.op == "tuple" and index < len(source.operands):
                    yield function, source.operands[index]
                elif not starred and source.op == "call":
                    yield from self._returned(function, of, index)

    def _kept(self, function: str, node: Node) -> Iterator[At]:
        """Ex) `model` of torch.compile(model)"""
        for atom in self._inference.states[function].values[node.operands[0]]:
            name = transfer.canonical(atom.name) if isinstance(atom, Symbol) else ""
            if libraries.MODULE_WRAPPERS.get(name) == "same":
                yield function, node.operands[1]

    def _stored(self, at: At) -> Iterator[At]:
        """What methods store in a field: self.model"""
        node, infer = self._node(at), self._inference
        holders = infer.states[at[0]].values[node.operands[0]]
        for cls in sorted(atom.cls for atom in holders if isinstance(atom, Instance)):
            for related in (*infer.mro(cls), *infer.subclasses(cls)):
                for method in infer.writers_of_field(related, str(node.data)):
                    state = infer.states.get(method)
                    for other in state.graph.nodes if state is not None else ():
                        if (other.op, other.data) == ("store", node.data):
                            yield method, other.operands[1]

    def _given(self, function: str, name: str) -> Iterator[At]:
        """What the callers give for a parameter."""
        facts = self._inference.functions[function]
        positional = [param.name for param in facts.params if param.kind == "positional"]
        if facts.cls is not None and "staticmethod" not in facts.decorated:
            positional = positional[1:]
        position = positional.index(name) if name in positional else None
        for caller, number in self._callers.get(function, ()):
            given = argument(self._node((caller, number)), name, position)
            if given >= 0:
                yield caller, given

    def _bound(self, function: str, name: str) -> Iterator[At]:
        """What a name of a function around, or of the module, is bound to."""
        outer = self._inference.functions[function].parent
        while outer is not None:
            state = self._inference.states.get(outer)
            bound = state.graph.bindings.get(name, ()) if state is not None else ()
            if bound:
                yield from ((outer, number) for number in bound)
                return
            outer = self._inference.functions[outer].parent

    def _returned(self, function: str, number: int, index: int | None) -> Iterator[At]:
        """What a call returns; of a tuple, one of its elements."""
        for callee in sorted(self._inference.edges.get((function, number), ())):
            state = self._inference.states.get(callee)
            for returned in state.graph.returns if state is not None else ():
                node = self._node((callee, returned))
                value = node.operands[0] if node.op == "return" else returned
                if index is None:
                    yield callee, value
                    continue
                row = self._node((callee, value)) if value >= 0 else None
                if row is not None and row.op == "tuple" and index < len(row.operands):
                    yield callee, row.operands[index]
