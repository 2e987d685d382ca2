"""Classes: what they derive from, what derives from them, and what that makes of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from amplint.frameworks.schema import ClassRow as FrameworkClass
from amplint.frameworks.schema import MethodRow as FrameworkMethod
from amplint.inference import transfer
from amplint.inference.state import Key
from amplint.inference.store import Store
from amplint.inference.whole_program.bindings import MAX_IMPORTS, Bindings
from amplint.inference.whole_program.definitions import Definitions
from amplint.ir import ops
from amplint.ir.model import FunctionFacts
from amplint.knowledge import libraries
from amplint.knowledge.host_reads import HOST_READS
from amplint.knowledge.vocabulary import COMMON_METHODS, LOSS_CLASS, STEPS_OF_TRAINING
from amplint.util.walks import Solver, reachable
from amplint.values.atoms import Class, Host, Instance, Symbol, Value, constant, ordered
from amplint.values.lattice import MAX_ALTERNATIVES, agreed

MAX_BY_NAME = 200  # methods of one name, above which a call by name says nothing
# Overriding methods, above which a call is that of the class's own one: what that many do has
# nothing in common, and each call would be a call of all. (Linking fairseq 0.12.2: 30.6 instead of
# 34.8 s.)
MAX_OVERRIDING = 32
MODULES = "torch.nn."
CALLED = frozenset({"like", "lists", "same"})  # what is built by no call of these
# Of the libraries whose classes are known to be modules or none.
NO_MODULES = sys.stdlib_module_names | {"builtins", "torch"}
SCHEDULERS = "torch.optim.lr_scheduler."
AUTOGRAD_FUNCTION = "torch.autograd.Function"
# In the place of the dtype of a trainer's region: nobody sees what it is, or it asks for none.
NOT_SEEN = "?"
NOT_ASKED = "none"


class ClassHierarchy:
    """The classes of a project.

    Args:
        definitions: of the project.
        names: what the names of bases mean.
        store: holds what functions write for each other.

    Attributes:
        own_bases: by class: the values of its bases.
    """

    def __init__(self, definitions: Definitions, names: Bindings, store: Store) -> None:
        self._files = definitions.files
        self._functions = definitions.functions
        self._classes = definitions.classes
        self._own_functions = definitions.own_functions
        self._own_classes = definitions.own_classes
        self._names = names
        self._store = store
        self.own_bases: dict[str, tuple[Value, ...]] = {}
        self._mro: dict[str, list[str]] = {}
        self._mro_readers: dict[str, set[str]] = {}
        self._below: dict[str, list[str]] = {}
        self._named: dict[str, dict[str | None, list[str]]] = {}
        self._library_bases: dict[str, set[str]] = {}
        self._models: dict[str, tuple[FrameworkClass, ...]] = {}
        self._methods: dict[tuple[str, str, bool], list[str]] = {}
        self._holding: dict[str, dict[str, list[str]]] = {}  # by class: its methods with a word
        self._learns = Solver(self._find_learns, False)
        self._subclasses: dict[str, list[str]] = {}
        for cls in self._own_classes():
            for base in cls.bases:
                self._subclasses.setdefault(base, []).append(cls.id)

    def subclasses(self, cls: str) -> list[str]:
        """Classes that have this one, or may have it, among their bases, transitively."""
        if cls not in self._below:
            _, *self._below[cls] = reachable([cls], self._direct_subclasses)
        return self._below[cls]

    def _direct_subclasses(self, cls: str) -> list[str]:
        """Those that name this class, and not another one of that name: a hundred files may each
        have a `Block`, and classes that derive from it."""
        name = self._classes[cls].name
        if name not in self._named:
            derived: dict[str | None, list[str]] = {}
            for sub in self._subclasses.get(name, ()):
                derived.setdefault(self._base_called(sub, name), []).append(sub)
            self._named[name] = derived
        return [*self._named[name].get(cls, ()), *self._named[name].get(None, ())]

    def _base_called(self, cls: str, name: str) -> str | None:
        """The class that the base of that name is; None where the text of the files alone does not
        say, and "" for one of a library."""
        facts = self._classes[cls]
        graph = self._files[facts.path].graph(facts.parent)
        for number in graph.bindings.get(facts.name, ()):
            node = graph.nodes[number]
            if (node.op, node.data) == (ops.CLASS, cls):
                for base, operand in zip(facts.bases, node.operands, strict=True):
                    if base == name:
                        return self._names.class_at(facts.path, graph, operand, MAX_IMPORTS)
        return None

    def writers_of_field(self, cls: str, name: str) -> list[str]:
        """The class's own body, and its methods that may store the field."""
        if cls not in self._holding:
            holding = self._holding[cls] = {}
            for ids in self._classes[cls].methods.values():
                for method in ids:
                    for word in self._functions[method].words:
                        holding.setdefault(word, []).append(method)
        return [cls, *self._holding[cls].get(name, ())]

    def mro(self, cls: str) -> list[str]:
        """The class and its bases of the project, depth first."""
        order = self._mro.get(cls)
        if order is None:
            order = self._mro[cls] = self._find_mro(cls)
        readers = self._mro_readers.setdefault(cls, set())
        if self._store.current not in readers:
            readers.add(self._store.current)
            for current in order:
                self._store.read(Key("bases", current))
        return order

    def _find_mro(self, cls: str) -> list[str]:
        order: dict[str, None] = {}
        stack = [cls]
        while stack:
            current = stack.pop()
            if current in order:
                continue
            order[current] = None
            self._store.read(Key("bases", current))
            bases = self.own_bases.get(current, ())
            stack.extend(
                atom.id
                for base in reversed(bases)
                for atom in ordered(base)
                if isinstance(atom, Class)
            )
        return list(order)

    def forget_bases(self) -> None:
        """Drop all conclusions from the bases of classes, after these have changed."""
        self._mro.clear()
        self._mro_readers.clear()
        self._library_bases.clear()
        self._models.clear()
        self._methods.clear()

    def library_bases(self, cls: str) -> set[str]:
        """The dotted names of the library classes that the class derives from."""
        order = self.mro(cls)
        names = self._library_bases.get(cls)
        if names is None:
            bases = (base for current in order for base in self.own_bases.get(current, ()))
            names = {
                transfer.canonical(a.name) for base in bases for a in base if isinstance(a, Symbol)
            }
            self._library_bases[cls] = names
        return names

    def is_module(self, cls: str) -> bool:
        """Whether instances are torch modules, those of frameworks included."""
        if any(name.startswith(MODULES) for name in self.library_bases(cls)):
            return True
        if any(row.kind == "module" for row in self.models_of(cls)):
            return True
        return self._is_module_by_body(cls)

    def _is_module_by_body(self, cls: str) -> bool:
        """Whether a class derives from one that nobody knows, has a `forward`, and stores what has
        parameters. Ex) class Tagger(Model), where the Model is another library's"""
        order = self.mro(cls)
        forwards = [f for c in order for f in self._classes[c].methods.get("forward", ())]
        if not any(len(self._functions[f].params) > 1 for f in forwards):
            return False
        if not any(self._functions[c].words & libraries.LEARNING for c in order):
            return False
        return any(
            name.partition(".")[0] not in NO_MODULES and not self._files.models.classes([name])
            for name in self.library_bases(cls)
        )

    def learns(self, cls: str) -> bool:
        """Whether a module has parameters, its own or of modules in it, or is a loss."""
        return self._learns(("class", cls))

    def _find_learns(self, item: tuple[str, str], ask: Callable[[tuple[str, str]], bool]) -> bool:
        """Whether a class of modules has parameters, its own or of modules in it, or is a loss; of
        a name, whether a class of that name has any or is one."""
        kind, name = item
        if kind == "name":
            classes = self._classes_by_name.get(name, ())
            learn = [ask(("class", c)) for c in classes if self.is_module(c)]
            return any(learn)
        order = self.mro(name)
        if any(map(self._has_parameters, order)):
            return True
        makers = [m for c in order for m in self._classes[c].methods.get("__init__", ())]
        words = {word for m in makers for word in self._functions[m].words}
        learn = [ask(("name", word)) for word in sorted(words & self._classes_by_name.keys())]
        return any(learn)

    def _has_parameters(self, cls: str) -> bool:
        """Whether a class mentions what makes parameters, or is a loss by its name."""
        words = self._functions[cls].words
        named = LOSS_CLASS.search(self._classes[cls].name)
        return bool(words & libraries.LEARNING or named)

    @cached_property
    def _classes_by_name(self) -> Mapping[str, list[str]]:
        """The classes of the project by name."""
        by_name: dict[str, list[str]] = {}
        for facts in self._own_classes():
            by_name.setdefault(facts.name, []).append(facts.id)
        return by_name

    def is_metric(self, cls: str) -> bool:
        """Whether a framework asks instances for what they measure."""
        return any(row.kind == "metric" for row in self.models_of(cls))

    def is_autograd_function(self, cls: str) -> bool:
        return AUTOGRAD_FUNCTION in self.library_bases(cls)

    def autograd_role(self, function: str) -> str | None:
        """The name of a method of a `torch.autograd.Function`; "forward" for an operator."""
        facts = self._functions[function]
        if facts.cls is None:
            return "forward" if self.is_operator(function) else None
        return facts.name if self.is_autograd_function(facts.cls) else None

    def is_operator(self, function: str) -> bool:
        """Whether `torch.library` makes an operator with a gradient of a function: the scope says
        that one has. (To follow which one was tempting: 150 lines, for the same findings.)

        Ex) `@torch.library.custom_op("own::scale", ...) def scale`, `scale.register_autograd(...)`
        """
        facts = self._functions[function]
        if facts.parent is None or libraries.OPERATOR_MAKERS.isdisjoint(facts.decorated):
            return False
        return "register_autograd" in self._functions[facts.parent].words

    def hooks(self) -> frozenset[str]:
        """The functions that are registered as hooks of modules or tensors."""
        slots = self._store.slots.items()
        return frozenset(key.owner for key, slot in slots if key.kind == "hook" and slot.joined)

    def is_optimizer(self, cls: str) -> bool:
        return any(
            name.startswith("torch.optim.") and not name.startswith(SCHEDULERS)
            for name in self.library_bases(cls)
        )

    def is_scheduler(self, cls: str) -> bool:
        return any(name.startswith(SCHEDULERS) for name in self.library_bases(cls))

    def steps(self, cls: str) -> bool:
        """Whether the `step` of a class is that of training: of an optimizer, of what stands for
        one or for a scaler, or of an engine that runs the backward pass as well."""
        names = {name for c in self.mro(cls) for name in self._classes[c].methods}
        return self.is_optimizer(cls) or any(names >= those for those in STEPS_OF_TRAINING)

    def models_of(self, cls: str) -> tuple[FrameworkClass, ...]:
        """The rows of the classes of frameworks that the class derives from."""
        order = self.mro(cls)
        models = self._models.get(cls)
        if models is None:
            own = (f".{self._classes[each].name}" for each in order)
            names = [*sorted(self.library_bases(cls)), *own]
            models = self._models[cls] = self._files.models.classes(names)
        return models

    def model_of_method(self, function: FunctionFacts) -> FrameworkMethod | None:
        """The row of a method that a framework calls. A class that speaks of the attribute by which
        it is not called may have set that."""
        if function.cls is None or function.kind != "function":
            return None
        classes = self.models_of(function.cls)
        method = self._files.models.method(classes, function.name) if classes else None
        if method is None or method.unless is None:
            return method
        words = (self._functions[each].words for each in self.mro(function.cls))
        return None if any(method.unless in each for each in words) else method

    def is_run_in_region(self, function: FunctionFacts) -> bool:
        """Whether a framework calls a method in the region of its precision."""
        method = self.model_of_method(function)
        return method is not None and method.region

    def run_in_region(self, cls: str, framework: str) -> Iterator[str]:
        """The methods of a class that a framework calls in the region of its precision."""
        rows = (method for row in self.models_of(cls) for method in row.methods)
        names = {n for row in rows if row.region for n in row.names}
        for name in sorted(names):
            row = self._files.models.method(self.models_of(cls), name)
            if row is not None and self._files.models.framework_of(row) == framework:
                yield from self.methods(cls, name, overridden=False)

    def runner(self, function: FunctionFacts, ask: Callable[[Key], Value]) -> str | None:
        """The framework that runs a function by the precision that it was set to: a method that
        it calls so, or the `forward` of a module that it is given.

        Args:
            ask: returns the value of a key.
        """
        if function.cls is None or function.kind != "function":
            return None
        method = self.model_of_method(function)
        if method is not None and method.region:
            return self._files.models.framework_of(method)
        named = constant(ask(Key("runner", function.id))) if function.name == "forward" else None
        return named if isinstance(named, str) else None

    def dtype_of_framework(
        self, function: FunctionFacts, ask: Callable[[Key], Value]
    ) -> str | None:
        """The dtype of the region that a framework opens around a function: "" where it is asked to
        open none, and None where nothing is known of that."""
        framework = self.runner(function, ask)
        if framework is None:
            return None
        # That of the trainers that are given the module, if all of them are seen.
        dtypes = constants(ask(Key("trainer", function.id)))
        if not dtypes or NOT_SEEN in dtypes:
            dtypes |= constants(ask(Key("precision", framework)))
            dtypes.update(row.dtype for row in self._files.precisions if row.framework == framework)
        dtypes -= {NOT_SEEN, NOT_ASKED}
        if len(dtypes) > 1 and "" not in dtypes:
            return "half"
        # Of two programs, one may train in a region, and another without: nobody says which.
        return agreed(dtypes)

    def is_loader(self, cls: str) -> bool:
        return any(self.kind_of(name) == "loader" for name in self.library_bases(cls))

    def gives_batches(self, value: Value) -> bool:
        """Whether iterating what may be a loader yields one batch after the other."""
        return any(
            transfer.is_loader(atom) or (isinstance(atom, Instance) and self.is_loader(atom.cls))
            for atom in value
        )

    def kind_of(self, name: str) -> str | None:
        """The kind of object that a call of this dotted name builds."""
        maker = self._files.models.maker(name)
        return (
            maker.builds
            if maker is not None and maker.builds != "same"
            else libraries.KINDS.get(name)
        )

    def fields(self, cls: str) -> tuple[str, ...]:
        """The fields that a dataclass or a named tuple declares, in order, after those of what it
        derives from."""
        field_names: dict[str, None] = {}
        for each in filter(self.is_dataclass, reversed(self.mro(cls))):
            facts = self._classes[each]
            names = self._files[facts.path].graph(each).bindings
            field_names.update((name, None) for name in names if name not in facts.methods)
        return tuple(field_names)

    def is_dataclass(self, cls: str) -> bool:
        """Whether the constructor of a class is generated from its fields."""
        facts = self._classes[cls]
        return "dataclass" in facts.decorated or "NamedTuple" in facts.bases

    def binds(self, cls: str, name: str, by_value: bool) -> bool:
        """Whether the body of a class binds a name.

        Args:
            by_value: whether `name: Type` does not count, which is no field of a generated
                constructor.
        """
        graph = self._files[self._classes[cls].path].graph(cls)
        bound = graph.bindings.get(name)
        if not bound:  # as in most classes
            return False
        counts_all = not by_value or self.is_dataclass(cls)
        return counts_all or any(graph.nodes[number].op != ops.PARAM for number in bound)

    def methods(self, cls: str, name: str, overridden: bool = True) -> list[str]:
        """The definitions that `instance.name` may mean: the class's own or inherited one, and,
        where the instance may be of a subclass, those that override it."""
        order = self.mro(cls)
        key = (cls, name, overridden)
        definitions = self._methods.get(key)
        if definitions is None:
            definitions = self._methods[key] = self._find_methods(order, name, overridden)
        return definitions

    def _find_methods(self, order: list[str], name: str, overridden: bool) -> list[str]:
        methods: dict[str, None] = {}
        for current in order:
            ids = self._classes[current].methods.get(name)
            if ids:
                methods.update(dict.fromkeys(ids))
                break
        if overridden:
            overriding = self._overriding(order[0], name)
            methods.update(dict.fromkeys(overriding if len(overriding) <= MAX_OVERRIDING else ()))
        return list(methods)

    def _overriding(self, cls: str, name: str) -> list[str]:
        """The methods of that name of subclasses."""
        return [f for sub in self.subclasses(cls) for f in self._classes[sub].methods.get(name, ())]

    def module_methods(self, name: str) -> list[str]:
        """The methods of that name, where every definition of it is a method of a torch module, or
        of classes that have one of the project in common, and no method of a tensor has it that
        brings the tensor to the host, as `x.tolist()` does."""
        if name in COMMON_METHODS or name.startswith("__") or f"Tensor.{name}" in HOST_READS:
            return []
        methods = self._defined_as(name)
        classes = [self._functions[f].cls for f in methods]
        if all(c is not None and self.is_module(c) for c in classes):
            return methods
        is_small = len(classes) <= MAX_ALTERNATIVES
        return methods if is_small and self._are_family(name, classes) else []

    def _are_family(self, name: str, classes: Sequence[str | None]) -> bool:
        """Whether a method of two words, such as `train_on_batch`, is that of one class, or of some
        that derive from one of the project: then what is asked for it is one of these."""
        if "_" not in name.strip("_") or None in classes:
            return False
        above = [set(self.mro(cls)) for cls in classes if cls is not None]
        return bool(above) and bool(set.intersection(*above))

    def methods_called(self, name: str) -> list[str]:
        """The methods of that name, of whatever class."""
        return [f for f in self._defined_as(name) if self._functions[f].cls is not None]

    def functions_called(self, name: str) -> list[str]:
        """The functions of that name that are no methods."""
        return [f for f in self._defined_as(name) if self._functions[f].cls is None]

    def _defined_as(self, name: str) -> list[str]:
        """The functions and methods of that name, if they are not too many to say something."""
        functions = self._by_name.get(name, [])
        return functions if len(functions) <= MAX_BY_NAME else []

    @cached_property
    def _by_name(self) -> Mapping[str, list[str]]:
        """The functions and methods of the project by name."""
        functions: dict[str, list[str]] = {}
        for facts in self._own_functions():
            if facts.kind == "function":
                functions.setdefault(facts.name, []).append(facts.id)
        return functions


def constants(value: Value) -> set[str]:
    """The texts that a value may be."""
    return {str(atom.const) for atom in value if isinstance(atom, Host)}
