"""The values of which single calls of a function say nothing, whatever its other calls say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from amplint.inference import Inference, SiteId, annotated
from amplint.inference.state import Key
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.knowledge.casts import policy
from amplint.util.walks import reachable
from amplint.values.atoms import (
    BOTTOM,
    Atom,
    Device,
    Mapping,
    Object,
    Sequence,
    Symbol,
    Tensor,
    TensorTree,
    Value,
)
from amplint.values.lattice import inner, is_unknown

ByItself = Callable[[Atom], bool]  # of what is called: whether it says enough of its result


def gives_tensor(callee: Atom) -> bool:
    """Whether a call returns a tensor, whatever it is given: of a layer, of a function of torch."""
    if isinstance(callee, Object):
        return callee.kind == "module"
    return isinstance(callee, Symbol) and callee.name.startswith("torch.")


def gives_half(callee: Atom) -> bool:
    """Whether a call returns half in a region, whatever tensor it is given."""
    is_cast = isinstance(callee, Symbol) and policy(canonical(callee.name), "cuda") == "half"
    return gives_tensor(callee) and (is_cast or isinstance(callee, Object))


def is_unknown_in(
    inference: Inference,
    calls: Collection[SiteId],
    function: str,
    number: int,
    by_itself: ByItself = gives_tensor,
) -> bool:
    """Whether a node is computed from parameters alone for which no such call passes anything
    known: what is known of it is so from others."""
    return all(
        _is_unknown_parameter(inference, calls, function, source)
        for source in sources(inference, function, number, by_itself)
    )


def sources(
    inference: Inference, function: str, number: int, by_itself: ByItself = gives_tensor
) -> Iterator[int]:
    """The nodes from which the tensors in a node come."""
    state = inference.states[function]

    def holding(each: int) -> list[int]:
        node = state.graph.nodes[each]
        if node.op == ops.CALL and any(map(by_itself, state.values[node.operands[0]])):
            return []
        if each != number and inference.calls.edges.get((function, each)):
            return []  # a function of the project makes what it likes of its arguments
        operands = [operand for operand in node.operands if operand >= 0]
        if node.op == ops.CALL:
            callee = state.graph.nodes[operands[0]]
            operands += callee.operands if callee.op == ops.ATTR else ()
        return [operand for operand in operands if may_hold(state.values[operand])]

    for each in reachable([number], holding):
        if not holding(each):
            yield each


def is_declared(inference: Inference, function: str, number: int) -> bool:
    """Whether the annotation of a parameter says that it is a tensor."""
    state = inference.states[function]
    operands = state.graph.nodes[number].operands
    annotation = state.values[operands[0]] if operands else BOTTOM
    return number not in inference.uses.marks_of(function).copied and any(
        isinstance(atom, Tensor)
        for atom in annotated(annotation, Device(None), inference.files.models)
    )


def may_hold(value: Value) -> bool:
    """Whether a value is, or holds, a tensor or a nest of them."""
    return any(
        isinstance(atom, Tensor | TensorTree)
        or (isinstance(atom, Sequence | Mapping) and any(map(may_hold, inner(atom))))
        for atom in value
    )


def _is_unknown_parameter(
    inference: Inference, calls: Collection[SiteId], function: str, number: int
) -> bool:
    node = inference.states[function].graph.nodes[number]
    if node.op != ops.PARAM or is_declared(inference, function, number):
        return False
    by_site = inference.store.sites_of(Key("param", function, node.data))
    return all(is_unknown(by_site.get(site, BOTTOM)) for site in calls)
