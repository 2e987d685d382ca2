"""From the `ast` of one function to its value graph: static single assignment over structured code.

The environment maps each local name to the node that it holds now; `None` instead of an environment
means that this point is not reached (after a `return`). Branches copy it and a `phi` joins what
differs. A loop opens a `phi` for every name that its body may rebind, and closes it at the end.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partialmethod
from typing import Any, NamedTuple

from amplint.ir import ops
from amplint.ir.model import Block, CallShape, FunctionFacts, Graph, Location, Node
from amplint.ir.ops import Op

Env = dict[str, int]
Define = Callable[[ast.AST, FunctionFacts], str]

# `loader.collate_fn = f`: from here on, the loader yields what `f` returns.
COLLATE = "collate_fn"
# Methods of `contextlib.ExitStack` that enter their argument, and those that enter what they are
# called on; those of both that leave what was entered.
STACKING = frozenset({"enter_context", "enter_async_context"})
ENTERING = frozenset({"__enter__", "__aenter__"})
SWITCHING = "set_autocast_enabled"
LEAVING = frozenset({"__exit__", "__aexit__", "aclose", "close", "pop_all"})
TYPE_ARGUMENTS = {"TypeVar": "bound"}  # by function: an argument that is an annotation
UPDATE = "update"  # of a dict: `options.update(dtype=torch.float16)` puts its keywords into it
# Methods that put their argument into the container they are called on.
ADDERS = frozenset(
    {"append", "add", "extend", "insert", UPDATE, "appendleft", "setdefault", *STACKING}
)
# Outcomes of a test of a tensor's dtype, and the operators that ask for one, or one of several.
OF_DTYPE, NOT_OF_DTYPE = "dtype", "not dtype"
SAME = ast.Eq | ast.Is | ast.In
OTHER = ast.NotEq | ast.IsNot | ast.NotIn
MAX_STRING = 120  # longer constants carry no device, dtype or mode; their text is not kept
NOWHERE: Location = (0, 0, 0, 0)


class Entered(NamedTuple):
    """A context that a call of `enter_context` or `__enter__` enters, or that switches a region on.

    `through`: what that is called on, by which the context is left again. Ex) "self.stack"
    """

    through: str
    context: int
    place: Location


def build(
    scope: ast.AST, facts: FunctionFacts, define: Define
) -> tuple[Graph, dict[ast.AST, tuple[int, int]]]:
    """The value graph of one scope; and of each expression in its `ast` the node that it became,
    and the block in which it is evaluated (that of a name is not its node's).

    Args:
        scope: a Module, ClassDef, FunctionDef, AsyncFunctionDef or Lambda.
        facts: what the index says about it.
        define: returns the id of a function, class or lambda that is defined inside.
    """
    builder = Builder(facts, define)
    builder.run(scope)
    return builder.finish(), {n: (i, builder.node_place[n]) for n, i in builder.places.items()}


class Builder:
    def __init__(self, facts: FunctionFacts, define: Define) -> None:
        self.facts = facts
        self.define = define
        self.nodes: list[Node] = []
        self.blocks: list[Block] = [Block("body", -1, -1, facts.location)]
        self.block = 0
        self.env: Env | None = {}
        self.places: dict[ast.AST, int] = {}
        self.node_place: dict[ast.AST, int] = {}
        self.bindings: dict[str, list[int]] = {}
        self.bound: list[tuple[str, int]] = []  # the same, in their order
        self.outer: dict[str, list[int]] = {}
        self.returns: list[int] = []
        self.yields: list[int] = []
        self.locals: set[str] = set()
        self.declared: set[str] = set()
        self.returned = -1
        self.rebound: dict[ast.stmt, set[str]] = {}  # by statement of a loop's body
        self.breaks: list[list[Env]] = []
        self.continues: list[list[Env]] = []
        self.entered: tuple[Entered, ...] = ()  # by calls, and not left yet
        self.opened: dict[int, Entered] = {}  # by block

    # -- the whole scope

    def run(self, scope: ast.AST) -> None:
        if isinstance(scope, ast.Lambda):
            self.locals = {p.name for p in self.facts.params}
            self.parameters(scope.args)
            self.returns.append(self.expr(scope.body))
            return
        assert isinstance(scope, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        bound, self.declared = names_of(scope.body)
        self.locals = bound - self.declared
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            self.locals |= {p.name for p in self.facts.params}
            self.parameters(scope.args)
            if scope.returns is not None:
                self.returned = self.annotation(scope.returns)
        self.suite(scope.body)
        if self.facts.name in ENTERING and self.entered and self.env is not None:
            self.give_back(None, where(scope.body[-1]))

    def parameters(self, arguments: ast.arguments) -> None:
        annotations: dict[str, ast.expr | None] = {
            arg.arg: arg.annotation
            for arg in [
                *arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs,
                *filter(None, (arguments.vararg, arguments.kwarg)),
            ]
        }  # fmt: skip
        for parameter in self.facts.params:
            annotation = annotations[parameter.name]
            operands = (self.annotation(annotation),) if annotation is not None else ()
            place = where(annotation) if annotation is not None else self.facts.location
            self.bind(parameter.name, self.emit(ops.PARAM, operands, parameter.name, place))

    def annotation(self, node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                parsed = ast.parse(node.value, mode="eval").body
            except SyntaxError:
                return self.emit(ops.OPAQUE, (), None, where(node))
            for inner in ast.walk(parsed):
                ast.copy_location(inner, node)
            return self.expr(parsed)
        return self.expr(node)

    def type_argument(self, node: ast.expr) -> int:
        """An argument that is an annotation; unlike others, it is a part of an expression."""
        self.node_place[node] = self.block
        self.places[node] = self.annotation(node)
        return self.places[node]

    def finish(self) -> Graph:
        return Graph(
            nodes=tuple(self.nodes),
            blocks=tuple(self.blocks),
            bindings={name: tuple(ids) for name, ids in self.bindings.items()},
            globals={name: tuple(ids) for name, ids in self.outer.items()},
            returns=tuple(self.returns),
            yields=tuple(self.yields),
            annotation=self.returned,
        )

    # -- nodes, names and blocks

    def emit(self, op: Op, operands: Iterable[int], data: Any, place: Location) -> int:
        self.nodes.append(Node(op, tuple(operands), data, self.block, place))
        return len(self.nodes) - 1

    def bind(self, name: str, node: int) -> None:
        if name in self.declared:
            self.outer.setdefault(name, []).append(node)
            return
        self.bindings.setdefault(name, []).append(node)
        self.bound.append((name, node))
        if self.env is not None:
            self.env[name] = node

    def load(self, name: str, place: Location) -> int:
        if self.env is not None and name in self.env:
            return self.env[name]
        if name in self.locals and self.facts.kind not in ("module", "class"):
            return self.emit(ops.UNBOUND, (), name, place)
        return self.emit(ops.NAME, (), name, place)

    def open(self, kind: str, node: int, place: Location) -> int:
        """Enter a block; returns the one to go back to."""
        before = self.block
        self.blocks.append(Block(kind, before, node, place))
        self.block = len(self.blocks) - 1
        return before

    def merge(self, environments: Sequence[Env | None], place: Location) -> Env | None:
        reached = [env for env in environments if env is not None]
        if not reached:
            return None
        first, *others = reached
        if not others:
            return first
        # Most names hold the same node on all paths: the sets are compared at C speed.
        differing = {name for other in others for name, _ in first.items() ^ other.items()}
        merged = dict(first)
        for name in sorted(differing):
            nodes = tuple(dict.fromkeys(env[name] for env in reached if name in env))
            whole = nodes[0] if len(nodes) == 1 else self.divided_by_dtype(nodes)
            merged[name] = self.emit(ops.PHI, nodes, name, place) if whole is None else whole
        return merged

    def divided_by_dtype(self, numbers: tuple[int, ...]) -> int | None:
        """The node whose dtype is tested, where both outcomes leave it as it is and meet."""
        parts = [self.nodes[number] for number in numbers]
        if any(part.op != ops.NARROW for part in parts):
            return None
        tested, kinds = {part.operands for part in parts}, {part.data for part in parts}
        whole = len(tested) == 1 and kinds == {OF_DTYPE, NOT_OF_DTYPE}
        return parts[0].operands[0] if whole else None

    # -- statements

    def suite(self, body: Sequence[ast.stmt]) -> None:
        before, entered = self.block, self.entered
        for statement in body:
            self.leave_blocks(before)
            self.open_entered()
            self.statement(statement)
        self.block = before
        if self.env is None:  # what follows was not reached from here
            self.entered = entered

    def note_entering(self, call: ast.Call, method: ast.Attribute) -> None:
        """`stack.enter_context(c)`, `c.__enter__()`: what follows is in `c`, also where a condition
        chooses whether it is entered, up to `stack.close()` or `c.__exit__()`."""
        if method.attr not in LEAVING:
            context = method.value if method.attr in ENTERING else call.args[0]
            through = ast.unparse(method.value)
            self.entered += (Entered(through, self.places[context], where(context)),)
        elif self.entered:
            self.leave(ast.unparse(method.value))

    def note_switch(self, call: ast.Call, number: int) -> None:
        """`torch.set_autocast_enabled("cuda", True)`: what follows is in a region, until it is set
        again."""
        self.leave(SWITCHING)
        operands = [*call.args, *(keyword.value for keyword in call.keywords)]
        if any(isinstance(each, ast.Constant) and each.value is True for each in operands):
            self.entered += (Entered(SWITCHING, number, where(call)),)

    def leave(self, *through: str) -> None:
        self.entered = tuple(each for each in self.entered if each.through not in through)

    def open_entered(self) -> None:
        """Enter the blocks of the contexts that calls have entered."""
        if self.entered:
            around = {self.opened.get(block) for block in self.chain()}
            for each in self.entered:
                if each not in around:
                    self.open("with", each.context, each.place)
                    self.opened[self.block] = each

    def leave_blocks(self, outer: int) -> None:
        """Go back from the blocks of contexts that were left since: to `outer`, at the furthest."""
        block = self.block
        while block != outer and block in self.opened:
            each, block = self.opened[block], self.blocks[block].parent
            if each not in self.entered:
                self.block = block

    def chain(self) -> Iterable[int]:
        """The block, and those around it."""
        block = self.block
        while block >= 0:
            yield block
            block = self.blocks[block].parent

    def statement(self, node: ast.stmt) -> None:
        handler = getattr(self, f"do_{type(node).__name__}", None)
        if handler is not None:
            handler(node)

    def do_Expr(self, node: ast.Expr) -> None:
        self.expr(node.value)
        self.mutate(node.value)

    def mutate(self, call: ast.expr) -> None:
        """`xs.append(x)`: from here on, `xs` is the container with `x` in it."""
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            return
        method, place = call.func, where(call)
        if not adds(call):
            return
        if call.args:
            operands = (self.places[call.args[-1]],)
            self.change(method.value, ops.ADD, operands, method.attr, place)
        for keyword in call.keywords if method.attr == UPDATE else ():
            if keyword.arg is not None:
                key = self.constant(keyword.arg, place)
                item = (key, self.places[keyword.value])
                self.change(method.value, ops.PUT, item, None, place)

    def change(
        self, holder: ast.expr, op: Op, operands: tuple[int, ...], data: str | None, place: Location
    ) -> None:
        """An operation on a container changes it in place: its holder has the result from here."""
        if isinstance(holder, ast.Name):
            if holder.id in self.locals and self.env is not None and holder.id in self.env:
                changed = self.emit(op, (self.env[holder.id], *operands), data, place)
                self.bind(holder.id, changed)
        elif isinstance(holder, ast.Attribute) and isinstance(holder.value, ast.Name):
            changed = self.emit(op, (self.places[holder], *operands), data, place)
            self.emit(ops.STORE, (self.places[holder.value], changed), holder.attr, place)

    def do_Assign(self, node: ast.Assign) -> None:
        pairs = [pair for target in node.targets for pair in paired(target, node.value)]
        for value in dict.fromkeys(value for _, value in pairs):
            self.expr(value)
        for target, value in pairs:
            self.assign(target, self.places[value])

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.expr(node.value))
        elif isinstance(node.target, ast.Name) and self.facts.kind == "class":
            # A field of a dataclass or NamedTuple: what its annotation says.
            annotation = self.annotation(node.annotation)
            place = where(node)
            self.bind(node.target.id, self.emit(ops.PARAM, (annotation,), node.target.id, place))
            return
        self.emit(ops.ANNOTATION, (self.annotation(node.annotation),), None, where(node))

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        target = self.expr(node.target)
        value = self.expr(node.value)
        operation = type(node.op).__name__
        self.assign(node.target, self.emit(ops.AUG, (target, value), operation, where(node)))

    def assign(self, target: ast.expr, value: int) -> None:
        place = where(target)
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
        elif isinstance(target, ast.Attribute):
            holder = target.value
            self.emit(ops.STORE, (self.expr(holder), value), target.attr, place)
            if target.attr == COLLATE and isinstance(holder, ast.Name) and holder.id in self.locals:
                operands = (self.places[holder], value)
                self.bind(holder.id, self.emit(ops.ADD, operands, COLLATE, place))
        elif isinstance(target, ast.Subscript):
            container, index = self.expr(target.value), self.expr(target.slice)
            updated = self.emit(ops.PUT, (container, index, value), None, place)
            self.places[target] = updated
            self.node_place[target] = self.block
            holder = target.value
            if isinstance(holder, ast.Name) and holder.id in self.locals:
                self.bind(holder.id, updated)
            elif isinstance(holder, ast.Attribute) and isinstance(holder.value, ast.Name):
                self.emit(ops.STORE, (self.places[holder.value], updated), holder.attr, place)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value)
        elif isinstance(target, ast.Tuple | ast.List):
            self.unpack(target, value, self.assign)

    def unpack(
        self, target: ast.Tuple | ast.List, value: int, assign: Callable[[ast.expr, int], None]
    ) -> None:
        """Give each target of a tuple its element."""
        starred = any(isinstance(element, ast.Starred) for element in target.elts)
        for index, element in enumerate(target.elts):
            data = (index, len(target.elts), starred)
            assign(element, self.emit(ops.UNPACK, (value,), data, where(element)))

    def do_Return(self, node: ast.Return) -> None:
        self.give_back(node.value, where(node))
        self.env = None

    def give_back(self, returned: ast.expr | None, place: Location) -> None:
        value = self.expr(returned) if returned else self.constant(None, place)
        self.open_entered()
        self.returns.append(self.emit(ops.RETURN, (value,), None, place))

    def do_Raise(self, node: ast.Raise) -> None:
        operands = [self.expr(part) for part in (node.exc, node.cause) if part is not None]
        self.emit(ops.RAISE, operands, None, where(node))
        self.env = None

    def do_Break(self, node: ast.Break) -> None:
        self.emit(ops.BREAK, (), None, where(node))
        if self.env is not None and self.breaks:
            self.breaks[-1].append(self.env)
        self.env = None

    def do_Continue(self, node: ast.Continue) -> None:
        self.emit(ops.CONTINUE, (), None, where(node))
        if self.env is not None and self.continues:
            self.continues[-1].append(self.env)
        self.env = None

    def do_Assert(self, node: ast.Assert) -> None:
        test = self.expr(node.test)
        if node.msg is not None:
            # The message is evaluated only when the assertion fails.
            before = self.open("handler", test, where(node.msg))
            self.expr(node.msg)
            self.block = before
        self.emit(ops.ASSERT, (test,), None, where(node))
        self.narrow(node.test, True)

    def do_If(self, node: ast.If) -> None:
        test = self.expr(node.test)
        start = None if self.env is None else dict(self.env)
        before, entered = self.open("if", test, where(node)), self.entered
        self.narrow(node.test, True)
        self.suite(node.body)
        after_body, self.block = self.env, before
        entered_in_body, self.entered = self.entered, entered
        self.env = start
        # What follows `if test: continue` runs only where the test fails, and so does the `else`.
        implied = after_body is None and not node.orelse and start is not None
        if node.orelse or implied:
            self.open("after" if implied else "else", test, where(node))
        self.narrow(node.test, False)
        self.suite(node.orelse)
        if implied:
            return
        self.block = before
        # A context is left if it is on one path.
        both = dict.fromkeys([*entered_in_body, *self.entered])
        exits = {*entered} - {*entered_in_body} | {*entered} - {*self.entered}
        self.entered = tuple(each for each in both if each not in exits)
        self.env = self.merge([after_body, self.env], where(node))

    def loop_phis(self, body: Sequence[ast.stmt], place: Location) -> dict[str, int]:
        phis: dict[str, int] = {}
        if self.env is None:
            return phis
        names = {name for statement in body for name in rebound(statement, self.rebound)}
        for name in sorted(names):
            if name in self.locals and name not in self.declared:
                operands = (self.env[name],) if name in self.env else ()
                phis[name] = self.env[name] = self.emit(ops.PHI, operands, name, place)
        return phis

    def close_phis(self, phis: dict[str, int], environments: Sequence[Env | None]) -> None:
        for name, phi in phis.items():
            sources = [env[name] for env in environments if env is not None and name in env]
            old = self.nodes[phi]
            operands = dict.fromkeys([*old.operands, *(s for s in sources if s != phi)])
            self.nodes[phi] = old._replace(operands=tuple(operands))

    def close_loop(
        self,
        loop: ast.For | ast.AsyncFor | ast.While,
        before: int,
        phis: dict[str, int],
        entry: Env | None,
        forever: bool,
    ) -> None:
        """Leave a loop after its body.

        Args:
            before: the block around it.
            phis: those of the names that the body binds.
            entry: what names held before the body ran.
            forever: whether only a `break` leads out of it.
        """
        place = where(loop)
        self.close_phis(phis, [self.env, *self.continues.pop()])
        self.block = before
        self.env = None if forever else self.merge([entry, self.env], place)
        self.suite(loop.orelse)
        self.env = self.merge([self.env, *self.breaks.pop()], place)

    def do_For(self, node: ast.For | ast.AsyncFor) -> None:
        iterable = self.expr(node.iter)
        place = where(node)
        before = self.open("loop", iterable, place)
        phis = self.loop_phis(node.body, place)
        entry = None if self.env is None else dict(self.env)
        self.breaks.append([])
        self.continues.append([])
        self.assign(node.target, self.emit(ops.ITER, (iterable,), None, where(node.target)))
        self.suite(node.body)
        self.close_loop(node, before, phis, entry, forever=entry is None)

    do_AsyncFor = do_For

    def do_While(self, node: ast.While) -> None:
        place = where(node)
        before = self.open("while", -1, place)
        own = self.block
        phis = self.loop_phis(node.body, place)
        test = self.expr(node.test)
        self.blocks[own] = self.blocks[own]._replace(node=test)
        entry = None if self.env is None else dict(self.env)
        self.breaks.append([])
        self.continues.append([])
        self.suite(node.body)
        forever = isinstance(node.test, ast.Constant) and bool(node.test.value)
        self.close_loop(node, before, phis, entry, forever)

    def do_With(self, node: ast.With | ast.AsyncWith) -> None:
        before = self.block
        for item in node.items:
            context = self.expr(item.context_expr)
            self.open("with", context, where(item.context_expr))
            if item.optional_vars is not None:
                place = where(item.optional_vars)
                self.assign(item.optional_vars, self.emit(ops.ENTER, (context,), None, place))
        self.suite(node.body)
        self.block = before
        if self.entered:
            self.leave(*(ast.unparse(i.optional_vars or i.context_expr) for i in node.items))

    do_AsyncWith = do_With

    def do_Try(self, node: ast.Try) -> None:
        place = where(node)
        start = None if self.env is None else dict(self.env)
        bound = len(self.bound)
        before = self.open("try", -1, place)
        self.suite(node.body)
        self.block = before
        after_body = self.env
        interrupted = self.interrupted(start, bound, place)
        self.suite(node.orelse)
        ends = [self.env if node.orelse else after_body]
        for handler in node.handlers:
            self.env = None if interrupted is None else dict(interrupted)
            kind = self.expr(handler.type) if handler.type is not None else -1
            self.open("handler", kind, place)
            if handler.name:
                self.bind(handler.name, self.emit(ops.OPAQUE, (), handler.name, place))
            self.suite(handler.body)
            self.block = before
            ends.append(self.env)
        self.env = self.merge(ends, place)
        if node.finalbody:
            reached = self.env is not None
            self.env = self.env if reached else interrupted
            self.open("finally", -1, place)
            self.suite(node.finalbody)
            self.block = before
            self.env = self.env if reached else None

    do_TryStar = do_Try

    def interrupted(self, start: Env | None, bound: int, place: Location) -> Env | None:
        """The environment of a handler: any prefix of the `try` body may have run.

        `bound` is the number of bindings before that body.
        """
        if start is None:
            return None
        env = dict(start)
        new: dict[str, list[int]] = {}
        for name, node in self.bound[bound:]:
            new.setdefault(name, []).append(node)
        for name, nodes in new.items():
            old = [start[name]] if name in start else []
            env[name] = self.emit(ops.PHI, dict.fromkeys([*old, *nodes]), name, place)
        return env

    def do_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        operands = [self.expr(decorator) for decorator in node.decorator_list]
        identity = self.define(node, self.facts)
        self.defaults(node.args, identity)
        self.bind(node.name, self.emit(ops.DEF, operands, identity, where(node)))

    do_AsyncFunctionDef = do_FunctionDef

    def defaults(self, arguments: ast.arguments, identity: str) -> None:
        """The default of a parameter; constants stand in the function's facts."""
        positional = [*arguments.posonlyargs, *arguments.args]
        parameters = positional[len(positional) - len(arguments.defaults) :]
        pairs = [
            *zip(parameters, arguments.defaults, strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        for arg, default in pairs:
            if default is not None:
                value = self.expr(default)
                if not isinstance(default, ast.Constant):
                    self.emit(ops.DEFAULT, (value,), (identity, arg.arg), where(default))

    def do_ClassDef(self, node: ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            self.expr(decorator)
        bases = [self.expr(base) for base in node.bases]
        for keyword in node.keywords:
            self.expr(keyword.value)
        self.bind(
            node.name, self.emit(ops.CLASS, bases, self.define(node, self.facts), where(node))
        )

    def do_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            module = alias.name if alias.asname else alias.name.partition(".")[0]
            number = self.emit(ops.IMPORT, (), (module, None, 0), where(node))
            self.bind(alias.asname or module, number)

    def do_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            data = (node.module, alias.name, node.level)
            number = self.emit(ops.IMPORT, (), data, where(node))
            self.bind(alias.asname or alias.name, number)

    def do_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name) and self.env is not None:
                self.env.pop(target.id, None)
            elif not isinstance(target, ast.Name):
                self.expr(target)

    def do_Match(self, node: ast.Match) -> None:
        subject = self.expr(node.subject)
        start = None if self.env is None else dict(self.env)
        before = self.block
        ends: list[Env | None] = [start]
        for case in node.cases:
            self.env = None if start is None else dict(start)
            self.open("if", subject, where(node))
            for name in (n for part in ast.walk(case.pattern) for n in bound_by(part)):
                self.bind(name, self.emit(ops.OPAQUE, (), name, where(node)))
            if case.guard is not None:
                self.expr(case.guard)
            self.suite(case.body)
            self.block = before
            ends.append(self.env)
        self.env = self.merge(ends, where(node))

    # -- narrowing

    def narrow(self, test: ast.expr, holds: bool) -> None:
        """The names that the outcome of a test narrows."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.narrow(test.operand, not holds)
        elif isinstance(test, ast.BoolOp):
            if isinstance(test.op, ast.And) is holds:
                for part in test.values:
                    self.narrow(part, holds)
        elif isinstance(test, ast.Name):
            self.refine(test, "true" if holds else "false", ())
        elif isinstance(test, ast.Attribute) and test.attr in ("is_cuda", "is_cpu"):
            on_cuda = (test.attr == "is_cuda") is holds
            self.refine(test.value, "on cuda" if on_cuda else "on cpu", ())
        elif isinstance(test, ast.Compare) and len(test.ops) == 1:
            is_none = isinstance(test.comparators[0], ast.Constant) and (
                test.comparators[0].value is None
            )
            if is_none and isinstance(test.ops[0], ast.Is | ast.IsNot):
                none = isinstance(test.ops[0], ast.Is) is holds
                self.refine(test.left, "none" if none else "not none", ())
            self.narrow_by_dtype(test.left, test.ops[0], test.comparators[0], holds)
        elif isinstance(test, ast.Call) and len(test.args) == 2:
            if isinstance(test.func, ast.Name) and test.func.id == "isinstance":
                kind = "isinstance" if holds else "not isinstance"
                self.refine(test.args[0], kind, (self.places[test.args[1]],))
        elif (
            isinstance(test, ast.Call)
            and last_name(test.func) in ("is_tensor", "callable")
            and test.args
        ):
            kind = {"is_tensor": "tensor", "callable": "callable"}[last_name(test.func)]
            self.refine(test.args[0], kind if holds else f"not {kind}", ())

    def narrow_by_dtype(
        self, left: ast.expr, operator: ast.cmpop, right: ast.expr, holds: bool
    ) -> None:
        """Ex) x.dtype == torch.float16, kind not in (torch.float16, torch.bfloat16) after
        `kind = x.dtype`"""
        node = self.nodes[self.places[left]]
        if self.env is None or node.op != ops.ATTR or node.data != "dtype":
            return
        names = [name for name, number in self.env.items() if number == node.operands[0]]
        if names and isinstance(operator, SAME | OTHER):
            kind = OF_DTYPE if isinstance(operator, SAME) is holds else NOT_OF_DTYPE
            operands = (node.operands[0], self.places[right])
            narrowing = self.emit(ops.NARROW, operands, kind, where(left))
            self.env.update(dict.fromkeys(names, narrowing))

    def refine(self, target: ast.expr, kind: str, classes: tuple[int, ...]) -> None:
        if isinstance(target, ast.Name) and self.env is not None and target.id in self.env:
            operands = (self.env[target.id], *classes)
            self.env[target.id] = self.emit(ops.NARROW, operands, kind, where(target))

    # -- expressions

    def constant(self, value: object, place: Location) -> int:
        if isinstance(value, str) and len(value) > MAX_STRING:
            value = value[:MAX_STRING]
        return self.emit(ops.CONST, (), value, place)

    def expr(self, node: ast.expr) -> int:
        handler = getattr(self, f"on_{type(node).__name__}", None)
        self.node_place[node] = self.block
        number: int = handler(node) if handler is not None else self.on_other(node)
        self.places[node] = number
        return number

    def on_other(self, node: ast.expr) -> int:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expr(child)
        return self.emit(ops.OPAQUE, (), None, where(node))

    def on_Constant(self, node: ast.Constant) -> int:
        return self.constant(node.value, where(node))

    def on_Name(self, node: ast.Name) -> int:
        return self.load(node.id, where(node))

    def on_Attribute(self, node: ast.Attribute) -> int:
        return self.emit(ops.ATTR, (self.expr(node.value),), node.attr, where(node))

    def on_Call(self, node: ast.Call) -> int:
        callee = self.expr(node.func)
        positional = [self.expr(arg) for arg in node.args]
        types = TYPE_ARGUMENTS.get(last_name(node.func), "")
        keywords = [
            self.type_argument(keyword.value) if keyword.arg == types else self.expr(keyword.value)
            for keyword in node.keywords
        ]
        stars = any(isinstance(arg, ast.Starred) for arg in node.args) or any(
            keyword.arg is None for keyword in node.keywords
        )
        names = tuple(keyword.arg or "**" for keyword in node.keywords)
        first = node.args[0] if node.args else None
        for keyword in node.keywords:
            if keyword.arg == "device":
                first = keyword.value
        starred = (n for n, arg in enumerate(node.args) if isinstance(arg, ast.Starred))
        leading = next(starred, len(positional))
        hint = last_name(first) if first else ""
        shape = CallShape(len(positional), names, stars, hint, leading)
        if isinstance(node.func, ast.Attribute) and enters_or_leaves(node.func.attr, node.args):
            self.note_entering(node, node.func)
        call = self.emit(ops.CALL, (callee, *positional, *keywords), shape, where(node))
        if last_name(node.func) == SWITCHING:
            self.note_switch(node, call)
        return call

    def on_Subscript(self, node: ast.Subscript) -> int:
        container, key = self.expr(node.value), self.expr(node.slice)
        container = self.places[node.value] = self.before_other_keys(container, self.nodes[key])
        return self.emit(ops.SUBSCRIPT, (container, key), None, where(node))

    def before_other_keys(self, container: int, read: Node) -> int:
        """The dict as it was before other keys than the one that is read were put into it."""
        while read.op == ops.CONST and self.nodes[container].op == ops.PUT:
            put = self.nodes[container]
            other = self.nodes[put.second]
            if other.op != ops.CONST or not isinstance(other.data, str) or other.data == read.data:
                break
            container = put.operands[0]
        return container

    def on_Slice(self, node: ast.Slice) -> int:
        parts = [p for p in (node.lower, node.upper, node.step) if p is not None]
        return self.emit(ops.SLICE, [self.expr(part) for part in parts], None, where(node))

    def on_BinOp(self, node: ast.BinOp) -> int:
        operands = (self.expr(node.left), self.expr(node.right))
        return self.emit(ops.BINOP, operands, type(node.op).__name__, where(node))

    def on_UnaryOp(self, node: ast.UnaryOp) -> int:
        return self.emit(ops.UNARY, (self.expr(node.operand),), type(node.op).__name__, where(node))

    def on_Compare(self, node: ast.Compare) -> int:
        operands = [self.expr(part) for part in (node.left, *node.comparators)]
        return self.emit(
            ops.COMPARE, operands, tuple(type(o).__name__ for o in node.ops), where(node)
        )

    def on_BoolOp(self, node: ast.BoolOp) -> int:
        operands = [self.expr(node.values[0])]
        saved = None if self.env is None else dict(self.env)
        before = self.block
        for value, following in zip(node.values, node.values[1:], strict=False):
            holds = isinstance(node.op, ast.And)
            self.narrow(value, holds)
            self.open("if" if holds else "else", operands[-1], where(following))
            operands.append(self.expr(following))
        self.block = before
        if saved is not None and self.env is not None:
            self.env = {**self.env, **saved}  # with what a walrus has bound
        return self.emit(ops.BOOL, operands, type(node.op).__name__, where(node))

    def on_IfExp(self, node: ast.IfExp) -> int:
        test = self.expr(node.test)
        saved = None if self.env is None else dict(self.env)
        before = self.open("if", test, where(node.body))
        self.narrow(node.test, True)
        body = self.expr(node.body)
        self.block = before
        self.env = None if saved is None else dict(saved)
        self.open("else", test, where(node.orelse))
        self.narrow(node.test, False)
        orelse = self.expr(node.orelse)
        self.block = before
        self.env = saved
        return self.emit(ops.PHI, (body, orelse), None, where(node))

    def on_NamedExpr(self, node: ast.NamedExpr) -> int:
        value = self.expr(node.value)
        self.assign(node.target, value)
        self.places[node.target] = value
        self.node_place[node.target] = self.block
        return value

    def on_Lambda(self, node: ast.Lambda) -> int:
        identity = self.define(node, self.facts)
        self.defaults(node.args, identity)
        return self.emit(ops.LAMBDA, (), identity, where(node))

    def on_Await(self, node: ast.Await) -> int:
        return self.emit(ops.AWAIT, (self.expr(node.value),), None, where(node))

    def on_Yield(self, node: ast.Yield) -> int:
        value = self.expr(node.value) if node.value else self.constant(None, where(node))
        self.yields.append(value)
        self.open_entered()
        return self.emit(ops.YIELD, (value,), None, where(node))

    def on_YieldFrom(self, node: ast.YieldFrom) -> int:
        source = self.expr(node.value)
        self.yields.append(self.emit(ops.ITER, (source,), None, where(node)))
        return self.emit(ops.OPAQUE, (), None, where(node))

    def on_JoinedStr(self, node: ast.JoinedStr) -> int:
        operands = [self.expr(v) for v in node.values if not isinstance(v, ast.Constant)]
        return self.emit(ops.FSTRING, operands, parts_of(node), where(node))

    def on_FormattedValue(self, node: ast.FormattedValue) -> int:
        value = self.expr(node.value)
        if node.format_spec is not None:
            self.expr(node.format_spec)
        return value

    def on_Starred(self, node: ast.Starred) -> int:
        return self.emit(ops.STARRED, (self.expr(node.value),), None, where(node))

    def sequence(self, op: Op, node: ast.Tuple | ast.List | ast.Set) -> int:
        return self.emit(op, [self.expr(element) for element in node.elts], None, where(node))

    on_Tuple = partialmethod(sequence, ops.TUPLE)
    on_List = partialmethod(sequence, ops.LIST)
    on_Set = partialmethod(sequence, ops.SET)

    def on_Dict(self, node: ast.Dict) -> int:
        keys = [self.expr(key) if key is not None else -1 for key in node.keys]
        values = [self.expr(value) for value in node.values]
        names = tuple(
            self.nodes[key].data if key >= 0 and self.nodes[key].op == ops.CONST else None
            for key in keys
        )
        return self.emit(ops.DICT, values, names, where(node))

    def comprehension(self, node: Any, kind: str, elements: Sequence[ast.expr]) -> int:
        before = self.block
        saved = None if self.env is None else dict(self.env)
        hidden = self.locals
        targets = {n for g in node.generators for n in target_names(g.target)}
        self.locals = self.locals | targets
        for generator in node.generators:
            iterable = self.expr(generator.iter)
            self.open("comprehension", iterable, where(generator.iter))
            element = self.emit(ops.ITER, (iterable,), None, where(generator.target))
            self.comprehension_target(generator.target, element)
            for test in generator.ifs:
                number = self.expr(test)
                self.narrow(test, True)
                self.open("if", number, where(test))
        operands = [self.expr(element) for element in elements]
        self.block = before
        self.locals = hidden
        if saved is not None and self.env is not None:
            walrus = sorted(self.env.keys() - saved.keys() - targets)
            self.env = {**saved, **{name: self.env[name] for name in walrus}}
        if kind == "dict" and handed_on(node) is not None:
            operands.append(self.nodes[self.nodes[iterable].operands[0]].operands[0])
        op = ops.DICTCOMP if kind == "dict" else ops.COMP
        return self.emit(op, operands, kind, where(node))

    def comprehension_target(self, target: ast.expr, value: int) -> None:
        """Bind without leaking: a comprehension has a scope of its own."""
        if isinstance(target, ast.Name):
            if self.env is not None:
                self.env[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            self.unpack(target, value, self.comprehension_target)
        elif isinstance(target, ast.Starred):
            self.comprehension_target(target.value, value)

    def elements(self, kind: str, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> int:
        return self.comprehension(node, kind, [node.elt])

    on_ListComp = partialmethod(elements, "list")
    on_SetComp = partialmethod(elements, "set")
    on_GeneratorExp = partialmethod(elements, "generator")

    def on_DictComp(self, node: ast.DictComp) -> int:
        # From Python 3.15 on: `{**d for d in e}`, which has no value.
        parts: list[ast.expr | None] = [node.key, node.value]
        return self.comprehension(node, "dict", [part for part in parts if part is not None])


def handed_on(node: ast.DictComp) -> ast.expr | None:
    """The mapping of which a dict keeps pairs as they are.

    Ex) outputs of {k: v for k, v in outputs.items() if k != "aux"}
    """
    match node:
        case ast.DictComp(
            key=ast.Name(id=key),
            value=ast.Name(id=value),
            generators=[
                ast.comprehension(
                    target=ast.Tuple(elts=[ast.Name(id=first), ast.Name(id=second)]),
                    iter=ast.Call(func=ast.Attribute(mapping, "items"), args=[], keywords=[]),
                )
            ],
        ) if (key, value) == (first, second):
            return mapping
    return None


# `ast` makes an integer of its own for the row of every node: graphs, which stay, share them.
ROWS = tuple(range(10_000))


def where(node: Any) -> Location:
    """The place of a node of the `ast`."""
    row, end = node.lineno, node.end_lineno or node.lineno
    if end < len(ROWS):
        row, end = ROWS[row], ROWS[end]
    return (row, node.col_offset, end, node.end_col_offset or 0)


def last_name(node: ast.expr | None) -> str:
    """The last identifier of a name, a dotted name or what is called: `cuda` of `x.cuda()`."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def paired(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """The targets of an assignment, each with the expression that it is given: one for one where
    tuples of the same length stand on both sides, as in `h, c = torch.zeros(n), torch.zeros(n)`."""
    if not (isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List)):
        return [(target, value)]
    both = (*target.elts, *value.elts)
    if len(target.elts) != len(value.elts) or any(isinstance(n, ast.Starred) for n in both):
        return [(target, value)]
    return list(zip(target.elts, value.elts, strict=True))


def target_names(target: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}


def parts_of(node: ast.JoinedStr) -> tuple[object, ...]:
    """The parts of an f-string but its values: its texts, and for each value its format."""
    return tuple(
        part.value if isinstance(part, ast.Constant) else format_of(part) for part in node.values
    )


def format_of(part: ast.expr) -> tuple[object, ...]:
    """The conversion of a value, and its format. Ex) (114, "f'>8'") of {x!r:>8}"""
    if not isinstance(part, ast.FormattedValue):
        return ()
    spec = ast.unparse(part.format_spec) if part.format_spec is not None else ""
    return part.conversion, spec


NESTED_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
DECLARATIONS = (ast.Global, ast.Nonlocal)
BINDERS = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom,
    ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping,
)  # fmt: skip


def own_nodes(body: Sequence[ast.stmt], nested: bool = False) -> Iterable[ast.AST]:
    """The nodes of a body without what stands in nested scopes.

    Args:
        nested: whether with that, instead: twice as fast as `ast.walk`.
    """
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        yield node
        if nested or not isinstance(node, NESTED_SCOPES):
            # As `ast.iter_child_nodes`, without the fields that bind nothing.
            for field in FIELDS[type(node)]:
                child = getattr(node, field, None)
                if isinstance(child, list):
                    stack += [each for each in child if isinstance(each, ast.AST)]
                elif isinstance(child, ast.AST):
                    stack.append(child)


# What these fields hold binds no name, and has no fields of its own.
LEAVES = frozenset("attr conversion ctx id is_async kind level module op ops simple".split())


FIELDS: Mapping[type, tuple[str, ...]] = {
    kind: tuple(field for field in kind._fields if field not in LEAVES)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


def names_of(body: Sequence[ast.stmt]) -> tuple[set[str], set[str]]:
    """The names that a body binds in its own scope, and those it declares global or nonlocal."""
    bound: set[str] = set()
    declared: set[str] = set()
    for node in own_nodes(body):
        if isinstance(node, DECLARATIONS):
            declared.update(node.names)
        else:
            bound.update(bound_by(node))
    return bound, declared


def bound_by(node: ast.AST) -> Iterable[str]:
    """The names that one node binds itself."""
    if isinstance(node, ast.Name):
        return () if isinstance(node.ctx, ast.Load) else (node.id,)
    if not isinstance(node, BINDERS):
        return ()
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return (node.name,)
    if isinstance(node, ast.Import):
        return [a.asname or a.name.partition(".")[0] for a in node.names]
    if isinstance(node, ast.ImportFrom):
        return [a.asname or a.name for a in node.names]
    if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        return (node.name,) if node.name else ()
    if isinstance(node, ast.MatchMapping):
        return (node.rest,) if node.rest else ()
    return ()


def changed_container(node: ast.AST) -> Iterable[str]:
    """The name whose container the node changes in place: `d[k] = v`, `xs.append(x)`."""
    holder: ast.expr | None = None
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        holder = node.value
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        holder = node.value if node.attr == COLLATE else None
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and adds(node):
        holder = node.func.value
    return (holder.id,) if isinstance(holder, ast.Name) else ()


def enters_or_leaves(method: str, arguments: Sequence[ast.expr]) -> bool:
    """Whether a call enters a context by hand, or leaves those that were entered."""
    return method in LEAVING or (method in STACKING if arguments else method in ENTERING)


def adds(call: ast.Call) -> bool:
    """Whether a call adds to a container: `xs.append(x)`; not `self.update(x)`, an own method."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ADDERS:
        return False
    return not (isinstance(call.func.value, ast.Name) and call.func.value.id == "self")


def rebound(node: ast.AST, memo: dict[ast.stmt, set[str]]) -> set[str]:
    """The names that a statement binds, or whose containers it changes.

    `memo`: what was found before, so that loops in loops are not walked again for each level.
    """
    if isinstance(node, ast.stmt) and node in memo:
        return memo[node]
    names = {*bound_by(node), *changed_container(node)}
    if not isinstance(node, NESTED_SCOPES):
        for child in ast.iter_child_nodes(node):
            names |= rebound(child, memo)
    if isinstance(node, ast.stmt):
        memo[node] = names
    return names
