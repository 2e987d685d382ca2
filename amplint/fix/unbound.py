"""Names that are read where they may be unbound: what a fix must not add to a file.

A name may be unbound where some path from the beginning of its scope leads past everything that
binds it: a loop that may not run, one branch of two. Programs have such reads, and know more of
their paths than is seen here; so an edit is held against the text before it, scope by scope.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from functools import lru_cache

from amplint.ir.file_index import params
from amplint.ir.model import FunctionFacts, Location
from amplint.ir.ssa import Builder, Env, names_of, where
from amplint.run.analysis import deeply

Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Names = frozenset[str]
KINDS = {ast.Module: "module", ast.ClassDef: "class", ast.Lambda: "lambda"}
# https://docs.python.org/3/reference/datamodel.html: what modules, classes and methods have besides
GIVEN = frozenset(dir(builtins)) | {
    "__annotations__", "__builtins__", "__cached__", "__class__", "__debug__", "__doc__",
    "__file__", "__loader__", "__module__", "__name__", "__package__", "__path__", "__qualname__",
    "__spec__",
}  # fmt: skip


def newly_unbound(before: ast.Module, after: ast.Module) -> frozenset[str]:
    """The names that a scope reads where they may be unbound, and did not read so before."""
    return frozenset(name for _, name in unbound_reads(after) - unbound_reads(before))


@lru_cache(maxsize=4)  # of one file the old text is asked for with each of the new ones
def unbound_reads(module: ast.Module) -> frozenset[tuple[str, str]]:
    """The scopes of a module, by their names, with what they read where it may be unbound."""
    reads: set[tuple[str, str]] = set()
    names, _ = names_of(module.body)
    declared = (node.names for node in ast.walk(module) if isinstance(node, ast.Global))
    outer = None if "*" in names else frozenset(names).union(*declared)  # a star may bind any
    deeply(lambda: _Paths(module, "", outer, reads).run(module))
    return frozenset(reads)


class _Paths(Builder):
    """The value graph of a scope, in which only what is bound on all paths is bound.

    Args:
        scope: the scope.
        name: of it, with those around it.
        outer: the names that the scopes around it have, at whatever time, and of a module its own;
            None where any may be there.
        reads: takes what may be unbound, also in the scopes within.
    """

    def __init__(
        self, scope: Scope, name: str, outer: Names | None, reads: set[tuple[str, str]]
    ) -> None:
        kind = KINDS.get(type(scope), "function")
        args = () if isinstance(scope, ast.Module | ast.ClassDef) else tuple(params(scope.args))
        place = (1, 0, 1, 0) if isinstance(scope, ast.Module) else where(scope)
        super().__init__(
            FunctionFacts(
                name, "", "", name, kind, None, None, args, (), False, frozenset(), place
            ),
            self._look_into,
        )
        self._outer = outer
        self._reads = reads
        self._type_parameters = {each.name for each in getattr(scope, "type_params", ())}

    def _look_into(self, scope: ast.AST, _: FunctionFacts) -> str:
        """Look into a scope that is defined here, which has the names of this one if it is a
        function."""
        assert isinstance(scope, Scope)
        name = f"{self.facts.qualname}.{getattr(scope, 'name', '')}"
        outer = self._outer
        if outer is not None and self.facts.kind in ("function", "lambda"):
            outer |= self.locals
        _Paths(scope, name, outer, self._reads).run(scope)
        return name

    def load(self, name: str, place: Location) -> int:
        """The node of a name that is read here."""
        if self.env is not None and name not in self.env:
            kind = self.facts.kind
            is_own = name in self.locals and kind in ("function", "lambda")
            is_there = self._outer is None or (name in self._outer and kind != "module")
            if is_own or not (is_there or name in GIVEN or name in self._type_parameters):
                self._reads.add((self.facts.qualname, name))
        return super().load(name, place)

    def merge(self, environments: Sequence[Env | None], place: Location) -> Env | None:
        """The names where some paths meet: those that all of them have."""
        reached = [set(env) for env in environments if env is not None]
        merged = super().merge(environments, place)
        if merged is None:
            return None
        return {name: merged[name] for name in set.intersection(*reached)}

    def loop_phis(self, _body: Sequence[ast.stmt], _place: Location) -> dict[str, int]:
        """None: the names that a loop binds are not bound when it begins."""
        return {}

    def interrupted(self, start: Env | None, _bound: int, _place: Location) -> Env | None:
        """The names where a `try` fails, which may be before it has bound any."""
        return start
