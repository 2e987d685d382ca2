"""How often a node runs: for every batch of training, for every batch of evaluation, or rarely.

A loop is a *batch loop* when it iterates a loader, or is the innermost one around a `backward()` or
an optimizer's step, its own or that of a function it calls. A function is hot when a hot place
calls it, or when it is a `forward` or a `training_step`. Some guards make what is inside cold
(`cold_guards`), and the loops of a library module's self-test are none (`self_tests`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from amplint.analyses.backward_calls import BackwardCalls
from amplint.analyses.cold_guards import ColdGuards
from amplint.analyses.self_tests import SelfTests
from amplint.facts.call_guards import CallGuards
from amplint.facts.callers import Callers
from amplint.facts.fact import Fact, PlaceFact, Required
from amplint.frameworks.schema import OF_TRAINING
from amplint.inference import Inference, SiteId, State, annotated, transfer
from amplint.inference.incremental.continuation import FixpointEdit
from amplint.ir import ops
from amplint.ir.ast_cache import NodePlace
from amplint.ir.flow import PARTS, method_called
from amplint.ir.model import LOOPS, Block, Graph, path_of
from amplint.knowledge import libraries
from amplint.knowledge.vocabulary import (
    CLIPS_GRADIENTS,
    COLD_FUNCTIONS,
    COLD_WITHOUT_ARGUMENTS,
    COMPUTES_LOSS,
    EVALUATES,
    EVALUATION_METHODS,
    EVALUATOR,
    EXPORT_PATH,
    GENERATES,
    HANDLES_CHECKPOINTS,
    LOADER,
    MEMOISES,
    NO_LOSS,
    OPTIMIZER,
    SETUP,
    TRAINING_METHODS,
    TRAINING_STEPS,
)
from amplint.util.positions import Place
from amplint.util.walks import reachable
from amplint.values.atoms import (
    ACCELERATOR,
    NO_DEVICE,
    Atom,
    DType,
    Evidence,
    Heat,
    Host,
    Instance,
    Object,
    Sequence,
    Shows,
    Super,
    Symbol,
    Tensor,
    Unknown,
    Value,
)
from amplint.values.lattice import only

# How many calls hotness travels: far from a loop that was seen, and from the `forward` of what has
# parameters or is a loss; not far from that of other modules, many of which never train (an
# algorithm of geometry, say).
REACH_OF_LOOP, REACH_OF_LEARNING, REACH_OF_DEFINITION = 6, 4, 2
REACH_OF_HOOK = 1  # many are there to debug, and what they call is about that
# No chain has more steps than these and one, of which those of an object to itself are no distance.
LONGEST = 12
# A call of one of more methods than these says little about each: `layer.check(x)` of any layer.
FEW_METHODS = 6
TRAINING, EVALUATION = "training", "evaluation"

MAX_WRAPPERS = 4  # around a loader: `enumerate(tqdm(loader))`


class HotnessStep(NamedTuple):
    """One of the places by which hotness comes to a function.

    It is named by what moves with the code, and not by its row, so that an edit above it changes
    nothing.

    Args:
        function: that it stands in.
        number: of the node of a call, of the block of a loop; -1 for the function itself.
        kind: one of CALLED, LOOP and DEFINED.
        temperature: of what stands there.
    """

    function: str
    number: int
    kind: str
    temperature: str


CALLED, LOOP, DEFINED = "called", "loop", "defined"


@dataclass(frozen=True)
class Reached:
    """How hotness came to a function: its temperature, and the steps, the nearest one first."""

    temperature: str
    chain: tuple[HotnessStep, ...]
    reach: int = REACH_OF_LOOP  # how far the chain may get
    distance: int = 1  # of the chain: its steps, without the calls of an object of itself
    is_guess: bool = False  # one of its calls may run many methods

    @property
    def rank(self) -> tuple[int, bool, int, int, tuple[HotnessStep, ...]]:
        """Training before evaluation, what is seen before a guess, then what gets farthest, the
        shortest chain, by place.

        What goes on from a chain ranks behind it, so that the ranks of all functions are final
        by those before them, in whatever order they are found.
        """
        far = self.distance - self.reach
        return (self.temperature != TRAINING, self.is_guess, far, len(self.chain), self.chain)


@dataclass(frozen=True)
class HotDefinition:
    """Why a function is hot by what it is, and how many calls its hotness travels."""

    text: str
    reach: int
    temperature: str = TRAINING
    kind: Shows = Shows.STEP


def in_training(name: str, learns: bool, of_module: bool = False) -> HotDefinition:
    """The hotness of a method that runs for every batch; it travels farther where it `learns`."""
    computes = name == "forward" or COMPUTES_LOSS.search(name) is not None
    kind = Shows.FORWARD if of_module and computes else Shows.STEP
    reach = REACH_OF_LEARNING if learns else REACH_OF_DEFINITION
    of_model = "a model's " if of_module and name == "forward" else ""
    return HotDefinition(f"{of_model}`{name}`, once per training batch", reach, kind=kind)


def in_evaluation(name: str) -> HotDefinition:
    """The hotness of a method that runs for every batch of evaluation."""
    text = f"`{name}`, once per evaluation batch"
    return HotDefinition(text, REACH_OF_DEFINITION, EVALUATION)


class Surroundings(NamedTuple):
    """The surroundings of a block of a function.

    loop: the innermost batch loop; -1 without one.
    cold, evaluation: whether a guard within that loop makes it cold, or lets it run in evaluation
        alone.
    """

    loop: int = -1
    cold: bool = False
    evaluation: bool = False


class TrainingCall(NamedTuple):
    """A call that trains; not `direct`, it only leads to one."""

    function: str
    number: int
    direct: bool


class CallsByBlock(NamedTuple):
    """The calls of a function that train.

    Args:
        calls: their nodes.
        blocks: how many stand in each block.
    """

    calls: frozenset[int]
    blocks: Mapping[int, int]


class Hotness(PlaceFact[Heat]):
    """Why a node runs for every batch; None where it is cold, or nothing says that it is hot."""

    _callers = Required(Callers)
    _backward_calls = Required(BackwardCalls)
    _guards = Required(ColdGuards)
    _call_tests = Required(CallGuards)
    _self_tests = Required(SelfTests)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._evaluates: dict[str, bool] = {}
        self._per_call: set[str] = set()
        self._called_in_loops: set[str] = set()  # those of them
        self._over_loaders: dict[str, tuple[int, ...]] = {}  # by function: blocks
        self._evaluated: dict[str, tuple[int, ...]] = {}  # of those that train nothing
        self._batch_loops: dict[str, dict[int, str]] = {}
        self._epoch_loops: dict[str, set[int]] = {}
        self._surroundings: dict[str, list[Surroundings]] = {}
        self._updating: dict[str, frozenset[int]] = {}
        self._whole_steps: dict[str, frozenset[int]] = {}  # by function: blocks
        self._definitions: dict[str, HotDefinition] = {}
        self._reached: dict[str, Reached] = {}
        # by function: those that hotness may take
        self._calls: dict[str, list[tuple[int, str]]] = {}
        self._hot_calls: dict[str, Mapping[SiteId, str]] = {}
        self._kinds: dict[str, tuple[bool, bool]] = {}
        self._hooks = inference.hierarchy.hooks()
        self._trains = frozenset(self._backward_calls.trains)
        self._find_batch_loops()
        self._spread()

    def follow(self, inference: Inference, edit: FixpointEdit) -> bool:
        self.inference = inference
        if edit.moves is not None:
            return True
        functions = inference.functions
        loops, surroundings = self._batch_loops, self._surroundings
        whole_steps = self._whole_steps
        of_functions: tuple[dict[str, Any], ...] = (
            self._evaluates, self._evaluated, self._updating, self._over_loaders,
        )  # fmt: skip
        for memo in of_functions:
            for function in edit.functions & memo.keys():
                del memo[function]
        has_other_classes = edit.has_other_bases or any(
            each in functions and functions[each].kind == "class" for each in edit.functions
        )
        if has_other_classes:
            self._kinds = {}
        # Those whose definitions rest on others.
        suspects = {*self._per_call, *self._hooks}
        self._batch_loops, self._per_call, self._hot_calls = {}, set(), {}
        self._hooks = inference.hierarchy.hooks()
        trained, self._trains = self._trains, frozenset(self._backward_calls.trains)
        self._find_batch_loops()
        suspects |= {*self._per_call, *self._hooks}
        changed = {
            *edit.functions,
            *self._guards.dropped,
            *(trained ^ self._trains),
            *differing(loops, self._batch_loops),
            *differing(whole_steps, self._whole_steps),
        }
        self._surroundings = {
            function: around for function, around in surroundings.items() if function not in changed
        }
        callees = {callee for function in changed for _, callee in self._calls.get(function, ())}
        for function in changed:
            self._calls[function] = self._find_calls(function)
            callees.update(callee for _, callee in self._calls[function])
        suspects |= changed | callees
        definitions = {**self._definitions}
        self._define(inference.states if has_other_classes else suspects)
        self._spread_anew({*changed, *callees, *differing(definitions, self._definitions)})
        return True

    # -- questions

    def of(self, at: NodePlace) -> Heat | None:
        heat = self._reached_by(at.function, at.block)
        if heat is None:
            return None
        return Heat(heat.temperature, tuple(map(self._evidence, heat.chain)), heat.is_guess)

    def temperature(self, function: str, block: int) -> str | None:
        """How often a block of a function runs; None as above."""
        heat = self._reached_by(function, block)
        return heat.temperature if heat is not None else None

    def temperatures(self, function: str) -> list[str | None]:
        """How often each block of a function runs; none where all are cold, or nothing is known."""
        if function not in self._reached and not self._batch_loops.get(function):
            return []
        blocks = range(len(self.inference.states[function].graph.blocks))
        return [self.temperature(function, block) for block in blocks]

    def _reached_by(self, function: str, block: int) -> Reached | None:
        heat = self._heat_of(function, block)
        return None if heat is None or self._is_left_out(function, block) else heat

    def is_hot(self, function: str) -> bool:
        """Whether anything in the function may run for every batch of training."""
        reached = self._reached.get(function)
        return TRAINING in self._batch_loops.get(function, {}).values() or (
            reached is not None and reached.temperature == TRAINING
        )

    def training_loops(self, function: str) -> list[int]:
        """The blocks of a function that are loops over the batches of training, in their order."""
        loops = self._batch_loops.get(function, {})
        return sorted(block for block, heat in loops.items() if heat == TRAINING)

    # -- loops

    def _find_batch_loops(self) -> None:
        """Loops over loaders first; then, to a fixpoint, the innermost ones around what trains."""
        for function, state in self.inference.states.items():
            if function not in self._over_loaders:
                self._over_loaders[function] = tuple(self._loops_over_loaders(state))
            over = self._over_loaders[function]
            if function not in self._backward_calls.trains:
                if function not in self._evaluated:
                    self._evaluated[function] = tuple(self._loops_of_evaluation(function, state))
                over += self._evaluated[function]
            self._batch_loops[function] = dict.fromkeys(over, EVALUATION)
        stack = self._training_calls()
        training: dict[str, list[int]] = {}
        for function, number, _ in stack:
            training.setdefault(function, []).append(number)
        climbed = self._climb(stack)
        for function, block in self._self_tests.loops:
            self._batch_loops[function].pop(block, None)
        self._whole_steps = self._find_whole_steps(training)
        self._epoch_loops = {function: set() for function, _ in climbed}
        for function, loop in climbed:
            if self._goes_over_epochs(function, loop):
                self._epoch_loops[function].add(loop)

    def _training_calls(self) -> list[TrainingCall]:
        """The calls that train, and those that lead to one."""
        calls, training = self._backward_calls, []
        for function in self.inference.states.keys() & calls.trains:
            events = set(calls.events[function])
            for number, node in enumerate(self.inference.states[function].graph.nodes):
                callees = self.inference.calls.edges.get((function, number), set())
                direct = number in events
                trains = not callees.isdisjoint(calls.trains)
                trains = trains and not calls.is_without_gradients(function, number)
                if node.op == ops.CALL and (direct or trains):
                    training.append(TrainingCall(function, number, direct))
            steps = self._steps_after_micro_batches(function)
            training += (TrainingCall(function, number, True) for number in steps)
        return training

    def _steps_after_micro_batches(self, function: str) -> list[int]:
        """The steps of what is called an optimizer after a loop that runs a backward pass for each
        part of the batch, and steps nothing: the loop around both is the one over batches."""
        calls, state = self._backward_calls, self.inference.states[function]
        nodes = state.graph.nodes
        passes = [n for n in calls.events[function] if calls.is_backward(function, n)]
        named = self._steps_by_name(state) if passes else []
        if not named:
            return []
        around = self._enclosing_loops(function)
        within = {loop for n in passes if (loop := around[nodes[n].block]) >= 0}
        steps = named + [n for n in calls.events[function] if calls.is_step(function, n)]
        if any(within.intersection(chain_of(state, nodes[n].block)) for n in steps):
            return []
        outer = {loop for each in within for loop in chain_of(state, each) if loop != each}
        return [n for n in named if around[nodes[n].block] in outer]

    def _climb(self, calls: Iterable[TrainingCall]) -> set[tuple[str, int]]:
        """Mark the innermost loops around calls as loops of training, through the functions that
        train in no loop of theirs. Returns all loops around, each a function and a block."""
        stack = [*calls]
        functions = {call.function for call in stack}
        enclosing = {function: self._enclosing_loops(function) for function in functions}
        epochs = {call.function for call in stack if self._is_in_loader(*call[:2])}
        climbed: set[tuple[str, int]] = set()
        while stack:
            function, number, direct = stack.pop()
            if EVALUATES.search(self.inference.functions[function].name):
                continue
            graph, loops = self.inference.states[function].graph, self._batch_loops[function]
            around = enclosing[function]
            loop = around[graph.nodes[number].block]
            if direct and loop >= 0:
                loops[loop] = TRAINING
            elif direct and function not in self._per_call and function not in epochs:
                self._per_call.add(function)
                stack += [
                    TrainingCall(caller, call, True)
                    for caller, call in self._callers.sites.get(function, ())
                    if caller in enclosing
                    and not self._backward_calls.is_without_gradients(caller, call)
                ]
            while loop >= 0 and (function, loop) not in climbed:
                climbed.add((function, loop))
                if loops.get(loop) == EVALUATION:
                    loops[loop] = TRAINING
                parent = graph.blocks[loop].parent
                loop = around[parent] if parent >= 0 else -1
        return climbed

    def _find_whole_steps(self, training: Mapping[str, list[int]]) -> dict[str, frozenset[int]]:
        """By function: the blocks that hold all that trains in a batch loop, or in a function that
        alone trains in the loops that call it.

        Ex) `if steps % 4 == 0: self.learn()`, in a loop over the steps of an environment

        What runs every time that something is learnt runs for every batch, however many rounds of
        the loop learn nothing.

        Args:
            training: by function, the calls that train or lead to what does.
        """
        whole_steps: dict[str, frozenset[int]] = {}
        with_others = self._training_with_others(training)
        for function, calls in training.items():
            state, loops = self.inference.states[function], self._batch_loops[function]
            within: dict[int, list[set[int]]] = {-1: []}  # by loop: the blocks around each call
            nesting: set[int] = set()  # the loops around other loops that train
            for number in calls:
                chain = chain_of(state, state.graph.nodes[number].block)
                around = [position for position, block in enumerate(chain) if block in loops]
                innermost = around[0] if around else len(chain)
                within.setdefault(chain[innermost] if around else -1, []).append(
                    set(chain[:innermost])
                )
                nesting |= {-1 if around else -2, *(chain[position] for position in around[1:])}
            if function not in self._per_call or function in with_others:
                nesting.add(-1)
            whole_steps[function] = frozenset().union(
                *(
                    set.intersection(*blocks)
                    for loop, blocks in within.items()
                    if blocks and loop not in nesting
                )
            )
        return whole_steps

    def _training_with_others(self, training: Mapping[str, list[int]]) -> set[str]:
        """The functions beside which something else trains in a loop over batches that calls them,
        itself or through functions without such a loop."""
        shared: list[str] = []
        below: dict[str, list[str]] = {}  # by caller: those that it calls outside of such loops
        within = {caller: self._calls_by_block(caller, calls) for caller, calls in training.items()}
        for function in training:
            for caller, number in self._callers.sites.get(function, ()):
                counted = within.get(caller)
                if counted is None or number not in counted.calls:
                    continue
                state, loops = self.inference.states[caller], self._batch_loops[caller]
                chain = chain_of(state, state.graph.nodes[number].block)
                loop = next((block for block in chain if block in loops), -1)
                if (counted.blocks[loop] if loop >= 0 else len(counted.calls)) > 1:
                    shared.append(function)
                if loop < 0:
                    below.setdefault(caller, []).append(function)
        return set(reachable(shared, lambda each: below.get(each, ())))

    def _calls_by_block(self, function: str, calls: Collection[int]) -> CallsByBlock:
        state = self.inference.states[function]
        chains = (chain_of(state, state.graph.nodes[number].block) for number in calls)
        return CallsByBlock(frozenset(calls), Counter(block for chain in chains for block in chain))

    def _goes_over_epochs(self, function: str, loop: int) -> bool:
        """Whether a loop around training counts epochs: `for epoch in range(n)`, around loops over
        batches that count nothing, or around calls of what has such loops."""
        loops, state = self._batch_loops[function], self.inference.states[function]
        if loop in loops or not counts(state, loop):
            return False
        within = (each for each in loops if loop in chain_of(state, each))
        return not any(counts(state, each) for each in within)

    def is_once_per_epoch(self, function: str, block: int) -> bool:
        """Whether a block runs once an epoch, wherever it is seen to be called."""
        waiting, trail, has_loop = [(function, block)], {function}, False
        while waiting:
            function, block = waiting.pop()
            state = self.inference.states.get(function)
            if state is None:
                return False
            around = [b for b in chain_of(state, block) if state.graph.blocks[b].kind in LOOPS]
            if around and around[0] not in self._epoch_loops.get(function, ()):
                return False
            has_loop |= bool(around)
            if not around:
                sites = self._callers.sites.get(function, ())
                if not sites or function in self._definitions:
                    return False
                for caller, number in sites:
                    if caller in self.inference.states and caller not in trail:
                        trail.add(caller)
                        node = self.inference.states[caller].graph.nodes[number]
                        waiting.append((caller, node.block))
        return has_loop

    def _is_in_loader(self, function: str, number: int) -> bool:
        """Whether a node stands in a loop over a loader: its function is an epoch, and what else
        trains in it does so once, as the step that is left over at the end."""
        state, loops = self.inference.states[function], self._batch_loops[function]
        block = state.graph.nodes[number].block
        while block >= 0 and block not in loops:
            block = state.graph.blocks[block].parent
        return block >= 0

    def _returns_without_gradients(self, function: str) -> bool:
        """Whether all that a function returns is made where gradients are off: it trains nothing
        by itself, as a safety checker or a search."""
        nodes = self.inference.states[function].graph.nodes
        returned = [number for number, node in enumerate(nodes) if node.op == ops.RETURN]
        return bool(returned) and all(
            self._backward_calls.is_without_gradients(function, each) for each in returned
        )

    def _enclosing_loops(self, function: str) -> list[int]:
        """By block: the innermost loop around it, or itself, that may be one over batches; -1
        without one."""
        state = self.inference.states[function]
        loops: list[int] = []
        stepped = self._stepped_one_by_one(state)
        for number, block in enumerate(state.graph.blocks):
            over_few = block.node in stepped or self._over_few(state, number)
            own = block.kind in LOOPS and not over_few
            loops.append(number if own else loops[block.parent] if block.parent >= 0 else -1)
        return loops

    def _loops_over_loaders(self, state: State) -> Iterable[int]:
        return (
            number
            for number, block in enumerate(state.graph.blocks)
            if block.kind in ("loop", "comprehension") and self._iterates_loader(state, block)
        )

    def _iterates_loader(self, state: State, block: Block) -> bool:
        return self.inference.hierarchy.gives_batches(state.values[block.node])

    def _loops_of_evaluation(self, function: str, state: State) -> Iterator[int]:
        """The loops over what is called a loader, and of which nothing else is known, where a
        function evaluates: by its name, after `model.eval()`, or without gradients."""
        is_named = EVALUATES.search(self.inference.functions[function].name) is not None
        for number, block in enumerate(state.graph.blocks):
            if block.kind in ("loop", "comprehension") and is_called_loader(state, block.node):
                evaluates = is_named or self._evaluates_by_calls(function, state)
                off = self._backward_calls.blocks_without_gradients(function)
                if evaluates or number in off:
                    yield number

    def _over_few(self, state: State, block: int) -> bool:
        """A loop over the optimizers, the models or the parameters is not one over batches, nor is
        one over constants that are written out, as those of a check of gradients."""
        facts = state.graph.blocks[block]
        if facts.kind == "while":
            return False
        if self._iterates_loader(state, facts):
            return False
        few = False
        for atom in state.values[facts.node]:
            if isinstance(atom, Sequence) and not atom.batches:
                inside = atom.items if atom.items is not None else (atom.element,)
                few |= bool(atom.items) and all(map(is_constant, inside))
                kinds = [a for value in inside for a in value if not isinstance(a, Unknown)]
                few |= bool(kinds) and not any(map(self._may_be_batch, kinds))
            few |= isinstance(atom, Object) and atom.kind == "parameters"
        return few

    def _may_be_batch(self, atom: Atom) -> bool:
        """Whether it is no object, or one whose class holds what it is given, and no more."""
        if isinstance(atom, Instance):
            return self.inference.hierarchy.is_dataclass(atom.cls)
        return not isinstance(atom, Object)

    # -- spreading

    def _spread(self) -> None:
        """Hotness flows along calls from hot places, the hottest and shortest chain first."""
        self._define(self.inference.states)
        self._reached = {function: self._of_definition(function) for function in self._definitions}
        self._calls = {caller: self._find_calls(caller) for caller in self.inference.states}
        # No chain is longer than its reach, so that there are as few rounds.
        changed = set(self._calls)
        while changed:
            callers, changed = changed, set()
            for caller in sorted(callers):
                for number, callee in self._hot_among(self._calls.get(caller, ()), caller):
                    best, heat = self._reached.get(callee), self._through(caller, number, callee)
                    if heat is not None and (best is None or heat.rank < best.rank):
                        self._reached[callee] = heat
                        changed.add(callee)

    def _spread_anew(self, waiting: set[str]) -> None:
        """Hotness flows anew to functions that may have another one than before; the rest stays as
        it is.

        The hotness of a function follows from that of its callers. A chain is longer than those
        that it goes on from, and so no hotness rests on itself: whatever the order, this ends where
        `_spread` does.
        """
        while waiting:
            functions, waiting = waiting, set()
            for function in sorted(functions):
                before, now = self._reached.get(function), self._find_reached(function)
                if before == now:
                    continue
                if now is None:
                    del self._reached[function]
                else:
                    self._reached[function] = now
                waiting.update(callee for _, callee in self._calls.get(function, ()))

    def _find_reached(self, function: str) -> Reached | None:
        """The hotness of a function, by its definition and from those that call it."""
        heats = [self._of_definition(function)] if function in self._definitions else []
        if function in self.inference.states and not self._is_cold_function(function):
            for site in self._callers.sites.get(function, ()):
                heat = self._through(*site, function)
                if heat is not None:
                    heats.append(heat)
        return min(heats, key=lambda each: each.rank, default=None)

    def _of_definition(self, function: str) -> Reached:
        definition = self._definitions[function]
        step = HotnessStep(function, -1, DEFINED, definition.temperature)
        return Reached(definition.temperature, (step,), definition.reach)

    def _define(self, functions: Iterable[str]) -> None:
        """Note which of some functions are hot by what they are."""
        self._called_in_loops = self._find_called_in_loops()
        for function in functions:
            heat = self._by_definition(function) if function in self.inference.states else None
            if heat is not None:
                self._definitions[function] = heat
            else:
                self._definitions.pop(function, None)

    def _find_calls(self, function: str) -> list[tuple[int, str]]:
        """The calls of a function, with what they may run that hotness enters."""
        state, edges = self.inference.states.get(function), self.inference.calls.edges
        return [
            (number, callee)
            for number in range(len(state.graph.nodes) if state is not None else 0)
            for callee in edges.get((function, number), ())
            if callee in self.inference.states and not self._is_cold_function(callee)
        ]

    def _evidence(self, step: HotnessStep) -> Evidence:
        """The evidence that a user is shown for a step."""
        facts = self.inference.functions[step.function]
        if step.kind == DEFINED:
            definition = self._definitions[step.function]
            place = Place(facts.path, *facts.location)
            return Evidence(place, definition.text, definition.kind)
        graph = self.inference.states[step.function].graph
        if step.kind == LOOP:
            place = Place(facts.path, *_head(graph.blocks[step.number]))
            is_training = step.temperature == TRAINING
            text = "the training loop, once per batch"
            of_evaluation = "the evaluation loop, once per batch"
            return Evidence(place, text if is_training else of_evaluation, Shows.LOOP)
        called = f"called here, once per {step.temperature} batch"
        return self.why(step.function, step.number, called, Shows.CALL)

    def _hot_among(self, calls: Iterable[tuple[int, str]], caller: str) -> list[tuple[int, str]]:
        """Those of the calls in a function that stand in hot blocks: few do."""
        state = self.inference.states.get(caller)
        if state is None:
            return []
        nodes, calls = state.graph.nodes, [*calls]
        blocks = {nodes[number].block for number, _ in calls}
        hot = {block for block in blocks if self._heat_of(caller, block) is not None}
        return [call for call in calls if nodes[call[0]].block in hot]

    def _by_definition(self, function: str) -> HotDefinition | None:
        """The hotness of a function that a framework runs for every batch, by what it is."""
        facts = self.inference.functions[function]
        if EXPORT_PATH.search(facts.path):
            return None  # no framework trains it
        reasons: tuple[tuple[Callable[[str], bool], str, int], ...] = (
            (self._is_training_step, "a training step, once per batch", REACH_OF_LOOP),
            (self._clips_gradients, "gradients are clipped here, once per step", REACH_OF_LOOP),
            (self._hooks.__contains__, "a hook, once per training batch", REACH_OF_HOOK),
            (
                self._is_part_of_forward,
                "part of a forward pass, once per batch",
                REACH_OF_DEFINITION,
            ),
            (
                self.inference.hierarchy.is_operator,
                "an operator with a gradient, once per batch",
                REACH_OF_LEARNING,
            ),
            (self._is_loss_of_users, "a loss is computed here, once per batch", REACH_OF_LEARNING),
            (self._is_optimizer_step, "an optimizer's step, once per batch", REACH_OF_LOOP),
            (self._is_named_step, f"`{facts.name}`, once per training batch", REACH_OF_LEARNING),
            (
                self._was_seen_in_every_step,
                "a recorded run called this in every training step",
                REACH_OF_LOOP,
            ),
        )
        for holds, text, reach in reasons:
            if holds(function):
                return HotDefinition(text, reach)
        return self._of_method(function, facts.cls) if facts.cls is not None else None

    def _of_method(self, function: str, cls: str) -> HotDefinition | None:
        """The hotness of a method, by the class that it is one of."""
        facts = self.inference.functions[function]
        is_function, is_module = self._kind_of(cls)
        is_forward = facts.name == "forward" and is_module  # which is hot by itself, and farther
        model = self.inference.hierarchy.model_of_method(facts) if not is_forward else None
        if model is not None and model.called in OF_TRAINING:
            return in_training(facts.name, model.result == "loss", of_module=is_module)
        if model is not None and model.called == "evaluation-batch":
            return in_evaluation(facts.name)
        if is_function:
            text = f"the `{facts.name}` of an autograd function, once per batch"
            kind = Shows.FORWARD if facts.name == "forward" else Shows.STEP
            steps = facts.name in ("forward", "backward")
            return HotDefinition(text, REACH_OF_LEARNING, kind=kind) if steps else None
        return self._of_module(function, cls) if is_module else None

    def _of_module(self, function: str, cls: str) -> HotDefinition | None:
        """The hotness of a method of a module."""
        name, infer = self.inference.functions[function].name, self.inference
        if name in EVALUATION_METHODS:
            return in_evaluation(name)
        if name not in TRAINING_METHODS:
            is_loss = self._is_loss_of_module(function)
            return in_training(name, learns=True, of_module=True) if is_loss else None
        if infer.hierarchy.is_metric(cls):
            text = "a metric, computed once per evaluation batch"
            return HotDefinition(text, REACH_OF_DEFINITION, EVALUATION)
        if self._steps_in_loop(function):
            return None  # a trainer that is a module: its `forward` is the whole of the training
        definition = in_training(name, infer.hierarchy.learns(cls), of_module=True)
        if self._returns_without_gradients(function):
            return HotDefinition(f"`{name}` runs without gradients", definition.reach, EVALUATION)
        return definition

    def _clips_gradients(self, function: str) -> bool:
        facts = self.inference.functions[function]
        return facts.name in CLIPS_GRADIENTS and facts.kind == "function" and bool(facts.params)

    def _is_optimizer_step(self, function: str) -> bool:
        facts = self.inference.functions[function]
        return (
            facts.cls is not None
            and facts.name == "step"
            and self.inference.hierarchy.steps(facts.cls)
        )

    def _was_seen_in_every_step(self, function: str) -> bool:
        """Whether a run of the program has called a function in its steps of training."""
        observation = self.inference.unseen.observation(self.inference.functions[function])
        return observation is not None and observation.every_step

    def _is_named_step(self, function: str) -> bool:
        """A step of training by its name; of a mixin, too, that is no module by itself."""
        facts = self.inference.functions[function]
        if facts.name not in TRAINING_STEPS:
            return False
        return len(facts.params) > 1 if facts.cls is not None else self._is_for_users(function)

    def _kind_of(self, cls: str) -> tuple[bool, bool]:
        """Whether a class is a Function of autograd, and whether a module."""
        if cls not in self._kinds:
            infer = self.inference
            self._kinds[cls] = (
                infer.hierarchy.is_autograd_function(cls),
                infer.hierarchy.is_module(cls),
            )
        return self._kinds[cls]

    def _steps_in_loop(self, function: str) -> bool:
        """Whether a function steps an optimizer in a loop of its own."""
        loops, calls = self._batch_loops.get(function, {}), self._backward_calls
        nodes = self.inference.states[function].graph.nodes
        return TRAINING in loops.values() and any(
            self._around(function)[nodes[number].block].loop >= 0
            for number in calls.events.get(function, ())
            if calls.is_step(function, number)
        )

    def _is_loss_of_module(self, function: str) -> bool:
        """A method that computes a loss and that nobody is seen to call: an engine will."""
        facts = self.inference.functions[function]
        return (
            COMPUTES_LOSS.search(facts.name) is not None
            and function not in self._callers.sites
            and len(facts.params) > 1
            and not facts.name.startswith("_")
        )

    def _is_for_users(self, function: str) -> bool:
        """Whether a function is public, takes a model and a batch, or as many arguments, and is not
        seen to be called."""
        facts = self.inference.functions[function]
        return (
            facts.kind == "function"
            and len(facts.params) > 1
            and function not in self._callers.sites
            and not facts.name.startswith("test")
        )

    def _is_loss_of_users(self, function: str) -> bool:
        """`dice_loss(logits, target)`, or the `__call__` of a `FocalLoss` that returns a tensor, or
        one and what to log of it, and which nobody is seen to call: who trains with it does."""
        facts = self.inference.functions[function]
        if facts.cls is None:
            named = facts.name.endswith("_loss") and not NO_LOSS.match(facts.name)
        else:
            named = facts.name == "__call__" and self.inference.classes[facts.cls].name.endswith(
                "Loss"
            )
        if not named or not self._is_for_users(function):
            return False
        state = self.inference.states[function]
        return any(gives_tensor(state.values[each]) for each in state.graph.returns)

    def _declared(self, function: str) -> list[Value]:
        """The evidence that annotations give about parameters."""
        state = self.inference.states[function]
        return [
            annotated(state.values[node.operands[0]], NO_DEVICE, self.inference.files.models)
            for node in state.graph.nodes
            if node.op == ops.PARAM and node.operands
        ]

    def _is_part_of_forward(self, function: str) -> bool:
        """The `__call__` of an object that is given a module and tensors, by its annotations, and
        is called by what is out of sight: the processor of an attention layer."""
        facts = self.inference.functions[function]
        if facts.name != "__call__" or facts.cls is None:
            return False
        if EVALUATOR.search(self.inference.classes[facts.cls].name):
            return False
        declared = self._declared(function)
        tensors = sum(any(isinstance(a, Tensor) for a in value) for value in declared)
        return tensors > 1 and any(
            (isinstance(a, Instance) and self.inference.hierarchy.is_module(a.cls))
            or (isinstance(a, Object) and a.kind == "module")
            for value in declared
            for a in value
        )

    def _steps_by_name(self, state: State) -> list[int]:
        """The steps of what is called an optimizer, and of which nothing is known but that it may
        be one of the project's: `optimizer.step()`, and `each.step()` for each of `optimizers`."""
        graph = state.graph
        steps = []
        for number, node in enumerate(graph.nodes):
            method, owner = method_called(graph, node)
            if method != "step":
                continue
            optimizer = graph.nodes[owner]
            names = names_of(graph, optimizer.operands[0] if optimizer.op == ops.ITER else owner)
            if self._may_be_optimizer(state.values[owner]) and any(map(names_optimizer, names)):
                steps.append(number)
        return steps

    def _may_be_optimizer(self, value: Value) -> bool:
        return all(
            isinstance(atom, Unknown)
            or (isinstance(atom, Instance) and self.inference.hierarchy.is_optimizer(atom.cls))
            for atom in value
        )

    def _stepped_one_by_one(self, state: State) -> set[int]:
        """The nodes that a loop iterates to step each: `for each in optimizers: each.step()`."""
        nodes = state.graph.nodes
        stepped = (
            nodes[nodes[nodes[n].operands[0]].operands[0]] for n in self._steps_by_name(state)
        )
        return {each.operands[0] for each in stepped if each.op == ops.ITER}

    def _is_training_step(self, function: str) -> bool:
        """A function that runs the backward pass of a loss and steps an optimizer that it is given,
        and that nobody is seen to call in a loop: an engine will, for every batch. A method needs
        no backward pass, if it is only called by methods of its class."""
        facts = self.inference.functions[function]
        if function not in self._per_call or function in self._called_in_loops:
            return False
        if facts.kind != "function" or not facts.params or facts.name.startswith("test"):
            return False
        state, calls = self.inference.states[function], self._backward_calls
        events = calls.events[function]
        steps = [
            *(n for n in events if calls.is_step(function, n)),
            *self._steps_by_name(state),
        ]
        if not steps or not all(
            self._is_given(state, state.graph.nodes[n].operands[0]) for n in steps
        ):
            return False
        if self._is_step_of_object(function, steps):
            return True
        return any(calls.is_backward(function, n) for n in events) or any(
            calls.chain(function, number) is not None
            for number, node in enumerate(state.graph.nodes)
            if node.op == ops.CALL
        )

    def _is_step_of_object(self, function: str, steps: Iterable[int]) -> bool:
        """Whether a method steps an optimizer that is one of its arguments, and only methods of its
        class are seen to call it. Ex) `def optimize(self, opt: Optimizer): opt.step()`"""
        facts, state = self.inference.functions[function], self.inference.states[function]
        callers = (caller for caller, _ in self._callers.sites.get(function, ()))
        if facts.cls is None or any(self.inference.functions[c].cls != facts.cls for c in callers):
            return False
        nodes = state.graph.nodes
        owners = (nodes[nodes[nodes[n].operands[0]].operands[0]] for n in steps)
        return all(each.op == ops.PARAM and each.data != facts.params[0].name for each in owners)

    def _find_called_in_loops(self) -> set[str]:
        """Of the functions that train without a loop, those that a loop over batches is seen above,
        by calls that are in no loop."""
        below: dict[str, list[str]] = {}
        in_loops: list[str] = []
        states = self.inference.states
        for function in self._per_call:
            for caller, number in self._callers.sites.get(function, ()):
                if caller not in states:
                    continue
                if self._around(caller)[states[caller].graph.nodes[number].block].loop >= 0:
                    in_loops.append(function)
                elif caller in self._per_call:
                    below.setdefault(caller, []).append(function)
        return set(reachable(in_loops, lambda each: below.get(each, ())))

    def _is_given(self, state: State, number: int) -> bool:
        """Whether a value comes from outside the function."""
        node = state.graph.nodes[state.graph.behind(number, PARTS | {ops.ATTR})]
        return node.op in (ops.PARAM, ops.NAME)

    def _through(self, caller: str, number: int, callee: str) -> Reached | None:
        state = self.inference.states.get(caller)
        if state is None or caller == callee:
            return None
        node = state.graph.nodes[number]
        heat = self._heat_of(caller, node.block)
        if heat is None or heat.distance > heat.reach or len(heat.chain) > LONGEST:
            return None
        evaluates = self.inference.functions[callee].name in EVALUATION_METHODS
        temperature = EVALUATION if evaluates else heat.temperature
        step = HotnessStep(caller, number, CALLED, temperature)
        is_guess = self._is_guess(caller, number)
        # Not from the `forward` of a module: that would add many chains through geometry and
        # metrics, which train nothing (103 findings in 15 libraries, nearly all of them so).
        is_free = heat.reach == REACH_OF_LOOP and self._is_own(caller, state, number)
        return Reached(
            temperature,
            (step, *heat.chain),
            heat.reach,
            heat.distance + (is_guess or not is_free),
            heat.is_guess or is_guess,
        )

    def _is_own(self, caller: str, state: State, number: int) -> bool:
        """Whether an object calls itself: `self.loss(x)`, `super().step(x)`."""
        _, owner = method_called(state.graph, state.graph.nodes[number])
        if owner < 0:
            return False
        receiver = state.graph.nodes[owner]
        facts = self.inference.functions[caller]
        is_self = receiver.op == ops.PARAM and facts.cls is not None
        return (is_self and receiver.data == facts.params[0].name) or any(
            isinstance(atom, Super) for atom in state.values[owner]
        )

    def _is_guess(self, caller: str, number: int) -> bool:
        """Whether a call may run too many methods, so that each of them is a guess."""
        callees = self.inference.calls.edges.get((caller, number), ())
        if len(callees) <= FEW_METHODS:
            return False
        functions = self.inference.functions
        return sum(functions[callee].cls is not None for callee in callees) > FEW_METHODS

    def _heat_of(self, function: str, block: int) -> Reached | None:
        # Of most functions of a project nobody has to know which blocks are cold.
        if function not in self._reached and not self._batch_loops.get(function):
            return None
        around = self._around(function)[block]
        if around.cold:
            return None
        state = self.inference.states[function]
        if around.loop >= 0:
            loop = self._batch_loops[function][around.loop]
            temperature = EVALUATION if around.evaluation else loop
            return Reached(temperature, (HotnessStep(function, around.loop, LOOP, temperature),))
        if self._is_cold_function(function):
            return None
        heat = self._reached.get(function)
        evaluation = (
            around.evaluation
            or self.inference.functions[function].name in EVALUATION_METHODS
            or self._switches_to_evaluation(function, state)
            or (heat is not None and self._generates(function, heat))
        )
        if heat is not None and evaluation and heat.temperature == TRAINING:
            return replace(heat, temperature=EVALUATION)
        return heat

    def _generates(self, function: str, heat: Reached) -> bool:
        """Whether a function generates or samples, without gradients, and no loop that trains is
        seen to call it."""
        name = self.inference.functions[function].name
        return (
            heat.chain[-1].kind == DEFINED
            and GENERATES.search(name) is not None
            and self._returns_without_gradients(function)
        )

    def _is_left_out(self, function: str, block: int) -> bool:
        """Whether no hot call of a function runs a block of it, by the constants that it passes."""
        if self._around(function)[block].loop >= 0:
            return False
        hot = self._calls_with_heat(function)
        return bool(hot) and all(self._call_tests.leaves_out(site, function, block) for site in hot)

    def calls_behind(self, at: NodePlace) -> list[SiteId]:
        """The calls that make a place hot, each by itself; none where it is so without them."""
        heat = self._heat_of(at.function, at.block)
        if heat is None or self._around(at.function)[at.block].loop >= 0:
            return []
        calls = self._calls_with_heat(at.function)
        warmest = TRAINING if TRAINING in calls.values() else EVALUATION
        return [site for site, temperature in calls.items() if temperature == warmest]

    def _calls_with_heat(self, function: str) -> Mapping[SiteId, str]:
        """The calls by which hotness comes to a function, each with the temperature; none where it
        is hot by what it is."""
        if function not in self._hot_calls:
            calls = [] if function in self._definitions else self._callers.sites.get(function, ())
            through = {site: self._through(*site, function) for site in calls}
            self._hot_calls[function] = {
                site: heat.temperature for site, heat in through.items() if heat is not None
            }
        return self._hot_calls[function]

    def _around(self, function: str) -> list[Surroundings]:
        """By block: what is around it."""
        by_block = self._surroundings.get(function)
        if by_block is None:
            by_block = self._surroundings[function] = []
            state = self.inference.states[function]
            loops = self._batch_loops.get(function, {})
            leaving = set(leaves(state, loops))
            for number, block in enumerate(state.graph.blocks):
                outer = by_block[block.parent] if block.parent >= 0 else Surroundings()
                if number in loops:
                    by_block.append(Surroundings(number))
                    continue
                cold = outer.cold or (
                    (number in leaving or self._guards.is_cold(function, state, number))
                    and number not in self._whole_steps.get(function, ())
                    and number not in self._updates(function, state)
                )
                evaluation = outer.evaluation or self._guards.is_evaluation(state, number)
                by_block.append(Surroundings(outer.loop, cold, evaluation))
        return by_block

    def _updates(self, function: str, state: State) -> frozenset[int]:
        """The blocks that step an optimizer for backward passes that the loop has run before.

        Ex) `if (i + 1) % accumulate == 0`: that is training, however rarely it is done. Where the
        backward pass stands there too, as of a penalty that is added now and then, it is not.
        """
        if function not in self._updating:
            calls, nodes = self._backward_calls, state.graph.nodes
            within: dict[bool, set[int]] = {True: set(), False: set()}
            for number in calls.events.get(function, ()):
                runs_backward = calls.is_backward(function, number)
                block = nodes[number].block
                while block >= 0 and state.graph.blocks[block].kind not in LOOPS:
                    within[runs_backward].add(block)
                    block = state.graph.blocks[block].parent
            self._updating[function] = frozenset(within[False] - within[True])
        return self._updating[function]

    def _switches_to_evaluation(self, function: str, state: State) -> bool:
        """Whether the function calls `model.eval()` first of all, and trains nothing."""
        return function not in self._backward_calls.trains and self._evaluates_by_calls(
            function, state
        )

    def _evaluates_by_calls(self, function: str, state: State) -> bool:
        if function not in self._evaluates:
            self._evaluates[function] = self._calls_eval(state)
        return self._evaluates[function]

    def _calls_eval(self, state: State) -> bool:
        return any(
            node.block == 0 and method_called(state.graph, node)[0] == "eval" and not node.arguments
            for node in state.graph.nodes
        )

    def _is_cold_function(self, function: str) -> bool:
        facts = self.inference.functions[function]
        takes_nothing = len(facts.params) <= (facts.cls is not None)
        return is_cold_by_name(facts.name, facts.decorated, takes_nothing)


def gives_tensor(value: Value) -> bool:
    """Whether a value may be a tensor, or a tuple that begins with one. Ex) loss, logs"""
    firsts = (a.items[0] for a in value if isinstance(a, Sequence) and a.items)
    return any(isinstance(atom, Tensor) for part in (value, *firsts) for atom in part)


def is_constant(value: Value) -> bool:
    """Ex) of the items of [8, 16], or of [(torch.float16, "half")]"""
    atom = only(value)
    parts = atom.items if isinstance(atom, Sequence) and atom.items else (value,)
    return all(
        isinstance(part, DType) or (isinstance(part, Host) and part.const is not None)
        for part in map(only, parts)
    )


def counts(state: State, loop: int) -> bool:
    """Whether a loop counts its rounds: `while`, `for epoch in range(n)`."""
    block = state.graph.blocks[loop]
    return block.kind == "while" or all(
        isinstance(atom, Host) and atom.kind == "int"
        for atom in transfer.iterate(state.values[block.node])
    )


def chain_of(state: State, block: int) -> list[int]:
    """A block and those around it, the innermost first."""
    blocks = []
    while block >= 0:
        blocks.append(block)
        block = state.graph.blocks[block].parent
    return blocks


def leaves(state: State, loops: Collection[int]) -> Iterator[int]:
    """The blocks that end with the `for` loop over batches around them: they run once.

    Ex) if step >= max_steps: print(loss.item()); break
    """
    for node in state.graph.nodes:
        if node.op in (ops.BREAK, ops.RETURN):
            around = [b for b in chain_of(state, node.block) if state.graph.blocks[b].kind in LOOPS]
            exits = around[:1] if node.op == ops.BREAK else around
            if any(each in loops and state.graph.blocks[each].kind == "loop" for each in exits):
                yield node.block


def is_called_loader(state: State, number: int) -> bool:
    """Whether what a loop iterates is called a loader, be it in something that returns its batches.

    Ex) val_loader, enumerate(self.test_loader), tqdm(data_loader, desc="eval")
    """
    for _ in range(MAX_WRAPPERS):
        node = state.graph.nodes[number]
        first = node.argument(0) if node.op == ops.CALL else -1
        if first < 0 or not passes_on(state, node.operands[0]):
            break
        number = first
    unknown = all(isinstance(atom, Unknown) for atom in state.values[number])
    names = (name.rpartition(".")[2] for name in names_of(state.graph, number))
    return unknown and any(map(LOADER.search, names))


def passes_on(state: State, callee: int) -> bool:
    """Whether iterating the result of a function is iterating its first argument."""
    names = (atom.name for atom in state.values[callee] if isinstance(atom, Symbol))
    return any(name in libraries.PASS_THROUGH for name in names)


def names_optimizer(name: str) -> bool:
    """Ex) optimizers, self.optim_g; not optim_scheduler"""
    return OPTIMIZER.search(name) is not None and "sched" not in name.lower()


def names_of(graph: Graph, number: int) -> Iterator[str]:
    """The names of a value in its function: the path that reads it, the variables that hold it."""
    path = path_of(graph, number)
    if path is not None:
        yield path
    yield from (name for name, nodes in graph.bindings.items() if number in nodes)


def differing(before: Mapping[str, object], now: Mapping[str, object]) -> set[str]:
    """The keys of which two tables say different things."""
    return {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}


@cache
def is_cold_by_name(name: str, decorated: tuple[str, ...], takes_nothing: bool) -> bool:
    """Whether a function of this name, decorated so, runs once, or when something is saved.

    Args:
        takes_nothing: whether it takes no arguments, except for `self`.
    """
    if any(map(MEMOISES.search, decorated)):
        return True  # once for what it is called with, not for every batch
    bare = name.lstrip("_")
    return (
        not COLD_FUNCTIONS.isdisjoint((name, bare))
        or bare.startswith(SETUP)
        or HANDLES_CHECKPOINTS.match(bare) is not None
        or (takes_nothing and bare in COLD_WITHOUT_ARGUMENTS)
    )


def _head(block: Block) -> tuple[int, int, int, int]:
    """A loop is shown by its first line alone."""
    row, column, _, _ = block.location
    return (row, column, row, column + 3)


__all__ = ["ACCELERATOR", "EVALUATION", "TRAINING", "Hotness"]
