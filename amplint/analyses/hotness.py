"""How often a node runs: for every batch of training, for every batch of evaluation, or rarely.

A loop is a *batch loop* when it iterates a loader, or is the innermost one around a `backward()` or
an optimizer's step, its own or that of a function it calls. A function is hot when a hot place
calls it, or when it is a `forward` or a `training_step`. A guard that holds now and then (`if step
% 50 == 0`), a flag that is off by default and an error path make what is inside cold. Guards on the
rank do not: rank 0 waits for its device all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from amplint.core.values import (
    ACCELERATOR,
    NO_DEVICE,
    NONE,
    Autocast,
    Blob,
    Heat,
    Host,
    Instance,
    Method,
    Module,
    Object,
    Place,
    Sequence,
    Symbol,
    Tensor,
    Unknown,
    Value,
    Why,
)
from amplint.inference import Inference, SiteId, State, annotated, custom_ops
from amplint.inference.transfer import is_loader
from amplint.inference.use_evidence import BACKWARD_KEYWORDS
from amplint.ir.model import Block, Graph, Node
from amplint.knowledge import libraries

# How many calls heat travels: far from a loop that was seen, and from the `forward` of what has
# parameters or is a loss; not far from that of other modules, many of which never train (an
# algorithm of geometry, say).
REACH_OF_LOOP, REACH_OF_LEARNING, REACH_OF_DEFINITION = 6, 4, 2
# Where heat comes from. What is hot is reached from a function that holds one of these words: as
# the loop itself, or by calls.
HEAT_WORDS = (
    frozenset({"backward", "manual_backward", "step", "forward", "training_step"})
    | libraries.CLIPPING
    | libraries.TRAINING_HOOKS
    | custom_ops.WORDS
)
MAX_BACKWARD_CALLS = 8  # calls between a region and the backward pass in it
TRAINING, EVALUATION = "training", "evaluation"
LOOPS = frozenset({"loop", "while", "comprehension"})

# Methods that run once, on the host, or when something is saved: heat does not enter them.
COLD_FUNCTIONS = frozenset(
    """
    __init__ __new__ __getitem__ __len__ __repr__ __str__ __getstate__ __setstate__ __del__
    __post_init__ setup prepare_data configure_optimizers state_dict load_state_dict extra_repr
    reset_parameters compute collate collate_fn save save_checkpoint load_checkpoint
    prepare prepare_model prepare_data_loader export merge
    unmerge
    """.split()
)
EVALUATION_METHODS = frozenset({"validation_step", "test_step", "predict_step"})
TRAINING_METHODS = frozenset({"forward", "training_step"})

# A flag of such a name is a wish of the user for output, and off most of the time.
OUTPUT_FLAG = re.compile(
    r"(^|_)(verbose|debug|log|logging|logger|print|printing|plot|vis|visuali[sz]e|profil\w*|"
    r"summary|dump|isEnabledFor|tensorboard|wandb|writer|display|sanity|dry|progress|report|monitor)(_|$)|should_|is_last|_freq$|_every$"
)
CHECK = re.compile(r"(^|_)(check|assert|require|expect)", re.IGNORECASE)
NUMERIC_CHECK = re.compile(r"(^|_)(nan|inf|finite|anomaly)(_|$)")
COUNTER = re.compile(
    r"(^|_)(i|j|it|iter|iters|iteration|iterations|step|steps|epoch|batch|idx|index|count|counter|n|num|update|updates)(_|$)"
)
EVALUATION_CONTEXT = re.compile(r"(^|_)eval(uat\w*)?(_|$)")
NUMBERS = frozenset({"int", "float", "number"})
WARNINGS = frozenset({"warn", "warning", "error", "exception", "critical", "warning_once"})
NONFINITE = frozenset({"isnan", "isinf"})
# What is done on these alone is a way around what they lack.
RARE_DEVICES = frozenset({"mps", "npu", "xpu", "hpu", "mlu", "musa", "xla", "tpu"})
OF_RARE_DEVICE = re.compile(rf"(^|_)({'|'.join(sorted(RARE_DEVICES))})(_|$)")
# Functions of these names use what has been trained.
PREDICTOR = re.compile(r"Infer|Predict|Pipeline|Eval|Valid")
PREDICTION = re.compile(r"^_*(predict|infer|inference|generate|validate|evaluate)(_|$)")
# Ex) functools.lru_cache, functools.cached_property, cached, lru_cache_unless_export
MEMOISES = re.compile(r"(^|_)cached?(_|$)")


@dataclass(frozen=True)
class Reached:
    """How heat came to a function: its temperature, and the chain of reasons."""

    temperature: str
    chain: tuple[Why, ...]
    reach: int = REACH_OF_LOOP  # how long the chain may get

    @property
    def rank(self) -> tuple[int, int, int, tuple[Why, ...]]:
        """Training before evaluation, then what gets farthest, the shortest chain, by place."""
        length = len(self.chain)
        return (self.temperature != TRAINING, length - self.reach, length, self.chain)


class HeatMap:
    """The heat of every node of the evaluated functions; built once the values are settled."""

    def __init__(self, inference: Inference) -> None:
        self.inference = inference
        self.callers: dict[str, list[SiteId]] = {}
        for site, callees in sorted(inference.edges.items()):
            for callee in sorted(callees):
                self.callers.setdefault(callee, []).append(site)
        self._events: dict[str, list[int]] = {}
        self._evaluates: dict[str, bool] = {}
        self._rare: dict[str, frozenset[int]] = {}
        self._trains: set[str] = set()
        self._per_call: set[str] = set()
        self._batch_loops: dict[str, dict[int, str]] = {}
        self._reached: dict[str, Reached] = {}
        self._differentiated = inference.differentiated()
        self._find_events()
        self._find_batch_loops()
        self._spread()

    # -- questions

    def heat(self, function: str, block: int) -> Heat | None:
        """Why the block runs for every batch; None where it is cold or nothing says so."""
        found = self._heat_of(function, block)
        return Heat(found.temperature, found.chain) if found is not None else None

    def is_hot(self, function: str) -> bool:
        """Whether anything in the function may run for every batch of training."""
        reached = self._reached.get(function)
        return TRAINING in self._batch_loops.get(function, {}).values() or (
            reached is not None and reached.temperature == TRAINING
        )

    def is_training_loop(self, function: str, block: int) -> bool:
        """Whether the block is a loop over the batches of training."""
        return self._batch_loops.get(function, {}).get(block) == TRAINING

    def backward(self, function: str, number: int) -> tuple[Why, ...] | None:
        """The chain from a call to the `backward()` that it runs in its caller's autocast state.

        Where the call may mean one of several functions, all of them must run it; but what is drawn
        from a collection (`for callback in callbacks: callback.on_batch_end()`) may be any of them.
        """
        return self._backward(function, number, frozenset())

    def _backward(
        self, function: str, number: int, above: frozenset[str]
    ) -> tuple[Why, ...] | None:
        if self._is_backward(function, number):
            return ()
        callees = self.inference.edges.get((function, number), set())
        if len(above) > MAX_BACKWARD_CALLS or callees.isdisjoint(self._trains):
            return None
        drawn = self.inference.drawn.get((function, number), set())
        chains = {callee: self._backward_in(callee, above) for callee in sorted(callees)}
        found = [chain for chain in chains.values() if chain is not None]
        sure = {c for c in callees - drawn if not self.is_abstract(c)}
        certain = sure and all(chains[c] is not None for c in sure)
        any_of = any(chains[c] is not None for c in drawn) or self._is_drawn(function, number)
        if not found or not (certain or any_of):
            return None
        return min(found, key=lambda chain: (len(chain), chain))

    def _backward_in(self, function: str, above: frozenset[str]) -> tuple[Why, ...] | None:
        """The chain from the body of a function to the `backward()` that it runs."""
        state = self.inference.states.get(function)
        if function in above or state is None or function not in self._trains:
            return None
        above |= {function}
        found: tuple[Why, ...] | None = None
        for number, node in enumerate(state.graph.nodes):
            if node.op != "call" or self._opens_region(state, node.block):
                continue
            chain = self._backward(function, number, above)
            if chain is None or (found is not None and len(chain) >= len(found) - 1):
                continue
            place = Place(self._path(function), *node.location)
            text = "runs `backward()` here"
            if chain or not self._is_backward(function, number):
                callees = sorted(self.inference.edges.get((function, number), ()))
                text = f"calls `{self.inference.functions[callees[0]].name}` here"
            found = (Why(place, text), *chain)
        return found

    def is_abstract(self, function: str) -> bool:
        """Whether the method is there to be overridden: it calls and returns nothing, or raises."""
        state = self.inference.states.get(function)
        if state is None or "abstractmethod" in self.inference.functions[function].decorated:
            return True
        nodes = state.graph.nodes
        works = any(node.op in ("call", "return") for node in nodes)
        return not works or any(node.op == "raise" and node.block == 0 for node in nodes)

    def _is_drawn(self, function: str, number: int) -> bool:
        """Whether what is called is a method of what a loop draws from a collection."""
        nodes = self.inference.states[function].graph.nodes
        current = nodes[nodes[number].operands[0]]
        for _ in range(6):
            if current.op == "iter":
                return True
            if current.op == "call" and len(current.operands) > 1:
                current = nodes[current.operands[1]]  # getattr(callback, event)
            elif current.op in ("attr", "unpack", "narrow", "subscript"):
                current = nodes[current.operands[0]]
            else:
                return False
        return False

    # -- events

    def _find_events(self) -> None:
        for function, state in self.inference.states.items():
            self._events[function] = [
                number
                for number, node in enumerate(state.graph.nodes)
                if node.op == "call"
                and (self._is_backward(function, number) or self.is_step(function, number))
            ]
        self._trains = {function for function, events in self._events.items() if events}
        stack = list(self._trains)
        while stack:
            for caller, _ in self.callers.get(stack.pop(), ()):
                if caller not in self._trains:
                    self._trains.add(caller)
                    stack.append(caller)

    def _is_backward(self, function: str, number: int) -> bool:
        state = self.inference.states[function]
        node = state.graph.nodes[number]
        if node.op != "call":
            return False
        callee = state.graph.nodes[node.operands[0]]
        for atom in state.values[node.operands[0]]:
            if isinstance(atom, Symbol) and atom.name == "torch.autograd.backward":
                return True
            if isinstance(atom, Symbol) and atom.name == "torch.autograd.grad":
                # With `create_graph` it is part of a forward pass: a gradient penalty.
                return "create_graph" not in node.data.keywords
            if isinstance(atom, Method) and atom.name in ("backward", "manual_backward"):
                # Numbers have no such method: what is known of the loss is then not all.
                number = isinstance(atom.of, Host) and atom.of.kind in NUMBERS
                return number or not isinstance(atom.of, Host | Sequence)
        if callee.op == "attr" and callee.data in ("backward", "manual_backward"):
            owners = state.values[callee.operands[0]]
            known = all(isinstance(a, Instance | Module | Symbol) for a in owners) and owners
            return not known and set(node.data.keywords) <= BACKWARD_KEYWORDS
        return False

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

    # -- loops

    def _find_batch_loops(self) -> None:
        """Loops over loaders first; then, to a fixpoint, the innermost ones around what trains."""
        for function, state in self.inference.states.items():
            loops = self._batch_loops[function] = {}
            for number, block in enumerate(state.graph.blocks):
                if block.kind in ("loop", "comprehension") and self._iterates_loader(state, block):
                    loops[number] = EVALUATION
        queue = dict.fromkeys(f for f in self.inference.states if f in self._trains)
        while queue:
            function, _ = queue.popitem()
            state, per_call = self.inference.states[function], function in self._per_call
            events = set(self._events[function])
            for number, node in enumerate(state.graph.nodes):
                if node.op != "call":
                    continue
                callees = self.inference.edges.get((function, number), set())
                direct = number in events or not callees.isdisjoint(self._per_call)
                if direct or not callees.isdisjoint(self._trains):
                    self._note_training(function, state, number, direct)
            if function in self._per_call and not per_call:
                callers = (caller for caller, _ in self.callers.get(function, ()))
                queue.update(dict.fromkeys(c for c in callers if c in self.inference.states))

    def _note_training(self, function: str, state: State, number: int, direct: bool) -> None:
        """Mark the loops around something that trains, or the function, if there is none."""
        if PREDICTION.search(self.inference.functions[function].name):
            return
        loops = self._batch_loops[function]
        around = [
            block for block in self._chain(state.graph, state.graph.nodes[number].block)
            if state.graph.blocks[block].kind in LOOPS and not self._over_few(state, block)
        ]  # fmt: skip
        if direct and around:
            loops[around[0]] = TRAINING
        if direct and not around:
            self._per_call.add(function)
        for block in around:
            if loops.get(block) == EVALUATION:
                loops[block] = TRAINING

    def _iterates_loader(self, state: State, block: Block) -> bool:
        return any(
            is_loader(atom) or (isinstance(atom, Instance) and self.inference.is_loader(atom.cls))
            for atom in state.values[block.node]
        )

    def _over_few(self, state: State, block: int) -> bool:
        """A loop over the optimizers, the models or the parameters is not one over batches."""
        facts = state.graph.blocks[block]
        if facts.kind == "while":
            return False
        if self._iterates_loader(state, facts):
            return False
        few = False
        for atom in state.values[facts.node]:
            if isinstance(atom, Sequence) and not atom.batches:
                inside = atom.items if atom.items is not None else (atom.element,)
                kinds = [a for value in inside for a in value if a != Unknown()]
                few |= bool(kinds) and all(isinstance(a, Object | Instance) for a in kinds)
            few |= isinstance(atom, Object) and atom.kind == "parameters"
        return few

    # -- spreading

    def _spread(self) -> None:
        """Heat flows along calls from hot places, the hottest and shortest chain first."""
        for function in sorted(self.inference.states):
            found = self._by_definition(function)
            if found is not None:
                self._reached[function] = found
        grown = True
        while grown:
            grown = False
            for callee, sites in sorted(self.callers.items()):
                if self._is_cold_function(callee) or callee not in self.inference.states:
                    continue
                best = self._reached.get(callee)
                for caller, number in sites:
                    found = self._through(caller, number, callee)
                    if found is not None and (best is None or found.rank < best.rank):
                        best = self._reached[callee] = found
                        grown = True

    def _by_definition(self, function: str) -> Reached | None:
        """The heat of a function that a framework runs for every batch, by what it is."""
        facts = self.inference.functions[function]

        def found(text: str, reach: int, temperature: str = TRAINING) -> Reached:
            return Reached(temperature, (Why(Place(facts.path, *facts.location), text),), reach)

        if self._is_training_step(function):
            return found("hot: a step of training", REACH_OF_LOOP)
        if facts.name in libraries.CLIPPING and facts.kind == "function" and facts.params:
            return found("hot: gradients are clipped in every step", REACH_OF_LOOP)
        if self._is_part_of_forward(function):
            return found("hot: part of a forward pass", REACH_OF_DEFINITION)
        if function in self._differentiated:
            return found("hot: part of an operator with a gradient", REACH_OF_LEARNING)
        if facts.cls is None:
            return None
        if facts.name == "step" and self.inference.steps(facts.cls):
            return found("hot: an optimizer's step runs for every batch", REACH_OF_LOOP)
        if facts.name == "training_step":  # of a mixin, too, that is no module by itself
            return found("hot: `training_step` runs for every batch", REACH_OF_LEARNING)
        if facts.name in libraries.TRAINING_HOOKS and self.inference.is_callback(facts.cls):
            return found(f"hot: `{facts.name}` runs for every batch", REACH_OF_DEFINITION)
        if self.inference.is_autograd_function(facts.cls):
            text = f"hot: the `{facts.name}` of a Function runs for every batch"
            steps = facts.name in ("forward", "backward")
            return found(text, REACH_OF_LEARNING) if steps else None
        if not self.inference.is_module(facts.cls):
            return None
        if facts.name in TRAINING_METHODS and self.inference.is_metric(facts.cls):
            text = "a metric is computed for every batch of evaluation"
            return found(text, REACH_OF_DEFINITION, EVALUATION)
        if facts.name in TRAINING_METHODS:
            learns = self.inference.learns(facts.cls)
            reach = REACH_OF_LEARNING if learns else REACH_OF_DEFINITION
            return found(f"hot: `{facts.name}` runs for every batch", reach)
        if facts.name in EVALUATION_METHODS:
            text = f"`{facts.name}` runs for every batch of evaluation"
            return found(text, REACH_OF_DEFINITION, EVALUATION)
        return None

    def _declared(self, function: str) -> list[Value]:
        """What the annotations say of the parameters."""
        state = self.inference.states[function]
        return [
            annotated(state.values[node.operands[0]], NO_DEVICE)
            for node in state.graph.nodes
            if node.op == "param" and node.operands
        ]

    def _is_part_of_forward(self, function: str) -> bool:
        """The `__call__` of an object that is given a module and tensors, by its annotations, and
        is called by what is out of sight: the processor of an attention layer."""
        facts = self.inference.functions[function]
        if facts.name != "__call__" or facts.cls is None:
            return False
        if PREDICTOR.search(self.inference.classes[facts.cls].name):
            return False
        declared = self._declared(function)
        tensors = sum(any(isinstance(a, Tensor) for a in value) for value in declared)
        return tensors > 1 and any(
            (isinstance(a, Instance) and self.inference.is_module(a.cls))
            or (isinstance(a, Object) and a.kind == "module")
            for value in declared
            for a in value
        )

    def _is_training_step(self, function: str) -> bool:
        """A function that runs the backward pass of a loss and steps an optimizer that it is given,
        and that nobody is seen to call: an engine will, for every batch."""
        facts = self.inference.functions[function]
        if function not in self._per_call or function in self.callers:
            return False
        if facts.kind != "function" or not facts.params or facts.name.startswith("test"):
            return False
        state, events = self.inference.states[function], self._events[function]
        steps = [n for n in events if self.is_step(function, n)]
        given = all(self._is_given(state, state.graph.nodes[n].operands[0]) for n in steps)
        return bool(steps) and given and any(self._is_backward(function, n) for n in events)

    def _is_given(self, state: State, number: int) -> bool:
        """Whether a value comes from outside the function."""
        node = state.graph.nodes[number]
        while node.op in ("attr", "narrow", "subscript"):
            node = state.graph.nodes[node.operands[0]]
        return node.op in ("param", "name")

    def _through(self, caller: str, number: int, callee: str) -> Reached | None:
        state = self.inference.states.get(caller)
        if state is None or caller == callee:
            return None
        node = state.graph.nodes[number]
        found = self._heat_of(caller, node.block)
        if found is None or len(found.chain) > found.reach:
            return None
        per = "every batch" if found.temperature == TRAINING else "every batch of evaluation"
        why = Why(Place(self._path(caller), *node.location), f"hot: called here for {per}")
        return Reached(found.temperature, (why, *found.chain), found.reach)

    def _heat_of(self, function: str, block: int) -> Reached | None:
        state = self.inference.states[function]
        loops = self._batch_loops.get(function, {})
        evaluation = False
        for current in self._chain(state.graph, block):
            facts = state.graph.blocks[current]
            if current in loops:
                temperature = EVALUATION if evaluation else loops[current]
                text = (
                    "hot: this loop runs for every batch"
                    if temperature == TRAINING
                    else "this loop runs for every batch of evaluation"
                )
                location = _head(facts)
                return Reached(temperature, (Why(Place(self._path(function), *location), text),))
            if self._is_cold(function, state, facts, current):
                return None
            evaluation |= self._is_evaluation(state, facts)
        if self._is_cold_function(function):
            return None
        found = self._reached.get(function)
        evaluation |= self._switches_to_evaluation(function, state)
        if found is not None and evaluation and found.temperature == TRAINING:
            return Reached(EVALUATION, found.chain, found.reach)
        return found

    def _switches_to_evaluation(self, function: str, state: State) -> bool:
        """Whether the function calls `model.eval()` first of all, and trains nothing."""
        if function in self._trains:
            return False
        if function not in self._evaluates:
            self._evaluates[function] = self._calls_eval(state)
        return self._evaluates[function]

    def _calls_eval(self, state: State) -> bool:
        return any(
            node.op == "call"
            and len(node.operands) == 1
            and node.block == 0
            and (state.graph.nodes[node.operands[0]].op, state.graph.nodes[node.operands[0]].data)
            == ("attr", "eval")
            for node in state.graph.nodes
        )

    def _is_cold_function(self, function: str) -> bool:
        facts = self.inference.functions[function]
        if any(map(MEMOISES.search, facts.decorated)):
            return True  # once for what it is called with, not for every batch
        return facts.name in COLD_FUNCTIONS or facts.name.lstrip("_") in COLD_FUNCTIONS

    # -- guards

    def _is_evaluation(self, state: State, block: Block) -> bool:
        """`if not self.training`, the other side of `if self.training`, `with eval_mode(model)`."""
        if block.kind == "with" and block.node >= 0:
            context = state.graph.nodes[block.node]
            name = self._last_name(state, context.operands[0]) if context.op == "call" else ""
            return bool(EVALUATION_CONTEXT.search(name))
        if block.kind not in ("if", "else", "after") or block.node < 0:
            return False
        node, holds = state.graph.nodes[block.node], block.kind == "if"
        while node.op == "unary" and node.data == "Not":
            node, holds = state.graph.nodes[node.operands[0]], not holds
        return node.op == "attr" and node.data == "training" and not holds

    def _is_cold(self, function: str, state: State, block: Block, number: int) -> bool:
        if block.kind == "handler":
            return True
        if block.kind not in ("if", "else", "after") or block.node < 0:
            return False
        side = self._cold_side(function, state, block.node, 0)
        here = "if" if block.kind == "if" else "else"
        if side == here:
            return True
        return block.kind != "after" and number in self._raising(function, state)

    def _raising(self, function: str, state: State) -> frozenset[int]:
        """The blocks that end in an error, or warn of one."""
        if function not in self._rare:
            nodes = state.graph.nodes
            self._rare[function] = frozenset(
                node.block for node in nodes if node.op == "raise" or self._warns(state, node)
            )
        return self._rare[function]

    def _warns(self, state: State, node: Node) -> bool:
        """Ex) warnings.warn(...), logger.warning(...), logging.error(...), check(False, ...)"""
        if node.op != "call":
            return False
        first = state.graph.nodes[node.operands[1]] if len(node.operands) > 1 else None
        if first is not None and first.op == "const" and first.data is False:
            name = self._last_name(state, node.operands[0])
            return bool(CHECK.search(name))
        callee = state.graph.nodes[node.operands[0]]
        return callee.op == "attr" and callee.data in WARNINGS

    def _cold_side(self, function: str, state: State, number: int, depth: int) -> str | None:
        """On which side of a test the code runs rarely: "if", "else" or neither."""
        if depth > 8:
            return None
        node, inner = state.graph.nodes[number], depth + 1
        if node.op == "unary" and node.data == "Not":
            return _flip(self._cold_side(function, state, node.operands[0], inner))
        if node.op == "bool":
            sides = [self._cold_side(function, state, n, inner) for n in node.operands]
            both, either = ("if", "else") if node.data == "Or" else ("else", "if")
            if either in sides:
                return either
            return both if all(side == both for side in sides) else None
        if node.op == "binop" and node.data in ("Mod", "BitAnd") and self._is_number(state, node):
            return "else"
        if node.op == "narrow":
            return self._cold_side(function, state, node.operands[0], inner)
        if node.op == "compare":
            return self._cold_comparison(state, node)
        if node.op == "call":
            return self._cold_call(function, state, number, node, inner)
        if self._off_by_default(function, state, number):
            return "if"
        if node.op == "attr" and node.data == "is_cuda":
            return "else"
        return "if" if wishes_output(self._last_name(state, number)) else None

    def _last_name(self, state: State, number: int) -> str:
        """The last identifier of what is read: `verbose` of `self.args.verbose`."""
        node = state.graph.nodes[number]
        if node.op == "narrow":
            return self._last_name(state, node.operands[0])
        return str(node.data) if node.op in ("attr", "param", "name", "phi") and node.data else ""

    def _cold_comparison(self, state: State, node: Node) -> str | None:
        operator = node.data[0]
        if operator in ("IsNot", "Is"):
            if self._starts_as_none(state, node) or self._never_none(state, node):
                return "if" if operator == "Is" else "else"
            if wishes_output(self._last_name(state, node.operands[0])):
                return "if" if operator == "IsNot" else "else"
            return None
        side = self._host_only_side(state, node)
        if side is not None:
            return side
        rare = any(self._has_modulo(state, n, 0) for n in node.operands)
        rare |= any(self._is_clock(state, n, 0) for n in node.operands)
        if not rare and operator in ("Eq", "NotEq", "In", "NotIn"):
            rare = any(self._is_counter(state, n) for n in node.operands) and not any(
                isinstance(a, Tensor | Blob) for n in node.operands for a in state.values[n]
            )
        if not rare and operator in ("Gt", "GtE"):
            # `if step >= next_log`, which moves on each time.
            moving = state.graph.nodes[node.operands[1]].op == "phi"
            rare = moving and self._is_counter(state, node.operands[0])
        if not rare:
            # `if args.log_interval > 0` is a wish for output as much as the flag itself.
            return self._flag_comparison(state, node)
        return "else" if operator in ("NotEq", "NotIn") else "if"

    def _host_only_side(self, state: State, test: Node) -> str | None:
        """`x.device.type == "cpu"`: where nothing is on the device, or on a rare one."""
        left, right = (state.graph.nodes[n] for n in test.operands[:2])
        if right.op == "const" and right.data in RARE_DEVICES:
            return {"Eq": "if", "NotEq": "else"}.get(test.data[0])
        asks = left.op == "attr" and left.data == "type" and right.op == "const"
        device = state.graph.nodes[left.operands[0]] if asks else None
        if device is None or device.op != "attr" or device.data != "device":
            return None
        if right.data == "cpu":
            return {"Eq": "if", "NotEq": "else"}.get(test.data[0])
        return {"Eq": "else", "NotEq": "if"}.get(test.data[0]) if right.data == "cuda" else None

    def _starts_as_none(self, state: State, test: Node) -> bool:
        """`total is None`, where a loop goes on to give it a value: true once."""
        number = test.operands[0]
        node = state.graph.nodes[number]
        none = state.graph.nodes[test.operands[1]]
        return (
            node.op == "phi"
            and none.op == "const"
            and none.data is None
            and any(operand > number for operand in node.operands)
            and any(
                state.graph.nodes[n].op == "const" and state.graph.nodes[n].data is None
                for n in node.operands
            )
        )

    def _never_none(self, state: State, test: Node) -> bool:
        """`size is None`, where every call that is seen gives a size."""
        value = state.values[test.operands[0]]
        none = state.graph.nodes[test.operands[1]]
        is_none = none.op == "const" and none.data is None
        return is_none and bool(value) and NONE not in value and Unknown() not in value

    def _flag_comparison(self, state: State, node: Node) -> str | None:
        wished = wishes_output(self._last_name(state, node.operands[0]))
        return "if" if wished and node.data[0] in ("Gt", "GtE", "Eq") else None

    def _cold_call(
        self, function: str, state: State, number: int, node: Node, depth: int
    ) -> str | None:
        callee = state.graph.nodes[node.operands[0]]
        name = str(callee.data) if callee.op in ("attr", "name") else ""
        if name in ("any", "all", "bool", "item") and depth < 6:
            inner = [*node.operands[1:], *callee.operands]
            sides = [self._cold_side(function, state, n, depth) for n in inner]
            return next((side for side in sides if side), None)
        asked = {a.name for a in state.values[node.operands[0]] if isinstance(a, Symbol)}
        if name in NONFINITE or OF_RARE_DEVICE.search(name) or asked & libraries.EXPORTING:
            return "if"
        if name == "isfinite":
            return "else"
        if wishes_output(name):
            return "if"
        for callee_id in self.inference.edges.get((function, number), ()):
            # `if self.every_n(step):`, whose body returns such a test.
            inner_state = self.inference.states.get(callee_id)
            if inner_state is not None and depth < 4:
                for returned in inner_state.graph.returns:
                    operand = inner_state.graph.nodes[returned].operands
                    if (
                        operand
                        and self._cold_side(callee_id, inner_state, operand[0], depth + 3) == "if"
                    ):
                        return "if"
        return None

    def _has_modulo(self, state: State, number: int, depth: int) -> bool:
        node = state.graph.nodes[number]
        if node.op == "binop" and node.data in ("Mod", "BitAnd"):
            return self._is_number(state, node)
        return (
            depth < 4
            and node.op in ("binop", "unary", "narrow")
            and any(self._has_modulo(state, n, depth + 1) for n in node.operands)
        )

    def _is_number(self, state: State, node: Node) -> bool:
        """`step % n`, not `"%s" % x` nor a tensor's remainder."""
        left = state.values[node.operands[0]]
        return not any(
            isinstance(a, Tensor | Blob) or (isinstance(a, Host) and a.kind == "str") for a in left
        )

    def _is_clock(self, state: State, number: int, depth: int) -> bool:
        node = state.graph.nodes[number]
        if node.op == "call":
            return any(
                isinstance(a, Symbol) and a.name.startswith("time.")
                for a in state.values[node.operands[0]]
            )
        return (
            depth < 4
            and node.op == "binop"
            and any(self._is_clock(state, n, depth + 1) for n in node.operands)
        )

    def _is_counter(self, state: State, number: int) -> bool:
        """Whether the node counts iterations: the variable of a loop, or `step + 1`."""
        node = state.graph.nodes[number]
        if node.op == "binop" and node.data in ("Add", "Sub", "FloorDiv"):
            return any(self._is_counter(state, n) for n in node.operands)
        if node.op == "unpack" and state.graph.nodes[node.operands[0]].op != "iter":
            return False  # `n, d = x.shape`
        if node.op in ("iter", "unpack", "aug") or (node.op == "phi" and node.data):
            return all(
                isinstance(a, Host) and a.kind in ("int", "number") for a in state.values[number]
            )
        return bool(COUNTER.search(self._last_name(state, number)))

    def _off_by_default(self, function: str, state: State, number: int) -> bool:
        """A flag whose default is False, and that nobody is seen to set."""
        node = state.graph.nodes[number]
        if node.op == "param":
            parameter = next(
                (p for p in self.inference.functions[function].params if p.name == node.data), None
            )
            return (
                parameter is not None and parameter.constant_default and parameter.default is False
            )
        if node.op == "attr" and node.data in self.inference.off_flags:
            return True
        if node.op in ("attr", "name", "phi"):
            value: Value = state.values[number]
            off = Host("bool", False, True)
            return off in value and value <= {off, NONE, Unknown()}
        return False

    # -- small things

    def _opens_region(self, state: State, block: int) -> bool:
        return any(
            state.graph.blocks[b].kind == "with"
            and any(isinstance(a, Autocast) for a in state.values[state.graph.blocks[b].node])
            for b in self._chain(state.graph, block)
        )

    def _chain(self, graph: Graph, block: int) -> Iterator[int]:
        while block >= 0:
            yield block
            block = graph.blocks[block].parent

    def _path(self, function: str) -> str:
        return self.inference.functions[function].path


def wishes_output(name: str) -> bool:
    """Whether a flag of this name asks for output: `verbose`, `log_interval`; a filter of losses
    (`logging_nan_inf_filter`) is on whatever is logged."""
    return bool(OUTPUT_FLAG.search(name)) and not NUMERIC_CHECK.search(name)


def _head(block: Block) -> tuple[int, int, int, int]:
    """A loop is shown by its first line alone."""
    row, column, _, _ = block.location
    return (row, column, row, column + 3)


def _flip(side: str | None) -> str | None:
    return {"if": "else", "else": "if"}.get(side or "")


__all__ = ["ACCELERATOR", "EVALUATION", "TRAINING", "HeatMap"]
