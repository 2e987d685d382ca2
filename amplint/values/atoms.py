"""Values of inference: a small union of kinds, with Unknown as a kind of its own.

A `Value` is a frozenset of alternatives ("a tensor or None"). The empty set is bottom: nothing has
been seen yet. `amplint.values.lattice` joins values.

`Evidence` never takes part in comparison, so that a fixpoint over values does not depend on which
chain of reasons was found first.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from types import UnionType
from typing import ClassVar, NamedTuple, Union

from amplint.util.positions import Place
from amplint.values.dtypes import half_on_a_path


class Shows(str, Enum):
    """The kind of evidence: what it shows."""

    PLACEMENT = "code that chooses the device of a value"
    CONVENTION = "a value whose device is that of most values in its role"
    LOADER = "a loader"
    DTYPE = "code that chooses the dtype of a value"
    AUTOCAST = "an autocast region, or its effect"
    LOOP = "a loop over batches"
    FORWARD = "the `forward` of a module or a Function"
    STEP = "another function that external code runs for every batch"
    CALL = "a call that leads from one place to another"
    BACKWARD = "a backward pass"
    OPERATION = "an operation that is computed"
    WEIGHTS = "weights that change or are used"
    SCALER = "a step in the protocol of a GradScaler"
    SIGN = "a sign that the project trains under autocast"
    SETTINGS = "the settings, which say that it trains under autocast"
    ACTIVATION = "a parameter that is assumed to be half, because of the settings"
    OBSERVED = "a run of the program, which has shown it"

    @property
    def leads(self) -> bool:
        """Whether the program goes through such a place on its way to a finding."""
        return self in (Shows.LOOP, Shows.FORWARD, Shows.STEP, Shows.CALL, Shows.AUTOCAST)


class Evidence(NamedTuple):
    """One reason for a belief, to be shown as a related place. Nothing is decided by its text."""

    place: Place
    text: str
    kind: Shows


class LazyEvidence:
    """Evidence that is looked for when somebody asks: only what a finding rests on is ever shown.

    Args:
        order: of what it is the evidence, by which it is compared with others.
        find: returns it, or None where there is none.

    `heard`: is called with it each time that somebody asks, if there is such a one.
    `times_asked`: for whatever evidence.
    """

    __slots__ = ("_evidence", "_find", "heard", "order")
    times_asked: ClassVar[int] = 0

    def __init__(self, order: tuple[str, int], find: Callable[[], Evidence | None]) -> None:
        self.order = order
        self._find = find
        self._evidence: list[Evidence | None] = []
        self.heard: Callable[[Evidence | None], None] | None = None

    def get(self) -> Evidence | None:
        LazyEvidence.times_asked += 1
        if not self._evidence:
            self._evidence.append(self._find())
        if self.heard is not None:
            self.heard(self._evidence[0])
        return self._evidence[0]


Reason = Union[Evidence, LazyEvidence]  # noqa: UP007 - as below


def evidence_of(reason: Reason | None) -> Evidence | None:
    """The evidence, looked for if it was not yet."""
    return reason.get() if isinstance(reason, LazyEvidence) else reason


def first_of(reasons: Iterable[Reason | None]) -> Reason | None:
    """The first of several in a fixed order, if there is any."""
    return min((each for each in reasons if each is not None), key=_place_of, default=None)


def _place_of(reason: Reason) -> tuple[str | int, ...]:
    if isinstance(reason, LazyEvidence):
        return reason.order
    return (*reason.place, reason.text)


@dataclass(frozen=True, slots=True)
class Device:
    """Where a tensor lives: `accelerator` (cuda, xpu, mps ...), `cpu`, or unknown (None).

    `pinned`: in page-locked memory of the host, from where a copy need not be waited for.
    `pinned_within`: it is a batch that a function of the user's own has collated, or taken out of
    one. The batch need be no tensor; the tensors in it are pinned.
    `others`: the kinds of accelerators beside CUDA that it may be, where the text names them.
    """

    kind: str | None
    evidence: Reason | None = field(default=None, compare=False)
    name: str | None = None  # "cuda", "cuda:1" where the text says so
    pinned: bool = False
    pinned_within: bool = False
    others: frozenset[str] = frozenset()


NO_DEVICE = Device(None)
CPU = Device("cpu")
PERHAPS_CPU = Device("cpu or not")  # the CPU on one path; on another elsewhere, or unknown
ACCELERATOR = "accelerator"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A torch.Tensor.

    Args:
        dtype: "float32", "float16", "bfloat16", "float64", "int64", "bool" ...; "half" for
            float16 or bfloat16, whichever the region has; None where it is unknown.
        device: where it lives.
        rank: 0 for a 0-dim tensor, 1 for at least one dimension, None where it is unknown.
        grad: whether it carries an autograd graph; None where it is unknown.
        dtype_evidence: why the dtype is what it is ("half by the autocast region at ...").
        fresh: the factory that built it a moment ago ("torch.zeros"), and nothing else since.
        dims: the number of dimensions, where it has some and it is known how many (`ranks.py`).
        half: of one whose dtype is unknown, the 16-bit dtype that it has on one path.
    """

    dtype: str | None = None
    device: Device = NO_DEVICE
    rank: int | None = None
    grad: bool | None = None
    dtype_evidence: Reason | None = field(default=None, compare=False)
    fresh: str | None = None
    dims: int | None = None
    half: str | None = None

    @property
    def half_on_a_path(self) -> str | None:
        """The 16-bit dtype that it has, or has on one path; None where it has none."""
        return self.half if self.dtype is None else half_on_a_path(self.dtype)


TREE_FORMS = frozenset({"tensor", "list", "tuple", "mapping"})


@dataclass(frozen=True, slots=True)
class TensorTree:
    """A tensor, or a nest of containers of tensors: a batch, the output of a model.

    Its elements, attributes and items are such trees on the same device.

    Args:
        source: "batch" or "output".
        forms: the forms that it may have.
    """

    device: Device = NO_DEVICE
    source: str = "batch"
    forms: frozenset[str] = TREE_FORMS

    @property
    def has_rows(self) -> bool:
        """Whether it is a tensor if it has elements by number: it is neither a list nor a tuple."""
        return "tensor" in self.forms and self.forms.isdisjoint({"list", "tuple"})


@dataclass(frozen=True, slots=True)
class Host:
    """A value of the host; kind is one of HOST_KINDS."""

    kind: str
    const: int | float | bool | str | None = None
    # Whether `const` is the value. Else it is the default, of an option of the command line or of a
    # parameter that is annotated.
    known: bool = False
    dtype: str | None = None  # of an array, where it is known
    rank: int | None = None  # of an array: 1 for at least one dimension


@dataclass(frozen=True, slots=True)
class Symbol:
    """Something imported from outside the project, by its dotted name: `torch.zeros`."""

    name: str


@dataclass(frozen=True, slots=True)
class Module:
    """A module (file) of the project, by its path."""

    path: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function, method or lambda of the project, perhaps bound to a receiver."""

    id: str
    bound: Atom | None = None
    first: int = 0  # the first place that is open: functools.partial fills those before it
    given_names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the project."""

    id: str


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of a class of the project.

    `inputs`: what its constructor was given, by parameter, where one call is known to have made it.
    A field that holds such a parameter has this value in it, whatever others of its class hold.
    `wrapped`: the dtype of the region in which a framework runs the `forward` of a module.
    `keeps`: whether the framework leaves what that returns as it is, instead of casting it to
    float32.
    """

    cls: str
    device: Device = NO_DEVICE
    inputs: tuple[tuple[str, frozenset[Atom]], ...] = ()
    wrapped: str | None = None
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class Super:
    """`super()` inside a method of a class of the project."""

    cls: str
    of: str  # the class of `self`


BOTTOM: frozenset[Atom] = frozenset()


@dataclass(frozen=True, slots=True)
class Object:
    """An instance of a library class that amplint knows. (One of a class of the project is an
    `Instance`, and so is a module whose class the project has derived from one of a library:
    `View.is_module` covers both.)

    kind: module, criterion, optimizer, scheduler, scaler, loader, dataset, parameters,
    accelerator, profiler, summary, parser, options ...; `type` is the dotted name of the class.
    """

    kind: str
    type: str
    device: Device = NO_DEVICE
    dtype: str | None = None
    rank: int | None = None  # of what a criterion returns: 0 unless reduction="none"
    enabled: bool | None = True  # a scaler that may be switched off
    holds: Value = BOTTOM  # of a ModuleList and its kin: the join of the modules in it
    last: str | None = None  # of a Sequential: the layer that decides the dtype of what it returns


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list, tuple, set or iterator; `items` where the length is known, else `element` for all.

    `batches`: iterating it draws from a loader (`enumerate(loader)`).
    `names`: those of the items, where it is a named tuple.
    """

    items: tuple[Value, ...] | None
    element: Value
    batches: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mapping:
    """A dict: the values of constant keys, and the join of all others.

    `crowded`: it may have more keys than are kept apart, and is known only as a whole.
    """

    rest: Value
    items: tuple[tuple[str, Value], ...] = ()
    crowded: bool = False


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a library value: `x.item`, `loader.__iter__`, `scaler.scale`."""

    of: Atom
    name: str


@dataclass(frozen=True, slots=True)
class Autocast:
    """An autocast context: what `torch.autocast(...)` and its kin return.

    dtype None means the default of the device type. `enabled` is None where it is not constant.
    """

    device: str | None
    dtype: str | None = None
    enabled: bool | None = True
    cache: bool | None = True
    evidence: Reason | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class NoGrad:
    """A torch.no_grad() or torch.inference_mode() context or decorator."""


@dataclass(frozen=True, slots=True)
class DType:
    """A torch.dtype."""

    name: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Anything at all; or, with `of`, anything of one part of the lattice
    (`amplint.values.lattice`) of which there are too many alternatives. Beside such a one there
    always is a plain one."""

    of: str = ""


Atom = Union[  # noqa: UP007 - a forward reference in `X | Y` fails on Python 3.10
    Tensor, TensorTree, Host, Symbol, Module, Function, Class, Instance, Super, Object, Sequence,
    Mapping, Method, Autocast, NoGrad, Device, DType, Unknown,
]  # fmt: skip
Value = frozenset[Atom]

# Kinds of `Host`. "number" is an int or a float.
HOST_KINDS = ("int", "float", "bool", "str", "number", "numpy", "none", "size", "object")
NUMBER_KINDS = frozenset({"int", "float", "number"})
NUMBER_OR_BOOL_KINDS = NUMBER_KINDS | {"bool"}
MODULE_KINDS = frozenset({"module", "criterion"})  # of `Object`: what is an nn.Module
INTEGER_KINDS = frozenset({"int", "number"})

UNKNOWN: Value = frozenset({Unknown()})
NONE = Host("none", None, True)


def one(atom: Atom) -> Value:
    """The value that is exactly this kind of thing."""
    return frozenset({atom})


def constant(value: Value | None) -> object:
    """The constant that the value certainly is, or None (also for None itself)."""
    atoms = list(value or ())
    if len(atoms) == 1 and isinstance(atoms[0], Host) and atoms[0].known:
        return atoms[0].const
    return None


def is_autocast(value: Value) -> bool:
    """Whether a value is an autocast context, and nothing else."""
    return surely(value, Autocast)


def may_be(value: Value, kind: type | UnionType) -> bool:
    """Whether one of the alternatives is of a kind. Ex) may_be(value, Tensor | TensorTree)"""
    return any(isinstance(atom, kind) for atom in value)


def surely(value: Value, kind: type | UnionType) -> bool:
    """Whether all alternatives are of a kind, and there are some."""
    return bool(value) and all(isinstance(atom, kind) for atom in value)


def is_host(value: Value, kinds: Container[str]) -> bool:
    """Whether a value surely is of the host, and of one of some kinds."""
    return bool(value) and all(isinstance(atom, Host) and atom.kind in kinds for atom in value)


def is_number(value: Value) -> bool:
    """Whether a value surely is a number, or a bool."""
    return is_host(value, NUMBER_OR_BOOL_KINDS)


def entered(contexts: Value) -> Iterator[Atom]:
    """The contexts that a `with` may enter: what was put into an `ExitStack`, too."""
    for atom in ordered(contexts):
        yield atom
        if isinstance(atom, Sequence):
            yield from ordered(atom.element)


def ordered(value: Value) -> list[Atom]:
    """The alternatives in an order that does not depend on hashing: what is evaluated first decides
    which of several equal reasons is shown."""
    if len(value) < 2:
        return list(value)
    return sorted(value, key=_order)


# By position and not by name, so that no report changes with the name of a class. A tensor tree
# comes before a tensor: where both become one tensor, the evidence of the tree is shown.
KINDS = (
    Autocast, TensorTree, Class, DType, Device, Function, Host, Instance, Mapping, Method, Module,
    NoGrad, Object, Sequence, Super, Symbol, Tensor, Unknown,
)  # fmt: skip
POSITION = {kind: f"{position:02}" for position, kind in enumerate(KINDS)}


COMPARED: dict[type, list[str]] = {
    kind: [each.name for each in fields(kind) if each.compare] for kind in KINDS
}
"""The fields of each kind of alternative, except for evidence."""


def _order(thing: object) -> str:
    """A text for a value, an alternative or a part of one, which is the same for all equal ones."""
    if isinstance(thing, frozenset):
        return " ".join(sorted(map(_order, thing)))
    if isinstance(thing, tuple):
        return " ".join(map(_order, thing))
    if type(thing) not in POSITION:
        return str(thing)
    parts = (getattr(thing, name) for name in COMPARED[type(thing)])
    return f"{POSITION[type(thing)]} {' '.join(map(_order, parts))}"


PLAIN = frozenset({Host, Symbol, Module, Class, Super, NoGrad, DType, Unknown})  # no evidence


def evidence_text(thing: object) -> str:
    """The evidence of a value, or of a part of it, as text: comparison ignores it."""
    if isinstance(thing, Device):
        return repr(thing.evidence)
    if isinstance(thing, Tensor):
        return f"{thing.device.evidence} {thing.dtype_evidence}"
    if isinstance(thing, TensorTree):
        return repr(thing.device.evidence)
    if isinstance(thing, Instance):
        return f"{thing.device.evidence} {evidence_text(tuple(v for _, v in thing.inputs))}"
    if isinstance(thing, Object):
        return f"{thing.device.evidence} {evidence_text(thing.holds)}"
    if isinstance(thing, Autocast):
        return repr(thing.evidence)
    if isinstance(thing, Sequence):
        return f"{evidence_text(thing.items)} {evidence_text(thing.element)}"
    if isinstance(thing, Mapping):
        return f"{evidence_text(thing.rest)} {evidence_text(tuple(v for _, v in thing.items))}"
    if isinstance(thing, Method):
        return evidence_text(thing.of)
    if isinstance(thing, Function):
        return evidence_text(thing.bound)
    if isinstance(thing, frozenset):
        return " ".join(sorted(map(evidence_text, thing)))
    if isinstance(thing, tuple):
        return " ".join(map(evidence_text, thing))
    return ""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call.

    `stars`: a `*args` of unknown length is among them, so that positions are unsure.
    `more_keywords`: `**kwargs` is, so that any keyword may be given.
    `hint` is the last identifier of the device or first argument, as written.
    """

    positional: tuple[Value, ...] = ()
    keywords: dict[str, Value] = field(default_factory=dict)
    stars: bool = False
    more_keywords: bool = False
    hint: str = ""

    def get(self, name: str, position: int | None = None) -> Value | None:
        """The argument of that name or position, or None where it is not given."""
        if name in self.keywords:
            return self.keywords[name]
        if position is not None and position < len(self.positional) and not self.stars:
            return self.positional[position]
        return None

    @property
    def named(self) -> dict[str, Value]:
        """The arguments by keyword, without what `**` may hold."""
        return {name: value for name, value in self.keywords.items() if name != "**"}

    def has(self, name: str, position: int | None = None) -> bool:
        return self.get(name, position) is not None

    @property
    def unsure(self) -> bool:
        """Whether more may be given than what is seen."""
        return self.stars or self.more_keywords

    @property
    def key(self) -> tuple[Hashable, ...]:
        """All of it, the order of keywords included, to look up what was computed from it."""
        keywords = tuple(self.keywords.items())
        return (self.positional, keywords, self.stars, self.more_keywords, self.hint)

    @property
    def all(self) -> tuple[Value, ...]:
        return (*self.positional, *self.keywords.values())


def branch(tree: TensorTree) -> TensorTree:
    """An item of a nest of tensors: a tensor, or a nest of any form."""
    device = tree.device
    if device.pinned_within:
        device = replace(device, pinned=True)
    return replace(tree, device=device, forms=TREE_FORMS)


def moved(atom: Tensor | TensorTree, device: Device) -> Tensor | TensorTree:
    """The tensor, or the nest of tensors, on another device."""
    if isinstance(atom, Tensor):
        return replace(atom, device=device, fresh=None)
    return replace(atom, device=device)


@dataclass(frozen=True, slots=True)
class Region:
    """The autocast state around a node: the innermost context that decides.

    `device` and `dtype` are those of the region ("cuda", "float16"); `enabled` is None where it
    is not constant. `evidence` is the place that opens it.
    `inherited`: the region is opened by a caller, not in the function itself.
    `presumed`: nobody is seen to open it: see `amplint.inference.whole_program.presumption`.
    `wrapped`: a framework opens it around the `forward` of a module.
    """

    device: str | None
    dtype: str | None
    enabled: bool | None
    evidence: Reason | None = field(default=None, compare=False)
    inherited: bool = False
    presumed: bool = False
    wrapped: bool = False


@dataclass(frozen=True, slots=True)
class Heat:
    """Why a node runs for every batch: `training` or `evaluation`, and the chain of reasons.

    `is_guess`: one of the calls on the chain may run many methods, of which this is one.
    """

    temperature: str
    chain: tuple[Evidence, ...] = field(default=(), compare=False)
    is_guess: bool = field(default=False, compare=False)
