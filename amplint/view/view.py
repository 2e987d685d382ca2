"""`View`: one expression as a rule judges it, with all that is known of its node in the value
graph.

A check is run twice. First on the graph alone, of every node that meets its condition: there is no
tree of the file then, and none is made. A check that comes to a finding there, or asks for what
only the code says (`text`, `span`, `cst` ...), is run once more with the file at hand. So what a
rule claims is written once, and a file is parsed only where something may be found.

The nodes of variables are those that made their values, elsewhere. So the operand of a node is a
View of its own where it reads a variable: its operation is `READ`, it stands where it is written,
and it is known what the variable holds there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from amplint.analyses.backward_calls import BackwardCalls
from amplint.analyses.cast_cache import CastCache, Stale
from amplint.analyses.hotness import Hotness
from amplint.analyses.module_uses import Lost, LostGradients
from amplint.analyses.scaler_misuse import ScalerMisuse
from amplint.facts.code_texts import ProjectText
from amplint.facts.fact import Answer_co, Known, NodeFact, PlaceFact
from amplint.facts.inference_results import Regions, Values
from amplint.facts.project_classes import Classes
from amplint.findings.finding import Related
from amplint.inference import State
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.flow import names_in_test
from amplint.ir.model import FunctionFacts, Location, Node
from amplint.ir.ssa import where
from amplint.source.literals import literal
from amplint.util.positions import Place
from amplint.values.atoms import (
    NONE,
    UNKNOWN,
    Evidence,
    Heat,
    Method,
    Reason,
    Region,
    Tensor,
    TensorTree,
    Value,
    one,
)
from amplint.values.lattice import only
from amplint.view.evaluated_node import (
    NOTHING,
    EvaluatedNode,
    KnownProject,
    entered,
    names_of_callee,
    symbol,
)
from amplint.view.operands import parts_of

if TYPE_CHECKING:
    import libcst

    from amplint.facts.program import FileView
    from amplint.findings.declaration import Declaration
    from amplint.findings.finding import Finding, Fix, Group
    from amplint.findings.violations import Violation
    from amplint.gradscaler.checker import Misuse
    from amplint.source.source import Source
    from amplint.util.positions import Span

READ: Final = "read"  # the operation of what reads a variable


class NeedsCodeError(BaseException):
    """A check asks for what the value graph does not say. (No check is to catch it.)"""


class FileCode(NamedTuple):
    """A file at hand: how it is written, and what is known of it, asked so that it is noted."""

    source: Source
    facts: FileView

    def view(self, rule: Declaration, here: EvaluatedNode) -> View | None:
        """A node as a View; None where nothing is written that stands for it."""
        thing = self.facts.flow.written_as(here.function, here.number, here.location)
        if thing is None:
            return None
        return View(rule, here, self, thing, READ if reads(thing, here.node) else "")

    def view_of(self, rule: Declaration, node: libcst.CSTNode) -> View:
        """A LibCST node of the file as a View."""
        thing = self.source.layout.ast_of(node)
        at = self.facts.at(thing) if thing is not None else None
        if thing is None or at is None:
            return View(rule, NOWHERE, self, thing, node=node)
        state = self.facts.flow.state(at.function)
        here = EvaluatedNode(NOWHERE.project, at.function, state, at.node, at.block, where(thing))
        return View(
            rule,
            here,
            self,
            thing,
            READ if reads(thing, here.node) else "",
            node,
        )


class View:
    """An expression as a rule judges it.

    Args:
        rule: the rule that judges.
        here: its node, and where that is evaluated.
        code: the file; None while the graph alone is known.
        thing: the expression in the file's `ast`, or the statement or the function that it is.
        op: `READ` for a variable; else that of the node.
        node: the LibCST node that it was asked for by.
    """

    __slots__ = ("_asked_by", "_called", "_code", "_here", "_thing", "op", "rule")

    def __init__(
        self,
        rule: Declaration,
        here: EvaluatedNode,
        code: FileCode | None = None,
        thing: ast.AST | None = None,
        op: str = "",
        node: libcst.CSTNode | None = None,
    ) -> None:
        self.rule = rule
        self.op = op or here.node.op
        self._here = here
        self._code = code
        self._thing = thing
        self._asked_by = node
        self._called: View | None = None  # once somebody has asked

    # -- what is known of it

    def ask(self, kind: type[NodeFact[Answer_co]]) -> Answer_co | None:
        """The answer of a fact about it; None where nothing is known."""
        if kind.about is None:
            raise TypeError(f"call `at.fact({kind.__name__})`: it is a fact of the whole project")
        if self.op != ops.CALL and kind.about is ast.Call:
            return None
        if self._code is None:
            return self._here.project.facts[kind].of(self._place)
        if self._here is NOWHERE:
            return self._code.source.ask(kind, self.cst) if issubclass(kind, PlaceFact) else None
        thing = self._thing if isinstance(self._thing, ast.expr) else None
        if self.op == ops.SUBSCRIPT and isinstance(thing, ast.Subscript) and is_target(thing):
            thing = None  # of `x[i] += y`: what it reads, and not what x is after it
        return self._code.facts.ask(kind, thing or self._place)

    def _ask_at(self, kind: type[NodeFact[Answer_co]], place: NodePlace) -> Answer_co | None:
        if self._code is None:
            return self._here.project.facts[kind].of(place)
        return self._code.facts.ask(kind, place)

    def fact(self, kind: type[Known]) -> Known:
        """A fact of the whole project."""
        if kind.about is not None:
            raise TypeError(f"call `at.ask({kind.__name__})`: it is a fact about one node")
        if self._code is None:
            return self._here.project.facts[kind]
        return self._code.facts.fact(kind)

    def mentions(self, *words: str) -> bool:
        """Whether some file of the project holds all these identifiers."""
        return self.fact(ProjectText).mentions(*words)

    def matches(self, pattern: str, *words: str) -> bool:
        """Whether a regular expression matches a line of some file of the project.

        Args:
            words: one of these stands in each line that matches, which is then found sooner.
        """
        return self.fact(ProjectText).matches(pattern, *words)

    @property
    def value(self) -> Value:
        """Its value."""
        constant = literal(self._asked_by) if self._asked_by is not None else None
        return one(constant) if constant is not None else self.ask(Values) or UNKNOWN

    @property
    def _value_by_name(self) -> Value:
        """Its value, to be asked for names alone. On the graph, no evidence is put into it then: to
        do so for what is called took 0.2 of the 4.4 s of a check of timm after an edit."""
        if self._code is not None:
            return self.value
        here = self._here
        return here.state.values[here.number] or UNKNOWN

    @property
    def tensor(self) -> Tensor | None:
        """The tensor that it is, leaving None aside; None if it may be anything else."""
        atom = only(self.value)
        return atom if isinstance(atom, Tensor) else None

    @property
    def is_module(self) -> bool:
        """Whether it is a module of torch, leaving None aside: one of a library, an instance of a
        class of the project that derives from one, or of a class that is mixed into one."""
        return self.fact(Classes).is_module(self.value)

    @property
    def hotness(self) -> Heat | None:
        """Why it runs for every batch; None if it is cold, or nothing says that it is hot."""
        return self.ask(Hotness)

    @property
    def region(self) -> Region | None:
        """The innermost autocast region around it, opened here or by a known caller; or one that is
        presumed."""
        return self.ask(Regions)

    @property
    def enabled_region(self) -> Region | None:
        """The autocast region around it, unless it is certainly off."""
        region = self.region
        return region if region is not None and region.enabled is not False else None

    @property
    def contexts(self) -> Iterator[View]:
        """The contexts that the `with`s of its function enter, in the order of the file, without
        those of functions in it."""
        here = self._here
        for place in entered(here.state.graph) if here is not NOWHERE else ():
            yield from self._entered(place)

    @property
    def contexts_around(self) -> Iterator[View]:
        """The contexts that the `with`s around it in its function enter, from the inside out; of a
        context, those of the `with`s around its own."""
        here = self._here
        blocks = here.state.graph.blocks if here is not NOWHERE else ()
        number = here.block
        while number >= 0:
            block = blocks[number]
            if block.kind == "with":
                yield from self._entered((block.node, block.parent, block.location))
            number = block.parent

    def _entered(self, place: tuple[int, int, Location]) -> Iterator[View]:
        here, code = self._here, self._code
        at = EvaluatedNode(here.project, here.function, here.state, *place)
        context = View(self.rule, at) if code is None else code.view(self.rule, at)
        if context is not None:
            yield context

    @property
    def loops(self) -> Iterator[Heat | None]:
        """Of each `for` and `while` around it in its function, from the inside out: why that is
        entered for every batch; None of one that is entered in a cold place."""
        here = self._here
        number = here.block
        while number >= 0:
            block = here.state.graph.blocks[number]
            if block.kind in ("loop", "while"):
                yield self._ask_at(Hotness, NodePlace(here.function, -1, block.parent))
            number = block.parent

    @property
    def tested_around(self) -> Iterator[str]:
        """The dotted names in the tests on which it depends, within its function, whether it runs:
        those of the `if`s around it, and of those that leave before it.

        Ex) args.fp16, after `if not args.fp16: return x`
        """
        here = self._here
        number = here.block if here is not NOWHERE else -1
        while number >= 0:
            block = here.state.graph.blocks[number]
            if block.kind in ("if", "else", "after") and block.node >= 0:
                yield from names_in_test(here.state.graph, block.node)
            number = block.parent

    @property
    def function(self) -> FunctionFacts:
        """The function around it, its own of what is one: the name, the parameters, the identifiers
        in it (`words`). The module's where it stands in no value graph."""
        if self._code is None:
            return self._here.facts
        return self._code.facts.function(self._here.function)

    @property
    def is_generator(self) -> bool:
        """Whether the function around it, its own of what is one, holds a `yield`."""
        return self._here is not NOWHERE and bool(self._here.state.graph.yields)

    @property
    def cls(self) -> str | None:
        """The id by which facts know the innermost class around it."""
        return self.fact(Classes).around(self._here.function)

    @property
    def bases(self) -> frozenset[str]:
        """The library classes that the innermost class around it derives from."""
        cls = self.cls
        return self.fact(Classes).library_bases(cls) if cls is not None else frozenset()

    @property
    def backward(self) -> tuple[Evidence, ...] | None:
        """If the call runs a backward pass: the chain of places from it to the `backward()`."""
        return self.ask(BackwardCalls)

    @property
    def stale(self) -> Stale | None:
        """Of a context: the weights that change while its region keeps the casts made of them."""
        place = Place(self.function.path, *self._here.location)
        return self.fact(CastCache).of_context(self._place, place)

    @property
    def lost(self) -> tuple[View, Lost] | None:
        """Of a call that runs a module without gradients: the later call that has none because of
        it, as its casts are kept; and what is known of that."""
        lost = self.ask(LostGradients)
        return (self._view_at(lost.later), lost) if lost is not None else None

    def misuse(self, violation: Violation | None) -> Misuse | None:
        """How the call violates the protocol of a GradScaler; None if it does not in this way."""
        misuses = self.ask(ScalerMisuse) or ()
        return next((misuse for misuse in misuses if misuse.violation is violation), None)

    @property
    def _place(self) -> NodePlace:
        here = self._here
        return NodePlace(here.function, here.number, here.block)

    # -- its parts

    @property
    def operands(self) -> Sequence[View]:
        """Its operands, as `amplint.ir.ops` lists them; none of a variable."""
        return self._operands_from(0) if self.op != READ else ()

    def _operands_from(self, first: int) -> Sequence[View]:
        """The operands from that index on."""
        numbers = self._here.node.operands[first:]
        if self._thing is None:
            return [self._operand(number, None) for number in numbers]
        parts = parts_of(self._thing)[first : first + len(numbers)]
        return [self._operand(*pair) for pair in zip_longest(numbers, parts)]

    def _operand_at(self, index: int) -> View:
        """The operand of that index; the others are not looked at: this is asked often."""
        number = self._here.node.operands[index]
        if self._thing is None:
            return self._operand(number, None)
        parts = parts_of(self._thing)
        return self._operand(number, parts[index] if index < len(parts) else None)

    @property
    def operator(self) -> str:
        """Of a binary or unary operation: the name that `ast` has for its operator."""
        return str(self._here.node.data)

    @property
    def operators(self) -> tuple[str, ...]:
        """Of a comparison: the names that `ast` has for its operators, in their order."""
        return (*self._here.node.data,) if self.op == ops.COMPARE else ()

    @property
    def callee(self) -> str | None:
        """Of a call: the name of what certainly is called: "torch.arange", "Tensor.view"."""
        if self.op != ops.CALL:
            return None
        function = self.called
        value = function._value_by_name
        method = only(value)
        if function.op == ops.ATTR and isinstance(method, Method):
            return f"Tensor.{method.name}" if isinstance(method.of, Tensor | TensorTree) else None
        return symbol(value - {NONE})

    @property
    def name(self) -> str | None:
        """The dotted name of the library object that it certainly is: "torch.zeros"."""
        return symbol(self.value)

    @property
    def names(self) -> Iterator[str]:
        """Of a call: all names that what is called may have: "torch.zeros", "Tensor.item",
        "torch.nn.Linear" (an instance), ".item"; and "torch.FloatTensor" of a string that says
        so."""
        if self.op == ops.CALL:
            function = self.called
            yield from names_of_callee(function._here.node, function._value_by_name)

    @property
    def has_star(self) -> bool:
        """Of a call: whether it has a `*` or `**` argument, and so more than one can read."""
        return self.op == ops.CALL and self._here.node.data.stars

    @property
    def method(self) -> str:
        """Of a call: the name of the method that it is written with: `item` of `x.item()`."""
        function = self.called
        return str(function._here.node.data) if function.op == ops.ATTR else ""

    @property
    def receiver(self) -> View | None:
        """Of a call of a method: what it is called on."""
        function = self.called
        return function._operand_at(0) if function.op == ops.ATTR else None

    @property
    def called(self) -> View:
        """Of a call: what is called; of all else, it itself."""
        if self.op != ops.CALL:
            return self
        if self._called is None:
            self._called = self._operand_at(0)
        return self._called

    @property
    def arguments(self) -> Iterator[tuple[int, str | None, View]]:
        """Of a call: what it is given, in whatever way, with position and keyword ("**" of what is
        unpacked)."""
        if self.op != ops.CALL:
            return
        node, operands = self._here.node, self._operands_from(1)
        keywords = [*(None for _ in node.positional), *(name for name, _ in node.named)]
        for position, (keyword, argument) in enumerate(zip(keywords, operands, strict=True)):
            yield position, keyword, argument

    def arg(self, name: str, position: int | None = None) -> View | None:
        """Of a call: the argument for a parameter, by keyword or by position; None where it is not
        given, and behind a star, where nobody knows which one it is."""
        index = self._here.node.argument_index(position, name) if self.op == ops.CALL else -1
        return self._operand_at(index) if index >= 0 else None

    def _operand(self, number: int, thing: ast.expr | None) -> View:
        here = self._here
        node = here.state.graph.nodes[number]
        if thing is None:
            is_read = not is_within(node.location, here.location)
        else:
            is_read = reads(thing, node)
        if not is_read:
            at = EvaluatedNode(
                here.project,
                here.function,
                here.state,
                number,
                node.block,
                node.location,
            )
            return View(self.rule, at, self._code, thing, node.op)
        # A read has no node, and so no block, of its own; these have one for each operand.
        has_blocks = self.op in (ops.BOOL, ops.PHI, ops.COMP, ops.DICTCOMP)
        if has_blocks and self._code is None:
            raise NeedsCodeError
        at = EvaluatedNode(
            here.project,
            here.function,
            here.state,
            number,
            here.block,
            here.location,
        )
        return View(self.rule, at, self._code, thing, READ)

    def operations(self, *kinds: str) -> Iterator[View]:
        """The operations of its function that are of some kinds, without those of functions within
        it; with the code at hand, those that are written."""
        if self._here is NOWHERE:
            return
        for number, node in enumerate(self._here.state.graph.nodes):
            if node.op in kinds:
                yield from self._at(number)

    @property
    def assigned(self) -> View | None:
        """Of `x.a = y` and `x[i] = y`, which is shown as `x.a` and `x[i]`: y; None where that is
        unpacked, or added."""
        value = self.source.layout.value_for(self.cst)
        return self.of(value) if value is not None else None

    # -- where its value goes, and comes from

    @property
    def is_joined(self) -> bool:
        """Whether it reads a variable that one of several assignments may have bound."""
        return self.op == READ and self.origin.op == ops.PHI

    @property
    def origin(self) -> View:
        """The operation that has made its value: of a variable, what is assigned to it, whatever
        tests have left of it since, its parameter, or the join of several; of all else, itself."""
        if self.op != READ:
            return self
        return self._view_at(self._here.state.graph.narrowed(self._here.number))

    @property
    def is_merged(self) -> bool:
        """Whether it may be one of several values at some place that reads it, which `uses` does
        not list then. The code is needed to know."""
        flow, thing = self._with_code.facts.flow, self._thing
        return not isinstance(thing, ast.expr) or flow.joined(thing)

    def is_same(self, other: View) -> bool:
        """Whether both are the same value of the same function."""
        return self._here is not NOWHERE and self._place[:2] == other._place[:2]

    def __eq__(self, other: object) -> bool:
        """Whether both are the same expression."""
        return isinstance(other, View) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        here = self._here
        asked_by = id(self._asked_by) if here is NOWHERE else None
        return (
            here.function,
            here.number,
            here.location,
            self.op,
            asked_by,
        )

    @property
    def uses(self) -> Iterator[View]:
        """The operations that take its value: by itself, or in a tuple, list or slice that is
        written in them."""
        here = self._here
        if here.number < 0:
            return
        trail: set[int] = set()
        stack = [*here.state.users[here.number]]
        while stack:
            number = stack.pop()
            if number in trail:
                continue
            trail.add(number)
            node = here.state.graph.nodes[number]
            # These take operands together, for the operation that takes them in turn.
            if node.op in (ops.TUPLE, ops.LIST, ops.SLICE, ops.STARRED):
                stack.extend(here.state.users[number])
            else:
                yield from self._at(number)

    @property
    def unpacked(self) -> Iterator[View]:
        """The elements that its value is unpacked to, as by `a, b = pair`. They are what the names
        are bound to, for which nothing is written."""
        here = self._here
        for number in here.state.users[here.number] if here.number >= 0 else ():
            if here.state.graph.nodes[number].op == ops.UNPACK:
                yield self._view_at(number)

    def _at(self, number: int) -> Iterator[View]:
        """A node of its function; none with the code at hand where nothing is written for it."""
        view = self._view_at(number)
        if view._thing is not None or self._code is None:
            yield view

    def _view_at(self, number: int) -> View:
        """A node of its function, where it was made."""
        here, code = self._here, self._code
        node = here.state.graph.nodes[number]
        thing = code.facts.flow.written_at(here.function, number) if code is not None else None
        at = EvaluatedNode(
            here.project,
            here.function,
            here.state,
            number,
            node.block,
            node.location,
        )
        return View(self.rule, at, code, thing)

    # -- how it is written

    def of(self, node: libcst.CSTNode) -> View:
        """Another node of its file as a View; of one that is in no value graph, nothing is
        known."""
        return self._with_code.view_of(self.rule, node)

    @property
    def cst(self) -> Any:
        """Its LibCST node: an expression, a statement or a function. Raises LookupError where
        nothing is written that stands for it."""
        node = self._node
        if node is None:
            raise LookupError("nothing is written that stands for this node")
        return node

    @property
    def source(self) -> Source:
        """Its file, with which fixes are built, and what is written around it is found."""
        return self._with_code.source

    @property
    def is_written(self) -> bool:
        """Whether something is written that stands for it."""
        return self._node is not None

    @property
    def _node(self) -> libcst.CSTNode | None:
        if self._asked_by is not None:
            return self._asked_by
        layout = self.source.layout
        thing = self._thing if isinstance(self._thing, ast.expr | ast.stmt) else None
        return layout.node_for(thing) if thing is not None else None

    @property
    def text(self) -> str:
        """The text of it."""
        return self.source.text(self.cst)

    @property
    def brief(self) -> str:
        """The text of it on one line and not too long, for messages."""
        return self.source.brief(self.cst)

    @property
    def span(self) -> Span:
        """Where it stands, in characters."""
        return self.source.span(self.cst)

    @property
    def _with_code(self) -> FileCode:
        if self._code is None:
            raise NeedsCodeError
        return self._code

    # -- what is said of it

    def related(self, message: str) -> Related:
        """It as a place that a finding shows besides its own."""
        return self.source.related_node(self.cst, message)

    def finding(
        self,
        message: str,
        because: Iterable[Reason | Related | None] = (),
        fix: Fix | None = None,
        help: str = "",
        group: Group | None = None,
        place: libcst.CSTNode | None = None,
        anywhere: bool = False,
        former: str = "",
    ) -> Finding:
        """A place where the claim of the rule holds.

        Args:
            message: what happens there.
            because: the evidence that it rests on, and other places to show, in their order.
            fix, group, anywhere, former: as `Source.finding` takes them, which says what it raises.
            help: what to do about it, where that is not what the rule says of all.
            place: the part of the expression that the finding is about, if not all of it.
        """
        source = self.source
        related: list[Related] = []
        for each in because:
            related += [each] if isinstance(each, Related) else source.reasons(each)
        node = place or self.cst
        finding = source.finding(self.rule, node, message, fix, related, group, anywhere, former)
        return replace(finding, help=help) if help else finding


NOWHERE: Final = EvaluatedNode(
    cast(KnownProject, None), "", cast(State, None), -1, -1, NOTHING.location
)
"""The here of what stands in no value graph."""


def reads(thing: ast.AST, node: Node) -> bool:
    """Whether an expression is the read of a variable that holds the value of a node."""
    return isinstance(thing, ast.Name) and where(thing) != node.location


def is_target(thing: ast.Subscript) -> bool:
    return isinstance(thing.ctx, ast.Store)


def is_within(inner: Location, outer: Location) -> bool:
    return outer[:2] <= inner[:2] and inner[2:] <= outer[2:]
