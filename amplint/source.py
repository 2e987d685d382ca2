"""`Source`: one file as a rule sees it.

A rule is handed LibCST nodes and asks about them here. How the code is written is answered by
`layout` and `variables` (`amplint.cst`), what it means by the facts of `amplint.analyses`; `edits`
and `imports` build changes of the text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import libcst as cst

from amplint.analyses.backward_calls import BackwardCalls
from amplint.analyses.fact import Answer_co, Known, NodeFact, PlaceFact
from amplint.analyses.hotness import TRAINING, Hotness
from amplint.analyses.inferred import Regions, Values
from amplint.analyses.never_given import NeverGiven
from amplint.analyses.program import FileView
from amplint.analyses.texts import ProjectText
from amplint.core.finding import Cost, Edit, Finding, Fix, Group, Related, Safety, Span
from amplint.core.lattice import only
from amplint.core.rule import Rule
from amplint.core.text import span_in
from amplint.core.values import (
    NONE,
    UNKNOWN,
    Evidence,
    Heat,
    Place,
    Reason,
    Region,
    Shows,
    Symbol,
    Tensor,
    Value,
    evidence_of,
    one,
)
from amplint.cst.comments import Comments
from amplint.cst.edits import REFUSED, Edits
from amplint.cst.imports import Imports
from amplint.cst.literals import literal
from amplint.cst.navigation import Layout
from amplint.cst.scopes import Scopes
from amplint.cst.variables import Variables
from amplint.inference.transfer import canonical
from amplint.ir.ast_cache import NodePlace
from amplint.ir.ssa import where

Spans = Callable[[Place], Span]
QUOTES = ("'", '"')
CONDITION = "if this runs under autocast, as "  # the beginning of a message that presumes it
# How it goes on, by the kind of evidence that it is presumed by.
PRESUMED = {Shows.SIGN: "`{}` suggests", Shows.SETTINGS: "the settings say"}


class Source:
    """One file: what a rule may ask about its nodes, and how it may change the text.

    Args:
        layout: the file's nodes, of the tree that `facts` knows.
        facts: what is known of that tree's nodes.
        spans: gives where a place in another file stands in its text.

    `variables`, `imports` and `edits` are of the same file.
    """

    def __init__(self, layout: Layout, facts: FileView, spans: Spans) -> None:
        self.path = layout.path
        self.layout = layout
        scopes = Scopes(layout.module)
        self.variables = Variables(layout, scopes, facts.flow)
        self.imports = Imports(layout.content, scopes)
        self.edits = Edits(layout)
        self._comments = Comments(layout.content)
        self._scopes = scopes
        self._facts = facts
        self._said: dict[re.Pattern[str], bool] = {}
        self._presumed: dict[Related, str] = {}  # what a finding presumes, by why it does
        self._spans = spans

    # ------------------------------------------------------------------------------ facts

    def fact(self, kind: type[Known]) -> Known:
        """A fact of the whole project."""
        return self._facts.fact(kind)

    def ask(self, kind: type[NodeFact[Answer_co]], node: cst.CSTNode) -> Answer_co | None:
        """The answer of a fact about a node; None where nothing is known of it."""
        thing = (
            self.layout.ast_around(node)
            if issubclass(kind, PlaceFact)
            else self.layout.ast_of(node)
        )
        return self._facts.ask(kind, thing) if isinstance(thing, kind.about) else None

    def at(self, node: cst.CSTNode) -> NodePlace | None:
        """Where an expression stands in the value graph of its function."""
        thing = self.layout.ast_of(node)
        return self._facts.at(thing) if thing is not None else None

    def place(self, node: cst.CSTNode) -> Place | None:
        """Where an expression or a statement stands in the file, as facts count."""
        thing = self.layout.ast_of(node)
        return Place(self.path, *where(thing)) if isinstance(thing, ast.expr | ast.stmt) else None

    def value(self, node: cst.CSTNode) -> Value:
        """The value of an expression."""
        known = literal(node)
        return one(known) if known is not None else self.ask(Values, node) or UNKNOWN

    def tensor(self, node: cst.CSTNode) -> Tensor | None:
        """The tensor that an expression is, leaving None aside; None if it may be anything else."""
        atom = only(self.value(node))
        return atom if isinstance(atom, Tensor) else None

    def name(self, node: cst.CSTNode) -> str | None:
        """The dotted name of the library object that an expression certainly is: "torch.zeros".

        What is called is not None, though `except ImportError: GradScaler = None` has bound it.
        """
        parent = self.parent(node)
        called = isinstance(parent, cst.Call) and parent.func is node
        value = self.value(node) - {NONE} if called else self.value(node)
        names = [atom.name if isinstance(atom, Symbol) else None for atom in value]
        return canonical(names[0]) if len(names) == 1 and names[0] is not None else None

    def heat(self, node: cst.CSTNode) -> Heat | None:
        """Why a node runs for every batch; None if it is cold, or nothing says that it is hot."""
        return self.ask(Hotness, node)

    def region(self, node: cst.CSTNode) -> Region | None:
        """The innermost autocast region around a node, opened here or by a known caller; or one
        that is presumed."""
        return self.ask(Regions, node)

    def backward(self, call: cst.CSTNode) -> tuple[Evidence, ...] | None:
        """If the call runs a backward pass: the chain of places from it to the `backward()`."""
        return self.ask(BackwardCalls, call)

    def says(self, pattern: re.Pattern[str]) -> bool:
        """Whether a pattern is found in the text of the file; it is looked for once."""
        if pattern not in self._said:
            self._said[pattern] = pattern.search(self.layout.content.text) is not None
        return self._said[pattern]

    def mentions(self, *words: str) -> bool:
        """Whether some file of the project holds all these identifiers."""
        return self.fact(ProjectText).mentions(*words)

    def matches(self, pattern: str, *words: str) -> bool:
        """Whether the regular expression matches a line of some file of the project.

        Args:
            words: one of these stands in each line that matches, which is then found sooner.
        """
        return self.fact(ProjectText).matches(pattern, *words)

    def class_around(self, node: cst.CSTNode) -> ast.ClassDef | None:
        """The innermost class around a node."""
        thing = self.layout.ast_around(node)
        return self._scopes.class_around(thing) if thing is not None else None

    def class_id(self, cls: ast.ClassDef | None) -> str | None:
        """The id by which facts know a class of this file."""
        return self._facts.class_id(cls) if cls is not None else None

    # ------------------------------------------------------------------------------ data flow

    def uses(self, node: cst.CSTNode) -> tuple[cst.BaseExpression, ...]:
        """The expressions that read the value of `node` within its function; see `joined`."""
        return self.variables.uses(node)

    def joined(self, node: cst.CSTNode) -> bool:
        """Whether `uses` may not be all: where the value may be one of several at some place."""
        return self.variables.joined(node)

    def origin(self, name: cst.Name) -> cst.BaseExpression | None:
        """The expression whose value a variable certainly has where it is read."""
        return self.variables.origin(name)

    def parameter(self, name: cst.Name) -> cst.Param | None:
        """The parameter of its function whose value a variable certainly has where it is read."""
        return self.variables.parameter(name)

    # ------------------------------------------------------------------------------ layout

    def parent(self, node: cst.CSTNode | None) -> cst.CSTNode | None:
        """The node around a node; None at the top of a unit."""
        return self.layout.parent(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around a node, from the inside out, up to its unit."""
        return self.layout.ancestors(node)

    def statement(self, node: cst.CSTNode) -> cst.BaseStatement | None:
        """The innermost line of simple statements, or compound statement, that holds a node."""
        return self.layout.statement(node)

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | cst.Lambda | None:
        """The innermost function around a node."""
        return self.layout.function(node)

    def assigned_name(self, value: cst.CSTNode) -> str | None:
        """`name` in `name = value`."""
        return self.layout.assigned_name(value)

    def calls(self, node: cst.CSTNode) -> Iterator[cst.Call]:
        """The calls within a node, nested ones included."""
        return self.layout.calls(node)

    def has_star(self, call: cst.Call) -> bool:
        """Whether the call has a `*` or `**` argument, and so more than those one can read."""
        return self.layout.has_star(call)

    def keyword(self, call: cst.Call, name: str) -> cst.Arg | None:
        """The argument given by keyword."""
        return self.layout.keyword(call, name)

    def argument(self, call: cst.Call, name: str, position: int | None = None) -> cst.Arg | None:
        """The argument for a parameter, by keyword or by position, where it certainly is one."""
        return self.layout.argument(call, name, position)

    def text(self, node: cst.CSTNode, parentheses: bool = True) -> str:
        """A node as it is written, with its own parentheses or without."""
        return self.layout.text(node, parentheses)

    def brief(self, node: cst.CSTNode) -> str:
        """A node as it is written, on one line and not too long, for messages."""
        return self.layout.brief(node)

    def span(self, node: cst.CSTNode) -> Span:
        """Where a node stands, in characters; of a compound statement, its first line."""
        return self.layout.span(node)

    # ------------------------------------------------------------------------------ findings

    def reasons(self, *evidence: Reason | None) -> tuple[Related, ...]:
        """The places of some evidence to show, as far as there is any, each once."""
        found = (evidence_of(each) for each in evidence)
        return tuple(self.related(each) for each in dict.fromkeys(found) if each is not None)

    def related(self, evidence: Evidence) -> Related:
        """A reason as a place to show."""
        place = evidence.place
        is_here = place.path == self.path
        span = span_in(self.layout.content, place) if is_here else self._spans(place)
        related = Related(place.path, span, evidence.text, evidence.kind.leads)
        if evidence.kind in PRESUMED:
            self._presumed[related] = PRESUMED[evidence.kind].format(place.path)
        return related

    def related_node(self, node: cst.CSTNode, message: str) -> Related:
        """A node of this file as a place to show."""
        return Related(self.path, self.layout.span(node), message)

    def finding(
        self,
        rule: Rule,
        node: cst.CSTNode,
        message: str,
        fix: Fix | None = None,
        related: Iterable[Related] = (),
        group: Group | None = None,
        anywhere: bool = False,
    ) -> Finding:
        """A place where the claim of a rule holds; `anywhere`: within a region and outside of one.

        A fix with an edit that could not be made is left out; one of a finding that rests on a
        presumed region, which says so, is not safe. The comments in what it replaces are kept.
        Within an f-string, edits get the quotes that are left, if there are any.
        Raises ValueError for a group, or a condition of the fix, that the rule does not declare.
        """
        if group is not None and group not in rule.groups:
            raise ValueError(f"{rule.code} does not declare the group {group}")
        places = [*related]
        around = self.region(node) if rule.presumes is not None and not anywhere else None
        if around is not None and around.presumed:
            places += self.reasons(around.evidence)
        condition = next((self._presumed[each] for each in places if each in self._presumed), None)
        if condition is not None:
            message = f"{CONDITION}{condition}: {message}"
        fix = self._offered(fix, rule, node, condition is not None)
        if fix is not None and fix.newer is not None:
            newer = self._offered(fix.newer, rule, node, condition is not None)
            fix = replace(fix, newer=newer)
        group = group or rule.group
        return Finding(
            code=rule.code,
            name=rule.name,
            group=group,
            path=self.path,
            span=self.layout.span(node),
            message=message,
            scope=self.layout.scope(node),
            fix=fix,
            related=tuple(dict.fromkeys(places)),
            help=rule.help,
            cost=cost_of(rule, group, self.heat(node)),
            url=rule.url,
        )

    def _offered(
        self, fix: Fix | None, rule: Rule, node: cst.CSTNode, presumes: bool
    ) -> Fix | None:
        """A fix as `finding` offers it, if it does."""
        if fix is None or REFUSED in fix.edits:
            return None
        if not set(fix.proven) <= set(rule.safe_if):
            raise ValueError(f"{rule.code} does not declare {set(fix.proven) - set(rule.safe_if)}")
        requoted = self._requoted(fix, node)
        if requoted is None:
            return None
        kept = replace(requoted, edits=self._comments.kept(requoted.edits))
        return kept.demoted() if presumes and kept.safety is Safety.SAFE else kept

    def presumes(self, finding: Finding) -> bool:
        """Whether a finding rests on a region that is presumed."""
        return any(each in self._presumed for each in finding.related)

    def never_runs(self, finding: Finding, node: cst.CSTNode) -> bool:
        """Whether a finding claims what comes of running a place that no call is seen to run."""
        return finding.group is Group.CORRECTNESS and self.ask(NeverGiven, node) is not None

    def _requoted(self, fix: Fix, node: cst.CSTNode) -> Fix | None:
        """A fix with quotes that do not end the f-strings around a node, which is how Python read
        them before 3.12; None where all quotes are taken."""
        around = [each for each in self.ancestors(node) if isinstance(each, cst.FormattedString)]
        taken = [each.end for each in around if len(each.end) == 1]
        outermost = self.layout.offsets(around[-1]) if taken else None
        if outermost is None:
            return fix
        edits: list[Edit] = []
        for edit in fix.edits:
            is_inside = outermost[0] < edit.start and edit.end < outermost[1]
            ends = [quote for quote in taken if is_inside and quote in edit.text]
            free = [quote for quote in QUOTES if quote not in taken and quote not in edit.text]
            if ends and not free:
                return None
            text = edit.text
            for quote in ends:
                text = text.replace(quote, free[0])
            edits.append(replace(edit, text=text))
        return replace(fix, edits=tuple(edits))


def cost_of(rule: Rule, group: Group, heat: Heat | None) -> Cost:
    """How often a mistake is paid for: by the rule if it says so, else as often as the place runs.

    Args:
        rule: the rule that has found it.
        group: that of the finding. Deprecated names cost nothing while they work.
        heat: that of its place.
    """
    if group is Group.CORRECTNESS:
        return Cost.RUN
    if group is Group.MIGRATION:
        return Cost.ONCE
    if rule.cost is not None:
        return rule.cost
    if heat is None:
        return Cost.ONCE
    return Cost.STEP if heat.temperature == TRAINING else Cost.EVALUATION
