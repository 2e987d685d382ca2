"""Checkpoints of a training that uses a scaler, which leave out the scaler's state.

A finding needs a dict with the state of an optimizer that is saved, or that a class returns as its
own state, or a library's function that saves the optimizer itself; and a scaler that makes the
steps of the training that saves it. It needs more, for the state may be saved anywhere in the
program: nothing is said where some file of it saves the state of a scaler, or of an object that
nobody knows; nor where a scaler, or an object that holds one, is saved as a whole, put into a
container, or handed to what nobody knows. The program of a file is what it imports, and what
imports it, with all that these import: scripts beside each other are programs of their own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from itertools import chain

from amplint.gradscaler.event_index import EventIndex, TrainingPart
from amplint.gradscaler.events import Role, TrainingEventKind, role, role_of, surely_scaler
from amplint.inference import Inference, SiteId, State
from amplint.inference.transfer import canonical
from amplint.ir import ops
from amplint.ir.flow import COLLECTIONS, ELEMENTS, JOINS, last_name, method_called
from amplint.ir.model import Graph, Node, path_of
from amplint.knowledge.vocabulary import (
    COUNTS_TRAINING,
    HAS_STATE,
    LOADS_CHECKPOINT,
    OPTIMIZER,
    SAVES_CHECKPOINT,
    SCALER_STATE,
    SCALER_STATE_WORDS,
    TEST_PATH,
)
from amplint.util.walks import reachable
from amplint.values.atoms import Instance, Mapping, Method, Object, Sequence, Symbol, Unknown, Value
from amplint.values.lattice import inner

CALLERS = 4  # calls from a training down to what saves
STATE = "state_dict"
SAVING = frozenset({"torch.save"})
# What is given a scaler, and keeps nothing of it.
HARMLESS = frozenset(
    f"builtins.{name}" for name in "isinstance print type id bool repr str hasattr".split()
)


class Unsaved:
    """The checkpoints of a project that leave out the state of a scaler."""

    def __init__(self, inference: Inference, index: EventIndex) -> None:
        self._inference = inference
        self._index = index
        self._saving: dict[Value, bool] = {}
        self._saved_by: dict[str, list[tuple[int, str]]] = {}
        self._answers: dict[frozenset[str], bool] = {}

    def find(self) -> Iterator[tuple[SiteId, SiteId]]:
        """The calls that save, or that give the optimizer's part of what is saved elsewhere, each
        with the step of a scaler."""
        if not self._index.leading[TrainingPart.SCALES]:
            return
        steps: dict[SiteId, SiteId] = {}
        for site, optimizer in chain(self._checkpoints(), self._by_libraries(SAVES_CHECKPOINT)):
            if self._is_resumed or self._counts(site):
                steps.update(self._leaving_out(site, optimizer))
        yield from steps.items()

    def _leaving_out(self, site: SiteId, optimizer: int) -> Iterator[tuple[SiteId, SiteId]]:
        """A call that saves, with the step of a scaler; where nothing is wrong with it, the calls
        that hand the optimizer to its function: of several programs with one function that saves,
        some may give it the state of their scaler, too.

        Args:
            optimizer: the node of the optimizer of which the state is saved.
        """
        pending = [(site, optimizer)]
        for _ in range(CALLERS):
            following: list[tuple[SiteId, int]] = []
            for each, number in pending:
                step = self._step_of(each[0])
                if step is not None and not self._is_saved(each, step):
                    yield each, step
                else:
                    following += self._handing(each[0], number)
            pending = following

    def _is_saved(self, site: SiteId, step: SiteId) -> bool:
        """Whether the program that a call saves in may save the state of the scaler."""
        program = self._program(self._path(site[0]), self._path(step[0]))
        if program not in self._answers:
            self._answers[program] = self._may_be_saved(program)
        return self._answers[program]

    def _path(self, function: str) -> str:
        return self._inference.functions[function].path

    @cached_property
    def _callees(self) -> dict[str, set[str]]:
        by_caller: dict[str, set[str]] = {}
        for (caller, _), callees in self._inference.calls.edges.items():
            by_caller.setdefault(caller, set()).update(callees)
        return by_caller

    # -- the program that a file is part of

    def _program(self, *paths: str) -> frozenset[str]:
        """The files that run together with these, as far as imports show: those of other parts of a
        project are not known by theirs."""
        if len(self._inference.files) > len(self._inference.files.own):
            return frozenset(self._inference.files)
        importers = reachable(paths, lambda path: self._importers.get(path, ()))
        return frozenset(reachable(importers, lambda path: self._imported.get(path, ())))

    @cached_property
    def _imported(self) -> dict[str, set[str]]:
        """By file, those that it imports."""
        imported: dict[str, set[str]] = {}
        for function, state in self._inference.states.items():
            path = self._path(function)
            for node in state.graph.nodes:
                if node.op == ops.IMPORT:
                    files = self._inference.names.imported_files(path, node.data)
                    imported.setdefault(path, set()).update(files)
        return imported

    @cached_property
    def _importers(self) -> dict[str, set[str]]:
        """By file, those that import it."""
        importers: dict[str, set[str]] = {}
        for path, others in self._imported.items():
            for other in others:
                importers.setdefault(other, set()).add(path)
        return importers

    @cached_property
    def _is_resumed(self) -> bool:
        """Whether anything is loaded: a run that nobody goes on with loses nothing."""
        loads = any(self._inference.files.holding("load_state_dict"))
        return loads or any(self._by_libraries(LOADS_CHECKPOINT))

    def _counts(self, site: SiteId) -> bool:
        """Whether a call saves, beside the optimizer, how far the training is: to go on from there,
        by a script that is not in sight. What is saved before an error is there to look at."""
        nodes = self._inference.states[site[0]].graph.nodes
        block = nodes[site[1]].block
        if any(node.op == ops.RAISE and node.block == block for node in nodes):
            return False
        inside = reachable(nodes[site[1]].arguments, lambda each: parts_of(nodes[each]))
        dicts = (nodes[each] for each in inside if nodes[each].op == ops.DICT)
        return any(not COUNTS_TRAINING.isdisjoint(each.data) for each in dicts)

    def _by_libraries(self, named: re.Pattern[str]) -> Iterator[tuple[SiteId, int]]:
        """The calls of functions of libraries that have such a name, to which a model and an
        optimizer are handed by name, or as entries of a dict: each with the node of the optimizer.

        Ex) toolbox.checkpoint.save(path, model=model, optimizer=optimizer)
        """
        for function in sorted(self._inference.texts.mentioning("model")):
            state = self._inference.states.get(function)
            if state is None or TEST_PATH.search(self._path(function)):
                continue
            nodes = state.graph.nodes
            for number, node in enumerate(nodes):
                if node.op != ops.CALL or self._inference.calls.edges.get((function, number)):
                    continue
                name = last_name(state.graph, node.operands[0])
                is_of_library = bool(symbols(state.values[node.operands[0]]))
                if not is_of_library or not named.match(name) or node.data.stars:
                    continue
                handed = dict(node.named)
                for each in node.positional:
                    if nodes[each].op == ops.DICT:
                        handed |= dict(zip(nodes[each].data, nodes[each].operands, strict=True))
                optimizer = handed.get("optimizer", -1)
                if "model" in handed and optimizer >= 0 and self._is_optimizer(function, optimizer):
                    yield (function, number), optimizer

    # -- what is saved

    def _checkpoints(self) -> Iterator[tuple[SiteId, int]]:
        """The calls that save a dict with the state of an optimizer, directly or by a function,
        with the node of the optimizer; of those that save the same dict, as the last and as the
        best one, the first. Of a dict that is put together before, or is the state of an object,
        the call that returns the optimizer's: there the scaler's is missing."""
        paths = frozenset(self._inference.files.holding(STATE))
        for function, state in self._inference.states.items():
            saved: set[int] = set()
            facts = self._inference.functions[function]
            if facts.path not in paths or TEST_PATH.search(facts.path):
                continue
            if STATE not in facts.words or not any(
                node.op == ops.ATTR and node.data == STATE for node in state.graph.nodes
            ):
                continue
            for number, node in enumerate(state.graph.nodes):
                if node.op != ops.CALL:
                    continue
                for operand in self._saved(function, number, node, state):
                    call = self._optimizer_in(function, operand) if operand not in saved else None
                    if call is not None:
                        saved.add(operand)
                        is_here = encloses(node, state.graph.nodes[operand])
                        yield (function, number if is_here else call), owner_of(state, call)
                        break
            if self._gives_state(function):
                for number in state.graph.returns:
                    call = self._optimizer_in(function, number)
                    if call is not None:
                        yield (function, call), owner_of(state, call)

    def _gives_state(self, function: str) -> bool:
        """Whether a function is the `state_dict` of a class that can take such a state up again."""
        facts = self._inference.functions[function]
        if facts.name != STATE or facts.cls is None:
            return False
        return "load_state_dict" in self._inference.classes[facts.cls].methods

    def _saved(self, function: str, number: int, node: Node, state: State) -> Iterator[int]:
        """The nodes that a call saves, or hands to a function that saves them."""
        if self._saves(state.values[node.operands[0]]):
            yield node.argument(0, "obj")
        for callee in sorted(self._inference.calls.edges.get((function, number), ())):
            for position, name in self._saved_parameters(callee):
                yield node.argument(position, name)

    def _saved_parameters(self, function: str) -> list[tuple[int, str]]:
        """The parameters that a function saves: their positions in a call, and their names."""
        if function not in self._saved_by:
            parameters = self._saved_by[function] = []
            state = self._inference.states.get(function)
            names = self._inference.functions[function].places
            for node in state.graph.nodes if state is not None else ():
                if state is None or node.op != ops.CALL:
                    continue
                saves = self._saves(state.values[node.operands[0]])
                argument = node.argument(0, "obj") if saves else -1
                param = state.graph.nodes[argument] if argument >= 0 else None
                if param is not None and param.op == ops.PARAM:
                    position = names.index(param.data) if param.data in names else len(names)
                    parameters.append((position, param.data))
        return self._saved_by[function]

    def _saves(self, callee: Value) -> bool:
        """Whether a call of this saves what it is given."""
        if callee not in self._saving:  # many calls are of the same
            self._saving[callee] = not symbols(callee).isdisjoint(SAVING)
        return self._saving[callee]

    def _optimizer_in(self, function: str, number: int) -> int | None:
        """The node that returns the state of an optimizer, which is an entry of a dict."""
        nodes = self._inference.states[function].graph.nodes
        inside = reachable([number], lambda each: parts_of(nodes[each]))
        return next((n for n in inside if self._is_state_of_optimizer(function, n)), None)

    def _is_state_of_optimizer(self, function: str, number: int) -> bool:
        """Whether a node is `optimizer.state_dict()`: of an optimizer, perhaps among other things
        that a loop draws, or of what is named like one."""
        if number < 0:
            return False
        state = self._inference.states[function]
        node = state.graph.nodes[number]
        if method_called(state.graph, node)[0] != STATE:
            return False
        return self._is_optimizer(function, owner_of(state, number))

    def _is_optimizer(self, function: str, owner: int) -> bool:
        """Whether a node is an optimizer, by its value or its name."""
        state = self._inference.states[function]
        value = state.values[owner]
        if any(role_of(atom, self._inference) is Role.OPTIMIZER for atom in value):
            return True
        node = state.graph.nodes[owner]
        source = node.operands[0] if node.op in ELEMENTS else owner  # Ex) self.optimizers
        name = path_of(state.graph, source) or ""
        return role(value, self._inference) is Role.UNKNOWN and OPTIMIZER.search(name) is not None

    def _handing(self, function: str, number: int) -> Iterator[tuple[SiteId, int]]:
        """The calls that pass a function one of its parameters, each with the node that it passes;
        none for a node that is no parameter."""
        graph = self._inference.states[function].graph
        parameter = graph.nodes[graph.narrowed(number)]
        if parameter.op != ops.PARAM:
            return
        names = self._inference.functions[function].places
        position = names.index(parameter.data) if parameter.data in names else len(names)
        for caller, call in self._index.sites(function):
            node = self._inference.states[caller].graph.nodes[call]
            argument = node.argument(position, parameter.data)
            if argument >= 0:
                yield (caller, call), argument

    # -- who trains

    def _step_of(self, function: str) -> SiteId | None:
        """The step of a scaler in the training that calls a function: the nearest of its callers
        that makes any steps, itself or by calls; or else in its class."""
        level = {function}
        for _ in range(CALLERS):
            steps = list(self._steps(level))
            if steps:
                break
            level = {caller for each in level for caller in self._index.callers(each)}
        else:
            steps = list(self._steps(self._methods_beside(function)))
        scaled = (step for step, by_scaler in steps if by_scaler)
        return min((s for s in scaled if self._outlives(s[0], function)), default=None)

    def _methods_beside(self, function: str) -> Iterator[str]:
        """The methods of the class that a method belongs to, and of those that derive from it: an
        object that trains and saves may be driven by a library, or by a script of its users."""
        cls = self._inference.functions[function].cls
        for each in (cls, *self._inference.hierarchy.subclasses(cls)) if cls is not None else ():
            for definitions in self._inference.classes[each].methods.values():
                yield from definitions

    def _outlives(self, stepping: str, saving: str) -> bool:
        """Whether the scaler of a function's steps is there when another function saves: it is not
        where it is made anew by the first one, which has ended by then."""
        graph = self._inference.states[stepping].graph
        values = self._inference.states[stepping].values
        stored = {node.second for node in graph.nodes if node.op == ops.STORE}
        makes_scaler = any(
            node.op == ops.CALL
            and number not in stored
            and any(isinstance(a, Object) and a.kind == "scaler" for a in values[number])
            and symbols(values[node.operands[0]])
            for number, node in enumerate(graph.nodes)
        )
        return not makes_scaler or saving in self._called_by([stepping])

    def _steps(self, functions: Iterable[str]) -> Iterator[tuple[SiteId, bool]]:
        """The steps that functions make, and whether each is one of a scaler."""
        for each in self._called_by(functions):
            state = self._inference.states.get(each)
            for number, event in self._index.of.get(each, {}).items():
                if event.kind is TrainingEventKind.STEP and state is not None:
                    scaled = surely_scaler(self._inference, state, number, event)
                    owner = role(state.values[event.object], self._inference)
                    if scaled or owner is Role.OPTIMIZER:
                        yield (each, number), scaled

    def _called_by(self, functions: Iterable[str]) -> Iterator[str]:
        """Functions, and those that they call, directly or by others."""
        return reachable(functions, lambda each: self._callees.get(each, ()))

    # -- whether the state may be saved after all

    def _may_be_saved(self, program: frozenset[str]) -> bool:
        if not program.isdisjoint(self._inference.files.matching(SCALER_STATE, SCALER_STATE_WORDS)):
            return True
        states = {
            function: state
            for function, state in self._inference.states.items()
            if self._path(function) in program
        }
        holders = self._holders(states.values())
        asking = self._inference.texts.mentioning(STATE)
        return (
            holders is None
            or any(self._lets_go(function, state, holders) for function, state in states.items())
            or any(self._saves_unknown(each) for each in asking if self._path(each) in program)
        )

    def _holders(self, states: Collection[State]) -> frozenset[str] | None:
        """The classes of objects that hold a scaler, themselves or in what they hold; None where
        something else does."""
        holders: set[str] = set()
        for _ in range(CALLERS):
            before = set(holders)
            for state in states:
                for node in state.graph.nodes:
                    if node.op != ops.STORE:
                        continue
                    owners, value = (state.values[operand] for operand in node.operands)
                    if not self._contains(value, holders):
                        continue
                    if not owners or not all(isinstance(atom, Instance) for atom in owners):
                        return None
                    holders |= {atom.cls for atom in owners if isinstance(atom, Instance)}
            if holders == before:
                break
        hierarchy = self._inference.hierarchy
        for cls in list(holders):
            holders |= {*hierarchy.mro(cls), *hierarchy.subclasses(cls)}
        for cls in holders:
            if "__getstate__" in self._inference.classes[cls].methods:
                return None
            if hierarchy.library_bases(cls) - {"torch.nn.Module", "builtins.object"}:
                return None
        return frozenset(holders)

    def _contains(self, value: Value, holders: frozenset[str] | set[str], depth: int = 0) -> bool:
        """Whether a value is a scaler, or holds one."""
        for atom in value:
            if isinstance(atom, Object | Instance):
                if role_of(atom, self._inference) in (Role.SCALER, Role.DISABLED):
                    return True
                if isinstance(atom, Instance) and atom.cls in holders:
                    return True
            elif (
                isinstance(atom, Sequence | Mapping)
                and depth < CALLERS
                and any(self._contains(part, holders, depth + 1) for part in inner(atom))
            ):
                return True
        return False

    def _lets_go(self, function: str, state: State, holders: frozenset[str]) -> bool:
        """Whether a function puts a scaler, or what holds one, where it may be saved."""
        for number, node in enumerate(state.graph.nodes):
            keeps = node.op in (ops.DICT, ops.LIST, ops.SET, ops.PUT, ops.ADD, ops.YIELD)
            if keeps or (node.op == ops.ATTR and node.data == "__dict__"):
                operands = node.operands
            elif node.op == ops.CALL and not self._is_followed(function, number, node, state):
                operands = node.arguments
            else:
                continue
            if any(op >= 0 and self._contains(state.values[op], holders) for op in operands):
                return True
        return False

    def _is_followed(self, function: str, number: int, node: Node, state: State) -> bool:
        """Whether it is known what a call does with what it is given."""
        if self._inference.calls.edges.get((function, number)):
            return True
        callee = state.values[node.operands[0]]
        return bool(callee) and all(is_harmless(atom) for atom in callee)

    def _saves_unknown(self, function: str) -> bool:
        """Whether a function asks a scaler, or what may be one, for its state."""
        facts = self._inference.functions[function]
        file = self._inference.files[facts.path]
        state = self._inference.states.get(function)
        graph: Graph = file.graph(function)
        for node in graph.nodes:
            if node.op != ops.ATTR or node.data != "state_dict":
                continue
            value = state.values[node.operands[0]] if state is not None else frozenset()
            if any(role_of(atom, self._inference) in SCALERS for atom in value):
                return True
            is_known = bool(value) and not any(isinstance(atom, Unknown) for atom in value)
            row, column, end_row, end_column = node.location
            line = file.lines[row - 1].encode()
            text = line[column:end_column].decode() if row == end_row else ""
            if not is_known and not HAS_STATE.search(text.removesuffix(".state_dict")):
                return True
        return False


def owner_of(state: State, number: int) -> int:
    """The node of `optimizer` in `optimizer.state_dict()`."""
    nodes = state.graph.nodes
    return nodes[nodes[number].operands[0]].operands[0]


def parts_of(node: Node) -> tuple[int, ...]:
    """The nodes of which a node is put together: the entries of a dict."""
    if node.op in (ops.PUT, ops.ADD):
        return (node.operands[0], node.operands[-1])
    holds = node.op in COLLECTIONS | JOINS | {ops.RETURN} or node.operator == "BitOr"
    return tuple(each for each in node.operands if each >= 0) if holds else ()


def encloses(node: Node, inner: Node) -> bool:
    """Whether a node is written within another one."""
    row, column, end_row, end_column = node.location
    first, last = inner.location[:2], inner.location[2:]
    return (row, column) <= first and last <= (end_row, end_column)


SCALERS = (Role.SCALER, Role.DISABLED)


def symbols(value: Value) -> set[str]:
    return {canonical(atom.name) for atom in value if isinstance(atom, Symbol)}


def is_harmless(atom: object) -> bool:
    if isinstance(atom, Symbol):
        name = canonical(atom.name)
        return name in HARMLESS or (name.startswith("torch.") and name not in SAVING)
    return isinstance(atom, Method) and isinstance(atom.of, Object) and atom.of.kind == "scaler"
