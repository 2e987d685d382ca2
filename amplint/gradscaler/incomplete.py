"""Scalers of which a call is missing everywhere: `update()` is called nowhere in the project.

The paths through a function (`checker`) tell what is missing between two calls that both stand in
sight. Where a training step is cut into methods that a library or an unknown trainer calls, nothing
shows in which order they run; but a scaler that scales and steps, and is updated by nobody, is
wrong in any order.

It has to be certain that nobody else has the scaler. It is kept in a variable of a function, with
those of the functions inside it, or in a field of a class; all that is done with it, in the whole
project, is to call its own methods, to test it, and to store a new one. A scaler that is passed on,
returned or put into a container may be updated out of sight.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from amplint.core.values import Instance, Object, Value
from amplint.core.violations import Violation
from amplint.gradscaler.checkpoints import is_harmless, symbols
from amplint.gradscaler.event_index import EventIndex
from amplint.gradscaler.events import Kind, Role, TrainingEvent, role, surely_scaler
from amplint.inference import Inference, SiteId, State
from amplint.inference.store import TEST_PATH
from amplint.ir import ops
from amplint.ir.model import Node

# What gives another name to the same object.
ALIASES = frozenset({ops.PHI, ops.NARROW, ops.BOOL})
# What looks at an object, and keeps nothing of it.
LOOKS = frozenset({ops.COMPARE, ops.UNARY, ops.ASSERT, ops.FSTRING, ops.ANNOTATION})

# What steps, where nothing but its name is known.
OPTIMIZER = re.compile(r"(^|_)opt(im|imizers?)?(_|$)", re.IGNORECASE)


class Variable(NamedTuple):
    """A variable that holds a scaler.

    Args:
        scope: the function that it is local to, or the class of which it is a field.
        name: of the field; empty for a variable of a function.
        number: of a local variable, the node that makes the scaler.
    """

    scope: str
    name: str
    number: int = -1


class Incomplete(NamedTuple):
    """A call that is wrong since another one is missing, and a call of the scaler that shows it."""

    violation: Violation
    here: SiteId
    there: SiteId


class Incompletes:
    """The scalers of a project that lack a call."""

    def __init__(self, inference: Inference, index: EventIndex) -> None:
        self._inference = inference
        self._index = index

    def find(self) -> Iterator[Incomplete]:
        scalers: dict[Variable, None] = {}
        for function in sorted(self._index.scaling):
            state = self._inference.states[function]
            if TEST_PATH.search(self._inference.functions[function].path):
                continue
            for number, found in self._index.of[function].items():
                if surely_scaler(self._inference, state, number, found):
                    variable = self._variable(function, state, found.object)
                    if variable is not None:
                        scalers[variable] = None
        for variable in scalers:
            uses = self._uses(variable)
            if uses is not None:
                yield from self._missing(uses)

    # -- the variable of a scaler

    def _variable(self, function: str, state: State, number: int) -> Variable | None:
        """The variable that a node reads; None where it may be a parameter, or anything else."""
        node = state.graph.nodes[number]
        while node.op in ALIASES:
            inner = [
                operand
                for operand in node.operands
                if any(is_scaler(atom) for atom in state.values[operand])
            ]
            if len(inner) != 1 or inner[0] >= number:
                return None
            number, node = inner[0], state.graph.nodes[inner[0]]
        if node.op == ops.ATTR:
            owners = self._classes(state.values[node.operands[0]])
            return Variable(min(owners), node.data) if owners else None
        if node.op == ops.CALL and is_made(state, number):
            return Variable(function, "", number)
        if node.op == ops.NAME:
            return self._around(function, node.data)
        return None

    def _around(self, function: str, name: str) -> Variable | None:
        """The variable of a function around this one, where a name is bound once, to a scaler."""
        scope = self._inference.functions[function].parent
        while scope is not None:
            facts = self._inference.functions[scope]
            bound = self._inference.files[facts.path].graph(scope).bindings.get(name)
            if bound is not None and facts.kind != "class":
                state = self._inference.states.get(scope)
                made = [n for n in bound if state is not None and is_made(state, n)]
                return Variable(scope, "", made[0]) if len(bound) == len(made) == 1 else None
            scope = facts.parent
        return None

    def _classes(self, value: Value) -> frozenset[str]:
        """The classes of objects of the project; none where there may be others."""
        classes = frozenset(atom.cls for atom in value if isinstance(atom, Instance))
        return classes if len(classes) == len(value) else frozenset()

    # -- all that is done with it

    def _uses(self, variable: Variable) -> dict[str, list[SiteId]] | None:
        """By method, the calls of it; None where anybody else may have the scaler."""
        uses: dict[str, list[SiteId]] = {}
        reads = self._field(variable) if variable.name else self._local(variable)
        for function, number in reads:
            if number < 0 or not self._follow(function, number, uses):
                return None
        return uses

    def _field(self, variable: Variable) -> Iterator[SiteId]:
        """The reads of a field; -1 for what may give it away."""
        family = {
            *self._inference.mro(variable.scope),
            *self._inference.subclasses(variable.scope),
        }
        if self._is_handed_on(family):
            yield variable.scope, -1
            return
        for function in self._inference.mentioning(variable.name):
            state = self._inference.states.get(function)
            if state is None:
                yield function, -1
                return
            for number, node in enumerate(state.graph.nodes):
                if node.op not in (ops.ATTR, ops.STORE) or node.data != variable.name:
                    if is_asked_by_name(node, variable.name, state):
                        yield function, -1
                    continue
                classes = self._classes(state.values[node.operands[0]])
                if classes and classes.isdisjoint(family):
                    continue
                if node.op == ops.ATTR:
                    yield function, number
                elif not self._is_new(state, node.operands[1]):
                    yield function, -1

    def _is_handed_on(self, family: set[str]) -> bool:
        """Whether an object that has the field is given to a function that nobody knows."""
        for function, facts in self._inference.functions.items():
            state = self._inference.states.get(function)
            if facts.cls not in family or state is None:
                continue
            for number, node in enumerate(state.graph.nodes):
                if node.op != ops.CALL or self._inference.edges.get((function, number)):
                    continue
                callee = state.values[node.operands[0]]
                if callee and all(is_harmless(atom) for atom in callee):
                    continue
                for operand in node.operands[1:]:
                    if not self._classes(state.values[operand]).isdisjoint(family):
                        return True
        return False

    def _is_new(self, state: State, number: int) -> bool:
        """Whether a value is a new scaler, or None: nobody else has it."""
        if not all(is_scaler_or_none(atom) for atom in state.values[number]):
            return False
        waiting, seen = [number], set()
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            node = state.graph.nodes[each]
            if node.op in ALIASES:
                waiting += node.operands
            elif node.op != ops.CONST and not is_made(state, each):
                return False
        return True

    def _local(self, variable: Variable) -> Iterator[SiteId]:
        """The node that makes the scaler, and the reads of its names by functions inside."""
        function = variable.scope
        state = self._inference.states[function]
        yield function, variable.number
        aliases = self._aliases(state, variable.number)
        names = {
            name for name, bound in state.graph.bindings.items() if not aliases.isdisjoint(bound)
        }
        if self._inference.functions[function].kind == "module" and names:
            yield function, -1
        for inner in self._inside(function):
            facts = self._inference.functions[inner]
            graph = self._inference.files[facts.path].graph(inner)
            if not names.isdisjoint(graph.bindings):
                yield inner, -1  # a variable of its own, or `nonlocal`
            for number, node in enumerate(graph.nodes):
                if node.op == ops.NAME and node.data in names:
                    yield inner, number if inner in self._inference.states else -1

    def _inside(self, function: str) -> Iterator[str]:
        """The functions inside a function, and those inside these."""
        for each in self._inference.functions:
            scope = self._inference.functions[each].parent
            while scope is not None and scope != function:
                scope = self._inference.functions[scope].parent
            if scope == function:
                yield each

    def _aliases(self, state: State, number: int) -> set[int]:
        found, waiting = set[int](), [number]
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                nodes = state.graph.nodes
                waiting += [user for user in state.users[each] if nodes[user].op in ALIASES]
        return found

    def _follow(self, function: str, number: int, uses: dict[str, list[SiteId]]) -> bool:
        """Add the methods that are called on a node; False where it is given away."""
        state = self._inference.states[function]
        nodes = state.graph.nodes
        for alias in self._aliases(state, number):
            for user in state.users[alias]:
                node = nodes[user]
                if node.op == ops.ATTR:
                    calls = [n for n in state.users[user] if nodes[n].op == ops.CALL]
                    uses.setdefault(node.data, []).extend((function, n) for n in calls)
                elif node.op == ops.STORE:
                    if node.operands[1] == alias and not is_made(state, alias):
                        return False
                elif node.op == ops.CALL:
                    callee = state.values[node.operands[0]]
                    if not callee or not all(is_harmless(atom) for atom in callee):
                        return False
                elif node.op not in ALIASES | LOOKS:
                    return False
        return True

    # -- what is missing

    def _missing(self, uses: dict[str, list[SiteId]]) -> Iterator[Incomplete]:
        """The calls that cannot be right without another one, which nobody makes."""
        scaling, stepping, updating = (uses.get(name) for name in ("scale", "step", "update"))
        if scaling and stepping and not updating:
            for site in stepping:
                yield Incomplete(Violation.MISSING_UPDATE, site, site)
        if scaling and updating and not stepping:
            unscaled = uses.get("unscale_")
            for site in self._beside(updating, Kind.STEP):
                if unscaled:
                    yield Incomplete(Violation.STEP_BYPASSES_CHECK, site, unscaled[0])
                else:
                    yield Incomplete(Violation.STEP_BYPASSES_SCALER, site, scaling[0])
        if stepping and updating and not scaling:
            for site in self._beside(stepping, Kind.BACKWARD):
                yield Incomplete(Violation.BACKWARD_BYPASSES_SCALER, site, stepping[0])

    def _beside(self, sites: list[SiteId], kind: Kind) -> Iterator[SiteId]:
        """The only plain step, or backward pass, of the functions that make these calls; or of the
        classes that these are methods of."""
        functions = {function for function, _ in sites}
        classes = {self._inference.functions[each].cls for each in functions} - {None}
        family = {
            *functions,
            *(f for f, facts in self._inference.functions.items() if facts.cls in classes),
        }
        for among in (functions, family):
            found = [
                (function, number)
                for function in sorted(among)
                for number, event in self._index.of.get(function, {}).items()
                if event.kind is kind and self._is_plain(function, event)
            ]
            if found:
                if len(found) == 1:
                    yield found[0]
                return

    def _is_plain(self, function: str, event: TrainingEvent) -> bool:
        """Whether the loss is not scaled, or what steps is an optimizer, by its value or name."""
        if event.argument >= 0 or event.kind is Kind.BACKWARD:
            return event.argument < 0
        state = self._inference.states[function]
        owner = role(state.values[event.object], self._inference)
        name = str(state.graph.nodes[event.object].data)
        return owner is Role.OPTIMIZER or (
            owner is Role.UNKNOWN and OPTIMIZER.search(name) is not None
        )


def is_scaler(atom: object) -> bool:
    return isinstance(atom, Object) and atom.kind == "scaler"


def is_scaler_or_none(atom: object) -> bool:
    return is_scaler(atom) or getattr(atom, "kind", "") == "none"


def is_made(state: State, number: int) -> bool:
    """Whether a node is the call that makes a scaler which is not switched off."""
    node = state.graph.nodes[number]
    return (
        node.op == ops.CALL
        and bool(symbols(state.values[node.operands[0]]))
        and any(
            isinstance(atom, Object) and atom.kind == "scaler" and atom.enabled is not False
            for atom in state.values[number]
        )
    )


def is_asked_by_name(node: Node, name: str, state: State) -> bool:
    """Ex) getattr(engine, "scaler")"""
    if node.op != ops.CALL:
        return False
    callee = state.graph.nodes[node.operands[0]]
    return (
        callee.op == ops.NAME
        and callee.data in ("getattr", "setattr", "vars", "attrgetter")
        and any(
            state.graph.nodes[operand].op == ops.CONST and state.graph.nodes[operand].data == name
            for operand in node.operands[1:]
        )
    )
