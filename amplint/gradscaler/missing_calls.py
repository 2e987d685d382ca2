"""Scalers in fields of which a call is missing everywhere: `update()` is called nowhere, say.

The paths through a function (`checker`) show what is missing between two calls that both stand in
sight. Where a training step is cut into methods that a library or an unknown trainer calls, nothing
shows in which order they run; but a scaler that scales and steps, and is updated by nobody, is
wrong in any order.

It has to be certain that nobody else has the scaler: all that is done with its field, in the whole
project, is to call the scaler's own methods, to test it, and to store a new one. A scaler that is
passed on, returned or put into a container may be updated out of sight, and so may one whose owner
is handed to a function, or derives from a class, that nobody knows. Such an owner is believed where
one function makes a whole training step with the scaler: nobody leaves the rest of it to a
stranger. Words count before graphs: a function that speaks of the field and of the missing method
is taken to call it (an alias, a lambda, `getattr`), unless the graphs show that each place where it
names the method asks something else for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from amplint.findings.violations import Violation
from amplint.gradscaler.checkpoints import HARMLESS, is_harmless, symbols
from amplint.gradscaler.event_index import EventIndex, TrainingPart, calls
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
from amplint.ir.flow import JOINS, LOOKS, alternatives, origins
from amplint.ir.ssa import where
from amplint.knowledge.vocabulary import OPTIMIZER, TEST_PATH
from amplint.util.walks import reachable
from amplint.values.atoms import BOTTOM, Instance, Module, Object, Symbol, Value

NEEDED = ("scale", "step", "update")
DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
# Bases of libraries that do nothing with the fields of what derives from them.
PLAIN_BASES = frozenset(
    {"torch.nn.Module", "builtins.object", "abc.ABC", "typing.Protocol", "typing.Generic"}
)


class Field(NamedTuple):
    """A field of a class, which holds a scaler."""

    cls: str
    name: str


Calls = dict[str, list[SiteId]]  # of a scaler, by method


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
        self._found_fields: dict[str, dict[str, list[SiteId]]] = {}

    def find(self) -> Iterator[Incomplete]:
        if len(self._inference.files) > len(self._inference.files.own):
            return  # what other parts of the project do with them is not known
        for field in dict.fromkeys(self._fields_of_scalers()):
            calls = self._calls(field) or {}
            missing = [method for method in NEEDED if method not in calls]
            if len(missing) != 1 or self._may_call(field, missing[0]):
                continue
            for incomplete in self._wrong(missing[0], calls):
                # Whether others share the scaler is asked last: all calls of the project answer it.
                whole = self._is_whole_step(incomplete.here, calls.get("scale", ()))
                if whole or not self._is_shared(field):
                    yield incomplete

    def _wrong(self, missing: str, calls: Calls) -> Iterator[Incomplete]:
        """The calls that cannot be right without another one, which nobody makes."""
        if missing == "update":
            for step in calls["step"]:
                yield Incomplete(Violation.MISSING_UPDATE, step, step)
        elif missing == "scale":
            for each in self._beside(calls["step"], TrainingEventKind.BACKWARD):
                yield Incomplete(Violation.BACKWARD_BYPASSES_SCALER, each, calls["step"][0])
        elif "unscale_" not in calls:
            for each in self._beside(calls["update"], TrainingEventKind.STEP):
                yield Incomplete(Violation.STEP_BYPASSES_SCALER, each, calls["scale"][0])

    def _beside(self, sites: Sequence[SiteId], kind: TrainingEventKind) -> list[SiteId]:
        """The only plain step, or backward pass, of the functions that these calls stand in, or of
        the classes that these are methods of."""
        functions = {function for function, _ in sites}
        owners = {self._inference.functions[each].cls for each in functions} - {None}
        plain = [
            (function, number)
            for function, events in sorted(self._index.of.items())
            if self._inference.functions[function].cls in owners
            for number, event in events.items()
            if event.kind is kind and self._is_plain(function, event)
        ]
        near = [site for site in plain if site[0] in functions] or plain
        return near if len(near) == 1 else []

    def _is_plain(self, function: str, event: TrainingEvent) -> bool:
        """Whether no scaler is called: what steps is an optimizer, by its value or name."""
        state = self._inference.states[function]
        owner = role(state.values[event.object], self._inference)
        name = str(state.graph.nodes[event.object].data)
        return event.argument < 0 and (
            event.kind is TrainingEventKind.BACKWARD
            or owner is Role.OPTIMIZER
            or (owner is Role.UNKNOWN and OPTIMIZER.search(name) is not None)
        )

    # -- the fields

    def _fields_of_scalers(self) -> Iterator[Field]:
        """The fields that scalers are read from when their methods are called."""
        for function in sorted(self._index.leading[TrainingPart.SCALES]):
            state = self._inference.states[function]
            if TEST_PATH.search(self._inference.functions[function].path):
                continue
            for number, event in self._index.of[function].items():
                if surely_scaler(self._inference, state, number, event):
                    for origin in origins(state.graph, event.object):
                        node = state.graph.nodes[origin]
                        owners = node.op == ops.ATTR and classes(state.values[node.operands[0]])
                        if owners:
                            yield Field(min(owners), node.data)

    def _sites(self, field: Field) -> Iterator[SiteId]:
        """Where a field is read or stored, as far as it is known whose it is."""
        for owner in (*sorted(self._family(field.cls)), ""):
            yield from self._fields(field.name).get(owner, ())

    def _family(self, cls: str) -> frozenset[str]:
        """A class, those that it derives from, those that derive from it, and their bases."""
        family = {cls, *self._inference.hierarchy.mro(cls)}
        for other in self._inference.hierarchy.subclasses(cls):
            family.update((other, *self._inference.hierarchy.mro(other)))
        return frozenset(family)

    def _fields(self, name: str) -> Mapping[str, Sequence[SiteId]]:
        """Where fields of a name are read and stored, by class; no class where it is not known."""
        if name not in self._found_fields:
            fields = self._found_fields[name] = {}
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
                    for owner in classes(value) or ("",):
                        fields.setdefault(owner, []).append((function, number))
        return self._found_fields[name]

    # -- all that is done with one

    def _calls(self, field: Field) -> Calls | None:
        """The calls of the scaler's methods; None where the scaler is given to anybody else."""
        if self._is_unfinished(field.cls):
            return None
        calls: Calls = {}
        for function, number in self._sites(field):
            state = self._inference.states[function]
            if state.graph.nodes[number].op == ops.ATTR and not follow(
                function, state, number, calls
            ):
                return None
        return calls

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

    # -- whether somebody out of sight may make the call

    def _is_whole_step(self, step: SiteId, scaling: Sequence[SiteId]) -> bool:
        """Whether the function of a step scales the loss, too, and runs no hook after the step."""
        function, number = step
        state = self._inference.states[function]
        return any(each == function for each, _ in scaling) and not any(
            unknown_event(state, call, set()) is not None
            for call in calls(state)
            if call > number and not self._inference.calls.edges.get((function, call))
        )

    def _is_shared(self, field: Field) -> bool:
        """Whether code out of sight may work on the field, or has the scaler that it was given."""
        # An object that is handed on as one of a base class is not seen to be one of this class.
        own = {field.cls, *self._inference.hierarchy.subclasses(field.cls)}
        return (
            any(
                self._inference.hierarchy.library_bases(each) - PLAIN_BASES
                for each in self._family(field.cls)
            )
            or not own.isdisjoint(self._handed_on)
            or any(
                not is_new(self._inference.states[function], node.second)
                for function, number in self._sites(field)
                if (node := self._inference.states[function].graph.nodes[number]).op == ops.STORE
            )
        )

    @cached_property
    def _handed_on(self) -> frozenset[str]:
        """The classes of objects that are given to functions that nobody knows."""
        values: set[Value] = set()
        harmless: dict[Value, bool] = {BOTTOM: False}  # many calls are of the same
        for function, state in self._inference.states.items():
            for number, node in enumerate(state.graph.nodes):
                if node.op != ops.CALL or self._inference.calls.edges.get((function, number)):
                    continue
                callee = state.values[node.operands[0]]
                if callee not in harmless:
                    harmless[callee] = all(map(is_harmless, callee))
                if not harmless[callee]:
                    values.update(state.values[operand] for operand in node.arguments)
        return frozenset(a.cls for value in values for a in value if isinstance(a, Instance))

    def _may_call(self, field: Field, method: str) -> bool:
        """Whether a function that speaks of the field, and of a method, may call that of it."""
        functions = self._inference.functions
        return any(
            method in functions[each].words
            and functions[each].kind != "module"
            and self._calls_unseen(each, field.name, method)
            for each in self._inference.texts.mentioning(field.name)
        )

    def _calls_unseen(self, function: str, field: str, method: str) -> bool:
        """Whether a function asks for the field by a string, or reads it and has the name of a
        method where no graph has it as an attribute: all those of the scaler are known."""
        path = self._inference.functions[function].path
        scope = self._inference.files[path].parsed.scopes.get(function)
        if scope is None:
            return True
        followed = {
            node.location
            for each in reachable([function], lambda each: self._defined_in.get(each, ()))
            if each in self._inference.states
            for node in self._inference.states[each].graph.nodes
            if node.op == ops.ATTR and node.data == method
        }
        nodes = [*ast.walk(scope)]
        return any(isinstance(node, ast.Constant) and node.value == field for node in nodes) or (
            any(isinstance(node, ast.Attribute) and node.attr == field for node in nodes)
            and any(
                method in named(node)
                and not isinstance(node, DEFINITIONS)
                and not (isinstance(node, ast.Attribute) and where(node) in followed)
                for node in nodes
            )
        )

    @cached_property
    def _defined_in(self) -> dict[str, list[str]]:
        """By function or class body, what is defined right in it."""
        definitions: dict[str, list[str]] = {}
        for function, facts in self._inference.functions.items():
            if facts.parent is not None:
                definitions.setdefault(facts.parent, []).append(function)
        return definitions


def classes(value: Value) -> frozenset[str]:
    """The classes of objects of the project; none where there may be others."""
    names = frozenset(atom.cls for atom in value if isinstance(atom, Instance))
    return names if len(names) == len(value) else frozenset()


def follow(function: str, state: State, number: int, calls: Calls) -> bool:
    """Add the methods that are called on a node; False where it is given away."""
    nodes, users = state.graph.nodes, state.users

    def other_names(number: int) -> Iterator[int]:
        return (user for user in users[number] if nodes[user].op in JOINS | {ops.BOOL})

    for alias in reachable([number], other_names):
        for user in users[alias]:
            node = nodes[user]
            if node.op == ops.ATTR:
                for call in users[user]:
                    if nodes[call].op != ops.CALL or nodes[call].operands[0] != user:
                        return False  # a method that somebody may call
                    calls.setdefault(node.data, []).append((function, call))
            elif node.op == ops.CALL:
                callee = symbols(state.values[node.operands[0]])
                if not callee or not callee <= HARMLESS:
                    return False
            elif node.op not in JOINS | LOOKS:
                return False
    return True


def named(node: ast.AST) -> Iterator[str]:
    """The names and texts that a node itself has."""
    for value in vars(node).values():
        texts = value if isinstance(value, list) else [value]
        yield from (text for text in texts if isinstance(text, str))


def is_new(state: State, number: int) -> bool:
    """Whether a value is a new scaler, or None: nobody else has it."""
    nodes = state.graph.nodes

    def sources(number: int) -> tuple[int, ...]:
        either = nodes[number].op == ops.BOOL
        return nodes[number].operands if either else alternatives(state.graph, number)

    return all(is_scaler_or_none(atom) for atom in state.values[number]) and all(
        sources(each) or nodes[each].op == ops.CONST or is_made(state, each)
        for each in reachable([number], sources)
    )


def is_scaler_or_none(atom: object) -> bool:
    return getattr(atom, "kind", "") in ("scaler", "none")


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
