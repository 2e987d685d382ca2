"""Meanings of names: of imports, of modules, of the scopes around a function."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.inference import transfer
from amplint.inference.state import Key
from amplint.inference.store import Store
from amplint.inference.whole_program.definitions import Definitions
from amplint.ir import ops
from amplint.ir.model import FunctionFacts, Graph
from amplint.values.atoms import BOTTOM, UNKNOWN, Module, Symbol, Value, one

MAX_IMPORTS = 8  # modules through which a class is handed on
# Libraries that people star-import, and whose names are then theirs unless somebody binds them.
STAR_LIBRARIES = frozenset({"torch.cuda.amp"})
BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)


class Bindings:
    """The names of a project.

    Args:
        definitions: of the project.
        store: holds the values of names.
    """

    def __init__(self, definitions: Definitions, store: Store) -> None:
        self._functions = definitions.functions
        self._files = definitions.files
        self._store = store
        self.modules = definitions.files.modules
        self._bound_in: dict[tuple[str, str], str | Value] = {}

    def class_at(self, path: str, graph: Graph, number: int, steps: int) -> str | None:
        """The class that a node of a module's graph holds, through imports."""
        node = graph.nodes[number]
        if node.op == ops.CLASS:
            return str(node.data)
        if node.op == ops.SUBSCRIPT:
            return self.class_at(path, graph, node.operands[0], steps)
        if node.op == ops.IMPORT and node.data[1] is not None:
            module, name, level = node.data
            return self._class_imported(path, module, name, level, steps)
        if node.op == ops.ATTR and graph.nodes[node.operands[0]].op == ops.IMPORT:
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
        target = self.modules.imported(path, level, dotted)
        scope = self._find_binding(target, name, set()) if target is not None and steps else None
        if not isinstance(scope, str):
            return None
        graph = self._files[scope[:-2]].graph(scope)
        bound = graph.bindings[name]
        return self.class_at(scope[:-2], graph, bound[0], steps - 1) if len(bound) == 1 else None

    def import_value(self, path: str, data: tuple[str | None, str | None, int]) -> Value:
        """The value that `import module` or `from module import name` binds in the file `path`."""
        module, name, level = data
        dotted = module or ""
        target = self.modules.imported(path, level, dotted)
        if name is None:
            return one(Module(target)) if target else one(Symbol(dotted))
        full = f"{dotted}.{name}" if dotted else name
        inner = self.modules.imported(path, level, full)
        # A package that imports from itself means its submodule: this import binds the name.
        if target is not None and (target != path or inner is None):
            bound = self.module_name(target, name)
            if bound is not None:
                return bound
        if inner is not None:
            return one(Module(inner))
        if target is not None or level:
            return UNKNOWN
        return transfer.symbol_attribute(dotted, name)

    def imported_files(self, path: str, data: tuple[str | None, str | None, int]) -> Iterator[str]:
        """The files of the project that an import in the file `path` means."""
        module, name, level = data
        dotted = module or ""
        for target in (dotted, f"{dotted}.{name}".lstrip(".")) if name is not None else (dotted,):
            target_path = self.modules.imported(path, level, target)
            if target_path is not None:
                yield target_path

    def module_name(self, path: str, name: str) -> Value | None:
        """The value of `name` in a module of the project; None where it is not bound.

        Bottom is something else: bound, and not evaluated yet.
        """
        key = (path, name)
        if key not in self._bound_in:
            self._bound_in[key] = self._find_binding(path, name, set())
        binding = self._bound_in[key]
        if isinstance(binding, str):
            return self._store.read(Key("name", binding, name))
        if binding:
            return binding
        # A function of the module may bind it, declared `global`.
        if name in BUILTINS:
            return None  # nobody does that, and most names that a module does not bind are these
        declared = Key("name", f"{path}::", name)
        value = self._store.read(declared)
        return value if self._store.sites_of(declared) else None

    def _find_binding(self, path: str, name: str, trail: set[str]) -> str | Value:
        """The scope that binds a module's name, through star imports, or what it is without one."""
        trail.add(path)
        scope = f"{path}::"
        may_bind = self._files.may_bind(path, name)
        if may_bind and name in self._files[path].graph(scope).bindings:
            return scope
        sub = self.modules.submodule(path, name) if path.endswith("__init__.py") else None
        if sub is not None:
            return one(Module(sub))
        return self._find_behind_stars(path, name, trail) if may_bind else BOTTOM

    def _find_behind_stars(self, path: str, name: str, trail: set[str]) -> str | Value:
        """The scope that binds a name which a module has by `from other import *`."""
        graph = self._files[path].graph(f"{path}::")
        if name.startswith("_"):
            return BOTTOM  # a star brings none of these
        of_library: Value = BOTTOM
        for node in graph.bindings.get("*", ()):
            module, _, level = graph.nodes[node].data
            target = self.modules.imported(path, level, module or "")
            if target is not None and target not in trail:
                binding = self._find_binding(target, name, trail)
                if binding:
                    return binding
            elif target is None and not level:
                of_library = self._of_library(module, name) or of_library
        return of_library

    def _of_library(self, module: str, name: str) -> Value:
        """The value that a library's `from module import *` binds to a name, if it is known to."""
        symbol = f"{module}.{name}" if module in STAR_LIBRARIES else None
        dotted = symbol or self._files.models.starred(module, name)
        if dotted is None:
            return BOTTOM
        parent, _, last = dotted.rpartition(".")
        return transfer.symbol_attribute(parent, last) if parent else one(Symbol(dotted))

    def outer_name(self, function: FunctionFacts, name: str) -> Value:
        """A name free in the function: of an enclosing function, the module, or a builtin."""
        scope = function.parent
        while scope is not None:
            facts = self._functions[scope]
            if facts.kind != "class" or function.kind == "class":
                if facts.kind == "module":
                    value = self.module_name(facts.path, name)
                    if value is not None:
                        return value
                elif name in self._files[facts.path].graph(scope).bindings:
                    return self._store.read(Key("name", scope, name))
            scope = facts.parent
        if function.kind == "module":
            value = self.module_name(function.path, name)
            if value is not None:
                return value
        return one(Symbol(f"builtins.{name}")) if name in BUILTINS else UNKNOWN
