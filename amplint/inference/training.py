"""The functions that a training, or a thread, is seen to call outside of an autocast region.

A training is what runs with a backward pass: all that stands in the innermost loop around it; where
a function runs the pass in no loop of its own, the whole function, and what stands so around its
calls. So an evaluation after each epoch is no part of it, nor is an export or a try of the code.
What an example trains of a library shows nothing of how users train that, and a benchmark trains
nothing.

This is coarser than hotness (`analyses/hotness.py`), which rests on the regions that come of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from amplint.inference.function.regions import region_around, regions_of
from amplint.inference.inference import Inference
from amplint.inference.state import SiteId
from amplint.ir import ops
from amplint.ir.model import LOOPS, Graph
from amplint.knowledge.vocabulary import (
    EVALUATES,
    EVALUATION_METHODS,
    GENERATES,
    SHOWING_PATH,
    TEST_PATH,
    TRAINING_STEPS,
)
from amplint.util.walks import reachable
from amplint.values.atoms import Function

BODY = 0  # the block of a whole function


def run_outside(inference: Inference) -> Collection[str]:
    """The functions that are seen to run outside of a region: a training, or a thread, calls them.

    What is presumed to run in a region puts what it calls into that, unless it is called so itself.
    Where the settings presume a region around all modules and losses, called or not, threads
    alone count, which begin in no region.
    """
    if inference.unseen.presumption.region is None:
        return ()
    trainings = Trainings(inference)
    is_by_signs = inference.files.presumes is True
    return trainings.threaded | (trainings.trained if is_by_signs else frozenset())


class Trainings:
    """The trainings of a project.

    Attributes:
        trained: the functions that they call outside of a region.
        threaded: those that threads run, with what they call.
    """

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._by_function = inference.regions.of_functions
        self._outside: dict[str, Mapping[int, frozenset[str]]] = {}

    @cached_property
    def threaded(self) -> frozenset[str]:
        handed_over = (atom for work in self._inference.calls.threads.values() for atom in work)
        functions = {atom.id for atom in handed_over if isinstance(atom, Function)}
        return frozenset(self._reached((), functions))

    @cached_property
    def trained(self) -> frozenset[str]:
        stretches = [each for each in self._stretches() if not self._is_presumed(each[0])]
        examples = [each for each in stretches if is_shown(each[0])]
        in_earnest = [each for each in stretches if not is_shown(each[0])]
        return frozenset(
            {*self._reached(in_earnest, self._steps()), *filter(is_shown, self._reached(examples))}
        )

    def _reached(
        self, stretches: Iterable[tuple[str, int]], called: Iterable[str] = ()
    ) -> Iterator[str]:
        """The functions that are called in blocks, and those, and what they call in turn."""
        begun = {*called}
        for function, block in stretches:
            begun.update(self._called(function, block))
        return reachable(begun, lambda function: self._called(function, BODY))

    def _is_presumed(self, function: str) -> bool:
        return self._inference.unseen.presumed_region(function) is not None

    def _stretches(self) -> Iterator[tuple[str, int]]:
        """The blocks that run with a backward pass, each with its function."""
        waiting = [*self._backward_calls()]
        whole: set[str] = set()
        while waiting:
            function, number = waiting.pop()
            if is_evaluation(self._inference.functions[function].name):
                continue  # an attack or an attribution, say
            graph = self._inference.states[function].graph
            loop = next(loops_around(graph, graph.nodes[number].block), None)
            if loop is not None:
                yield function, loop
            elif function not in whole:
                whole.add(function)
                yield function, BODY
                waiting += self._sites(function)

    def _backward_calls(self) -> Iterator[SiteId]:
        """The calls that run a backward pass."""
        for function, state in self._inference.states.items():
            facts = self._inference.functions[function]
            if "backward" in facts.words and not TEST_PATH.search(facts.path):
                graph = state.graph
                for number in set(self._inference.uses.marks_of(function).backward.values()):
                    if graph.nodes[number].op == ops.CALL:
                        yield function, number

    def _steps(self) -> Iterator[str]:
        """The steps of training that are called, by their names, outside of a region."""
        for function, calls in self._by_function.items():
            if self._inference.functions[function].name in TRAINING_STEPS:
                callers = {caller for caller, _ in calls.sites}
                if any(
                    not self._is_presumed(caller) and function in self._called(caller, BODY)
                    for caller in callers
                ):
                    yield function

    def _sites(self, function: str) -> Collection[SiteId]:
        """The calls of a function, without those of tests."""
        return self._by_function[function].sites if function in self._by_function else ()

    def _called(self, caller: str, block: int) -> Collection[str]:
        """The functions that are called in a block, where no region is opened there."""
        if caller not in self._outside:
            called = self._called_outside(caller)
            self._outside[caller] = {at: frozenset(callees) for at, callees in called.items()}
        return self._outside[caller].get(block, frozenset())

    def _called_outside(self, caller: str) -> Mapping[int, set[str]]:
        """By block, which is a loop or the whole function (`BODY`), the functions that are called
        in it where no region is opened there."""
        inference = self._inference
        state = inference.states.get(caller)
        if state is None:
            return {}
        facts = inference.functions[caller]
        regions = regions_of(inference, facts, state)
        regions.around = region_around(inference, facts, inference.store.joined)
        by_block: dict[int, set[str]] = {}
        for number, node in enumerate(state.graph.nodes):
            outside = {
                callee
                for callee in inference.calls.edges.get((caller, number), ())
                if (caller, number) in self._sites(callee)
                and not is_evaluation(inference.functions[callee].name)
                and regions.of_call(node, callee) is None
            }
            if outside:
                for block in (BODY, *loops_around(state.graph, node.block)):
                    by_block.setdefault(block, set()).update(outside)
        return by_block


def is_shown(function: str) -> bool:
    """Whether a function stands in an example, or in a benchmark."""
    return SHOWING_PATH.search(function.partition("::")[0]) is not None


def is_evaluation(name: str) -> bool:
    """Whether a function of this name uses what has been trained."""
    return name in EVALUATION_METHODS or bool(EVALUATES.search(name) or GENERATES.search(name))


def loops_around(graph: Graph, block: int) -> Iterator[int]:
    """The loops around a block, or itself, the innermost first."""
    while block >= 0:
        if graph.blocks[block].kind in LOOPS:
            yield block
        block = graph.blocks[block].parent
