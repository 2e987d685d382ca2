"""The places of a file that name an API which the migration rules know, and how they do so.

Read from the syntax tree alone, by other means than amplint's own, so that what the fixes have
rewritten can be counted by what is no longer there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from amplint.rules.parallel._trainer import TRAINER_REMOVED, TRAINERS

from amplint.knowledge.libraries import (
    AUTOCASTS,
    LEGACY_CUSTOM,
    LEGACY_STATE,
    SCALERS,
    STAR_IMPORTS,
)
from amplint.knowledge.vocabulary import ASKS_VERSION

LEGACY = frozenset(
    name for table in (AUTOCASTS, SCALERS) for name, api in table.items() if api.legacy
).union(LEGACY_CUSTOM, LEGACY_STATE)
HOMES = ("torch.cuda.amp", "torch.cpu.amp", "apex.amp")
FROM_ARGUMENTS = frozenset(
    f"{trainer}.{name}"
    for trainer in TRAINERS
    for name in ("from_argparse_args", "add_argparse_args")
)
IN_TEXT = re.compile(r"torch\.(cuda|cpu)\.amp|\b(custom_fwd|custom_bwd)\b")
Import = ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class Use:
    """One such place.

    Args:
        form: what stands there, with `x` for each expression: "autocast(enabled=x)".
        source: where its name comes from: "from torch.cuda.amp import autocast".
        why: what speaks against rewriting it, if anything does.
    """

    form: str
    source: str
    why: str = ""


@dataclass(frozen=True)
class Bound:
    """What an import binds a name to, and how."""

    dotted: str
    source: str


def uses(text: str | bytes) -> Iterator[Use]:
    """The uses in a file, in no particular order."""
    yield from _File(ast.parse(text)).uses()


class _File:
    def __init__(self, module: ast.Module) -> None:
        self.module = module
        self.parents = {
            child: node for node in ast.walk(module) for child in ast.iter_child_nodes(node)
        }
        self.bound: dict[str, dict[ast.AST, set[Bound]]] = {}  # by name, and by function or module
        for node in ast.walk(module):
            if isinstance(node, Import):
                for name, bound in self._bindings(node):
                    scopes = self.bound.setdefault(name, {})
                    scopes.setdefault(next(self._scopes(node)), set()).add(bound)

    def uses(self) -> Iterator[Use]:
        for node in ast.walk(self.module):
            if isinstance(node, ast.Name | ast.Attribute):
                parent = self.parents.get(node)
                if not isinstance(parent, ast.Attribute) and isinstance(node.ctx, ast.Load):
                    yield from self._of_name(node)
            elif (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and IN_TEXT.search(node.value)
            ):
                docstring = isinstance(self.parents.get(node), ast.Expr)
                yield Use("a docstring" if docstring else "a string", "", "it is text")

    # ------------------------------------------------------------------------------ imports

    def _bindings(self, node: Import) -> Iterator[tuple[str, Bound]]:
        where = self._where(node)
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                dotted = alias.name if alias.asname else name
                shown = f"import {alias.name}" + (" as x" if alias.asname else "")
                yield name, Bound(dotted, where + shown)
        elif not node.level and node.module is not None:
            for alias in node.names:
                names = STAR_IMPORTS.get(node.module, ()) if alias.name == "*" else (alias.name,)
                for each in names:
                    renamed = alias.asname is not None and alias.asname != alias.name
                    shown = f"from {node.module} import {alias.name}{' as x' if renamed else ''}"
                    yield alias.asname or each, Bound(f"{node.module}.{each}", where + shown)

    def _scopes(self, node: ast.AST) -> Iterator[ast.AST]:
        """The functions around a node, the innermost first, and the module."""
        for each in self._ancestors(node):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                yield each
        yield self.module

    def _where(self, node: ast.AST) -> str:
        around = [type(each) for each in self._ancestors(node)]
        function = any(each in (ast.FunctionDef, ast.AsyncFunctionDef) for each in around)
        guarded = any(each in (ast.Try, ast.If) for each in around)
        return "".join(("in a function: " * function, "in a `try` or an `if`: " * guarded))

    # ------------------------------------------------------------------------------ uses

    def _of_name(self, node: ast.Name | ast.Attribute) -> Iterator[Use]:
        root, *rest = ast.unparse(node).split(".")
        scopes = self.bound.get(root, {})
        inner = [scopes[scope] for scope in self._scopes(node) if scope in scopes]
        # What no scope around it imports is a parameter that others give, as a rule.
        meant = inner[0] if inner else {each for bound in scopes.values() for each in bound}
        found = sorted(meant, key=lambda bound: (bound.dotted, bound.source))
        for bound in found:
            dotted = ".".join((bound.dotted, *rest))
            source = bound.source
            if rest and dotted.startswith("torch") and bound.dotted in ("torch", "torch.cuda"):
                source += ", and then in full"
            several = len({each.dotted for each in found}) > 1
            why = "the name may be another one" if several else self._why(node)
            if dotted in LEGACY:
                yield self._of_legacy(node, dotted, source, why)
            elif dotted in HOMES:
                yield Use(f"{dotted}, the module itself", source, why or "handed on")
            elif (
                dotted.startswith("apex.amp.") or dotted == "apex.parallel.DistributedDataParallel"
            ):
                yield self._of_apex(node, dotted, source, why)
            elif dotted in FROM_ARGUMENTS:
                form = f"Trainer.{dotted.rpartition('.')[2]}(x)"
                yield Use(form, source, why or "the arguments are those of a command line")
            elif dotted in TRAINERS:
                yield from self._of_trainer(node, source, why)

    def _of_legacy(self, node: ast.expr, dotted: str, source: str, why: str) -> Use:
        name = dotted.removeprefix("torch.cuda.amp.").rpartition(".")[2]
        if dotted.startswith("torch.cpu"):
            name = f"torch.cpu.amp.{name}"
        parent = self.parents[node]
        if isinstance(parent, ast.Call) and parent.func is node:
            if any(isinstance(each, ast.Starred) for each in parent.args) and name == "autocast":
                why = why or "a list may hold anything"
            above = self.parents[parent]
            decorated = parent in getattr(above, "decorator_list", ())
            return Use("@" * decorated + name + _arguments(parent), source, why)
        if node in getattr(parent, "decorator_list", ()):
            if name == "autocast":
                why = why or "it was never a region"
            return Use(f"@{name}", source, why)
        if self._in_annotation(node):
            return Use(f"{name} in an annotation", source, why)
        if isinstance(parent, ast.ClassDef):
            return Use(f"class x({name})", source, why or "derived from")
        asked = parent if isinstance(parent, ast.Call) else self.parents.get(parent)
        if isinstance(asked, ast.Call) and ast.unparse(asked.func) in ("isinstance", "issubclass"):
            return Use(f"isinstance(x, {name})", source, why or "old and new differ here")
        return Use(f"{name}, not called", source, why or "handed on")

    def _of_apex(self, node: ast.expr, dotted: str, source: str, why: str) -> Use:
        parent = self.parents[node]
        called = isinstance(parent, ast.Call) and parent.func is node
        level = ""
        if isinstance(parent, ast.Call):
            for keyword in parent.keywords:
                if keyword.arg == "opt_level":
                    level = f"opt_level={_shown(keyword.value, ast.Constant)}"
        form = f"{dotted}({level or 'x' * bool(called)})" if called else f"{dotted}, not called"
        if not why:
            optional = "in a `try` or an `if`" in source
            why = "the file goes on without apex" if optional else "not O1 in one function"
        return Use(form, source, why)

    def _of_trainer(self, node: ast.expr, source: str, why: str) -> Iterator[Use]:
        parent = self.parents[node]
        if not isinstance(parent, ast.Call) or parent.func is not node:
            return
        for keyword in parent.keywords:
            value = _shown(keyword.value, ast.Constant)
            name = keyword.arg or ""
            old = name in TRAINER_REMOVED
            old |= name == "precision" and value in ("16", "'16'", "'bf16'")
            old |= name in ("accelerator", "strategy") and value in ("'ddp'", "'dp'", "'ddp2'")
            old &= (name, value) != ("strategy", "'ddp'")
            if old:
                unknown = "no one value means the same" if value == "x" else "no one successor"
                yield Use(f"Trainer({name}={value})", source, why or unknown)

    # ------------------------------------------------------------------------------ reasons

    def _why(self, node: ast.AST) -> str:
        for around in self._ancestors(node):
            if isinstance(around, ast.ExceptHandler):
                return "a fallback"
            if isinstance(around, ast.If | ast.IfExp) and ASKS_VERSION.search(
                ast.unparse(around.test)
            ):
                return "under a test of the version"
        return ""

    def _in_annotation(self, node: ast.AST) -> bool:
        inner = node
        for around in self._ancestors(node):
            if inner in (getattr(around, "annotation", None), getattr(around, "returns", None)):
                return True
            if isinstance(around, ast.stmt):
                return False
            inner = around
        return False

    def _ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        around = self.parents.get(node)
        while around is not None:
            yield around
            around = self.parents.get(around)


def _arguments(call: ast.Call) -> str:
    shown = ["*x" if isinstance(arg, ast.Starred) else _shown(arg) for arg in call.args]
    shown += [f"{k.arg}={_shown(k.value)}" if k.arg else "**x" for k in call.keywords]
    return f"({', '.join(shown)})"


def _shown(node: ast.expr, as_it_is: type[ast.expr] = ast.Name) -> str:
    """`True`, `False` and what is asked for as they are written, `x` for all else."""
    flag = isinstance(node, ast.Constant) and isinstance(node.value, bool)
    constant = as_it_is is ast.Constant and isinstance(node, ast.Constant)
    return ast.unparse(node) if flag or constant else "x"
