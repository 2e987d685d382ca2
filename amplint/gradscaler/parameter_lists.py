"""Parameters of modules, collected for an optimizer: in lists, generators, groups and chains."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.inference import Inference, State
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.flow import COLLECTIONS, ELEMENTS, JOINS, LOOKS, method_called
from amplint.ir.model import Graph, Node
from amplint.util.walks import reachable
from amplint.values.atoms import Host, Method, Object, Symbol, Tensor, TensorTree

EACH_PARAMETER = frozenset({"parameters", "named_parameters"})
ADDING = frozenset({"append", "extend"})
# Functions that collect -> the first argument that is collected.
COLLECTING = {
    "builtins.list": 0,
    "builtins.tuple": 0,
    "builtins.iter": 0,
    "builtins.filter": 1,
    "itertools.chain": 0,
    "itertools.chain.from_iterable": 0,
}
# What is asked of a parameter, and leaves it as it is.
ASKED = frozenset(
    {"requires_grad", "grad", "shape", "ndim", "dtype", "device", "is_leaf"}
    | {"numel", "dim", "size", "nelement", "register_hook"}
)
CHANGED = -1


def modules_of(inference: Inference, function: str, maker: int) -> tuple[int, ...]:
    """The nodes of the modules whose parameters an optimizer is given, by the call that makes it.

    Of parameters that are picked out, those that a cast has left float32 may be the ones, if the
    function freezes any, or casts or replaces parts of the module: then there is none.
    """
    state = inference.states[function]
    graph = state.graph
    first = graph.nodes[maker].argument(0, "params")
    if first < 0:
        return ()
    owner = owner_of(graph, graph.nodes[first])
    if owner >= 0:
        return (owner,)
    if not any(isinstance(a, Object) and a.kind == "optimizer" for a in state.values[maker]):
        return ()
    if freezes(state):
        return ()
    walk = reachable([first], lambda number: collected(state, number))
    owners = dict.fromkeys(owner_of(graph, graph.nodes[number]) for number in walk)
    return tuple(each for each in owners if each >= 0 and not has_parts_of_its_own(state, each))


def owner_of(graph: Graph, node: Node) -> int:
    """The node of the module in `module.parameters()`; -1 of anything else."""
    method, module = method_called(graph, node)
    return module if method in EACH_PARAMETER else -1


def collected(state: State, number: int) -> tuple[int, ...]:
    """The nodes whose elements, or that by themselves, are in a collection."""
    node = state.graph.nodes[number]
    if collects(node):
        return node.operands
    if node.op in ELEMENTS or node.op in (ops.NARROW, ops.RETURN):
        return node.operands[:1]
    if node.op == ops.PHI:
        return node.operands if is_list(state.graph, node) else ()
    return collected_by(state, node) if node.op == ops.CALL else ()


def collects(node: Node) -> bool:
    """Ex) [p], xs.append(p), decayed + others, decayed += others"""
    return node.op in COLLECTIONS or node.op == ops.ADD or node.operator == "Add"


def is_list(graph: Graph, joined: Node) -> bool:
    """Whether paths have added different things to one list that meet there."""
    growing = (ops.LIST, ops.ADD, ops.AUG, ops.PHI)
    return all(graph.nodes[each].op in growing for each in joined.operands)


def collected_by(state: State, call: Node) -> tuple[int, ...]:
    """The arguments of a call whose elements are in what it returns."""
    for atom in state.values[call.operands[0]]:
        if isinstance(atom, Symbol) and canonical(atom.name) in COLLECTING:
            return call.arguments[COLLECTING[canonical(atom.name)] :]
    return ()


def freezes(state: State) -> bool:
    """Whether a function switches the gradients of parameters off, or on."""
    return any(node.op == ops.ATTR and node.data == "requires_grad_" for node in state.graph.nodes)


def has_parts_of_its_own(state: State, module: int) -> bool:
    """Whether a function stores or casts a part of a module."""
    nodes = state.graph.nodes
    for user in state.users[module]:
        if nodes[user].op == ops.STORE and nodes[user].operands[0] == module:
            return True
        if nodes[user].op == ops.ATTR and any(
            nodes[of].op == ops.ATTR and nodes[of].data not in EACH_PARAMETER
            for of in state.users[user]
        ):
            return True  # a method of a part
    return False


def are_only_collected(state: State, call: int) -> bool:
    """Whether the parameters that a call of `parameters()` returns are collected, and asked for
    what they are: nothing that may change one of them is seen."""
    walk = reachable([call], lambda number: kept_in(state, number, number == call))
    return all(number != CHANGED for number in walk)


def kept_in(state: State, number: int, is_start: bool) -> Iterator[int]:
    """The nodes that take a parameter, or a collection of some, and keep it; `CHANGED` where it may
    be changed. Who is given the generator itself is taken to make an optimizer of it."""
    if number == CHANGED:
        return
    nodes = state.graph.nodes
    for user in state.users[number]:
        node = nodes[user]
        if node.op == ops.UNPACK and node.data[0] == 0 and are_named(state.graph, nodes[number]):
            continue  # the name
        if collects(node) or node.op in ELEMENTS | JOINS:
            yield user
        elif node.op == ops.CALL:
            yield from kept_by(state, number, user, is_start)
        elif node.op == ops.ATTR:
            if node.data not in ASKED | ADDING:
                yield CHANGED
        elif node.op not in LOOKS and node.op != ops.RETURN:
            yield CHANGED


def are_named(graph: Graph, element: Node) -> bool:
    """Whether a node is a pair of `named_parameters()`."""
    call = graph.nodes[element.operands[0]] if element.op == ops.ITER else element
    return method_called(graph, call)[0] == "named_parameters"


def kept_by(state: State, number: int, call: int, is_start: bool) -> Iterator[int]:
    """The call itself, where its result keeps the parameter, or the collection, that it is given;
    `CHANGED` where the call may change that."""
    node = state.graph.nodes[call]
    if number in collected_by(state, node):
        yield call
    elif method_called(state.graph, node)[0] in ADDING:
        return  # a node of its own is the list with what is added
    elif not is_start and not all(map(leaves_alone, state.values[node.operands[0]])):
        yield CHANGED


def leaves_alone(atom: object) -> bool:
    """Whether what is called is of a library, and known to change no parameter."""
    if isinstance(atom, Method):
        return isinstance(atom.of, Object | Tensor | TensorTree | Host)
    return isinstance(atom, Symbol) and atom.name.startswith(("torch.", "builtins.", "math."))
