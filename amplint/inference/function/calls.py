"""Calls: what is called, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from amplint.inference import transfer
from amplint.inference.function.attributes import MODULE_CONVERSIONS, AttributeReads
from amplint.inference.function.binding import ArgumentBinding
from amplint.inference.function.frame import Frame, FramePart
from amplint.inference.function.frameworks import FrameworkCalls
from amplint.inference.function.results import CallResults
from amplint.inference.state import Key
from amplint.inference.transfer import options
from amplint.inference.transfer.factories import PARAMETERS
from amplint.inference.transfer.kinds import INT
from amplint.inference.whole_program.class_hierarchy import AUTOGRAD_FUNCTION, MAX_BY_NAME
from amplint.ir import ops
from amplint.ir.flow import method_called
from amplint.ir.model import Graph, Node
from amplint.ir.ops import Op
from amplint.ir.ssa import ENTERING, STACKING
from amplint.knowledge import casts, libraries
from amplint.knowledge.factories import LEGACY_CONSTRUCTORS
from amplint.knowledge.operations import MEASURES
from amplint.util.walks import reachable
from amplint.values.atoms import (
    ACCELERATOR,
    BOTTOM,
    CPU,
    UNKNOWN,
    Arguments,
    Atom,
    Autocast,
    Class,
    Device,
    Function,
    Instance,
    Mapping,
    Method,
    NoGrad,
    Object,
    Sequence,
    Shows,
    Super,
    Symbol,
    Tensor,
    TensorTree,
    Unknown,
    Value,
    constant,
    entered,
    first_of,
    one,
    ordered,
)
from amplint.values.atoms import moved as moved_to
from amplint.values.lattice import MAX_ALTERNATIVES, inner, is_open, is_unknown, join, only

MAX_EVENTS = 24  # names of methods that calls give for one parameter
CONTEXT_MAKERS = frozenset({"contextmanager", "asynccontextmanager"})
# Where nothing is known of what is asked for such a method, it returns what theirs returns.
LIKELY_OWNERS: dict[str, Atom] = {
    **dict.fromkeys(MEASURES, Tensor()),
    **dict.fromkeys(libraries.PARSES, Object("parser", "?")),
}
MOVES = frozenset({"to", "cuda", "xpu"})
DICTS = frozenset({"builtins.dict", "collections.OrderedDict"})
ANY_MODULE: tuple[Atom, ...] = (Unknown(), Object("module", "?"))
CALLS_ITS_ARGUMENT = frozenset(
    {"builtins.map", "torch.utils.checkpoint.checkpoint", "torch.compile.__call__"}
)


class Calls(FramePart):
    """The calls in one function.

    Args:
        binding: gives what is called its arguments.
        frameworks: know what calls ask of them.
        attributes: what `getattr` reads.
    """

    def __init__(
        self,
        frame: Frame,
        binding: ArgumentBinding,
        frameworks: FrameworkCalls,
        attributes: AttributeReads,
    ) -> None:
        super().__init__(frame)
        self.binding = binding
        self.frameworks = frameworks
        self.attributes = attributes
        self.results = CallResults(frame, binding)

    def value(self, node: Node) -> Value:
        """The result of a call, and the note of all that it does elsewhere."""
        values = self.frame.operands(node)
        arguments = self.binding.arguments_of(self.graph, node, values[1:])
        results: list[Value] = []
        self.access.calls.edges[self.frame.here] = set()
        self.note_option(node, arguments)
        self.frameworks.note_hook(node, arguments)
        self.frameworks.note_method(node)
        self.attributes.note_saved(arguments, node)
        callees = transfer.chosen_types(values[0])
        if several(callees):
            callees = frozenset(a for a in callees if self.binding.takes(a, arguments))
            arguments = by_name(arguments)
        for atom in ordered(callees):
            cast = self.cast_of_unknown(atom, arguments, node)
            if cast is not None:
                results.append(cast)
            elif (
                isinstance(atom, Method)
                and atom.of in ANY_MODULE
                and (methods := self.inference.hierarchy.module_methods(atom.name))
            ):
                results.append(self.call_by_name(methods, arguments, node))
            elif isinstance(atom, Unknown) and self.graph.nodes[node.operands[0]].op == ops.ATTR:
                results.append(self.call_overridden(arguments, node))
            else:
                results.append(self.call(atom, arguments, node))
        result = join(results)
        self.note_move(node, result)
        return result

    def note_move(self, node: Node, moved: Value) -> None:
        """`self.model.to(device)` moves the module that the field holds, in place."""
        method, receiver = method_called(self.graph, node)
        if method not in MOVES:
            return
        field = self.graph.nodes[self.graph.narrowed(receiver)]
        if field.op != ops.ATTR:
            return
        modules = frozenset(a for a in moved if is_module_on_device(a))
        for owner in self.frame.of(field.operands[0]):
            if isinstance(owner, Instance) and modules:
                site = self.frame.here
                self.access.write(Key("field", owner.cls, field.data), site, modules)

    def call_overridden(self, arguments: Arguments, node: Node) -> Value:
        """`callback.on_step(...)`, which more classes override than a value can name; and what is
        unknown, but returns a number by the name of the method: `key.size(-1)`."""
        callee = self.graph.nodes[node.operands[0]]
        owner = self.frame.of(callee.operands[0])
        for identity, instance in self.many_methods(owner, callee.data):
            self.call_function(Function(identity, instance), arguments, node)
        value = self.call(Unknown(), arguments, node)
        likely = LIKELY_OWNERS.get(callee.data)
        return (
            join([value, self.frame.called(Method(likely, callee.data), arguments, node)])
            if likely
            else value
        )

    def cast_of_unknown(self, atom: Atom, arguments: Arguments, node: Node) -> Value | None:
        """`q.half()` of a parameter that nobody knows, `x.to(torch.half)` of a batch: a tensor, if
        it is then used as one; and `x.to(device)` of what a loop draws: a tensor or a nest of them.
        """
        if not isinstance(atom, Method):
            return None
        is_tensor = (
            self.frame.number in self.frame.marks.tensors
            or self.frame.number in self.frame.marks.joined
        )
        if isinstance(atom.of, TensorTree) and atom.name == "to":
            is_cast = is_tensor and any(map(transfer.names_dtype, arguments.all))
            whole = replace(atom, of=Tensor(device=atom.of.device))
            return self.frame.called(whole, arguments, node) if is_cast else None
        if not isinstance(atom.of, Unknown):
            return None
        legacy = LEGACY_CONSTRUCTORS.get(f"torch.{atom.name}")
        if legacy is not None:  # `get_accelerator().FloatTensor([norm])`
            return one(Tensor(legacy[0]))
        if atom.name not in MODULE_CONVERSIONS:
            return None
        if atom.name in MOVES and self.is_moved_tensor(node):
            moved = self.frame.called(replace(atom, of=TensorTree()), arguments, node)
            if all(isinstance(a, TensorTree) and a.device.kind for a in moved):
                return moved
        if atom.name in ("cuda", "xpu"):
            return UNKNOWN
        if atom.name == "to":
            target = arguments.get("dtype", 0) or UNKNOWN
            dtype = transfer.dtype_of(target) if transfer.names_dtype(target) else None
        else:
            dtype = casts.DTYPE_OF_CAST.get(f"Tensor.{atom.name}")
        return one(Tensor(dtype)) if dtype is not None and is_tensor else UNKNOWN

    def is_moved_tensor(self, call: Node) -> bool:
        """Whether what is moved is a tensor or a nest of them: what a loop draws from an iterable,
        or a part of it, or what is then used as a tensor; and is not called, as a module is."""
        _, number = method_called(self.graph, call)
        if number < 0:
            return False  # one that was handed on
        if (
            self.frame.marks.nodes.get(number) == "module"
            or self.frame.number in self.frame.marks.called
        ):
            return False
        if self.frame.number in self.frame.marks.tensors:
            return True
        for _ in range(6):
            node = self.graph.nodes[number]
            if node.op == ops.ITER or (node.op == ops.PARAM and self.facts.kind == "lambda"):
                return True
            if node.op == ops.CALL:
                callee = self.values[node.operands[0]]
                return any(isinstance(a, Symbol) and a.name == "builtins.next" for a in callee)
            if node.op not in (ops.UNPACK, ops.SUBSCRIPT, ops.NARROW, ops.PHI) or not node.operands:
                return False
            number = node.operands[0]
        return False

    def note_option(self, node: Node, arguments: Arguments) -> None:
        """`add_argument("--workers", type=int, default=4)`: an option of the command line."""
        if method_called(self.graph, node)[0] != "add_argument":
            return
        option = options.declared(arguments)
        if option is not None:
            site = self.frame.here
            self.access.write(Key("option", "", option.name), site, option.value)
            if option.is_off:
                self.access.calls.off_flags[site] = option.name

    def call_by_name(self, methods: Iterable[str], arguments: Arguments, node: Node) -> Value:
        """`model.calculate_loss(batch)`, the model unknown: the methods of that name."""
        results: list[Value] = []
        for identity in methods:
            cls = self.inference.functions[identity].cls
            assert cls is not None
            results.append(self.call_function(Function(identity, Instance(cls)), arguments, node))
        return join([*results, UNKNOWN])

    def call(self, atom: Atom, arguments: Arguments, node: Node) -> Value:
        infer = self.inference
        if isinstance(atom, Function):
            return self.call_function(atom, arguments, node)
        if isinstance(atom, Class):
            makers = infer.hierarchy.methods(atom.id, "__init__", overridden=False)
            for identity in makers:
                self.binding.enter(identity, node, arguments, Instance(atom.id))
            if not makers:
                self.frameworks.note_made(atom.id, arguments, node)
                if infer.hierarchy.library_bases(atom.id) & DICTS:
                    return self.frame.called(Symbol("builtins.dict"), arguments, node)
                self.binding.fill_fields(atom.id, arguments)
            inputs = self.binding.identified(atom.id, makers, arguments)
            contexts = self.contexts_of(atom.id, makers, arguments, node)
            if contexts:
                return join([one(Instance(atom.id, inputs=inputs)), contexts])
            # One with a `__next__` of its own may have moved the batches.
            draws = infer.hierarchy.methods(atom.id, "__next__")
            if infer.hierarchy.is_loader(atom.id) and self.hands_on(makers) and not draws:
                device = transfer.host_memory(
                    "torch.utils.data.DataLoader", arguments, self.frame.site(node)
                )
                if makers and device.pinned:  # a constructor may hand on a `collate_fn` of its own
                    device = replace(device, pinned=False, pinned_within=True)
                return one(Instance(atom.id, device, inputs))
            return one(Instance(atom.id, inputs=inputs))
        if isinstance(atom, Instance):
            return self.call_instance(atom, arguments, node)
        if isinstance(atom, Method) and isinstance(atom.of, Instance):
            if atom.name in ("__call__", "forward"):
                return self.call_instance(atom.of, arguments, node)
            if atom.name in ("register_buffer", "register_parameter"):
                self.register(atom.of, arguments, node)
            if atom.name == "__init__":  # of a base in a library
                self.frameworks.note_made(atom.of.cls, arguments, node)
                opened = self.opened_by_base(atom.of.cls, arguments, node)
                if opened:
                    self.access.write(Key("context", self.facts.id), self.frame.here, opened)
            value = self.frameworks.given_by(atom, node)
            return value if value is not None else self.frame.called(atom, arguments, node)
        if isinstance(atom, Method) and is_executor(atom.of) and atom.name in libraries.EXECUTES:
            self.execute(atom.name, arguments)
        if isinstance(atom, Object) and atom.holds:
            self.enter_held(atom.holds, node)
        if isinstance(atom, Method) and isinstance(atom.of, Class):
            return self.apply_function(atom.of, arguments, node)
        if isinstance(atom, Unknown) or (isinstance(atom, Method) and atom.name == "step"):
            self.run_closure(arguments, node)
        if isinstance(atom, Symbol):
            self.frameworks.note_precision(atom.name, arguments)
            self.frameworks.note_runner(atom.name, arguments, node)
            special = self.call_special(atom.name, arguments, node)
            if special is not None:
                return special
            if infer.hierarchy.kind_of(atom.name) == "loader":
                loader = self.frame.called(atom, arguments, node)
                own = arguments.get("collate_fn", 6)
                return (
                    self.collated(loader, own)
                    if own is not None
                    else self.stacked(loader, arguments.get("dataset", 0) or BOTTOM)
                )
            if atom.name in PARAMETERS and constant(arguments.get("requires_grad", 1)) is False:
                # One with a graph is known as a parameter where it is read.
                parameter = self.frame.called(atom, arguments, node)
                return self.as_module(parameter, "the parameter", node)
        return self.frame.called(atom, arguments, node)

    def contexts_of(self, cls: str, makers: list[str], arguments: Arguments, node: Node) -> Value:
        """The contexts that an instance enters where a `with` is given it: a subclass of autocast
        is one, and an `__enter__` may enter others.

        Args:
            makers: the constructors of the class.
            arguments: those of the call that makes the instance.
        """
        infer = self.inference
        entering = infer.hierarchy.methods(cls, "__enter__")
        if infer.hierarchy.library_bases(cls) & libraries.AUTOCASTS.keys():
            if not makers:
                return self.opened_by_base(cls, arguments, node)
            entering = makers
        contexts = join(self.access.read(Key("context", each)) for each in entering)
        if not contexts or len(makers) != 1:
            return contexts
        # All instances of a class have one value there. Where that does not say whether the region
        # is on, what this one is given does.
        values = self.binding.by_parameter(Function(makers[0], Instance(cls)), arguments)
        switch = {k: v for k, v in values.items() if k == "enabled" and constant(v) is not None}
        return frozenset(
            transfer.with_options(a, switch, unsure=False)
            if isinstance(a, Autocast) and a.enabled is None
            else a
            for a in contexts
        )

    def opened_by_base(self, cls: str, arguments: Arguments, node: Node) -> Value:
        """The region of a subclass of autocast whose base is given these arguments."""
        names = sorted(libraries.AUTOCASTS.keys() & self.inference.hierarchy.library_bases(cls))
        return join(
            one(transfer.autocast(name, arguments, self.frame.site(node))) for name in names
        )

    def collated(self, loader: Value, collate: Value) -> Value:
        """A loader, whose batches are on the device if its `collate_fn` moves all tensors there."""
        returned = self.returned(i for function in ordered(collate) for i in self.run_by(function))
        parts = reachable(returned, contents)
        return with_batches(loader, [a for a in parts if isinstance(a, Tensor | TensorTree)])

    def stacked(self, loader: Value, dataset: Value) -> Value:
        """A loader without a `collate_fn`, whose batches are on the device if the items of its
        dataset are nothing but tensors there: numbers and arrays are stacked on the CPU."""
        classes = [atom.cls for atom in dataset if isinstance(atom, Instance)]
        if len(classes) < len(dataset):
            return loader
        methods = self.inference.hierarchy.methods
        returned = self.returned(i for cls in sorted(classes) for i in methods(cls, "__getitem__"))
        parts = [a for a in reachable(returned, contents) if not isinstance(a, Sequence | Mapping)]
        tensors = [a for a in parts if isinstance(a, Tensor | TensorTree)]
        return with_batches(loader, tensors) if len(tensors) == len(parts) else loader

    def returned(self, functions: Iterable[str]) -> list[Atom]:
        """All that functions may return."""
        return [a for i in functions for a in ordered(self.access.read(Key("return", i)))]

    def run_by(self, function: Atom) -> list[str]:
        """The functions of the project that a call of this runs."""
        if isinstance(function, Instance):
            return self.inference.hierarchy.methods(function.cls, "__call__")
        return [function.id] if isinstance(function, Function) else []

    def enter_held(self, modules: Value, node: Node) -> None:
        """Calling a Sequential calls what it holds; what each is given is not followed."""
        for atom in ordered(modules):
            if isinstance(atom, Instance):
                for identity in self.inference.hierarchy.methods(atom.cls, "forward"):
                    self.binding.enter(identity, node, None, None)

    def apply_function(self, function: Class, arguments: Arguments, node: Node) -> Value:
        """`Function.apply(x)`: its `forward`, with a context in front."""
        context = one(Object("context", AUTOGRAD_FUNCTION))
        with_context = replace(arguments, positional=(context, *arguments.positional))
        ids = self.inference.hierarchy.methods(function.id, "forward", overridden=False)
        return join(self.call_function(Function(i), with_context, node) for i in ids) or UNKNOWN

    def run_closure(self, arguments: Arguments, node: Node) -> None:
        """`optimizer.step(closure)` calls the closure, whatever the optimizer is."""
        if method_called(self.graph, node)[0] != "step":
            return
        for value in arguments.positional[:1]:
            for atom in ordered(value):
                if isinstance(atom, Function):
                    self.call_function(atom, Arguments(), node)

    def register(self, module: Instance, arguments: Arguments, node: Node) -> None:
        """A buffer or parameter is a field of the module, and moves with it."""
        name = constant(arguments.get("name", 0))
        value = arguments.get("tensor", 1) or arguments.get("param", 1) or UNKNOWN
        if isinstance(name, str):
            device = self.frame.usual_device(node, "the module's tensors live on the device")
            moved = join(
                one(moved_to(a, device)) if isinstance(a, Tensor | TensorTree) else one(a)
                for a in value
            )
            site = self.frame.here
            self.access.write(
                Key("field", module.cls, name), site, self.as_module(moved, f"`{name}`", node)
            )

    def as_module(self, value: Value, name: str, node: Node) -> Value:
        """A tensor of a module, in the dtype that callers cast it to, where the settings assume
        that."""
        dtype = self.inference.unseen.presumption.dtype_of_modules
        if dtype is None:
            return value
        text = f"{name} is {dtype} here, as the module is"
        evidence = self.frame.evidence(node, text, Shows.ACTIVATION)
        return transfer.floats_as(dtype, evidence, value)

    def call_special(self, name: str, arguments: Arguments, node: Node) -> Value | None:
        """Calls of libraries that call something of the project in turn."""
        if name == "builtins.super":
            if self.facts.cls is None:
                return UNKNOWN
            return one(Super(self.facts.cls, self.facts.cls))
        if name == "functools.partial" and arguments.positional:
            return self.partial(arguments, node)
        if name in libraries.THREADS:
            self.start_thread(name, arguments)
        if name in CALLS_ITS_ARGUMENT and arguments.positional:
            inner = replace(arguments, positional=arguments.positional[1:])
            if name == "builtins.map":
                inner = Arguments(tuple(transfer.iterate(v) for v in arguments.positional[1:]))
                result = join(self.call(a, inner, node) for a in ordered(arguments.positional[0]))
                return one(Sequence(None, result))
            return join(self.call(a, inner, node) for a in ordered(arguments.positional[0]))
        maker = self.frame.models.maker(name)
        if maker is not None and maker.builds == "lists":
            return self.called_with_each(arguments, node)
        if name == "builtins.getattr" and len(arguments.positional) >= 2:
            owner, key = arguments.positional[:2]
            attribute = constant(key)
            if isinstance(attribute, str):
                values = [self.attributes.attribute(a, attribute, node) for a in ordered(owner)]
                return join([*values, *arguments.positional[2:3]])
            written = self.name_written(node)
            names = self.names_given(written)
            if names:
                self.dispatch(owner, names, self.graph.nodes[written].data)
            return UNKNOWN
        if (
            name in ("builtins.iter", "builtins.next", "builtins.enumerate", "tqdm.tqdm")
            or name in libraries.PASS_THROUGH
        ):
            return self.frame.called(Symbol(name), self.loaders(arguments), node)
        return None

    def called_with_each(self, arguments: Arguments, node: Node) -> Value:
        """A list for each result of the first argument, called with the elements of the others."""
        elements = tuple(transfer.iterate(value) for value in arguments.positional[1:])
        inner = replace(arguments, positional=elements)
        work = arguments.positional[0] if arguments.positional else BOTTOM
        results = join(self.call(atom, inner, node) for atom in ordered(work))
        rows = [a.items for a in results if isinstance(a, Sequence) and a.items is not None]
        if len(rows) != len(results) or len(set(map(len, rows))) != 1:
            return UNKNOWN
        columns = (join(column) for column in zip(*rows, strict=True))
        return one(Sequence(tuple(one(Sequence(None, each)) for each in columns), BOTTOM))

    def start_thread(self, name: str, arguments: Arguments) -> None:
        """Ex) Thread(target=work, args=(x,)), asyncio.to_thread(work, x)"""
        keyword, position, packed = libraries.THREADS[name]
        work = arguments.get(keyword, position) or BOTTOM
        if packed is None:
            self.hand_over(work, replace(arguments, positional=arguments.positional[1:]))
            return
        inputs = unpacked(arguments.get("args", packed))
        rank = (INT,) if name in libraries.PASS_RANK else ()
        self.hand_over(work, replace(inputs, positional=(*rank, *inputs.positional)))

    def execute(self, method: str, arguments: Arguments) -> None:
        """Ex) executor.submit(work, x), pool.map(work, xs)"""
        work, rest = arguments.positional[:1], arguments.positional[1:]
        if method == "submit":
            inputs = replace(arguments, positional=rest)
        elif method in ("map", "imap", "imap_unordered", "map_async"):
            inputs = Arguments(tuple(transfer.iterate(value) for value in rest))
        else:
            packed = rest[0] if rest else BOTTOM
            inputs = unpacked(transfer.iterate(packed) if method.startswith("star") else packed)
        self.hand_over(join(work), inputs)

    def hand_over(self, work: Value, arguments: Arguments) -> None:
        """Another thread runs this, in no region, and nobody need wait for it: it is not called."""
        site = self.frame.here
        self.access.calls.threads[site] = set(work)
        self.access.regions_may_change()
        for atom in ordered(work):
            if isinstance(atom, Function):
                self.access.write_region(atom.id, site, None)
                self.access.need(atom.id)
                self.binding.bind(atom, arguments)

    def name_written(self, call: Node) -> int:
        """The node of the second argument of a `getattr`, behind tests of it; -1 where it is not
        seen: behind a star, or where something else is called, which calls `getattr` in turn."""
        callees = self.frame.of(call.operands[0])
        number = call.argument(1) if Symbol("builtins.getattr") in callees else -1
        return self.graph.narrowed(number) if number >= 0 else -1

    def dispatch(self, owner: Value, names: list[str], parameter: str) -> None:
        """`getattr(callback, event)`: which methods are meant is up to what each call passes, so
        it is at those calls that the methods are entered. Of an unknown object, it may be that of
        any class: a list of callbacks holds more classes than a value can name."""
        for name in names:
            ids = {identity for identity, _ in self.many_methods(owner, name, 0)}
            if is_open(owner):
                ids.update(self.inference.hierarchy.methods_called(name))
            case = (self.frame.number, parameter, name)
            self.access.write_dispatch(self.facts.id, case, frozenset(ids))

    def dispatched(self, function: Function, arguments: Arguments, node: Node) -> None:
        """Enter the methods that a function finds by the constants of this call."""
        cases = self.access.dispatches(function.id)
        values = self.binding.by_parameter(function, arguments) if cases else {}
        for (_, parameter, name), methods in cases.items():
            if constant(values.get(parameter)) == name:
                for identity in sorted(methods):
                    self.binding.enter(identity, node, None, None)
                    self.access.calls.choices.setdefault(self.frame.here, set()).add(identity)

    def many_methods(
        self, owner: Value, name: str, few: int = MAX_ALTERNATIVES
    ) -> list[tuple[str, Instance]]:
        """The methods of that name that instances may have, where they are more than a few."""
        return [
            (identity, atom)
            for atom in ordered(owner)
            if isinstance(atom, Instance)
            for ids in [self.inference.hierarchy.methods(atom.cls, name)]
            if few < len(ids) <= MAX_BY_NAME
            for identity in ids
        ]

    def names_given(self, number: int) -> list[str]:
        """The constants that calls give for a parameter: the events that a trainer fires."""
        if number < 0 or self.graph.nodes[number].op != ops.PARAM:
            return []
        names = self.access.given_strings(self.facts.id, self.graph.nodes[number].data)
        return names if len(names) <= MAX_EVENTS else []

    def hands_on(self, makers: Iterable[str]) -> bool:
        """Whether all constructors take any keywords, to hand them on to that of the base."""
        functions = self.inference.functions
        return all(any(p.kind == "starstar" for p in functions[m].params) for m in makers)

    def loaders(self, arguments: Arguments) -> Arguments:
        """The arguments, instances of the project's own loader classes as loaders."""
        return replace(
            arguments,
            positional=tuple(join(self.as_loader(a) for a in v) for v in arguments.positional),
        )

    def as_loader(self, atom: Atom) -> Value:
        if isinstance(atom, Instance) and self.inference.hierarchy.is_loader(atom.cls):
            return one(Object("loader", atom.cls, atom.device if atom.device.kind else CPU))
        return one(atom)

    def partial(self, arguments: Arguments, node: Node) -> Value:
        results: list[Value] = []
        rest = arguments.positional[1:]
        for atom in ordered(arguments.positional[0]):
            if isinstance(atom, Function):
                self.binding.bind(atom, replace(arguments, positional=rest))
                names = atom.given_names | frozenset(arguments.keywords)
                results.append(one(replace(atom, first=atom.first + len(rest), given_names=names)))
            elif isinstance(atom, Symbol) and atom.name in libraries.AUTOCASTS:
                inner = replace(arguments, positional=rest)
                results.append(
                    one(
                        transfer.autocast(
                            transfer.canonical(atom.name), inner, self.frame.site(node)
                        )
                    )
                )
            elif isinstance(atom, Symbol) and transfer.canonical(atom.name) in libraries.CLIPPING:
                results.append(one(atom))  # whatever it is given first, it clips
            else:
                results.append(UNKNOWN)
        return join(results)

    def call_function(self, function: Function, arguments: Arguments, node: Node) -> Value:
        infer = self.inference
        facts = infer.functions[function.id]
        self.binding.enter(function.id, node, None, None)
        self.binding.bind(function, arguments)
        self.dispatched(function, arguments, node)
        graph = infer.files[facts.path].graph(function.id)
        if set(facts.decorated) & CONTEXT_MAKERS:
            opened = self.access.read(Key("context", function.id))
            entering = contexts_at(graph, ops.YIELD)
            opened = self.results.specialised(function, arguments, opened, entering)
            return contexts_in(opened) or UNKNOWN
        if graph.yields:
            result = one(Sequence(None, self.access.read(Key("yield", function.id))))
        else:
            result = self.access.read(Key("return", function.id))
            result = self.results.specialised(function, arguments, result, graph.given_back)
        return self.results.as_given_here(function.id, result, node)

    def call_instance(self, instance: Instance, arguments: Arguments, node: Node) -> Value:
        infer = self.inference
        name = "__call__"
        ids = infer.hierarchy.methods(instance.cls, name)
        module = infer.hierarchy.is_module(instance.cls)
        if not ids and module:
            ids = infer.hierarchy.methods(instance.cls, "forward")
        results = [
            self.call_function(Function(identity, instance), arguments, node) for identity in ids
        ]
        value = join(results)
        if instance.wrapped is not None and not instance.keeps:
            value = transfer.as_float32(value)
        operands = transfer.tensors_in(arguments.all)
        if (module and (not ids or is_unknown(value))) or (not ids and operands):
            # A class that cannot be called is mixed into one that can: a module, given tensors.
            site = self.frame.site(node)
            return one(
                TensorTree(transfer.output_device(operands, instance.device, site), "output")
            )
        return value if ids else UNKNOWN


def contexts_in(value: Value) -> Value:
    """The contexts of torch that a `with` may enter."""
    return frozenset(a for a in entered(value) if isinstance(a, Autocast | NoGrad))


def contexts_at(graph: Graph, end: Op) -> set[int]:
    """The contexts that are open where a `@contextmanager` yields, or where an `__enter__` returns.

    Args:
        end: the operation that does.
    """
    blocks = {node.block for node in graph.nodes if node.op == end}
    around = reachable(blocks, lambda n: (graph.blocks[n].parent,) if n else ())
    contexts = {graph.blocks[n].node for n in around if graph.blocks[n].kind == "with"}
    # What a `with` has entered is left where it returns.
    return contexts & entered_by_calls(graph) if end == ops.RETURN else contexts


def entered_by_calls(graph: Graph) -> set[int]:
    """The contexts that calls enter, instead of `with` statements."""
    methods = ((node, *method_called(graph, node)) for node in graph.nodes)
    return {
        node.argument(0) if method in STACKING else receiver
        for node, method, receiver in methods
        if method in STACKING | ENTERING
    }


def contents(atom: Atom) -> Iterator[Atom]:
    """The values that lie in a container."""
    return (each for value in inner(atom) for each in ordered(value))


def with_batches(loader: Value, tensors: Iterable[Tensor | TensorTree]) -> Value:
    """A loader, whose batches are on the device if all tensors that make them are."""
    devices = [tensor.device for tensor in tensors]
    if not devices or any(device.kind != ACCELERATOR for device in devices):
        return loader
    device = Device(ACCELERATOR, first_of(each.evidence for each in devices))
    return frozenset(
        replace(a, device=device) if isinstance(a, Object) and a.kind == "loader" else a
        for a in loader
    )


def is_executor(atom: Atom) -> bool:
    return isinstance(atom, Object) and atom.kind == "executor"


def unpacked(value: Value | None) -> Arguments:
    """The arguments that a tuple holds."""
    atom = only(value or BOTTOM)
    items = atom.items if isinstance(atom, Sequence) else None
    return Arguments(items or (), stars=items is None)


def is_module_on_device(atom: Atom) -> bool:
    return isinstance(atom, Object) and atom.kind == "module" and atom.device.kind == ACCELERATOR


def several(callees: Value) -> bool:
    """Whether a call has more callees than a value keeps apart: those of a table."""
    return sum(isinstance(a, Function) and a.bound is None for a in callees) > MAX_ALTERNATIVES


def by_name(arguments: Arguments) -> Arguments:
    """The arguments of a call that may mean any function of a table: a name says which parameter is
    meant, whatever the function; what is given by position is for one of the functions alone."""
    unsaid = (BOTTOM,) * len(arguments.positional)
    return replace(arguments, positional=unsaid, keywords=arguments.named)
