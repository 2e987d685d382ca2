"""Methods of a module that a framework has prepared, which run its layers without its `forward`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from amplint.facts.fact import CallFact, Required
from amplint.facts.project_classes import Classes
from amplint.gradscaler.event_index import calls
from amplint.inference import SiteId, State
from amplint.inference.function.regions import RUN_BY_CALL
from amplint.ir.ast_cache import NodePlace
from amplint.knowledge.casts import policy
from amplint.knowledge.modules import MODULES
from amplint.rule.conditions import failing, where
from amplint.util.walks import reachable
from amplint.values.atoms import Evidence, Function, Instance, Object, Shows, Value
from amplint.view.evaluated_node import EvaluatedNode

MOST = 30  # functions that a method runs


@failing("this is no method of a module whose `forward` a framework runs in a region")
def _of_prepared_module(here: EvaluatedNode) -> bool:
    return any(methods(called_at(here.state, here.number)))


OF_PREPARED_MODULE = where(_of_prepared_module)


def called_at(state: State, call: int) -> Value:
    """The value that a call calls."""
    return state.values[state.graph.nodes[call].operands[0]]


def methods(called: Value) -> Iterator[tuple[str, str]]:
    """The methods that may be called of a prepared module, each with the class of that."""
    for atom in called:
        bound = atom.bound if isinstance(atom, Function) else None
        if isinstance(atom, Function) and isinstance(bound, Instance) and bound.wrapped is not None:
            yield atom.id, bound.cls


class BypassedRegions(CallFact[tuple[Evidence, Evidence]]):
    """Where a method of a module that a call runs calls the first layer, and where the module is
    trained in the region of a framework, which the method goes round."""

    sentence = "{it} runs layers outside the region in which the module is trained"

    _classes = Required(Classes)

    def of(self, at: NodePlace) -> tuple[Evidence, Evidence] | None:
        called = called_at(self.inference.states[at.function], at.node)
        for method, cls in sorted(methods(called)):
            is_forward = self.inference.functions[method].name in RUN_BY_CALL
            training = self._training(cls, at.function) if not is_forward else None
            layer = self._layer(method, cls) if training is not None else None
            if training is not None and layer is not None:
                return (
                    self.why(*layer, "this layer runs in no region then", Shows.OPERATION),
                    self.why(*training, "in training, it runs in a region here", Shows.AUTOCAST),
                )
        return None

    def _training(self, cls: str, near: str) -> SiteId | None:
        """A call of a module, in the region of a framework, in a function with a backward pass: one
        in the same function or file as another call, if there is one."""
        regions, functions = self.inference.regions, self.inference.functions
        sites = (
            site
            for forward in self.inference.hierarchy.methods(cls, "forward")
            for site in regions.in_regions(forward)
            if (region := regions.region_of_site(forward, site)) is not None
            and region.wrapped
            and "backward" in functions[site[0]].words
        )
        path = functions[near].path
        distance = ((s[0] != near, functions[s[0]].path != path, s) for s in sites)
        return min(distance, default=(True, True, None))[2]

    def _layer(self, method: str, cls: str) -> SiteId | None:
        """Where a method, or what it runs of its class, calls a layer that autocast would cast."""
        functions, states = self.inference.functions, self.inference.states
        family = self.inference.hierarchy.mro(cls)

        def own(function: str) -> Iterator[str]:
            """The methods and inner functions that one runs, or may."""
            called = self.inference.calls.edges
            run = [each for n in calls(states[function]) for each in called.get((function, n), ())]
            for each in (*sorted(run), *self._defined_in.get(function, ())):
                facts = functions[each]
                is_own = facts.cls in family or facts.parent == function
                if is_own and facts.name not in RUN_BY_CALL and each in states:
                    yield each

        for function in islice(reachable({method} & states.keys(), own), MOST):
            for number in calls(states[function]):
                if self._is_cast(called_at(states[function], number), family):
                    return function, number
        return None

    def _is_cast(self, called: Value, family: list[str]) -> bool:
        """Whether a value is a module that autocast changes, and not `self`, whose `forward` the
        framework has replaced, nor another one that it has prepared."""
        return self._classes.is_module(called) and not any(
            (isinstance(atom, Instance) and (atom.wrapped is not None or atom.cls in family))
            or (isinstance(atom, Object) and is_left_alone(atom.type))
            for atom in called
        )

    @cached_property
    def _defined_in(self) -> dict[str, list[str]]:
        """By function, those that are defined in it."""
        defined: dict[str, list[str]] = {}
        for function, facts in self.inference.functions.items():
            if facts.parent is not None and facts.kind != "class":
                defined.setdefault(facts.parent, []).append(function)
        return defined


def is_left_alone(module: str) -> bool:
    """Ex) torch.nn.Embedding, torch.nn.LayerNorm; not torch.nn.Sequential"""
    facts = MODULES.get(module)
    is_container = facts is None or facts.kind == "container"
    return not is_container and policy(module, "cuda") != "half"
