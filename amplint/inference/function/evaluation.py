"""One pass over one function's graph: a method for each operation of the value graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from collections.abc import Sequence as Ordered
from functools import cached_property, lru_cache

from amplint.inference import transfer
from amplint.inference.function.annotations import annotated, annotation_subscript
from amplint.inference.function.attributes import AttributeReads, is_vague
from amplint.inference.function.binding import ArgumentBinding, is_named
from amplint.inference.function.calls import CONTEXT_MAKERS, Calls, contexts_at, contexts_in
from amplint.inference.function.frame import Frame, FramePart
from amplint.inference.function.frameworks import FrameworkCalls
from amplint.inference.function.narrowing import narrow
from amplint.inference.function.parameters import ParameterValues
from amplint.inference.function.values_by_use import ValuesByUse
from amplint.inference.state import GLOBALS, MAX_TURNS, WHOLE, Key
from amplint.inference.transfer import ranks
from amplint.inference.whole_program.observation_values import filled
from amplint.inference.whole_program.text_questions import speaks_of_devices
from amplint.inference.whole_program.use_evidence import CONTAINERS
from amplint.ir import ops
from amplint.ir.model import Node
from amplint.ir.ops import Op
from amplint.ir.ssa import COLLATE, ENTERING
from amplint.knowledge import libraries
from amplint.values.atoms import (
    BOTTOM,
    CPU,
    NONE,
    UNKNOWN,
    Arguments,
    Atom,
    Autocast,
    Class,
    Device,
    Function,
    Host,
    Instance,
    NoGrad,
    Object,
    Sequence,
    Symbol,
    Tensor,
    TensorTree,
    Value,
    constant,
    moved,
    one,
    ordered,
    surely,
)
from amplint.values.atoms import Mapping as MappingValue
from amplint.values.lattice import MAX_KEYS, any_value, inner, is_open, join, known, only

EVERYWHERE = range(1 << 62)  # all nodes of a function
MAX_PASSES = 8  # over a component, before its values may only grow
# Operations that depend on their operands alone, and that no other function hears of.
QUIET = frozenset(
    {
        ops.CONST, ops.OPAQUE, ops.UNBOUND, ops.PHI, ops.BINOP, ops.AUG, ops.UNARY, ops.COMPARE,
        ops.BOOL, ops.TUPLE, ops.LIST, ops.SET, ops.DICT, ops.STARRED, ops.FSTRING, ops.SLICE,
        ops.COMP, ops.DICTCOMP, ops.PUT, ops.NARROW, ops.LAMBDA, ops.AWAIT, ops.YIELD,
        ops.RETURN,
    }
)  # fmt: skip


class Evaluation(FramePart):
    """One pass over one function's graph, in the light of what is known so far.

    Args:
        frame: of the function.
        binding: gives what is called its arguments.
    """

    def __init__(self, frame: Frame, binding: ArgumentBinding) -> None:
        super().__init__(frame)
        self.binding = binding
        self.by_use = ValuesByUse(frame)
        self.frameworks = FrameworkCalls(frame)
        self.attributes = AttributeReads(frame, binding, self.frameworks)
        self.calls = Calls(frame, binding, self.frameworks, self.attributes)
        self.parameters = ParameterValues(frame, binding)

    def run(
        self,
        dirty: Collection[int],
        scope: Container[int],
        component: Container[int] | None,
        turn: int,
    ) -> None:
        """Evaluate the nodes that something has changed for, and what depends on those whose value
        changes by that.

        Args:
            dirty: the nodes; `WHOLE` for all, from nothing.
            scope: the nodes that may be evaluated. Others are queued.
            component: those of them that depend on each other; None where that is not known yet.
                What a loop carries to its start then has to wait until it is.
            turn: which one it is of the component that is evaluated from nothing, from 1; else 0.
                After many, the values in the component may only grow.
        """
        state, regions = self.state, self.frame.regions
        regions.around = regions.of_whole_function()
        if WHOLE in dirty or regions.around != state.around:
            state.regions.clear()
            state.around = regions.around
            # What it calls in other regions than before says so itself: see `Store.write_region`.
            if self.inference.unseen.presumption.is_any:  # it may be of a training, or call one
                self.access.regions_may_change()
        regions.by_block = state.regions
        self.scope = scope
        self.changed: set[int] = set()
        number_of_nodes = len(self.values)
        self.waiting = bytearray(number_of_nodes)
        self.behind = bytearray(number_of_nodes)
        if WHOLE in dirty:
            self.values[:] = [BOTTOM] * number_of_nodes
            self.behind = bytearray(b"\1") * number_of_nodes
        else:
            for number in dirty:
                self.behind[number] = 1
        passes, any_behind = 0, True
        while any_behind and (passes == 0 or component is not None):
            passes += 1
            has_to_end = turn > MAX_TURNS or passes > MAX_PASSES
            self.growing = component if component and has_to_end else ()
            self.waiting, self.behind = self.behind, self.waiting
            any_behind = self.propagate()
        if any_behind:
            behind = [number for number, flag in enumerate(self.behind) if flag]
            self.access.leave(self.facts.id, behind)
        # What others read of a component was taken for nothing before its first turn.
        self.publish(WHOLE in dirty or turn == 1)

    def propagate(self) -> bool:
        """Evaluate the waiting nodes in order, and behind them what depends on a change. Returns
        whether some node was left behind: at the start of a loop, whose end is changed."""
        state, waiting, behind, values = self.state, self.waiting, self.behind, self.values
        dependents, contexts, scope = state.dependents, state.contexts, self.scope
        any_behind = False
        number = waiting.find(1)
        while number >= 0:
            waiting[number] = 0
            value = self.evaluated(number)
            if number in self.growing:
                grown = self.frame.settled(join([values[number], value]))
                if grown is not value:
                    self.inference.unsettled.add(self.facts.id)
                value = grown
            if value is not values[number]:
                values[number] = value
                self.changed.add(number)
                if number in contexts:
                    self.frame.regions.forget()
                    self.access.regions_may_change()
                for each in (*dependents[number], *contexts.get(number, ())):
                    if each not in scope:
                        self.access.later(self.facts.id, each)
                    elif each > number:
                        waiting[each] = 1
                    else:
                        behind[each] = 1
                        any_behind = True
            number = waiting.find(1, number + 1)
        return any_behind

    def evaluated(self, number: int) -> Value:
        """The value of a node, as far as its operands are known."""
        frame, by_use = self.frame, self.by_use
        frame.number = number
        node = self.graph.nodes[number]
        if node.op in QUIET:
            value = frame.settled(self.transfer(node))
        else:
            site = (self.facts.id, number)
            self.access.begin(site)
            value = frame.settled(self.transfer(node))
            self.access.end(site)
        if not value or is_open(value):
            marked = by_use.suggested(number)
            if marked is not None:
                value = frame.settled(join([known(value), marked]))
        if number in self.observed:
            value = frame.settled(filled(value, self.observed[number]))
        marks = frame.marks
        if number in marks.backward:
            value = by_use.as_loss(number, by_use.backpropagated(number, value))
            value = frame.settled(value)
        if marks.nodes.get(number) in CONTAINERS:
            value = frame.settled(by_use.with_terms(number, value))
        if number in marks.own_networks and self.is_never_moved(node.operands[0]):
            value = frozenset(
                moved(a, CPU) if isinstance(a, Tensor | TensorTree) else a for a in value
            )
        if number in marks.no_nests:
            value = frame.settled(transfer.without_nests(value))
        return value

    def is_never_moved(self, network: int) -> bool:
        """Whether a module that the function makes stays on the CPU: its file speaks of no device.

        A module of another file may be moved there, and what that says is no part of its interface.
        """
        infer, value, path = self.inference, self.frame.of(network), self.facts.path

        def is_own(atom: Atom) -> bool:
            if isinstance(atom, Instance):
                files = {infer.classes[each].path for each in infer.hierarchy.mro(atom.cls)}
                return infer.hierarchy.is_module(atom.cls) and files == {path}
            return isinstance(atom, Object) and atom.kind == "module" and atom.device.kind is None

        return bool(value) and all(map(is_own, value)) and not speaks_of_devices(infer.files[path])

    def publish(self, whole: bool) -> None:
        """Write what others may read of this function, where it has changed."""
        identity, graph, changed = self.facts.id, self.graph, self.changed
        if self.facts.kind in ("function", "lambda") and (
            whole or not changed.isdisjoint(graph.returns) or graph.annotation in changed
        ):
            returned = [self.values[node] for node in graph.returns]
            if not graph.returns and not graph.yields:
                returned = [] if self.is_abstract() else [one(NONE)]
            self.access.write(
                Key("return", identity), (identity, -1), self.declared(join(returned))
            )
        if graph.yields and (whole or not changed.isdisjoint(graph.yields)):
            element = join(self.values[node] for node in graph.yields)
            self.access.write(Key("yield", identity), (identity, -1), element)
        if graph.yields and (graph.contexts or set(self.facts.decorated) & CONTEXT_MAKERS):
            self.publish_context(ops.YIELD)
        if self.facts.name in ENTERING and self.facts.cls is not None:
            self.publish_context(ops.RETURN)
        for scope, site, bound in self.published(whole):
            for name, nodes in bound.items():
                value = join(self.values[n] for n in nodes)
                self.access.write(Key("name", scope, name), (identity, site), value)

    def is_abstract(self) -> bool:
        """Whether a method is there for subclasses to define: it does nothing, or raises
        NotImplementedError. What it would return is what they return, and not None."""
        if self.facts.cls is None:
            return False
        nodes = self.graph.nodes
        if all(node.op in (ops.PARAM, ops.CONST) for node in nodes):
            return True
        raised = (operand for node in nodes if node.op == ops.RAISE for operand in node.operands)
        return "abstractmethod" in self.facts.decorated or any(
            nodes[nodes[each].operands[0] if nodes[each].op == ops.CALL else each].data
            == "NotImplementedError"
            for each in raised
        )

    def published(self, whole: bool) -> Iterator[tuple[str, int, Mapping[str, Ordered[int]]]]:
        """The names whose values may have changed: in which scope, as what site, at which nodes."""
        for scope, site, bound in (
            (self.facts.id, -1, self.state.published),
            (f"{self.facts.path}::", GLOBALS, self.graph.globals),
        ):
            if whole:
                yield scope, site, bound
            elif bound:
                changed = self.changed
                yield scope, site, {n: at for n, at in bound.items() if not changed.isdisjoint(at)}

    def declared(self, returned: Value) -> Value:
        """The value that a function returns; where that is not known, the value of its annotation.

        Only for instances of the project's classes and containers of them: of a tensor it would say
        neither dtype nor device, and hide what the use of the result says.
        """
        if self.graph.annotation < 0 or (returned and not any(is_vague(a) for a in returned)):
            return returned
        declared = annotated(self.frame.of(self.graph.annotation), Device(None), self.frame.models)
        if not any(holds_instance(atom) for atom in declared):
            return returned
        return join([known(returned), declared])

    def publish_context(self, end: Op) -> None:
        """The contexts that a context of the project enters: see `contexts_at`."""
        contexts = [contexts_in(self.values[n]) for n in contexts_at(self.graph, end)]
        identity = self.facts.id
        self.access.write(Key("context", identity), (identity, -1), join(contexts))

    def transfer(self, node: Node) -> Value:
        handler = HANDLERS.get(node.op)
        return handler(self, node) if handler is not None else UNKNOWN

    def op_const(self, node: Node) -> Value:
        value = node.data
        if value is None:
            return one(NONE)
        if isinstance(value, bool | int | float | str):
            return of_constant(type(value).__name__, value)
        return one(ranks.ELLIPSIS) if value is ... else transfer.OBJECT

    def op_unbound(self, _: Node) -> Value:
        return BOTTOM

    def op_phi(self, node: Node) -> Value:
        start = self.frame.marks.starts.get(self.frame.number)
        if start is not None:
            value = join(self.values[n] for n in node.operands if n != start)
            if any(isinstance(atom, Tensor) for atom in value):
                return value
        return join(self.frame.operands(node))

    def op_name(self, node: Node) -> Value:
        return self.inference.names.outer_name(self.facts, node.data)

    def op_import(self, node: Node) -> Value:
        if node.data[1] == "*" or self.is_idle_import():
            return BOTTOM
        return self.inference.names.import_value(self.facts.path, node.data)

    def is_idle_import(self) -> bool:
        """Whether a module of another part imports what nothing in it is made of, and nobody asks
        it for: following all of them would lead through the whole project."""
        state, name = self.state, self.state.names.get(self.frame.number, "")
        if (
            self.access.outside
            and not state.users[self.frame.number]
            and not self.access.is_demanded(Key("name", self.facts.id, name))
        ):
            state.passed_over.add(self.frame.number)
            return True
        return False

    @cached_property
    def observed(self) -> Mapping[int, Value]:
        """The values that runs of the program have shown, by node."""
        return self.inference.unseen.observed_values(self.facts, self.graph)

    def op_attr(self, node: Node) -> Value:
        owner = transfer.having(self.frame.of(node.operands[0]), node.data)
        return join(self.attributes.attribute(atom, node.data, node) for atom in ordered(owner))

    def op_store(self, node: Node) -> Value:
        target, value = self.frame.operands(node)
        if self.graph.nodes[node.second].op in (ops.ADD, ops.PUT):
            # `self.xs.append(x)`: what is unknown of the list must not come back as its own proof.
            value = known(value)
        for atom in ordered(target):
            if isinstance(atom, Instance):
                site = self.frame.here
                self.access.write(Key("field", atom.cls, node.data), site, value)
                parameter = self.kept_parameter(node)
                if parameter is not None:
                    self.access.write(Key("kept", atom.cls, node.data), site, parameter)
        return value

    def kept_parameter(self, store: Node) -> Value | None:
        """The name of the parameter that a constructor stores as it is. Ex) self.model = model"""
        owner, stored = (self.graph.nodes[self.graph.narrowed(n)] for n in store.operands)
        if self.facts.name != "__init__" or owner.op != ops.PARAM or stored.op != ops.PARAM:
            return None
        is_own = owner.data == self.facts.params[0].name != stored.data
        return one(Host("str", stored.data, True)) if is_own else None

    def op_binop(self, node: Node) -> Value:
        left, right = self.frame.operands(node)
        if node.data == "BitOr" and self.facts.kind != "lambda":
            kinds = [*left, *right]
            if any(isinstance(a, Class | Symbol) for a in kinds):
                return join([left, right])  # an annotation: `Tensor | None`
        return self.frame.applied(transfer.binary, node, node.data, left, right)

    def op_aug(self, node: Node) -> Value:
        target, value = self.frame.operands(node)
        return self.frame.applied(transfer.augmented, node, node.data, target, value)

    def op_unary(self, node: Node) -> Value:
        return self.frame.applied(transfer.unary, node, node.data, self.frame.of(node.operands[0]))

    def op_compare(self, node: Node) -> Value:
        return self.frame.applied(
            transfer.compare, node, node.data, tuple(self.frame.operands(node))
        )

    def op_bool(self, node: Node) -> Value:
        """A context is true: it ends an `or`, and an `and` goes on after it."""
        *first, last = self.frame.operands(node)
        if node.data == "And":
            return join([*(value for value in first if not is_context(value)), last])
        ends = next((n for n, value in enumerate(first, 1) if is_context(value)), None)
        return join([*first, last][:ends])

    def op_tuple(self, node: Node) -> Value:
        if any(self.graph.nodes[n].op == ops.STARRED for n in node.operands):
            return self.op_set(node)
        return one(Sequence(tuple(self.frame.operands(node)), BOTTOM))

    op_list = op_tuple

    def op_set(self, node: Node) -> Value:
        values = zip(node.operands, self.frame.operands(node), strict=True)
        elements = (
            transfer.iterate(value) if self.graph.nodes[number].op == ops.STARRED else value
            for number, value in values
        )
        return one(Sequence(None, join(elements)))

    def op_dict(self, node: Node) -> Value:
        values = self.frame.operands(node)
        items = named_items(node.data, values)
        if items is not None:
            return one(MappingValue(BOTTOM, tuple((key, items[key]) for key in sorted(items))))
        rest: list[Value] = []
        for key, value in zip(node.data, values, strict=True):
            if key is not None:
                rest.append(value)
            else:
                rest += map(under_computed_key, value)
        return one(MappingValue(join(rest), (), len({*node.data}) > MAX_KEYS))

    def op_starred(self, node: Node) -> Value:
        return self.frame.of(node.operands[0])

    op_await = op_return = op_starred

    def op_fstring(self, node: Node) -> Value:
        return self.frame.applied(transfer.text_begun, node, next(iter(node.data), None))

    def op_slice(self, _: Node) -> Value:
        return transfer.OBJECT

    def op_subscript(self, node: Node) -> Value:
        container, index = self.frame.operands(node)
        keys = self.between_brackets(node.second, index)
        results: list[Value] = []
        for atom in ordered(container):
            if isinstance(atom, Symbol):
                results.append(annotation_subscript(atom, index, self.frame.models))
            elif isinstance(atom, Instance):
                results.append(self.instance_item(atom, index, node))
            else:
                results.append(transfer.subscript_atom(atom, index, keys))
        return join(results)

    def between_brackets(self, number: int, index: Value) -> tuple[Value, ...]:
        """Ex) 0 and None in x[0, None]; nothing where they are not known: x[indices]

        A tuple is as good as its elements, a list of them is one index that gathers.
        """
        node = self.graph.nodes[number]
        if node.op != ops.TUPLE:
            tells = node.op == ops.LIST or not any(isinstance(a, Sequence) for a in index)
            return (index,) if tells else ()
        if any(self.graph.nodes[n].op == ops.STARRED for n in node.operands):
            return ()
        return tuple(self.frame.operands(node))

    def instance_item(self, instance: Instance, index: Value, node: Node) -> Value:
        """`instance[index]`: by its method, by the order of a named tuple, or by a field's name."""
        row = self.named_tuple(instance)
        if row is not None:
            return transfer.subscript_atom(row, index)
        if self.inference.hierarchy.methods(instance.cls, "__getitem__"):
            return self.call_dunder(instance, "__getitem__", Arguments((index,)), node)
        key = constant(index)
        if isinstance(key, str):
            return self.stored_field(instance, key)
        return UNKNOWN

    def named_tuple(self, instance: Instance) -> Sequence | None:
        """The fields of a `class Output(NamedTuple)`, in order; None for other instances."""
        infer = self.inference
        facts = infer.classes[instance.cls]
        if "NamedTuple" not in facts.bases:
            return None
        names = infer.hierarchy.fields(instance.cls)
        values = (self.stored_field(instance, name) for name in names)
        return Sequence(tuple(values), BOTTOM, names=names)

    def stored_field(self, instance: Instance, name: str) -> Value:
        identified = self.attributes.identified_field(instance, name)
        return identified or self.access.read(Key("field", instance.cls, name)) or UNKNOWN

    def call_dunder(self, instance: Instance, name: str, arguments: Arguments, node: Node) -> Value:
        ids = self.inference.hierarchy.methods(instance.cls, name)
        if not ids:
            return UNKNOWN
        return join(self.calls.call_function(Function(i, instance), arguments, node) for i in ids)

    def op_iter(self, node: Node) -> Value:
        results: list[Value] = []
        for atom in ordered(self.frame.of(node.operands[0])):
            if isinstance(atom, Instance):
                row = self.named_tuple(atom)
                if row is not None:
                    results.append(transfer.iterate_atom(row))
                elif self.inference.hierarchy.methods(atom.cls, "__iter__"):
                    iterator = self.call_dunder(atom, "__iter__", Arguments(), node)
                    if not any(isinstance(a, Instance) for a in iterator):
                        results.append(transfer.iterate(iterator) if iterator else iterator)
                    else:
                        results.append(UNKNOWN)
                elif self.inference.hierarchy.is_loader(atom.cls):
                    results.append(one(TensorTree(atom.device if atom.device.kind else CPU)))
                else:
                    results.append(UNKNOWN)
            else:
                results.append(transfer.iterate_atom(atom))
        return join(results)

    def op_unpack(self, node: Node) -> Value:
        rows = (
            (isinstance(a, Instance) and self.named_tuple(a)) or a
            for a in ordered(self.frame.of(node.operands[0]))
        )
        return transfer.unpack(frozenset(rows), *node.data)

    def op_enter(self, node: Node) -> Value:
        results: list[Value] = []
        for atom in ordered(self.frame.of(node.operands[0])):
            if isinstance(atom, Instance):
                context = self.call_dunder(atom, "__enter__", Arguments(), node)
                results.append(context)
            elif isinstance(atom, Object | Sequence):
                results.append(one(atom))  # `with tqdm(loader) as bar`
            else:
                results.append(UNKNOWN)
        return join(results)

    def op_comp(self, node: Node) -> Value:
        (element,) = node.operands
        starred = self.graph.nodes[element].op == ops.STARRED
        value = self.frame.of(element)
        return one(Sequence(None, transfer.iterate(value) if starred else value))

    def op_dictcomp(self, node: Node) -> Value:
        _, *values = self.frame.operands(node)
        if len(values) == 2 and all(isinstance(a, MappingValue) for a in values[1]):
            return values[1]  # what the test leaves out is not asked for
        return one(MappingValue(values[0] if values else UNKNOWN))

    def op_put(self, node: Node) -> Value:
        container, index, value = self.frame.operands(node)
        return transfer.put(container, index, value)

    def op_add(self, node: Node) -> Value:
        container, value = self.frame.operands(node)
        if node.data == COLLATE:
            return self.calls.collated(transfer.collating(container), value)
        return transfer.add(container, value, node.data)

    def op_narrow(self, node: Node) -> Value:
        value, *classes = self.frame.operands(node)
        return narrow(value, node.data, join(classes), self.frame.models)

    def op_def(self, node: Node) -> Value:
        """The function, through the decorators of the project."""
        identity = node.data
        decorators = self.frame.operands(node)
        if decorators:
            site = self.frame.here
            self.access.write(Key("decorators", identity), site, join(decorators))
        if any(map(self.compiles_kernel, node.operands)):
            return UNKNOWN
        value = one(Function(identity))
        for decorator in reversed(decorators):
            functions: list[Value] = []
            for atom in ordered(decorator):
                if isinstance(atom, Class) or self.calls.run_by(atom):
                    result = self.calls.call(atom, Arguments((value,)), node)
                    functions.append(frozenset(a for a in result if isinstance(a, Function)))
                    if isinstance(atom, Function) and self.decorates_many(atom):
                        functions.append(value)
            value = join(functions) or value
        return value

    def compiles_kernel(self, number: int) -> bool:
        """Whether a node is a decorator, or makes one, that compiles what it is given."""
        node = self.frame.graph.nodes[number]
        decorator = self.frame.of(node.operands[0] if node.op == ops.CALL else number)
        return any(
            isinstance(atom, Symbol) and atom.name in libraries.KERNEL_DECORATORS
            for atom in decorator
        )

    def decorates_many(self, decorator: Function) -> bool:
        """Whether a wrapper of this decorator calls more functions than can be kept apart, so that
        a call of the wrapper has to be taken for one of what it wraps."""
        wrapped = self.binding.open_places(decorator)[:1]
        return any(is_open(self.access.read(Key("param", decorator.id, p.name))) for p in wrapped)

    def op_default(self, node: Node) -> Value:
        value = self.frame.of(node.operands[0])
        # `device=torch.device("cpu")` is what nobody has chosen, as `device="cpu"` is.
        default = frozenset(a for a in value if not (isinstance(a, Device) and a.kind == CPU.kind))
        site = self.frame.here
        self.access.write(Key("default", *node.data), site, default)
        # A callback by default is what users of a library run, whatever the library passes itself.
        functions = frozenset(a for a in default if isinstance(a, Function))
        if functions:
            self.access.write(Key("param", *node.data), site, functions)
        return value

    def op_class(self, node: Node) -> Value:
        identity = node.data
        bases = tuple(self.frame.operands(node))
        self.access.write_bases(identity, bases)
        self.access.write(Key("bases", identity), self.frame.here, join(self.frame.operands(node)))
        return one(Class(identity))

    def op_lambda(self, node: Node) -> Value:
        return one(Function(node.data))

    def op_call(self, node: Node) -> Value:
        return self.calls.value(node)

    def op_param(self, node: Node) -> Value:
        return self.parameters.value(node)


HANDLERS: Mapping[Op, Callable[[Evaluation, Node], Value]] = {
    Op(name.removeprefix("op_")): method
    for name, method in vars(Evaluation).items()
    if name.startswith("op_")
}


@lru_cache(maxsize=2_000)  # a sixth of all nodes are constants, most of them the same few
def of_constant(kind: str, value: bool | float | str) -> Value:
    """The value that is a constant. (The kind distinguishes True and 1.0 from 1.)"""
    return one(Host(kind, value, True))


# What `**` cannot be given, so that it stands under a key that is computed. (A nest of tensors
# may be a dict: what `**` takes out of it is such a nest again.)
NO_MAPPINGS = Tensor | TensorTree | Host | Function | Sequence


def named_items(keys: Iterable[object], values: Iterable[Value]) -> dict[str, Value] | None:
    """The items of a dict that is written out, those of a dict in it included; None where some have
    no known key, or there are too many.

    Args:
        keys: the constants; None for what is computed, and in front of `**x`.
    """
    items: dict[str, Value] = {}
    for key, value in zip(keys, values, strict=True):
        inside = only(value)
        if isinstance(key, str):
            items[key] = value
        elif key is None and isinstance(inside, MappingValue) and is_named(inside):
            items.update(inside.items)
        else:
            return None
    return items if len(items) <= MAX_KEYS else None


def under_computed_key(atom: Atom) -> Value:
    """The values that `{key: x}` or `{**x}` puts into a dict."""
    if isinstance(atom, MappingValue):
        return any_value(atom)
    return one(atom) if isinstance(atom, NO_MAPPINGS) else UNKNOWN


def is_context(value: Value) -> bool:
    """Whether this surely is a context of torch."""
    return surely(value, Autocast | NoGrad)


def holds_instance(atom: Atom) -> bool:
    """Whether this is an instance of a class of the project, or a container of such."""
    if isinstance(atom, Sequence | MappingValue):
        return any(holds_instance(part) for value in inner(atom) for part in value)
    return isinstance(atom, Instance)
