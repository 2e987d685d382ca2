"""Which functions hold what certain rules need (`Trait`)."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.analyses.hotness import Hotness
from amplint.analyses.scaler_misuse import ScalerMisuse
from amplint.facts.fact import Fact, Required
from amplint.facts.trait import Trait
from amplint.inference import Inference
from amplint.knowledge.dtypes import CHOICES, HALF
from amplint.values.atoms import (
    Atom,
    DType,
    Mapping,
    Method,
    Object,
    Sequence,
    Symbol,
    Tensor,
    Value,
)
from amplint.values.lattice import inner

# A dtype, a method that casts to it, or a type of tensors named after it.
HALF_NAMES = HALF | CHOICES.keys() | {"HalfTensor", "BFloat16Tensor"}


class Traits(Fact):
    """The traits of functions that most rules need: what is known of some place in each."""

    _hotness = Required(Hotness)
    _misuse = Required(ScalerMisuse)

    def __init__(self, inference: Inference, **required: Fact) -> None:
        super().__init__(inference, **required)
        self._half: dict[Value, bool] = {}

    def of_function(self, function: str) -> frozenset[Trait]:
        """The traits of a function; none of one that was given up."""
        return frozenset(self._of(function))

    def _of(self, function: str) -> Iterator[Trait]:
        state = self.inference.states.get(function)
        if state is None:
            return
        if self._hotness.is_hot(function):
            yield Trait.HOT
        if function in self._misuse.functions:
            yield Trait.MISUSED
        if any(region is not None for region in state.regions.values()):
            yield Trait.REGION
        if any(map(self._is_half, {*state.values})):  # of timm, each is there twice
            yield Trait.HALF

    def besides_values(self, function: str) -> tuple[bool, bool]:
        """The traits of a function that its values and regions do not decide about."""
        return self._hotness.is_hot(function), function in self._misuse.functions

    def _is_half(self, value: Value) -> bool:
        if value not in self._half:
            self._half[value] = is_half(value)
        return self._half[value]


def is_half(value: Value) -> bool:
    """Whether something in the value is half, or makes half of what it is given."""
    return any(map(_is_half, value))


def _is_half(atom: Atom) -> bool:
    if isinstance(atom, Sequence | Mapping):
        return any(map(is_half, inner(atom)))
    if isinstance(atom, Tensor):
        return atom.half_on_a_path is not None
    if isinstance(atom, Object):
        return atom.dtype in HALF_NAMES
    return isinstance(atom, DType | Method | Symbol) and atom.name.rpartition(".")[2] in HALF_NAMES
