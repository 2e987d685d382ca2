"""`Source`: one file as a rule sees it, and `judge`, which shows it to all rules.

A rule is handed LibCST nodes and asks about them here. How the code is written is answered from
LibCST's tree (`amplint.cst.navigation`), what it means from what link has found out
(`amplint.analyses.answers`), and edits are built from both (`amplint.cst.edits`,
`amplint.cst.imports`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from amplint.analyses.answers import Answers
from amplint.analyses.backward_support import Support
from amplint.analyses.cast_cache import Stale
from amplint.core.errors import describe
from amplint.core.finding import Finding, Fix, Group, Related, Safety, Span
from amplint.core.intervals import Intervals
from amplint.core.rule import Check, Rule
from amplint.core.text import Text
from amplint.core.values import (
    UNKNOWN,
    Autocast,
    Class,
    Heat,
    Host,
    Region,
    Tensor,
    Trait,
    Value,
    Why,
    one,
    only,
)
from amplint.core.violations import Violation
from amplint.cst.edits import REFUSED, Edits
from amplint.cst.imports import Imports, Spelling
from amplint.cst.scopes import Scopes, assignments
from amplint.cst.segments import RefusedUnitError, Unit, Units
from amplint.gradscaler.checker import Misuse

if TYPE_CHECKING:
    from amplint.run.timing import Watch

Texts = Callable[[str], Text | None]
Traits = Sequence[tuple[int, int, frozenset[Trait]]]
COMMENT = re.compile(r"#[^\r\n]*")
NO_SUPPORT = Support(None, None, None, False)


class Source(Edits):
    """One file: the questions that a rule may ask about its nodes, and the edits it may build.

    Args:
        path: relative to the project's root, with forward slashes.
        text: the file's text.
        module: the file's tree as `answers` knows it.
        answers: what is known of the nodes of that tree.
        texts: the texts of other files, for places in them.
    """

    def __init__(
        self, path: str, text: Text, module: ast.Module, answers: Answers, texts: Texts
    ) -> None:
        super().__init__(path, text, module)
        self._answers = answers
        self._texts = texts
        self._assigned: dict[ast.AST, dict[str, list[ast.expr]]] = {}

    # ------------------------------------------------------------------------------ meaning

    def value(self, node: cst.CSTNode) -> Value:
        """What an expression evaluates to."""
        literal = _literal(node)
        if literal is not None:
            return one(literal)
        thing = self.ast_of(node)
        return self._answers.value(thing) if isinstance(thing, ast.expr) else UNKNOWN

    def tensor(self, node: cst.CSTNode) -> Tensor | None:
        """The tensor that an expression is, leaving None aside; None if it may be anything else."""
        atom = only(self.value(node))
        return atom if isinstance(atom, Tensor) else None

    def surely_tensor(self, node: cst.CSTNode) -> bool:
        """Whether the tensor that `value` gives, or the tensors in the container, are no guess.

        A parameter of `forward` that is only subscripted or counted with may be a list or an int.
        """
        thing = self.ast_of(node)
        return isinstance(thing, ast.expr) and self._answers.surely_tensor(thing)

    def is_constant(self, node: cst.CSTNode) -> bool:
        """Whether an expression is a number, or a list of numbers, that is the same in every
        iteration: by constants, options, what a constructor has stored, or a configuration."""
        if _literal(node) is not None:
            return True
        thing = self.ast_of(node)
        return isinstance(thing, ast.expr) and self._answers.is_constant(thing)

    def built_of_constants(self, node: cst.CSTNode) -> Why | None:
        """Where a list that is the same in every iteration becomes a tensor on the host, if the
        expression is computed from nothing else."""
        thing = self.ast_of(node)
        place = self._answers.built_of_constants(thing) if isinstance(thing, ast.expr) else None
        return Why(place, "built of constants here") if place is not None else None

    def name(self, node: cst.CSTNode) -> str | None:
        """The dotted name of the library object that an expression certainly is: "torch.zeros"."""
        thing = self.ast_of(node)
        return self._answers.name(thing) if isinstance(thing, ast.expr) else None

    def heat(self, node: cst.CSTNode) -> Heat | None:
        """Why a node runs for every batch; None if it is cold, or nothing says that it is hot."""
        thing = self.ast_around(node)
        return None if thing is None else self._answers.heat(thing)

    def region(self, node: cst.CSTNode) -> Region | None:
        """The innermost autocast region around a node, opened here or by all known callers."""
        thing = self.ast_around(node)
        return None if thing is None else self._answers.region(thing)

    def is_outside(self, node: cst.CSTNode) -> bool:
        """Whether a node stands in no autocast region, or in one that its function switches off,
        whichever of the known callers calls: `region` is None also where they differ."""
        thing = self.ast_around(node)
        return thing is not None and self._answers.is_outside(thing)

    def backward(self, call: cst.CSTNode) -> tuple[Why, ...] | None:
        """If the call runs a backward pass: the chain of places from it to the `backward()`."""
        thing = self.ast_of(call)
        return self._answers.backward(thing) if isinstance(thing, ast.Call) else None

    def backpropagated(self, node: cst.CSTNode, itself: bool = False) -> Why | None:
        """Where what an expression holds, or is computed of, goes through a backward pass, here or
        in the function that has returned it: its graph is still there.

        Args:
            node: the expression.
            itself: only where it is what `backward()` is called on, or a part of it.
        """
        thing = self.ast_of(node)
        return self._answers.backpropagated(thing, itself) if isinstance(thing, ast.expr) else None

    def support(self, call: cst.Call) -> Support:
        """What is known of the forward work behind a backward pass in an autocast region."""
        thing = self.ast_of(call)
        return self._answers.support(thing) if isinstance(thing, ast.Call) else NO_SUPPORT

    def thread_work(self, call: cst.Call) -> Why | None:
        """Where what the call hands to another thread runs a product, outside of any region."""
        thing = self.ast_of(call)
        return self._answers.thread_work(thing) if isinstance(thing, ast.Call) else None

    def stale(self, context: cst.CSTNode) -> Stale | None:
        """The weights that change within the autocast region which a `with` or a decorator opens,
        and are used in it again, as they were at first."""
        thing = self.ast_of(context)
        return self._answers.stale(thing) if isinstance(thing, ast.expr) else None

    def misuse(self, call: cst.Call, violation: Violation | None) -> Misuse | None:
        """How a call violates the protocol of a GradScaler; None if it does not in this way."""
        thing = self.ast_of(call)
        found = self._answers.misuses(thing) if isinstance(thing, ast.Call) else ()
        return next((misuse for misuse in found if misuse.violation is violation), None)

    def bases(self, node: cst.CSTNode) -> frozenset[str]:
        """The library classes that a class of the project, or its instance, derives from."""
        thing = self.ast_of(node)
        return self._answers.bases(thing) if isinstance(thing, ast.expr) else frozenset()

    def replicated(self, node: cst.CSTNode) -> Why | None:
        """Where the module that an expression is may have been wrapped by `nn.DataParallel`, for
        more than one device."""
        thing = self.ast_of(node)
        return self._answers.replicated(thing) if isinstance(thing, ast.expr) else None

    def run_by_workers(self, node: cst.CSTNode) -> tuple[Why, ...] | None:
        """If the node runs in the worker processes of a loader: the chain of places that leads
        from the loader to it."""
        thing = self.ast_around(node)
        return self._answers.run_by_workers(thing) if thing is not None else None

    def may_be_without_grad(self, node: cst.CSTNode) -> bool:
        """Whether gradients may be off where a node runs: in a context or under a decorator that
        switches them off, or is not known, or below a caller in one."""
        thing = self.ast_around(node)
        return thing is None or self._answers.may_be_without_grad(thing)

    def moved_to_device(self, loader: cst.Call) -> Why | None:
        """Where a batch of a loader that does not pin its batches is moved to the device."""
        thing = self.ast_of(loader)
        return self._answers.moved_to_device(thing) if isinstance(thing, ast.Call) else None

    def is_module(self, node: cst.CSTNode) -> bool:
        """Whether an expression is a torch module of the project, or what is mixed into one."""
        thing = self.ast_of(node)
        return isinstance(thing, ast.expr) and self._answers.is_module(thing)

    def constructs(self, call: cst.Call) -> bool:
        """Whether the call makes an instance of a class of the project."""
        return isinstance(only(self.value(call.func)), Class)

    def is_autocast(self, node: cst.CSTNode) -> bool:
        """Whether an expression is an autocast context, and nothing else."""
        value = self.value(node)
        return bool(value) and all(isinstance(atom, Autocast) for atom in value)

    def mentions(self, *words: str) -> bool:
        """Whether some file of the project holds all these identifiers."""
        return self._answers.mentions(*words)

    def is_called(self, *names: str) -> bool:
        """Whether code of the project that is no test calls a function of one of these names."""
        return self._answers.is_called(*names)

    def matches(self, pattern: str) -> bool:
        """Whether the regular expression matches a line of some file of the project."""
        return self._answers.matches(pattern)

    def text_around(self, why: Why) -> str:
        """The text of the innermost function in which a reason stands, in whatever file."""
        return self._answers.text_around(why.place)

    def bases_at(self, why: Why) -> frozenset[str]:
        """The library classes that the class of the method around a reason, in whatever file,
        derives from."""
        return self._answers.bases_at(why.place)

    def called_texts(self, call: cst.Call) -> Sequence[str]:
        """The texts of the functions of the project that the call runs, a few calls deep."""
        thing = self.ast_of(call)
        return self._answers.called_texts(thing) if isinstance(thing, ast.Call) else ()

    # ------------------------------------------------------------------------------ data flow

    def uses(self, node: cst.CSTNode) -> tuple[cst.BaseExpression, ...]:
        """The expressions that read the value of `node` within its function; see `joined`."""
        return tuple(use for use in self._uses(node) if isinstance(use, cst.BaseExpression))

    def joined(self, node: cst.CSTNode) -> bool:
        """Whether `uses` may not be all: where the value may be one of several at some place."""
        thing = self.ast_of(node)
        if not isinstance(thing, ast.expr) or self._answers.joined(thing):
            return True
        return any(use is None for use in self._uses(node))

    def origin(self, name: cst.Name) -> cst.BaseExpression | None:
        """The expression whose value a variable certainly has where it is read."""
        thing = self.ast_of(name)
        if not isinstance(thing, ast.Name):
            return None
        origins = [
            binding_value
            for binding_value in self._assigned_values(thing)
            if any(use is thing for use in self._answers.uses(binding_value))
        ]
        if len(origins) != 1:
            return None
        node = self.node_for(origins[0])
        return node if isinstance(node, cst.BaseExpression) else None

    def constructor_around(self, node: cst.CSTNode) -> Sequence[ast.stmt]:
        """The statements of the `__init__` of the class around a node; none without one."""
        cls = self._class_around(node)
        for statement in cls.body if cls is not None else ():
            if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
                return statement.body
        return ()

    def method_beside(self, node: cst.CSTNode, name: str) -> cst.FunctionDef | None:
        """The method of a name that the class around a node defines."""
        cls = self._class_around(node)
        for statement in cls.body if cls is not None else ():
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                method = self.node_for(statement)
                return method if isinstance(method, cst.FunctionDef) else None
        return None

    def bases_around(self, node: cst.CSTNode) -> frozenset[str]:
        """The library classes that the class around a node derives from."""
        cls = self._class_around(node)
        return self._answers.class_bases(cls) if cls is not None else frozenset()

    def family_mentions(self, node: cst.CSTNode, word: str) -> bool:
        """Whether the class around a node, one of the project that it derives from, or one that
        derives from it, holds an identifier."""
        cls = self._class_around(node)
        return cls is not None and self._answers.class_mentions(cls, word)

    def is_stored_from_outside(self, attribute: str) -> bool:
        """Whether some file assigns an attribute of that name to something other than `self`."""
        return self._answers.is_stored_from_outside(attribute)

    def _class_around(self, node: cst.CSTNode) -> ast.ClassDef | None:
        thing = self.ast_around(node)
        return self._scopes.class_around(thing) if thing is not None else None

    def global_value(self, name: cst.Name) -> cst.BaseExpression | None:
        """The expression that is assigned to a variable of the module, if nothing else ever is."""
        bindings = self._scopes.bindings(name.value)
        if len(bindings) != 1 or bindings[0].scope is not self.module:
            return None
        for statement in self.module.body:
            if isinstance(statement, ast.Assign) and statement.targets == [bindings[0].node]:
                node = self.node_for(statement.value)
                return node if isinstance(node, cst.BaseExpression) else None
        return None

    def bound_once(self, name: cst.Name) -> bool:
        """Whether one place alone binds a variable in its function."""
        thing = self.ast_of(name)
        if thing is None:
            return False
        scope = self._scopes.scope(thing)
        return sum(each.scope is scope for each in self._scopes.bindings(name.value)) == 1

    def written_into(self, name: cst.Name) -> bool:
        """Whether its function writes into what a variable holds, at any time: `w.mul_(2)`."""
        thing = self.ast_of(name)
        return thing is None or self._scopes.written_into(name.value, thing)

    def parameter(self, name: cst.Name) -> cst.Param | None:
        """The parameter of its function whose value a variable certainly has where it is read."""
        thing, function = self.ast_of(name), self.function(name)
        found = self._answers.parameter(thing) if isinstance(thing, ast.expr) else None
        if found is None or function is None:
            return None
        params = function.params
        plain = (*params.posonly_params, *params.params, *params.kwonly_params)
        return next((param for param in plain if param.name.value == found), None)

    def is_given(self, node: cst.CSTNode) -> bool:
        """Whether a dotted name begins with a parameter, or a variable that was set to one: then
        callers that are not seen may have it be something else.

        Ex) amp.autocast of `def embed(x, amp): ...`, self.scaler_class, getattr(amp, "autocast")
        """
        while isinstance(node, cst.Attribute):
            node = node.value
        if isinstance(node, cst.Call):
            return any(self.is_given(arg.value) for arg in node.args)
        if not isinstance(node, cst.Name):
            return False
        origin = self.origin(node)
        named = isinstance(origin, cst.Name | cst.Attribute)
        return self.parameter(node) is not None or (
            named and origin is not node and origin is not None and self.is_given(origin)
        )

    def bound_before(self, name: cst.Name, node: cst.CSTNode) -> bool:
        """Whether a variable, read somewhere below `node`, has the same value at `node` already."""
        later, earlier = self.ast_of(name), self.ast_around(node)
        if not isinstance(later, ast.Name) or earlier is None:
            return False
        return self._scopes.same_value(later.id, earlier, later)

    def same_meaning(self, node: cst.CSTNode, earlier: cst.CSTNode) -> bool:
        """Whether the arguments of a call (or any other expression) would mean the same at an
        earlier place in the same function: only plain variables, attributes and constants do."""
        at = self.ast_around(earlier)
        parts = [arg.value for arg in node.args] if isinstance(node, cst.Call) else [node]
        things = [self.ast_of(part) for part in parts if _literal(part) is None]
        if at is None:
            return False
        return all(thing is not None and self._means_the_same(thing, at) for thing in things)

    def same_before(self, node: cst.CSTNode, loop: cst.CSTNode) -> bool:
        """Whether an expression in a loop means the same before it, if its calls always give the
        same: nothing that it reads is bound or assigned within the loop."""
        thing, around = self.ast_of(node), self.ast_of(loop)
        if thing is None or around is None:
            return False
        bound = {
            each.id if isinstance(each, ast.Name) else each.attr
            for each in ast.walk(around)
            if isinstance(each, ast.Name | ast.Attribute) and not isinstance(each.ctx, ast.Load)
        }
        return all(
            each.id not in bound and self._scopes.same_value(each.id, around, each)
            if isinstance(each, ast.Name)
            else not (isinstance(each, ast.Attribute) and each.attr in bound)
            for each in ast.walk(thing)
        )

    def _means_the_same(self, thing: ast.AST, earlier: ast.AST) -> bool:
        parts = list(ast.walk(thing))
        plain = (ast.Name, ast.Attribute, ast.Constant, ast.expr_context)
        if not all(isinstance(part, plain) for part in parts):
            return False
        changing = self._scopes.attributes_change(earlier, thing)
        return all(
            self._scopes.same_value(part.id, earlier, part)
            if isinstance(part, ast.Name)
            else not (isinstance(part, ast.Attribute) and part.attr in changing)
            for part in parts
        )

    def _uses(self, node: cst.CSTNode) -> list[cst.CSTNode | None]:
        thing = self.ast_of(node)
        if not isinstance(thing, ast.expr):
            return []
        return [self.node_for(use) for use in self._answers.uses(thing)]

    def _assigned_values(self, name: ast.Name) -> list[ast.expr]:
        """What is assigned to a variable in its function, by statements `name = value`."""
        scope = self._scopes.scope(name)
        if scope not in self._assigned:  # one walk for all names: rules ask for many
            self._assigned[scope] = assignments(scope)
        return self._assigned[scope].get(name.id, [])

    @cached_property
    def _scopes(self) -> Scopes:
        return Scopes(self.module)

    # ------------------------------------------------------------------------------ imports

    def bound_as(self, dotted: str) -> str | None:
        """How a library name can be written with the imports of the file: "torch.amp", "th.amp"."""
        return self._imports.bound_as(dotted)

    def imported(self, node: cst.CSTNode) -> str | None:
        """The library name that a dotted name stands for by the imports alone, in what is never
        run as well: annotations."""
        return self._imports.meaning(self.text(node))

    def spell(self, dotted: str) -> Spelling | None:
        """A way to write a library name, with the edits that import it; None if it would clash."""
        return self._imports.spell(dotted)

    @cached_property
    def _imports(self) -> Imports:
        return Imports(self.content, self._scopes)

    # ------------------------------------------------------------------------------ findings

    def related(self, why: Why) -> Related:
        """A reason as a place to show."""
        place = why.place
        text = self.content if place.path == self.path else self._texts(place.path)
        if text is None:
            text = Text("")
        start = text.position(text.offset(place.row, place.column))
        end = text.position(text.offset(place.end_row, place.end_column))
        return Related(place.path, Span(start, max(start, end)), why.text)

    def related_node(self, node: cst.CSTNode, message: str) -> Related:
        """A node of this file as a place to show."""
        return Related(self.path, self.span(node), message)

    def finding(
        self,
        rule: Rule,
        node: cst.CSTNode,
        message: str,
        fix: Fix | None = None,
        related: Iterable[Related] = (),
        group: Group | None = None,
    ) -> Finding:
        """A place where the claim of a rule holds.

        A fix with an edit that could not be made is left out, and one that removes a comment is no
        longer safe. Raises ValueError for a group, or a condition of the fix, that the rule does
        not declare.
        """
        if group is not None and group not in rule.groups:
            raise ValueError(f"{rule.code} does not declare the group {group}")
        if fix is not None and REFUSED in fix.edits:
            fix = None
        if fix is not None and fix.safety is Safety.SAFE and self._removes_comment(fix):
            fix = fix.demoted()
        if fix is not None and not set(fix.proven) <= set(rule.safe_if):
            raise ValueError(f"{rule.code} does not declare {set(fix.proven) - set(rule.safe_if)}")
        return Finding(
            code=rule.code,
            name=rule.name,
            group=group or rule.group,
            path=self.path,
            span=self.span(node),
            message=message,
            scope=self.scope(node),
            fix=fix,
            related=tuple(related),
        )

    def _removes_comment(self, fix: Fix) -> bool:
        """Whether there is less comment after the fix; a `#` in a string counts as one, too."""
        return any(
            comment not in edit.text
            for edit in fix.edits
            for comment in COMMENT.findall(self.content.text[edit.start : edit.end])
        )


@dataclass(frozen=True)
class Judged:
    """What the rules said about a file.

    Args:
        findings: by the order in which the file was walked.
        problems: the codes of rules that raised, and what.
        notices: what was not looked at.
        faults: where amplint could not show the file to the rules, and why.
    """

    findings: tuple[Finding, ...]
    problems: tuple[tuple[str, str], ...]
    notices: tuple[str, ...]
    faults: tuple[str, ...] = ()


def judge(
    path: str,
    text: Text,
    module: ast.Module,
    answers: Answers,
    rules: Sequence[Rule],
    texts: Texts = lambda _: None,
    watch: Watch | None = None,
) -> Judged:
    """Show a file to the rules: each unit that can matter, once, to those that wait for its words.

    A rule that raises is a problem of its own; what it and the others have found stays.
    """
    source = Source(path, text, module, answers, texts)
    shown = waiting(source.units, answers, rules)
    return show(source, shown if watch is None else watch.over(shown, source.units))


def waiting(
    units: Units, answers: Answers, rules: Sequence[Rule]
) -> Iterator[tuple[Unit, Sequence[Rule]]]:
    """The units that can matter, each with the rules that wait for what is in it."""
    words = frozenset(
        word for rule in rules if not (rule.violation or rule.by_needs) for word in rule.words
    )
    traits_of = _traits(answers.traits() if any(rule.needs for rule in rules) else ())
    misuse_rows = answers.misuse_rows() if any(rule.violation for rule in rules) else {}
    misuses = {
        violation: Intervals((row, row + 1) for row in at) for violation, at in misuse_rows.items()
    }
    wordless = [frozenset(rule.needs) for rule in rules if rule.by_needs and rule.words]
    rows = {
        *(row for rows in misuse_rows.values() for row in rows),
        *(unit.row for unit in units.units if any(map(traits_of(unit).issuperset, wordless))),
    }
    for unit, found in units.holding(words, rows):
        traits = traits_of(unit)
        misused = {
            violation for violation, at in misuses.items() if at.meet(unit.row, unit.last_row + 1)
        }
        those = [
            rule for rule in rules if _waits(rule, found, misused) and traits.issuperset(rule.needs)
        ]
        if those:
            yield unit, those


def _waits(rule: Rule, found: Collection[str], misused: Collection[Violation]) -> bool:
    """Whether a rule waits for what is written in a unit; one without words waits for nothing."""
    if rule.violation is not None:
        return rule.violation in misused
    return bool(rule.words) if rule.by_needs else not rule.words.isdisjoint(found)


def _traits(known: Traits) -> Callable[[Unit], frozenset[Trait]]:
    """Gives the traits of the places in a unit."""
    places = {
        trait: Intervals((first, last + 1) for first, last, some in known if trait in some)
        for trait in Trait
    }

    def traits_of(unit: Unit) -> frozenset[Trait]:
        first, end = unit.row, unit.last_row + 1
        return frozenset(trait for trait, at in places.items() if at.meet(first, end))

    return traits_of


def show(source: Source, shown: Iterable[tuple[Unit, Sequence[Rule]]]) -> Judged:
    """Show units of a file to rules: every node of theirs to the checks for its kind."""
    findings: list[Finding] = []
    problems: list[tuple[str, str]] = []
    notices: list[str] = []
    faults: list[str] = []
    for unit, rules in shown:
        try:
            tree = source.open(unit)
        except RefusedUnitError as refused:
            notices.append(f"line {refused.row} ff. not checked: {refused.reason}")
            continue
        except Exception as error:
            faults.append(f"line {unit.row} to {unit.last_row}: {describe(error)}")
            continue
        checks = Checks(rules)
        for node in tree.nodes:
            for rule, check in checks.of(type(node)):
                try:
                    findings.extend(check(node, source))
                except Exception as error:
                    problems.append((rule.code, _describe(error, node, unit, source)))
    return Judged(tuple(findings), tuple(problems), tuple(notices), tuple(faults))


class Checks:
    """The checks of some rules, by the kind of node that they are registered for."""

    def __init__(self, rules: Collection[Rule]) -> None:
        self._registered = [(rule, kinds, check) for rule in rules for kinds, check in rule.checks]
        self._by_kind: dict[type[cst.CSTNode], list[tuple[Rule, Check]]] = {}

    def of(self, kind: type[cst.CSTNode]) -> list[tuple[Rule, Check]]:
        found = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = [
                (rule, check) for rule, kinds, check in self._registered if issubclass(kind, kinds)
            ]
        return found


def _describe(error: Exception, node: cst.CSTNode, unit: Unit, source: Source) -> str:
    try:
        row = source.span(node).start.row
    except Exception:  # whatever troubled the rule may trouble us
        row = unit.row
    return f"line {row}: {describe(error)}"


def _literal(node: cst.CSTNode) -> Host | None:
    """The value of a literal, which neither tree pairs."""
    if isinstance(node, cst.Integer):
        return Host("int", node.evaluated_value, True)
    if isinstance(node, cst.Float):
        return Host("float", node.evaluated_value, True)
    if isinstance(node, cst.SimpleString):
        text = node.evaluated_value
        return Host("str", text, True) if isinstance(text, str) else None
    if isinstance(node, cst.Name) and node.value in ("True", "False"):
        return Host("bool", node.value == "True", True)
    if isinstance(node, cst.Name) and node.value == "None":
        return Host("none", None, True)
    if isinstance(node, (cst.FormattedString, cst.ConcatenatedString)):
        return Host("str")
    return None
