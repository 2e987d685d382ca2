"""The result of a function of the project, as one call of it gets it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from amplint.inference import transfer
from amplint.inference.function.binding import ArgumentBinding
from amplint.inference.function.frame import Frame, FramePart
from amplint.inference.function.regions import opened_by
from amplint.inference.state import Key, State
from amplint.ir import ops
from amplint.ir.flow import alternatives
from amplint.ir.model import Graph, Node
from amplint.knowledge import libraries
from amplint.util.walks import reachable
from amplint.values.atoms import Arguments, Atom, Autocast, Function, Instance, Symbol, Value, one
from amplint.values.lattice import join, only


class CallResults(FramePart):
    """The results of functions of the project, as a call of one function gets them.

    Args:
        binding: fills the parameters of what is called.
    """

    def __init__(self, frame: Frame, binding: ArgumentBinding) -> None:
        super().__init__(frame)
        self.binding = binding

    def as_given_here(self, function: str, result: Value, node: Node) -> Value:
        """The result of a call. Where it runs in no region, and another call of the same function
        does, or a framework runs it in one, half is what the function returns to that one."""
        of_unknown_dtype = transfer.without_half(result)
        if of_unknown_dtype is result or of_unknown_dtype == result:
            return result  # whatever the region: nobody has to hear of it
        region = self.frame.regions.of_call(node, function)
        if region is not None and region.enabled is not False:
            return result
        infer = self.inference
        facts = infer.functions[function]
        if facts.decorated and opened_by(self.access.read(Key("decorators", function))) is not None:
            return result  # the region is its own, wherever it is called
        elsewhere = self.access.inherited_region(function) or infer.hierarchy.dtype_of_framework(
            facts, self.access.read
        )
        return of_unknown_dtype if elsewhere else result

    def specialised(
        self, function: Function, arguments: Arguments, result: Value, sources: Iterable[int]
    ) -> Value:
        """The result of a helper, with this call's arguments put for its parameters: a region, or
        an instance that is distinguished from others by what its constructor was given.

        Args:
            sources: the nodes of the helper that the result is of.
        """
        if not any(map(is_made_of_arguments, result)):
            return result
        state = self.inference.states.get(function.id)
        if state is None:
            return result
        by_parameter = self.binding.by_parameter(function, arguments)
        results: list[Value] = []
        for each in reachable(sources, lambda n: joined(state.graph, n)):
            if not joined(state.graph, each):
                special = self.specialised_call(function.id, state, each, by_parameter)
                results.append(state.values[each] if special is None else special)
        return join(results)

    def specialised_call(
        self, function: str, state: State, number: int, by_parameter: dict[str, Value]
    ) -> Value | None:
        """The region or the instance that a call in a helper makes, with these arguments of the
        helper."""
        node = state.graph.nodes[number]
        if node.op != ops.CALL or not any(map(is_made_of_arguments, state.values[number])):
            return None
        values = [self.substituted(state, n, by_parameter) for n in node.arguments]
        arguments = self.binding.arguments_of(state.graph, node, values)
        atom = only(state.values[number])
        if isinstance(atom, Instance):
            makers = self.inference.hierarchy.methods(atom.cls, "__init__", overridden=False)
            return one(replace(atom, inputs=self.binding.identified(atom.cls, makers, arguments)))
        callees = [a for a in state.values[node.operands[0]] if makes_context(a)]
        if len(callees) != 1:
            return None
        site = self.frame.site_in(None, partial(self.frame.evidence_in, function, node))
        return transfer.call(callees[0], arguments, site)

    def substituted(self, state: State, number: int, by_parameter: dict[str, Value]) -> Value:
        """The value of a node in a helper; where it is a parameter of it, or one that it may have
        wrapped, that with these arguments of the helper."""
        nodes = state.graph.nodes
        if nodes[number].op not in (ops.PARAM, ops.PHI):
            return state.values[number]
        sources = reachable([number], lambda n: passed_on(state, n))
        leaves = [n for n in sources if not passed_on(state, n)]
        if any(nodes[n].op != ops.PARAM or nodes[n].data not in by_parameter for n in leaves):
            return state.values[number]
        return join(by_parameter[nodes[n].data] for n in leaves)


def joined(graph: Graph, number: int) -> tuple[int, ...]:
    """The nodes whose values meet in a node; none, where it is no join."""
    node = graph.nodes[number]
    return node.operands if node.op == ops.PHI else ()


def passed_on(state: State, number: int) -> tuple[int, ...]:
    """The nodes of which a node is one, be it in a wrapper. Ex) `model` of DataParallel(model)"""
    node = state.graph.nodes[number]
    if node.op == ops.CALL and node.argument(0) >= 0:
        callees = state.values[node.operands[0]]
        names = [transfer.canonical(a.name) for a in callees if isinstance(a, Symbol)]
        return (node.argument(0),) if any(n in libraries.MODULE_WRAPPERS for n in names) else ()
    return alternatives(state.graph, number)


def makes_context(atom: Atom) -> bool:
    """Whether this is autocast by one of its names, or what `functools.partial` has made of it."""
    if isinstance(atom, Symbol):
        return transfer.canonical(atom.name) in libraries.AUTOCASTS
    return isinstance(atom, Autocast)


def is_made_of_arguments(atom: Atom) -> bool:
    """Whether a function that returns this may give another one to each call of it."""
    return isinstance(atom, Autocast) or (isinstance(atom, Instance) and bool(atom.inputs))
