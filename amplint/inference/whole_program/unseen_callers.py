"""Callers that no text shows: what is presumed of them, and what runs of the program have shown."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.inference.store import Store
from amplint.inference.whole_program.class_hierarchy import ClassHierarchy
from amplint.inference.whole_program.definitions import Definitions
from amplint.inference.whole_program.float_inputs import FloatInputs
from amplint.inference.whole_program.observation_values import ObservedFunctions, region_of, values
from amplint.inference.whole_program.presumption import PATCHED, Presumption
from amplint.ir.model import FunctionFacts, Graph
from amplint.knowledge import libraries
from amplint.knowledge.vocabulary import NO_ACTIVATION
from amplint.project.observations import ObservedFunction
from amplint.values.atoms import Evidence, Region, Value, evidence_of


class UnseenCallers:
    """The callers of the functions of a project that no text shows.

    Args:
        definitions: of the project.
        hierarchy: says which functions a framework calls.
        store: knows the precision that frameworks are asked for.

    Attributes:
        float_inputs: the parameters that take floating-point numbers.
        presumption: the region that is presumed, and around which functions.
    """

    def __init__(self, definitions: Definitions, hierarchy: ClassHierarchy, store: Store) -> None:
        files = definitions.files
        self._definitions = definitions
        self._files = files
        self._functions = definitions.functions
        self._hierarchy = hierarchy
        self._store = store
        self.presumption = Presumption(files, files.presumes)
        self.float_inputs = FloatInputs(files)
        self._observed = ObservedFunctions(files.observed)
        self._observed_values: dict[str, dict[int, Value]] = {}

    def presumed_region(self, function: str, is_ended: bool = False) -> Region | None:
        """The region that is presumed around a function.

        Args:
            is_ended: whether a call that is seen ends the presumption.
        """
        if function in self.presumption.patching:
            return PATCHED
        facts = self._functions[function]
        region = self.presumption.region
        if is_ended or region is None or not self._may_be_called(facts):
            return None
        if self._hierarchy.dtype_of_framework(facts, self._store.joined) == "":
            return None  # the framework that runs it has to open none
        return region

    def region_in(self, function: str, joined: Region | None, is_ended: bool) -> Region | None:
        """The region that a function inherits: that of its calls, if they are in one, or else the
        presumed one. Where runs have shown in which regions it is called, the text is not asked: it
        may leave out what a decorator does.

        Args:
            function: of the project.
            joined: the region of its calls, as the text has them.
            is_ended: as above.
        """
        facts = self._functions[function]
        observation = self.observation(facts)
        if observation is not None and observation.regions:
            return region_of(observation, facts)
        return joined or self.presumed_region(function, is_ended)

    def observation(self, function: FunctionFacts) -> ObservedFunction | None:
        """The observations of a function, if its text is the one that ran."""
        return self._observed.of(function, self._files)

    def observed_region(self, function: str) -> Evidence | None:
        """The run that has shown the region that a function is called in."""
        facts = self._functions[function]
        observation = self.observation(facts)
        region = region_of(observation, facts) if observation is not None else None
        return evidence_of(region.evidence) if region is not None else None

    def observed_values(self, function: FunctionFacts, graph: Graph) -> dict[int, Value]:
        """The values that runs have shown, by node of the function."""
        if function.id not in self._observed_values:
            observation = self.observation(function)
            by_node = values(observation, function, graph) if observation is not None else {}
            self._observed_values[function.id] = by_node
        return self._observed_values[function.id]

    def _may_be_called(self, function: FunctionFacts) -> bool:
        """Whether a function is of those that somebody out of sight runs in a training. A decorator
        of the project may end the region."""
        is_plain = set(function.decorated) <= libraries.TRANSPARENT_DECORATORS
        return is_plain and self._is_run_from_outside(function)

    def _is_run_from_outside(self, function: FunctionFacts) -> bool:
        if not self.presumption.covers(function):
            if function.cls is None or not self._hierarchy.is_run_in_region(function):
                return False
        elif not self.presumption.is_called_by_name(function) and not self.float_inputs.of(
            function
        ):
            return False
        if function.cls is None:
            return True
        # Other classes have methods of these names for other ends.
        is_meant = self._hierarchy.is_module(function.cls) or function.name not in (
            "forward",
            "message",
        )
        return is_meant and not self._hierarchy.is_autograd_function(function.cls)

    def offered(self) -> Iterator[FunctionFacts]:
        """The functions of which the settings assume how callers out of sight run them."""
        if self.presumption.is_audited:
            for function in self._definitions.own_functions():
                is_offered = self.presumption.is_offered(function) and self._may_be_called(function)
                if is_offered and self.float_inputs.of(function):
                    yield function

    def dtype_of_input(self, function: str, parameter: str) -> str | None:
        """The dtype of the floating-point numbers that callers out of sight hand to a function,
        where the settings assume one. Data is loaded in float32, and half only where it is cast
        with the model."""
        dtype, facts = self.presumption.dtype_of_inputs, self._functions[function]
        if dtype is None or not self.presumption.is_offered(facts):
            return None
        if not self._may_be_called(facts) or parameter not in self.float_inputs.of(facts):
            return None
        is_data = self.presumption.region is not None and NO_ACTIVATION.search(parameter)
        return "float32" if is_data else dtype
