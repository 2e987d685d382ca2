"""Events: the calls that do something to losses, gradients or weights.

Decided by the value of what a method is called on. Where that is not known, a method that only a
scaler has (`unscale_`), or a chain that only a scaler makes (`x.scale(loss).backward()`), says what
it is; all else is kept as a guess, until it is known which object it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from amplint.frameworks.schema import MethodRow
from amplint.gradscaler.parameter_lists import EACH_PARAMETER, are_only_collected
from amplint.inference import Inference, State
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.flow import JOINS, method_called, origins
from amplint.ir.model import Graph, Node, path_of
from amplint.knowledge import libraries
from amplint.knowledge.casts import ADAMS, EPSILONS, HALF_OF_LEAST
from amplint.knowledge.modules import RETURNING_ITSELF
from amplint.knowledge.vocabulary import HOOK, PART_OF_STEP, SCALER, TAKES_GRADIENTS
from amplint.values.atoms import (
    NONE,
    Atom,
    Device,
    DType,
    Host,
    Instance,
    Method,
    Object,
    Symbol,
    Tensor,
    TensorTree,
    Unknown,
    Value,
    constant,
    may_be,
    surely,
)
from amplint.values.lattice import only


class TrainingEventKind(Enum):
    """The kinds of events. `STEP` and `UPDATE` are those of whatever they are called on."""

    SCALE = "scale"
    BACKWARD = "backward"
    SCALED_BACKWARD = "scaled backward"  # of a loss that a framework scales itself
    UNSCALE = "unscale_"
    CLIP = "clip"
    READ = "read"
    STEP = "step"
    UPDATE = "update"
    ZERO = "zero_grad"
    IS_ENABLED = "is_enabled"
    HALF = "half"  # parameters become float16
    BFLOAT16 = "bfloat16"  # parameters become bfloat16
    CAST = "float"  # or something else
    ELSEWHERE = "elsewhere"  # what a library or an unknown function does to the gradients
    HOOK = "hook"  # an unknown function that may do a part of the step, or nothing


class Role(Enum):
    """The role of an object in training."""

    SCALER = "scaler"
    DISABLED = "a scaler that is switched off"
    OPTIMIZER = "optimizer"
    SCHEDULER = "scheduler"
    UNKNOWN = "unknown"
    OTHER = "something else"


class TrainingEvent(NamedTuple):
    """A call that does something to training, by nodes of its function.

    object: the node of what the method is called on; -1 without one.
    argument: the node of the loss, or the optimizer, that it is given; -1 without one.
    """

    kind: TrainingEventKind
    object: int
    argument: int = -1


# What measures how large gradients are, and what limits them; nothing else of them depends on the
# scale.
NORMS = frozenset({"norm", "vector_norm", "get_total_norm"})
CLAMPS_IN_PLACE = frozenset({"clamp_", "clip_"})
CLAMPS = frozenset({"clamp", "clip"})
SAME_NORM = frozenset({"detach", "float", "double", "clone", "view", "flatten", "reshape", "to"})
BACKWARD = frozenset({"torch.autograd.backward"})
SCALED_DTYPE = "float16"  # the only dtype that frameworks scale losses for
PROTOCOL = frozenset({"unscale_", "step", "update"})  # of a scaler
# Methods of a module that return it, and those of them that may cast its parameters.
MODULE_CASTS = frozenset({"half", "bfloat16", "float", "double", "to", "type"})
CHAINED = MODULE_CASTS | RETURNING_ITSELF
# What leads to each parameter of a module, and what visits them by itself, or adds others.
VISITS = frozenset(
    {"apply", "parameters", "named_parameters", "modules", "named_modules", "children"}
    | {"add_adapter", "load_adapter"}
)
VISITING = frozenset({"apply", "add_adapter", "load_adapter"})
# Options of an optimizer with which a step is computed in float32, or begins with more than 0.
OTHERWISE = frozenset({"fused", "capturable", "initial_accumulator_value", "**"})
CASTS = frozenset({TrainingEventKind.HALF, TrainingEventKind.BFLOAT16, TrainingEventKind.CAST})
# The event of a cast of parameters to a 16-bit dtype.
OF_DTYPE = {"float16": TrainingEventKind.HALF, "bfloat16": TrainingEventKind.BFLOAT16}
OF_CAST = {"half": TrainingEventKind.HALF, "bfloat16": TrainingEventKind.BFLOAT16}
OF_SCALING = {"scales": TrainingEventKind.SCALED_BACKWARD, "clips": TrainingEventKind.CLIP}
PRETRAINED = frozenset({"from_pretrained", "from_config"})
# The beginnings of names of functions that leave alone what they are given.
HARMLESS = ("torch.", "builtins.", "copy.", "logging.", "math.", "numpy.")
METHODS = frozenset(
    {kind.value for kind in TrainingEventKind} | TAKES_GRADIENTS | MODULE_CASTS | PRETRAINED
)
NAMES = METHODS | {name.rpartition(".")[2] for name in libraries.CLIPPING}


def role(value: Value, inference: Inference) -> Role:
    """The role of an object, leaving None aside, and what is unknown where something is known."""
    roles = {role_of(atom, inference) for atom in value if atom != NONE}
    sure_roles = roles - {Role.UNKNOWN}
    if len(sure_roles) == 1:
        return sure_roles.pop()
    if sure_roles == {Role.SCALER, Role.DISABLED}:
        return Role.SCALER
    if sure_roles <= {Role.SCALER, Role.DISABLED, Role.OPTIMIZER}:
        return Role.UNKNOWN  # one function returns both; what is called on it shows which it is
    return Role.OTHER


def role_of(atom: object, inference: Inference) -> Role:
    if isinstance(atom, Unknown):
        return Role.UNKNOWN
    if isinstance(atom, Object):
        if atom.kind == "scaler":
            return Role.DISABLED if atom.enabled is False else Role.SCALER
        return {"optimizer": Role.OPTIMIZER, "scheduler": Role.SCHEDULER}.get(atom.kind, Role.OTHER)
    if isinstance(atom, Instance):
        if inference.hierarchy.is_optimizer(atom.cls):
            return Role.OPTIMIZER
        if inference.hierarchy.is_scheduler(atom.cls):
            return Role.SCHEDULER
        if inference.hierarchy.library_bases(atom.cls) & libraries.SCALERS.keys():
            return Role.OTHER if replaces_protocol(inference, atom.cls) else Role.SCALER
    return Role.OTHER


def replaces_protocol(inference: Inference, cls: str) -> bool:
    """Whether a scaler of the project has a method of the protocol of its own."""
    return any(
        name in PROTOCOL
        for each in (cls, *inference.hierarchy.mro(cls))
        for name in inference.classes[each].methods
    )


def event(inference: Inference, state: State, number: int) -> TrainingEvent | None:
    """The event that a call is; None if it is none, as far as the call alone can say."""
    node = state.graph.nodes[number]
    callee = state.graph.nodes[node.operands[0]]
    if callee.op in (ops.ATTR, ops.NAME) and callee.data in NORMS:
        return TrainingEvent(TrainingEventKind.READ, -1) if is_of_gradient(state, node) else None
    if callee.op == ops.ATTR and clamps(state, number, callee.data):
        return TrainingEvent(TrainingEventKind.CLIP, -1) if is_of_gradient(state, node) else None
    symbols = {
        canonical(atom.name)
        for atom in state.values[node.operands[0]]
        if isinstance(atom, Symbol) and atom.name.rpartition(".")[2] in NAMES
    }
    if symbols & libraries.CLIPPING:
        return TrainingEvent(TrainingEventKind.CLIP, -1, node.argument(0, "parameters"))
    if symbols & BACKWARD:
        return TrainingEvent(TrainingEventKind.BACKWARD, node.argument(0, "tensors"))
    if callee.op != ops.ATTR:
        return None
    if callee.data not in METHODS and callee.data not in inference.files.models.scaling:
        return None
    return event_of_method(inference, state, number, is_of_library=bool(symbols))


def event_of_method(
    inference: Inference, state: State, number: int, *, is_of_library: bool
) -> TrainingEvent | None:
    """The event that the call of a method is.

    Args:
        is_of_library: whether it is a function of a library that has the name of such a method.
    """
    node = state.graph.nodes[number]
    callee = state.graph.nodes[node.operands[0]]
    thing = callee.operands[0]
    value = state.values[thing]
    if callee.data in PRETRAINED:
        loaded = cast_to(dtypes(state, node))
        return (
            TrainingEvent(loaded, number)
            if loaded and loaded is not TrainingEventKind.CAST
            else None
        )
    if callee.data in MODULE_CASTS:
        cast = cast_by(state, node, callee.data) if is_module(value, inference) else None
        return TrainingEvent(cast, thing) if cast is not None else None
    by_framework = event_of_framework(inference, value, callee.data)
    if by_framework is not None:
        is_backward = by_framework is TrainingEventKind.SCALED_BACKWARD
        return TrainingEvent(by_framework, thing, node.argument(0) if is_backward else -1)
    owner = role(value, inference)
    scaler = owner in (Role.SCALER, Role.DISABLED, Role.UNKNOWN)
    first, optimizer = node.argument(0), node.argument(0, "optimizer")
    match callee.data:
        case "backward" if first < 0 or is_loss(value):
            return TrainingEvent(TrainingEventKind.BACKWARD, thing) if not is_of_library else None
        case "scale" if scaler and first >= 0 and node.data.positional == 1:
            return TrainingEvent(TrainingEventKind.SCALE, thing, node.argument(0, "outputs"))
        case "unscale_" if scaler and optimizer >= 0:
            return TrainingEvent(TrainingEventKind.UNSCALE, thing, optimizer)
        case "step" if owner is Role.SCHEDULER:
            return (
                TrainingEvent(TrainingEventKind.STEP, thing) if node.data.positional == 0 else None
            )
        case "step" if owner is Role.OPTIMIZER and is_handed_out(inference, state, thing):
            return TrainingEvent(TrainingEventKind.ELSEWHERE, thing)
        case "step" if scaler or owner is Role.OPTIMIZER:
            return TrainingEvent(TrainingEventKind.STEP, thing, optimizer)
        case "update" if scaler and first < 0:
            return TrainingEvent(TrainingEventKind.UPDATE, thing)
        case "is_enabled" if owner is Role.SCALER:
            return TrainingEvent(TrainingEventKind.IS_ENABLED, thing)
        case "zero_grad":
            return TrainingEvent(TrainingEventKind.ZERO, thing, node.argument(0, "set_to_none"))
        case name if name in TAKES_GRADIENTS and not is_of_library:
            return TrainingEvent(TrainingEventKind.ELSEWHERE, thing)
    return None


def event_of_framework(inference: Inference, value: Value, method: str) -> TrainingEventKind | None:
    """The event that a method of an object of a framework is, which keeps a scaler itself."""
    scaling = scaling_of(inference, value, method)
    if scaling == "unscales":
        return TrainingEventKind.ELSEWHERE
    kind = OF_SCALING.get(scaling or "")
    return kind if kind and all(keeps_scaler(inference, atom) for atom in value) else None


def keeps_scaler(inference: Inference, atom: Atom) -> bool:
    """Whether an object of a framework, or a module that one trains, has it scale losses."""
    if isinstance(atom, Object):
        return atom.dtype == SCALED_DTYPE and atom.enabled is True
    hierarchy, ask = inference.hierarchy, inference.store.joined
    steps = hierarchy.methods(atom.cls, "training_step") if isinstance(atom, Instance) else []
    functions = [inference.functions[step] for step in steps]
    dtypes = {hierarchy.dtype_of_framework(each, ask) for each in functions}
    return dtypes == {SCALED_DTYPE}


def is_handed_out(inference: Inference, state: State, number: int) -> bool:
    """Whether a framework has handed out an optimizer, whose step it makes itself.

    Ex) `optimizer` of g, optimizer = self.optimizers()
    """
    return any(
        row.gives == "optimizer" for _, _, row in framework_calls_behind(inference, state, number)
    )


def framework_calls_behind(
    inference: Inference, state: State, number: int
) -> Iterator[tuple[Node, Value, MethodRow]]:
    """The calls of methods of a framework that may have returned a value, alone or among others,
    each with what it is called on, and its row."""
    nodes = state.graph.nodes
    for each in origins(state.graph, number):
        call = nodes[each]
        if call.op in (ops.UNPACK, ops.SUBSCRIPT):
            call = nodes[call.operands[0]]
        method, receiver = method_called(state.graph, call)
        row = row_of(inference, state.values[receiver], method) if method else None
        if row is not None:
            yield call, state.values[receiver], row


def scaling_of(inference: Inference, value: Value, method: str) -> str | None:
    """The effect of a method of a framework on the gradients that it scales: see
    `amplint.frameworks.schema.Method.scaling`."""
    if method not in inference.files.models.scaling:
        return None
    row = row_of(inference, value, method)
    return row.scaling if row is not None else None


def row_of(inference: Inference, value: Value, method: str) -> MethodRow | None:
    """The row of a method of an object of a framework, or of a class that derives from one."""
    atom, models = only(value), inference.files.models
    if isinstance(atom, Object):
        return models.method_of_object(atom.kind, atom.type, method)
    if isinstance(atom, Instance) and not inference.hierarchy.methods(atom.cls, method):
        return models.method(inference.hierarchy.models_of(atom.cls), method)
    return None


def hands_on(inference: Inference, value: Value) -> bool:
    """Whether what is called is a method of a framework that returns what it is given, or wraps it.

    Ex) model, optimizer = accelerator.prepare(model, optimizer)
    """
    method = only(value)
    if not isinstance(method, Method) or not isinstance(method.of, Object):
        return False
    row = inference.files.models.method_of_object(method.of.kind, method.of.type, method.name)
    return row is not None and row.gives == "given"


def is_loss(value: Value) -> bool:
    """Whether a value has the `backward` of a tensor."""
    return may_be(value, Tensor | TensorTree) or surely(value, Host)


def clamps(state: State, number: int, method: str) -> bool:
    """Whether a call of a method limits what it is called on, or what becomes a gradient.

    Ex) p.grad.data.clamp_(-1, 1), p.grad = p.grad.clamp(-1, 1)
    """
    nodes = state.graph.nodes
    return method in CLAMPS_IN_PLACE or (
        method in CLAMPS
        and any(
            nodes[user].op == ops.STORE
            and nodes[user].second == number
            and (nodes[user].data == "grad" or is_gradient(state, nodes[user].operands[0]))
            for user in state.users[number]
        )
    )


def is_of_gradient(state: State, node: Node) -> bool:
    """Ex) p.grad.data.norm(2), torch.norm(p.grad)"""
    return is_gradient(state, subject(state, node))


def subject(state: State, call: Node) -> int:
    """The node of x, of x.abs() and torch.abs(x)."""
    method, receiver = method_called(state.graph, call)
    symbol = may_be(state.values[call.operands[0]], Symbol)
    return receiver if method and not symbol else call.argument(0)


def is_gradient(state: State, number: int) -> bool:
    """Ex) p.grad, p.grad.data.float(), and g of `for g in [p.grad for p in params]`"""
    nodes = state.graph.nodes
    while number >= 0:
        each = nodes[number]
        if each.op == ops.ATTR and each.data == "grad":
            return True
        if each.op == ops.ATTR and each.data == "data":
            number = each.operands[0]
        elif each.op == ops.CALL:
            method, receiver = method_called(state.graph, each)
            number = receiver if method in SAME_NORM else -1
        elif each.op == ops.NARROW:
            number = each.operands[0]
        elif each.op == ops.ITER and nodes[each.operands[0]].op == ops.COMP:
            number = nodes[each.operands[0]].operands[-1]
        else:
            return False
    return False


def is_module(value: Value, inference: Inference) -> bool:
    """Whether a value is a torch module."""
    return bool(value) and all(
        (isinstance(atom, Object) and atom.kind == "module")
        or (isinstance(atom, Instance) and inference.hierarchy.is_module(atom.cls))
        for atom in value
    )


def cast_by(state: State, node: Node, method: str) -> TrainingEventKind | None:
    """The event of a method that casts the parameters of a module; None where it moves them."""
    if method not in ("to", "type"):
        return OF_CAST.get(method, TrainingEventKind.CAST)
    cast = cast_to(dtypes(state, node))
    moved = all(
        isinstance(atom, Device | Host)
        for operand in node.arguments
        for atom in state.values[operand]
    )
    return cast or (None if moved else TrainingEventKind.CAST)


def cast_to(dtypes: set[str]) -> TrainingEventKind | None:
    """The event of a cast of parameters to one of some dtypes; None without one."""
    kinds = {OF_DTYPE.get(dtype, TrainingEventKind.CAST) for dtype in dtypes}
    return TrainingEventKind.CAST if len(kinds) > 1 else next(iter(kinds), None)


def may_recast(state: State, number: int, callees: set[str]) -> list[int]:
    """The modules whose parameters a call may cast, for all that its text says.

    Args:
        callees: the functions of the project that it runs.
    """
    node = state.graph.nodes[number]
    method, receiver = method_called(state.graph, node)
    operands = list(node.arguments)
    if all(is_harmless(atom) for atom in state.values[node.operands[0]]) and not callees:
        operands = []
    if method in VISITS:
        if method in EACH_PARAMETER:
            visited = not are_only_collected(state, number)
        else:
            visited = method in VISITING or any(
                state.graph.nodes[user].op == ops.ITER for user in state.users[number]
            )
        return [receiver] if visited else []
    return [*operands, receiver] if method and callees else operands


def dtypes(state: State, node: Node) -> set[str]:
    """The dtypes that a call is given."""
    atoms = (atom for operand in node.arguments for atom in state.values[operand])
    return {atom.name for atom in atoms if isinstance(atom, DType)}


def divides_by_zero(state: State, number: int) -> bool:
    """Whether a call makes an optimizer that divides by nothing where a gradient is small, if the
    parameters are float16: its epsilon is 0 there, and no kernel computes in float32."""
    value = state.values[number]
    if not any(isinstance(atom, Object) and atom.type in EPSILONS for atom in value):
        return False
    node, atom = state.graph.nodes[number], only(value)
    if not isinstance(atom, Object) or atom.type not in EPSILONS:
        return False
    if node.data.stars or OTHERWISE & set(node.data.keywords):
        return False
    position, default = EPSILONS[atom.type]
    argument = node.argument(position, "eps")
    epsilon = constant(state.values[argument]) if argument >= 0 else default
    return isinstance(epsilon, float) and 0 < epsilon <= HALF_OF_LEAST


def is_adam(value: Value) -> bool:
    """Whether a value is an optimizer of torch that makes steps of about the size of its rate."""
    atom = only(value)
    return isinstance(atom, Object) and atom.type in ADAMS


def surely_scaler(inference: Inference, state: State, number: int, event: TrainingEvent) -> bool:
    """Whether a call is one of a scaler, by its value or by what only a scaler has."""
    if event.kind not in (
        TrainingEventKind.SCALE,
        TrainingEventKind.UNSCALE,
        TrainingEventKind.STEP,
        TrainingEventKind.UPDATE,
    ):
        return False
    owner = role(state.values[event.object], inference)
    if owner is Role.UNKNOWN and event.kind is TrainingEventKind.SCALE:
        return is_backpropagated(state, number)
    return owner is Role.SCALER or (
        owner is Role.UNKNOWN and event.kind is TrainingEventKind.UNSCALE
    )


def acts_as_scaler(inference: Inference, state: State, number: int, event: TrainingEvent) -> bool:
    """Whether a call is one of a scaler, by its value, its name or what else is called on it.

    Ex) self.loss_scaler.step(optimizer) beside self.loss_scaler.update()
    """
    if surely_scaler(inference, state, number, event):
        return True
    if event.kind not in (TrainingEventKind.STEP, TrainingEventKind.UPDATE):
        return False
    name = written(state.graph, event.object)
    return (
        name is not None
        and SCALER.search(name) is not None
        and role(state.values[event.object], inference) is Role.UNKNOWN
        and {("step", 1), ("update", 0)} <= set(called_on(state, name))
    )


def called_on(state: State, name: str) -> Iterator[tuple[str, int]]:
    """The methods that are called on what is written so, each with how many arguments it has."""
    for node in state.graph.nodes:
        method, receiver = method_called(state.graph, node)
        if method in PROTOCOL and written(state.graph, receiver) == name:
            yield method, len(node.arguments)


def written(graph: Graph, number: int) -> str | None:
    """The way in which a node is written that a loop, or `x.update()`, may have bound anew; None
    for what is no dotted name."""
    while graph.nodes[number].op in JOINS or graph.nodes[number].op == ops.ADD:
        before = min(graph.nodes[number].operands, default=number)
        if before >= number:
            break
        number = before
    return path_of(graph, number)


def is_scaler_step(inference: Inference, state: State, event: TrainingEvent) -> bool:
    return (
        event.kind is TrainingEventKind.STEP
        and role(state.values[event.object], inference) is Role.SCALER
    )


def is_backpropagated(state: State, number: int) -> bool:
    """`x.scale(loss).backward()`, in one expression."""
    nodes = state.graph.nodes
    return any(
        node.op == ops.ATTR and node.data == "backward" and node.operands == (number,)
        for node in nodes[number + 1 : number + 3]
    )


def unknown_event(state: State, number: int, roles: set[Role]) -> TrainingEventKind | None:
    """The part that a call of nobody knows what may have in the training step: it is given an
    optimizer or a scaler, or its name says so; None where it has none.

    Args:
        roles: of what is handed to it.
    """
    node = state.graph.nodes[number]
    value = state.values[node.operands[0]]
    atoms = [atom for atom in value if not isinstance(atom, Unknown)]
    if atoms and all(is_harmless(atom) for atom in atoms):
        return None
    if roles & {Role.SCALER, Role.OPTIMIZER}:
        return TrainingEventKind.ELSEWHERE
    method, _ = method_called(state.graph, node)
    if atoms or not method:
        return None
    if HOOK.search(method):
        return TrainingEventKind.HOOK
    return TrainingEventKind.ELSEWHERE if PART_OF_STEP.search(method) else None


def is_harmless(atom: object) -> bool:
    """Whether what is called is known to do nothing to the gradients of what it is given."""
    if isinstance(atom, Symbol):
        return atom.name.startswith(HARMLESS)
    if isinstance(atom, Method):
        return isinstance(atom.of, Object | Tensor | TensorTree | Host) or not isinstance(
            atom.of, Unknown
        )
    return not isinstance(atom, Unknown)
