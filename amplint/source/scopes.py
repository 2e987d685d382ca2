"""Where the names of a file are bound, and whether two places see the same value under a name."""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from amplint.ir.ssa import paired

Function = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
Comprehension = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Place = tuple[int, int]


@dataclass(frozen=True)
class Binding:
    """One place that binds a name to a value, or takes it away.

    Args:
        node: the `ast` node that does it: a Name, an argument, a definition, an alias ...
        scope: the function, class, comprehension or module whose name it is.
        target: what an import binds the name to, by its dotted name.
    """

    name: str
    node: ast.AST
    scope: ast.AST
    target: str | None = None


class Scopes:
    """The bindings of a file, collected when they are first asked for."""

    def __init__(self, module: ast.Module) -> None:
        self.module = module

    def bindings(self, name: str) -> list[Binding]:
        """All places in the file that bind a name, in whatever scope."""
        return self._bindings.get(name, [])

    def scope(self, node: ast.AST) -> ast.AST:
        """The function around a node, or the module."""
        around = self._parents.get(node)
        while around is not None and not isinstance(around, Function):
            around = self._parents.get(around)
        return around or self.module

    def class_around(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class around a node."""
        around = self._parents.get(node)
        while around is not None and not isinstance(around, ast.ClassDef):
            around = self._parents.get(around)
        return around

    def same_value(self, name: str, earlier: ast.AST, later: ast.AST) -> bool:
        """Whether a variable read at `later` has, as far as names go, the same value at `earlier`.

        So it is bound before `earlier` on every path there, and not bound anew in between.
        """
        scope = self.scope(later)
        if scope is not self.scope(earlier):
            return False
        here = [each for each in self.bindings(name) if each.scope is scope]
        if any(
            self._is_within(place, each.scope)
            for each in self._comprehended(name)
            for place in (earlier, later)
        ):
            return False
        if not here:
            # A closure's or the module's; nobody promises that it stays, unless it never changes.
            return len(self.bindings(name)) <= 1
        if any(_start(earlier) <= _start(each.node) <= _start(later) for each in here):
            return False
        return any(self._reaches(each.node, earlier) for each in here)

    def is_bound(self, name: str, place: ast.AST) -> bool:
        """Whether a name has a value where a node stands: its function binds it on every path to
        there, a comprehension or a scope around does, it is a builtin, or a star may bring it."""
        scope = self.scope(place)
        bindings = self.bindings(name)
        if any(self._is_within(place, each.scope) for each in self._comprehended(name)):
            return True
        here = [each for each in bindings if each.scope is scope]
        if here:
            return any(self._reaches(each.node, place) for each in here)
        around = (*Function, ast.Module)
        outer = any(
            isinstance(each.scope, around) and self._is_within(place, each.scope)
            for each in bindings
        )
        return outer or hasattr(builtins, name) or bool(self.bindings("*"))

    def written_into(self, name: str, place: ast.AST) -> bool:
        """Whether the function around a place writes into what a variable holds, at any time.

        Ex) w[0] = 1, w += 1, w.mul_(2), torch.add(a, b, out=w)
        """
        return any(_root(written) == name for written in _written(self.scope(place)))

    def attributes_change(self, earlier: ast.AST, later: ast.AST) -> frozenset[str]:
        """The names of attributes that are assigned between two places."""
        return frozenset(
            node.attr
            for node in ast.walk(self.scope(later))
            if isinstance(node, ast.Attribute)
            and not isinstance(node.ctx, ast.Load)
            and _start(earlier) <= _start(node) <= _start(later)
        )

    def _comprehended(self, name: str) -> Iterator[Binding]:
        """The bindings of a name by comprehensions, which end with these."""
        return (each for each in self.bindings(name) if isinstance(each.scope, Comprehension))

    def _is_within(self, node: ast.AST, around: ast.AST) -> bool:
        inner: ast.AST | None = node
        while inner is not None and inner is not around:
            inner = self._parents.get(inner)
        return inner is around

    def _reaches(self, binding: ast.AST, node: ast.AST) -> bool:
        """Whether every path to `node` comes through the binding: its block is around `node`."""
        if isinstance(binding, ast.arg):
            return True
        statement = self._statement(binding)
        if isinstance(statement, ast.Delete) or _start(statement) > _start(node):
            return False
        block = self._parents.get(statement)
        around: ast.AST | None = node
        while around is not None:
            if around is statement:  # `for name in ...` and `with ... as name`, from within
                return not isinstance(binding, ast.ExceptHandler)
            parent = self._parents.get(around)
            if parent is block and block is not None:
                return _same_block(block, statement, around)
            around = parent
        return False

    def _statement(self, node: ast.AST) -> ast.AST:
        while not isinstance(node, ast.stmt) and node in self._parents:
            node = self._parents[node]
        return node

    @cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        parents: dict[ast.AST, ast.AST] = {}
        nodes: list[ast.AST] = [self.module]  # in the order of `ast.walk`
        for node in nodes:
            for child in ast.iter_child_nodes(node):
                parents[child] = node
                nodes.append(child)
        return parents

    @cached_property
    def _bindings(self) -> dict[str, list[Binding]]:
        bindings: dict[str, list[Binding]] = defaultdict(list)
        for node in self._parents:
            for name, target in _bound_names(node) if type(node) in BINDING else ():
                bindings[name].append(Binding(name, node, self._owner(node, name), target))
        return bindings

    @cached_property
    def _declared_elsewhere(self) -> dict[ast.AST, set[str]]:
        """By function and class: the names that it declares `global` or `nonlocal`."""
        by_scope: dict[ast.AST, set[str]] = defaultdict(set)
        for node in self._parents:
            if isinstance(node, ast.Global | ast.Nonlocal):
                around = self._parents[node]
                while not isinstance(around, (*Function, ast.ClassDef, ast.Module)):
                    around = self._parents[around]
                by_scope[around].update(node.names)
        return by_scope

    def _owner(self, node: ast.AST, name: str) -> ast.AST:
        """The scope in which a node binds a name."""
        walrus = isinstance(self._parents.get(node), ast.NamedExpr)
        around = self._parents.get(node)
        while around is not None:
            if isinstance(around, (*Function, ast.ClassDef)) or (
                isinstance(around, Comprehension) and not walrus
            ):
                return self.module if name in self._declared_elsewhere[around] else around
            around = self._parents.get(around)
        return self.module


BINDING = frozenset({
    ast.Name, ast.arg, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler,
    ast.MatchAs, ast.MatchStar, ast.MatchMapping, ast.Import, ast.ImportFrom,
})  # fmt: skip


def _bound_names(node: ast.AST) -> Iterator[tuple[str, str | None]]:
    """The names that a node binds, and what to if it is an import."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            yield name, None
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name, None
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name, None
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name, None
        case ast.Import(names=aliases):
            for alias in aliases:
                local = alias.asname or alias.name.partition(".")[0]
                yield local, alias.name if alias.asname else local
        case ast.ImportFrom(names=aliases, module=module, level=level):
            for alias in aliases:
                is_absolute = module is not None and not level
                yield alias.asname or alias.name, f"{module}.{alias.name}" if is_absolute else None
        case _:
            pass


def _written(scope: ast.AST) -> Iterator[ast.AST]:
    """The expressions whose values are written into."""
    for node in ast.walk(scope):
        match node:
            case ast.AugAssign(target=target):
                yield target
            case ast.Subscript(value=value, ctx=ast.Store()):
                yield value
            case ast.Call(func=ast.Attribute(value=value, attr=method)) if method.endswith("_"):
                yield value
            case ast.keyword(arg="out", value=value):
                yield value
            case _:
                pass


def _root(node: ast.AST) -> str | None:
    """Ex) x of x[0].data"""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _same_block(block: ast.AST, statement: ast.AST, other: ast.AST) -> bool:
    """Whether two children of a node stand in the same list of statements."""
    lists = [value for _, value in ast.iter_fields(block) if isinstance(value, list)]
    return any(statement in each and other in each for each in lists)


def _start(node: ast.AST) -> Place:
    while isinstance(node, (ast.Module, ast.comprehension, ast.withitem)):
        node = next(iter(ast.iter_child_nodes(node)))
    assert isinstance(
        node, (ast.expr, ast.stmt, ast.arg, ast.excepthandler, ast.alias, ast.pattern, ast.keyword)
    )
    return node.lineno, node.col_offset


def assignments(scope: ast.AST) -> dict[str, list[ast.expr]]:
    """The values that `name = value`, `name: type = value` and `(name := value)` assign, and each
    of `a, b = value, other`."""
    assigned: dict[str, list[ast.expr]] = {}
    for node in ast.walk(scope):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign):
            pairs = [pair for target in node.targets for pair in paired(target, node.value)]
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            pairs = [(node.target, node.value)]
        for name, value in dict.fromkeys((t.id, v) for t, v in pairs if isinstance(t, ast.Name)):
            assigned.setdefault(name, []).append(value)
    return assigned
