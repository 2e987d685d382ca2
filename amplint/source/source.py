"""`Source`: one file as a rule sees it.

A rule is handed LibCST nodes and asks about them here. How the code is written is answered by
`layout` and `variables`, what it means by the facts of `amplint.analyses`; `edits`
and `imports` build changes of the text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import libcst as cst

from amplint.analyses.hotness import TRAINING, Hotness
from amplint.facts.fact import Answer_co, NodeFact, PlaceFact
from amplint.facts.inference_results import Regions
from amplint.facts.program import FileView
from amplint.findings.declaration import Declaration
from amplint.findings.finding import Cost, Finding, Fix, Group, Related, RuleName, Safety
from amplint.project.modes import RUNS_SO, Mode
from amplint.source.edits.code_edits import REFUSED, Edits, within_f_strings
from amplint.source.edits.comments import Comments
from amplint.source.edits.imports import Imports
from amplint.source.navigation import Layout
from amplint.source.scopes import Scopes
from amplint.source.variables import Variables
from amplint.util.positions import Place, Span
from amplint.util.text import code_says, span_in
from amplint.values.atoms import Evidence, Heat, Reason, Shows, evidence_of

Spans = Callable[[Place], Span]
# The condition in a message that presumes something, by the kind of evidence for it. One that is of
# a parameter says more than that of the region around.
CONDITIONS = {
    Shows.ACTIVATION: "if {evidence.text}",
    Shows.SIGN: "if this runs under autocast, as `{evidence.place.path}` suggests",
    Shows.SETTINGS: RUNS_SO,
}


class Source:
    """One file: what a rule may ask about its nodes, and how it may change the text.

    Args:
        layout: the file's nodes, of the tree that `facts` knows.
        facts: what is known of that tree's nodes.
        spans: returns where a place in another file stands in its text.

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
        self._matches: dict[re.Pattern[str], bool] = {}
        self._presumed: dict[Related, Evidence] = {}  # why a finding presumes something
        self._spans = spans

    # ------------------------------------------------------------------------------ facts

    def ask(self, kind: type[NodeFact[Answer_co]], node: cst.CSTNode) -> Answer_co | None:
        """The answer of a fact about a node; None where nothing is known of it."""
        thing = (
            self.layout.ast_around(node)
            if issubclass(kind, PlaceFact)
            else self.layout.ast_of(node)
        )
        return self._facts.ask(kind, thing) if isinstance(thing, kind.about) else None

    def says(self, pattern: re.Pattern[str]) -> bool:
        """Whether a pattern is found in the code of the file; it is looked for once."""
        if pattern not in self._matches:
            self._matches[pattern] = code_says(self.layout.content.text, "", pattern)
        return self._matches[pattern]

    @property
    def mode(self) -> Mode | None:
        """The mode that the settings assume of callers out of sight, if they do."""
        return self._facts.mode

    def class_around(self, node: cst.CSTNode) -> ast.ClassDef | None:
        """The innermost class around a node."""
        thing = self.layout.ast_around(node)
        return self._scopes.class_around(thing) if thing is not None else None

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
        places = (evidence_of(each) for each in evidence)
        return tuple(self.related(each) for each in dict.fromkeys(places) if each is not None)

    def related(self, evidence: Evidence) -> Related:
        """A reason as a place to show."""
        place = evidence.place
        is_here = place.path == self.path
        span = span_in(self.layout.content, place) if is_here else self._spans(place)
        related = Related(place.path, span, evidence.text, evidence.kind.leads)
        if evidence.kind in CONDITIONS:
            self._presumed[related] = evidence
        return related

    def related_node(self, node: cst.CSTNode, message: str) -> Related:
        """A node of this file as a place to show."""
        return Related(self.path, self.layout.span(node), message)

    def finding(
        self,
        rule: Declaration,
        node: cst.CSTNode,
        message: str,
        fix: Fix | None = None,
        related: Iterable[Related] = (),
        group: Group | None = None,
        anywhere: bool = False,
        former: str = "",
    ) -> Finding:
        """A place where the claim of a rule holds; `anywhere`: within a region and outside of one;
        `former`: the rule that reported it before, where this one was cut out of several.

        A fix with an edit that could not be made is left out; one of a finding that rests on a
        presumed region, which says so, is not safe. The comments in what it replaces are kept.
        Within an f-string, edits get the quotes that are left, if there are any.
        Raises ValueError for a group, a former rule, or a condition of the fix, that the rule does
        not declare.
        """
        if group is not None and group not in rule.groups:
            raise ValueError(f"{rule.code} does not declare the group {group}")
        places = [*related]
        around = self.ask(Regions, node) if rule.presumes is not None and not anywhere else None
        if around is not None and around.presumed:
            places += self.reasons(around.evidence)
        condition = self._condition(places)
        if condition:
            message = f"{condition}: {message}"
        fix = self._offered(fix, rule, node, bool(condition))
        if fix is not None and fix.newer is not None:
            newer = self._offered(fix.newer, rule, node, bool(condition))
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
            cost=cost_of(rule, group, self.ask(Hotness, node)),
            url=rule.url,
            presumed=bool(condition),
            former=former_rule(rule, former),
        )

    def _condition(self, places: Iterable[Related]) -> str:
        """The condition that a finding with these places rests on; "" where there is none."""
        presumed = [self._presumed[each] for each in places if each in self._presumed]
        texts = (
            text.format(evidence=evidence)
            for kind, text in CONDITIONS.items()
            for evidence in presumed
            if evidence.kind is kind
        )
        return next(texts, "")

    def _offered(
        self, fix: Fix | None, rule: Declaration, node: cst.CSTNode, presumes: bool
    ) -> Fix | None:
        """A fix as `finding` offers it, if it does."""
        if fix is None or REFUSED in fix.edits:
            return None
        if not set(fix.proven) <= set(rule.safe_if):
            raise ValueError(f"{rule.code} does not declare {set(fix.proven) - set(rule.safe_if)}")
        around = [each for each in self.ancestors(node) if isinstance(each, cst.FormattedString)]
        edits = within_f_strings(self.layout, fix.edits, around)
        if edits is None:
            return None
        offer = replace(fix, edits=self._comments.preserve(edits))
        return offer.demoted() if presumes and offer.safety is Safety.SAFE else offer


def former_rule(rule: Declaration, code: str) -> RuleName | None:
    """The rule that reported a mistake before this one was cut out of it: by its code, or without
    one the only rule that it can be. Raises ValueError for another one."""
    if not code and len(rule.cut_from) <= 1:
        return next(iter(rule.cut_from), None)
    for former in rule.cut_from:
        if former.code == code:
            return former
    raise ValueError(f"{rule.code} was not cut from {code or 'one rule alone'}")


def cost_of(rule: Declaration, group: Group, heat: Heat | None) -> Cost:
    """How often a mistake is paid for: by the rule if it says so, else as often as the place runs.

    Args:
        rule: the rule that has found it.
        group: that of the finding. Deprecated names cost nothing while they work.
        heat: the hotness of its place.
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
