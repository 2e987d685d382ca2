"""Write down the events of one step of training, in their order.

Which one is the second, if there are two: the first has moved the model to its device. After that
nothing is written down any more, so that a long run costs no more than a short one.

A step ends with the last line of its loop, not with the step of the optimizer: the next one begins
where a line is passed again that was passed before that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import islice
from typing import Any, Protocol
from unittest import mock

import torch
from torch.utils._pytree import tree_leaves

from amplint_verify.recording.events import Event, EventKind, ModuleDtypes, Timeline
from amplint_verify.recording.modules import ModuleCalls
from amplint_verify.recording.observation import OperationRow
from amplint_verify.recording.record import LineFinder, frames
from amplint_verify.recording.sightings import ModulePath
from amplint_verify.torch_names import aten, present

STEPS = 2  # that are written down; the first one stands where there is no second
MOST_EVENTS = 5000  # of a step: fifty in each of a hundred layers; more of them nobody reads
MOST_MODULES = 2000  # as many as the largest models of vision have
LINES = 5  # of the calls that led to an event, which distinguish one pass of a line from another

# The functions of torch by which a program asks for a cast.
CASTING = frozenset(
    {
        "as_tensor",
        "bfloat16",
        "copy_",
        "cpu",
        "cuda",
        "double",
        "float",
        "half",
        "new_tensor",
        "tensor",
        "to",
        "type",
        "type_as",
    }
)

Lines = tuple[tuple[str, int], ...]


class WatchedPart(Protocol):
    """The part of a watcher that this needs."""

    places: LineFinder
    modules: ModuleCalls

    @property
    def steps(self) -> int:
        """How many steps of training were made."""

    def call_and_region(self) -> tuple[str, str]:
        """The function of torch that is being called, and the dtype of the region around."""


@dataclass
class TimelineStep:
    """The events of one step.

    Args:
        first: as in `Timeline`.
        before: what the step before it has passed; empty for the first.
        passed: what was passed until an optimizer has made its step.
        after: what was passed from then on.
    """

    first: int
    before: frozenset[Hashable] = frozenset()
    passed: set[Hashable] = field(default_factory=set)
    after: set[Hashable] = field(default_factory=set)
    has_stepped: bool = False
    events: list[Event] = field(default_factory=list)
    left_out: int = 0
    modules: dict[ModulePath, ModuleDtypes] = field(default_factory=dict)
    casts: Counter[tuple[ModulePath, EventKind]] = field(default_factory=Counter)
    unlisted: int = 0

    def add(self, event: Event) -> None:
        """Keep an event, as one with the last if they are equal."""
        last = self.events[-1] if self.events else None
        if last is not None and replace(last, count=event.count, size=event.size) == event:
            self.events[-1] = replace(last, count=last.count + 1, size=last.size + event.size)
        elif len(self.events) < MOST_EVENTS:
            self.events.append(event)
        else:
            self.left_out += 1

    def list(self, module: ModulePath) -> None:
        """Give a module its place in the order of calls."""
        if module in self.modules:
            return
        if len(self.modules) < MOST_MODULES:
            self.modules[module] = ModuleDtypes(module)
        else:
            self.unlisted += 1

    def called(self, call: ModuleDtypes) -> None:
        """Add what a call has shown of a module that is listed."""
        earlier = self.modules.get(call.module)
        if earlier is not None:
            self.modules[call.module] = together(earlier, call)

    def timeline(self, steps: int) -> Timeline:
        modules = (
            replace(
                each,
                casts=self.casts[each.module, EventKind.CAST],
                own_casts=self.casts[each.module, EventKind.OWN_CAST],
            )
            for each in self.modules.values()
        )
        return Timeline(
            self.first, steps, tuple(self.events), self.left_out, tuple(modules), self.unlisted
        )


def together(one: ModuleDtypes, other: ModuleDtypes) -> ModuleDtypes:
    """Two calls of a module, as one."""
    return replace(
        other,
        inputs=tuple(sorted({*one.inputs, *other.inputs})),
        outputs=tuple(sorted({*one.outputs, *other.outputs})),
        calls=one.calls + other.calls,
    )


class TimelineWriter:
    """Writes down the first steps of a program.

    Args:
        watched: knows where the program is.
        is_on: whether anything is to be written down.
    """

    def __init__(self, watched: WatchedPart, is_on: bool) -> None:
        self.watched = watched
        self.is_on = is_on
        self.clear()

    def clear(self) -> None:
        """Forget all that was written down."""
        self.done: list[Timeline] = []
        self.step = TimelineStep(1)

    @property
    def is_open(self) -> bool:
        return self.is_on and len(self.done) < STEPS

    def note(
        self,
        kind: EventKind,
        detail: str = "",
        size: int = 0,
        subject: object = None,
        direct: bool = True,
    ) -> None:
        """Write down an event.

        Args:
            subject: what it is done to: several optimizers may take turns at one line.
            direct: as in `Event`.
        """
        if not self.is_open:
            return
        lines = self.lines()
        module = self.watched.modules.here()
        if direct and (module is None or kind is EventKind.CALL):
            self.passing((kind, lines, id(subject)))
            if not self.is_open:
                return
        if kind is EventKind.STEP:
            self.step.has_stepped = True
        if module is not None and kind in (EventKind.CAST, EventKind.OWN_CAST):
            self.step.casts[module, kind] += 1
        name, region = self.watched.call_and_region()
        path, row = lines[0] if lines else ("", 0)
        self.step.add(Event(kind, detail, name, path, row, direct, module, region, size=size))

    def lines(self) -> Lines:
        """The lines of the project that led here, the innermost first."""
        path = self.watched.places.path
        asking = ((path(frame.f_code), frame.f_lineno) for frame in frames())
        return tuple(islice(((at, row) for at, row in asking if at is not None), LINES))

    def passing(self, key: Hashable) -> None:
        """Begin a new step where a line is passed for the second time; and where one is passed that
        the step before has not passed: after the last step of a loop, the program goes on."""
        step = self.step
        if step.has_stepped and (key in step.passed or (step.before and key not in step.before)):
            steps = self.watched.steps
            self.done.append(step.timeline(steps))
            self.step = step = TimelineStep(steps + 1, frozenset(step.passed | step.after))
        (step.after if step.has_stepped else step.passed).add(key)

    def timeline(self) -> Timeline | None:
        """The step to show: the last in which an optimizer has made its own."""
        if self.done and not (self.is_open and self.step.has_stepped):
            return self.done[-1]
        return self.step.timeline(self.watched.steps) if self.is_on else None

    # --------------------------------------------------------------------------- what happens

    def operation(self, func: Any, args: Any, result: Any) -> None:
        """Write down an operation if it casts."""
        if not self.is_open:
            return
        packet = func.overloadpacket
        if packet is aten._to_copy:
            source, target = args[0], result
        elif packet is aten.copy_:
            target, source = args[0], args[1]
        else:
            return
        if source.dtype == target.dtype:
            return
        if not (source.is_floating_point() and target.is_floating_point()):
            return
        name, region = self.watched.call_and_region()
        kind = EventKind.CAST if region and name not in CASTING else EventKind.OWN_CAST
        if torch._C._current_graph_task_id() != -1:
            kind = EventKind.GRADIENT_CAST
        size = target.numel() * target.element_size()
        dtypes = f"{short(source.dtype)} → {short(target.dtype)}"
        self.note(kind, dtypes, size, direct=self.watched.places.here().direct)

    def waited(self, row: OperationRow) -> None:
        """Write down an operation that makes the host wait."""
        if row.wait is not None and row.wait.blocks:
            self.note(EventKind.WAIT, row.wait.value, direct=row.direct)

    def before_call(self, module: torch.nn.Module, args: Any) -> None:
        """The call of a module has begun."""
        if not self.is_open:
            return
        modules = self.watched.modules
        if len(modules.calls) == 1:
            self.note(EventKind.CALL, ", ".join(words(args)), subject=module)
        self.step.list(modules.path(module))

    def after_call(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        """The call of a module has ended."""
        if self.is_open:
            path = self.watched.modules.path(module)
            own = module.parameters(recurse=False)
            self.step.called(
                ModuleDtypes(path, words(args), words(output), words(list(own)), calls=1)
            )


def words(values: Any) -> tuple[str, ...]:
    """The dtypes of the tensors in a nest of lists, tuples and dicts."""
    dtypes = {leaf.dtype for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)}
    return tuple(sorted(map(short, dtypes)))


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# ------------------------------------------------------------------------------- what is replaced


Note = Callable[..., None]
OF_SCALER = {
    "scale": EventKind.SCALE,
    "unscale_": EventKind.UNSCALE,
    "step": EventKind.SCALER_STEP,
    "update": EventKind.UPDATE,
}
CLIPS = ("clip_grad_norm_", "clip_grad_value_")


def noted(function: Callable[..., Any], note: Note, kind: EventKind) -> Any:
    """A function each of whose calls is an event."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        subject = next((each for each in reversed(args[:2]) if is_optimizer(each)), None)
        detail = type(subject).__name__ if subject is not None else ""
        note(kind, detail, subject=subject)
        return function(*args, **kwargs)

    return called


def is_optimizer(value: object) -> bool:
    return isinstance(value, torch.optim.Optimizer)


def entering(function: Callable[..., Any], note: Note) -> Any:
    """`autocast.__enter__`; the region is reported once it is entered."""

    @wraps(function)
    def enter(self: Any) -> Any:
        result = function(self)
        note(EventKind.REGION_ON, low(self))
        return result

    return enter


def leaving(function: Callable[..., Any], note: Note) -> Any:
    """`autocast.__exit__`; reported while the region is still on."""

    @wraps(function)
    def leave(self: Any, *args: Any) -> Any:
        note(EventKind.REGION_OFF, low(self))
        return function(self, *args)

    return leave


def low(autocast: Any) -> str:
    """The dtype of a region; "" of one that is off."""
    return short(autocast.fast_dtype) if autocast._enabled else ""


@contextmanager
def telling(note: Note) -> Iterator[None]:
    """Report regions, backward passes, and what scalers and optimizers are asked for.

    The steps of optimizers are reported by hooks of torch's, which see those of a subclass too.
    """
    autocast, scaler = torch.amp.autocast_mode.autocast, torch.amp.GradScaler
    replaced: list[tuple[Any, str, Any]] = [
        (autocast, "__enter__", entering(autocast.__enter__, note)),
        (autocast, "__exit__", leaving(autocast.__exit__, note)),
        (torch.autograd, "backward", noted(torch.autograd.backward, note, EventKind.BACKWARD)),
        (
            torch.optim.Optimizer,
            "zero_grad",
            noted(torch.optim.Optimizer.zero_grad, note, EventKind.ZERO_GRAD),
        ),
    ]
    for name, method in present(scaler, OF_SCALER).items():
        replaced.append((scaler, name, noted(method, note, OF_SCALER[name])))
    for name, function in present(torch.nn.utils, CLIPS).items():
        clip = noted(function, note, EventKind.CLIP)
        replaced += [(torch.nn.utils, name, clip), (torch.nn.utils.clip_grad, name, clip)]
    with ExitStack() as stack:
        for owner, name, value in replaced:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield
