"""Names that are read where they may be unbound: what a fix must not add to a file.

A name may be unbound where some path from the beginning of its scope leads past everything that
binds it: a loop that may not run, one branch of two. Programs have such reads, and know more of
their paths than is seen here; so an edit is held against the text before it, function by function.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from amplint.ir.ssa import names_of

Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor | ast.While
Bound = frozenset[str] | None  # the names that are bound on all paths to a place; None: none leads
Key = tuple[tuple[str, int], ...]  # of a definition: the names around it, and which of that name

NONE: frozenset[str] = frozenset()
# https://docs.python.org/3/reference/datamodel.html: what modules, classes and methods have besides
GIVEN = frozenset(dir(builtins)) | {
    "__annotations__", "__builtins__", "__cached__", "__class__", "__debug__", "__doc__",
    "__file__", "__loader__", "__module__", "__name__", "__package__", "__path__", "__qualname__",
    "__spec__",
}  # fmt: skip


def newly_unbound(before: tuple[str, ast.Module], after: tuple[str, ast.Module]) -> frozenset[str]:
    """The names that a function, or the module itself, reads where they may be unbound, and did not
    read so before.

    Args:
        before, after: the text of a file, and its tree.
    """
    had, has = outer_names(*before), outer_names(*after)
    old = dict(_definitions(before[1], ()))
    lines, new_lines = before[0].splitlines(), after[0].splitlines()
    found = _unbound(after[1], has) - _unbound(before[1], had)
    for key, function in _definitions(after[1], ()):
        known = old.get(key)
        # What a function reads of the module may have gone from there.
        if known is None or has != had or _written(known, lines) != _written(function, new_lines):
            found |= _unbound(function, has) - (_unbound(known, had) if known else NONE)
    return frozenset(found)


def outer_names(text: str, module: ast.Module) -> frozenset[str] | None:
    """The names that a module binds, at whatever time; None where a star may bind any."""
    names, _ = names_of(module.body)
    if "*" in names:
        return None
    if "global" not in text:
        return frozenset(names)
    declared = (node.names for node in ast.walk(module) if isinstance(node, ast.Global))
    return frozenset(names).union(*declared)


def _definitions(node: ast.AST, around: Key) -> Iterator[tuple[Key, Function]]:
    """The functions of a module and the methods of its classes; not those within functions."""
    counts: Counter[str] = Counter()
    stack = [*reversed([*ast.iter_child_nodes(node)])]
    while stack:
        child = stack.pop()
        if isinstance(child, Function | ast.ClassDef):
            counts[child.name] += 1
            key = (*around, (child.name, counts[child.name]))
            if isinstance(child, ast.ClassDef):
                yield from _definitions(child, key)
            else:
                yield key, child
        elif isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            stack += reversed([*ast.iter_child_nodes(child)])


def _written(function: Function, lines: Sequence[str]) -> Sequence[str]:
    return lines[function.lineno - 1 : function.end_lineno]


def _unbound(scope: ast.Module | Function, outer: frozenset[str] | None) -> set[str]:
    """The names that a scope, or one in it, reads where they may be unbound."""
    paths = _Paths(NONE, outer)
    if isinstance(scope, ast.Module):
        around = None if outer is None else NONE
        paths = _Paths(outer or NONE, around, falls_back=True, with_functions=False)
        paths.body(scope.body, NONE)
    else:
        paths.function(scope)
    return paths.unbound


@dataclass
class _Paths:
    """The paths through one scope, all at once.

    Args:
        own: the names of the scope.
        outer: those that the scopes around it have, at whatever time; None where any may be there.
        falls_back: whether a name that is not bound yet is the one of the scopes around, as it is
            for a class and for a module.
        with_functions: whether the functions in it are looked into.
        unbound: the names that may be unbound.
    """

    own: frozenset[str]
    outer: frozenset[str] | None
    falls_back: bool = False
    with_functions: bool = True
    unbound: set[str] = field(default_factory=set)
    _breaks: list[list[Bound]] = field(default_factory=list)

    # -- scopes

    def function(self, node: Function) -> None:
        """Look into a function that stands in this scope."""
        every = node.args
        given = [*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg]
        parameters = {each.arg for each in given if each is not None} | _type_parameters(node)
        bound, declared = names_of(node.body)
        own = frozenset(bound - declared | parameters)
        self._within(own, False).body(node.body, frozenset(parameters))

    def _within(self, own: frozenset[str], falls_back: bool) -> _Paths:
        # A class has no names for the methods in it; that it may seem so costs a warning at most.
        outer = None if self.outer is None else self.outer | self.own
        return _Paths(own, outer, falls_back, self.with_functions, self.unbound)

    # -- names

    def read(self, node: ast.AST | None, bound: Bound) -> Bound:
        """The names that are bound once an expression has been evaluated."""
        if node is None or bound is None:
            return bound
        inner: set[str] = set()  # of lambdas and comprehensions
        walrus: set[str] = set()
        loads: list[tuple[str, bool]] = []
        stack = [(node, False)]
        while stack:
            each, is_later = stack.pop()
            if isinstance(each, ast.Name):
                if isinstance(each.ctx, ast.Load):
                    loads.append((each.id, is_later))
                else:
                    inner.add(each.id)
            elif isinstance(each, ast.NamedExpr):
                walrus.add(each.target.id)
                stack.append((each.value, is_later))
                continue
            elif isinstance(each, ast.arg):
                inner.add(each.arg)
            later = is_later or isinstance(each, ast.Lambda)
            stack += [(child, later) for child in ast.iter_child_nodes(each)]
        known = bound | walrus
        for name, is_later in loads:
            if name not in inner:
                self._load(name, known, is_later)
        return known

    def _load(self, name: str, bound: frozenset[str], is_later: bool) -> None:
        if name in bound or (name in self.own and is_later):
            return
        here = name in self.own and not self.falls_back
        if here or not (self.outer is None or name in self.outer or name in GIVEN):
            self.unbound.add(name)

    def bind(self, target: ast.AST | None, bound: Bound) -> Bound:
        """The same once a target has its value; whatever stands in the target is read before."""
        if target is None or bound is None:
            return bound
        names = {
            node.id
            for node in ast.walk(target)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        read = self.read(target, bound)
        return None if read is None else read | names

    # -- statements

    def body(self, statements: Iterable[ast.stmt], bound: Bound) -> Bound:
        for statement in statements:
            bound = self.statement(statement, bound)
        return bound

    def statement(self, node: ast.stmt, bound: Bound) -> Bound:
        """The names that are bound behind a statement."""
        if bound is None:  # nothing leads here
            return None
        step = getattr(self, f"do_{type(node).__name__}", None)
        if step is not None:
            after: Bound = step(node, bound)
            return after
        for child in ast.iter_child_nodes(node):
            bound = self.read(child, bound)
        return bound

    def do_Assign(self, node: ast.Assign, bound: Bound) -> Bound:
        bound = self.read(node.value, bound)
        for target in node.targets:
            bound = self.bind(target, bound)
        return bound

    def do_AugAssign(self, node: ast.AugAssign, bound: Bound) -> Bound:
        if isinstance(node.target, ast.Name) and bound is not None:
            self._load(node.target.id, bound, False)
        return self.bind(node.target, self.read(node.value, bound))

    def do_AnnAssign(self, node: ast.AnnAssign, bound: Bound) -> Bound:
        if node.value is None:
            return bound
        return self.bind(node.target, self.read(node.value, bound))

    def do_Import(self, node: ast.Import | ast.ImportFrom, bound: frozenset[str]) -> Bound:
        names, _ = names_of([node])
        return bound | names

    do_ImportFrom = do_Import

    def do_FunctionDef(self, node: Function, bound: frozenset[str]) -> Bound:
        for each in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
            self.read(each, bound)
        if self.with_functions:
            self.function(node)
        return bound | {node.name}

    do_AsyncFunctionDef = do_FunctionDef

    def do_ClassDef(self, node: ast.ClassDef, bound: frozenset[str]) -> Bound:
        parameters = _type_parameters(node)
        for each in (*node.decorator_list, *node.bases, *node.keywords):
            self.read(each, bound | parameters)
        names, declared = names_of(node.body)
        within = self._within(frozenset(names - declared | parameters), True)
        within.body(node.body, frozenset(parameters))
        return bound | {node.name}

    def do_TypeAlias(self, node: ast.stmt, bound: frozenset[str]) -> Bound:
        names, _ = names_of([node])
        return bound | names

    def do_Delete(self, node: ast.Delete, bound: frozenset[str]) -> Bound:
        gone = {each.id for each in node.targets if isinstance(each, ast.Name)}
        return bound - gone

    def do_Return(self, node: ast.Return, bound: Bound) -> Bound:
        self.read(node.value, bound)
        return None

    def do_Raise(self, node: ast.Raise, bound: Bound) -> Bound:
        self.read(node.cause, self.read(node.exc, bound))
        return None

    def do_Break(self, _: ast.Break, bound: Bound) -> Bound:
        if self._breaks:
            self._breaks[-1].append(bound)
        return None

    def do_Continue(self, _node: ast.Continue, _bound: Bound) -> Bound:
        return None

    def do_If(self, node: ast.If, bound: Bound) -> Bound:
        ends: list[Bound] = []
        while True:  # along `elif`, of which there may be as many as Python recurses
            bound = self.read(node.test, bound)
            ends.append(self.body(node.body, bound))
            if not (len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)):
                return _meet(*ends, self.body(node.orelse, bound))
            node = node.orelse[0]

    def do_For(self, node: ast.For | ast.AsyncFor, bound: Bound) -> Bound:
        before = self.read(node.iter, bound)
        return self._loop(node, before, self.bind(node.target, before))

    do_AsyncFor = do_For

    def do_While(self, node: ast.While, bound: Bound) -> Bound:
        before = self.read(node.test, bound)
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        return self._loop(node, None if endless else before, before)

    def _loop(self, node: Loop, ended: Bound, begun: Bound) -> Bound:
        """Of a loop: what is bound once it has come to its end, and when its body begins."""
        self._breaks.append([])
        self.body(node.body, begun)
        broken = self._breaks.pop()
        return _meet(self.body(node.orelse, ended), *broken)

    def do_With(self, node: ast.With | ast.AsyncWith, bound: Bound) -> Bound:
        for item in node.items:
            bound = self.bind(item.optional_vars, self.read(item.context_expr, bound))
        return self.body(node.body, bound)

    do_AsyncWith = do_With

    def do_Try(self, node: ast.Try, bound: frozenset[str]) -> Bound:
        ends = [self.body(node.orelse, self.body(node.body, bound))]
        for handler in node.handlers:
            self.read(handler.type, bound)
            caught = bound | {handler.name} if handler.name else bound
            ends.append(self.body(handler.body, caught))
        if not node.finalbody:
            return _meet(*ends)
        last = self.body(node.finalbody, bound)
        after = _meet(*ends)
        return None if last is None or after is None else after | last

    do_TryStar = do_Try

    def do_Match(self, node: ast.Match, bound: Bound) -> Bound:
        bound = self.read(node.subject, bound)
        ends: list[Bound] = []
        for case in node.cases:
            names: set[str] = set()
            for each in ast.walk(case.pattern):
                if isinstance(each, ast.MatchAs | ast.MatchStar) and each.name:
                    names.add(each.name)
                elif isinstance(each, ast.MatchMapping) and each.rest:
                    names.add(each.rest)
            begun = None if bound is None else bound | names
            ends.append(self.body(case.body, self.read(case.guard, begun)))
        last = node.cases[-1]
        takes_all = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
        return _meet(*ends) if takes_all and last.guard is None else _meet(*ends, bound)


def _meet(*paths: Bound) -> Bound:
    """The names that are bound where some paths meet."""
    reached = [each for each in paths if each is not None]
    return frozenset.intersection(*reached) if reached else None


def _type_parameters(node: ast.AST) -> set[str]:
    return {each.name for each in getattr(node, "type_params", ())}
