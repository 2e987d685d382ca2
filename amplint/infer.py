"""The fixpoint: values of all nodes of the functions that matter, across functions and files.

A function is evaluated when somebody needs it. What it needs of others (a parameter's values, what
a function returns, a field of a class, a name of a module) are *keys*: reading one asks for whoever
writes it to be evaluated, and to be evaluated again when it changes. Every site contributes its own
part to a key; the key's value is the join of the parts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from amplint import dims, libraries, marks, operators, torch_ops, transfer
from amplint.facts import CallShape, ClassFacts, FunctionFacts, Graph, Node
from amplint.index import File
from amplint.names import Modules
from amplint.transfer import Site
from amplint.values import (
    ACCELERATOR,
    BOTTOM,
    CPU,
    MAX_ALTERNATIVES,
    MAX_KEYS,
    NONE,
    UNKNOWN,
    Arguments,
    Atom,
    Autocast,
    Blob,
    Class,
    Device,
    DType,
    Function,
    Host,
    Instance,
    Method,
    Module,
    NoGrad,
    Object,
    Place,
    Region,
    Sequence,
    Super,
    Symbol,
    Tensor,
    Unknown,
    Value,
    Why,
    constant,
    join,
    one,
    only,
    ordered,
    shallow,
)
from amplint.values import Mapping as MappingValue
from amplint.values import (
    moved as moved_to,
)

Key = tuple[str, ...]
SiteId = tuple[str, int]  # a function's id and a node's number
Dispatch = tuple[int, str, str]  # where a name is looked up, in which parameter it comes, the name
MAX_ROUNDS = 12  # evaluations of one function before its answers are taken as they are
MAX_PASSES = 4  # passes over a graph with loops
MAX_SUBCLASSES = 24  # subclasses whose fields are taken for those of an instance of the base
MAX_EVENTS = 24  # names of methods that calls give for one parameter
MAX_BY_PREFIX = 6  # methods that a computed name may mean
MAX_IMPORTS = 8  # modules through which a class is handed on
MAX_BY_NAME = 200  # methods of one name, above which a call by name says nothing

# Libraries that people star-import, and whose names are then theirs unless somebody binds them.
STAR_LIBRARIES = frozenset({"torch.cuda.amp"})
MODULE_BASES = ("torch.nn.", "lightning.", "pytorch_lightning.", "lightning_fabric.")
# Decorators that leave what they decorate as it is, as far as values go.
TRANSPARENT = frozenset(
    """
    staticmethod classmethod property wraps no_grad inference_mode autocast custom_fwd
    custom_bwd abstractmethod contextmanager asynccontextmanager cached_property lru_cache
    cache overload setter override final jit script export ignore unused rank_zero_only record
    dynamo disable enable_grad set_grad_enabled
    """.split()
)
# Too many things have methods of these names.
COMMON_METHODS = frozenset(
    """
    forward train eval step update reset compute fit predict run call apply to cuda cpu get set
    add append extend items values keys pop copy close open write read log parameters
    state_dict load_state_dict backward zero_grad sum mean max min view size
    """.split()
)
HOT_METHODS = frozenset({"forward", "training_step"})
AUTOGRAD_FUNCTION = "torch.autograd.Function"
AUTOGRAD_ROLES = ("forward", "backward")
OF_CODE = frozenset({"param", "field"})  # keys that other files may write
TEST_PATH = re.compile(r"(^|/)(tests?|testing)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")
CONTEXT_MAKERS = frozenset({"contextmanager", "asynccontextmanager"})


@dataclass
class State:
    """What is known of one evaluated function."""

    graph: Graph
    values: list[Value]
    rounds: int = 0
    regions: dict[int, Region | None] = field(default_factory=dict)


class Inference:
    """Values, call edges and autocast regions of a project."""

    def __init__(self, files: Mapping[str, File]) -> None:
        self.files = files
        self.modules = Modules(files)
        self.functions: dict[str, FunctionFacts] = {}
        self.classes: dict[str, ClassFacts] = {}
        for path in sorted(files):
            self.functions.update(files[path].facts.functions)
            self.classes.update(files[path].facts.classes)
        self.states: dict[str, State] = {}
        self.edges: dict[SiteId, set[str]] = {}
        self.own_bases: dict[str, tuple[Value, ...]] = {}
        self._parts: dict[Key, dict[SiteId, Value]] = {}
        self._joined: dict[Key, Value] = {}  # the join of the parts
        self._crowded: set[Key] = set()  # keys with too many alternatives, whatever else comes
        self._called: set[str] = set()  # names whose callers have been asked for
        self._mro: dict[str, list[str]] = {}
        self._mro_readers: dict[str, set[str]] = {}
        self._below: dict[str, list[str]] = {}
        self._named: dict[str, dict[str | None, list[str]]] = {}
        self._regions: dict[str, dict[SiteId, Region | None]] = {}
        self._readers: dict[Key, set[str]] = {}
        self._demanded: set[Key] = set()
        self._bound_in: dict[tuple[str, str], str | Value] = {}
        self._globals: set[tuple[str, str]] = set()
        self._queue: dict[str, None] = {}
        self._current = ""
        self._mentions: dict[str, list[str]] | None = None
        self._by_name: dict[str, list[str]] | None = None
        self._subclasses: dict[str, list[str]] = {}
        for cls in self.classes.values():
            for base in cls.bases:
                self._subclasses.setdefault(base, []).append(cls.id)
        self.off_flags: set[str] = set()
        self.failures: dict[str, str] = {}
        self.drawn: dict[SiteId, set[str]] = {}  # callees, any one of which may be meant
        self._dispatches: dict[str, dict[Dispatch, frozenset[str]]] = {}
        self._tests: dict[str, bool] = {}
        self._calls: dict[frozenset[str], bool] = {}
        self._matches: dict[str, bool] = {}
        self._library_bases: dict[str, set[str]] = {}
        self._methods: dict[tuple[str, str, bool], list[str]] = {}
        self._learns: dict[str, bool] = {}
        self._classes_by_name: dict[str, list[str]] | None = None
        self._class_marks: dict[str, dict[str, str]] = {}
        self._marks: dict[str, marks.Marks] = {}

    # -- the fixpoint

    def settle(self, roots: Iterable[str]) -> None:
        """Evaluate the given functions, and all that they need, until nothing changes."""
        for root in sorted(roots):
            self._enqueue(root)
        while self._queue:
            function = next(iter(self._queue))
            del self._queue[function]
            try:
                self._evaluate(function)
            except Exception as error:
                # A fault of amplint's own: what this function says stays unknown, the rest goes on.
                self.failures.setdefault(function, f"{type(error).__name__}: {error}")
                self.states.pop(function, None)

    def _enqueue(self, function: str) -> None:
        state = self.states.get(function)
        if function not in self.failures and (state is None or state.rounds < MAX_ROUNDS):
            self._queue.setdefault(function, None)

    def _read(self, key: Key) -> Value:
        self._readers.setdefault(key, set()).add(self._current)
        if key not in self._demanded:
            self._demanded.add(key)
            self._demand(key)
        return self._joined.get(key, BOTTOM)

    def _write(self, key: Key, site: SiteId, value: Value) -> None:
        if key[0] in OF_CODE and self._from_test(key[1], site[0]):
            return
        parts = self._parts.setdefault(key, {})
        value = shallow(value)
        old = parts.get(site)
        if old == value:
            return
        parts[site] = value
        for reader in sorted(self._readers.get(("parts", *key), ())):
            self._enqueue(reader)
        before = self._joined.get(key, BOTTOM)
        # A part that adds nothing to the join is nearly all that there is: a function with a
        # thousand callers is not joined anew for each of them.
        grows = old is None or join([old, value]) == value
        if key in self._crowded or (grows and join([before, value]) == before):
            return
        after = join(parts.values())
        if key[0] == "param" and len(after) > MAX_ALTERNATIVES:
            after = UNKNOWN  # of a decorator, say: which function a wrapper calls is not known
        if after == UNKNOWN and any(part and part != UNKNOWN for part in parts.values()):
            self._crowded.add(key)
        if after != before:
            self._joined[key] = after
            for reader in sorted(self._readers.get(key, ())):
                self._enqueue(reader)

    def parts(self, key: Key) -> frozenset[Value]:
        """What those that write to a key give, each of them."""
        return frozenset(self._parts.get(key, {}).values())

    def _from_test(self, owner: str, writer: str) -> bool:
        """Whether a test says something of other code: with mocks, and tensors on the CPU."""
        return self._is_test(writer) and not self._is_test(owner)

    def _is_test(self, function: str) -> bool:
        path = function.partition("::")[0]
        if path not in self._tests:
            self._tests[path] = TEST_PATH.search(path) is not None
        return self._tests[path]

    def given_strings(self, function: str, parameter: str) -> list[str]:
        """The constant strings among what single calls give for a parameter."""
        key = ("param", function, parameter)
        self._read(key)
        # The join of several names is any name: what each call gives has to be seen.
        self._readers.setdefault(("parts", *key), set()).add(self._current)
        constants = {constant(value) for value in self._parts.get(key, {}).values()}
        return sorted(name for name in constants if isinstance(name, str))

    def _demand(self, key: Key) -> None:
        """Have whoever writes the key evaluated."""
        kind, owner = key[0], key[1]
        if kind in ("return", "yield", "context", "name"):
            self._need(owner)
        elif kind in ("param", "region"):
            for name in self.names_called(owner):
                if name not in self._called:
                    self._called.add(name)
                    for caller in sorted(self.mentioning(name)):
                        self._need(caller)
            parent = self.functions[owner].parent
            if self.functions[owner].kind == "lambda" and parent is not None:
                self._need(parent)
        elif kind == "field":
            for method in self.writers_of_field(owner, key[2]):
                self._need(method)
        elif kind in ("bases", "decorators"):
            parent = self.classes[owner].parent if kind == "bases" else self.functions[owner].parent
            if parent is not None:
                self._need(parent)

    def _need(self, function: str) -> None:
        if function not in self.states and function not in self.failures:
            self._enqueue(function)

    # -- who may be concerned, by name

    def mentioning(self, word: str) -> list[str]:
        """The functions in whose text the identifier stands."""
        if self._mentions is None:
            self._mentions = {}
            for function in self.functions.values():
                if function.kind == "class":
                    continue
                for mentioned in function.words:
                    self._mentions.setdefault(mentioned, []).append(function.id)
        return self._mentions.get(word, [])

    def is_called(self, names: frozenset[str]) -> bool:
        """Whether code that is no test calls a function of one of these names."""
        if names not in self._calls:
            self._calls[names] = any(
                called_name(node) in names
                for path, file in self.files.items()
                if file.facts.words & names and not TEST_PATH.search(path)
                for node in ast.walk(file.tree)
                if isinstance(node, ast.Call)
            )
        return self._calls[names]

    def matches(self, pattern: str) -> bool:
        """Whether the regular expression matches a line of some file."""
        if pattern not in self._matches:
            expression = re.compile(pattern)
            self._matches[pattern] = any(
                expression.search(line) for file in self.files.values() for line in file.lines
            )
        return self._matches[pattern]

    def names_called(self, function: str) -> list[str]:
        """What those that may call a function mention: its name, or its class's."""
        facts = self.functions[function]
        if facts.kind != "function":
            return []
        if facts.cls is not None and facts.name in ("__init__", "__call__", "forward", "__enter__"):
            return [self.classes[c].name for c in (facts.cls, *self.subclasses(facts.cls))]
        return [facts.name]

    def subclasses(self, cls: str) -> list[str]:
        """Classes that have this one, or may have it, among their bases, transitively."""
        if cls not in self._below:
            self._below[cls] = self._find_subclasses(cls)
        return self._below[cls]

    def _find_subclasses(self, cls: str) -> list[str]:
        found: dict[str, None] = {}
        stack = [cls]
        while stack:
            for sub in self._direct_subclasses(stack.pop()):
                if sub not in found and sub != cls:
                    found[sub] = None
                    stack.append(sub)
        return list(found)

    def _direct_subclasses(self, cls: str) -> list[str]:
        """Those that name this class, and not another one of that name: a hundred files may each
        have a `Block`, and classes that derive from it."""
        name = self.classes[cls].name
        if name not in self._named:
            derived: dict[str | None, list[str]] = {}
            for sub in self._subclasses.get(name, ()):
                derived.setdefault(self._base_called(sub, name), []).append(sub)
            self._named[name] = derived
        return [*self._named[name].get(cls, ()), *self._named[name].get(None, ())]

    def _base_called(self, cls: str, name: str) -> str | None:
        """The class that the base of that name is; None where the text of the files alone does not
        say, and "" for one of a library."""
        facts = self.classes[cls]
        graph = self.files[facts.path].graph(facts.parent)
        for number in graph.bindings.get(facts.name, ()):
            node = graph.nodes[number]
            if (node.op, node.data) == ("class", cls):
                for base, operand in zip(facts.bases, node.operands, strict=True):
                    if base == name:
                        return self._class_at(facts.path, graph, operand, MAX_IMPORTS)
        return None

    def _class_at(self, path: str, graph: Graph, number: int, steps: int) -> str | None:
        """The class that a node of a module's graph holds, through imports."""
        node = graph.nodes[number]
        if node.op == "class":
            return str(node.data)
        if node.op == "subscript":
            return self._class_at(path, graph, node.operands[0], steps)
        if node.op == "import" and node.data[1] is not None:
            module, name, level = node.data
            return self._class_imported(path, module, name, level, steps)
        if node.op == "attr" and graph.nodes[node.operands[0]].op == "import":
            module, name, level = graph.nodes[node.operands[0]].data
            dotted = f"{module}.{name}" if module and name else name or module
            return self._class_imported(path, dotted, node.data, level, steps)
        return None

    def _class_imported(
        self, path: str, module: str | None, name: str, level: int, steps: int
    ) -> str | None:
        """The class that `from module import name` binds."""
        dotted = module or ""
        if not level and self.modules.is_library(dotted):
            return ""
        if level:
            target = self.modules.relative(path, level, dotted)
        else:
            target = self.modules.absolute(dotted, path)
        scope = self._find_binding(target, name, set()) if target is not None and steps else None
        if not isinstance(scope, str):
            return None
        graph = self.files[scope[:-2]].graph(scope)
        bound = graph.bindings[name]
        return self._class_at(scope[:-2], graph, bound[0], steps - 1) if len(bound) == 1 else None

    def writers_of_field(self, cls: str, name: str) -> list[str]:
        """The class's own body, and its methods that may store the field."""
        methods = [m for ids in self.classes[cls].methods.values() for m in ids]
        return [cls, *(m for m in methods if name in self.functions[m].words)]

    # -- classes

    def mro(self, cls: str) -> list[str]:
        """The class and its bases of the project, depth first."""
        known = self._mro.get(cls)
        if known is None:
            known = self._mro[cls] = self._find_mro(cls)
        readers = self._mro_readers.setdefault(cls, set())
        if self._current not in readers:
            readers.add(self._current)
            for current in known:
                self._read(("bases", current))
        return known

    def _find_mro(self, cls: str) -> list[str]:
        order: dict[str, None] = {}
        stack = [cls]
        while stack:
            current = stack.pop()
            if current in order:
                continue
            order[current] = None
            self._read(("bases", current))
            bases = self.own_bases.get(current, ())
            stack.extend(
                atom.id for base in reversed(bases) for atom in base if isinstance(atom, Class)
            )
        return list(order)

    def forget_bases(self) -> None:
        """What was concluded from the bases of classes, now that they are other ones."""
        self._mro.clear()
        self._mro_readers.clear()
        self._library_bases.clear()
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
        """Whether instances are torch modules (Lightning's included)."""
        return any(
            name.startswith(MODULE_BASES) and "Dataset" not in name
            for name in self.library_bases(cls)
        )

    def learns(self, cls: str) -> bool:
        """Whether a module has parameters, its own or of modules in it, or is a loss."""
        if cls not in self._learns:
            self._learns[cls] = False  # while it is asked for: modules may hold each other
            self._learns[cls] = any(self._learns_itself(c) for c in self.mro(cls))
        return self._learns[cls]

    def _learns_itself(self, cls: str) -> bool:
        words = self.functions[cls].words
        if words & libraries.LEARNING or libraries.LOSS_NAME.search(self.classes[cls].name):
            return True
        makers = [self.functions[m].words for m in self.classes[cls].methods.get("__init__", ())]
        if self._classes_by_name is None:
            self._classes_by_name = {}
            for facts in self.classes.values():
                self._classes_by_name.setdefault(facts.name, []).append(facts.id)
        held = {c for w in makers for name in w for c in self._classes_by_name.get(name, ())}
        return any(self.is_module(c) and self.learns(c) for c in sorted(held) if c != cls)

    def is_metric(self, cls: str) -> bool:
        """Whether the class derives from torchmetrics' Metric, in torchmetrics or elsewhere."""
        if any(self.classes[base].name == "Metric" for base in self.mro(cls)):
            return True
        return any(name.startswith("torchmetrics.") for name in self.library_bases(cls))

    def is_autograd_function(self, cls: str) -> bool:
        return AUTOGRAD_FUNCTION in self.library_bases(cls)

    def autograd_role(self, function: str) -> str | None:
        """ "forward" or "backward" where autograd runs the function as such: the method of a
        `torch.autograd.Function`, or what is registered for an operator."""
        facts = self.functions[function]
        if facts.cls is not None:
            return facts.name if self.is_autograd_function(facts.cls) else None
        role = constant(self._read(("role", function)))
        return role if isinstance(role, str) else None

    def differentiated(self) -> frozenset[str]:
        """The functions of operators that have a formula for their gradient, and that formula."""
        trained = [key[1] for key in self._joined if key[0] == "operator" and key[2] == "backward"]
        values = (self._joined.get(("operator", o, r)) for o in trained for r in AUTOGRAD_ROLES)
        return frozenset(a.id for v in values for a in v or () if isinstance(a, Function))

    def is_optimizer(self, cls: str) -> bool:
        return any(name.startswith("torch.optim.") for name in self.library_bases(cls))

    def steps(self, cls: str) -> bool:
        """Whether the `step` of a class is that of training: of an optimizer, of what stands for
        one or for a scaler, or of an engine that runs the backward pass as well."""
        names = {name for c in self.mro(cls) for name in self.classes[c].methods}
        return self.is_optimizer(cls) or any(names >= those for those in libraries.STEPPING)

    def is_callback(self, cls: str) -> bool:
        """Whether an engine runs the hooks of the class: `on_train_batch_end` and its kin."""
        names = {self.classes[c].name for c in self.mro(cls)}
        names |= {name.rpartition(".")[2] for name in self.library_bases(cls)}
        return not names.isdisjoint(libraries.CALLBACKS)

    def is_loader(self, cls: str) -> bool:
        return any(libraries.kind(name) == "loader" for name in self.library_bases(cls))

    def fields(self, cls: str) -> tuple[str, ...]:
        """What a dataclass or a named tuple declares, in order."""
        facts = self.classes[cls]
        graph = self.files[facts.path].graph(cls)
        return tuple(name for name in graph.bindings if name not in facts.methods)

    def methods(self, cls: str, name: str, overridden: bool = True) -> list[str]:
        """The definitions that `instance.name` may mean: the class's own or inherited one, and,
        where the instance may be of a subclass, those that override it."""
        order = self.mro(cls)
        key = (cls, name, overridden)
        known = self._methods.get(key)
        if known is None:
            known = self._methods[key] = self._find_methods(order, name, overridden)
        return known

    def _find_methods(self, order: list[str], name: str, overridden: bool) -> list[str]:
        found: dict[str, None] = {}
        for current in order:
            ids = self.classes[current].methods.get(name)
            if ids:
                found.update(dict.fromkeys(ids))
                break
        if overridden:
            for sub in self.subclasses(order[0]):
                found.update(dict.fromkeys(self.classes[sub].methods.get(name, ())))
        return list(found)

    def module_methods(self, name: str) -> list[str]:
        """The methods of that name, where every definition of it is a method of a torch module."""
        if name in COMMON_METHODS or name.startswith("__"):
            return []
        if self._by_name is None:
            self._by_name = {}
            for facts in self.functions.values():
                if facts.kind == "function":
                    self._by_name.setdefault(facts.name, []).append(facts.id)
        found = self._by_name.get(name, [])
        if len(found) > MAX_BY_NAME:
            return []
        classes = [self.functions[f].cls for f in found]
        return found if all(c is not None and self.is_module(c) for c in classes) else []

    # -- one function

    def _evaluate(self, function: str) -> None:
        facts = self.functions[function]
        graph = self.files[facts.path].graph(function)
        # Building a graph defines its lambdas.
        self.functions.update(self.files[facts.path].take_lambdas())
        state = self.states.get(function)
        if state is None:
            state = self.states[function] = State(graph, [BOTTOM] * len(graph.nodes))
        state.rounds += 1
        # From nothing each time: what a loop carried while less was known would carry itself on.
        state.values[:] = [BOTTOM] * len(state.values)
        self._current = function
        Evaluation(self, facts, state).run()

    def marks_of(self, function: str) -> marks.Marks:
        """What the uses in a function say about its nodes."""
        if function not in self._marks:
            facts = self.functions[function]
            graph = self.files[facts.path].graph(function)
            self._marks[function] = marks.read(graph, facts.name == "training_step")
        return self._marks[function]

    def marks_of_class(self, cls: str) -> dict[str, str]:
        """What the methods of a class say about `self.<field>`, by field."""
        if cls not in self._class_marks:
            found: dict[str, str] = {}
            for ids in self.classes[cls].methods.values():
                for method in ids:
                    if self.functions[method].words & marks.WORDS:
                        for path, kind in self.marks_of(method).paths.items():
                            if path.startswith("self."):
                                found[path[5:]] = kind
            self._class_marks[cls] = found
        return self._class_marks[cls]

    def decorators(self, function: str) -> Value:
        """What a function is decorated with."""
        return self._joined.get(("decorators", function), BOTTOM)

    def inherited_region(self, function: str) -> Region | None:
        """The region that every known caller opens around its call; None where they differ."""
        self._read(("region", function))
        regions = list(self._regions.get(function, {}).values())
        if not regions or any(region is None for region in regions):
            return None
        known = {region for region in regions if region is not None}
        first = min(known, key=lambda r: r.why or _NO_WHY)
        if len({(r.device, r.dtype) for r in known}) > 1:
            first = replace(
                first, dtype="half" if len({r.dtype for r in known}) > 1 else first.dtype
            )
        enabled = {region.enabled for region in known}
        return replace(first, inherited=True, enabled=enabled.pop() if len(enabled) == 1 else None)

    def write_region(self, function: str, site: SiteId, region: Region | None) -> None:
        parts = self._regions.setdefault(function, {})
        if site in parts and parts[site] == region:
            return
        parts[site] = region
        for reader in sorted(self._readers.get(("region", function), ())):
            self._enqueue(reader)

    def dispatches(self, function: str) -> Mapping[Dispatch, frozenset[str]]:
        """The methods that a function finds by the name in a parameter, for each name given."""
        self._readers.setdefault(("dispatch", function), set()).add(self._current)
        return self._dispatches.get(function, {})

    def write_dispatch(self, function: str, case: Dispatch, methods: frozenset[str]) -> None:
        known = self._dispatches.setdefault(function, {})
        if known.get(case) == methods:
            return
        known[case] = methods
        for reader in sorted(self._readers.get(("dispatch", function), ())):
            self._enqueue(reader)

    def import_value(self, path: str, data: tuple[str | None, str | None, int]) -> Value:
        """What `import module` or `from module import name` binds in the file `path`."""
        module, name, level = data
        dotted = module or ""
        if level:
            target = self.modules.relative(path, level, dotted)
        else:
            target = self.modules.absolute(dotted, path)
        if name is None:
            return one(Module(target)) if target else one(Symbol(dotted))
        if target is not None:
            bound = self.module_name(target, name)
            if bound is not None:
                return bound
        full = f"{dotted}.{name}" if dotted else name
        if level:
            inner = self.modules.relative(path, level, full)
        else:
            inner = self.modules.absolute(full, path)
        if inner is not None:
            return one(Module(inner))
        if target is not None or level:
            return UNKNOWN
        return transfer.symbol_attribute(dotted, name)

    def module_name(self, path: str, name: str) -> Value | None:
        """What `name` is in a module of the project; None where it is not bound.

        Bottom is something else: bound, and not evaluated yet.
        """
        key = (path, name)
        if key not in self._bound_in:
            self._bound_in[key] = self._find_binding(path, name, set())
        found = self._bound_in[key]
        if isinstance(found, str):
            return self._read(("name", found, name))
        if found:
            return found
        # A function of the module may bind it, declared `global`.
        scope = f"{path}::"
        return self._read(("name", scope, name)) if (scope, name) in self._globals else None

    def _find_binding(self, path: str, name: str, seen: set[str]) -> str | Value:
        """The scope that binds a module's name, through star imports, or what it is without one."""
        seen.add(path)
        scope = f"{path}::"
        graph = self.files[path].graph(scope)
        if name in graph.bindings:
            return scope
        for node in graph.bindings.get("*", ()):
            module, _, level = graph.nodes[node].data
            if level:
                target = self.modules.relative(path, level, module or "")
            else:
                target = self.modules.absolute(module or "", path)
            if target is not None and target not in seen:
                found = self._find_binding(target, name, seen)
                if found:
                    return found
            elif target is None and not level and module in STAR_LIBRARIES:
                return transfer.symbol_attribute(module, name)
        sub = self.modules.submodule(path, name) if path.endswith("__init__.py") else None
        return one(Module(sub)) if sub else BOTTOM

    def outer_name(self, function: FunctionFacts, name: str) -> Value:
        """A name free in the function: of an enclosing function, the module, or a builtin."""
        scope = function.parent
        while scope is not None:
            facts = self.functions[scope]
            if facts.kind != "class" or function.kind == "class":
                if facts.kind == "module":
                    found = self.module_name(facts.path, name)
                    if found is not None:
                        return found
                elif name in self.files[facts.path].graph(scope).bindings:
                    return self._read(("name", scope, name))
            scope = facts.parent
        if function.kind == "module":
            found = self.module_name(function.path, name)
            if found is not None:
                return found
        return one(Symbol(f"builtins.{name}")) if name in BUILTINS else UNKNOWN


BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)
_NO_WHY = Why(Place("\U0010ffff", 0, 0, 0, 0), "")


class Evaluation:
    """One pass over one function's graph, in the light of what is known so far."""

    def __init__(self, inference: Inference, facts: FunctionFacts, state: State) -> None:
        self.inference = inference
        self.facts = facts
        self.state = state
        self.graph = state.graph
        self.values = state.values
        self.marks = inference.marks_of(facts.id)
        self.number = 0
        self.regions: dict[int, Region | None] = {}

    def run(self) -> None:
        nodes = self.graph.nodes
        self.function_region = self.region_of_function()
        for _ in range(MAX_PASSES):
            self.regions = {}
            changed = False
            for number, node in enumerate(nodes):
                self.number = number
                value = shallow(self.transfer(node))
                if not value or Unknown() in value:
                    marked = self.marked(number)
                    if marked is not None:
                        value = join([value - UNKNOWN, marked])
                elif number in self.marks.backward:
                    value = self.backpropagated(number, value)
                if number in self.marks.no_nests:
                    value = transfer.without_nests(value)
                if value != self.values[number]:
                    self.values[number] = value
                    changed = True
            if not changed or not any(
                operand > number
                for number, node in enumerate(nodes)
                if node.op == "phi"
                for operand in node.operands
            ):
                break
        self.state.regions = {block: self.region(block) for block in range(len(self.graph.blocks))}
        self.publish()

    def publish(self) -> None:
        """Write what others may read of this function."""
        infer, identity = self.inference, self.facts.id
        returned = [self.values[node] for node in self.graph.returns]
        if self.facts.kind in ("function", "lambda"):
            if not self.graph.returns:
                returned = [one(NONE)] if not self.graph.yields else []
            infer._write(("return", identity), (identity, -1), self.declared(join(returned)))
        if self.graph.yields:
            element = join(self.values[node] for node in self.graph.yields)
            infer._write(("yield", identity), (identity, -1), element)
            if set(self.facts.decorated) & CONTEXT_MAKERS:
                self.publish_context()
        for name, nodes in self.graph.bindings.items():
            if name != "*":
                infer._write(
                    ("name", identity, name), (identity, -1), join(self.values[n] for n in nodes)
                )
        for name, nodes in self.graph.globals.items():
            value = join(self.values[n] for n in nodes)
            infer._globals.add((f"{self.facts.path}::", name))
            infer._write(("name", f"{self.facts.path}::", name), (identity, -2), value)
        # Decorated with a context: the same as a region around the body.

    def declared(self, returned: Value) -> Value:
        """What a function returns, its annotation being asked where that is not known.

        Only for instances of the project's classes and containers of them: of a tensor it would say
        neither dtype nor device, and hide what the use of the result says.
        """
        if self.graph.annotation < 0 or (returned and not any(is_vague(a) for a in returned)):
            return returned
        declared = annotated(self.of(self.graph.annotation), Device(None))
        if not any(holds_instance(atom) for atom in declared):
            return returned
        return join([returned - UNKNOWN, declared])

    def publish_context(self) -> None:
        """A `@contextmanager` that yields inside autocast is itself such a context."""
        contexts: list[Value] = []
        for node in self.graph.nodes:
            if node.op == "yield":
                for block in self.chain(node.block):
                    if self.graph.blocks[block].kind == "with":
                        contexts.append(
                            frozenset(
                                a for a in self.values[self.graph.blocks[block].node]
                                if isinstance(a, Autocast | NoGrad)
                            )
                        )  # fmt: skip
        identity = self.facts.id
        self.inference._write(("context", identity), (identity, -1), join(contexts))

    # -- regions

    def chain(self, block: int) -> Iterable[int]:
        """The block and those around it, innermost first."""
        while block >= 0:
            yield block
            block = self.graph.blocks[block].parent

    def region_of_function(self) -> Region | None:
        """The region that decorators or all callers put around the body."""
        decorators = (
            self.inference._read(("decorators", self.facts.id)) if self.facts.decorated else BOTTOM
        )
        for atom in decorators:
            if isinstance(atom, Autocast):
                return as_region(atom)
        parent = self.facts.parent
        if self.facts.kind in ("class", "module") or parent is None:
            return None
        return self.inference.inherited_region(self.facts.id)

    def region(self, block: int) -> Region | None:
        """The autocast state inside a block."""
        if block < 0:
            return self.function_region
        if block not in self.regions:
            facts = self.graph.blocks[block]
            around = self.region(facts.parent)
            if facts.kind == "with" and facts.node >= 0:
                for atom in self.values[facts.node]:
                    if isinstance(atom, Autocast):
                        around = nested(as_region(atom), around)
                        break
            self.regions[block] = around
        return self.regions[block]

    def site(self, node: Node) -> Site:
        return Site(self.region(node.block), lambda text: self.why(node, text))

    def why(self, node: Node, text: str) -> Why:
        return Why(Place(self.facts.path, *node.location), text)

    # -- marks

    def marked(self, number: int) -> Value | None:
        """What the uses of a node say about it where nothing else does."""
        kind = self.marks.nodes.get(number)
        node = self.graph.nodes[number]
        if kind is None and node.op == "attr" and self.facts.cls is not None:
            path = self.marks.path(number)
            if path is not None and path.startswith("self."):
                kind = self.inference.marks_of_class(self.facts.cls).get(path[5:])
        if kind is None:
            path = self.marks.path(number)
            kind = self.marks.paths.get(path) if path is not None else None
        if kind == "loss":
            device = Device(
                ACCELERATOR,
                self.why(self.graph.nodes[self.marks.backward[number]], "backpropagated here"),
            )
            return one(Tensor(None, device, 0, True))
        if kind == "term":
            device = Device(ACCELERATOR, self.why(node, "part of a loss that is backpropagated"))
            return one(Tensor(None, device, None, True))
        if kind == "output":
            return one(Blob(Device(ACCELERATOR, self.why(node, "a model's output")), "output"))
        return self.mark_value(kind) if kind is not None else None

    def backpropagated(self, number: int, value: Value) -> Value:
        """A loss of unknown device is where training happens: on the accelerator."""
        call = self.graph.nodes[self.marks.backward[number]]
        device = Device(ACCELERATOR, self.why(call, "backpropagated here"))
        return frozenset(
            replace(a, device=device) if isinstance(a, Tensor) and a.device.kind is None else a
            for a in value
        )

    # -- nodes

    def of(self, number: int) -> Value:
        return self.values[number]

    def operands(self, node: Node) -> list[Value]:
        return [self.values[number] if number >= 0 else UNKNOWN for number in node.operands]

    def transfer(self, node: Node) -> Value:
        handler = getattr(self, f"op_{node.op}", None)
        return handler(node) if handler is not None else UNKNOWN

    def op_const(self, node: Node) -> Value:
        value = node.data
        if value is None:
            return one(NONE)
        if isinstance(value, bool | int | float | str):
            return one(Host(type(value).__name__, value, True))
        return one(dims.ELLIPSIS) if value is ... else transfer.OBJECT

    def op_opaque(self, _: Node) -> Value:
        return UNKNOWN

    def op_unbound(self, _: Node) -> Value:
        return BOTTOM

    def op_phi(self, node: Node) -> Value:
        joined = join(self.operands(node))
        start = self.marks.starts.get(self.number)
        if start is not None and any(isinstance(atom, Tensor) for atom in joined):
            return join(self.values[n] for n in node.operands if n != start)
        return joined

    def op_name(self, node: Node) -> Value:
        return self.inference.outer_name(self.facts, node.data)

    def op_import(self, node: Node) -> Value:
        if node.data[1] == "*":
            return BOTTOM
        return self.inference.import_value(self.facts.path, node.data)

    def op_param(self, node: Node) -> Value:
        infer, facts, name = self.inference, self.facts, node.data
        annotation = self.of(node.operands[0]) if node.operands else UNKNOWN
        if facts.kind == "class":
            return annotated(annotation, Device(None))
        parameter = next(p for p in facts.params if p.name == name)
        position = [p.name for p in facts.params].index(name)
        if position == 0 and facts.cls is not None and "staticmethod" not in facts.decorated:
            is_class = "classmethod" in facts.decorated or facts.name == "__new__"
            return one(Class(facts.cls) if is_class else Instance(facts.cls))
        if parameter.kind == "star":
            given = infer._read(("param", facts.id, name)) or self.gradients(node) or UNKNOWN
            return one(Sequence(None, given))
        if parameter.kind == "starstar":
            return one(MappingValue(infer._read(("param", facts.id, name)) or UNKNOWN))
        given = infer._read(("param", facts.id, name))
        default = self.default_of(parameter)
        seen = given or default
        known = frozenset(a for a in seen if not isinstance(a, Unknown))
        # Callers that nobody sees may pass anything; what is seen is what a finding rests on.
        if any(a != NONE and a not in default for a in known):
            return known
        declared = (
            UNKNOWN if self.number in self.marks.copied else annotated(annotation, Device(None))
        )
        hot = self.hot_parameter(node, parameter.has_default, declared)
        if hot is not None:
            return join([hot, one(NONE)]) if NONE in default else hot
        if declared != UNKNOWN:
            return join([declared, default])
        return UNKNOWN if not parameter.constant_default or not given else join([UNKNOWN, default])

    def default_of(self, parameter: object) -> Value:
        default = getattr(parameter, "default", None)
        if not getattr(parameter, "constant_default", False):
            return BOTTOM
        if default is None:
            return one(NONE)
        if isinstance(default, bool | int | float | str):
            return one(Host(type(default).__name__, default, True))
        return BOTTOM

    def hot_parameter(self, node: Node, has_default: bool, declared: Value) -> Value | None:
        """A `forward` parameter that is used as a tensor is one, on the accelerator."""
        facts = self.facts
        role = self.inference.autograd_role(facts.id)
        if role is not None:
            return self.function_parameter(node, role)
        if facts.cls is None:
            return None
        step = facts.name == "training_step"
        if not step and not (facts.name in HOT_METHODS and self.inference.is_module(facts.cls)):
            return None
        device = Device(
            ACCELERATOR, self.why(node, f"`{node.data}` is a parameter of `{facts.name}`")
        )
        if step:
            return (
                one(Blob(device))
                if node.data == "batch"
                or (
                    not has_default
                    and node.data
                    not in ("batch_idx", "batch_nb", "optimizer_idx", "dataloader_idx")
                )
                else None
            )
        if any(isinstance(a, Tensor) for a in declared):
            return join(
                one(replace(a, device=device)) if isinstance(a, Tensor) else one(a)
                for a in declared
            )
        if declared != UNKNOWN:
            return None
        parameter = next(p for p in facts.params if p.name == node.data)
        if parameter.has_default and not (parameter.constant_default and parameter.default is None):
            return None  # a number, by its default
        if self.number in self.marks.tensors:
            return one(Tensor(device=device, rank=1))
        return one(Blob(device))

    def function_parameter(self, node: Node, role: str) -> Value | None:
        """What autograd hands to a forward or a backward pass, if used as a tensor."""
        facts = self.facts
        # `forward` is given numbers as well, and gradients are all that `backward` is given.
        used = {"forward": self.marks.surely_tensors, "backward": self.marks.tensors}
        has_context = facts.cls is not None or role == "backward"
        if has_context and node.data == facts.params[0].name:
            return None
        if self.number not in used.get(role, ()):
            return None
        owner = "a Function's" if facts.cls is not None else "an operator's"
        text = f"`{node.data}` is a parameter of {owner} `{role}`"
        return one(Tensor(device=Device(ACCELERATOR, self.why(node, text)), rank=1))

    def gradients(self, node: Node) -> Value | None:
        """The `*gradients` of a backward pass."""
        if self.inference.autograd_role(self.facts.id) != "backward":
            return None
        return self.function_parameter(node, "backward")

    def op_attr(self, node: Node) -> Value:
        results = [
            self.attribute(atom, node.data, node) for atom in ordered(self.of(node.operands[0]))
        ]
        return join(results)

    def attribute(self, atom: Atom, name: str, node: Node) -> Value:
        infer = self.inference
        if isinstance(atom, Instance):
            return self.instance_attribute(atom, name, node)
        if isinstance(atom, Super):
            bases = infer.mro(atom.cls)[1:]
            for base in bases:
                ids = infer.classes[base].methods.get(name)
                if ids:
                    return frozenset(Function(i, Instance(atom.of)) for i in ids)
            return one(Method(Instance(atom.of), name))
        if isinstance(atom, Class):
            for current in infer.mro(atom.id):
                ids = infer.classes[current].methods.get(name)
                if ids:
                    bound = atom if "classmethod" in infer.functions[ids[0]].decorated else None
                    return frozenset(Function(i, bound) for i in ids)
                if name in infer.files[infer.classes[current].path].graph(current).bindings:
                    return infer._read(("name", current, name))
            if name == "apply" and infer.is_autograd_function(atom.id):
                return one(Method(atom, name))
            return UNKNOWN
        if isinstance(atom, Module):
            found = infer.module_name(atom.path, name)
            return UNKNOWN if found is None else found
        if isinstance(atom, Unknown) and name == SAVED:
            saved = Device(ACCELERATOR, self.why(node, "saved by `forward` for `backward`"))
            return one(Sequence(None, one(Tensor(device=saved))))
        if isinstance(atom, Unknown):
            known = name in (CASTS | LEGACY_NAMES) or infer.module_methods(name)
            return one(Method(atom, name)) if known else UNKNOWN
        if isinstance(atom, Symbol):
            dotted = f"{atom.name}.{name}"
            path = infer.modules.absolute(dotted, self.facts.path)
            return one(Module(path)) if path else transfer.attribute(atom, name, self.site(node))
        return transfer.attribute(atom, name, self.site(node))

    def instance_attribute(self, instance: Instance, name: str, node: Node) -> Value:
        infer = self.inference
        ids = infer.methods(instance.cls, name)
        if ids:
            results: list[Value] = []
            for identity in ids:
                decorated = infer.functions[identity].decorated
                if "property" in decorated or "cached_property" in decorated:
                    self.enter(identity, node, Arguments(), instance)
                    results.append(infer._read(("return", identity)))
                elif "setter" in decorated or "deleter" in decorated:
                    continue  # a read of the property runs its getter alone
                elif "staticmethod" in decorated:
                    results.append(one(Function(identity)))
                else:
                    results.append(self.decorated_method(identity, instance))
            return join(results)
        fields: list[Value] = []
        below = infer.subclasses(instance.cls)
        # What so many subclasses store has nothing in common.
        related = [*infer.mro(instance.cls), *(below if len(below) <= MAX_SUBCLASSES else ())]
        for cls in related:
            fields.append(infer._read(("field", cls, name)))
            if name in infer.files[infer.classes[cls].path].graph(cls).bindings:
                fields.append(infer._read(("name", cls, name)))
        value = join(fields)
        if value:
            if value == UNKNOWN or value >= UNKNOWN:
                for cls in related:
                    if infer.marks_of_class(cls).get(name):
                        return self.mark_value(infer.marks_of_class(cls)[name]) or value
            return value
        if name == "param_groups" and infer.is_optimizer(instance.cls):
            return transfer.PARAM_GROUPS
        if name == "state" and infer.is_optimizer(instance.cls):
            return OPTIMIZER_STATE
        if name == "device" and infer.is_module(instance.cls):
            return one(Device(ACCELERATOR, self.why(node, "the module's device")))
        if name in REGISTRIES and infer.is_module(instance.cls):
            device = Device(ACCELERATOR, self.why(node, "parameters and buffers of a module"))
            return one(MappingValue(one(Tensor(device=device))))
        bases = infer.library_bases(instance.cls)
        if not bases:
            return UNKNOWN
        if name in MODULE_METHODS:
            return one(Method(instance, name))
        # What torch's own layer stores, its subclasses have.
        layers = [Object("module", base) for base in sorted(bases) if base in torch_ops.MODULES]
        return transfer.object_attribute(layers[0], name) if len(layers) == 1 else UNKNOWN

    def mark_value(self, kind: str) -> Value | None:
        return {
            "module": one(Object("module", "?")),
            "optimizer": one(Object("optimizer", "?")),
            "accelerator": one(transfer.SOME_ACCELERATOR),
        }.get(kind)

    def decorated_method(self, identity: str, instance: Instance) -> Value:
        """The method bound to the instance, through decorators of the project."""
        infer = self.inference
        facts = infer.functions[identity]
        if set(facts.decorated) <= TRANSPARENT or facts.cls is None:
            return one(Function(identity, instance))
        value = infer._read(("name", facts.cls, facts.name))
        functions = [a for a in value if isinstance(a, Function)]
        if not functions:
            return one(Function(identity, instance))
        return frozenset(replace(a, bound=instance) for a in functions)

    def op_call(self, node: Node) -> Value:
        values = self.operands(node)
        arguments = self.arguments_of(self.graph, node, values[1:])
        results: list[Value] = []
        infer = self.inference
        infer.edges[(self.facts.id, self.number)] = set()
        self.note_flag(node, arguments)
        callees = values[0]
        if several(callees):
            callees = frozenset(a for a in callees if self.takes(a, arguments))
            arguments = by_name(arguments)
        for atom in ordered(callees):
            cast = self.cast_of_unknown(atom, arguments, node)
            if cast is not None:
                results.append(cast)
            elif (
                isinstance(atom, Method)
                and atom.of in ANY_MODULE
                and infer.module_methods(atom.name)
            ):
                results.append(self.call_by_name(atom.name, arguments, node))
            elif atom == Unknown() and self.graph.nodes[node.operands[0]].op == "attr":
                results.append(self.call_overridden(arguments, node))
            else:
                results.append(self.call(atom, arguments, node))
        return join(results)

    def takes(self, atom: Atom, arguments: Arguments) -> bool:
        """Whether a function can be called so: of a table, only such a one can be meant."""
        if not isinstance(atom, Function) or arguments.stars:
            return True
        facts = self.inference.functions[atom.id]
        kinds = {p.kind for p in facts.params}
        bound = atom.bound is not None and facts.cls is not None
        positional = [p for p in facts.params if p.kind == "positional"][bound + atom.given :]
        filled = {p.name for p in positional[: len(arguments.positional)]} | atom.given_names
        if len(arguments.positional) > len(positional) and "star" not in kinds:
            return False
        if arguments.more_keywords:
            return True
        by_name = positional + [p for p in facts.params if p.kind == "keyword"]
        given = filled | arguments.keywords.keys()
        missing = any(not p.has_default and p.name not in given for p in by_name)
        strange = not arguments.keywords.keys() <= {p.name for p in by_name}
        return not missing and not (strange and "starstar" not in kinds)

    def call_overridden(self, arguments: Arguments, node: Node) -> Value:
        """`callback.on_step(...)`, which more classes override than a value can name."""
        callee = self.graph.nodes[node.operands[0]]
        for identity, instance in self.many_methods(self.of(callee.operands[0]), callee.data):
            self.call_function(Function(identity, instance), arguments, node)
        return self.call(Unknown(), arguments, node)

    def cast_of_unknown(self, atom: Atom, arguments: Arguments, node: Node) -> Value | None:
        """`q.half()` of a parameter that nobody knows: a tensor, if it is then used as one; and
        `x.to(device)` of what a loop draws: a tensor or a nest of them."""
        if not (isinstance(atom, Method) and isinstance(atom.of, Unknown)):
            return None
        made = torch_ops.LEGACY_CONSTRUCTORS.get(f"torch.{atom.name}")
        if made is not None:  # `get_accelerator().FloatTensor([norm])`
            return one(Tensor(made[0]))
        if atom.name not in CASTS:
            return None
        if atom.name in MOVES and self.is_moved_tensor(node):
            moved = transfer.call(replace(atom, of=Blob()), arguments, self.site(node))
            if all(isinstance(a, Blob) and a.device.kind for a in moved):
                return moved
        if atom.name in ("cuda", "xpu"):
            return UNKNOWN
        if atom.name == "to":
            target = only(arguments.get("dtype", 0) or UNKNOWN)
            dtype = target.name if isinstance(target, DType) else None
        else:
            dtype = torch_ops.CASTS.get(f"Tensor.{atom.name}")
        if dtype is None or self.number not in self.marks.tensors:
            return UNKNOWN
        return one(Tensor(dtype))

    def is_moved_tensor(self, call: Node) -> bool:
        """Whether what is moved is a tensor or a nest of them: what a loop draws from an iterable,
        or a part of it, or what is then used as a tensor; and is not called, as a module is."""
        method = self.graph.nodes[call.operands[0]]
        if method.op != "attr":
            return False  # one that was handed on
        number = method.operands[0]
        if self.marks.nodes.get(number) == "module" or self.number in self.marks.called:
            return False
        if self.number in self.marks.tensors:
            return True
        for _ in range(6):
            node = self.graph.nodes[number]
            if node.op == "iter" or (node.op == "param" and self.facts.kind == "lambda"):
                return True
            if node.op == "call":
                callee = self.values[node.operands[0]]
                return any(isinstance(a, Symbol) and a.name == "builtins.next" for a in callee)
            if node.op not in ("unpack", "subscript", "narrow", "phi") or not node.operands:
                return False
            number = node.operands[0]
        return False

    def note_flag(self, node: Node, arguments: Arguments) -> None:
        """`add_argument("--profile", action="store_true")`: a flag that is off by default."""
        callee = self.graph.nodes[node.operands[0]]
        if callee.op == "attr" and callee.data == "add_argument" and arguments.positional:
            name = constant(arguments.positional[-1])
            if constant(arguments.get("action")) == "store_true" and isinstance(name, str):
                self.inference.off_flags.add(name.lstrip("-").replace("-", "_"))

    def call_by_name(self, name: str, arguments: Arguments, node: Node) -> Value:
        """`model.calculate_loss(batch)`, the model unknown: the methods of that name."""
        results: list[Value] = []
        for identity in self.inference.module_methods(name):
            cls = self.inference.functions[identity].cls
            assert cls is not None
            results.append(self.call_function(Function(identity, Instance(cls)), arguments, node))
        return join([*results, UNKNOWN])

    def arguments_of(self, graph: Graph, node: Node, values: list[Value]) -> Arguments:
        """How a call is given the values of its operands."""
        shape: CallShape = node.data
        positional: list[Value] = []
        stars = shape.stars
        for number, value in zip(node.operands[1 : 1 + shape.positional], values, strict=False):
            if graph.nodes[number].op == "starred":
                atom = only(value)
                if isinstance(atom, Sequence) and atom.items is not None:
                    positional.extend(atom.items)
                else:
                    positional.append(transfer.iterate(value) if value else value)
            else:
                positional.append(value)
        keywords: dict[str, Value] = {}
        for name, value in zip(shape.keywords, values[shape.positional :], strict=True):
            if name == "**":
                for atom in value:
                    if isinstance(atom, MappingValue):
                        keywords.update(dict(atom.items))
                        keywords.setdefault("**", atom.element)
                    elif isinstance(atom, Blob):
                        keywords.setdefault("**", one(atom))
            else:
                keywords[name] = value
        return Arguments(tuple(positional), keywords, stars, "**" in shape.keywords, shape.hint)

    def call(self, atom: Atom, arguments: Arguments, node: Node) -> Value:
        infer = self.inference
        if isinstance(atom, Function):
            return self.call_function(atom, arguments, node)
        if isinstance(atom, Class):
            makers = infer.methods(atom.id, "__init__", overridden=False)
            for identity in makers:
                self.enter(identity, node, arguments, Instance(atom.id))
            if not makers:
                if infer.library_bases(atom.id) & DICTS:
                    return transfer.call(Symbol("builtins.dict"), arguments, self.site(node))
                self.fill_fields(atom.id, arguments)
            return one(Instance(atom.id))
        if isinstance(atom, Instance):
            return self.call_instance(atom, arguments, node)
        if isinstance(atom, Method) and isinstance(atom.of, Instance):
            if atom.name in ("__call__", "forward"):
                return self.call_instance(atom.of, arguments, node)
            if atom.name in ("register_buffer", "register_parameter"):
                self.register(atom.of, arguments, node)
            return transfer.call(atom, arguments, self.site(node))
        if isinstance(atom, Object) and atom.holds:
            self.enter_held(atom.holds, node)
        if isinstance(atom, Method) and isinstance(atom.of, Class):
            return self.apply_function(atom.of, arguments, node)
        if atom == Unknown() or (isinstance(atom, Method) and atom.name == "step"):
            self.run_closure(arguments, node)
        if isinstance(atom, Symbol):
            special = self.call_special(atom.name, arguments, node)
            if special is not None:
                return special
            if atom.name.startswith(operators.MODULES):
                of_operator = self.call_operators(atom.name, arguments, node)
                if of_operator is not None:
                    return of_operator
        return transfer.call(atom, arguments, self.site(node))

    def enter_held(self, held: Value, node: Node) -> None:
        """Calling a Sequential calls what it holds; what each is given is not followed."""
        for atom in ordered(held):
            if isinstance(atom, Instance):
                for identity in self.inference.methods(atom.cls, "forward"):
                    self.enter(identity, node, None, None)

    def apply_function(self, function: Class, arguments: Arguments, node: Node) -> Value:
        """`Function.apply(x)`: its `forward`, with a context in front."""
        context = one(Object("context", AUTOGRAD_FUNCTION))
        given = replace(arguments, positional=(context, *arguments.positional))
        ids = self.inference.methods(function.id, "forward", overridden=False)
        return join(self.call_function(Function(i), given, node) for i in ids) or UNKNOWN

    def run_closure(self, arguments: Arguments, node: Node) -> None:
        """`optimizer.step(closure)` calls the closure, whatever the optimizer is."""
        callee = self.graph.nodes[node.operands[0]]
        if callee.op != "attr" or callee.data != "step":
            return
        for value in arguments.positional[:1]:
            for atom in value:
                if isinstance(atom, Function):
                    self.call_function(atom, Arguments(), node)

    def register(self, module: Instance, arguments: Arguments, node: Node) -> None:
        """A buffer or parameter is a field of the module, and moves with it."""
        name = constant(arguments.get("name", 0))
        value = arguments.get("tensor", 1) or arguments.get("param", 1) or UNKNOWN
        if isinstance(name, str):
            device = Device(ACCELERATOR, self.why(node, "the module's tensors live on the device"))
            moved = join(
                one(moved_to(a, device)) if isinstance(a, Tensor | Blob) else one(a) for a in value
            )
            site = (self.facts.id, self.number)
            self.inference._write(("field", module.cls, name), site, moved)

    def call_special(self, name: str, arguments: Arguments, node: Node) -> Value | None:
        """Calls of libraries that call something of the project in turn."""
        if name == "builtins.super":
            if self.facts.cls is None:
                return UNKNOWN
            return one(Super(self.facts.cls, self.facts.cls))
        if name == "functools.partial" and arguments.positional:
            return self.partial(arguments, node)
        if name in CALLS_ITS_ARGUMENT and arguments.positional:
            inner = replace(arguments, positional=arguments.positional[1:])
            if name == "builtins.map":
                inner = Arguments(tuple(transfer.iterate(v) for v in arguments.positional[1:]))
                result = join(self.call(a, inner, node) for a in arguments.positional[0])
                return one(Sequence(None, result))
            return join(self.call(a, inner, node) for a in arguments.positional[0])
        if name == "functools.reduce" and len(arguments.positional) >= 2:
            drawn = transfer.iterate(arguments.positional[1])
            start = join([drawn, *arguments.positional[2:3]])
            pair = Arguments((start, drawn))
            return join(self.call(a, pair, node) for a in ordered(arguments.positional[0]))
        if name == "builtins.getattr" and len(arguments.positional) >= 2:
            owner, given = arguments.positional[:2]
            attribute = constant(given)
            if isinstance(attribute, str):
                found = [self.attribute(a, attribute, node) for a in owner]
                return join([*found, *arguments.positional[2:3]])
            names = self.names_given(node.operands[2])
            if names:
                self.dispatch(owner, names, node)
                return UNKNOWN
            return self.attribute_by_prefix(owner, self.prefix(node.operands[2]), node)
        if (
            name in ("builtins.iter", "builtins.next", "builtins.enumerate", "tqdm.tqdm")
            or name in libraries.PASS_THROUGH
        ):
            return transfer.call(Symbol(name), self.loaders(arguments), self.site(node))
        return None

    def call_operators(self, name: str, arguments: Arguments, node: Node) -> Value | None:
        """A call of an operator, or one that registers a function for it."""
        registrar = operators.registrar(name)
        if registrar is not None:
            return self.register_operator(*registrar, arguments)
        if name == f"{operators.LIBRARY}.Library":
            namespace = constant(arguments.get("ns", 0))
            return one(Symbol(operators.PREFIX + namespace)) if isinstance(namespace, str) else None
        operator = name.removesuffix(".default")
        kernels = self.inference._read(("operator", operator, "forward"))
        called = [a for a in ordered(kernels) if isinstance(a, Function)]
        return join(self.call_function(f, arguments, node) for f in called) if called else None

    def register_operator(self, owner: str, how: str, arguments: Arguments) -> Value | None:
        """Note the functions that are registered; without one, the call gives a decorator."""
        operator, rest = operators.registration(owner, arguments)
        if operator is None:
            return None
        how = operators.on_device(how, rest)
        role, functions = operators.REGISTRARS[how], operators.functions_in(rest)
        if not functions:
            return one(Symbol(f"{operator}.{how}"))
        site = (self.facts.id, self.number)
        if role:
            self.inference._write(("operator", operator, role), site, frozenset(functions))
            for function in functions:
                self.inference._write(("role", function.id), site, one(Host("str", role, True)))
                self.inference._need(function.id)
        return one(Symbol(operator)) if how in operators.DEFINES else frozenset(functions)

    def dispatch(self, owner: Value, names: list[str], node: Node) -> None:
        """`getattr(callback, event)`: which methods are meant is up to what each call gives, so
        it is at those calls that the methods are entered."""
        given = self.graph.nodes[node.operands[2]]
        while given.op == "narrow":
            given = self.graph.nodes[given.operands[0]]
        parameter = given.data
        for name in names:
            ids = frozenset(identity for identity, _ in self.many_methods(owner, name, 0))
            self.inference.write_dispatch(self.facts.id, (self.number, parameter, name), ids)

    def dispatched(self, function: Function, arguments: Arguments, node: Node) -> None:
        """Enter the methods that a function finds by the constants of this call."""
        infer = self.inference
        cases = infer.dispatches(function.id)
        given = self.given(function, arguments) if cases else {}
        for (_, parameter, name), methods in cases.items():
            if constant(given.get(parameter)) == name:
                for identity in sorted(methods):
                    self.enter(identity, node, None, None)
                    infer.drawn.setdefault((self.facts.id, self.number), set()).add(identity)

    def many_methods(
        self, owner: Value, name: str, few: int = MAX_ALTERNATIVES
    ) -> list[tuple[str, Instance]]:
        """The methods of that name that instances may have, where they are more than a few."""
        return [
            (identity, atom)
            for atom in ordered(owner)
            if isinstance(atom, Instance)
            for ids in [self.inference.methods(atom.cls, name)]
            if few < len(ids) <= MAX_BY_NAME
            for identity in ids
        ]

    def names_given(self, number: int) -> list[str]:
        """The constants that calls give for a parameter: the events that a trainer fires."""
        node = self.graph.nodes[number]
        while node.op == "narrow":
            node = self.graph.nodes[node.operands[0]]
        if node.op != "param":
            return []
        given = self.inference.given_strings(self.facts.id, node.data)
        return given if len(given) <= MAX_EVENTS else []

    def prefix(self, number: int) -> str:
        """The constant that a computed name starts with: "loss_" of `f"loss_{name}"`."""
        node = self.graph.nodes[number]
        first = constant(self.of(node.operands[0])) if node.op == "binop" else node.data
        return first if node.op in ("fstring", "binop") and isinstance(first, str) else ""

    def attribute_by_prefix(self, owner: Value, prefix: str, node: Node) -> Value:
        """`getattr(self, f"loss_{name}")`: any method of the class whose name starts so."""
        found: list[Value] = []
        for atom in owner:
            if isinstance(atom, Instance) and prefix:
                names = {n for c in self.inference.mro(atom.cls) for n in self.names_in(c)}
                chosen = sorted(n for n in names if n.startswith(prefix))[:MAX_BY_PREFIX]
                found += [self.instance_attribute(atom, name, node) for name in chosen]
        return join(found) or UNKNOWN

    def names_in(self, cls: str) -> Iterable[str]:
        return self.inference.classes[cls].methods

    def loaders(self, arguments: Arguments) -> Arguments:
        """The arguments, instances of the project's own loader classes as loaders."""
        return replace(
            arguments,
            positional=tuple(join(self.as_loader(a) for a in v) for v in arguments.positional),
        )

    def as_loader(self, atom: Atom) -> Value:
        if isinstance(atom, Instance) and self.inference.is_loader(atom.cls):
            return one(Object("loader", atom.cls, atom.device if atom.device.kind else CPU))
        return one(atom)

    def partial(self, arguments: Arguments, node: Node) -> Value:
        results: list[Value] = []
        given = arguments.positional[1:]
        for atom in arguments.positional[0]:
            if isinstance(atom, Function):
                self.bind(atom, replace(arguments, positional=given))
                names = atom.given_names | frozenset(arguments.keywords)
                results.append(one(replace(atom, given=atom.given + len(given), given_names=names)))
            elif isinstance(atom, Symbol) and atom.name in libraries.AUTOCASTS:
                inner = replace(arguments, positional=given)
                results.append(
                    one(transfer.autocast(transfer.canonical(atom.name), inner, self.site(node)))
                )
            else:
                results.append(UNKNOWN)
        return join(results)

    def call_function(self, function: Function, arguments: Arguments, node: Node) -> Value:
        infer = self.inference
        facts = infer.functions[function.id]
        self.enter(function.id, node, None, None)
        self.bind(function, arguments)
        self.dispatched(function, arguments, node)
        if set(facts.decorated) & CONTEXT_MAKERS:
            return infer._read(("context", function.id)) or UNKNOWN
        result = infer._read(("return", function.id))
        if any(isinstance(atom, Autocast) for atom in result):
            return self.specialised(function, arguments, result)
        if infer.files[facts.path].graph(function.id).yields:
            return one(Sequence(None, infer._read(("yield", function.id))))
        return result

    def specialised(self, function: Function, arguments: Arguments, result: Value) -> Value:
        """A helper that returns a region, with this call's arguments put for its parameters."""
        state = self.inference.states.get(function.id)
        if state is None:
            return result
        given = self.given(function, arguments)
        made: list[Value] = []
        for returned in state.graph.returns:
            source = state.graph.nodes[returned]
            number = source.operands[0] if source.op == "return" else returned
            made.append(self.specialised_node(state, number, given) or state.values[number])
        return join(made)

    def specialised_node(self, state: State, number: int, given: dict[str, Value]) -> Value | None:
        node = state.graph.nodes[number]
        if node.op == "phi":
            parts = [
                self.specialised_node(state, n, given) or state.values[n] for n in node.operands
            ]
            return join(parts)
        if node.op != "call":
            return None
        names = [a.name for a in state.values[node.operands[0]] if isinstance(a, Symbol)]
        if len(names) != 1 or transfer.canonical(names[0]) not in libraries.AUTOCASTS:
            return None
        values = [self.substituted(state, n, given) for n in node.operands[1:]]
        old = [a for a in state.values[number] if isinstance(a, Autocast)]
        arguments = self.arguments_of(state.graph, node, values)
        site = Site(None, lambda text: (old[0].why if old else None) or _NO_WHY._replace(text=text))
        return one(transfer.autocast(transfer.canonical(names[0]), arguments, site))

    def substituted(self, state: State, number: int, given: dict[str, Value]) -> Value:
        node = state.graph.nodes[number]
        if node.op == "param" and node.data in given:
            return given[node.data]
        return state.values[number]

    def given(self, function: Function, arguments: Arguments) -> dict[str, Value]:
        """The parameters of a function as a call fills them, constant defaults included."""
        facts = self.inference.functions[function.id]
        positional = [p for p in facts.params if p.kind == "positional"]
        if function.bound is not None:
            positional = positional[1:]
        filled = {p.name: self.default_of(p) for p in facts.params if p.constant_default}
        if not arguments.stars:
            names = [p.name for p in positional]
            filled |= dict(zip(names, arguments.positional, strict=False))
        return filled | {k: v for k, v in arguments.keywords.items() if k != "**"}

    def call_instance(self, instance: Instance, arguments: Arguments, node: Node) -> Value:
        infer = self.inference
        name = "__call__"
        ids = infer.methods(instance.cls, name)
        module = infer.is_module(instance.cls)
        if not ids and module:
            ids = infer.methods(instance.cls, "forward")
        results = [
            self.call_function(Function(identity, instance), arguments, node) for identity in ids
        ]
        value = join(results)
        if module and (not ids or value == UNKNOWN):
            operands = transfer.tensors_in(arguments.all)
            site = self.site(node)
            return one(Blob(transfer.output_device(operands, instance.device, site), "output"))
        return value if ids else UNKNOWN

    def enter(
        self, identity: str, node: Node, arguments: Arguments | None, bound: Atom | None
    ) -> None:
        """Record that the call may run the function, and under which autocast state."""
        infer = self.inference
        infer.edges.setdefault((self.facts.id, self.number), set()).add(identity)
        infer.write_region(identity, (self.facts.id, self.number), self.region(node.block))
        infer._need(identity)
        if arguments is not None:
            self.bind(Function(identity, bound), arguments)

    def bind(self, function: Function, arguments: Arguments) -> None:
        """Contribute the arguments of a call to the parameters of what is called."""
        infer = self.inference
        facts = infer.functions[function.id]
        site = (self.facts.id, self.number)
        params = list(facts.params)
        takes_self = facts.cls is not None and "staticmethod" not in facts.decorated
        if (
            params
            and params[0].kind == "positional"
            and takes_self
            and (function.bound is not None or facts.name == "__init__")
        ):
            params = params[1:]
        positional = [p for p in params if p.kind == "positional"][function.given :]
        by_name = {p.name for p in params if p.kind in ("positional", "keyword")}
        star = next((p.name for p in params if p.kind == "star"), None)
        starstar = next((p.name for p in params if p.kind == "starstar"), None)
        rest: list[Value] = []
        for index, value in enumerate(arguments.positional):
            if index < len(positional):
                infer._write(("param", facts.id, positional[index].name), site, value)
            else:
                rest.append(value)
        if rest and star is not None:
            infer._write(("param", facts.id, star), site, join(rest))
        extra: list[Value] = []
        for name, value in arguments.keywords.items():
            if name in by_name:
                infer._write(("param", facts.id, name), site, value)
            elif name != "**":
                extra.append(value)
        if "**" in arguments.keywords:
            given = {p.name for p in positional[: len(arguments.positional)]}
            for p in params:
                named = p.kind in ("positional", "keyword") and p.name not in arguments.keywords
                if named and p.name not in given and not p.has_default:
                    infer._write(("param", facts.id, p.name), site, arguments.keywords["**"])
            extra.append(arguments.keywords["**"])
        # What a call leaves out is what the default says; elsewhere the default is not what it is.
        left_out = [p for p in params if p.name not in arguments.keywords and p.constant_default]
        filled = {p.name for p in positional[: len(arguments.positional)]}
        for p in left_out:
            if p.name not in filled and p.name not in function.given_names:
                infer._write(("param", facts.id, p.name), site, self.default_of(p))
        if extra and starstar is not None:
            infer._write(("param", facts.id, starstar), site, join(extra))

    def fill_fields(self, cls: str, arguments: Arguments) -> None:
        """A dataclass or NamedTuple: its fields are what the call gives, in order."""
        infer = self.inference
        facts = infer.classes[cls]
        if "dataclass" not in facts.decorated and "NamedTuple" not in facts.bases:
            return
        site = (self.facts.id, self.number)
        for name, value in [
            *zip(infer.fields(cls), arguments.positional, strict=False),
            *arguments.keywords.items(),
        ]:
            infer._write(("field", cls, name), site, value)

    def op_store(self, node: Node) -> Value:
        target, value = self.operands(node)
        if self.graph.nodes[node.operands[1]].op in ("add", "put"):
            # `self.xs.append(x)`: what is unknown of the list must not come back as its own proof.
            value -= UNKNOWN
        for atom in target:
            if isinstance(atom, Instance):
                site = (self.facts.id, self.number)
                self.inference._write(("field", atom.cls, node.data), site, value)
        return value

    def op_binop(self, node: Node) -> Value:
        left, right = self.operands(node)
        if node.data == "BitOr" and self.facts.kind != "lambda":
            kinds = [*left, *right]
            if any(isinstance(a, Class | Symbol) for a in kinds):
                return join([left, right])  # an annotation: `Tensor | None`
        return transfer.binary(node.data, left, right, self.site(node))

    def op_aug(self, node: Node) -> Value:
        target, value = self.operands(node)
        return transfer.augmented(node.data, target, value, self.site(node))

    def op_unary(self, node: Node) -> Value:
        return transfer.unary(node.data, self.of(node.operands[0]), self.site(node))

    def op_compare(self, node: Node) -> Value:
        return transfer.compare(node.data, self.operands(node), self.site(node))

    def op_bool(self, node: Node) -> Value:
        return join(self.operands(node))

    def op_tuple(self, node: Node) -> Value:
        values = self.operands(node)
        if any(self.graph.nodes[n].op == "starred" for n in node.operands):
            return one(
                Sequence(
                    None,
                    join(
                        transfer.iterate(v) if self.graph.nodes[n].op == "starred" else v
                        for n, v in zip(node.operands, values, strict=True)
                    ),
                )
            )
        return one(Sequence(tuple(values), BOTTOM))

    op_list = op_tuple

    def op_set(self, node: Node) -> Value:
        return one(Sequence(None, join(self.operands(node))))

    def op_dict(self, node: Node) -> Value:
        values = self.operands(node)
        pairs = dict(zip(node.data, values, strict=True))
        named = len(pairs) <= MAX_KEYS and all(isinstance(key, str) for key in pairs)
        items = tuple((key, pairs[key]) for key in sorted(pairs)) if named else ()
        plain: list[Value] = []
        for key, value in zip(node.data, values, strict=True):
            if key is None:
                plain.extend(a.element if isinstance(a, MappingValue) else UNKNOWN for a in value)
            else:
                plain.append(value)
        return one(MappingValue(join(plain), items, len(pairs) > MAX_KEYS))

    def op_starred(self, node: Node) -> Value:
        return self.of(node.operands[0])

    def op_fstring(self, _: Node) -> Value:
        return transfer.STR

    def op_slice(self, _: Node) -> Value:
        return transfer.OBJECT

    def op_subscript(self, node: Node) -> Value:
        container, index = self.operands(node)
        keys = self.between_brackets(node.operands[1], index)
        results: list[Value] = []
        for atom in ordered(container):
            if isinstance(atom, Symbol):
                results.append(annotation_subscript(atom, index))
            elif isinstance(atom, Instance):
                results.append(self.instance_item(atom, index, node))
            else:
                results.append(transfer.subscript_atom(atom, index, keys))
        return join(results)

    def between_brackets(self, number: int, index: Value) -> tuple[Value, ...]:
        """Ex) 0 and None in x[0, None]; nothing where they cannot be told: x[indices]

        A tuple is as good as its elements, a list of them is one index that gathers.
        """
        node = self.graph.nodes[number]
        if node.op != "tuple":
            tells = node.op == "list" or not any(isinstance(a, Sequence) for a in index)
            return (index,) if tells else ()
        if any(self.graph.nodes[n].op == "starred" for n in node.operands):
            return ()
        return tuple(self.operands(node))

    def instance_item(self, instance: Instance, index: Value, node: Node) -> Value:
        """`instance[index]`: by its method, by the order of a named tuple, or by a field's name."""
        row = self.named_tuple(instance)
        if row is not None:
            return transfer.subscript_atom(row, index)
        if self.inference.methods(instance.cls, "__getitem__"):
            return self.call_dunder(instance, "__getitem__", Arguments((index,)), node)
        key = constant(index)
        if isinstance(key, str):
            return self.inference._read(("field", instance.cls, key)) or UNKNOWN
        return UNKNOWN

    def named_tuple(self, instance: Instance) -> Sequence | None:
        """The fields of a `class Output(NamedTuple)`, in order; None for other instances."""
        infer = self.inference
        facts = infer.classes[instance.cls]
        if "NamedTuple" not in facts.bases:
            return None
        names = infer.fields(instance.cls)
        values = (infer._read(("field", instance.cls, name)) or UNKNOWN for name in names)
        return Sequence(tuple(values), BOTTOM, names=names)

    def call_dunder(self, instance: Instance, name: str, arguments: Arguments, node: Node) -> Value:
        ids = self.inference.methods(instance.cls, name)
        if not ids:
            return UNKNOWN
        return join(self.call_function(Function(i, instance), arguments, node) for i in ids)

    def op_iter(self, node: Node) -> Value:
        results: list[Value] = []
        for atom in ordered(self.of(node.operands[0])):
            if isinstance(atom, Instance):
                row = self.named_tuple(atom)
                if row is not None:
                    results.append(transfer.iterate_atom(row))
                elif self.inference.methods(atom.cls, "__iter__"):
                    made = self.call_dunder(atom, "__iter__", Arguments(), node)
                    if not any(isinstance(a, Instance) for a in made):
                        results.append(transfer.iterate(made) if made else made)
                    else:
                        results.append(UNKNOWN)
                elif self.inference.is_loader(atom.cls):
                    results.append(one(Blob(atom.device if atom.device.kind else CPU)))
                else:
                    results.append(UNKNOWN)
            else:
                results.append(transfer.iterate_atom(atom))
        return join(results)

    def op_unpack(self, node: Node) -> Value:
        rows = (
            (isinstance(a, Instance) and self.named_tuple(a)) or a
            for a in self.of(node.operands[0])
        )
        return transfer.unpack(frozenset(rows), node.data[0], node.data[2])

    def op_enter(self, node: Node) -> Value:
        results: list[Value] = []
        for atom in self.of(node.operands[0]):
            if isinstance(atom, Instance):
                made = self.call_dunder(atom, "__enter__", Arguments(), node)
                results.append(made)
            elif isinstance(atom, Object | Sequence):
                results.append(one(atom))  # `with tqdm(loader) as bar`
            else:
                results.append(UNKNOWN)
        return join(results)

    def op_comp(self, node: Node) -> Value:
        return one(Sequence(None, self.of(node.operands[0])))

    def op_dictcomp(self, node: Node) -> Value:
        return one(MappingValue(self.of(node.operands[1])))

    def op_put(self, node: Node) -> Value:
        container, index, value = self.operands(node)
        return transfer.put(container, index, value)

    def op_add(self, node: Node) -> Value:
        container, value = self.operands(node)
        return transfer.add(container, value, node.data)

    def op_narrow(self, node: Node) -> Value:
        value, *classes = self.operands(node)
        return narrow(value, node.data, join(classes))

    def op_def(self, node: Node) -> Value:
        """The function, through the decorators of the project."""
        identity = node.data
        decorators = self.operands(node)
        self.inference._write(
            ("decorators", identity), (self.facts.id, self.number), join(decorators)
        )
        value = one(Function(identity))
        for decorator in reversed(decorators):
            made: list[Value] = []
            for atom in decorator:
                if isinstance(atom, Function | Class) or is_registrar(atom):
                    result = self.call(atom, Arguments((value,)), node)
                    made.append(frozenset(a for a in result if is_callee(a)))
                    if isinstance(atom, Function) and self.decorates_many(atom):
                        made.append(value)
            value = join(made) or value
        return value

    def decorates_many(self, decorator: Function) -> bool:
        """Whether a wrapper of this decorator calls more functions than can be told apart, so that
        a call of the wrapper has to be taken for one of what it wraps."""
        positional = [
            p.name for p in self.inference.functions[decorator.id].params if p.kind == "positional"
        ]
        names = positional[(1 if decorator.bound is not None else 0) + decorator.given :]
        return bool(names) and Unknown() in self.inference._read(("param", decorator.id, names[0]))

    def op_default(self, node: Node) -> Value:
        value = self.of(node.operands[0])
        self.inference._write(("param", *node.data), (self.facts.id, self.number), value)
        return value

    def op_class(self, node: Node) -> Value:
        identity = node.data
        bases = tuple(self.operands(node))
        if self.inference.own_bases.get(identity) != bases:
            self.inference.own_bases[identity] = bases
            self.inference.forget_bases()
        self.inference._write(
            ("bases", identity), (self.facts.id, self.number), join(self.operands(node))
        )
        return one(Class(identity))

    def op_lambda(self, node: Node) -> Value:
        return one(Function(node.data))

    def op_await(self, node: Node) -> Value:
        return self.of(node.operands[0])

    def op_yield(self, _: Node) -> Value:
        return UNKNOWN

    def op_return(self, node: Node) -> Value:
        return self.of(node.operands[0])


OPTIMIZER_STATE = one(MappingValue(one(MappingValue(BOTTOM))))
SAVED = "saved_tensors"  # of the context of an autograd.Function
REGISTRIES = frozenset({"_buffers", "_parameters"})  # of a module
LEGACY_NAMES = frozenset(name.rpartition(".")[2] for name in torch_ops.LEGACY_CONSTRUCTORS)
CASTS = frozenset({"to", "half", "bfloat16", "float", "double", "cuda", "xpu"})
MOVES = frozenset({"to", "cuda", "xpu"})
DICTS = frozenset({"builtins.dict", "collections.OrderedDict"})
ANY_MODULE: tuple[Atom, ...] = (Unknown(), Object("module", "?"))
CALLS_ITS_ARGUMENT = frozenset(
    {"builtins.map", "torch.utils.checkpoint.checkpoint", "torch.compile.__call__"}
)
MODULE_METHODS = frozenset(
    """
    to cuda cpu xpu train eval requires_grad_ apply float half bfloat16 double parameters
    named_parameters buffers state_dict load_state_dict zero_grad modules named_modules
    children manual_backward log log_dict forward __call__ register_buffer
    """.split()
)


def is_vague(atom: Atom) -> bool:
    """Whether this is unknown, or a container of what is."""
    if isinstance(atom, Sequence | MappingValue):
        return Unknown() in atom.element
    return isinstance(atom, Unknown)


def several(callees: Value) -> bool:
    """Whether a call may mean more functions than values are told apart: those of a table."""
    return sum(isinstance(a, Function) and a.bound is None for a in callees) > MAX_ALTERNATIVES


def by_name(arguments: Arguments) -> Arguments:
    """The arguments of a call that may mean any function of a table: a name says which parameter is
    meant, whatever the function; what is given by position is for one of the functions alone."""
    named = {name: value for name, value in arguments.keywords.items() if name != "**"}
    unsaid = (BOTTOM,) * len(arguments.positional)
    return replace(arguments, positional=unsaid, keywords=named)


def is_registrar(atom: Atom) -> bool:
    """Whether this is a decorator that registers a function for an operator."""
    return isinstance(atom, Symbol) and operators.registrar(atom.name) is not None


def is_callee(atom: Atom) -> bool:
    """Whether calling this calls a function of the project: it is one, or an operator."""
    return isinstance(atom, Function) or (
        isinstance(atom, Symbol) and atom.name.startswith(operators.PREFIX)
    )


def holds_instance(atom: Atom) -> bool:
    """Whether this is an instance of a class of the project, or a container of such."""
    if isinstance(atom, Sequence | MappingValue):
        return any(holds_instance(inner) for inner in atom.element)
    return isinstance(atom, Instance)


def called_name(call: ast.Call) -> str:
    """The last identifier of what is called: `f` of `f(x)` and of `module.f(x)`."""
    callee = call.func
    if isinstance(callee, ast.Attribute):
        return callee.attr
    return callee.id if isinstance(callee, ast.Name) else ""


def as_region(context: Autocast) -> Region:
    return Region(context.device, context.dtype, context.enabled, context.why)


def nested(inner: Region, outer: Region | None) -> Region:
    """A region without a dtype takes that of the enclosing one of its device type."""
    if inner.dtype is None and outer is not None and outer.device == inner.device and outer.enabled:
        return replace(inner, dtype=outer.dtype)
    return inner


def annotated(annotation: Value, device: Device) -> Value:
    """What a parameter with this annotation holds; Unknown for what says nothing."""
    results: list[Value] = []
    for atom in annotation:
        if atom == NONE:
            results.append(one(NONE))
        elif isinstance(atom, Class):
            results.append(one(Instance(atom.id)))
        elif isinstance(atom, Symbol):
            results.append(annotated_symbol(transfer.canonical(atom.name), device))
        elif isinstance(atom, Sequence | MappingValue):
            results.append(one(atom))
        else:
            return UNKNOWN
    return join(results) if results else UNKNOWN


ANNOTATIONS: dict[str, Atom] = {
    "torch.nn.Module": Object("module", "?"),
    "torch.utils.data.DataLoader": Object("loader", "torch.utils.data.DataLoader", CPU),
    "torch.optim.Optimizer": Object("optimizer", "?"),
    "torch.device": Device(None),
    "numpy.ndarray": Host("numpy"),
    "builtins.int": Host("int"),
    "builtins.float": Host("float"),
    "builtins.bool": Host("bool"),
    "builtins.str": Host("str"),
}
TENSOR_TYPES = {
    "torch.Tensor": None, "torch.LongTensor": "int64", "torch.FloatTensor": "float32",
    "torch.BoolTensor": "bool", "torch.IntTensor": "int32", "torch.HalfTensor": "float16",
}  # fmt: skip


def annotated_symbol(name: str, device: Device) -> Value:
    if name in TENSOR_TYPES:
        # A parameter that is a tensor has dimensions, but for the rarest.
        return one(Tensor(TENSOR_TYPES[name], device, 1))
    if name in ANNOTATIONS:
        return one(ANNOTATIONS[name])
    kind = libraries.kind(name)
    if kind is not None:
        return one(Object(kind, name, CPU if kind == "loader" else Device(None)))
    if name in torch_ops.MODULES:
        return one(Object("module", name))
    return UNKNOWN


MAPPING_ANNOTATIONS = frozenset(
    {"Dict", "dict", "Mapping", "MutableMapping", "OrderedDict", "DefaultDict", "defaultdict"}
)


def annotation_subscript(symbol: Symbol, index: Value) -> Value:
    """`Optional[Tensor]`, `List[Tensor]`, `Dict[str, Tensor]` as annotations."""
    name = symbol.name.rpartition(".")[2]
    inner = [index]
    for atom in index:
        if isinstance(atom, Sequence) and atom.items is not None:
            inner = list(atom.items)
    if name == "Optional":
        return join([index, one(NONE)])
    if name == "Union":
        return join(inner)
    if name in ("List", "list", "Sequence", "Iterable", "Iterator", "Set", "set"):
        return one(Sequence(None, annotated(inner[0], Device(None))))
    if name in ("Tuple", "tuple"):
        return one(Sequence(None, join(annotated(v, Device(None)) for v in inner)))
    if name in MAPPING_ANNOTATIONS and len(inner) == 2:
        return one(MappingValue(annotated(inner[1], Device(None))))
    if libraries.kind(symbol.name) == "loader":
        return one(symbol)  # `DataLoader[T]`
    return UNKNOWN


def narrow(value: Value, kind: str, classes: Value) -> Value:
    """The alternatives of a value that a test leaves."""
    if kind == "none":
        return one(NONE)
    if kind in ("not none", "true"):
        return frozenset(a for a in value if a != NONE)
    if kind == "tensor":
        kept = frozenset(a for a in value if isinstance(a, Tensor | Blob))
        return kept or (BOTTOM if is_of_host(value) else one(Tensor()))
    if kind == "not tensor":
        return frozenset(a for a in value if not isinstance(a, Tensor)) or UNKNOWN
    if kind in ("on cuda", "on cpu"):
        elsewhere = "cpu" if kind == "on cuda" else ACCELERATOR
        # Where the device is known to be the other one, the branch is not taken.
        return frozenset(
            a for a in value if not (isinstance(a, Tensor) and a.device.kind == elsewhere)
        )
    if kind == "isinstance":
        return narrow_to(value, classes)
    if kind == "not isinstance":
        return narrow_out(value, classes)
    return value


PLAIN = frozenset({"int", "float", "bool", "number", "str"})


def class_atoms(classes: Value) -> list[Atom]:
    atoms: list[Atom] = []
    for atom in classes:
        if isinstance(atom, Sequence):
            inner = atom.items if atom.items is not None else (atom.element,)
            atoms.extend(a for v in inner for a in v)
        else:
            atoms.append(atom)
    return atoms


def narrow_to(value: Value, classes: Value) -> Value:
    made = [annotated(one(a), Device(None)) for a in class_atoms(classes)]
    if not made or any(m == UNKNOWN for m in made):
        return frozenset(a for a in value if a != NONE) or UNKNOWN
    target = join(made)
    kinds = {type(a) for a in target}
    kept = frozenset(a for a in value if type(a) in kinds and not _other_host(a, target))
    if Blob in {type(a) for a in value} and Tensor in kinds:
        kept |= {Tensor(device=a.device) for a in value if isinstance(a, Blob)}
    if not kept and Tensor in kinds and is_of_host(value):
        return BOTTOM  # the branch is not taken
    return kept or target


def is_of_host(value: Value) -> bool:
    """Whether the value is known to be a number or a text, whichever way was taken."""
    return bool(value) and all(isinstance(a, Host) and a.kind in PLAIN for a in value)


def narrow_out(value: Value, classes: Value) -> Value:
    target = join(annotated(one(a), Device(None)) for a in class_atoms(classes))
    tensor = any(isinstance(a, Tensor) for a in target)
    hosts = {a.kind for a in target if isinstance(a, Host)}
    return (
        frozenset(
            a
            for a in value
            if not (tensor and isinstance(a, Tensor))
            and not (isinstance(a, Host) and a.kind in hosts)
        )
        or UNKNOWN
    )


def _other_host(atom: Atom, target: Value) -> bool:
    return isinstance(atom, Host) and atom.kind not in {
        a.kind for a in target if isinstance(a, Host)
    }
