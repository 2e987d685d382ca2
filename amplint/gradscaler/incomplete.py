"""Scalers of which a call is missing everywhere: `update()` is called nowhere in the project.

The paths through a function (`checker`) show what is missing between two calls that both stand in
sight. Where a training step is cut into methods that a library or an unknown trainer calls, nothing
shows in which order they run; but a scaler that scales and steps, and is updated by nobody, is
wrong in any order.

It has to be certain that nobody else has the scaler. It is kept in a variable of a function, with
those of the functions inside it, or in a field of a class; all that is done with it, in the whole
project, is to call its own methods, to test it, and to store a new one. A scaler that is passed on,
returned or put into a container may be updated out of sight, and so may one whose owner is handed
to a function, or derives from a class, that nobody knows. Such an owner is believed where one
function makes a whole training step with the scaler: nobody leaves the rest of it to a stranger.
Words count before graphs: a function that speaks of the scaler and of the missing method is taken
to call it (an alias, a lambda, `getattr`), unless the graphs show that each place where it names
the method asks something else for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from amplint.claim.violations import Violation
from amplint.gradscaler.checkpoints import is_harmless, symbols
from amplint.gradscaler.event_index import EventIndex, calls
from amplint.gradscaler.events import (
    Role,
    TrainingEvent,
    TrainingEventKind,
    role,
    surely_scaler,
    unknown_event,
)
from amplint.inference import Inference, SiteId, State
from amplint.ir import ops
from amplint.ir.model import LOOPS, Graph
from amplint.ir.ssa import where
from amplint.knowledge.vocabulary import INFINITIES, OPTIMIZER, TEST_PATH
from amplint.util.walks import reachable
from amplint.values.atoms import BOTTOM, Instance, Module, Object, Symbol, Value

# What makes another name for the same object.
ALIASES = frozenset({ops.PHI, ops.NARROW, ops.BOOL})
# What looks at an object, and keeps nothing of it.
LOOKS = frozenset({ops.COMPARE, ops.UNARY, ops.ASSERT, ops.FSTRING, ops.ANNOTATION})
# Bases of libraries that do nothing with the fields of what derives from them.
PLAIN_BASES = frozenset(
    {"torch.nn.Module", "builtins.object", "abc.ABC", "typing.Protocol", "typing.Generic"}
)


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


Calls = dict[str, list[SiteId]]  # of a scaler, by method


class Incompletes:
    """The scalers of a project that lack a call."""

    def __init__(self, inference: Inference, index: EventIndex) -> None:
        self._inference = inference
        self._index = index
        self._found_fields: dict[str, dict[str, list[SiteId]]] = {}

    def find(self) -> Iterator[Incomplete]:
        if len(self._inference.files) > len(self._inference.files.own):
            return  # what other parts of the project do with it is not known
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
            calls = self._calls(variable)
            if calls is not None:
                yield from self._missing(variable, calls)

    # -- the variable of a scaler

    def _variable(self, function: str, state: State, number: int) -> Variable | None:
        """The variable that a node reads; None where it may be a parameter, or anything else."""
        nodes = state.graph.nodes

        def sources(number: int) -> list[int]:  # a loop hands on what came into it, too
            operands = nodes[number].operands if nodes[number].op in ALIASES else ()
            return [n for n in operands if any(is_scaler(atom) for atom in state.values[n])]

        origins = [n for n in reachable([number], sources) if nodes[n].op not in ALIASES]
        if not origins or (len(origins) > 1 and not all(is_made(state, n) for n in origins)):
            return None
        number, node = origins[0], nodes[origins[0]]
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
            bound = self._graph(scope).bindings.get(name)
            if bound is not None and facts.kind != "class":
                state = self._inference.states.get(scope)
                made = [n for n in bound if state is not None and is_made(state, n)]
                return Variable(scope, "", made[0]) if len(bound) == len(made) == 1 else None
            scope = facts.parent
        return None

    def _graph(self, function: str) -> Graph:
        return self._inference.files[self._inference.functions[function].path].graph(function)

    def _classes(self, value: Value) -> frozenset[str]:
        """The classes of objects of the project; none where there may be others."""
        classes = frozenset(atom.cls for atom in value if isinstance(atom, Instance))
        return classes if len(classes) == len(value) else frozenset()

    # -- all that is done with it

    def _calls(self, variable: Variable) -> Calls | None:
        """The calls of its methods; None where the scaler is given to anybody else."""
        if variable.name and self._is_unfinished(variable.scope):
            return None
        calls: Calls = {}
        reads = self._field(variable) if variable.name else self._local(variable)
        for function, number in reads:
            if number < 0 or not self._follow(function, number, calls):
                return None
        return calls

    def _is_shared(self, variable: Variable) -> bool:
        """Whether code out of sight may work on the field that holds a scaler, or has the scaler
        that it was given."""
        if not variable.name:
            return False
        # An object that is handed on as one of a base class is not seen to be one of this class.
        own = {variable.scope, *self._inference.hierarchy.subclasses(variable.scope)}
        return (
            any(
                self._inference.hierarchy.library_bases(each) - PLAIN_BASES
                for each in self._family(variable.scope)
            )
            or not own.isdisjoint(self._handed_on)
            or any(
                not is_new(self._inference.states[function], node.second)
                for function, number in self._sites(variable)
                if (node := self._inference.states[function].graph.nodes[number]).op == ops.STORE
            )
        )

    def _field(self, variable: Variable) -> Iterator[SiteId]:
        """The reads of a field."""
        for function, number in self._sites(variable):
            if self._inference.states[function].graph.nodes[number].op == ops.ATTR:
                yield function, number

    def _sites(self, variable: Variable) -> Iterator[SiteId]:
        """Where a field is read or stored, as far as it is known whose it is."""
        for owner in (*sorted(self._family(variable.scope)), ""):
            yield from self._fields(variable.name).get(owner, ())

    def _family(self, cls: str) -> frozenset[str]:
        """A class, those that it derives from, those that derive from it, and their bases."""
        found = {cls, *self._inference.hierarchy.mro(cls)}
        for other in self._inference.hierarchy.subclasses(cls):
            found.update((other, *self._inference.hierarchy.mro(other)))
        return frozenset(found)

    def _is_unfinished(self, cls: str) -> bool:
        """Whether a class has a method that somebody else is to write."""
        order = [cls, *self._inference.hierarchy.mro(cls)]
        written = {
            name
            for each in order
            for name, ids in self._inference.classes[each].methods.items()
            if not all("abstractmethod" in self._inference.functions[i].decorated for i in ids)
        }
        return any(not set(self._inference.classes[each].methods) <= written for each in order)

    def _fields(self, name: str) -> Mapping[str, Sequence[SiteId]]:
        """Where fields of a name are read and stored, by class; no class where it is not known."""
        if name not in self._found_fields:
            found = self._found_fields[name] = {}
            paths = frozenset(self._inference.files.holding(name))
            for function, state in self._inference.states.items():  # sorted, once solved
                facts = self._inference.functions[function]
                # Of a module, words are without the defaults of its functions.
                if facts.path not in paths or not (facts.kind == "module" or name in facts.words):
                    continue
                for number, node in enumerate(state.graph.nodes):
                    if node.data != name or node.op not in (ops.ATTR, ops.STORE):
                        continue
                    value = state.values[node.operands[0]]
                    if value and all(isinstance(atom, Symbol | Module) for atom in value):
                        continue  # `torch.amp`
                    for owner in self._classes(value) or ("",):
                        found.setdefault(owner, []).append((function, number))
        return self._found_fields[name]

    @cached_property
    def _methods(self) -> dict[str, list[str]]:
        """By class, its functions, in their order."""
        found: dict[str, list[str]] = {}
        for function, facts in sorted(self._inference.functions.items()):
            if facts.cls is not None and facts.kind != "class":
                found.setdefault(facts.cls, []).append(function)
        return found

    @cached_property
    def _handed_on(self) -> frozenset[str]:
        """The classes of objects that are given to functions that nobody knows."""
        given: set[Value] = set()
        harmless: dict[Value, bool] = {BOTTOM: False}  # many calls are of the same
        for function, state in self._inference.states.items():
            for number, node in enumerate(state.graph.nodes):
                if node.op != ops.CALL or self._inference.calls.edges.get((function, number)):
                    continue
                callee = state.values[node.operands[0]]
                if callee not in harmless:
                    harmless[callee] = all(map(is_harmless, callee))
                if not harmless[callee]:
                    given.update(state.values[operand] for operand in node.arguments)
        return frozenset(a.cls for value in given for a in value if isinstance(a, Instance))

    def _local(self, variable: Variable) -> Iterator[SiteId]:
        """The node that makes the scaler, and the reads of its names by functions inside."""
        function = variable.scope
        state = self._inference.states[function]
        yield function, variable.number
        aliases = aliases_of(state, variable.number)
        for number in range(len(state.graph.nodes)):
            if number != variable.number and is_made(state, number):
                others = aliases_of(state, number)  # chosen between by a test
                if not others.isdisjoint(aliases):
                    yield function, number
                    aliases = aliases | others
        names = {
            name for name, bound in state.graph.bindings.items() if not aliases.isdisjoint(bound)
        }
        if self._inference.functions[function].kind == "module" and names:
            yield function, -1
        for inner in self._inside(function):
            graph = self._graph(inner)
            if not names.isdisjoint(graph.bindings):
                yield inner, -1  # a variable of its own, or `nonlocal`
            for number, node in enumerate(graph.nodes):
                if node.op == ops.NAME and node.data in names:
                    yield inner, number if inner in self._inference.states else -1

    def _inside(self, function: str) -> Iterator[str]:
        """The functions inside a function, and those inside these."""
        inside = reachable([function], lambda each: self._defined_in.get(each, ()))
        return (each for each in inside if each != function)

    @cached_property
    def _defined_in(self) -> dict[str, list[str]]:
        """By function, class body or module, what is defined right in it, in its order."""
        found: dict[str, list[str]] = {}
        for function, facts in sorted(self._inference.functions.items()):
            if facts.parent is not None:
                found.setdefault(facts.parent, []).append(function)
        return found

    def _follow(self, function: str, number: int, calls: Calls) -> bool:
        """Add the methods that are called on a node; False where it is given away."""
        state = self._inference.states[function]
        nodes = state.graph.nodes
        for alias in aliases_of(state, number):
            for user in state.users[alias]:
                node = nodes[user]
                if node.op == ops.ATTR:
                    for call in state.users[user]:
                        if nodes[call].op != ops.CALL or nodes[call].operands[0] != user:
                            return False  # a method that somebody may call
                        calls.setdefault(node.data, []).append((function, call))
                elif node.op == ops.STORE:
                    if node.second == alias and not is_made(state, alias):
                        return False
                elif node.op == ops.CALL:
                    callee = symbols(state.values[node.operands[0]])
                    if not callee or not callee <= ASKING:
                        return False
                elif node.op not in ALIASES | LOOKS:
                    return False
        return True

    # -- what is missing

    def _missing(self, variable: Variable, calls: Calls) -> Iterator[Incomplete]:
        """The calls that cannot be right without another one, which nobody makes.

        Whether others share the scaler is asked last, for all calls of the project answer it.
        """
        scaling, stepping, updating = (calls.get(m, []) for m in ("scale", "step", "update"))
        for site in stepping:
            if (
                scaling
                and self._is_repeated(variable, site)
                and not self._is_completed(variable, "update", updating, site)
                and self._is_all_seen(variable, site, scaling)
            ):
                yield Incomplete(Violation.MISSING_UPDATE, site, site)
        unscaling = calls.get("unscale_", [])
        for site in self._beside(updating, TrainingEventKind.STEP) if scaling else ():
            if self._is_completed(
                variable, "step", stepping, site, updating[0][0]
            ) or not self._is_all_seen(variable, site, scaling):
                continue
            if not unscaling:
                yield Incomplete(Violation.STEP_BYPASSES_SCALER, site, scaling[0])
            for each in unscaling:
                if self._is_always_after(site, each):
                    yield Incomplete(Violation.STEP_BYPASSES_CHECK, site, each)
        if (
            stepping
            and updating
            and not scaling
            and not self._speaks_of(variable, "scale")
            and not self._is_shared(variable)
        ):
            for site in self._beside(stepping, TrainingEventKind.BACKWARD):
                yield Incomplete(Violation.BACKWARD_BYPASSES_SCALER, site, stepping[0])

    def _is_all_seen(self, variable: Variable, site: SiteId, scaling: list[SiteId]) -> bool:
        """Whether nobody out of sight can make the rest of a step: of a scaler that others share, a
        function counts that makes all of it."""
        return self._is_whole_step(site, scaling) or not self._is_shared(variable)

    def _is_completed(
        self, variable: Variable, method: str, sites: list[SiteId], missing: SiteId, *but: str
    ) -> bool:
        """Whether anybody calls a method of the scaler beside a function that does not.

        The same method of another class of the family runs in place of that function, and not
        beside it.

        Args:
            but: see `_speaks_of`.
        """
        instead = self._instead(missing[0])
        return any(function not in instead for function, _ in sites) or self._speaks_of(
            variable, method, *instead, *but
        )

    def _instead(self, function: str) -> frozenset[str]:
        """The methods that a method overrides, or that override it, and that have no part in each
        other."""
        facts = self._inference.functions[function]
        cls = facts.cls
        if cls is None or facts.kind == "class":
            return frozenset()
        hierarchy = self._inference.hierarchy
        bases, derived = hierarchy.mro(cls), hierarchy.subclasses(cls)
        others = {
            method
            for each in {*bases, *derived} - {cls}
            for method in self._inference.classes[each].methods.get(facts.name, ())
        }
        callers = self._index.callers
        return frozenset(
            other
            for other in others
            if function not in callers(other) and other not in callers(function)
        )

    def _speaks_of(self, variable: Variable, method: str, *but: str) -> bool:
        """Whether a function that may have the scaler has the name of a method among its words.

        Args:
            but: functions of which it is known that they do not call the method of this scaler.
        """
        if not variable.name:
            inside = (variable.scope, *self._inside(variable.scope))
            return any(
                method in self._inference.functions[each].words
                and not self._asks_others(each, method)
                for each in inside
                if each not in but
            )
        family = self._family(variable.scope)
        own = {f for cls in family for f in self._methods.get(cls, ())}
        # What reads a field of that name of another class alone means that one.
        others = {
            function
            for owner, sites in self._fields(variable.name).items()
            if owner and owner not in family
            for function, _ in sites
        } - own
        # The words of a scope are those of what it defines, too.
        others |= {scope for method in own for scope in self._scopes(method)}
        return any(
            method in self._inference.functions[each].words
            for each in self._inference.texts.mentioning(variable.name)
            if each not in others
            and each not in but
            and self._reads_by_name(each, variable.name)
            and not self._asks_others(each, method, variable.name)
        )

    def _asks_others(self, function: str, method: str, field: str = "") -> bool:
        """Whether all places of a function that have the name of a method are attributes in graphs:
        then none of them is one of the scaler, all of whose attributes are known.

        Args:
            field: in which the scaler is kept; who asks for it by a string has it, too.
        """
        path = self._inference.functions[function].path
        scope = self._inference.files[path].parsed.scopes.get(function)
        if scope is None:
            return False
        followed = {
            node.location
            for each in (function, *self._inside(function))
            if each in self._inference.states
            for node in self._inference.states[each].graph.nodes
            if node.op == ops.ATTR and node.data == method
        }
        for node in ast.walk(scope):
            if isinstance(node, ast.Constant) and field and node.value == field:
                return False
            if method in named(node) and not (
                isinstance(node, ast.Attribute) and where(node) in followed
            ):
                return False
        return True

    def _reads_by_name(self, function: str, name: str) -> bool:
        """Whether the code of a function has a field or a string of that name, and not a variable
        alone."""
        facts = self._inference.functions[function]
        row, _, end_row, _ = facts.location
        text = "\n".join(self._inference.files[facts.path].uncommented[row - 1 : end_row])
        return re.search(rf"[.\"']{re.escape(name)}\b", text) is not None

    def _scopes(self, function: str) -> Iterator[str]:
        """The functions and the module around a method."""
        functions = self._inference.functions
        scope = functions[function].parent
        while scope is not None:
            if functions[scope].kind != "class":
                yield scope
            scope = functions[scope].parent

    def _is_always_after(self, step: SiteId, unscaling: SiteId) -> bool:
        """Whether a step follows `unscale_` in any case, whatever that has found."""
        function, number = step
        if function != unscaling[0] or number < unscaling[1]:
            return False
        training = (
            n
            for n, each in self._index.of[function].items()
            if each.kind is TrainingEventKind.BACKWARD
        )
        words = self._index.words_between(function, (*training, unscaling[1], number))
        if any(map(INFINITIES.search, words)):
            return False
        state = self._inference.states[function]
        nodes, blocks = state.graph.nodes, state.graph.blocks
        # Where the step stands beside a call of the scaler, a test of the scaler leaves out none.
        beside = any(
            each.kind is TrainingEventKind.UPDATE and nodes[other].block == nodes[number].block
            for other, each in self._index.of[function].items()
        )
        block = nodes[unscaling[1]].block
        while not state.graph.is_in(nodes[number].block, block):
            test = blocks[block].node
            if not (beside and blocks[block].kind in ("if", "else") and is_of_scaler(state, test)):
                return False
            block = blocks[block].parent
        return True

    def _is_whole_step(self, step: SiteId, scaling: Sequence[SiteId]) -> bool:
        """Whether the function of a step scales the loss, too, and runs no hook after the step."""
        function, number = step
        state = self._inference.states[function]
        return any(each == function for each, _ in scaling) and not any(
            unknown_event(state, call, set()) is not None
            for call in calls(state)
            if call > number and not self._inference.calls.edges.get((function, call))
        )

    def _is_repeated(self, variable: Variable, site: SiteId) -> bool:
        """Whether a step may be made several times with one scaler: in a loop of the function that
        has it, in a function inside, or where the scaler is a field."""
        function, number = site
        if variable.name or function != variable.scope:
            return True
        graph = self._inference.states[function].graph
        block = graph.nodes[number].block
        while block >= 0:
            if graph.blocks[block].kind in LOOPS:
                return True
            block = graph.blocks[block].parent
        return False

    def _beside(self, sites: list[SiteId], kind: TrainingEventKind) -> Iterator[SiteId]:
        """The only plain step, or backward pass, of the blocks that these calls stand in; of their
        functions; or of the classes that these are methods of."""
        functions = {function for function, _ in sites}
        classes = {self._inference.functions[each].cls or "" for each in functions}
        family = {*functions, *(f for cls in classes for f in self._methods.get(cls, ()))}
        plain = [
            (function, number)
            for function in sorted(family)
            for number, event in self._index.of.get(function, {}).items()
            if event.kind is kind and self._is_plain(function, event)
        ]
        blocks = {self._block(site) for site in sites}
        for found in (
            [site for site in plain if self._block(site) in blocks],
            [site for site in plain if site[0] in functions],
            plain,
        ):
            if found:
                if len(found) == 1:
                    yield found[0]
                return

    def _block(self, site: SiteId) -> SiteId:
        function, number = site
        return function, self._inference.states[function].graph.nodes[number].block

    def _is_plain(self, function: str, event: TrainingEvent) -> bool:
        """Whether the loss is not scaled, or what steps is an optimizer, by its value or name."""
        if event.argument >= 0 or event.kind is TrainingEventKind.BACKWARD:
            return event.argument < 0
        state = self._inference.states[function]
        owner = role(state.values[event.object], self._inference)
        name = str(state.graph.nodes[event.object].data)
        return owner is Role.OPTIMIZER or (
            owner is Role.UNKNOWN and OPTIMIZER.search(name) is not None
        )


def is_of_scaler(state: State, test: int) -> bool:
    """Whether a test asks whether there is a scaler: `if scaler`, `if scaler is not None`."""
    node = state.graph.nodes[test] if test >= 0 else None
    if node is not None and node.op in (ops.COMPARE, ops.UNARY):
        operands = [n for n in node.operands if state.graph.nodes[n].op != ops.CONST]
    else:
        operands = [test] if node is not None else []
    return len(operands) == 1 and any(map(is_scaler, state.values[operands[0]]))


# What is given a scaler, and keeps nothing of it.
ASKING = frozenset(f"builtins.{name}" for name in "isinstance print type id bool repr str".split())


def aliases_of(state: State, number: int) -> set[int]:
    """A node, and those that give its value other names."""
    found, waiting = set[int](), [number]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            nodes = state.graph.nodes
            waiting += [user for user in state.users[each] if nodes[user].op in ALIASES]
    return found


def named(node: ast.AST) -> Iterator[str]:
    """The names and texts that a node itself has."""
    for value in vars(node).values():
        texts = value if isinstance(value, list) else [value]
        yield from (text for text in texts if isinstance(text, str))


def is_scaler(atom: object) -> bool:
    return isinstance(atom, Object) and atom.kind == "scaler"


def is_scaler_or_none(atom: object) -> bool:
    return is_scaler(atom) or getattr(atom, "kind", "") == "none"


def is_new(state: State, number: int) -> bool:
    """Whether a value is a new scaler, or None: nobody else has it."""
    if not all(is_scaler_or_none(atom) for atom in state.values[number]):
        return False
    waiting, seen = [number], set[int]()
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
