"""Watch a program for what rules are about: waits, dtypes, regions, and the protocol of a scaler.

A `Recorder` keeps every operation; this keeps what was done where, and how often, so that a run may
be long. Calls of torch are seen as the program writes them, above autocast (a `TorchFunctionMode`),
and operations below it. Of optimizers and scalers the calls themselves are watched: a wrapper, or a
framework, has to make them in the end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from amplint.knowledge.casts import LAYERS
from amplint_verify.recording.cast_cache import CastLog, keeping
from amplint_verify.recording.events import EventKind
from amplint_verify.recording.graph import leaves_of, nodes_of
from amplint_verify.recording.half_range import (
    HALF,
    MOST_OF_ZERO,
    NUMBERS_OF,
    WITHOUT_HALF,
    beyond,
    has_rounded_integers,
    merged_positions,
    no_kernel,
    overflows,
    vanishing,
)
from amplint_verify.recording.modules import ModuleCalls, following
from amplint_verify.recording.observation import Flag, OperationRow, Wait
from amplint_verify.recording.placement import FACTORIES, MOVES, BuiltTensors, copies_tensors
from amplint_verify.recording.raised import OutOfTime
from amplint_verify.recording.record import Recorder
from amplint_verify.recording.sightings import Act, ModulePath, Sighting, UserExpression
from amplint_verify.recording.timeline import TimelineWriter, short, telling

CALLERS = 4  # lines on the way to a place that are kept
NEAR = 1000  # nodes of a graph among which the multiplication by the scale is looked for
KEPT_NODES = 64  # multiplications whose backward pass is awaited
HALVES = frozenset(HALF)
KIN_OF_ADAM = (torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam)
# The function of torch that was called when an operation reads one number of the device.
TESTING = frozenset({"__bool__", "__contains__", "allclose", "equal", "is_nonzero"})
FORMATTING = frozenset({"__format__", "__repr__", "__str__"})
READING = frozenset(
    {"__complex__", "__float__", "__index__", "__int__", "cpu", "item", "numpy", "to", "tolist"}
)
ACTS = {
    Wait.TO_HOST: Act.READ,
    Wait.SHAPE_READ: Act.SHAPE,
    Wait.BOOL_INDEX: Act.SHAPE,
    Wait.SYNCHRONIZE: Act.SYNCHRONIZE,
    Wait.EMPTY_CACHE: Act.EMPTY_CACHE,
}


@dataclass
class Tally:
    """The count of what was seen at one place until now; as in `Sighting`.

    Args:
        modules: those in whose calls it was seen, in order.
    """

    first: int
    callers: tuple[UserExpression, ...]
    modules: dict[ModulePath, None] = field(default_factory=dict)
    count: int = 0
    steps: int = 0
    last: int = 0
    size: int = 0


class CallUnderWay(NamedTuple):
    """The call of torch that is under way.

    Args:
        name: of the function, e.g. "item".
        region: the dtype of the autocast region it was called in; "" outside of any.
    """

    name: str
    region: str


class Watcher(Recorder):
    """A recorder that keeps what was done, and no single operation.

    Args:
        root: of the program.
        has_values: whether the tensors have values, so that these can be looked at.
        has_timeline: whether the events of a step are written down.

    Attributes:
        out_of_time: where set, the program has to end: the next call of torch raises this text.
    """

    out_of_time = ""

    def __init__(self, root: Path, has_values: bool, has_timeline: bool = False) -> None:
        self.events = TimelineWriter(self, has_timeline)
        self.casts = CastLog()
        self.built = BuiltTensors()
        super().__init__(root)
        self.has_values = has_values
        self.call = CallUnderWay("", "")
        self.modules = ModuleCalls()

    def clear(self) -> None:
        super().clear()
        self.casts.clear()
        self.built.clear()
        self.tallies: dict[tuple[Act, UserExpression, str], Tally] = {}
        self.steps_of: dict[int, int] = {}  # by identity of the optimizer
        self.skipped = 0  # steps that a scaler left out
        self.regions: set[str] = set()  # the dtypes of those that torch was called in
        self.events.clear()

    @property
    def steps(self) -> int:
        """How many steps of training were made: those of the optimizer that made the most."""
        return max(self.steps_of.values(), default=0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        trace = sys.gettrace()
        sys.settrace(None)  # no line of the program's runs in here, and tracing what does is dear
        try:
            return self.performed(func, types, args, kwargs)
        finally:
            sys.settrace(trace)

    def performed(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """The result of an operation, which is looked at."""
        result = super().__torch_dispatch__(func, types, args, kwargs)
        self.examine(func, args, kwargs or {}, result)
        self.events.operation(func, args, result)
        return result

    def examine(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Look at casts, and at the values of a result that half may not hold."""
        if self.casts.concern(func):
            self.casts.operation(func, args, result, *self.call_and_region())
        if not self.has_values or not isinstance(result, torch.Tensor) or result.dtype not in HALF:
            return
        if result.is_meta or result.layout is not torch.strided:
            return
        if overflows(func, args, kwargs, result):
            self.sight(Act.OVERFLOW, short(result.dtype))
        elif merged_positions(func, args, result):
            self.sight_own(Act.MERGED_POSITIONS, short(result.dtype))
        elif has_rounded_integers(func, args, result):
            self.sight_own(Act.ROUNDED_INTEGERS, short(result.dtype))

    def call_and_region(self) -> tuple[str, str]:
        """The function of torch that is being called, and the dtype of the region around. In the
        kernels of autocast no region is on."""
        return self.call.name, self.call.region or region()

    def write(self, row: OperationRow) -> None:
        self.events.waited(row)
        act = act_of(row, self.call.name) if row.direct and row.path else None
        if act is not None:
            self.sight(act)

    def sight(
        self, act: Act, detail: str = "", size: int = 0, site: UserExpression | None = None
    ) -> None:
        """Count what was done at a place; at the innermost of the user's if none is given."""
        sites = list(islice(self.places.sites(), CALLERS + 1)) if site is None else [site]
        if not sites:
            return
        step = self.steps + 1
        key = act, sites[0], detail
        tally = self.tallies.setdefault(key, Tally(step, tuple(sites[1:])))
        tally.count += 1
        tally.steps += step != tally.last
        tally.last = step
        tally.size += size
        module = self.modules.here()
        if module is not None:
            tally.modules[module] = None

    def sight_own(
        self, act: Act, detail: str = "", size: int = 0, site: UserExpression | None = None
    ) -> None:
        """Count what the user's code asks for itself; what a library does is none of it."""
        if self.places.here().direct:
            self.sight(act, detail, size, site)

    def region_device(self) -> str:
        """The device type of the autocast region around; "" outside of any. A stand-in for a GPU
        has regions of one."""
        on_gpu = self.strict or torch.is_autocast_enabled("cuda")
        return ("cuda" if on_gpu else "cpu") if self.call.region else ""

    def flag(self, op: str, *dtypes: torch.dtype) -> None:
        """Write down a call that real kernels refuse."""
        path, row, _, _ = self.places.here()
        if path:
            self.flags[Flag(path, row, op, tuple(map(short, dtypes)))] = None

    def here(self) -> UserExpression | None:
        """The innermost expression of the user's."""
        return next(self.places.sites(), None)

    def fields(self) -> dict[str, Any]:
        fields = super().fields()
        sightings = tuple(sighting(*key, tally) for key, tally in self.tallies.items())
        timeline = self.events.timeline()
        counts = {"steps": self.steps, "skipped": self.skipped, "regions": tuple(self.regions)}
        return {**fields, "sightings": sightings, **counts, "timeline": timeline}


def sighting(act: Act, site: UserExpression, detail: str, tally: Tally) -> Sighting:
    return Sighting(
        act,
        site,
        detail,
        count=tally.count,
        steps=tally.steps,
        first=tally.first,
        size=tally.size,
        callers=tally.callers,
        module=next(iter(tally.modules), None),
        modules=len(tally.modules),
    )


def act_of(row: OperationRow, function: str) -> Act | None:
    """The meaning of an operation that makes the host wait; None where it is no rule's.

    Args:
        row: the operation.
        function: of torch, which was called.
    """
    if row.wait is None or not row.wait.reads:
        return None
    if function in TESTING:
        return Act.TRUTH
    if function in FORMATTING:
        return Act.FORMATTED
    if row.wait is not Wait.SCALAR_READ:
        return ACTS.get(row.wait)
    if function in READING or not function:
        return Act.READ
    # What a kernel reads by itself (a check of `torch.linalg.svd`) no argument can mend.
    return Act.AS_NUMBER if row.op.startswith("aten._local_scalar_dense") else None


def region() -> str:
    """The dtype of the autocast region around, "" outside of any."""
    for device in ("cuda", "cpu"):
        if torch.is_autocast_enabled(device):
            return short(torch.get_autocast_dtype(device))
    return ""


# ------------------------------------------------------------------------------- calls of torch


class CallWatcher(TorchFunctionMode):
    """Sees the calls of torch as the program writes them."""

    def __init__(self, watcher: Watcher) -> None:
        super().__init__()
        self.watcher = watcher

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__get__":  # an attribute
            return func(*args, **kwargs)
        watcher, before = self.watcher, self.watcher.call
        if watcher.out_of_time:
            raise OutOfTime(watcher.out_of_time)
        watcher.call = CallUnderWay(name, region())
        watcher.regions.add(watcher.call.region)
        self.before(func, args, kwargs)
        try:
            result = self.called(func, args, kwargs)
            self.after(args, kwargs, result)
            self.compare(func, args, kwargs, result)
            return result
        finally:
            watcher.call = before

    def before(self, func: Any, args: Any, kwargs: Any) -> None:
        """Look at what a function is given; what is wrong with it may raise."""
        watcher, name = self.watcher, self.watcher.call.name
        excess = beyond(name, args, kwargs)
        if excess is not None:
            watcher.sight_own(Act.BEYOND, f"{excess[0]:g}, beyond the range of {short(excess[1])}")
        if copies_tensors(name, args, kwargs):
            watcher.sight_own(Act.COPIED)
        if not watcher.strict:
            return
        if func in WITHOUT_HALF:
            self.flag_kernel(func, args, kwargs)
        elif name in LAYERS and not watcher.call.region:
            dtypes = sorted(dtypes_of(args, kwargs), key=short)
            if len(dtypes) > 1 and not HALVES.isdisjoint(dtypes):
                watcher.flag(name, *dtypes)

    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The result of a function. A kernel that real tensors ask for in vain raises."""
        try:
            return func(*args, **kwargs)
        except RuntimeError:
            if func in WITHOUT_HALF and not self.watcher.strict:
                self.flag_kernel(func, args, kwargs)
            raise

    def flag_kernel(self, func: Any, args: Any, kwargs: Any) -> None:
        """Write down that a function has no kernel for what it is given, if so."""
        kernel = no_kernel(func, args, kwargs, self.watcher.region_device())
        if kernel is not None:
            self.watcher.flag(kernel.name, kernel.dtype)

    def after(self, args: Any, kwargs: Any, result: Any) -> None:
        """Look for casts that were not made anew, and follow what was built on the host."""
        watcher, name = self.watcher, self.watcher.call.name
        if watcher.casts.is_stale(name, (args, kwargs)) and watcher.casts.region is not None:
            watcher.sight(Act.STALE_WEIGHTS, site=watcher.casts.region)
        if name in FACTORIES:
            watcher.built.built(name, result, watcher.here())
        elif name in MOVES:
            site = watcher.built.moved(name, args, result)
            if site is not None:
                size = result.numel() * result.element_size()
                watcher.sight_own(Act.MOVED_FACTORY, size=size, site=site)

    def compare(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Look at the dtypes of what went in and what came out."""
        if not isinstance(result, torch.Tensor) or not result.is_floating_point():
            return
        if result.dtype == torch.float16 and func.__name__ in NUMBERS_OF:
            number = vanishing(func.__name__, args, kwargs)
            if number is not None:
                self.watcher.sight_own(Act.VANISHING, f"{number:g}")
        if func in (torch.where, torch.Tensor.where) and result.dtype == torch.float32:
            dtypes = dtypes_of(args, kwargs)
            if dtypes - {torch.float32} and dtypes.issubset({torch.float32, *HALF}):
                size = result.numel() * result.element_size()
                self.watcher.sight(Act.MIXED_WHERE, in_words(dtypes), size)
        elif result.dtype == torch.float64 and self.watcher.call.region and result.dim():
            dtypes = dtypes_of(args, kwargs)
            promoted = torch.float64 in dtypes and len(dtypes) > 1
            if promoted and self.watcher.on_device(result):
                size = result.numel() * result.element_size()
                self.watcher.sight(Act.FLOAT64, in_words(dtypes), size)


def dtypes_of(*nests: Any) -> set[torch.dtype]:
    """The floating dtypes of tensors with dimensions: one without decides no other dtype."""
    return {
        leaf.dtype
        for leaf in tree_leaves(nests)
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.dim()
    }


def in_words(dtypes: Iterable[torch.dtype]) -> str:
    return " and ".join(sorted(map(short, dtypes)))


# ------------------------------------------------------------------------------- the protocol


@dataclass
class GradientProtocol:
    """Follows gradients from backward passes to steps.

    Args:
        watcher: hears what is wrong.
        multiplied: the nodes that multiply by a scale, whose backward pass is awaited.
        scaled: the parameters whose gradients are multiplied by it. They are not kept alive: an
            input that takes a gradient would be, of each batch.
        stepped: likewise, those with gradients that a scaler has made a step with.
        plain: likewise, those with gradients of a loss that was not, and where that happened.
        stepping: whether a scaler makes the step.
        steps_before: how many steps its optimizer had made before.
    """

    watcher: Watcher
    multiplied: list[Any] = field(default_factory=list)
    scaled: MutableMapping[torch.Tensor, bool] = field(default_factory=WeakTensorKeyDictionary)
    stepped: MutableMapping[torch.Tensor, bool] = field(default_factory=WeakTensorKeyDictionary)
    plain: MutableMapping[torch.Tensor, UserExpression] = field(
        default_factory=WeakTensorKeyDictionary
    )
    stepping: bool = False
    steps_before: int = 0

    def made_scaler(self, *_: Any) -> None:
        self.watcher.sight_own(Act.SCALER_MADE)

    def after_scale(self, scaler: Any, result: Any) -> None:
        if scaler.is_enabled():
            roots = (leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
            self.multiplied += [root.grad_fn for root in roots if root.grad_fn is not None]
            del self.multiplied[:-KEPT_NODES]

    def before_backward(self, tensors: Any) -> None:
        low = region()
        if low:
            self.watcher.sight(Act.BACKWARD_IN_REGION, low)
        roots = [leaf for leaf in tree_leaves(tensors) if isinstance(leaf, torch.Tensor)]
        near = set(islice(nodes_of(roots), NEAR))
        scaled = [node for node in self.multiplied if node in near]
        self.multiplied = [node for node in self.multiplied if node not in near]
        site = self.watcher.here()
        for leaf in leaves_of(roots):
            self.stepped.pop(leaf, None)
            if scaled:
                self.scaled[leaf] = True
                self.plain.pop(leaf, None)
            elif site is not None:
                self.plain[leaf] = site

    def before_scaler_step(self, scaler: Any, optimizer: Any) -> None:
        self.stepping = True
        self.steps_before = self.watcher.steps_of.get(id(optimizer), 0)
        if not scaler.is_enabled():
            return
        owned = [p for p in parameters_of(optimizer) if p in self.plain]
        for site in {self.plain[p] for p in owned if p.grad is not None}:
            self.watcher.sight(Act.BACKWARD_PAST_SCALER, site=site)

    def after_scaler_step(self, scaler: Any, optimizer: Any) -> None:
        self.stepping = False
        for parameter in parameters_of(optimizer) if scaler.is_enabled() else ():
            self.stepped[parameter] = True
        self.watcher.skipped += self.watcher.steps_of.get(id(optimizer), 0) == self.steps_before

    def before_step(self, optimizer: Any, *_: Any) -> None:
        self.watcher.events.note(EventKind.STEP, type(optimizer).__name__, subject=optimizer)
        low = region()
        if low:
            self.watcher.sight(Act.STEP_IN_REGION, low)
        if not self.stepping and self.has_scaled(parameters_of(optimizer)):
            self.watcher.sight(Act.STEP_PAST_SCALER)
        elif not self.stepping and has_gradient(self.stepped, parameters_of(optimizer)):
            self.watcher.sight(Act.STEP_AGAIN)
        eps = epsilon_of_zero(optimizer)
        if eps is not None:
            self.watcher.sight(Act.ADAM_ON_HALF, f"{eps:g}")

    def after_step(self, optimizer: Any, *_: Any) -> None:
        counts = self.watcher.steps_of
        counts[id(optimizer)] = counts.get(id(optimizer), 0) + 1

    def before_clip(self, parameters: Iterable[torch.Tensor]) -> None:
        if self.has_scaled(parameters):
            self.watcher.sight(Act.SCALED_CLIP)

    def has_scaled(self, parameters: Iterable[torch.Tensor]) -> bool:
        return has_gradient(self.scaled, parameters)

    def divided(self, _: Any, optimizer: Any) -> None:
        """The gradients of an optimizer were divided by the scale."""
        for parameter in parameters_of(optimizer):
            self.scaled.pop(parameter, None)

    def cleared(self, optimizer: Any, *_: Any) -> None:
        """The gradients of an optimizer are gone."""
        for parameter in parameters_of(optimizer):
            self.scaled.pop(parameter, None)
            self.stepped.pop(parameter, None)
            self.plain.pop(parameter, None)


def has_gradient(
    tensors: MutableMapping[torch.Tensor, bool], parameters: Iterable[torch.Tensor]
) -> bool:
    """Whether one of these parameters is among the tensors, and has a gradient."""
    return any(p in tensors and p.grad is not None for p in parameters)


def epsilon_of_zero(optimizer: Any) -> float | None:
    """The `eps` of an optimizer of the kin of Adam that is 0 in the float16 of its parameters.

    One that is fused computes in float32, and one that is capturable scales it (torch 2.13,
    optim/adam.py).
    """
    if not isinstance(optimizer, KIN_OF_ADAM):
        return None
    for group in optimizer.param_groups:
        eps = group.get("eps")
        if not isinstance(eps, float) or group.get("fused") or group.get("capturable"):
            continue
        stepped = (p for p in group["params"] if p.grad is not None)
        if 0 < eps <= MOST_OF_ZERO and any(p.dtype == torch.float16 for p in stepped):
            return eps
    return None


def parameters_of(optimizer: Any) -> Iterator[torch.Tensor]:
    return (each for group in optimizer.param_groups for each in group["params"])


Listener = Callable[..., None]


def followed(function: Callable[..., Any], before: Listener | None, after: Listener | None) -> Any:
    """A method with its arguments reported before and after it."""

    @wraps(function)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        first = (*args, *kwargs.values())[:1]
        if before is not None:
            before(self, *first)
        try:
            return function(self, *args, **kwargs)
        finally:
            if after is not None:
                after(self, *first)

    return called


def scaling(function: Callable[..., Any], protocol: GradientProtocol) -> Any:
    """The method `scale`, with its result reported."""

    @wraps(function)
    def called(self: Any, outputs: Any) -> Any:
        result = function(self, outputs)
        protocol.after_scale(self, result)
        return result

    return called


def clipping(function: Callable[..., Any], protocol: GradientProtocol) -> Any:
    """A function that clips the gradients of its first argument."""

    @wraps(function)
    def called(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        one = isinstance(parameters, torch.Tensor)
        parameters = parameters if one else list(parameters)
        protocol.before_clip([parameters] if one else parameters)
        return function(parameters, *args, **kwargs)

    return called


def passing_back(function: Callable[..., Any], protocol: GradientProtocol) -> Any:
    """`torch.autograd.backward`, with its roots reported."""

    @wraps(function)
    def called(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        protocol.before_backward(tensors)
        return function(tensors, *args, **kwargs)

    return called


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Watch the code inside, which runs on a back end that the watcher records."""
    protocol = GradientProtocol(watcher)
    scaler, optimizer = torch.amp.GradScaler, torch.optim.Optimizer
    utils = torch.nn.utils
    with ExitStack() as stack:

        def replace(owner: Any, name: str, value: Any) -> None:
            stack.enter_context(mock.patch.object(owner, name, value))

        replace(scaler, "__init__", followed(scaler.__init__, None, protocol.made_scaler))
        replace(scaler, "scale", scaling(scaler.scale, protocol))
        replace(scaler, "unscale_", followed(scaler.unscale_, None, protocol.divided))
        replace(
            scaler,
            "step",
            followed(scaler.step, protocol.before_scaler_step, protocol.after_scaler_step),
        )
        replace(optimizer, "zero_grad", followed(optimizer.zero_grad, None, protocol.cleared))
        replace(torch.autograd, "backward", passing_back(torch.autograd.backward, protocol))
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            clip = clipping(getattr(utils, name), protocol)
            replace(utils, name, clip)
            replace(utils.clip_grad, name, clip)
        for handle in (
            register_optimizer_step_pre_hook(protocol.before_step),
            register_optimizer_step_post_hook(protocol.after_step),
        ):
            stack.callback(handle.remove)
        events = watcher.events
        stack.enter_context(telling(events.note))
        stack.enter_context(following(watcher.modules, events.before_call, events.after_call))
        stack.enter_context(keeping(watcher.casts, watcher.here))
        stack.enter_context(CallWatcher(watcher))
        yield
