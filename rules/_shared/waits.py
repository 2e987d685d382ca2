"""Waits: what may make the host wait for the device between two places of a function.

Who waits once, waits for all that was given to the device before: a read of another tensor makes
an earlier copy arrive as well. So these answers err towards a wait; only what is known to return at
once does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from amplint import (
    CPU,
    DType,
    Host,
    Mapping,
    Method,
    Object,
    Sequence,
    Tensor,
    TensorTree,
    Unknown,
    Value,
    is_autocast,
    only,
    tensors_in,
)
from amplint import libcst as cst
from amplint.knowledge import libraries
from amplint.knowledge.casts import MOVES
from amplint.knowledge.factories import FACTORIES
from amplint.knowledge.host_reads import (
    BUILTIN_READS,
    DATA_DEPENDENT,
    ELEMENT_READS,
    HOST_ATTRIBUTES,
    HOST_READS,
    WAITS,
)
from amplint.knowledge.modules import MODULES
from amplint.knowledge.operations import RESULTS

from .reads import returns_at_once

if TYPE_CHECKING:
    from amplint import Source, View

CLOCKS = frozenset(
    {
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "time.monotonic",
        "time.monotonic_ns",
        "time.perf_counter",
        "time.perf_counter_ns",
        "time.time",
        "time.time_ns",
        "timeit.default_timer",
    }
)
# Optimizers whose step looks at its tensors.
LOOKING_OPTIMIZERS = frozenset({"torch.optim.LBFGS", "torch.optim.SparseAdam"})


def between(start: cst.CSTNode, end: cst.CSTNode, src: Source) -> list[cst.CSTNode] | None:
    """The nodes that are _evaluated after `start` and before `end`, its operands included, as far
    as the text shows.

    None unless `end` stands at any depth in the block of the statement of `start`, or in one that
    goes on after the `with` statements around that.
    """
    first: cst.CSTNode | None = src.statement(start)
    around = [end, *src.ancestors(end)]
    nodes: list[cst.CSTNode] = []
    last = _in_block(src.parent(first), around, src)
    while last is None and isinstance(first := src.parent(src.parent(first)), cst.With):
        last = _in_block(src.parent(first), around, src)
        nodes.extend(first.items)  # left before `end`
    block, begins, ends = src.parent(first), src.layout.offsets(start), src.layout.offsets(end)
    if first is None or block is None or last is None or begins is None or ends is None:
        return None
    if ends[1] < begins[1]:
        return None
    body: list[cst.CSTNode] = list(block.children)
    for statement in body[body.index(first) : body.index(last) + 1]:
        for node in _evaluated(statement):
            span = src.layout.offsets(_decisive(node))
            within = span is not None and begins[1] <= span[0] and span[1] <= ends[1]
            if within and node is not end:
                nodes.append(node)
    return nodes


def _in_block(
    block: cst.CSTNode | None, around: Iterable[cst.CSTNode], src: Source
) -> cst.CSTNode | None:
    """The statement of a block that holds a node, by the nodes around that."""
    return next((each for each in around if block is not None and src.parent(each) is block), None)


def _decisive(node: cst.CSTNode) -> cst.CSTNode:
    """The part of a node that is _evaluated first: of a statement with a test, the test."""
    if isinstance(node, (cst.If, cst.While, cst.Assert, cst.IfExp, cst.CompIf)):
        return node.test
    return node.item if isinstance(node, cst.WithItem) else node


def _evaluated(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and those within it, except the bodies of functions that are only defined."""
    yield node
    if not isinstance(node, cst.FunctionDef | cst.Lambda | cst.ClassDef):
        for child in node.children:
            yield from _evaluated(child)


def waits(at: View) -> bool:
    """Whether evaluating a place, its parts left aside, may wait for the device."""
    node = at.cst
    if isinstance(node, cst.Call):
        return _call_waits(at)
    if isinstance(node, cst.Subscript):
        return _on_device(at.of(node.value).value) and not _has_plain_index(at)
    if isinstance(node, (cst.If, cst.While, cst.Assert, cst.IfExp, cst.CompIf)):
        return _on_device(at.of(node.test).value)
    if isinstance(node, cst.BooleanOperation):
        return _on_device(at.of(node.left).value)
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Not) and _on_device(at.of(node.expression).value)
    if isinstance(node, cst.FormattedStringExpression):
        return _on_device(at.of(node.expression).value)
    if isinstance(node, cst.WithItem):
        # What a context does when it is left, only its maker knows.
        entered = at.of(node.item)
        return not is_autocast(entered.value) and entered.callee not in libraries.NO_GRAD
    if isinstance(node, cst.ComparisonTarget):
        asks = isinstance(node.operator, cst.In | cst.NotIn)
        return asks and bool(tensors_in([at.of(node.comparator).value]))
    return isinstance(node, cst.Await | cst.Yield)


def _call_waits(call: View) -> bool:
    atom = only(call.called.value)
    if isinstance(atom, Method):
        return _method_waits(atom, call)
    if isinstance(atom, Object):
        return atom.type not in MODULES or MODULES[atom.type].kind == "container" or (
            atom.type in WAITS
        )  # fmt: skip
    return call.callee is None or _function_waits(call.callee, call)


def _function_waits(name: str, call: View) -> bool:
    if name.startswith("builtins."):
        reads = name[9:] in BUILTIN_READS | ELEMENT_READS
        on_host = not reads or all(_is_host(argument.value) for _, _, argument in call.arguments)
        return not on_host or name[9:] in ("input", "open", "exec", "eval", "next")
    if name in CLOCKS or name in libraries.AUTOCASTS or name in libraries.NO_GRAD:
        return False
    if name in libraries.GRADIENT_NORMS:
        return call.arg("error_if_nonfinite") is not None
    if name in FACTORIES:
        copies = FACTORIES[name].dtype in ("data", "arg")
        return copies and call.arg("device") is not None
    return _operation_may_wait(name)


def _method_waits(method: Method, call: View) -> bool:
    of, name = method.of, method.name
    if isinstance(of, Tensor | TensorTree):
        full = f"Tensor.{name}"
        if full in MOVES and name != "type":
            return not (returns_at_once(call) or _only_casts(call))
        if of.device.kind == CPU.kind or full in FACTORIES:
            return False
        return _operation_may_wait(full)
    if isinstance(of, Object):
        if of.kind == "optimizer" and name == "step":
            is_plain_step = of.type.startswith("torch.optim.") and of.type not in LOOKING_OPTIMIZERS
            return not is_plain_step or any(call.arguments)
        return name not in ("eval", "named_parameters", "parameters", "scale", "train", "zero_grad")
    return not isinstance(of, Sequence | Mapping | Host)


def _only_casts(call: View) -> bool:
    """Ex) x.to(torch.float16), which stays where it is"""
    arguments = [argument for _, _, argument in call.arguments]
    return len(arguments) == 1 and isinstance(only(arguments[0].value), DType)


def _has_plain_index(at: View) -> bool:
    """Whether nothing but numbers, slices and integer tensors index the tensor."""
    indices = (
        at.of(each.slice.value) for each in at.cst.slice if isinstance(each.slice, cst.Index)
    )
    return all(_is_plain(each.value) for each in indices)


def _is_plain(index: Value) -> bool:
    atom = only(index)
    return (isinstance(atom, Tensor) and atom.dtype == "int64") or _is_host(index)


def _operation_may_wait(name: str) -> bool:
    """Whether an operation of torch on the device may wait, for all that its name says."""
    if name in WAITS or name in HOST_READS or name in DATA_DEPENDENT:
        return True
    if name.rpartition(".")[2] in HOST_ATTRIBUTES:
        return False
    return name not in RESULTS or RESULTS[name].kind.startswith("host:")


def _is_host(value: Value) -> bool:
    """Whether the value is surely no tensor of a device."""
    return bool(value) and all(isinstance(atom, Host) for atom in value)


def _on_device(value: Value) -> bool:
    """Whether the value may be a tensor of a device."""
    return any(
        isinstance(atom, Unknown)
        or (isinstance(atom, Tensor | TensorTree) and atom.device.kind != CPU.kind)
        for atom in value
    )
