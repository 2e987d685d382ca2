"""Which calls run a backward pass, or the step of an optimizer, and through which calls.

That a function runs a backward pass follows from clauses: one for each call of `backward()`, and
one for each call of functions all of which run one. They are solved once for the whole project, in
time linear in the calls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

from amplint.facts.callers import Callers
from amplint.facts.fact import CallFact, Fact, Required
from amplint.inference import Inference, State
from amplint.inference.incremental.continuation import FixpointEdit
from amplint.inference.whole_program.use_evidence import BACKWARD_KEYWORDS, is_whole_step
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.flow import method_called
from amplint.util.walks import derivable, nearest, reachable
from amplint.values.atoms import (
    NUMBER_KINDS,
    Atom,
    Autocast,
    Evidence,
    Host,
    Instance,
    Method,
    Module,
    NoGrad,
    Object,
    Sequence,
    Shows,
    Symbol,
    Unknown,
    entered,
)

BACKWARD_METHODS = ("backward", "manual_backward")
NO_GRADIENTS = frozenset({"no_grad", "inference_mode"})
GRADIENTS_ON = frozenset({"enable_grad", "set_grad_enabled"})
MAX_BACKWARD_CALLS = 8  # calls between a region and the backward pass in it


class BackwardCalls(CallFact[tuple[Evidence, ...]]):
    """The chain of places from a call to the `backward()` that it runs, itself or through functions
    of the project; empty where the call is itself one.

    Attributes:
        events: by function, its calls that run a backward pass or the step of an optimizer.
        trains: the functions that have such calls, except for `is_gradient`, or call what has.
    """

    _callers = Required(Callers)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._abstract: dict[str, bool] = {}
        self._regions: dict[str, Collection[int]] = {}
        self._without_gradients: dict[str, Collection[int]] = {}  # by function: blocks
        self.events = {function: self._events(function) for function in inference.states}
        self.trains = self._training()

    def follow(self, inference: Inference, edit: FixpointEdit) -> bool:
        self.inference = inference
        events = self.events
        if edit.moves is not None:
            if "_chains" in self.__dict__:
                chains = {function: edit.moves.chain(of) for function, of in self._chains.items()}
                self.__dict__["_chains"] = chains
            return True
        self.events = {
            function: self._events(function) if function in edit.functions else events[function]
            for function in inference.states
        }
        self.trains = self._training()
        for function in edit.functions:
            self._abstract.pop(function, None)
            self._regions.pop(function, None)
            self._without_gradients.pop(function, None)
        for name in ("_runs", "_chains"):
            self.__dict__.pop(name, None)
        return True

    def _events(self, function: str) -> list[int]:
        """The calls of a function that run a backward pass or a step."""
        return [
            number
            for number, node in enumerate(self.inference.states[function].graph.nodes)
            if node.op == ops.CALL
            and (self.is_backward(function, number) or self.is_step(function, number))
        ]

    def _training(self) -> set[str]:
        """The functions that train, themselves or by calls."""
        sites = self._callers.sites
        direct = [
            function
            for function, events in self.events.items()
            if any(not self.is_gradient(function, number) for number in events)
        ]
        return set(
            reachable(direct, lambda function: (caller for caller, _ in sites.get(function, ())))
        )

    def of(self, at: NodePlace) -> tuple[Evidence, ...] | None:
        return self.chain(at.function, at.node)

    def chain(self, function: str, number: int) -> tuple[Evidence, ...] | None:
        """The chain from a call to the `backward()` that it runs in its caller's autocast state.

        Where the call may mean one of several functions, all of them must run it; but what is drawn
        from a collection (`for callback in callbacks: callback.on_batch_end()`) may be any of them.
        """
        if self.is_backward(function, number):
            return ()
        callees = self._running(function, number)
        if not callees:
            return None
        return min((self._chains[c] for c in callees), key=lambda chain: (len(chain), chain))

    # -- what functions run

    @cached_property
    def _runs(self) -> Collection[str]:
        """The functions that run a backward pass in the autocast state they are called in."""
        heights = derivable(self._clauses())
        return {f for f, height in heights.items() if height <= MAX_BACKWARD_CALLS + 1}

    def _clauses(self) -> Iterator[tuple[str, Collection[str]]]:
        for function in sorted(self.trains):
            for number in self._calls_outside_regions(function):
                if self.is_backward(function, number):
                    if not self.is_gradient(function, number):
                        yield function, ()
                    continue
                sure, any_of = self._alternatives(function, number)
                if sure:
                    yield function, sure
                yield from ((function, (callee,)) for callee in any_of)

    def _alternatives(self, function: str, number: int) -> tuple[Collection[str], Collection[str]]:
        """The functions all of which must run what a call runs, and those of which one suffices."""
        callees = self.inference.calls.edges.get((function, number), set())
        if callees.isdisjoint(self.trains) or self.trains_nothing(function, number):
            return (), ()
        loop_callees = self.inference.calls.choices.get((function, number), set()) & callees
        sure = {callee for callee in callees - loop_callees if not self.is_abstract(callee)}
        return sure, sorted(callees if self._is_drawn(function, number) else loop_callees)

    def _running(self, function: str, number: int) -> Collection[str]:
        """The functions that a call means and that run a backward pass; none where it may mean
        others as well."""
        sure, any_of = self._alternatives(function, number)
        certain = bool(sure) and all(c in self._runs for c in sure)
        if not certain and not any(c in self._runs for c in any_of):
            return ()
        return [c for c in self.inference.calls.edges[function, number] if c in self._runs]

    @cached_property
    def _chains(self) -> Mapping[str, tuple[Evidence, ...]]:
        """By function: a shortest chain from its body to the `backward()` that it runs."""
        calls: dict[str, list[tuple[int, str]]] = {}
        running: dict[str, list[str]] = {}  # by function: those that call it so
        chains: dict[str, tuple[Evidence, ...]] = {}
        for function in sorted(self._runs):
            for number in self._calls_outside_regions(function):
                if self.is_backward(function, number):
                    if not self.is_gradient(function, number) and function not in chains:
                        why = self.why(function, number, "runs `backward()` here", Shows.BACKWARD)
                        chains[function] = (why,)
                    continue
                for callee in self._running(function, number):
                    calls.setdefault(function, []).append((number, callee))
                    running.setdefault(callee, []).append(function)
        distances = nearest(list(chains), lambda function: running.get(function, ()))
        for function in sorted(distances, key=lambda f: (distances[f][0], f)):
            if function not in chains:
                # The functions that are nearer to the pass are known.
                number, callee = min(
                    (each for each in calls[function] if each[1] in chains),
                    key=lambda each: (len(chains[each[1]]), each),
                )
                name = self.inference.functions[callee].name
                why = self.why(function, number, f"calls `{name}` here", Shows.CALL)
                chains[function] = (why, *chains[callee])
        return chains

    def _calls_outside_regions(self, function: str) -> Iterator[int]:
        """The calls that run in the autocast state in which the function is called."""
        state = self.inference.states.get(function)
        if state is None:
            return
        regions = self._blocks_in_regions(function, state)
        for number, node in enumerate(state.graph.nodes):
            if node.op == ops.CALL and node.block not in regions:
                yield number

    def _blocks_in_regions(self, function: str, state: State) -> Collection[int]:
        """The blocks in the autocast regions that a function opens."""
        if function not in self._regions:
            inside = self._regions[function] = set[int]()
            for number, block in enumerate(state.graph.blocks):
                opens = block.kind == "with" and any(
                    isinstance(a, Autocast) for a in entered(state.values[block.node])
                )
                if opens or block.parent in inside:
                    inside.add(number)
        return self._regions[function]

    def trains_nothing(self, function: str, number: int) -> bool:
        """Whether what a node runs trains nothing: gradients are off there, and its function does
        not switch them on again, as for the closure of an optimizer."""
        is_off = self.is_without_gradients(function, number)
        return is_off and GRADIENTS_ON.isdisjoint(self.inference.functions[function].words)

    def is_without_gradients(self, function: str, number: int) -> bool:
        """Whether a node stands where gradients are off."""
        block = self.inference.states[function].graph.nodes[number].block
        return block in self.blocks_without_gradients(function)

    def blocks_without_gradients(self, function: str) -> Collection[int]:
        if function not in self._without_gradients:
            self._without_gradients[function] = self._find_without_gradients(function)
        return self._without_gradients[function]

    def _find_without_gradients(self, function: str) -> Collection[int]:
        blocks = self.inference.states[function].graph.blocks
        if not NO_GRADIENTS.isdisjoint(self.inference.functions[function].decorated):
            return range(len(blocks))
        values = self.inference.states[function].values
        inside: set[int] = set()
        for number, block in enumerate(blocks):
            # What may be one, as by an option for evaluation, lets training through.
            opened = values[block.node] if block.kind == "with" else ()
            off = bool(opened) and all(isinstance(a, NoGrad) for a in opened)
            if off or block.parent in inside:
                inside.add(number)
        return inside

    def is_abstract(self, function: str) -> bool:
        """Whether the method is there to be overridden: it calls and returns nothing, or raises."""
        if function not in self._abstract:
            self._abstract[function] = self._find_abstract(function)
        return self._abstract[function]

    def _find_abstract(self, function: str) -> bool:
        state = self.inference.states.get(function)
        if state is None or "abstractmethod" in self.inference.functions[function].decorated:
            return True
        nodes = state.graph.nodes
        works = any(node.op in (ops.CALL, ops.RETURN) for node in nodes)
        return not works or any(node.op == ops.RAISE and node.block == 0 for node in nodes)

    def _is_drawn(self, function: str, number: int) -> bool:
        """Whether what is called is a method of what a loop draws from a collection."""
        nodes = self.inference.states[function].graph.nodes
        current = nodes[nodes[number].operands[0]]
        for _ in range(6):
            if current.op == ops.ITER:
                return True
            if current.op == ops.CALL:
                argument = current.argument(0)
                if argument < 0:
                    return False
                current = nodes[argument]  # getattr(callback, event)
            elif current.op in (ops.ATTR, ops.UNPACK, ops.NARROW, ops.SUBSCRIPT):
                current = nodes[current.operands[0]]
            else:
                return False
        return False

    # -- what one call does

    def is_backward(self, function: str, number: int) -> bool:
        """Whether the call is itself that of a backward pass."""
        state = self.inference.states[function]
        node = state.graph.nodes[number]
        if node.op != ops.CALL:
            return False
        called = state.values[node.operands[0]]
        names = {atom.name for atom in called if isinstance(atom, Symbol)}
        if "torch.autograd.backward" in names:
            return True
        if all(isinstance(a, Unknown) for a in called) and is_whole_step(state.graph, node):
            return True
        if "torch.autograd.grad" in names:
            # With `create_graph` it is part of a forward pass: a gradient penalty.
            return "create_graph" not in node.data.keywords
        methods = [a for a in called if isinstance(a, Method) and a.name in BACKWARD_METHODS]
        if methods:
            return any(has_backward(method.of) for method in methods)
        if any(self._backpropagates(atom) for atom in called):
            return True
        method, receiver = method_called(state.graph, node)
        if method in BACKWARD_METHODS:
            owners = state.values[receiver]
            is_known = all(isinstance(a, Instance | Module | Symbol) for a in owners) and owners
            return not is_known and set(node.data.keywords) <= BACKWARD_KEYWORDS
        return False

    def _backpropagates(self, called: Atom) -> bool:
        """Whether this is a method of a framework that runs the backward pass of a loss that it is
        given, and returns nothing. Ex) wrapper.update_params(loss), of mmengine"""
        if not isinstance(called, Method) or not isinstance(called.of, Object):
            return False
        of, models = called.of, self.inference.files.models
        row = models.method_of_object(of.kind, of.type, called.name)
        return row is not None and row.gives == "nothing" and "loss" in row.parameters.values()

    def is_gradient(self, function: str, number: int) -> bool:
        """Whether the call is `torch.autograd.grad`: a backward pass where it stands, but what
        calls its function is given a value, such as the adaptive weight of a loss."""
        state = self.inference.states[function]
        called = state.values[state.graph.nodes[number].operands[0]]
        return any(isinstance(a, Symbol) and a.name == "torch.autograd.grad" for a in called)

    def is_step(self, function: str, number: int) -> bool:
        """Whether the call is the step of an optimizer, or of a scaler for one."""
        state = self.inference.states[function]
        node = state.graph.nodes[number]
        kinds = {
            atom.of.kind
            for atom in state.values[node.operands[0]]
            if isinstance(atom, Method) and atom.name == "step" and isinstance(atom.of, Object)
        }
        # `model, optimizer, scheduler = prepare(...)` of whatever order leaves both.
        return bool(kinds & {"optimizer", "scaler"}) and "scheduler" not in kinds


def has_backward(owner: Atom) -> bool:
    """Whether a call of `backward()` may be one of this: arrays, texts and sequences have no such
    method, and neither have numbers, but what is known of a loss that is one is not all."""
    if isinstance(owner, Host):
        return owner.kind in NUMBER_KINDS
    return not isinstance(owner, Sequence)
