"""Evidence from the uses of a value whose origin is out of sight.

A parameter that is asked for its `.parameters()` is a module; what `.backward()` is called on is a
loss on the device; what `.zero_grad()` and `.step()` are called on is an optimizer. This is
evidence by structure, never by the name of a variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from amplint.inference.transfer.arguments import HOST_DEVICES
from amplint.inference.whole_program import accumulators
from amplint.inference.whole_program.number_uses import configured, used_as_numbers
from amplint.ir import ops
from amplint.ir.flow import (
    ELEMENTS,
    JOINS,
    OPERATORS,
    alternatives,
    constant,
    elements,
    is_number,
    method_called,
    whole,
)
from amplint.ir.model import CallShape, Graph, Node, path_of
from amplint.knowledge.factories import FACTORIES
from amplint.knowledge.modules import RETURNING_ITSELF
from amplint.knowledge.vocabulary import (
    CONFIGURATION,
    COUNT,
    DEVICE_NAME,
    MODEL,
    OPTIMIZER,
    SCALER,
    WEIGHT,
)
from amplint.util.walks import reachable
from amplint.values.lattice import MAX_KEYS

# Only modules have these.
MODULE_USES = frozenset(
    {"parameters", "named_parameters", "named_modules", "modules", "named_buffers", "eval"}
)
# What runs the backward pass of a loss and has one of these is accelerate's, or does its work.
ACCELERATOR_USES = frozenset({"autocast", "prepare", "accumulate", "unwrap_model"})
CALLED = "()"
# Of what is called itself, these are a module's: `model.train(); model(x)`.
MODULE_USES_IF_CALLED = frozenset(
    {"train", "zero_grad", "state_dict", "load_state_dict", "half", "cuda", "module"}
)
# Only tensors (and arrays, which `forward` is not given) have these.
TENSOR_USES = frozenset(
    """
    shape size view dim device dtype permute transpose unsqueeze squeeze reshape detach
    contiguous ndim flatten clone matmul masked_fill expand repeat chunk softmax type_as
    new_zeros new_ones new_full new_tensor numel requires_grad is_cuda mean sum float half long
    argmax max min abs exp log pow norm cuda backward cpu item tolist
    """.split()
)
# Of what comes out of a batch, only the tensors themselves have these, never a nest of them.
SHAPING_USES = frozenset(
    "view dim size ndim permute transpose unsqueeze squeeze reshape expand masked_fill".split()
)
# Nothing but a tensor has these: no module, no array, no file.
ONLY_OF_TENSORS = frozenset(
    "detach long unsqueeze masked_fill type_as new_zeros new_ones new_full grad_fn".split()
)
# Nothing but a tensor takes `dim=` for these: arrays call it `axis`.
REDUCTIONS = frozenset(
    "argmax argmin max min sum mean std norm softmax log_softmax topk sort cumsum any all".split()
)
WORDS = frozenset(
    {"parameters", "named_parameters", "named_modules", "modules", "eval", "zero_grad", "backward"}
)
BACKWARD_KEYWORDS = frozenset({"train", "retain_graph", "create_graph", "gradient", "inputs"})


@dataclass(frozen=True)
class Marks:
    """The evidence in one graph.

    Args:
        nodes: node -> "loss", "term" (an addend of a loss), LISTED or NAMED (what holds
            terms), "output" (what a loss is computed from), "module", "optimizer" or "accelerator".
        backward: a loss -> the call that backpropagates it.
        paths: a dotted path ("model", "self.model") -> "module", "optimizer", "accelerator"; of
            a field, also "loss".
        tensors: nodes that are used as tensors, or as numbers would be: multiplied, compared.
        joined: calls whose results join others in what is used so. Ex) x.half() of
            `x = x.half() if fp16 else x`
        surely_tensors: those of them that are used as only tensors can be.
        with_attributes: parameters that are asked for an attribute that tensors have, and few
            others. Of what stands in a variable, another path may use the other alternatives.
        copied: nodes that `torch.tensor` or `new_tensor` is given as data, and that no use shows to
            be tensors. Data of the host is what they are made for, whatever an annotation says.
        called: nodes that are called.
        results: what calls give that can only be tensors, by what is done with them.
        no_nests: nodes that are asked for what a nest of tensors, such as a batch, does not have.
        lengths: nodes that `pack_padded_sequence` is given for its lengths, which have to be on the
            CPU, and what these are copied or sorted from.
        own_networks: calls of what the graph itself makes, asks for its parameters and hands to
            nobody, so that nothing else can move it.
        starts: joins of a name that a loop changes, with what it starts with: the loop is taken
            to run (`accumulators`).
        numbers: nodes that are used as only Python numbers can be, and options that are computed
            with (`number_uses`).
        number_paths: the dotted paths of what is used as only numbers can be.
    """

    graph: Graph
    nodes: Mapping[int, str]
    backward: Mapping[int, int]
    paths: Mapping[str, str]
    tensors: frozenset[int]
    joined: frozenset[int]
    surely_tensors: frozenset[int]
    with_attributes: frozenset[int]
    copied: frozenset[int]
    called: frozenset[int]
    results: frozenset[int]
    no_nests: frozenset[int]
    lengths: frozenset[int]
    own_networks: frozenset[int]
    starts: Mapping[int, int]
    numbers: frozenset[int]
    number_paths: frozenset[str]

    def path(self, number: int) -> str | None:
        return path_of(self.graph, number)

    def addends(self, number: int) -> list[int]:
        """The nodes that are certainly terms of a loss, if a node is one."""
        nodes = (each for each, kind in terms(self.graph, number) if kind == "term")
        return [each for each in nodes if each >= 0]


def read(graph: Graph, function: str = "", returns_loss: bool = False) -> Marks:
    """Collect the evidence in a graph.

    Args:
        function: the name of the function: what an `__init__` divides are sizes.
        returns_loss: whether a framework runs the backward pass of what the function returns, by
            the name of the function. (The class is not known yet: its bases are values.)
    """
    uses = uses_of(graph)
    nodes = {n: kind for n, names in uses.items() if (kind := kind_of(names)) is not None}
    paths = kinds_of_paths(graph, uses)
    backward = mark_losses(graph, losses_of(graph, returns_loss), nodes)
    of_losses = (path_of(graph, number) for number in backward if nodes[number] == "loss")
    paths |= {path: "loss" for path in of_losses if path and path.startswith("self.")}
    of_torch = [n for n in graph.nodes if n.op == ops.CALL and calls_torch(graph, n.operands[0])]
    with_attributes = with_uses(uses, TENSOR_USES)
    surely = with_attributes.union(call.argument(0) for call in of_torch) - {-1}
    tensors = used_as_tensors(graph, surely, of_torch)
    numbers = used_as_numbers(graph, is_constructor=function == "__init__")
    return Marks(
        graph,
        nodes=nodes,
        backward=backward,
        paths=paths,
        tensors=tensors,
        joined=frozenset(calls_joined(graph, tensors)),
        surely_tensors=surely,
        with_attributes=frozenset(n for n in with_attributes if graph.nodes[n].op == ops.PARAM),
        copied=frozenset(copied(graph)) - surely,
        called=with_uses(uses, frozenset({CALLED})),
        results=frozenset(results_used_as_tensors(graph, uses)),
        no_nests=with_uses(uses, SHAPING_USES).difference(keyed(graph)),
        lengths=frozenset(lengths_of_packing(graph)),
        own_networks=frozenset(calls_of_own_networks(graph, uses)),
        starts=accumulators.starts(graph),
        numbers=numbers | configured(graph),
        number_paths=frozenset(named(graph, numbers)),
    )


def uses_of(graph: Graph) -> dict[int, set[str]]:
    """By node: the attributes that it is asked for, and CALLED if it is called."""
    uses: dict[int, set[str]] = {}
    for node in graph.nodes:
        if node.op in (ops.ATTR, ops.CALL):
            use = node.data if node.op == ops.ATTR else CALLED
            uses.setdefault(node.operands[0], set()).add(use)
    give_to_receivers(graph, uses)
    return uses


def with_uses(uses: Mapping[int, set[str]], ways: frozenset[str]) -> frozenset[int]:
    """The nodes that are used in one of these ways."""
    return frozenset(number for number, names in uses.items() if names & ways)


def kinds_of_paths(graph: Graph, uses: Mapping[int, set[str]]) -> dict[str, str]:
    """By dotted path: the kind of what has all uses of the nodes that are read under it.

    `self.model.train()` here and `self.model.parameters()` there are different nodes.
    """
    gathered: dict[str, set[str]] = {}
    for number, names in uses.items():
        path = path_of(graph, number)
        if path is not None:
            gathered.setdefault(path, set()).update(names)
    kinds = {path: kind_of(names) for path, names in gathered.items()}
    return {path: kind for path, kind in kinds.items() if kind is not None}


def losses_of(graph: Graph, returns_loss: bool) -> dict[int, int]:
    """The losses whose backward pass runs -> the call that runs it, or what returns them."""
    losses: dict[int, int] = {}
    for number, node in enumerate(graph.nodes):
        loss = backpropagated(graph, node) if node.op == ops.CALL else None
        if loss is not None:
            losses.setdefault(loss, number)
    for number in graph.returns if returns_loss else ():
        losses.update(dict.fromkeys(returned_losses(graph, number), number))
    return losses


def methods_giving_losses(graph: Graph) -> Iterator[str]:
    """The methods of `self` that return a loss whose backward pass runs in a graph."""
    for loss in losses_of(graph, returns_loss=False):
        for number in reachable([loss], lambda at: alternatives(graph, at)):
            method, _ = method_called(graph, graph.nodes[number])
            if method and path_of(graph, graph.nodes[number].operands[0]) == f"self.{method}":
                yield method


def used_as_tensors(
    graph: Graph, surely: Iterable[int], of_torch: Iterable[Node]
) -> frozenset[int]:
    """The nodes that are used as tensors, or as numbers would be.

    Args:
        surely: those that are used as only tensors can be.
        of_torch: the calls of functions of torch.
    """
    used = {*surely, *(number for call in of_torch for number in call.arguments)}
    for node in graph.nodes:
        if node.op == ops.BINOP or (node.op == ops.COMPARE and not NO_ARITHMETIC & set(node.data)):
            used.update(node.operands)
        elif node.op == ops.SUBSCRIPT and not by_name(graph, node.second):
            used.add(node.operands[0])
    return frozenset(used.union(unpacked(graph, number) for number in used)) - {-1}


def calls_joined(graph: Graph, numbers: Iterable[int]) -> Iterator[int]:
    """The calls that give what nodes are on one path."""
    joins = (graph.nodes[number] for number in numbers if graph.nodes[number].op == ops.PHI)
    parts = (part for join in joins for part in join.operands)
    return (part for part in parts if graph.nodes[part].op == ops.CALL)


def unpacked(graph: Graph, number: int) -> int:
    """The element of the tuple that a node is unpacked from; the node itself, if it is not.

    Ex) q.half() of `q, k = q.half(), k.half()`
    """
    node = graph.nodes[number]
    if node.op == ops.UNPACK:
        index, count, _ = node.data
        if len(graph.nodes[node.operands[0]].operands) == count:
            return graph.element(node.operands[0], index)
    return number


def copied(graph: Graph) -> Iterator[int]:
    """The nodes that `torch.tensor` or `new_tensor` is given as data."""
    for node in graph.nodes:
        if node.op == ops.CALL and copies_data(graph, node.operands[0]) and node.argument(0) >= 0:
            yield node.argument(0)


def keyed(graph: Graph) -> Iterator[int]:
    """The nodes that are asked for what they hold under a name. Ex) batch of `batch["x"]`"""
    for node in graph.nodes:
        if node.op == ops.SUBSCRIPT and by_name(graph, node.second):
            yield node.operands[0]


def named(graph: Graph, numbers: Iterable[int]) -> Iterator[str]:
    """The dotted paths of nodes; not of what a test has left of one, which is so there alone."""
    for number in numbers:
        path = path_of(graph, number) if graph.nodes[number].op != ops.NARROW else None
        if path is not None:
            yield path


def give_to_receivers(graph: Graph, uses: dict[int, set[str]]) -> None:
    """Count what is done with a result as done with the module that returned itself.

    Ex) model = model.half(); optimizer = SGD(model.parameters(), lr=0.1)
    """
    for number in sorted(uses, reverse=True):
        name, receiver = method_called(graph, graph.nodes[number])
        if name in RETURNING_ITSELF:
            uses[receiver] |= uses[number] & (MODULE_USES | {CALLED})


def results_used_as_tensors(graph: Graph, uses: Mapping[int, set[str]]) -> Iterator[int]:
    """The results of calls that can only be tensors, by what is done with them."""
    for number, names in uses.items():
        if names & ONLY_OF_TENSORS and is_given_by_call(graph, number):
            yield number
    for node in graph.nodes:
        if node.op in (ops.BINOP, ops.COMPARE):
            yield from (n for n in met_on_device(graph, node) if is_given_by_call(graph, n))
        name, receiver = method_called(graph, node)
        if not name:
            continue
        path = path_of(graph, node.operands[0]) or ""
        functional = path.startswith("F.") and path.count(".") == 1 and node.argument(0) >= 0
        reduced = name in REDUCTIONS and "dim" in node.data.keywords
        number = node.argument(0) if functional else receiver
        if (functional or reduced) and is_given_by_call(graph, number):
            yield number


def met_on_device(graph: Graph, node: Node) -> Iterator[int]:
    """The nodes that are sliced along several dimensions, and computed or compared with a tensor
    that is moved to a device: no array can be, for that raises there.

    Ex) x of `x[:, :-1] == y[:, 1:]`, after `y = y.to(device)`
    """
    if node.op == ops.COMPARE and (len(node.data) > 1 or NO_VALUES.intersection(node.data)):
        return
    for part, other in (node.operands, node.operands[::-1]):
        if is_sliced(graph, part) and moves_to_device(graph, whole(graph, other)):
            yield graph.narrowed(graph.nodes[part].operands[0])


def is_sliced(graph: Graph, number: int) -> bool:
    """Ex) x[:, 0], which is an array or a tensor with a dimension: no list takes two indices"""
    node = graph.nodes[number]
    index = graph.nodes[node.second] if node.op == ops.SUBSCRIPT else node
    parts = index.operands if node.op == ops.SUBSCRIPT and index.op == ops.TUPLE else ()
    return len(parts) > 1 and any(graph.nodes[each].op == ops.SLICE for each in parts)


def moves_to_device(graph: Graph, number: int) -> bool:
    """Whether a call moves something to what is no CPU, as it is written.

    Ex) x.cuda(), x.to("cuda"), x.to(self.device)
    """
    node = graph.nodes[number]
    method, _ = method_called(graph, node)
    target = node.argument(0, "device") if method == "to" else -1
    if target < 0:
        return method == "cuda"
    name = constant(graph, target)
    if isinstance(name, str):
        return not name.startswith(HOST_DEVICES)
    path = path_of(graph, target) or ""
    return DEVICE_NAME.match(path.rpartition(".")[2]) is not None


def is_given_by_call(graph: Graph, number: int) -> bool:
    """Ex) x = library.encode(batch); x, y = library.encode(batch)"""
    node = graph.nodes[number]
    if node.op == ops.UNPACK:
        node = graph.nodes[node.operands[0]]
    return node.op == ops.CALL


def by_name(graph: Graph, key: int) -> bool:
    """Ex) batch["x"], which is not done to a tensor"""
    return isinstance(constant(graph, key), str)


# Comparisons that compute nothing of what is compared.
NO_VALUES = frozenset({"Is", "IsNot", "In", "NotIn"})
# Comparisons that say nothing of what is compared.
NO_ARITHMETIC = NO_VALUES | {"Eq", "NotEq"}
TORCH = frozenset({"torch", "F", "th"})
TORCH_NAMES = tuple(f"{name}." for name in sorted(TORCH))


def calls_torch(graph: Graph, callee: int) -> bool:
    """Ex) torch.lerp, F.linear; by the name as it is written, which only supports other evidence.

    Not torch.full, torch.tensor and the like, which are given numbers and lists.
    """
    path = path_of(graph, callee)
    if path is None or not path.startswith(TORCH_NAMES):
        return False
    factory = FACTORIES.get(f"torch.{path.rpartition('.')[2]}")
    return factory is None or factory.device == "like"


def copies_data(graph: Graph, callee: int) -> bool:
    """Ex) torch.tensor, x.new_tensor; by the name as it is written."""
    node = graph.nodes[callee]
    if node.op == ops.ATTR and node.data == "new_tensor":
        return True
    path = path_of(graph, callee)
    return path is not None and path.startswith(TORCH_NAMES) and path.endswith(".tensor")


# What moves a module, or returns one that may be moved.
MOVES = frozenset({"to", "cuda", "xpu", "cpu", "half", "bfloat16", "module", "to_empty"})


def calls_of_own_networks(graph: Graph, uses: Mapping[int, set[str]]) -> Iterator[int]:
    """The calls of the networks that a graph makes, trains and hands to nobody.

    Ex) net(x) after `net = Net(); optimizer = SGD(net.parameters(), lr=0.1)`
    """
    networks = {
        number
        for number, names in uses.items()
        if graph.nodes[number].op == ops.CALL and "parameters" in names and not names & MOVES
    }
    if not networks:
        return
    for node in graph.nodes:
        handed_on = node.arguments if node.op in (ops.ATTR, ops.CALL) else node.operands
        networks.difference_update(handed_on)
    for number, node in enumerate(graph.nodes):
        if node.op == ops.CALL and node.operands[0] in networks:
            yield number


# It raises for lengths on another device (torch 2.13, torch/nn/utils/rnn.py).
PACKING = "pack_padded_sequence"
# What returns the same lengths: copied to the CPU, converted, sorted, of another shape.
OF_LENGTHS = frozenset(
    """
    cpu to tolist numpy long int type view reshape squeeze flatten clone detach contiguous sort
    """.split()
)


def lengths_of_packing(graph: Graph) -> Iterator[int]:
    """The nodes that hold the lengths of packed sequences; a call only if it copies or sorts them.

    Ex) `lengths` and `lengths.cpu()` of `pack_padded_sequence(x, lengths.cpu())`
    """
    lengths = [
        node.argument(1, "lengths")
        for node in graph.nodes
        if node.op == ops.CALL and graph.nodes[node.operands[0]].data == PACKING
    ]
    for number in reachable([n for n in lengths if n >= 0], lambda at: same_lengths(graph, at)):
        op = graph.nodes[number].op
        # Nothing says where the lengths in these come from; what is computed is on some device.
        is_held = op in ELEMENTS or op in (ops.PARAM, ops.NAME, ops.ATTR)
        if is_held or same_lengths(graph, number):
            yield number


def same_lengths(graph: Graph, number: int) -> tuple[int, ...]:
    """The nodes that hold the lengths that a node holds."""
    node = graph.nodes[number]
    first = graph.nodes[node.operands[0]] if node.operands else node
    method, receiver = method_called(graph, node)
    if method in OF_LENGTHS:
        return (receiver,)
    is_same = (node.op == ops.SUBSCRIPT and graph.nodes[node.second].op != ops.CONST) or (
        node.op == ops.UNPACK and node.data[0] == 0 and is_sorting(graph, first)
    )
    return node.operands[:1] if is_same else alternatives(graph, number)


def is_sorting(graph: Graph, node: Node) -> bool:
    """Ex) lengths.sort(descending=True)"""
    return node.op == ops.CALL and graph.nodes[node.operands[0]].data == "sort"


def kind_of(uses: set[str]) -> str | None:
    if uses & MODULE_USES or (CALLED in uses and uses & MODULE_USES_IF_CALLED):
        return "module"
    if "backward" in uses and uses & ACCELERATOR_USES:
        return "accelerator"
    return "optimizer" if {"zero_grad", "step"} <= uses else None


def is_whole_step(graph: Graph, call: Node) -> bool:
    """Whether a call is given a loss and an optimizer, by a scaler: it runs the backward pass and
    the step. Ex) loss_scaler(loss, optimizer, clip_grad=1.0), as timm's scalers have it"""
    if call.op != ops.CALL or call.argument(0) < 0 or call.argument(1) < 0:
        return False
    if SCALER.search(name_of(graph, call.operands[0])) is None:
        return False
    name = name_of(graph, call.argument(1))
    return OPTIMIZER.search(name) is not None or "optim." in name


def name_of(graph: Graph, number: int) -> str:
    """The path to a value, or to what has made it here.

    Ex) scaler, NativeScaler of `scaler = NativeScaler()`, torch.optim.SGD
    """
    node = graph.nodes[number]
    return path_of(graph, node.operands[0] if node.op == ops.CALL else number) or ""


def backpropagated(graph: Graph, call: Node) -> int | None:
    """The node whose backward pass a call runs: `loss.backward()`, `engine.backward(loss)`,
    `scaler.scale(loss).backward()`."""
    shape: CallShape = call.data
    method, receiver = method_called(graph, call)
    if is_whole_step(graph, call):
        return call.argument(0)
    if method not in ("backward", "manual_backward"):
        return None
    if method == "manual_backward" or shape.positional == 1:
        # `loss.backward(gradient)` is rare and has a tensor for its loss, too.
        loss = call.argument(0)
        return loss if loss >= 0 else None
    if shape.positional == 0 and set(shape.keywords) <= BACKWARD_KEYWORDS:
        scaling = graph.nodes[receiver]
        is_scaled = method_called(graph, scaling)[0] == "scale"
        scaled = scaling.argument(0) if is_scaled else -1
        return scaled if scaled >= 0 and scaling.arguments == (scaled,) else receiver
    return None


# What is a part of something else: the node of the whole, and the name of the part.
Part = tuple[int, str]


class SamePart(NamedTuple):
    """The nodes that are the same part of something.

    `is_made`: whether the function makes it. What it is given, by an option say, and adds to a
    loss, may be a number after all.
    """

    nodes: tuple[int, ...]
    is_made: bool


def parts_read(graph: Graph) -> Iterator[tuple[Part, int]]:
    """The parts that are read under a name, and by which node. Ex) out.loss, out["loss"]"""
    for number, node in enumerate(graph.nodes):
        if node.op == ops.ATTR:
            yield (node.operands[0], f".{node.data}"), number
        elif node.op == ops.SUBSCRIPT and by_name(graph, node.second):
            key = graph.nodes[node.second].data
            yield (holder(graph, node.operands[0], key), key), number


def parts_stored(graph: Graph) -> Iterator[tuple[Part, int]]:
    """The parts that are stored under a name, and the node that is stored.

    Ex) x of `self.loss = x`, of `losses["total"] = x` and of `{"loss": x}`
    """
    for number, node in enumerate(graph.nodes):
        if node.op == ops.STORE:
            yield (node.operands[0], f".{node.data}"), node.second
        elif node.op == ops.DICT:
            named = zip(node.data, node.operands, strict=True)
            yield from (((number, key), value) for key, value in named if isinstance(key, str))
        elif node.op == ops.PUT and by_name(graph, node.second):
            yield (number, graph.nodes[node.second].data), node.operands[-1]


def holder(graph: Graph, container: int, key: str) -> int:
    """The container before other keys of it were set: what stands under this key is the same.

    A dict of more keys than `MAX_KEYS` is known only as a whole.
    """
    for _ in range(MAX_KEYS):
        node = graph.nodes[container]
        if node.op != ops.PUT or not by_name(graph, node.second):
            break
        if graph.nodes[node.second].data == key:
            break
        container = node.operands[0]
    return container


def same_parts(graph: Graph) -> dict[int, list[SamePart]]:
    """By node that is a part of something: all nodes that are this part of it."""
    stored: dict[Part, list[int]] = {}
    for part, number in parts_stored(graph):
        stored.setdefault(part, []).append(number)
    parts = {part: list(numbers) for part, numbers in stored.items()}
    for part, number in parts_read(graph):
        parts.setdefault(part, []).append(number)
    by_node: dict[int, list[SamePart]] = {}
    for part, numbers in parts.items():
        if len(numbers) > 1:
            same = SamePart(tuple(numbers), part in stored or path_of(graph, part[0]) is None)
            for number in numbers:
                by_node.setdefault(number, []).append(same)
    return by_node


def returned_losses(graph: Graph, number: int) -> Iterator[int]:
    """The loss in `return loss`, `return {"loss": loss, ...}` and `return loss, outputs`."""
    waiting = [*graph.nodes[number].operands]
    while waiting:
        operand = waiting.pop()
        node = graph.nodes[operand]
        if node.op == ops.DICT:
            pairs = zip(node.data, node.operands, strict=True)
            yield from (value for key, value in pairs if key == "loss")
        elif node.op == ops.TUPLE:
            waiting += node.operands[:1]
        elif node.op == ops.PHI and any(graph.nodes[n].op == ops.TUPLE for n in node.operands):
            # `return (loss, outputs) if return_outputs else loss`
            waiting += [n for n in node.operands if n < operand]
        elif node.operator or node.op in JOINS | {ops.NAME, ops.PARAM, ops.CALL, ops.UNARY}:
            yield operand  # what may be a loss: no constant, no container and no comparison


def mark_losses(graph: Graph, losses: dict[int, int], nodes: dict[int, str]) -> dict[int, int]:
    """Mark losses, what they were before they were narrowed or joined, and the addends that they
    are the sums of. Returns all that is so marked -> the call that runs the backward pass.

    Args:
        losses: with that call.
        nodes: the marks, which are added to.
    """
    backward = dict(losses)
    trail: set[int] = set()
    parts = same_parts(graph) if losses else {}
    stack = [(loss, "loss", call) for loss, call in reversed(losses.items())]
    while stack:
        current, kind, call = stack.pop()
        if current in trail:
            continue
        trail.add(current)
        nodes.setdefault(current, kind)
        for output in outputs(graph, graph.nodes[current]):
            nodes.setdefault(output, "output")
        backward.setdefault(current, call)
        for same in parts.get(current, ()):
            if same.is_made or kind == "loss":
                stack.extend((number, kind, call) for number in same.nodes)
        stack.extend((*part, call) for part in parts_of_loss(graph, current, kind))
    return backward


def outputs(graph: Graph, loss: Node) -> Iterator[int]:
    """The outputs of models that a loss comes from, or comes with."""
    if loss.op == ops.CALL:
        # `loss = criterion(model(x), y)`: what the loss is made of is a model's output.
        yield from (n for n in loss.arguments if graph.nodes[n].op == ops.CALL)
    elif loss.op == ops.UNPACK and gives_outputs(graph, loss.operands[0]):
        # `loss, parts = model(x)`: what comes with a loss is a model's output, too.
        yield loss.operands[0]


def gives_outputs(graph: Graph, number: int) -> bool:
    """Whether a node is the call of a model, and all that is unpacked from it are outputs."""
    return calls_model(graph, number) and not comes_with_count(graph, number)


def comes_with_count(graph: Graph, output: int) -> bool:
    """Whether a count is unpacked from an output, by its name: one of Python, or on the CPU.

    Ex) loss, correct, denominator = model(x)
    """
    return any(
        graph.nodes[number].op == ops.UNPACK and graph.nodes[number].operands[0] == output
        for name, numbers in graph.bindings.items()
        if COUNT.search(name)
        for number in numbers
    )


def parts_of_loss(graph: Graph, number: int, kind: str) -> Iterator[tuple[int, str]]:
    """The nodes that a marked one is made of, and that are marked for it, with their marks."""
    node = graph.nodes[number]
    if node.op in JOINS:
        yield from ((each, kind) for each in alternatives(graph, number))
    elif kind not in CONTAINERS:
        yield from terms(graph, number)
    elif node.operator in ("BitOr", "Add"):
        # `losses |= more`: both hold terms.
        yield from ((operand, kind) for operand in node.operands)


def calls_model(graph: Graph, number: int) -> bool:
    """Whether a node is the call of what is a model, by its name."""
    node = graph.nodes[number]
    if node.op != ops.CALL:
        return False
    path = path_of(graph, node.operands[0])
    return path is not None and MODEL.search(path) is not None


# What holds the terms of a loss: a list of them, or a dict.
LISTED, NAMED = "listed terms", "named terms"
CONTAINERS = frozenset({LISTED, NAMED})
AVERAGES = frozenset({"mean", "sum"})


def terms(graph: Graph, number: int) -> Iterator[tuple[int, str]]:
    """The parts of a loss, or of a term, that are certainly terms, or hold terms: addends, factors
    beside a number, and the elements of a sum."""
    node = graph.nodes[number]
    if node.op in OPERATORS:
        yield from ((operand, "term") for operand in addends(graph, node))
    elif node.op == ops.CALL:
        yield from terms_of_call(graph, node)
    elif node.op == ops.ITER:
        yield from summed(graph, node.operands[0])
    elif node.op == ops.SUBSCRIPT and is_key(graph, node.second, node.operands[0]):
        yield node.operands[0], NAMED


def addends(graph: Graph, node: Node) -> tuple[int, ...]:
    """The operands of an operator that are terms if its result is one."""
    match node.data:
        case "Add" | "Sub":
            return node.operands
        case "Div" | "USub":
            return node.operands[:1]
        case "Mult":
            factor = weighted(graph, *node.operands)
            return (factor,) if factor is not None else ()
    return ()


def terms_of_call(graph: Graph, node: Node) -> Iterator[tuple[int, str]]:
    """Ex) the losses of sum(losses), torch.stack(losses) and loss.mean()"""
    method, receiver = method_called(graph, node)
    path = path_of(graph, node.operands[0]) or ""
    library, _, name = path.rpartition(".")
    first = node.argument(0)
    if first >= 0 and (path == "sum" or (library in TORCH and name in ("stack", "cat"))):
        yield from summed(graph, first)
    elif first >= 0 and library in TORCH and name in AVERAGES:
        yield first, "term"
    elif method in AVERAGES and not node.arguments:
        yield receiver, "term"


def summed(graph: Graph, number: int) -> Iterator[tuple[int, str]]:
    """The elements of an iterable, or what they stand in.

    Ex) losses of sum(losses.values()) and of sum(loss for loss in losses.values())
    """
    node = graph.nodes[number]
    method, receiver = method_called(graph, node)
    written = node.operands if node.op == ops.COMP else elements(graph, number)
    if written is not None:
        yield from ((operand, "term") for operand in written)
    elif method == "values":
        yield receiver, NAMED
    else:
        yield number, LISTED


def is_key(graph: Graph, number: int, container: int) -> bool:
    """Whether a node is a key of a dict over which a loop goes. Ex) `k` of `for k in losses`"""
    element = graph.nodes[graph.narrowed(number)]
    if element.op != ops.ITER:
        return False
    method, receiver = method_called(graph, graph.nodes[element.operands[0]])
    return container == (receiver if method == "keys" else element.operands[0])


def weighted(graph: Graph, left: int, right: int) -> int | None:
    """The factor that is a term of a loss, where the other one is its weight; None where nothing
    says which is which."""
    for is_one in (is_number, is_weight):
        if is_one(graph, left) != is_one(graph, right):
            return right if is_one(graph, left) else left
    for factor, other in ((left, right), (right, left)):
        # Ex) scale * discriminator(fake).mean(), where `scale` is a parameter or a field
        if is_average(graph, factor) and path_of(graph, other) is not None:
            return factor
    return None


def is_average(graph: Graph, number: int) -> bool:
    """Ex) x.mean()"""
    node = graph.nodes[number]
    return method_called(graph, node)[0] in AVERAGES and not node.arguments


def is_weight(graph: Graph, number: int) -> bool:
    """Whether a factor is, by its name, what a term of a loss is weighted with.

    Ex) kl_weight, self.args.kl, weight_dict[key]
    """
    node = graph.nodes[number]
    path = path_of(graph, node.operands[0] if node.op == ops.SUBSCRIPT else number)
    if path is None:
        return False
    *holders, name = path.split(".")
    return WEIGHT.search(name) is not None or any(map(CONFIGURATION.search, holders))
