"""The parameters of a function that take floating-point numbers, by what it does with them.

Under autocast, what a layer or a matrix product returns is half, and most of it goes on to the next
`forward` as such. Masks, indices, targets and sizes do not become half. So a parameter counts that
is computed with as a tensor of floating-point numbers is, unless something else is done with it. It
takes activations unless its name says that it is data, which users load in float32. It is asked
only where the settings assume a dtype of inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from amplint.inference.whole_program.number_uses import elements_of, used_as_numbers
from amplint.ir import ops
from amplint.ir.flow import alternatives, constant, elements, is_number, method_called
from amplint.ir.model import Graph, Node, path_of
from amplint.knowledge.casts import DTYPE_OF_CAST, EQUAL_DTYPES, MOVES, NO_HALF, policy
from amplint.knowledge.dtypes import INTEGRAL
from amplint.knowledge.factories import FACTORIES
from amplint.knowledge.operations import INDEX_ARGUMENTS, MAKES_COMPLEX, OF_COMPLEX, RESULTS
from amplint.knowledge.vocabulary import NO_ACTIVATION, NO_FLOATS

# What floating-point numbers are computed with; of the others, integers and masks are, too.
ARITHMETIC = frozenset({"Add", "Sub", "Mult", "Div"})
WHOLE = frozenset({"BitAnd", "BitOr", "BitXor", "LShift", "RShift", "FloorDiv", "Mod"})
EXACT = frozenset({"Eq", "NotEq", "In", "NotIn"})
# What takes a mask, or classes -> the position of that; of a method, behind what it is called on.
MASKS = {"masked_fill": 0, "masked_fill_": 0, "masked_select": 0, "masked_scatter": 0, "where": 0}
CLASSES = {"cross_entropy": 1, "nll_loss": 1, "one_hot": 0, "ctc_loss": 1, "embedding": 0}
LIMITS = frozenset({"clamp", "clamp_max", "clamp_min", "clip"})  # by numbers, mostly
Takes = Callable[[str, int | str], bool]
FUNCTIONS = ("torch.", "F.", "th.", "nn.functional.")


def floats_taken(graph: Graph, takes: Takes) -> frozenset[int]:
    """The nodes of the parameters that take floating-point numbers.

    Args:
        takes: whether functions of a name take them by that place, or keyword.
    """
    views = views_of(graph)
    floating = {n for node in graph.nodes for n in used_as_floats(graph, node, takes)}
    others = {n for node in graph.nodes for n in used_otherwise(graph, node)}
    others |= used_as_numbers(graph, is_constructor=False)
    parameters = views.of(floating) - views.of(others)
    return frozenset(n for n in parameters if NO_FLOATS.search(graph.nodes[n].data) is None)


def layers_given(graph: Graph, parameter: int) -> frozenset[str]:
    """The fields of `self` that are called with a parameter.

    Ex) embedding of self.embedding(x)
    """
    views = views_of(graph)
    paths = {
        path_of(graph, call.operands[0]) or ""
        for call in graph.nodes
        if call.op == ops.CALL and parameter in views.of(call.arguments)
    }
    return frozenset(path[5:] for path in paths if path.startswith("self."))


class Views(dict[int, frozenset[int]]):
    """By node: the parameters of which it may be one, or have the dtype, being made of it."""

    def of(self, numbers: Iterable[int]) -> frozenset[int]:
        """The parameters that some nodes are, or are made of."""
        return frozenset().union(*(self.get(number, ()) for number in numbers))


def views_of(graph: Graph) -> Views:
    tensors = {n.operands[0] for n in graph.nodes if n.op == ops.ATTR and is_of_tensors(n.data)}
    views = Views()
    for number, node in enumerate(graph.nodes):
        if node.op == ops.PARAM:
            views[number] = frozenset({number})
        elif sources := views.of(viewed(graph, number, tensors)):
            views[number] = sources
    return views


def viewed(graph: Graph, number: int, tensors: Collection[int]) -> tuple[int, ...]:
    """The nodes of which another one may be a view, or a part.

    Ex) x of x.view(-1), x[:, 0], q of q, k = q.chunk(2), x of x.masked_fill(mask, 0)

    Args:
        tensors: the nodes that are tensors, and so no containers of these.
    """
    node = graph.nodes[number]
    if node.op == ops.CALL:
        method, receiver = method_called(graph, node)
        result = RESULTS.get(f"Tensor.{method}")
        keeps = result is not None and (result.kind == "same" or result.dtype == "same")
        return (receiver,) if keeps or method in LIMITS else ()
    first = graph.nodes[node.operands[0]] if node.operands else node
    is_part = (node.op == ops.UNPACK and first.op == ops.CALL) or (
        node.op == ops.SUBSCRIPT
        and (node.operands[0] in tensors or graph.nodes[node.second].op in (ops.TUPLE, ops.SLICE))
    )
    return node.operands[:1] if is_part else alternatives(graph, number)


# ------------------------------------------------------------------------------ floating point


def used_as_floats(graph: Graph, node: Node, takes: Takes) -> Iterator[int]:
    """The operands that an operation uses as floating-point numbers."""
    if node.operator:
        is_whole = any(is_number(graph, each, int) for each in node.operands)
        if node.data == "MatMult" or (node.data in ARITHMETIC and not is_whole):
            yield from node.operands
    elif node.op == ops.CALL:
        yield from given_as_floats(graph, node)
        name, _ = method_called(graph, node)
        name = name or path_of(graph, node.operands[0]) or ""
        yield from (n for place, n in enumerate(node.positional) if takes(name, place))
        yield from (n for keyword, n in node.named if takes(name, keyword))


def given_as_floats(graph: Graph, call: Node) -> Iterator[int]:
    """Ex) x of x.softmax(-1), F.relu(x), torch.exp(x) and self.norm(x); x and y of x.matmul(y)"""
    path = path_of(graph, call.operands[0]) or ""
    is_with_field = any((path_of(graph, n) or "").startswith("self.") for n in call.positional)
    is_own = path.isidentifier() or path.endswith(".apply")
    if path.startswith("self.") or (is_own and is_with_field):
        yield from call.arguments  # a layer, mostly; a function that is given its weights
        return
    name, receiver = method_called(graph, call)
    if path.startswith(FUNCTIONS):
        canonical = f"torch.nn.functional.{name}" if "F." in path else f"torch.{name}"
        operands = [*call.positional, *elements_of(graph, call.positional)]
    else:
        canonical, operands = f"Tensor.{name}", [receiver, *call.positional]
    if name == "type_as":
        yield from call.positional
    elif canonical in EQUAL_DTYPES:
        yield from operands
    elif computes_floats(canonical.rstrip("_")) or path in NO_HALF:
        yield from operands[:1]


def computes_floats(name: str) -> bool:
    """Whether an operation is one on floating-point numbers, whatever it is given."""
    result = RESULTS.get(name)
    if name.rpartition(".")[2] in ("sum", "prod", "cumsum", "cumprod", "one_hot", "embedding"):
        return False
    layer = f"torch.nn.functional.{name.rpartition('.')[2]}"
    if policy(name, "cuda") is not None or layer in RESULTS or name == layer:
        return True
    return result is not None and result.dtype in ("float-of", "promote-float")


# ------------------------------------------------------------------------------ anything else


def used_otherwise(graph: Graph, node: Node) -> Iterator[int]:
    """The operands that an operation uses as an index, a mask, a number or a container, or as
    complex numbers."""
    yield from used_as_complex(graph, node)
    if node.op in (ops.SUBSCRIPT, ops.PUT):
        index = node.second
        yield index
        yield from elements(graph, index) or ()
        if isinstance(constant(graph, index), str):
            yield node.operands[0]
    elif node.op in (ops.ITER, ops.STARRED) or (
        node.op == ops.UNPACK and graph.nodes[node.operands[0]].op != ops.CALL
    ):
        yield node.operands[0]
    elif node.op == ops.COMPARE and EXACT.intersection(node.data):
        yield from node.operands
    elif node.op == ops.UNARY and node.data in ("Invert", "Not"):
        yield node.operands[0]
    elif node.operator in WHOLE:
        yield from node.operands
    elif node.op == ops.ATTR and not is_of_tensors(node.data):
        yield node.operands[0]
    elif node.op == ops.CALL:
        yield from given_otherwise(graph, node)


def used_as_complex(graph: Graph, node: Node) -> Iterator[int]:
    """Ex) x of x.conj(), x.imag and torch.view_as_real(x); x of x.conj() @ y, and y"""
    if node.op == ops.ATTR and node.data in OF_COMPLEX:
        yield node.operands[0]
    is_product = node.op == ops.BINOP and node.data == "MatMult"
    operands = node.operands if is_product else ()
    if node.op == ops.CALL:
        (name, receiver), path = method_called(graph, node), path_of(graph, node.operands[0]) or ""
        is_function = path.startswith(FUNCTIONS)
        if is_function and name in OF_COMPLEX:
            yield from node.positional[:1]
        if f"{'torch' if is_function else 'Tensor'}.{name}" in EQUAL_DTYPES:
            operands = node.positional if is_function else (receiver, *node.positional)
    if any(is_complex(graph, number) for number in operands):
        yield from operands


def is_complex(graph: Graph, number: int) -> bool:
    """Ex) x.conj(), torch.complex(x, y)"""
    return method_called(graph, graph.nodes[number])[0] in MAKES_COMPLEX


def given_otherwise(graph: Graph, call: Node) -> Iterator[int]:
    """Ex) x of scores.masked_fill(x, 0), F.cross_entropy(y, x), values.gather(1, x), x.long()"""
    callee = graph.nodes[call.operands[0]]
    yield from (n for name, n in call.named if NO_ACTIVATION.search(name))
    if callee.op == ops.NAME and callee.data in ("len", "range", "zip", "enumerate"):
        yield from call.positional
    name, receiver = method_called(graph, call)
    if not name:
        return
    path = path_of(graph, call.operands[0]) or ""
    is_function = path.startswith(FUNCTIONS)
    if not is_function and DTYPE_OF_CAST.get(f"Tensor.{name}") in INTEGRAL:
        yield receiver
    prefix = "torch" if is_function else "Tensor"
    position = INDEX_ARGUMENTS.get(f"{prefix}.{name}", CLASSES.get(name) if is_function else None)
    if name in MASKS:
        position = MASKS[name] + (is_function and name != "where")
    if position is not None:
        yield from call.positional[position : position + 1]


def is_of_tensors(attribute: str) -> bool:
    """Whether tensors have an attribute of that name."""
    name = f"Tensor.{attribute}"
    tables = (RESULTS, DTYPE_OF_CAST, MOVES, FACTORIES)
    return any(name in table for table in tables)
